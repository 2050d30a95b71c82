"""The compiled kernels for runs: the same bits as NumPy's, and no buffer that does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calipers.data.masks import Masks
from calipers.kernels import coco_rle, ragged, route, runs, shapes
from native.buffers import taken_at_other_lengths

pytestmark = pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")


def both(function: Any, *arguments: Any) -> Any:
    """Return what the native route finds; NumPy's must have the same types, shapes and bits."""
    found = []
    for name in ("numpy", "native"):
        with route.forced(name):
            result = function(*arguments)
        found.append(result if isinstance(result, tuple) else (result,))
    for slow, fast in zip(*found, strict=True):
        if isinstance(slow, np.ndarray):
            assert (slow.dtype, slow.shape) == (fast.dtype, fast.shape)
            assert np.array_equal(slow, fast, equal_nan=slow.dtype.kind == "f")
            assert (np.signbit(slow) == np.signbit(fast)).all() if slow.dtype.kind == "f" else True
        else:
            assert slow == fast
    return found[1] if len(found[1]) > 1 else found[1][0]


def labels(random: np.random.Generator) -> np.ndarray:
    shape = random.integers(1, random.choice([3, 12, 90]), random.integers(2, 4))
    values = random.integers(0, random.choice([2, 3, 40]), shape).astype(
        random.choice(["u1", "i2", "u4", "i8"])
    )
    values[random.random(shape) < random.choice([0.0, 0.5, 0.95, 1.0])] = 0
    return values


