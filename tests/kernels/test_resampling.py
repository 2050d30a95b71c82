"""Draws as weights of images, and sums of weights: exact on both routes, whatever the weight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calipers.kernels import resampling, route

both_routes = pytest.mark.usefixtures("kernel_route")


@both_routes
@pytest.mark.parametrize(("most", "kind"), [(255, np.uint8), (256, np.int64), (70_000, np.int64)])
def test_weights_that_do_not_fit_into_a_byte_are_kept(most: int, kind: type) -> None:
    drawn = [np.ones(3, np.int64), np.zeros(most, np.int64), np.ones(2, np.int64)]
    found = resampling.spread(drawn, 3, 2, np.array([0, 1, 1]))
    assert found.tolist() == [[0, 3, 3], [most, 0, 0], [0, 2, 2]]
    assert found.dtype == kind


@given(st.lists(st.lists(st.integers(0, 4), max_size=600), min_size=1, max_size=5), st.lists(st.integers(0, 4)))
@settings(max_examples=60, deadline=None)
def test_both_routes_count_the_same(drawn: list[list[int]], code: list[int]) -> None:
    found = []
    for name in ("numpy", "native"):
        with route.forced(name):
            entries = [np.array(entry, np.int64) for entry in drawn]
            found.append(resampling.spread(entries, len(entries), 5, np.array(code, np.int64)))
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0].dtype == found[1].dtype
    expected = [[entry.count(unit) for unit in code] for entry in drawn]
    np.testing.assert_array_equal(found[0], np.array(expected).reshape(len(drawn), len(code)))


@both_routes
@pytest.mark.parametrize("most", [1, 255, 256, 10**9])
@pytest.mark.parametrize("n_replicates", [1, 63, 64, 65])
def test_cell_sums_are_exact_for_any_weight(n_replicates: int, most: int) -> None:
    random = np.random.default_rng(most)
    cell, image = random.integers(0, 6, 30).astype(np.int32), random.integers(0, 5, 30).astype(np.int32)
    weights = random.integers(0, most + 1, (n_replicates, 5))
    found = resampling.cell_sums(cell, image, weights, 7)
    expected = [[int(weight[image[cell == c]].sum()) for c in range(7)] for weight in weights]
    np.testing.assert_array_equal(found, expected)
