# SPDX-License-Identifier: Apache-2.0
"""Outlines of masks in the slice that is shown, no finer than a picture can show."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import outlines, runs
from calipers.plots.figures import Ring
from calipers.tables.masks import Masks

Flags = NDArray[np.bool_]

# Pixels of the longer side of a picture: finer outlines would look the same.
SHOWN = 512


def coarseness(width: float, height: float) -> int:
    """Return the step of the outlines of an image, in pixels."""
    longest = max(width, height)
    return max(1, math.ceil(longest / SHOWN)) if math.isfinite(longest) else 1


def outline_of(
    masks: Masks, row: int, slice_at: float | None = None, step: int = 1
) -> tuple[Ring, ...]:
    """Return the rings around the mask of an object, in pixels of the image; none if it does not
    reach the slice.

    Parameters
    ----------
    slice_at
        Of a volume: the place along z in voxels.
    step
        Pixels along each side that are merged into one. The merged pixel belongs to the mask if at
        least half of its pixels do; if none does, if any of them does.
    """
    mask, (x, y) = _cut_out(masks, row, slice_at, step)
    points, offsets = outlines.rings(_merge_pixels(mask, step))
    corners = [(a, b) for a, b in (points * step + (x, y)).astype(float).tolist()]
    return tuple(tuple(corners[i:j]) for i, j in pairwise(offsets.tolist()))


def widest_slice(masks: Masks, row: int) -> int:
    """Return the slice of a volume in which an object has most voxels; the first of several."""
    mine = slice(int(masks.offsets[row]), int(masks.offsets[row + 1]))
    width, height, _ = masks.size[row].tolist()
    slices = masks.start[mine] // (width * height)
    return int(np.bincount(slices, weights=masks.length[mine]).argmax())


def _cut_out(
    masks: Masks, row: int, slice_at: float | None, step: int
) -> tuple[Flags, tuple[int, int]]:
    """Return the part of a slice that holds the object, and its corner, a multiple of the step."""
    mine = slice(int(masks.offsets[row]), int(masks.offsets[row + 1]))
    start, length = masks.start[mine], masks.length[mine]
    width, height = masks.size[row, :2].tolist()
    if slice_at is not None:
        first = math.floor(slice_at) * width * height
        inside = (start >= first) & (start < first + width * height)
        start, length = start[inside] - first, length[inside]
    if not len(start):
        return np.zeros((0, 0), np.bool_), (0, 0)
    x, y = start % width, start // width
    x0, y0 = (int(low) // step * step for low in (x.min(), y.min()))
    shape = int(y.max()) + 1 - y0, int((x + length).max()) - x0
    return runs.fill((y - y0) * shape[1] + x - x0, length, True, shape), (x0, y0)


def _merge_pixels(mask: Flags, step: int) -> Flags:
    """Return a mask with ``step`` x ``step`` pixels merged into one."""
    if step == 1 or not mask.size:
        return mask
    height, width = mask.shape
    padded = np.pad(mask, ((0, -height % step), (0, -width % step)))
    share = padded.reshape(padded.shape[0] // step, step, -1, step).mean(axis=(1, 3))
    # A small object must not vanish: without a pixel that is half full, any share counts.
    return np.asarray(share >= 0.5 if (share >= 0.5).any() else share > 0)
