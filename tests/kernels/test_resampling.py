"""Draws as weights of images: exact on both routes, whatever the number of units and the weight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calipers.kernels import resampling, route
from reference import resampling as slow

both_routes = pytest.mark.usefixtures("kernel_route")


@both_routes
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 255, 256, 257, 1000, 65_536, 65_537])
@pytest.mark.parametrize("seed", [0, 7, 2**63 + 1])
def test_counts_are_those_of_the_generator(n: int, seed: int) -> None:
    numbers = [0, 1, 63, 10**6]
    found = resampling.uniform_counts(seed, numbers, n)
    assert (found.shape, found.dtype) == ((n, 4), np.uint8)
    np.testing.assert_array_equal(found.T, [slow.draws(seed, b, n) for b in numbers])


@both_routes
@pytest.mark.parametrize("n", [200_003, 1_000_003])
def test_draws_that_are_rejected_are_drawn_again(n: int) -> None:
    """With so many units some of the random bits cannot be divided evenly; dozens of draws are
    repeated.
    """
    np.testing.assert_array_equal(
        resampling.uniform_counts(3, [0, 5], n).T, [slow.draws(3, b, n) for b in (0, 5)]
    )


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
def test_too_few_random_bits_are_noticed() -> None:
    native = route.native()
    few = [np.random.Philox(key=[0, 0]).random_raw(4)]
    assert route.uniform_counts(native, few, 1, 8) is not None  # eight halves of a word
    assert route.uniform_counts(native, few, 1, 9) is None


@pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")
@pytest.mark.parametrize(("n", "fits"), [(128, True), (256, False), (512, False)])
def test_bytes_that_run_over_are_noticed(n: int, fits: bool) -> None:
    same = [
        np.zeros(300, np.uint64)
    ]  # bits of 0 draw the first unit every time; powers of 2 reject nothing
    found = route.uniform_counts(route.native(), same, 1, n)
    assert (found is not None) == fits
    if fits:
        assert found[:, 0].tolist() == [n] + [0] * (n - 1)


@pytest.mark.parametrize(("most", "kind"), [(255, np.uint8), (256, np.int64), (70_000, np.int64)])
def test_weights_that_do_not_fit_into_a_byte_are_kept(most: int, kind: type) -> None:
    drawn = [np.ones(3, np.int64), np.zeros(most, np.int64), np.ones(2, np.int64)]
    counts = resampling.counts(iter(drawn), 3, 2)
    assert counts.tolist() == [[0, most, 0], [3, 0, 2]]
    found = resampling.image_weights(counts, np.array([0, 1, 1]))
    assert found.tolist() == [[0, 3, 3], [most, 0, 0], [0, 2, 2]]
    assert found.dtype == kind


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=600), min_size=1, max_size=5),
    st.lists(st.integers(0, 4)),
)
@settings(max_examples=60, deadline=None)
def test_every_draw_is_counted_for_every_image_of_its_unit(
    drawn: list[list[int]], code: list[int]
) -> None:
    counts = resampling.counts((np.array(entry, np.int64) for entry in drawn), len(drawn), 5)
    found = resampling.image_weights(counts, np.array(code, np.int64))
    expected = [[entry.count(unit) for unit in code] for entry in drawn]
    np.testing.assert_array_equal(found, np.array(expected).reshape(len(drawn), len(code)))
    assert found.dtype == (
        np.int64 if max(map(max, counts.tolist()), default=0) > 255 else np.uint8
    )
