"""Overlaps, differences and boundaries of runs against arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from calipers.kernels import ragged, runs
from reference import masks as slow
from seeds import looped

pytestmark = pytest.mark.usefixtures("kernel_route")

Arrays = list[np.ndarray]


def owned(arrays: Arrays, shift: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the runs of arrays as (start, length, owner): they overlap as the arrays do."""
    found = [runs.find(array) for array in arrays]
    owner = np.repeat(np.arange(len(arrays)), [len(start) for start, _ in found])
    nothing = np.zeros(0, np.int64)
    start = np.concatenate([nothing, *(start for start, _ in found)]) + shift
    return start, np.concatenate([nothing, *(length for _, length in found)]), owner


def common(a: Arrays, b: Arrays) -> list[tuple[int, int, int]]:
    """Return (index in a, index in b, common voxels) where there are some."""
    sums = ((i, j, int((x & y).sum())) for i, x in enumerate(a) for j, y in enumerate(b))
    return [entry for entry in sums if entry[2]]


def random_arrays(random: np.random.Generator, n: int) -> Arrays:
    shape = random.integers(1, 8, random.integers(2, 4))
    return [random.random(shape) < random.choice([0.1, 0.5, 0.95]) for _ in range(n)]


@pytest.mark.parametrize("at_once", [1, 7, 1 << 18])
def test_all_overlaps_in_one_pass(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "AT_ONCE", at_once)
    for seed in range(40):
        random = np.random.default_rng([7, seed])
        arrays = random_arrays(random, int(random.integers(0, 9)))
        cut = int(random.integers(0, len(arrays) + 1))
        found = runs.intersections(owned(arrays[:cut]), owned(arrays[cut:]))
        assert list(zip(*(part.tolist() for part in found))) == common(arrays[:cut], arrays[cut:])


def test_the_order_of_runs_does_not_matter() -> None:
    random = np.random.default_rng(8)
    arrays = random_arrays(random, 10)
    sides = []
    for side in (owned(arrays[:5]), owned(arrays[5:])):
        order = random.permutation(len(side[0]))
        sides.append(tuple(part[order] for part in side))
    found = runs.intersections(*sides)
    assert list(zip(*(part.tolist() for part in found))) == common(arrays[:5], arrays[5:])


def test_owners_may_overlap_among_themselves_and_begin_together() -> None:
    a = np.array([0, 0, 2]), np.array([10, 4, 3]), np.array([0, 1, 2])
    b = np.array([0, 3]), np.array([3, 1]), np.array([5, 4])
    found = runs.intersections(a, b)
    assert list(zip(*(part.tolist() for part in found))) == [
        (0, 4, 1),
        (0, 5, 3),
        (1, 4, 1),
        (1, 5, 3),
        (2, 4, 1),
        (2, 5, 1),
    ]


def test_many_owners() -> None:
    """Ten thousand pairs, most of them of one voxel."""
    random = np.random.default_rng(17)
    one, other = random.integers(0, 3000, (2, 150, 150))
    found = runs.intersections(runs.of_labels(one), runs.of_labels(other))
    both = (one > 0) & (other > 0)
    expected = np.unique(np.stack([one[both], other[both]]), axis=1, return_counts=True)
    assert all((part == wanted).all() for part, wanted in zip(found, (*expected[0], expected[1])))