@pytest.mark.parametrize("threads", ["1", "2", "3", "8"])
def test_both_routes_give_the_same_bits(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding, numbering, grouping, boxes, components, overlaps, sums and centroids of random
    volumes.
    """
    monkeypatch.setenv("CALIPERS_THREADS", threads)
    for seed in range(150 if threads == "1" else 40):
        random = np.random.default_rng([20, seed])
        one = labels(random)
        other = random.permutation(one.reshape(-1)).reshape(one.shape)
        size = np.array(one.shape[::-1])
        both(runs.find, one)
        sides = [both(runs.of_labels, side) for side in (one, other)]
        *_, shared = both(runs.intersections, *sides)
        assert shared.sum() == np.count_nonzero((one != 0) & (other != 0))
        for name in shapes.NEIGHBOURS:
            both(shapes.components, *sides[0][:2], size, name)
            both(shapes.components, *sides[0][:2], size, name, sides[0][2])
        masks = [Masks.from_labels(side) for side in (one, other)]
        tables = [(side.offsets, side.start, side.length) for side in masks]
        owner, n = both(runs.numbered, sides[0][2])
        both(runs.grouped, *sides[0][:2], owner, n)
        both(runs.boxes, *tables[0][1:], tables[0][0], masks[0].size)
        pairs = (
            random.integers(0, len(masks[0]), 50) if len(masks[0]) else np.zeros(0, np.int64)
            for _ in range(2)
        )
        both(runs.common, *tables, *pairs)
        values = (random.random(one.size) - random.choice([0.0, 0.5])).astype(
            random.choice(["f4", "f8"])
        )
        both(runs.weighted_centroids, values, *tables[0][1:], tables[0][0], size)


def test_zeros_sums_of_zero_and_objects_without_runs_part_no_route() -> None:
    start, length, offsets = np.array([0, 3, 4]), np.array([2, 1, 1]), np.array([0, 1, 1, 3])
    for values in (
        np.zeros(6),
        np.full(6, -0.0),
        np.array([1.0, -1, 0, np.inf, -np.inf, 0]),
        np.full(6, np.nan),
    ):
        with np.errstate(invalid="ignore"):
            total, place = both(
                runs.weighted_centroids, values, start, length, offsets, np.array([3, 2])
            )
        assert total[1] == 0  # it has no runs
        assert np.isnan(place[1]).all()
        np.testing.assert_array_equal(total[0], values[0] + values[1])


def calls() -> dict[str, tuple[Any, ...]]:
    """Arguments that fit, for every kernel."""
    labels = np.array([[0, 1, 1], [2, 0, 2]], np.uint16)
    start, length = np.array([1, 3, 5]), np.array([2, 1, 1])
    offsets, owner = np.array([0, 1, 3]), np.array([0, 1, 1])
    table, owned = (offsets, start, length), (start, length, owner)
    pairs = np.array([0, 1, 1]), np.array([1, 1, 0])
    three = [np.zeros(3, np.int64) for _ in range(3)]
    borders = np.array([0b101010], np.uint64), np.array([0b1011000], np.uint64)
    steps, size, scores = np.array([[1, 0, 1]]), np.array([3, 2]), np.linspace(0, 1, 6)
    return {
        "run_borders": (
            labels.view(np.uint8),
            2,
            3,
            False,
            *(np.zeros(1, np.uint64) for _ in range(2)),
            1,
        ),
        "runs_between": (*borders, *three[:2], 1),
        "group_runs": (*owned, *three),
        "run_components": (start, length, owner, size, steps, three[0], 1),
        "common_voxels": (*table, *table, *pairs, three[0], 1),
        "intersections": (*owned, *owned),
        "run_boxes": (*table, np.array([[3, 2], [3, 2]]), 2, np.zeros((2, 4)), 1),
        "run_centroids": (scores, True, *table, size, np.zeros(2), np.zeros((2, 2)), 1),
        "decode_text": (
            offsets,
            np.frombuffer(b"444", np.uint8),
            *three[:2],
            np.zeros(2, np.int8),
        ),
        "turned_counts": (*table, np.array([[3, 2], [3, 2]]), np.zeros(2, np.int64), 1),
        "turned_runs": (
            *table,
            np.array([[3, 2], [3, 2]]),
            np.array([0, 2, 4]),
            *(np.zeros(4, np.int64) for _ in range(2)),
            1,
        ),
    }


# A map may be longer than its objects need, there may be objects without runs, and images have two
# or three sides.
LONGER_WILL_DO = {
    ("run_centroids", 0),
    ("group_runs", 3),
    ("common_voxels", 0),
    ("common_voxels", 3),
}
LONGER_WILL_DO |= {("run_components", 3)}


@pytest.mark.parametrize("name", calls())
def test_a_short_or_long_buffer_is_refused(name: str) -> None:
    assert (
        taken_at_other_lengths(
            name, calls()[name], {k for kernel, k in LONGER_WILL_DO if kernel == name}
        )
        == []
    )


@pytest.mark.parametrize("name", calls())
def test_a_missing_argument_is_an_error_of_python(name: str) -> None:
    with pytest.raises(IndexError):
        getattr(route.native(), name)(*calls()[name][:-1])


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("run_borders", 1, 3),
        ("run_borders", 2, 0),
        ("run_borders", 2, 4),
        ("runs_between", 0, np.array([0b111], np.uint64) << np.uint64(3) | np.uint64(1)),
        ("group_runs", 2, np.array([0, 2, 1])),
        ("group_runs", 2, np.array([0, -1, 1])),
        ("run_components", 3, np.array([3, 0])),
        ("common_voxels", 6, np.array([0, 2, 1])),
        ("common_voxels", 7, np.array([0, -1, 1])),
        ("run_boxes", 3, np.zeros((2, 2), np.int64)),
        ("run_boxes", 4, 4),
        ("run_centroids", 3, np.array([1, -3, 5])),
        ("run_centroids", 3, np.array([1, 3, 6])),
        ("run_centroids", 4, np.array([2, -1, 1])),
        ("decode_text", 0, np.array([0, 4, 3])),
        ("turned_counts", 1, np.array([1, 3, 3])),
        ("turned_counts", 1, np.array([1, 3, 6])),
        ("turned_counts", 1, np.array([-1, 3, 5])),
        ("turned_counts", 2, np.array([2, 1, -1])),
        ("turned_counts", 3, np.array([[3, -2], [3, 2]])),
        ("turned_counts", 3, np.array([[3, 2], [2**40, 2**40]])),
        ("turned_runs", 4, np.array([0, 1, 4])),
        ("turned_runs", 4, np.array([0, 3, 4])),
    ],
)
def test_contents_that_would_lead_out_of_the_buffers_are_refused(
    name: str, place: int, value: Any
) -> None:
    arguments = list(calls()[name])
    arguments[place] = value
    with pytest.raises(ValueError, match="lengths do not fit"):
        getattr(route.native(), name)(*arguments)


def test_an_array_without_voxels_has_no_runs() -> None:
    for shape in ((0, 5), (5, 0), (2, 0, 3)):
        start, length, value = both(runs.of_labels, np.zeros(shape, np.int16))
        assert len(start) == len(length) == len(value) == 0
    assert len(ragged.owners(both(runs.grouped, start, length, start, 0)[0])) == 0


@pytest.mark.parametrize("seed", range(20))
def test_turned_runs_have_the_same_bits(seed: int) -> None:
    # Runs that touch, go on in the next line, and are empty; objects without any.
    rng = np.random.default_rng(seed)
    tables, sizes = [], rng.integers(1, 30, (12, 2))
    for fast, slow in sizes.tolist():
        ends = np.sort(rng.integers(0, fast * slow + 1, 2 * int(rng.integers(0, 20))))
        tables.append((ends[::2], np.diff(ends)[::2]))
    offsets = ragged.from_counts(np.array([len(start) for start, _ in tables]))
    start, length = (np.concatenate(parts).astype(np.int64) for parts in zip(*tables))
    along_slow = both(runs.turned, offsets, start, length, sizes)
    back = runs.joined(*runs.turned(*along_slow, sizes[:, ::-1]))
    for one, other in zip(back, runs.joined(offsets, start, length), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(20))
def test_compressed_texts_have_the_same_counts_and_faults(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 40, 60)
    # Signs of run lengths, of which some do not end or are too long; now and then another sign.
    text = rng.integers(48, 112, int(lengths.sum())).astype(np.uint8)
    text[rng.random(len(text)) < 0.01] = rng.integers(0, 256)
    text[rng.random(len(text)) < 0.5 * (seed % 3)] |= 0b1000000
    for part in both(coco_rle.decode_text, ragged.from_counts(lengths), text):
        assert part.dtype in (np.int64, np.int8)
