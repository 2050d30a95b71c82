"""Outlines of objects in the slice that is shown."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.data.masks import Masks
from calipers.pictures.overlays import coarseness, outline_of, widest_slice


def masks_of(*arrays: np.ndarray) -> Masks:
    return Masks.from_dense([array.astype(bool) for array in arrays])


def test_the_outline_of_a_picture_is_that_of_its_mask() -> None:
    mask = np.zeros((20, 30))
    mask[4:6, 7:10] = 1
    assert outline_of(masks_of(mask), 0) == (((7.0, 4.0), (10.0, 4.0), (10.0, 6.0), (7.0, 6.0)),)


def test_of_a_volume_only_the_slice_counts() -> None:
    volume = np.zeros((5, 8, 9))
    volume[1, 2:4, 3:5] = 1
    volume[2, 2:7, 3:8] = 1
    masks = masks_of(np.zeros_like(volume) + 1, volume)
    assert outline_of(masks, 1, 1.9) == (((3.0, 2.0), (5.0, 2.0), (5.0, 4.0), (3.0, 4.0)),)
    assert outline_of(masks, 1, 2.0) == (((3.0, 2.0), (8.0, 2.0), (8.0, 7.0), (3.0, 7.0)),)
    assert outline_of(masks, 1, 3.0) == ()
    assert widest_slice(masks, 1) == 2


def test_a_coarse_outline_stays_near_and_small_objects_stay() -> None:
    y, x = np.mgrid[:600, :600]
    disc, spot = (x - 300) ** 2 + (y - 310) ** 2 < 90**2, np.zeros((600, 600))
    spot[301, 17] = 1
    masks = masks_of(disc, spot)
    fine, [coarse] = outline_of(masks, 0), outline_of(masks, 0, step=8)
    assert len(coarse) < sum(map(len, fine)) / 4
    corners = np.array(coarse)
    assert (corners % 8 == 0).all()
    assert np.abs(np.hypot(*(corners - (300, 310)).T) - 90).max() < 12
    assert outline_of(masks, 1, step=8) == (
        ((16.0, 296.0), (24.0, 296.0), (24.0, 304.0), (16.0, 304.0)),
    )


@pytest.mark.parametrize(
    ("width", "height", "step"), [(100, 80, 1), (512, 512, 1), (513, 20, 2), (2048, 4096, 8)]
)
def test_outlines_are_as_fine_as_pictures(width: float, height: float, step: int) -> None:
    assert coarseness(width, height) == step
    assert coarseness(np.nan, 4.0) == 1
