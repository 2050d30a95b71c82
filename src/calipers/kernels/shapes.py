# SPDX-License-Identifier: Apache-2.0
"""Shapes made of runs, and back: connected components, convex hulls, outlines and polygons.

Masks (`calipers.data.masks`) ask for `components` and `hulls`, the COCO reader draws polygons with
`column_runs` and warns of `self_crossing` rings, pictures draw the outlines of `rings`. For the
layout of runs see `kernels.runs`.

*Components*: which runs hang together. No array of voxels is ever made.

*Convex hulls*: the voxels whose centres lie in the closed convex hull of an object's voxel centres.
An object whose centres lie on one line (in 3D: in one plane) is its own hull. In 2D everything is
done in whole numbers. In 3D the half-spaces are those of Qhull; a voxel centre that is not in the
hull is further from it than the tolerance as long as no side of the object exceeds some 2,000
voxels.

*Outlines*: closed rings along the edges of pixels, with corners only where the direction changes. A
corner of a pixel is a corner of the outline if an odd number of the four pixels around it is set,
and twice if only the two across are. In every row of corners the first and second, the third and
fourth and so on are joined by an edge; likewise in every column. Walking rows and columns by turns
closes the rings.

*Polygons to runs*, pixel by pixel as pycocotools draws them. Its convention: corners are rounded to
a fifth of a pixel; a pixel column is crossed halfway, where the outline steps from the third to the
fourth fifth of it; the pixels from there on down change sides. The rings of one object are drawn
one by one and united. What lies beyond the picture is cut off. Only the crossings are computed,
never the points of the outline between them, so that far corners cost nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags
from calipers.kernels import ragged, route, runs
from calipers.kernels.runs import Runs, joined

Owned = tuple[I64, I64, I64]  # start, length, owner

# voxels; Qhull's normals are good to some 1e-12, and centres lie 1 / |whole normal| apart from
# planes
TOLERANCE = 1e-8
AT_ONCE = 1 << 20  # pairs of a row and a half-space

FINE = 5  # fifths of a pixel
BEFORE, AFTER = 2, 3  # fifths of a column between which it is crossed
BATCH = 1 << 20  # crossings that are computed together
NEAR = 2  # steps by which the estimate of a crossing may be off

MOST_PAIRS = 1 << 22  # pairs of edges that are tried for one ring
SLACK = 1e-3  # more than the rounding of a key

# Steps along y and z to the rows that are looked at (the others look back), and how far touching
# reaches along x.
NEIGHBOURS: dict[str, dict[int, tuple[tuple[int, int, int], ...]]] = {
    "faces": {2: ((1, 0, 0),), 3: ((1, 0, 0), (0, 1, 0))},
    "edges": {2: ((1, 0, 1),), 3: ((1, 0, 1), (-1, 1, 0), (0, 1, 1), (1, 1, 0))},
    "full": {2: ((1, 0, 1),), 3: ((1, 0, 1), (-1, 1, 1), (0, 1, 1), (1, 1, 1))},
}


def components(
    start: I64, length: I64, size: I64, connectivity: str, value: NDArray[Any] | None = None
) -> I64:
    """Return the component of every run, numbered from 0 in the order of their first voxels.

    Parameters
    ----------
    start, length
        Sorted, disjoint runs of one image.
    size
        (d,) width, height[, depth].
    connectivity
        "full" (8 neighbours in 2D, 26 in 3D), "edges" (8, 18) or "faces" (4, 6).
    value
        (m,) Runs with different values do not touch, as those of a label map.
    """
    if not len(start):
        return np.zeros(0, np.int64)
    native, steps = route.native(), NEIGHBOURS[connectivity][len(size)]
    if native is not None and (value is None or value.dtype.kind in route.WHOLE):
        return route.components(native, start, length, size, steps, value)
    return _graph_components(start, length, size, steps, value)


def _graph_components(
    start: I64,
    length: I64,
    size: I64,
    steps: tuple[tuple[int, int, int], ...],
    value: NDArray[Any] | None,
) -> I64:
    """Return the components: of a graph whose edges are the pairs of runs that touch."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    contacts = [_touching(start, length, size, step) for step in steps]
    one, other = (np.concatenate(parts) for parts in zip(*contacts))
    if value is not None:
        alike = value[one] == value[other]
        one, other = one[alike], other[alike]
    edges = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(len(start), len(start)))
    n, component = connected_components(edges, directed=False)
    return _in_order_of_runs(component, n)


