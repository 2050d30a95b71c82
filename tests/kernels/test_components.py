"""Components of runs: against flooding, and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from calipers.kernels import runs
from calipers.kernels.shapes import NEIGHBOURS, components
from reference import masks as slow

pytestmark = pytest.mark.usefixtures("kernel_route")

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
    assert (
        runs.fill(start, length, number + 1, labels.shape) == [[1, 1, 2], [0, 2, 2], [2, 0, 3]]
    ).all()


@pytest.mark.parametrize("connectivity", NEIGHBOURS)
def test_components_of_every_value_by_itself(connectivity: str) -> None:
    """Runs of a label map have no gaps between them: each value has the components that it has
    alone.
    """
    for seed in range(60):
        random = np.random.default_rng([14, seed])
        labels = random.integers(0, 4, random.integers(1, 12, 2 + seed % 2)).astype(
            random.choice(["u1", "i8", "f4"])
        )
        start, length, value = runs.of_labels(labels)
        number = components(start, length, np.array(labels.shape[::-1]), connectivity, value)
        found = runs.fill(start, length, number + 1, labels.shape)
        first = [np.flatnonzero(found == k)[0] for k in range(1, found.max(initial=0) + 1)]
        assert first == sorted(first)
        for one in np.unique(value):
            alone = slow.components(labels == one, connectivity)
            mine = np.where(labels == one, found, 0)
            assert (
                np.unique(mine, return_inverse=True)[1] == np.unique(alone, return_inverse=True)[1]
            ).all(), seed


def test_touching_runs_without_values_join_other_rows_only() -> None:
    """Runs 0 and 1 follow each other in a row; nothing below joins them but run 2, by a corner of
    either.
    """
    start, length = np.array([0, 2, 4 + 1]), np.array([2, 2, 2])
    assert components(start, length, np.array([4, 2]), "faces").tolist() == [0, 0, 0]
    assert components(start[:2], length[:2], np.array([4, 2]), "full").tolist() == [0, 1]
    corner = np.array([0, 2, 4, 6]), np.array([2, 2, 2, 2])
    assert components(*corner, np.array([4, 2]), "faces").tolist() == [0, 1, 0, 1]
    assert components(*corner, np.array([4, 2]), "full").tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "shape", [(1, 70), (70, 1), (1, 1), (5, 1, 9), (9, 1, 1), (1, 9, 5), (4, 3, 1)], ids=str
)
def test_thin_images(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(15)
    for share in (0.0, 0.5, 1.0):
        mask = random.random(shape) < share
        for connectivity in NEIGHBOURS:
            assert (labelled(mask, connectivity) == slow.components(mask, connectivity)).all()


def test_a_few_voxels_of_a_huge_image_cost_little() -> None:
    """Rows without runs take neither time nor room."""
    size = np.array([1 << 20, 1 << 20])
    start = np.array([5, (1 << 20) + 5, (1 << 40) - 1])
    assert components(start, np.ones(3, np.int64), size, "full").tolist() == [0, 0, 1]


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_slabs_that_threads_share_hang_together(
    monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    """Some 300,000 runs, more than one slab."""
    monkeypatch.setenv("CALIPERS_THREADS", threads)
    mask = np.random.default_rng(16).random((60, 200, 200)) < 0.14
    theirs, _ = ndimage.label(mask, np.ones((3, 3, 3)))
    assert (labelled(mask, "full") == theirs).all()


def test_nothing_has_no_components() -> None:
    assert (
        len(components(np.zeros(0, np.int64), np.zeros(0, np.int64), np.array([3, 3]), "full")) == 0
    )
