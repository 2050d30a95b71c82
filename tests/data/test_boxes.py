"""Box formats: what users deliver and how it is held."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.data.objects import BOX_FORMATS, box_extent, from_corners, to_corners

SIZE = np.array([[200.0, 100.0]])


@pytest.mark.parametrize(
    ("box_format", "delivered"),
    [
        ("xyxy", [20, 10, 60, 40]),
        ("xywh", [20, 10, 40, 30]),
        ("cxcywh", [40, 25, 40, 30]),
        ("xyxy-normalised", [0.1, 0.1, 0.3, 0.4]),
        ("xywh-normalised", [0.1, 0.1, 0.2, 0.3]),
        ("cxcywh-normalised", [0.2, 0.25, 0.2, 0.3]),
        ("xyxy-inclusive", [21, 11, 60, 40]),
    ],
)
def test_one_box_in_every_format(box_format: str, delivered: list[float]) -> None:
    corners, extent = to_corners(np.array([delivered], float), box_format, SIZE)
    np.testing.assert_allclose(corners, [[20, 10, 60, 40]], atol=1e-12)
    np.testing.assert_allclose(extent, [1200.0], atol=1e-9)
    np.testing.assert_allclose(from_corners(corners, box_format, SIZE), [delivered], atol=1e-12)


def test_the_formats_above_are_all_there_are() -> None:
    assert len(BOX_FORMATS) == 7


@pytest.mark.parametrize("box_format", BOX_FORMATS)
@pytest.mark.parametrize("dimensions", [2, 3])
@given(seed=st.integers(0, 1000))
def test_round_trip(box_format: str, dimensions: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    low = random.uniform(0, 100, (6, dimensions))
    corners = np.concatenate([low, low + random.uniform(1, 50, (6, dimensions))], axis=1)
    size = random.uniform(150, 300, (6, dimensions))
    again, extent = to_corners(from_corners(corners, box_format, size), box_format, size)
    np.testing.assert_allclose(again, corners, rtol=1e-12)
    np.testing.assert_allclose(extent, box_extent(corners), rtol=1e-11)


def test_the_extent_is_that_of_the_sides_as_delivered() -> None:
    # 0.01 + 32 - 0.01 is not 32 in floating point, but a box of 32 x 32 has an area of exactly
    # 1024.
    corners, extent = to_corners(np.array([[0.01, 0.01, 32.0, 32.0]]), "xywh")
    assert extent[0] == 1024.0
    assert box_extent(corners)[0] != 1024.0


def test_no_boxes() -> None:
    for box_format in BOX_FORMATS:
        corners, extent = to_corners(np.zeros((0, 4)), box_format, np.zeros((0, 2)))
        assert corners.shape == (0, 4)
        assert extent.shape == (0,)