def _touching(start: I64, length: I64, size: I64, step: tuple[int, int, int]) -> tuple[I64, I64]:
    """Return the pairs of runs of which the second lies one step further and touches the first."""
    down, deep, reach = step
    place = runs.places(start, size)
    x, row = place[0], place[1] + down
    there = (row >= 0) & (row < size[1])
    move = down * size[0]
    if len(size) == 3:
        there &= place[2] + deep < size[2]
        move += deep * size[0] * size[1]
    mine = np.flatnonzero(there)
    x, begin = x[mine], start[mine] - x[mine] + move
    low = begin + np.maximum(x - reach, 0)
    high = begin + np.minimum(x + length[mine] + reach, size[0])
    first = np.searchsorted(start + length, low, side="right")
    counts = np.searchsorted(start, high) - first
    return np.repeat(mine, counts), ragged.spans(first, counts)


def _in_order_of_runs(component: NDArray[np.integer], n: int) -> I64:
    """Number the components by their first runs."""
    first = np.empty(n, np.int64)
    # Of several assignments the last one stays.
    first[component[::-1]] = np.arange(len(component))[::-1]
    number = np.empty(n, np.int64)
    number[np.argsort(first)] = np.arange(n)
    return np.asarray(number[component])


def hulls(start: I64, length: I64, offsets: I64, size: I64) -> Owned:
    """Return the runs of the hull of every object, sorted by owner, then start.

    ``size`` is (n, d), of every object; an object without runs has none.
    """
    owner = ragged.owners(offsets)
    hulls_of = _planar_hulls if size.shape[1] == 2 else _solid_hulls
    hull_runs, flat = hulls_of(start, length, owner, size)
    own = flat[owner]
    start, length, owner = (
        np.concatenate([old[own], new])
        for old, new in zip((start, length, owner), hull_runs, strict=True)
    )
    order = np.argsort(owner, kind="stable")
    return start[order], length[order], owner[order]


def _planar_hulls(start: I64, length: I64, owner: I64, size: I64) -> tuple[Owned, Flags]:
    """Return the runs of the hulls in 2D, and which objects are flat and have none here."""
    y, left, right, of = _occupied_rows(start, length, owner, size)
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
    high = _envelope_at(row, whose, of[upper], y[upper], right[upper])
    low = -_envelope_at(row, whose, of[lower], y[lower], -left[lower])
    there = high >= low  # a row between two others may have no voxel centre in a thin hull
    row, whose, low, high = row[there], whose[there], low[there], high[there]
    return (row * size[whose, 0] + low, high - low + 1, whose), flat


def _occupied_rows(start: I64, length: I64, owner: I64, size: I64) -> tuple[I64, I64, I64, I64]:
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
        # The cross product of neighbouring edges, in whole numbers: its sign is exact.
        turn = (value[1:-1] - value[:-2]) * (at[2:] - at[:-2]) - (value[2:] - value[:-2]) * (
            at[1:-1] - at[:-2]
        )
        low = (of[2:] == of[:-2]) & (turn <= 0)
        if not low.any():
            return corners
        stays = np.ones(len(corners), np.bool_)
        stays[1:-1] = ~low
        corners = corners[stays]


def _envelope_at(row: I64, whose: I64, owner: I64, y: I64, x: I64) -> I64:
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


def _solid_hulls(start: I64, length: I64, owner: I64, size: I64) -> tuple[Owned, Flags]:
    """Return the runs of the hulls in 3D, and which objects are flat and have none here."""
    row, left, right, of = _occupied_rows(start, length, owner, size)
    bounds = ragged.from_owner(of, len(size))
    flat = np.ones(len(size), np.bool_)
    pieces = []
    for k in np.flatnonzero(np.diff(bounds) > 1).tolist():
        mine = slice(int(bounds[k]), int(bounds[k + 1]))
        z = row[mine] // size[k, 1]
        ends = [np.stack([x[mine], row[mine] - z * size[k, 1], z], axis=1) for x in (left, right)]
        points = np.concatenate(ends)
        # Qhull refuses flat objects, and their hull is themselves.
        flat[k] = _is_flat(points)
        if not flat[k]:
            low, high, y, z = _hull_rows(points)
            begin = (z * size[k, 1] + y) * size[k, 0] + low
            pieces.append((begin, high - low + 1, np.full(len(begin), k)))
    nothing = np.zeros(0, np.int64)
    if not pieces:
        return (nothing, nothing, nothing), flat
    start, length, owner = (np.concatenate([nothing, *parts]) for parts in zip(*pieces))
    return (start, length, owner), flat


def _is_flat(points: I64) -> bool:
    """Return whether whole points lie in one plane."""
    arms = points - points[0]
    arm = arms[np.argmax(np.abs(arms).sum(axis=1))]
    normals = np.cross(arms, arm)
    normal = normals[np.argmax(np.abs(normals).sum(axis=1))]
    return not (arms @ normal).any()


def _hull_rows(points: I64) -> tuple[I64, I64, I64, I64]:
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
    parts = [_row_limits(y[k : k + step], z[k : k + step], planes) for k in range(0, len(y), step)]
    low, high = (np.concatenate(ends) for ends in zip(*parts))
    there = high >= low
    x0, y0, z0 = corner
    return low[there] + x0, high[there] + x0, y[there] + y0, z[there] + z0


