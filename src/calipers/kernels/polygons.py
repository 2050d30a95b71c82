# SPDX-License-Identifier: Apache-2.0
"""Polygons to runs, pixel by pixel as pycocotools draws them.

Its convention: corners are rounded to a fifth of a pixel; a pixel column is crossed halfway, where
the outline steps from the third to the fourth fifth of it; the pixels from there on down change
sides. The rings of one object are drawn one by one and united. What lies beyond the picture is cut
off.

Only the crossings are computed, never the points of the outline between them, so that far corners
cost nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged
from calipers.kernels.run_order import Runs, joined

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

FINE = 5  # fifths of a pixel
BEFORE, AFTER = 2, 3  # fifths of a column between which it is crossed
BATCH = 1 << 20  # crossings that are computed together
NEAR = 2  # steps by which the estimate of a crossing may be off


def column_runs(rings: I64, corners: F64, objects: I64, size: I64) -> Runs:
    """Return the runs down the columns of n objects.

    Parameters
    ----------
    rings
        (r + 1,) corners of each ring.
    corners
        (m, 2) x, y in pixels, finite and at most 1e6 away from zero.
    objects
        (n + 1,) rings of each object.
    size
        (n, 2) width, height of the picture of each object.
    """
    owner = ragged.owners(objects)
    width, height = size[owner, 0], size[owner, 1]
    x, y = (_fifths(corners[:, 0]), _fifths(corners[:, 1]))
    ring = ragged.owners(rings)
    following = following_corners(rings)
    first, count = _columns(x, x[following], width[ring])
    pixels = int((size[:, 0] * size[:, 1]).max(initial=0)) + 1
    keys = []
    for begin, end in ragged.batches(count, BATCH):
        edge = np.repeat(np.arange(begin, end), count[begin:end])
        column = ragged.spans(first[begin:end], count[begin:end])
        depth = _depth(x, y, edge, following[edge], column)
        row = np.clip(np.ceil((depth + 0.5) / FINE - 0.5), 0, height[ring[edge]]).astype(np.int64)
        keys.append(ring[edge] * pixels + column * height[ring[edge]] + row)
    key = np.sort(np.concatenate(keys)) if keys else np.zeros(0, np.int64)
    ring = key[0::2] // pixels
    start = key[0::2] - ring * pixels
    return _united(owner[ring], start, key[1::2] - key[0::2], len(size), pixels)


def crossing_counts(rings: I64, corners: F64, objects: I64, size: I64) -> I64:
    """Return the (n,) number of crossings of columns, which is what `column_runs` costs."""
    owner = ragged.owners(objects)
    x = _fifths(corners[:, 0])
    ring = ragged.owners(rings)
    _, count = _columns(x, x[following_corners(rings)], size[owner[ring], 0])
    return np.bincount(owner[ring], count, len(size)).astype(np.int64)


def following_corners(rings: I64) -> I64:
    """Return the corner after each corner; after the last one of a ring comes its first."""
    following = np.arange(1, int(rings[-1]) + 1)
    filled = np.flatnonzero(np.diff(rings))
    following[rings[filled + 1] - 1] = rings[filled]
    return following


def _fifths(values: F64) -> I64:
    """Round as C does: half a fifth is added, and what is behind the point is cut off, towards
    zero.
    """
    return (FINE * values + 0.5).astype(np.int64)


def _columns(here: I64, there: I64, width: I64) -> tuple[I64, I64]:
    """Return (first, count) of the pixel columns that each edge crosses, inside of the picture."""
    low, high = np.minimum(here, there), np.maximum(here, there)
    first = np.maximum(-((BEFORE - low) // FINE), 0)
    last = np.minimum((high - AFTER) // FINE, width - 1)
    return first, np.maximum(last - first + 1, 0)


def _depth(x: I64, y: I64, edge: I64, following: I64, column: I64) -> I64:
    """Return how far down, in fifths, the outline is where an edge crosses a column: the upper of
    the two points.
    """
    flat = np.abs(x[edge] - x[following]) >= np.abs(y[edge] - y[following])
    depth = np.empty(len(edge), np.int64)
    depth[flat] = _along(x, y, edge[flat], following[flat], column[flat])
    steep = ~flat
    depth[steep] = _across(x, y, edge[steep], following[steep], column[steep])
    return depth


def _along(x: I64, y: I64, edge: I64, following: I64, column: I64) -> I64:
    """Edges that step along x: the outline at the third and at the fourth fifth of a column."""
    turned = x[edge] > x[following]
    left, right = np.where(turned, following, edge), np.where(turned, edge, following)
    slope = (y[right] - y[left]) / (x[right] - x[left])
    at = FINE * column - x[left]
    points = [(y[left] + slope * (at + fifth) + 0.5).astype(np.int64) for fifth in (BEFORE, AFTER)]
    return np.asarray(np.minimum(*points))


def _across(x: I64, y: I64, edge: I64, following: I64, column: I64) -> I64:
    """Edges that step along y: the last step before the outline has reached the other side of the
    crossing.
    """
    turned = y[edge] > y[following]
    top, bottom = np.where(turned, following, edge), np.where(turned, edge, following)
    slope = (x[bottom] - x[top]) / (y[bottom] - y[top])
    right = slope > 0
    target = FINE * column + np.where(right, AFTER, BEFORE)
    step = np.floor((FINE * column + (BEFORE + AFTER) / 2 - x[top]) / slope).astype(np.int64) - NEAR
    step = np.maximum(step, 0)
    # The rounding decides, so the steps around the estimate are tried.
    for _ in range(2 * NEAR + 1):
        reached = (x[top] + slope * step + 0.5).astype(np.int64)
        step += np.where(right, reached < target, reached > target)
    return np.asarray(y[top] + step - 1)


def _united(owner: I64, start: I64, length: I64, n: int, pixels: int) -> Runs:
    """Return the union of the runs of each object; those of one ring do not overlap, those of two
    may.
    """
    offsets = ragged.from_counts(np.bincount(owner, minlength=n))
    begin = owner * pixels + start
    order = np.argsort(begin, kind="stable")
    owner, begin, length = owner[order], begin[order], length[order]
    if not len(begin):
        return offsets, start, length
    reached = np.maximum.accumulate(begin + length)
    apart = np.ones(len(begin), np.bool_)
    apart[1:] = (begin[1:] > reached[:-1]) | (owner[1:] != owner[:-1])
    first = np.flatnonzero(apart)
    last = np.append(first[1:], len(begin)) - 1
    offsets = ragged.from_counts(np.bincount(owner[first], minlength=n))
    return joined(offsets, begin[first] - owner[first] * pixels, reached[last] - begin[first])
