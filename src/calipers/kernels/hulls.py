# SPDX-License-Identifier: Apache-2.0
"""Convex hulls of runs: the voxels whose centres lie in the closed convex hull of an object's voxel
centres.

An object whose centres lie on one line (in 3D: in one plane) is its own hull. In 2D everything is
done in whole numbers. In 3D the half-spaces are those of Qhull; a voxel centre that is not in the
hull is further from it than the tolerance as long as no side of the object exceeds some 2,000
voxels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Owned = tuple[I64, I64, I64]  # start, length, owner

# voxels; Qhull's normals are good to some 1e-12, and centres lie 1 / |whole normal| apart from
# planes
TOLERANCE = 1e-8
AT_ONCE = 1 << 20  # pairs of a row and a half-space


def hulls(start: I64, length: I64, offsets: I64, size: I64) -> Owned:
    """Return the runs of the hull of every object, sorted by owner, then start.

    ``size`` is (n, d), of every object; an object without runs has none.
    """
    owner = ragged.owners(offsets)
    hulls_of = _planar if size.shape[1] == 2 else _solid
    hull_runs, flat = hulls_of(start, length, owner, size)
    own = flat[owner]
    start, length, owner = (
        np.concatenate([old[own], new])
        for old, new in zip((start, length, owner), hull_runs, strict=True)
    )
    order = np.argsort(owner, kind="stable")
    return start[order], length[order], owner[order]


def _planar(start: I64, length: I64, owner: I64, size: I64) -> tuple[Owned, Flags]:
    """Return the runs of the hulls in 2D, and which objects are flat and have none here."""
    y, left, right, of = _rows(start, length, owner, size)
    upper, lower = _envelope(of, y, right), _envelope(of, y, -left)
    n = len(size)
    thick = np.bincount(of, weights=right > left, minlength=n) > 0
    corners = np.maximum(np.bincount(of[upper], minlength=n), np.bincount(of[lower], minlength=n))
    flat = (np.bincount(of, minlength=n) <= 1) | (~thick & (corners <= 2))
    bounds = ragged.from_owner(of, n)
    tall = np.flatnonzero(~flat)
    first, last = y[bounds[tall]], y[bounds[tall + 1] - 1]
    whose = np.repeat(tall, last - first + 1)
    row = np.repeat(first, last - first + 1) + ragged.positions(last - first + 1)
    high = _at(row, whose, of[upper], y[upper], right[upper])
    low = -_at(row, whose, of[lower], y[lower], -left[lower])
    there = high >= low  # a row between two others may have no voxel centre in a thin hull
    row, whose, low, high = row[there], whose[there], low[there], high[there]
    return (row * size[whose, 0] + low, high - low + 1, whose), flat


def _rows(start: I64, length: I64, owner: I64, size: I64) -> tuple[I64, I64, I64, I64]:
    """Return y, the first x, the last x and the owner of every row that an object has voxels in.

    In 3D y is the number of the row in its volume.
    """
    width = size[owner, 0]
    y = start // width
    x = start - y * width
    new = np.ones(len(start), np.bool_)
    new[1:] = (owner[1:] != owner[:-1]) | (y[1:] != y[:-1])
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(start)) - 1 if len(first) else first
    return y[first], x[first], (x + length)[last] - 1, owner[first]


def _envelope(owner: I64, y: I64, x: I64) -> I64:
    """Return which points are corners of the least concave function of y above all points of their
    owner.

    Points at or below the line between their neighbours are none: they are taken away until nothing
    changes.
    """
    corners = np.arange(len(y))
    while True:
        of, at, value = owner[corners], y[corners], x[corners]
        turn = (value[1:-1] - value[:-2]) * (at[2:] - at[:-2]) - (value[2:] - value[:-2]) * (
            at[1:-1] - at[:-2]
        )
        low = (of[2:] == of[:-2]) & (turn <= 0)
        if not low.any():
            return corners
        stays = np.ones(len(corners), np.bool_)
        stays[1:-1] = ~low
        corners = corners[stays]


def _at(row: I64, whose: I64, owner: I64, y: I64, x: I64) -> I64:
    """Return the largest whole x at or below the lines through the corners (owner, y, x), in given
    rows.
    """
    unit = int(max(y.max(initial=0), row.max(initial=0))) + 1
    after = np.searchsorted(owner * unit + y, whose * unit + row, side="right")
    last = np.searchsorted(owner, whose, side="right") - 1
    after = np.minimum(after, last)  # in its last row an object is at the end of its last line
    before = after - 1
    rise = (x[after] - x[before]) * (row - y[before])
    return np.asarray(x[before] + rise // (y[after] - y[before]))


def _solid(start: I64, length: I64, owner: I64, size: I64) -> tuple[Owned, Flags]:
    """Return the runs of the hulls in 3D, and which objects are flat and have none here."""
    row, left, right, of = _rows(start, length, owner, size)
    bounds = ragged.from_owner(of, len(size))
    flat = np.ones(len(size), np.bool_)
    pieces = []
    for k in np.flatnonzero(np.diff(bounds) > 1).tolist():
        mine = slice(int(bounds[k]), int(bounds[k + 1]))
        z = row[mine] // size[k, 1]
        ends = [np.stack([x[mine], row[mine] - z * size[k, 1], z], axis=1) for x in (left, right)]
        points = np.concatenate(ends)
        flat[k] = _flat(points)
        if not flat[k]:
            low, high, y, z = _scan(points)
            begin = (z * size[k, 1] + y) * size[k, 0] + low
            pieces.append((begin, high - low + 1, np.full(len(begin), k)))
    nothing = np.zeros(0, np.int64)
    if not pieces:
        return (nothing, nothing, nothing), flat
    start, length, owner = (np.concatenate([nothing, *parts]) for parts in zip(*pieces))
    return (start, length, owner), flat


def _flat(points: I64) -> bool:
    """Return whether whole points lie in one plane."""
    arms = points - points[0]
    arm = arms[np.argmax(np.abs(arms).sum(axis=1))]
    normals = np.cross(arms, arm)
    normal = normals[np.argmax(np.abs(normals).sum(axis=1))]
    return not (arms @ normal).any()


def _scan(points: I64) -> tuple[I64, I64, I64, I64]:
    """Return (first x, last x, y, z) of the rows of the hull of points not in one plane."""
    from scipy.spatial import ConvexHull

    corner = points.min(axis=0)
    points = points - corner
    _, height, depth = points.max(axis=0) + 1
    z, y = (grid.reshape(-1) for grid in np.mgrid[:depth, :height])
    planes = ConvexHull(points).equations  # a x + b y + c z + d <= 0, normals of length 1
    # Several triangles of the hull share a plane.
    planes = planes[np.unique(planes.round(11), axis=0, return_index=True)[1]]
    step = max(1, AT_ONCE // len(planes))
    parts = [_between(y[k : k + step], z[k : k + step], planes) for k in range(0, len(y), step)]
    low, high = (np.concatenate(ends) for ends in zip(*parts))
    there = high >= low
    x0, y0, z0 = corner
    return low[there] + x0, high[there] + x0, y[there] + y0, z[there] + z0


def _between(y: I64, z: I64, planes: F64) -> tuple[I64, I64]:
    """Return the smallest and the largest whole x inside all half-spaces in each row (y, z)."""
    slope = planes[:, 0]
    # The half-spaces are slope * x <= rest.
    rest = TOLERANCE - planes[:, 3] - np.outer(y, planes[:, 1]) - np.outer(z, planes[:, 2])
    level, rising, falling = np.abs(slope) < 1e-12, slope >= 1e-12, slope <= -1e-12
    high = np.floor((rest[:, rising] / slope[rising]).min(axis=1))
    low = np.ceil((rest[:, falling] / slope[falling]).max(axis=1))
    high[(rest[:, level] < 0).any(axis=1)] = -1  # every x of an object is at least 0
    return np.maximum(low, 0).astype(np.int64), high.astype(np.int64)