def table(arrays: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    start, length, owner = owned(arrays)
    return ragged.from_owner(owner, len(arrays)), start, length


@pytest.mark.parametrize("at_once", [1, 7, 1 << 18])
def test_pairs_share_what_their_arrays_share(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any pairs in any order, some of them twice, some of objects without a voxel."""
    monkeypatch.setattr(runs, "AT_ONCE", at_once)
    for seed in range(100):
        random = np.random.default_rng([18, seed])
        arrays = random_arrays(random, 9)
        arrays[random.integers(0, 9)][:] = False
        arrays[random.integers(0, 9)][:] = True
        a, b = arrays[:4], arrays[4:]
        rows, columns = random.integers(0, 4, 30), random.integers(0, 5, 30)
        found = runs.common(table(a), table(b), rows, columns)
        assert found.tolist() == [(a[i] & b[j]).sum() for i, j in zip(rows, columns)]
        assert found.dtype == np.int64


@pytest.mark.parametrize("shape", [(1, 1), (1, 90), (90, 1), (3, 1, 40), (40, 40)], ids=str)
def test_pairs_of_few_and_of_many_runs(shape: tuple[int, ...]) -> None:
    """One object has many times the runs of the other:
    a walk along both is no longer the best way.
    """
    random = np.random.default_rng(19)
    many = [random.random(shape) < 0.5, np.ones(shape, bool)]
    few = [np.zeros(shape, bool) for _ in range(6)]
    for array in few[1:]:
        array[tuple(random.integers(0, shape))] = True
    few[2].reshape(-1)[[0, -1]] = True
    row, column = (grid.reshape(-1) for grid in np.indices((2, 6)))
    expected = [(many[i] & few[j]).sum() for i, j in zip(row, column)]
    assert runs.common(table(many), table(few), row, column).tolist() == expected
    assert runs.common(table(few), table(many), column, row).tolist() == expected


def test_no_pairs_share_nothing() -> None:
    nothing, nobody = (
        np.zeros(0, np.int64),
        (np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)),
    )
    assert len(runs.common(nobody, nobody, nothing, nothing)) == 0
    empty = (np.zeros(3, np.int64), nothing, nothing)
    assert runs.common(empty, empty, np.array([0, 1]), np.array([1, 0])).tolist() == [0, 0]


def test_moved_images_do_not_meet() -> None:
    arrays = random_arrays(np.random.default_rng(9), 2)
    unit = arrays[0].size
    a = tuple(np.concatenate(parts) for parts in zip(owned(arrays[:1]), owned(arrays[:1], unit)))
    b = owned(arrays[1:], unit)
    owner = np.repeat([0, 1], len(a[0]) // 2)
    found = runs.intersections((a[0], a[1], owner), b)
    assert found[0].tolist() == [1]
    assert found[2].tolist() == [(arrays[0] & arrays[1]).sum()]


def test_owners_far_apart_are_added_up_alike() -> None:
    arrays = random_arrays(np.random.default_rng(10), 8)
    far = np.array(
        [-(10**17), 3, 5 * 10**9, 6 * 10**17]
    )  # products of which no number of 64 bits holds
    (a, al, ao), (b, bl, bo) = owned(arrays[:4]), owned(arrays[4:])
    found = runs.intersections((a, al, far[ao]), (b, bl, far[bo]))
    expected = [(int(far[i]), int(far[j]), n) for i, j, n in common(arrays[:4], arrays[4:])]
    assert list(zip(*(part.tolist() for part in found))) == expected


@looped("seed", range(30))
def test_both_and_without(seed: int) -> None:
    random = np.random.default_rng([11, seed])
    a, b = random_arrays(random, 2)
    start, length, mine = runs.both(runs.find(a), runs.find(b))
    assert (runs.fill(start, length, True, a.shape) == (a & b)).all()
    assert (runs.find(a)[0][mine] <= start).all()
    left = runs.without(runs.find(a), runs.find(a & b))
    assert (runs.fill(*left, True, a.shape) == (a & ~b)).all()


@looped("seed", range(40))
def test_boundaries_equal_the_twin_and_scipy(seed: int) -> None:
    random = np.random.default_rng([12, seed])
    shapes = [
        tuple(random.integers(1, 13, 2 + seed % 2)) for _ in range(4)
    ]  # images of different sizes
    depth = int(random.integers(1, 4))
    arrays = [random.random(shape) < random.choice([0.6, 0.9, 1.0]) for shape in shapes]
    start, length, owner = owned(arrays)
    size = np.array([shape[::-1] for shape in shapes])
    found = runs.boundaries(start, length, owner, size[owner], depth)
    offsets = ragged.from_owner(found[2], len(arrays))
    for k, array in enumerate(arrays):
        mine = slice(offsets[k], offsets[k + 1])
        got = runs.fill(found[0][mine], found[1][mine], True, array.shape)
        eroded = ndimage.binary_erosion(array, np.ones((3,) * array.ndim), iterations=depth)
        assert (got == slow.boundary(array, depth)).all()
        assert (got == (array & ~eroded)).all()
