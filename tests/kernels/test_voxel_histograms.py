"""Figures from histograms of voxels: exact where a bin holds one score, enclosed by bounds
elsewhere.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.kernels import route, voxel_ranking, voxels
from seeds import looped, looped_seeds

pytestmark = pytest.mark.usefixtures("kernel_route")

VOXELS = st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=40)
SLACK = 1e-12


def arrays(found: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([s / 8 for s, _ in found]), np.array([f for _, f in found], np.bool_)


def table(scores: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positives, negatives and whether a bin is inexact."""
    found = voxels.histogram(scores, positive)
    return found.positives, found.negatives, found.lowest < found.highest


@given(VOXELS)
def test_one_score_per_bin_gives_the_exact_figures(found: list[tuple[int, bool]]) -> None:
    scores, positive = arrays(found)
    sides = voxel_ranking.sides(scores, positive)
    exact, counts = voxel_ranking.ranking_figures(sides), voxels.histogram(scores, positive)
    pooled = voxels.from_histograms(counts.positives[None], counts.negatives[None])
    for name in ("auroc", "ap", "dice", "iou"):
        expected = getattr(exact, name)[0]
        assert getattr(pooled, name)[0] == pytest.approx(expected, abs=1e-14, nan_ok=True), name
    at_rate = voxel_ranking.at_false_positive_rate(sides, 0.05).dice[0]
    assert pooled.rate_dice[0] == pytest.approx(at_rate, abs=1e-14, nan_ok=True)
    if positive.any():
        assert counts.lowest[pooled.bin[0]] == exact.threshold[0]
    else:
        assert pooled.bin[0] == -1


def test_hand_values() -> None:
    pooled = voxels.from_histograms(np.array([[1, 0, 1, 1]]), np.array([[0, 1, 1, 0]]))
    assert pooled.auroc[0] == pytest.approx((2 + 1.5 + 0) / 6, abs=1e-15)
    assert pooled.ap[0] == pytest.approx((1 + 2 / 3 + 3 / 5) / 3, abs=1e-15)
    assert pooled.dice[0] == pytest.approx(3 * 2 / (3 + 2 + 3), abs=1e-15)
    assert pooled.bin[0] == 0
    assert pooled.rate_dice[0] == pytest.approx(
        2 / 4, abs=1e-15
    )  # only the highest bin is free of negatives


def test_no_bins_and_no_replicates() -> None:
    nothing = voxels.from_histograms(np.zeros((3, 0)), np.zeros((3, 0)))
    assert all(
        np.isnan(column).all()
        for column in (nothing.auroc, nothing.ap, nothing.dice, nothing.rate_dice)
    )
    assert len(voxels.from_histograms(np.zeros((0, 5)), np.zeros((0, 5))).ap) == 0
    bounds = voxels.bounds(np.zeros(0), np.zeros(0), np.zeros(0, np.bool_))
    assert np.isnan([*bounds.auroc, *bounds.ap]).all()


def test_a_table_wider_than_a_piece_is_worked_off_row_by_row() -> None:
    rng = np.random.default_rng(1)
    positives, negatives = rng.integers(0, 3, (2, 5, voxels.BINS_AT_ONCE // 2 + 1))
    together = voxels.from_histograms(positives, negatives)
    for r in range(5):
        alone = voxels.from_histograms(positives[r : r + 1], negatives[r : r + 1])
        assert [column[r] for column in together] == [column[0] for column in alone]


@looped("seed", range(30))
def test_both_routes_give_the_same_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 6)), int(rng.choice([1, 7, 3000])))
    most = int(rng.choice([2, 5, 10**9]))
    positives, negatives = rng.integers(0, most, (2, *shape)) * (rng.random((2, *shape)) < 0.7)
    positives[0], negatives[-1] = (0, 0) if seed % 5 == 0 else (positives[0], negatives[-1])
    rate, inexact, results = (
        float(rng.choice([0.0, 0.05, 0.5, 1.0])),
        rng.random(shape[1]) < 0.5,
        [],
    )
    for name in ("numpy", "native"):
        with route.forced(name):
            tables = positives.astype(np.float64), negatives.astype(np.float64)
            found = (
                *voxels.sums(*tables, inexact, rate),
                *voxels.from_histograms(*tables, rate, inexact),
            )
            results.append(
                [(array.dtype, np.ascontiguousarray(array).tobytes()) for array in found]
            )
    assert results[0] == results[1]


@given(st.lists(VOXELS, min_size=1, max_size=4), st.integers(0, 2**20))
def test_a_weight_is_listing_the_image_so_often(
    images: list[list[tuple[int, bool]]], seed: int
) -> None:
    weights = np.random.default_rng(seed).integers(0, 4, (3, len(images)))
    found = [voxels.histogram(*arrays(image)) for image in images]
    columns = [
        np.concatenate([getattr(h, name) for h in found])
        for name in ("bin", "positives", "negatives")
    ]
    names, bins = np.unique(columns[0], return_inverse=True)
    image = np.repeat(np.arange(len(images)), [len(h.bin) for h in found])
    sums = []
    for counts in columns[1:]:
        table = np.zeros((len(images), len(names)))
        table[image, bins] = counts
        sums.append(weights @ table)
    pooled = voxels.from_histograms(*sums)
    for r, row in enumerate(weights):
        scores, positive = arrays(
            [voxel for image, times in zip(images, row) for voxel in image * int(times)]
        )
        exact = voxel_ranking.exact(scores[positive], scores[~positive])
        assert (pooled.auroc[r], pooled.ap[r]) == pytest.approx(exact, abs=1e-13, nan_ok=True)


