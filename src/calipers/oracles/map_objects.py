# SPDX-License-Identifier: Apache-2.0
"""Corruptions of the objects of a map, exact to the voxel: shrunk, grown, missed and invented ones.

Arrays are ``[z, ]y, x``. Distances are between the centres of voxels, in voxels. Every function
takes what is marked and returns it anew; what is added scores 1, what is taken away 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Random = np.random.Generator
Window = tuple[slice, ...]
APART = 2.0  # voxels this far from each other never touch, not even at a corner


@dataclass(frozen=True)
class Marked:
    """A map on its way through corruptions: the objects that it means, and its scores."""

    objects: I32  # 0 = background, 1, 2, ... = objects
    scores: F32


def shrink(
    marked: Marked,
    random: Random,
    *,
    voxels: float | None = None,
    fraction: float = 0.0,
    radius: float | None = None,
) -> Marked:
    """Take the outermost voxels from every object: so many, a fraction of them, or all up to a
    depth.

    Notes
    -----
    The depth of a voxel is its distance to the nearest one outside; the edge of the image is no
    outside. The least deep go first; of equal ones those farther from the centroid, then those that
    come first in the array. An object of no more voxels than are taken is gone. ``round(fraction *
    size)`` rounds halves to even.
    """
    objects = marked.objects.copy()
    for k, box in _windows(objects):
        window = _padded(box, 1, objects.shape)
        voxel_flags = objects[window] == k
        depth = _squared_distance(voxel_flags)[voxel_flags]
        places = np.argwhere(voxel_flags)
        if radius is not None:
            rows = np.flatnonzero(depth <= radius**2 + 1e-9)
        else:
            n = _number(len(places), voxels, fraction)
            rows = np.lexsort((-_from_centroid(places, places), depth))[:n]
        objects[window][tuple(places[rows].T)] = 0
    return _with_objects(marked, objects)


def grow(
    marked: Marked,
    random: Random,
    *,
    voxels: float | None = None,
    fraction: float = 0.0,
    radius: float | None = None,
) -> Marked:
    """Give every object the nearest voxels of the background: so many, a fraction of its size, or
    all within a radius.

    Notes
    -----
    The nearest come first; of equal ones those nearer to the centroid, then those that come first
    in the array. Objects grow one after the other and take nothing from each other, but they may
    come to touch. Where the background ends, they get what there is.
    """
    objects = marked.objects.copy()
    for k, box in _windows(objects):
        size = int((objects[box] == k).sum())
        n_new = 0 if radius is not None else _number(size, voxels, fraction)
        reach = math.ceil(radius) if radius is not None else 1
        while True:
            window = _padded(box, reach, objects.shape)
            whole = all(part.stop - part.start == n for part, n in zip(window, objects.shape))
            is_object, free = objects[window] == k, objects[window] == 0
            away = _squared_distance(~is_object)
            if radius is not None:
                free &= away <= radius**2
            elif not whole:  # beyond the reach, nearer voxels may lie outside of the window
                free &= away <= reach**2
            if whole or radius is not None or int(free.sum()) >= n_new:
                break
            reach *= 2
        places = np.argwhere(free)
        order = np.lexsort((_from_centroid(places, np.argwhere(is_object)), away[free]))
        rows = order if radius is not None else order[:n_new]
        objects[window][tuple(places[rows].T)] = k
    return _with_objects(marked, objects)


def missed_objects(
    marked: Marked, random: Random, *, n: float | None = None, p: float = 0.0
) -> Marked:
    """Leave out n random objects (all, if there are no more), or each with probability p."""
    there = np.unique(marked.objects)
    there = there[there > 0]
    if n is None:
        gone = there[random.random(len(there)) < p]
    else:
        gone = random.choice(there, min(int(n), len(there)), replace=False)
    return _with_objects(marked, np.where(np.isin(marked.objects, gone), 0, marked.objects))


def false_objects(
    marked: Marked,
    random: Random,
    *,
    n: float = 1,
    radius: float | None = None,
    voxels: float | None = None,
) -> Marked:
    """Add n discs (spheres) of one size at free places, which touch neither objects nor each other.

    Notes
    -----
    A disc has its centre in the centre of a voxel. By radius it holds the voxels at most so far
    away; by number exactly so many, the nearest ones, of equal ones those that come first in the
    array. It lies inside of the image. All free places are equally likely; without one that is a
    `UsageError`.
    """
    shape = marked.objects.shape
    if max(radius or 0.0, (voxels or 0.0) ** (1 / len(shape)) / 2) > max(shape):
        raise UsageError("a disc is larger than the image")
    offsets = _ball(len(shape), radius, voxels)
    reach = math.sqrt(float((offsets**2).sum(axis=1).max()))
    # centres so far from every object that the disc touches none
    free = _squared_distance(marked.objects == 0) >= (reach + APART) ** 2
    for axis, (low, high) in enumerate(zip(offsets.min(axis=0), offsets.max(axis=0))):
        line = np.moveaxis(free, axis, 0)  # a view: the disc stays inside along every axis
        line[: max(0, -int(low))] = False
        line[max(0, shape[axis] - int(high)) :] = False
    objects = marked.objects.copy()
    first = int(objects.max(initial=0)) + 1
    grid = np.ogrid[tuple(slice(0, side) for side in shape)]
    for k in range(int(n)):
        places = np.flatnonzero(free)
        if not len(places):
            raise UsageError(
                f"no free place for {int(n)} discs of {len(offsets)} voxels: fewer or smaller ones"
            )
        centre = np.unravel_index(int(random.choice(places)), shape)
        objects[tuple((offsets + np.array(centre)).T)] = first + k
        away = sum((axis - middle) ** 2 for axis, middle in zip(grid, centre))
        free &= away >= (2 * reach + APART) ** 2
    return _with_objects(marked, objects)


def _ball(dimensions: int, radius: float | None, voxels: float | None) -> I64:
    """Return (m, d) the steps from the centre to the voxels of a disc."""
    # a cube of the d-th root of the number of voxels holds enough of them
    reach = radius if radius is not None else (voxels or 1) ** (1 / dimensions)
    side = np.arange(-math.ceil(reach), math.ceil(reach) + 1)
    steps = np.stack(np.meshgrid(*[side] * dimensions, indexing="ij"), axis=-1).reshape(
        -1, dimensions
    )
    away = (steps**2).sum(axis=1)
    if radius is not None:
        return np.asarray(steps[away <= radius**2])
    return np.asarray(steps[np.argsort(away, kind="stable")[: max(int(voxels or 0), 1)]])


def _windows(objects: I32) -> list[tuple[int, Window]]:
    """Return every object with the box around it."""
    from scipy import ndimage

    boxes = ndimage.find_objects(objects)
    return [(k, box) for k, box in enumerate(boxes, start=1) if box is not None]


def _padded(box: Window, pad: int, shape: Sequence[int]) -> Window:
    return tuple(
        slice(max(0, part.start - pad), min(n, part.stop + pad)) for part, n in zip(box, shape)
    )


def _squared_distance(flags: Flags) -> F64:
    """Return the squared distance of every voxel to the nearest one that is not inside; infinite if
    all are.
    """
    from scipy import ndimage

    if flags.all():
        return np.full(flags.shape, np.inf)
    # squares of distances are whole numbers: rounded, so that ties are ties
    squares: F64 = np.rint(ndimage.distance_transform_edt(flags) ** 2)
    return squares


def _from_centroid(places: I64, around: I64) -> F64:
    """Return squared distances to the centroid, times the squared size of what it is of: exact, so
    ties are ties.
    """
    return np.asarray(
        ((places * float(len(around)) - around.sum(axis=0)) ** 2).sum(axis=1), np.float64
    )


def _number(size: int, voxels: float | None, fraction: float) -> int:
    return round(fraction * size) if voxels is None else int(voxels)


def _with_objects(marked: Marked, objects: I32) -> Marked:
    """Return other objects: scores change where they do, between 0 and 1."""
    was, now = marked.objects > 0, objects > 0
    scores = np.where(was & ~now, np.float32(0), np.where(now & ~was, np.float32(1), marked.scores))
    return Marked(objects, scores)
