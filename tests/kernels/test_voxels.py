"""Bins and histograms of voxels against loops, on both routes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.kernels import route, voxels
from reference import voxels as slow

pytestmark = pytest.mark.usefixtures("kernel_route")

UNIT = st.floats(0.0, 1.0)
NARROW = st.floats(0.0, 1.0, width=32)
ENDS = [
    0.0,
    5e-324,
    1e-300,
    2.0**-34,
    2.0**-33,
    2.0**-32,
    1e-9,
    1e-3,
    0.25,
    0.5 - 2**-54,
    0.5,
    0.5 + 2**-53,
    0.75,
]
ENDS += [1 - 2.0**-10, 1 - 2.0**-33, 1 - 2.0**-34, 1 - 2.0**-53, 1.0]


def test_the_ends_have_a_bin_for_themselves() -> None:
    found = voxels.bins_of(np.array([0.0, -0.0, 5e-324, 1 - 2.0**-53, 1.0]))
    assert found.tolist() == [0, 0, 1, 65534, 65535]


def test_octaves_begin_every_thousand_and_twenty_four_bins() -> None:
    below, above = 2.0 ** -np.arange(2, 33), 1 - 2.0 ** -np.arange(2, 33)
    assert voxels.bins_of(below).tolist() == [32768 - 1024 * (k - 1) for k in range(2, 33)]
    assert (voxels.bins_of(below) + voxels.bins_of(above) == 65535).all()
    assert voxels.bins_of(np.array([0.5])).tolist() == [32768]


@pytest.mark.parametrize("score", ENDS)
def test_bins_at_the_edges_equal_the_obvious_ones(score: float) -> None:
    assert voxels.bins_of(np.array([score])).tolist() == [slow.bin_of(score)]


@given(st.lists(UNIT, min_size=1, max_size=30))
def test_bins_equal_the_obvious_ones(scores: list[float]) -> None:
    assert voxels.bins_of(np.array(scores)).tolist() == [slow.bin_of(score) for score in scores]


@given(st.lists(NARROW, max_size=30))
def test_equal_numbers_have_equal_bins_in_both_precisions(scores: list[float]) -> None:
    single = np.array(scores, np.float32)
    assert voxels.bins_of(single).tolist() == voxels.bins_of(single.astype(np.float64)).tolist()


@given(st.lists(UNIT, min_size=2, max_size=30))
def test_bins_keep_the_order(scores: list[float]) -> None:
    assert (np.diff(voxels.bins_of(np.sort(np.array(scores)))) >= 0).all()


@given(UNIT, UNIT)
def test_scores_in_one_bin_are_close(a: float, b: float) -> None:
    first, second = voxels.bins_of(np.array([a, b])).tolist()
    nearer = min(min(x, 1 - x) for x in (a, b))
    if first == second and nearer > 2.0**-32:
        assert abs(a - b) <= nearer / 1024


def test_scores_that_callers_refuse_still_have_a_bin() -> None:
    odd = np.array([-1.0, -np.inf, 2.0, np.inf, np.nan])
    assert (
        voxels.bins_of(odd).tolist()
        == voxels.bins_of(odd.astype(np.float32)).tolist()
        == [0, 0, 65535, 65535, 0]
    )


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_histogram_equals_the_obvious_one(kind: type) -> None:
    rng = np.random.default_rng(3)
    scores = np.concatenate(
        [rng.random(300), rng.random(200) ** 9, [0, 0, -0.0, 1, 1, 0.5]]
    ).astype(kind)
    positive = rng.random(len(scores)) < 0.3
    found, expected = (
        voxels.histogram(scores, positive),
        slow.histogram(scores.tolist(), positive.tolist()),
    )
    assert found.bin.tolist() == list(expected)
    for column, values in zip(found[1:], zip(*expected.values())):
        assert column.tolist() == list(values)


def test_negative_zero_is_zero() -> None:
    found = voxels.histogram(np.array([-0.0, -0.0]), np.array([True, False]))
    assert math.copysign(1, found.lowest[0]) == math.copysign(1, found.highest[0]) == 1


def test_histogram_of_nothing_has_no_bins() -> None:
    found = voxels.histogram(np.zeros((0, 4), np.float32), np.zeros((0, 4), np.bool_))
    assert [len(column) for column in found] == [0] * 5


def test_histogram_does_not_care_for_shape_and_flips() -> None:
    rng = np.random.default_rng(4)
    scores, positive = rng.random((5, 6, 7)).astype(np.float32), rng.random((5, 6, 7)) < 0.5
    whole = voxels.histogram(scores, positive)
    for view in (np.s_[::-1], np.s_[:, ::-1], np.s_[:, :, ::-1]):
        turned = voxels.histogram(scores[view].T, positive[view].T)
        assert all((a == b).all() for a, b in zip(turned, whole))


@given(st.lists(st.tuples(NARROW, st.booleans()), max_size=60), st.integers(0, 60))
def test_histograms_of_parts_add_up(voxel: list[tuple[float, bool]], cut: int) -> None:
    scores, positive = (
        np.array([s for s, _ in voxel], np.float32),
        np.array([f for _, f in voxel], np.bool_),
    )
    whole = voxels.histogram(scores, positive)
    sums = np.zeros((2, voxels.BINS), np.int64)
    for part in (slice(None, cut), slice(cut, None)):
        found = voxels.histogram(scores[part], positive[part])
        sums[0, found.bin] += found.positives
        sums[1, found.bin] += found.negatives
    assert sums[0, whole.bin].tolist() == whole.positives.tolist()
    assert sums[1, whole.bin].tolist() == whole.negatives.tolist()
    assert sums.sum() == len(voxel)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_any_number_of_threads_gives_the_same_bits(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    scores, positive = rng.random(3_000_001).astype(kind), rng.random(3_000_001) < 0.1
    with route.forced("numpy"):
        expected = [
            array.tobytes()
            for array in (voxels.bins_of(scores), *voxels.histogram(scores, positive))
        ]
    for threads in ("1", "3"):
        monkeypatch.setenv("CALIPERS_THREADS", threads)
        found = (voxels.bins_of(scores), *voxels.histogram(scores, positive))
        assert [array.tobytes() for array in found] == expected
