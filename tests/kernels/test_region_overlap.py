"""The area under the overlap of regions from counts, by hand and against the kernel that looks at
every voxel.
"""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels.voxel_ranking import area_to_limit, aupro


def of_voxels(scores: np.ndarray, region: np.ndarray, n: int, limit: float) -> float:
    """Count voxels by score, one bin for each, and return the area."""
    bins = np.unique(scores)
    place = np.searchsorted(bins, scores)
    overlap, negatives = np.zeros((1, len(bins))), np.zeros((1, len(bins)))
    for k in range(1, n + 1):
        overlap += np.bincount(place[region == k], minlength=len(bins)) / (region == k).sum()
    negatives += np.bincount(place[region == 0], minlength=len(bins))
    return float(area_to_limit(overlap, np.array([float(n)]), negatives, limit)[0])


def test_by_hand() -> None:
    """A region is half found before any false voxel, and wholly with the one false voxel of two at
    the same score.
    """
    overlap, negatives = np.array([[0.0, 0.5, 0.5]]), np.array([[1.0, 1.0, 0.0]])
    one = np.array([1.0])
    # 1/2 at a rate of 0, a ramp to 1 at 1/2, then 1.
    assert area_to_limit(overlap, one, negatives, 1.0)[0] == pytest.approx(0.5 * 0.75 + 0.5)
    assert area_to_limit(overlap, one, negatives, 0.25)[0] == pytest.approx((0.5 + 0.75) / 2)


@pytest.mark.parametrize("limit", [0.05, 0.3, 1.0])
def test_counts_give_what_voxels_give(limit: float) -> None:
    for seed in range(100):
        random = np.random.default_rng([71, seed])
        n, size = int(random.integers(1, 5)), int(random.integers(8, 60))
        region = random.integers(0, n + 1, size)
        region[: n + 1] = range(n + 1)
        scores = random.integers(0, random.choice([2, 5, 100]), size) / 128
        assert of_voxels(scores, region, n, limit) == pytest.approx(
            aupro(scores, region, limit), abs=1e-12
        ), seed


def test_rows_do_not_see_each_other() -> None:
    random = np.random.default_rng(5)
    overlap, negatives = random.random((6, 9)), random.integers(0, 9, (6, 9)).astype(float)
    regions = overlap.sum(axis=1)
    together = area_to_limit(overlap, regions, negatives, 0.3)
    for row in range(6):
        alone = area_to_limit(
            overlap[row : row + 1], regions[row : row + 1], negatives[row : row + 1], 0.3
        )
        assert alone[0] == together[row]


def test_shares_that_were_rounded_up_do_not_make_more_than_one() -> None:
    overlap = np.array([[0.0, 1 / 3 + 1e-9, 1 / 3 + 1e-9, 1 / 3 + 1e-9]])
    assert area_to_limit(overlap, np.array([1.0]), np.array([[5.0, 0.0, 0.0, 0.0]]), 0.3)[0] == 1.0


def test_without_regions_or_without_negatives_there_is_no_area() -> None:
    found = area_to_limit(
        np.array([[0.0, 0.0], [0.5, 0.5]]),
        np.array([0.0, 1.0]),
        np.array([[1.0, 1.0], [0, 0]]),
        0.3,
    )
    assert np.isnan(found).all()
    assert np.isnan(area_to_limit(np.zeros((1, 0)), np.zeros(1), np.zeros((1, 0)), 0.3)).all()
