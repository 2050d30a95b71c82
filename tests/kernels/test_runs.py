"""Runs of voxels against arrays of voxels: there and back, boxes, centres, sums, parts in a box,
points.
"""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels import ragged, runs
from reference import masks as slow
from seeds import looped, looped_seeds

pytestmark = pytest.mark.usefixtures("kernel_route")

WHOLE = [np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64]


def random_mask(seed: int, share: float | None = None) -> np.ndarray:
    random = np.random.default_rng([6, seed])
    shape = random.integers(1, 9, 2 + seed % 2)
    return random.random(shape) < (random.choice([0.1, 0.5, 0.9, 1.0]) if share is None else share)


def size_of(array: np.ndarray) -> np.ndarray:
    return np.array(array.shape[::-1])


def test_runs_by_hand() -> None:
    start, length = runs.find(np.array([[0, 1, 1, 0, 1], [1, 0, 0, 0, 0], [0, 0, 0, 1, 1]]))
    assert start.tolist() == [1, 4, 5, 13]
    assert length.tolist() == [2, 1, 1, 2]


def test_a_run_ends_with_its_row() -> None:
    start, length = runs.find(np.ones((2, 3, 4)))
    assert start.tolist() == [0, 4, 8, 12, 16, 20]
    assert set(length.tolist()) == {4}


def test_labels_by_hand() -> None:
    start, length, value = runs.of_labels(np.array([[0, 7, 7, 3], [3, 3, 0, 7]], np.uint8))
    assert start.tolist() == [1, 3, 4, 7]
    assert length.tolist() == [2, 1, 2, 1]
    assert value.tolist() == [7, 3, 3, 7]


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (3, 0, 5), (2, 3)])
def test_nothing_has_no_runs(shape: tuple[int, ...]) -> None:
    empty = np.zeros(shape)
    assert all(len(part) == 0 for part in (*runs.find(empty), *runs.of_labels(empty)))
    assert not runs.fill(*runs.find(empty), True, shape).any()


