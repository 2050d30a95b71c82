"""Overlap at a threshold and curves of voxels, against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.kernels import voxel_ranking
from reference import voxels as slow

VOXELS = st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=40)


def sides(found: list[tuple[int, bool]]) -> voxel_ranking.Sides:
    return voxel_ranking.sides(
        np.array([s / 8 for s, _ in found]), np.array([f for _, f in found], np.bool_)
    )


@given(VOXELS, st.integers(0, 9))
def test_overlap_at_a_threshold_counts_what_is_at_or_above_it(
    found: list[tuple[int, bool]], cut: int
) -> None:
    overlap = voxel_ranking.at_threshold(sides(found), cut / 8)
    tp = sum(flag for score, flag in found if score >= cut)
    fp = sum(not flag for score, flag in found if score >= cut)
    n = sum(flag for _, flag in found)
    expected = (2 * tp / (tp + fp + n), tp / (fp + n)) if n else (np.nan, np.nan)
    assert (overlap.dice[0], overlap.iou[0]) == pytest.approx(expected, abs=1e-15, nan_ok=True)


def test_a_threshold_is_rounded_like_numpy_does() -> None:
    scores = np.array([0.7], np.float32)  # a little below .7
    found = voxel_ranking.sides(scores, np.array([True]))
    assert (scores >= 0.7).all()
    assert voxel_ranking.at_threshold(found, 0.7).dice[0] == 1.0


@given(VOXELS, st.sampled_from([0.0, 0.05, 0.25, 1 / 3, 0.5, 0.9, 1.0]))
def test_overlap_at_a_rate_takes_the_largest_set(
    found: list[tuple[int, bool]], limit: float
) -> None:
    overlap = voxel_ranking.at_false_positive_rate(sides(found), limit)
    expected = slow.dice_at_rate([s / 8 for s, _ in found], [f for _, f in found], limit)
    defined = not np.isnan(expected[0])
    assert overlap.dice[0] == pytest.approx(expected[0], abs=1e-15, nan_ok=True)
    assert not defined or overlap.threshold[0] == expected[1]


def test_overlap_at_a_rate_by_hand() -> None:
    scores = np.concatenate([np.linspace(0.0, 0.99, 100), [0.5, 0.96, 0.97, 1.0]])
    positive = np.arange(104) >= 100
    found = voxel_ranking.at_false_positive_rate(voxel_ranking.sides(scores, positive), 0.05)
    # .95 ... .99 are the five negatives that are allowed
    assert found.threshold[0] == pytest.approx(0.95, abs=1e-12)
    assert found.dice[0] == pytest.approx(2 * 3 / (3 + 5 + 4), abs=1e-15)


def test_nothing_is_taken_where_the_highest_score_is_a_negative() -> None:
    found = voxel_ranking.at_false_positive_rate(
        voxel_ranking.sides(np.array([0.9, 0.5]), np.array([False, True])), 0.05
    )
    assert found.dice[0] == 0.0
    assert found.threshold[0] == np.inf


@given(VOXELS)
def test_a_curve_of_few_scores_has_all_operating_points(found: list[tuple[int, bool]]) -> None:
    curve = voxel_ranking.curve(sides(found))
    expected = slow.points([s / 8 for s, _ in found], [f for _, f in found])
    assert list(zip(curve.threshold[1:], curve.hits[1:], curve.alarms[1:])) == expected
    assert (curve.threshold[0], curve.hits[0], curve.alarms[0]) == (np.inf, 0, 0)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 1.0])
def test_a_long_curve_is_thinned_to_points_that_lie_on_it(share: float) -> None:
    rng = np.random.default_rng(9)
    scores, positive = rng.random(20_000) ** 4, rng.random(20_000) < share
    curve = voxel_ranking.curve(voxel_ranking.sides(scores, positive))
    assert 200 <= len(curve.threshold) <= 512
    assert (np.diff(curve.threshold) < 0).all()
    for t, hits, alarms in zip(curve.threshold, curve.hits, curve.alarms):
        assert hits == np.count_nonzero(scores[positive] >= t)
        assert alarms == np.count_nonzero(scores[~positive] >= t)
    assert (curve.hits[-1], curve.alarms[-1]) == (curve.n_positives, curve.n_negatives)
    for counts, n in ((curve.hits, curve.n_positives), (curve.alarms, curve.n_negatives)):
        assert np.diff(counts).max() <= n / 254 + 1