@looped_seeds(100, default=40)
def test_the_exact_figures_lie_within_the_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 3000))
    scores = rng.random(n) ** rng.choice([0.01, 1, 20])
    scores[rng.random(n) < rng.choice([0, 0.5])] = rng.choice([0.0, 0.5, 1.0])
    positive = rng.random(n) < rng.choice([0.02, 0.5, 0.98]) * (0.5 + scores / 2)
    positive[:2] = True, False
    # Coarser bins, so that many are shared.
    shift = int(rng.choice([0, 8, 12, 16]))
    code = voxels.bins_of(scores) >> shift
    names, bins = np.unique(code, return_inverse=True)
    positives = np.bincount(bins, weights=positive)
    negatives = np.bincount(bins, weights=~positive)
    inexact = np.array([len(np.unique(scores[bins == b])) > 1 for b in range(len(names))])
    bounds = voxels.bounds(positives, negatives, inexact)
    auroc, ap = voxel_ranking.exact(scores[positive], scores[~positive])
    assert bounds.auroc[0] - SLACK <= auroc <= bounds.auroc[1] + SLACK
    assert bounds.ap[0] - SLACK <= ap <= bounds.ap[1] + SLACK
    for flags in (None, inexact):
        middle = voxels.from_histograms(positives[None], negatives[None], inexact=flags)
        assert bounds.auroc[0] - SLACK <= middle.auroc[0] <= bounds.auroc[1] + SLACK
        assert bounds.ap[0] - SLACK <= middle.ap[0] <= bounds.ap[1] + SLACK


@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 300), st.booleans()), min_size=1, max_size=8
    )
)
def test_evenly_mixed_bins_stay_within_the_bounds(bins: list[tuple[int, int, bool]]) -> None:
    positives, negatives = np.array([p for p, _, _ in bins]), np.array([n for _, n, _ in bins])
    inexact = np.array([flag for _, _, flag in bins]) & (positives + negatives > 1)
    bounds = voxels.bounds(positives, negatives, inexact)
    middle = voxels.from_histograms(positives[None], negatives[None], inexact=inexact).ap[0]
    assert np.isnan(middle) or bounds.ap[0] - SLACK <= middle <= bounds.ap[1] + SLACK


def test_evenly_mixed_bins_come_closer_than_bins_of_one_score() -> None:
    rng = np.random.default_rng(4)
    positive = rng.random(200_000) < 0.05
    scores = 1 / (1 + np.exp(-rng.normal(np.where(positive, 2, -2), 2)))
    names, bins = np.unique(voxels.bins_of(scores) >> 3, return_inverse=True)
    tables = np.bincount(bins, weights=positive)[None], np.bincount(bins, weights=~positive)[None]
    expected = voxel_ranking.exact(scores[positive], scores[~positive])[1]
    single = voxels.from_histograms(*tables).ap[0]
    mixed = voxels.from_histograms(*tables, inexact=np.ones(len(names), np.bool_)).ap[0]
    assert abs(mixed - expected) < 0.25 * abs(single - expected)
    assert abs(mixed - expected) < 1e-4


def test_an_evenly_mixed_bin_by_hand() -> None:
    # 3 positives and 1 negative above a bin of 5 and 4: at its middle 3 + 3 positives and 1 + 2
    # negatives.
    found = voxels.from_histograms(
        np.array([[5, 3]]), np.array([[4, 1]]), inexact=np.array([True, False])
    )
    assert found.ap[0] == pytest.approx((3 * 3 / 4 + 5 * 6 / 9) / 8, abs=1e-15)


@given(VOXELS)
def test_bounds_meet_where_every_bin_holds_one_score(found: list[tuple[int, bool]]) -> None:
    bounds = voxels.bounds(*table(*arrays(found)))
    scores, positive = arrays(found)
    exact = voxel_ranking.exact(scores[positive], scores[~positive])
    for (low, high), value in zip(bounds, exact):
        assert low == high or np.isnan([low, high]).all()
        assert low == pytest.approx(value, abs=1e-14, nan_ok=True)


def test_bounds_are_reached_by_the_best_and_the_worst_order() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        above, p, n = rng.integers(0, 30, 2), *rng.integers(1, 200, 2)
        positives, negatives = np.array([p, above[0]]), np.array([n, above[1]])
        bounds = voxels.bounds(positives, negatives, np.array([True, False]))
        top = [np.full(k, 0.9) for k in above]
        # Best: all positives of the bin at one score above its negatives. Worst: all below, no two
        # alike.
        best = voxel_ranking.exact(
            np.append(top[0], np.full(p, 0.2)), np.append(top[1], np.full(n, 0.1))
        )
        worst = voxel_ranking.exact(
            np.append(top[0], np.linspace(0.1, 0.15, p)), np.append(top[1], np.full(n, 0.2))
        )
        assert (bounds.auroc[1], bounds.ap[1]) == pytest.approx(best, abs=1e-14)
        assert bounds.auroc[0] == pytest.approx(worst[0], abs=1e-14)
        assert bounds.ap[0] <= worst[1] + SLACK
        assert bounds.ap[0] == pytest.approx(worst[1], abs=0.01)


def test_bins_are_fine_enough_for_narrow_bounds() -> None:
    rng = np.random.default_rng(3)
    n = 300_000
    positive = rng.random(n) < 0.05
    scores = 1 / (1 + np.exp(-rng.normal(np.where(positive, 2, -6), 3)))
    bounds = voxels.bounds(*table(scores, positive))
    assert bounds.auroc[1] - bounds.auroc[0] < 1e-3
    assert bounds.ap[1] - bounds.ap[0] < 2e-3
