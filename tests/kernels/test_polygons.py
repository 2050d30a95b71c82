"""Polygons to pixels: hand values, the slow twin that walks along the outline, unions, and what is
cut off.
"""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels import shapes as polygons
from calipers.kernels import shapes as self_crossing
from mask_cases import flat, random_ring, rows_from_columns
from reference import coco_masks
from seeds import looped


def drawn(shapes, sizes):
    """Return the masks of shapes (lists of rings) in pictures of width and height."""
    size = np.array(sizes)
    runs = rows_from_columns(polygons.column_runs(*flat(shapes), size), size)
    masks = []
    for k, (w, h) in enumerate(sizes):
        mask = np.zeros(h * w, np.bool_)
        for start, length in zip(
            runs[1][runs[0][k] : runs[0][k + 1]], runs[2][runs[0][k] : runs[0][k + 1]]
        ):
            mask[start : start + length] = True
        masks.append(mask.reshape(h, w))
    return masks


SQUARE = np.array([[1, 1], [4, 1], [4, 3], [1, 3]], float)


def test_a_square_on_the_grid_has_its_area():
    (mask,) = drawn([[SQUARE]], [(6, 5)])
    assert np.flatnonzero(mask).tolist() == [7, 8, 9, 13, 14, 15]


def test_the_direction_of_the_corners_does_not_matter():
    turned, plain = drawn([[SQUARE[::-1]], [np.roll(SQUARE, 1, axis=0)]], [(6, 5)] * 2)
    assert np.array_equal(turned, plain)


def test_what_is_outside_is_cut_off():
    left, gone = drawn([[SQUARE - [2, 2]], [SQUARE + 100]], [(6, 5)] * 2)
    assert np.flatnonzero(left).tolist() == [0, 1]
    assert not gone.any()


def test_rings_are_united_not_subtracted():
    whole, both = drawn(
        [[SQUARE], [SQUARE, np.array([[2, 1], [3, 1], [3, 3], [2, 3.0]])]], [(6, 5)] * 2
    )
    assert np.array_equal(whole, both)


@looped("seed", range(8))
def test_random_shapes_against_the_slow_twin(seed):
    rng = np.random.default_rng(seed)
    sizes = [tuple(rng.integers(1, 24, 2).tolist()) for _ in range(60)]
    shapes = [[random_ring(rng, *size) for _ in range(rng.integers(1, 4))] for size in sizes]
    shapes = [
        [np.clip(ring, -90, 90) for ring in shape] for shape in shapes
    ]  # the twin walks all the way
    for mask, shape, (w, h) in zip(drawn(shapes, sizes), shapes, sizes):
        wanted = np.logical_or.reduce([coco_masks.drawn(ring.tolist(), h, w) for ring in shape])
        assert np.array_equal(mask, wanted)


def test_batches_change_nothing(monkeypatch):
    rng = np.random.default_rng(1)
    sizes = [(20, 15)] * 30
    shapes = [[random_ring(rng, 20, 15)] for _ in sizes]
    whole = drawn(shapes, sizes)
    monkeypatch.setattr(polygons, "BATCH", 5)
    assert all(np.array_equal(a, b) for a, b in zip(whole, drawn(shapes, sizes)))


def test_the_cost_is_the_number_of_crossings():
    rings, corners, objects = flat([[SQUARE], [SQUARE * 1e5]])
    assert polygons.crossing_counts(
        rings, corners, objects, np.array([[6, 5], [6, 5]])
    ).tolist() == [6, 0]


def test_nothing_at_all():
    found = polygons.column_runs(*flat([]), np.zeros((0, 2), np.int64))
    assert [part.tolist() for part in found] == [[0], [], []]


def test_crossings_by_hand():
    bow_tie = np.array([[0, 0], [4, 4], [4, 0], [0, 4.0]])
    touching = np.array([[0, 0], [2, 2], [4, 0], [4, 4], [2, 2], [0, 4.0]])
    rings, corners, _ = flat([[SQUARE, bow_tie, touching]])
    crossed, unknown = self_crossing.self_crossing(rings, corners)
    assert (crossed.tolist(), unknown.tolist()) == ([False, True, False], [False] * 3)


@pytest.mark.parametrize("batch", [1 << 20, 3])
def test_random_crossings_against_the_slow_twin(batch, monkeypatch):
    monkeypatch.setattr(self_crossing, "BATCH", batch)
    rng = np.random.default_rng(3)
    shapes = [random_ring(rng, 20, 15) for _ in range(400)]
    rings, corners, _ = flat([shapes])
    crossed, unknown = self_crossing.self_crossing(rings, corners)
    assert crossed.tolist() == [coco_masks.crosses_itself(ring.tolist()) for ring in shapes]
    assert 0.2 < crossed.mean() < 0.9
    assert not unknown.any()


def test_too_many_pairs_are_not_tried(monkeypatch):
    monkeypatch.setattr(self_crossing, "MOST_PAIRS", 20)
    rng = np.random.default_rng(3)
    rings, corners, _ = flat([[rng.random((40, 2)), SQUARE]])
    assert [flags.tolist() for flags in self_crossing.self_crossing(rings, corners)] == [
        [False] * 2,
        [True, False],
    ]
