"""Objects that share class and fates are counted together, and all are counted."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels import assignment as deciding
from calipers.kernels.assignment import DUPLICATE, FALSE_ALARM, HIT, IGNORED, FateTable
from reference import resampling as slow

pytestmark = pytest.mark.usefixtures("kernel_route")

NOBODY = np.zeros(0, np.int32)


def counted(
    fates: np.ndarray, label: np.ndarray, image: np.ndarray, weights: np.ndarray, n_classes: int
) -> np.ndarray:
    return deciding.totals(FateTable(fates), label, NOBODY, 0, image, weights, n_classes)


@pytest.mark.parametrize("n_views", [1, 7, 8, 9, 63, 64, 65, 130, 200])
def test_sums_of_cells_are_sums_of_objects(n_views: int) -> None:
    random = np.random.default_rng(n_views)
    fates = random.choice([IGNORED, HIT, DUPLICATE, FALSE_ALARM], (n_views, 80)).astype(np.int8)
    fates[:, 40:] = fates[:, :40]  # patterns repeat, so that cells hold several objects
    label, image = random.integers(0, 3, 80).astype(np.int32), random.integers(0, 10, 80)
    weights = random.integers(0, 4, (3, 10))
    found = counted(fates, label, image, weights, 5)
    assert found.shape == (3, n_views, 2, 5)
    for weight, sums in zip(weights, found):
        np.testing.assert_array_equal(
            sums, slow.totals(fates, label.tolist(), weight[image].tolist(), 5)
        )


def test_views_that_differ_in_the_last_one_only_are_told_apart() -> None:
    for n_views in (64, 65, 128, 129):
        fates = np.full((n_views, 2), HIT, np.int8)
        fates[-1, 1] = FALSE_ALARM
        found = counted(fates, np.zeros(2, np.int32), np.arange(2), np.array([[1, 10]]), 1)
        assert found[0, -1, :, 0].tolist() == [1, 11]
        assert (found[0, :-1, :, 0] == 11).all()


def test_ranks_at_the_limit_are_left_out() -> None:
    table, label = FateTable(np.full((1, 4), HIT, np.int8)), np.zeros(4, np.int32)
    rank, image = np.array([0, 3, 1, 2], np.int32), np.arange(4)
    for limit in (2, 1, 9, 4, 3):  # one table serves them all, in any order
        found = deciding.totals(table, label, rank, limit, image, np.array([[1, 1000, 10, 100]]), 1)
        assert found[0, 0].tolist() == [[sum(10**k for k in range(min(limit, 4)))]] * 2


def test_nothing_has_sums_of_zero() -> None:
    found = counted(
        np.zeros((3, 0), np.int8), NOBODY, np.zeros(0, np.int64), np.ones((2, 4), np.int64), 2
    )
    assert found.shape == (2, 3, 2, 2)
    assert not found.any()


@pytest.mark.parametrize("most", [1, 255, 256, 10**9])
@pytest.mark.parametrize("n_replicates", [1, 63, 64, 65, 200])
def test_sums_are_exact_for_any_weight(n_replicates: int, most: int) -> None:
    random = np.random.default_rng(most)
    fates = random.choice([IGNORED, HIT, FALSE_ALARM], (5, 30)).astype(np.int8)
    label, image = random.integers(0, 4, 30).astype(np.int32), random.integers(0, 5, 30)
    weights = random.integers(0, most + 1, (n_replicates, 5))
    found = counted(fates, label, image, weights, 4)
    for weight, sums in zip(weights, found):
        np.testing.assert_array_equal(
            sums, slow.totals(fates, label.tolist(), weight[image].tolist(), 4)
        )
