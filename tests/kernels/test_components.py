"""Components of runs: against flooding, and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from calipers.kernels import runs
from calipers.kernels.components import NEIGHBOURS, components
from reference import masks as slow

RANK = {"faces": 1, "edges": 2, "full": 3}


def labelled(mask: np.ndarray, connectivity: str) -> np.ndarray:
    start, length = runs.find(mask)
    number = components(start, length, np.array(mask.shape[::-1]), connectivity)
    return runs.fill(start, length, number + 1, mask.shape)


def random_mask(seed: int, largest: int) -> np.ndarray:
    random = np.random.default_rng([13, seed])
    shape = random.integers(1, largest, 2 + seed % 2)
    return random.random(shape) < random.choice([0.05, 0.2, 0.4, 0.7])


@pytest.mark.parametrize("connectivity", NEIGHBOURS)
def test_components_equal_the_twin(connectivity: str) -> None:
    for seed in range(40):
        mask = random_mask(seed, 8)
        assert (labelled(mask, connectivity) == slow.components(mask, connectivity)).all(), seed


@pytest.mark.parametrize("connectivity", NEIGHBOURS)
def test_components_equal_those_of_scipy(connectivity: str) -> None:
    for seed in range(100):
        mask = random_mask(seed, 40)
        rank = min(RANK[connectivity], mask.ndim)
        theirs, _ = ndimage.label(mask, ndimage.generate_binary_structure(mask.ndim, rank))
        assert (labelled(mask, connectivity) == theirs).all(), seed


def test_a_diagonal_hangs_together_by_its_corners() -> None:
    diagonal = np.eye(4, dtype=bool)
    assert labelled(diagonal, "full").max() == 1
    assert labelled(diagonal, "faces").max() == 4
    corner = np.zeros((2, 2, 2), bool)
    corner[0, 0, 0] = corner[1, 1, 1] = True
    assert [labelled(corner, name).max() for name in ("faces", "edges", "full")] == [2, 2, 1]
    edge = np.zeros((2, 2, 2), bool)
    edge[0, 0, 0] = edge[1, 1, 0] = True
    assert [labelled(edge, name).max() for name in ("faces", "edges", "full")] == [2, 1, 1]


def test_the_end_of_a_row_does_not_touch_the_next_one() -> None:
    mask = np.zeros((3, 5), bool)
    mask[0, 4] = mask[1, 0] = mask[2, 4] = True
    assert labelled(mask, "full").max() == 3


def test_values_keep_components_apart() -> None:
    labels = np.array([[1, 1, 2], [0, 2, 2], [2, 0, 1]])
    start, length, value = runs.of_labels(labels)
    number = components(start, length, np.array([3, 3]), "full", value)
    assert (runs.fill(start, length, number + 1, labels.shape) == [[1, 1, 2], [0, 2, 2], [2, 0, 3]]).all()


def test_nothing_has_no_components() -> None:
    assert len(components(np.zeros(0, np.int64), np.zeros(0, np.int64), np.array([3, 3]), "full")) == 0