def _row_limits(y: I64, z: I64, planes: F64) -> tuple[I64, I64]:
    """Return the smallest and the largest whole x inside all half-spaces in each row (y, z)."""
    slope = planes[:, 0]
    # The half-spaces are slope * x <= rest.
    rest = TOLERANCE - planes[:, 3] - np.outer(y, planes[:, 1]) - np.outer(z, planes[:, 2])
    level, rising, falling = np.abs(slope) < 1e-12, slope >= 1e-12, slope <= -1e-12
    high = np.floor((rest[:, rising] / slope[rising]).min(axis=1))
    low = np.ceil((rest[:, falling] / slope[falling]).max(axis=1))
    high[(rest[:, level] < 0).any(axis=1)] = -1  # every x of an object is at least 0
    return np.maximum(low, 0).astype(np.int64), high.astype(np.int64)


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
    first, count = _crossed_columns(x, x[following], width[ring])
    pixels = int((size[:, 0] * size[:, 1]).max(initial=0)) + 1
    keys = []
    for begin, end in ragged.batches(count, BATCH):
        edge = np.repeat(np.arange(begin, end), count[begin:end])
        column = ragged.spans(first[begin:end], count[begin:end])
        depth = _crossing_depth(x, y, edge, following[edge], column)
        row = np.clip(np.ceil((depth + 0.5) / FINE - 0.5), 0, height[ring[edge]]).astype(np.int64)
        # Ring, column and row in one number: sorted, crossings of a ring pair up as in and out.
        keys.append(ring[edge] * pixels + column * height[ring[edge]] + row)
    key = np.sort(np.concatenate(keys)) if keys else np.zeros(0, np.int64)
    ring = key[0::2] // pixels
    start = key[0::2] - ring * pixels
    return _union(owner[ring], start, key[1::2] - key[0::2], len(size), pixels)


def crossing_counts(rings: I64, corners: F64, objects: I64, size: I64) -> I64:
    """Return the (n,) number of crossings of columns, which is what `column_runs` costs."""
    owner = ragged.owners(objects)
    x = _fifths(corners[:, 0])
    ring = ragged.owners(rings)
    _, count = _crossed_columns(x, x[following_corners(rings)], size[owner[ring], 0])
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


