"""Outlines: rings along the edges of pixels that enclose just the pixels that are set."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest

from calipers.kernels.shapes import rings


def split(mask: np.ndarray) -> list[list[list[int]]]:
    points, offsets = rings(mask.astype(bool))
    return [points[i:j].tolist() for i, j in pairwise(offsets)]


def filled(found: list[list[list[int]]], shape: tuple[int, int]) -> np.ndarray:
    """The slow twin, backwards: a pixel is inside if a ray to its left crosses an odd number of
    upright edges.
    """
    inside = np.zeros(shape, bool)
    for ring in found:
        for (x0, y0), (x1, y1) in zip(ring, [*ring[1:], ring[0]]):
            if x0 == x1:
                inside[min(y0, y1) : max(y0, y1), x0:] ^= True
    return inside


def test_a_pixel_has_four_corners_and_goes_right_first() -> None:
    assert split(np.array([[0, 0], [0, 1]])) == [[[1, 1], [2, 1], [2, 2], [1, 2]]]


def test_corners_stand_only_where_the_direction_changes() -> None:
    assert split(np.array([[1, 1, 1], [1, 0, 0]])) == [
        [[0, 0], [3, 0], [3, 1], [1, 1], [1, 2], [0, 2]]
    ]


def test_a_hole_is_a_ring_of_its_own() -> None:
    ring = np.ones((3, 3))
    ring[1, 1] = 0
    assert split(ring) == [[[0, 0], [3, 0], [3, 3], [0, 3]], [[1, 1], [2, 1], [2, 2], [1, 2]]]


@pytest.mark.parametrize("mask", [np.eye(2), np.eye(2)[::-1]])
def test_pixels_that_touch_at_a_corner_are_outlined_apart(mask: np.ndarray) -> None:
    found = split(mask)
    assert [len(ring) for ring in found] == [4, 4]
    assert [1, 1] in found[0]
    assert [1, 1] in found[1]


@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (4, 5)])
def test_nothing_has_no_outline(shape: tuple[int, int]) -> None:
    points, offsets = rings(np.zeros(shape, bool))
    assert points.shape == (0, 2)
    assert offsets.tolist() == [0]


def test_rings_enclose_what_is_set_and_turn_at_every_corner() -> None:
    chance = np.random.default_rng(0)
    for _ in range(500):
        mask = chance.random(tuple(chance.integers(1, 10, 2))) < chance.random()
        found = split(mask)
        assert (filled(found, mask.shape) == mask).all()
        for ring in found:
            steps = np.diff([*ring, ring[0]], axis=0)
            assert (np.count_nonzero(steps, axis=1) == 1).all()
            assert (steps[::2, 1] == 0).all()
            assert (steps[1::2, 0] == 0).all()


def test_a_large_disc_is_outlined_at_once() -> None:
    y, x = np.mgrid[:512, :512]
    disc = (x - 256) ** 2 + (y - 256) ** 2 < 200**2
    start = time.process_time()
    points, offsets = rings(disc)
    assert time.process_time() - start < 1.0
    assert len(offsets) == 2
    assert len(points) < 1200