@looped_seeds(60, default=25)
def test_there_and_back(seed: int) -> None:
    mask = random_mask(seed)
    start, length = runs.find(mask)
    assert (runs.fill(start, length, True, mask.shape) == mask).all()
    assert (start // mask.shape[-1] == (start + length - 1) // mask.shape[-1]).all()
    neighbours = start[1:] == (start + length)[:-1]
    assert (start[1:][neighbours] % mask.shape[-1] == 0).all(), "runs of one row never touch"
    labels = np.random.default_rng(seed).integers(-1, 3, mask.shape)
    assert (runs.fill(*runs.of_labels(labels), labels.shape) == labels).all()


def test_memory_order_does_not_matter() -> None:
    mask = random_mask(3, 0.4)
    for other in (np.asfortranarray(mask), mask.astype(float), mask.view(np.uint8) * 255):
        assert all((a == b).all() for a, b in zip(runs.find(other), runs.find(mask)))


def obvious(array: np.ndarray) -> list[tuple[int, int, float]]:
    """Return (start, length, value) of the runs, voxel by voxel."""
    found: list[tuple[int, int, float]] = []
    for place, value in enumerate(array.reshape(-1).tolist()):
        if value:
            start, length, last = found[-1] if found else (-1, 0, 0)
            if start + length == place and last == value and place % array.shape[-1]:
                found[-1] = (start, length + 1, value)
            else:
                found.append((place, 1, value))
    return found


@pytest.mark.parametrize(
    "kind", [*WHOLE, np.float16, np.float32, np.float64, ">i2", ">f8"], ids=str
)
@looped("width", [1, 2, 63, 64, 65, 128, 200])
def test_runs_of_every_type_and_width_equal_the_obvious_ones(kind: type, width: int) -> None:
    """Widths on either side of what is looked at together; runs that touch the ends of rows and of
    the array.
    """
    random = np.random.default_rng([14, width])
    for share in (0.0, 0.02, 0.5, 0.98, 1.0):
        array = (random.integers(1, 3, (5, width)) * (random.random((5, width)) < share)).astype(
            kind
        )
        assert list(zip(*(part.tolist() for part in runs.of_labels(array)))) == obvious(array)
        alike = (array != 0).astype(int)
        assert list(zip(*(part.tolist() for part in runs.find(array)))) == [
            run[:2] for run in obvious(alike)
        ]
        assert runs.of_labels(array)[2].dtype == array.dtype


def test_runs_across_the_parts_that_threads_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than two million voxels, with runs and rows over the borders at every millionth."""
    labels = np.random.default_rng(15).integers(0, 3, (2, 1100, 1000)).astype(np.uint8)
    labels.reshape(-1)[2**20 - 700 : 2**20 + 700] = 1
    labels[1, 500:] = 2
    for threads in ("1", "3"):
        monkeypatch.setenv("CALIPERS_THREADS", threads)
        start, length, value = runs.of_labels(labels)
        assert (runs.fill(start, length, value, labels.shape) == labels).all()
        assert (start // 1000 == (start + length - 1) // 1000).all()
        touching = np.flatnonzero((start[1:] == (start + length)[:-1]) & (start[1:] % 1000 != 0))
        assert (value[touching] != value[touching + 1]).all()


@pytest.mark.parametrize(
    "values",
    [
        np.array([5, 3, 5, 7], np.uint8),
        np.array([-4, 10**15, -4]),
        np.array([2**64 - 1, 1], np.uint64),
        np.array([2.5, -1.0]),
        np.array([True, True]),
        np.zeros(0, np.uint16),
    ],
    ids=str,
)
def test_values_are_numbered_in_ascending_order(values: np.ndarray) -> None:
    owner, n = runs.numbered(values)
    assert owner.tolist() == [
        sorted(set(values.tolist())).index(value) for value in values.tolist()
    ]
    assert n == len(set(values.tolist()))


@looped("seed", range(20))
def test_grouped_runs_keep_their_order_inside_of_an_owner(seed: int) -> None:
    random = np.random.default_rng([16, seed])
    n, m = int(random.integers(1, 9)), int(random.integers(0, 40))
    start, length, owner = (
        random.integers(0, 99, m),
        random.integers(1, 9, m),
        random.integers(0, n, m),
    )
    offsets, starts, lengths = runs.grouped(start, length, owner, n)
    for k in range(n):
        mine = slice(offsets[k], offsets[k + 1])
        assert starts[mine].tolist() == start[owner == k].tolist()
        assert lengths[mine].tolist() == length[owner == k].tolist()


def objects(seed: int, empty: bool = False) -> tuple[list[np.ndarray], tuple[np.ndarray, ...]]:
    """Return arrays of one image, and their runs as (start, length, offsets, size per run)."""
    shape = random_mask(seed).shape
    random = np.random.default_rng(seed)
    arrays = [random.random(shape) < 0.4 for _ in range(4)]
    for array in arrays:
        array[tuple(random.integers(0, shape))] = True
    if empty:
        arrays[2][:] = False
    found = [runs.find(array) for array in arrays]
    start, length = (np.concatenate(parts) for parts in zip(*found))
    return arrays, (
        start,
        length,
        ragged.from_counts(np.array([len(f[0]) for f in found])),
        size_of(arrays[0]),
    )


@looped("seed", range(20))
def test_boxes_voxels_and_centroids(seed: int) -> None:
    arrays, (start, length, offsets, size) = objects(seed)
    sizes = np.tile(size, (len(arrays), 1))
    assert runs.boxes(start, length, offsets, sizes).tolist() == [
        slow.box(array) for array in arrays
    ]
    assert runs.voxels(length, offsets).tolist() == [array.sum() for array in arrays]
    expected = [slow.centroid(array) for array in arrays]
    np.testing.assert_allclose(runs.centroids(start, length, offsets, sizes), expected, rtol=1e-15)


@looped("seed", range(20))
def test_sums_and_weighted_centroids(seed: int) -> None:
    arrays, (start, length, offsets, size) = objects(seed)
    scores = np.random.default_rng(seed).random(arrays[0].shape).astype(np.float32)
    total, centre = runs.weighted_centroids(scores.reshape(-1), start, length, offsets, size)
    np.testing.assert_allclose(
        total, [scores[array].astype(float).sum() for array in arrays], rtol=1e-14
    )
    np.testing.assert_allclose(
        centre, [slow.centroid(array, scores) for array in arrays], rtol=1e-13
    )


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.uint8])
def test_maps_of_every_type_have_the_same_sums(kind: type) -> None:
    arrays, (start, length, offsets, size) = objects(3)
    scores = np.random.default_rng(3).integers(0, 9, arrays[0].size).astype(kind)
    total, centre = runs.weighted_centroids(scores, start, length, offsets, size)
    assert total.tolist() == [
        scores.reshape(array.shape)[array].astype(float).sum() for array in arrays
    ]
    shaped = scores.reshape(arrays[0].shape)
    np.testing.assert_allclose(
        centre, [slow.centroid(array, shaped) for array in arrays], rtol=1e-14
    )


def test_a_sum_does_not_feel_what_lies_before_it() -> None:
    scores = np.array([1e17, 1.0, 1.0, 1e17, 0.25])
    table = np.array([1, 4]), np.array([2, 1]), np.array([0, 1, 2])
    total, _ = runs.weighted_centroids(scores, *table, np.array([5, 1]))
    assert total.tolist() == [2.0, 0.25]


def test_objects_without_runs_have_no_box_and_no_centre() -> None:
    arrays, (start, length, offsets, size) = objects(4, empty=True)
    sizes = np.tile(size, (len(arrays), 1))
    assert np.isnan(runs.boxes(start, length, offsets, sizes)).any(axis=1).tolist() == [
        False,
        False,
        True,
        False,
    ]
    assert np.isnan(runs.centroids(start, length, offsets, sizes)).any(axis=1).tolist() == [
        False,
        False,
        True,
        False,
    ]
    assert runs.voxels(length, offsets)[2] == 0
    total, centre = runs.weighted_centroids(np.ones(arrays[0].size), start, length, offsets, size)
    assert total[2] == 0
    assert np.isnan(centre[2]).all()


@looped("seed", range(30))
def test_area_in_a_box_cuts_voxels(seed: int) -> None:
    mask = random_mask(seed, 0.5)
    random = np.random.default_rng(seed)
    corners = np.sort(random.uniform(-2, 10, (2, mask.ndim)), axis=0).reshape(-1)
    start, length = runs.find(mask)
    found = runs.in_box(
        start, length, size_of(mask), np.repeat(corners[:, None], len(start), axis=1)
    )
    assert found.sum() == pytest.approx(slow.in_box(mask, corners.tolist()), abs=1e-12)


def test_a_box_turned_inside_out_shares_nothing() -> None:
    mask = np.ones((4, 4), bool)
    start, length = runs.find(mask)
    turned = np.repeat([[3.0], [3.0], [1.0], [1.0]], len(start), axis=1)
    assert not runs.in_box(start, length, size_of(mask), turned).any()


@looped("seed", range(20))
def test_points_belong_to_the_voxel_that_holds_them(seed: int) -> None:
    arrays, (start, length, offsets, size) = objects(seed)
    random = np.random.default_rng(seed)
    points = random.uniform(-1.5, 9.5, (200, arrays[0].ndim))
    points[::3] = np.floor(points[::3])  # on the border: the voxel that begins there
    rows = random.integers(0, len(arrays), len(points))
    found = runs.contains(start, length, offsets, np.tile(size, (len(arrays), 1)), (rows, points))
    assert found.tolist() == [
        slow.contains(arrays[k], point) for k, point in zip(rows, points.tolist())
    ]
