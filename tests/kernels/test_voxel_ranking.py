"""Exact ranking of voxels against loops, on both routes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calipers.kernels import route, voxel_ranking
from reference import voxels as slow

pytestmark = pytest.mark.usefixtures("kernel_route")

# Few distinct scores, so that ties are the rule.
VOXELS = st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=40)


def arrays(found: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([s / 8 for s, _ in found]), np.array([f for _, f in found], np.bool_)


def exact(scores: np.ndarray, positive: np.ndarray) -> tuple[float, float]:
    return voxel_ranking.exact(scores[positive], scores[~positive])


def test_hand_values() -> None:
    scores, positive = (
        np.array([0.9, 0.8, 0.8, 0.5, 0.3]),
        np.array([True, True, False, False, True]),
    )
    auroc, ap = exact(scores, positive)
    assert auroc == pytest.approx((2 + 1.5 + 0) / 6, abs=1e-15)
    assert ap == pytest.approx((1 + 2 / 3 + 3 / 5) / 3, abs=1e-15)
    found = voxel_ranking.ranking_figures(voxel_ranking.sides(scores, positive))
    # TP, FP at .9: 1, 0; at .8: 2, 1; at .3: 3, 2
    assert found.dice[0] == pytest.approx(3 * 2 / (3 + 2 + 3), abs=1e-15)
    assert found.iou[0] == pytest.approx(3 / 5, abs=1e-15)
    assert found.threshold[0] == 0.3


@given(VOXELS)
def test_figures_equal_the_obvious_ones(found: list[tuple[int, bool]]) -> None:
    scores, positive = arrays(found)
    lists = scores.tolist(), positive.tolist()
    expected = (slow.auroc(*lists), slow.average_precision(*lists), *slow.best_overlap(*lists))
    ranked = voxel_ranking.ranking_figures(voxel_ranking.sides(scores, positive))
    assert [float(column[0]) for column in ranked] == pytest.approx(
        expected, abs=1e-14, nan_ok=True
    )
    assert exact(scores, positive) == pytest.approx(expected[:2], abs=1e-14, nan_ok=True)


def test_undefined_without_either_kind() -> None:
    one, nothing = np.array([0.5]), np.zeros(0)
    assert np.isnan(voxel_ranking.exact(nothing, one)).all()
    assert np.isnan(voxel_ranking.exact(nothing, nothing)).all()
    auroc, ap = voxel_ranking.exact(one, nothing)
    assert np.isnan(auroc)
    assert ap == 1.0
    empty = voxel_ranking.ranking_figures(
        voxel_ranking.sides(np.array([0.2, 0.7]), np.zeros(2, np.bool_))
    )
    assert all(np.isnan(column[0]) for column in empty)


def test_of_equally_good_thresholds_the_highest_is_reported() -> None:
    scores, positive = np.array([0.9, 0.5, 0.5, 0.5]), np.array([True, True, False, False])
    found = voxel_ranking.ranking_figures(voxel_ranking.sides(scores, positive))
    assert found.iou[0] == 0.5
    assert found.threshold[0] == 0.9


@given(VOXELS)
def test_only_the_order_matters(found: list[tuple[int, bool]]) -> None:
    scores, positive = arrays(found)
    bent = np.exp(3 * scores) - 5
    assert exact(scores, positive) == pytest.approx(exact(bent, positive), abs=0, nan_ok=True)
    assert exact(scores.astype(np.float32), positive) == pytest.approx(
        exact(scores, positive), abs=0, nan_ok=True
    )


@given(VOXELS, st.integers(2, 4))
def test_listing_all_voxels_several_times_changes_nothing(
    found: list[tuple[int, bool]], times: int
) -> None:
    scores, positive = arrays(found)
    again = exact(np.tile(scores, times), np.tile(positive, times))
    assert again == pytest.approx(exact(scores, positive), abs=1e-14, nan_ok=True)


@given(VOXELS)
def test_turning_scores_and_sides_round_keeps_the_auroc(found: list[tuple[int, bool]]) -> None:
    scores, positive = arrays(found)
    assume(positive.any() and not positive.all())
    assert exact(1 - scores, ~positive)[0] == pytest.approx(exact(scores, positive)[0], abs=1e-15)


def test_sides_are_sorted_inside_of_their_groups() -> None:
    scores = np.array([0.5, 0.1, 0.9, 0.3, 0.2, 0.7], np.float32)
    found = voxel_ranking.sides(scores, np.array([1, 1, 0, 0, 1, 0]), np.array([0, 3, 3, 6]))
    assert found.positives.tolist() == np.array([0.1, 0.5, 0.2], np.float32).tolist()
    assert found.negatives.tolist() == np.array([0.9, 0.3, 0.7], np.float32).tolist()
    assert found.positive_offsets.tolist() == [0, 2, 2, 3]
    assert found.negative_offsets.tolist() == [0, 1, 1, 3]
    assert found.positives.dtype == np.float32
    assert scores[0] == np.float32(0.5)  # the map of the caller is left alone


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slices_are_ranked_one_by_one(axis: int) -> None:
    rng = np.random.default_rng(7)
    scores, positive = rng.integers(0, 20, (4, 5, 6)) / 20, rng.random((4, 5, 6)) < 0.15
    found = voxel_ranking.ranking_figures(voxel_ranking.slices(scores, positive, axis))
    assert len(found.ap) == scores.shape[axis]
    for k in range(scores.shape[axis]):
        one = voxel_ranking.sides(np.take(scores, k, axis), np.take(positive, k, axis))
        alone = voxel_ranking.ranking_figures(one)
        np.testing.assert_array_equal(
            [column[k] for column in found], [column[0] for column in alone]
        )


def test_slices_of_nothing() -> None:
    found = voxel_ranking.ranking_figures(
        voxel_ranking.slices(np.zeros((0, 3, 3)), np.zeros((0, 3, 3), np.bool_), 0)
    )
    assert [len(column) for column in found] == [0] * 5


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_flips_and_turns_change_nothing(axis: int) -> None:
    rng = np.random.default_rng(8)
    scores, positive = rng.integers(0, 20, (4, 5, 6)) / 20, rng.random((4, 5, 6)) < 0.2
    whole = voxel_ranking.ranking_figures(voxel_ranking.sides(scores, positive))
    turned = (np.moveaxis(np.flip(array, axis), axis, 0) for array in (scores, positive))
    assert voxel_ranking.ranking_figures(voxel_ranking.sides(*turned)) == whole


@pytest.mark.parametrize("levels", [3, 5000, 10**7])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_both_routes_give_the_same_bits_beyond_a_piece(levels: int, kind: type) -> None:
    rng = np.random.default_rng(levels)
    n = 2 * voxel_ranking.PIECE + 12_345
    scores = (rng.integers(0, levels, n) / levels).astype(kind)
    positive = rng.random(n) < 0.6
    offsets = np.array([0, 100, 100, 5000, n])
    results = []
    for name in ("numpy", "native"):
        with route.forced(name):
            sides = voxel_ranking.sides(scores, positive, offsets)
            arrays = (*sides, *voxel_ranking.walk(sides), *voxel_ranking.ranking_figures(sides))
            results.append([(array.dtype, array.tobytes()) for array in arrays])
    assert results[0] == results[1]