def _crossed_columns(here: I64, there: I64, width: I64) -> tuple[I64, I64]:
    """Return (first, count) of the pixel columns that each edge crosses, inside of the picture."""
    low, high = np.minimum(here, there), np.maximum(here, there)
    first = np.maximum(-((BEFORE - low) // FINE), 0)
    last = np.minimum((high - AFTER) // FINE, width - 1)
    return first, np.maximum(last - first + 1, 0)


def _crossing_depth(x: I64, y: I64, edge: I64, following: I64, column: I64) -> I64:
    """Return how far down, in fifths, the outline is where an edge crosses a column: the upper of
    the two points.
    """
    # pycocotools steps along the longer side of an edge; the two cases round differently.
    flat = np.abs(x[edge] - x[following]) >= np.abs(y[edge] - y[following])
    depth = np.empty(len(edge), np.int64)
    depth[flat] = _depth_along_x(x, y, edge[flat], following[flat], column[flat])
    steep = ~flat
    depth[steep] = _depth_along_y(x, y, edge[steep], following[steep], column[steep])
    return depth


def _depth_along_x(x: I64, y: I64, edge: I64, following: I64, column: I64) -> I64:
    """Edges that step along x: the outline at the third and at the fourth fifth of a column."""
    turned = x[edge] > x[following]
    left, right = np.where(turned, following, edge), np.where(turned, edge, following)
    slope = (y[right] - y[left]) / (x[right] - x[left])
    at = FINE * column - x[left]
    points = [(y[left] + slope * (at + fifth) + 0.5).astype(np.int64) for fifth in (BEFORE, AFTER)]
    return np.asarray(np.minimum(*points))


def _depth_along_y(x: I64, y: I64, edge: I64, following: I64, column: I64) -> I64:
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


def _union(owner: I64, start: I64, length: I64, n: int, pixels: int) -> Runs:
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


def self_crossing(rings: I64, corners: F64) -> tuple[Flags, Flags]:
    """Return which rings cross themselves, and which have too many pairs of edges to tell.

    Parameters
    ----------
    rings
        (r + 1,) corners of each ring.
    corners
        (m, 2) x, y, finite.

    Notes
    -----
    A ring crosses itself if two of its edges cross at a point inside of both: edges that only
    touch, at a corner or along a line, do not cross. Only edges whose spans on the x axis overlap
    are tried.
    """
    n = len(rings) - 1
    crossed, unknown = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    if not len(corners):
        return crossed, unknown
    edge, ring, count = _edge_candidates(rings, corners)
    unknown = np.bincount(ring, count, n) > MOST_PAIRS
    count[unknown[ring]] = 0
    following = following_corners(rings)
    for begin, end in ragged.batches(count, BATCH):
        position = np.arange(begin, end)
        first = np.repeat(position, count[begin:end])
        second = ragged.spans(position + 1, count[begin:end])
        hit = _edges_cross(corners, following, edge[first], edge[second])
        crossed[ring[first[hit]]] = True
    return crossed, unknown


def _edge_candidates(rings: I64, corners: F64) -> tuple[I64, I64, I64]:
    """Return the edges of each ring by their left ends, their rings, and how many that follow begin
    before they end.
    """
    here, there = corners[:, 0], corners[following_corners(rings), 0]
    low, high = np.minimum(here, there), np.maximum(here, there)
    ring = ragged.owners(rings)
    room = float(high.max() - low.min()) + 1.0
    key = ring * room + (low - low.min())
    order = np.argsort(key, kind="stable")
    reach = ring * room + (high - low.min()) + SLACK
    stop = np.searchsorted(key[order], reach[order], side="right")
    stop = np.minimum(stop, rings[ring[order] + 1])
    return order, ring[order], np.maximum(stop - np.arange(len(order)) - 1, 0)


def _edges_cross(corners: F64, following: I64, first: I64, second: I64) -> Flags:
    a, b, c, d = (
        corners[first],
        corners[following[first]],
        corners[second],
        corners[following[second]],
    )
    apart = _side_of_line(a, b, c) * _side_of_line(a, b, d) < 0
    return np.asarray(apart & (_side_of_line(c, d, a) * _side_of_line(c, d, b) < 0))


def _side_of_line(a: F64, b: F64, c: F64) -> F64:
    """Return on which side of the line from a to b a point c lies, as a sign."""
    return np.sign(
        (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    )


def rings(mask: Flags) -> tuple[I64, I64]:
    """Return the outlines of the pixels that are set.

    Parameters
    ----------
    mask
        (h, w).

    Returns
    -------
    points
        (m, 2) corners x, y, from 0 to w and 0 to h; every ring starts at its first corner from
        above, then from the left, and first goes right. Outer rings run clockwise on a screen,
        holes likewise.
    offsets
        (n_rings + 1,) corners of each ring; at least four. No pixel set gives no ring.

    Notes
    -----
    Two pixels that touch at a corner only are outlined as two: rings may touch, they never cross.
    """
    x, y, falling = _corners(mask)
    # Corners come by rows; only those of a column need `falling` to tell double ones apart.
    along_row = _edge_partners(np.lexsort((x, y)))
    along_column = _edge_partners(np.lexsort((falling, y, x)))
    order, offsets = _walk_rings(along_row.tolist(), along_column.tolist())
    return np.stack([x, y], axis=1)[order].reshape(-1, 2), offsets


def _corners(mask: Flags) -> tuple[I64, I64, I64]:
    """Return x, y of every corner by rows, double ones twice, and the order of the two of a double
    one in its column.

    Of a double corner the first of the two ends an edge from the left, the second begins one to the
    right. Where the pixels above left and below right are set, the first also ends the edge from
    above; else it begins the one below.
    """
    padded = np.pad(mask, 1)
    a, b, c, d = padded[:-1, :-1], padded[:-1, 1:], padded[1:, :-1], padded[1:, 1:]
    across = (a == d) & (b == c) & (a != b)
    count = (a ^ b ^ c ^ d).astype(np.int64) + 2 * across
    place = np.repeat(np.arange(count.size), count.ravel())
    second = np.zeros(len(place), np.int64)
    second[1:] = place[1:] == place[:-1]
    rising = (across & b).ravel()[place]  # above right and below left are set
    y, x = np.divmod(place, count.shape[1])
    return x, y, np.where(rising, 1 - second, second)


def _edge_partners(order: I64) -> I64:
    """Return the corner at the other end of an edge, given the corners in the order of their rows
    or columns.
    """
    partner = np.empty(len(order), np.int64)
    partner[order[0::2]] = order[1::2]
    partner[order[1::2]] = order[0::2]
    return partner


def _walk_rings(along_row: list[int], along_column: list[int]) -> tuple[I64, I64]:
    """Return the corners ring by ring, and where each ring starts."""
    visited = [False] * len(along_row)
    order: list[int] = []
    offsets = [0]
    for first in range(len(along_row)):
        if visited[first]:
            continue
        corner = first
        while not visited[corner]:
            other = along_row[corner]
            visited[corner] = visited[other] = True
            order += (corner, other)
            corner = along_column[other]
        offsets.append(len(order))
    return np.array(order, np.int64), np.array(offsets, np.int64)
