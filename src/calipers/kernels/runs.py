# SPDX-License-Identifier: Apache-2.0
"""Run lengths: voxels that follow each other along x, as the index of the first one and their
number.

Flat arrays throughout: ``start`` and ``length`` (m,), and ``size`` as width, height[, depth], (d,)
for runs of one image or (m, d) for runs of several. Arrays of voxels are ``[z, ]y, x`` in C order;
coordinates are x, y[, z], and the centre of a voxel lies at + 0.5. Runs of an object are sorted,
disjoint, and end with their row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled_runs, ragged, route

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Array = NDArray[Any]
AT_ONCE = 1 << 19  # voxels


def find(array: Array) -> tuple[I64, I64]:
    """Return (start, length) of the runs of the voxels that are not zero, in the order of the
    voxels.
    """
    start, length, _ = _runs(array, True)
    return start, length


def of_labels(labels: Array) -> tuple[I64, I64, Array]:
    """Return (start, length, value) of the runs of equal values that are not zero, in the order of
    the voxels.
    """
    return _runs(labels, False)


def _runs(array: Array, alike: bool) -> tuple[I64, I64, Array]:
    native = route.native()
    if native is not None and alike and array.dtype.kind not in compiled_runs.WHOLE:
        array = array != 0
    if native is not None and array.dtype.kind in compiled_runs.WHOLE:
        return compiled_runs.pieces(native, array, alike)
    return _pieces(array, alike and array.dtype != np.bool_)


def _pieces(array: Array, alike: bool) -> tuple[I64, I64, Array]:
    """Return the runs and their values; with ``alike`` all values but zero are one."""
    flat = np.ascontiguousarray(array).reshape(-1)
    edges = [np.zeros(min(1, len(flat)), np.int64)]
    for low in range(1, len(flat), AT_ONCE):  # what is compared stays in the cache
        part = flat[low - 1 : low + AT_ONCE]
        part = part != 0 if alike else part
        edges.append(np.flatnonzero(part[1:] != part[:-1]) + low)
    first = np.concatenate(edges)
    value = flat[first]
    nonzero = np.flatnonzero(value)
    start, length, mine = _cut_at_rows(
        first[nonzero], np.append(first, len(flat))[nonzero + 1], array.shape[-1]
    )
    return start, length, value[nonzero[mine]]


def numbered(value: Array) -> tuple[I64, int]:
    """Return the place of every value among the distinct ones, ascending, and their number."""
    if value.dtype.kind in "biu" and value.size:
        low, high = int(value.min()), int(value.max())
        if high - low <= max(4 * len(value), AT_ONCE) and high < 1 << 62:
            place = value.astype(np.int64) - low
            present = np.zeros(high - low + 1, np.bool_)
            present[place] = True
            return (np.cumsum(present) - 1)[place], int(present.sum())
    values, owner = np.unique(value, return_inverse=True)
    return owner, len(values)


def grouped(start: I64, length: I64, owner: I64, n: int) -> tuple[I64, I64, I64]:
    """Return (offsets, start, length) of the runs sorted by owner, 0..n-1; those of one owner keep
    their order.
    """
    native = route.native()
    if native is not None:
        return compiled_runs.grouped(native, start, length, owner, n)
    order = np.argsort(owner, kind="stable")
    return ragged.from_owner(owner, n), start[order], length[order]


def _cut_at_rows(first: I64, after: I64, width: int) -> tuple[I64, I64, I64]:
    """Cut pieces ``first:after`` of a flat array where a row ends; return start, length and the
    piece of every run.
    """
    row = first // max(width, 1)
    rows = (after - 1) // max(width, 1) - row + 1
    mine = np.repeat(np.arange(len(rows)), rows)
    place = row[mine] + ragged.positions(rows)
    start = np.maximum(first[mine], place * width)
    return start, np.minimum(after[mine], (place + 1) * width) - start, mine


def fill(start: I64, length: I64, value: Array | bool | int, shape: tuple[int, ...]) -> Array:
    """Return the dense array: ``value`` (one, or one per run) inside runs, zero elsewhere."""
    value = np.asarray(value)
    array = np.zeros(shape, value.dtype)
    array.reshape(-1)[ragged.spans(start, length)] = (
        np.repeat(value, length) if value.ndim else value
    )
    return array


def places(start: I64, size: I64) -> I64:
    """Return the (d, m) coordinates x, y[, z] of the voxels with the indices ``start``."""
    width = size[..., 0]
    row = start // width
    x = start - row * width
    if size.shape[-1] == 2:
        return np.stack([x, row])
    z = row // size[..., 1]
    return np.stack([x, row - z * size[..., 1], z])


def voxels(length: I64, offsets: I64) -> I64:
    """Return the (n,) number of voxels of every object; 0 without runs."""
    total = np.concatenate([[0], np.cumsum(length)])
    return np.asarray(total[offsets[1:]] - total[offsets[:-1]])


def boxes(start: I64, length: I64, offsets: I64, size: I64) -> F64:
    """Return the (n, 2 d) smallest boxes around the voxels of every object; NaN without runs. Sizes
    are (n, d).
    """
    native = route.native()
    if native is not None:
        return compiled_runs.boxes(native, (offsets, start, length), size)
    low = places(start, size[ragged.owners(offsets)])
    high = low + 1
    high[0] = low[0] + length
    corners = np.full((len(offsets) - 1, 2 * len(low)), np.nan)
    some = np.flatnonzero(np.diff(offsets))
    if len(some):
        corners[some, : len(low)] = np.minimum.reduceat(low, offsets[some], axis=1).T
        corners[some, len(low) :] = np.maximum.reduceat(high, offsets[some], axis=1).T
    return corners


def centroids(start: I64, length: I64, offsets: I64, size: I64) -> F64:
    """Return the (n, d) mean of the voxel centres of every object; NaN without runs. Sizes are (n,
    d).

    Sums are whole numbers and exact, up to objects of 2^62 / (2 width) voxels.
    """
    # Twice the sum of the centres of a run.
    twice = (2 * places(start, size[ragged.owners(offsets)]) + 1) * length
    twice[0] += (length - 1) * length
    means = np.full((len(offsets) - 1, len(twice)), np.nan)
    some = np.flatnonzero(np.diff(offsets))
    if len(some):
        total = np.add.reduceat(length, offsets[some])
        means[some] = (np.add.reduceat(twice, offsets[some], axis=1) / (2 * total)).T
    return means


def weighted_centroids(
    values: Array, start: I64, length: I64, offsets: I64, size: I64
) -> tuple[F64, F64]:
    """Return (n,) sums of a flat map over the voxels of every object and their (n, d) centroids
    weighted by it.

    The centroid is ``sum(value * centre) / sum(value)``; NaN where the sum is 0, as it is without
    runs. Everything is added up in float64 and in the order of the voxels.
    """
    native = route.native()
    if native is not None and values.dtype in compiled_runs.REAL and size.ndim == 1:
        return compiled_runs.weighted_centroids(native, values, (offsets, start, length), size)
    n, voxel_values = len(offsets) - 1, _values_of(values, start, length)
    of_run = np.repeat(ragged.owners(offsets), length)
    total = _sums(of_run, voxel_values, n)
    where = places(start, size)
    means = np.full((n, len(where)), np.nan)
    some = total != 0
    for axis, at in enumerate(where):
        centre = np.repeat(at, length) + (ragged.positions(length) if axis == 0 else 0) + 0.5
        means[some, axis] = _sums(of_run, voxel_values * centre, n)[some] / total[some]
    return total, means


def _values_of(values: Array, start: I64, length: I64) -> F64:
    """Return the values of all voxels of the runs, one after the other."""
    return values[ragged.spans(start, length)].astype(np.float64, copy=False)


def _sums(owner: I64, values: F64, n: int) -> F64:
    # Without values, bincount returns whole numbers.
    return np.bincount(owner, weights=values, minlength=n).astype(np.float64, copy=False)


def in_box(start: I64, length: I64, size: I64, corners: F64) -> F64:
    """Return the (m,) area (volume) that run k shares with the box ``corners[:, k]``, (2 d, m):
    exact, voxels are cut.

    A run is the box ``[x, x + length)`` by ``[y, y + 1)`` and so on. A box whose high corner lies
    before its low one shares nothing.
    """
    low = places(start, size)
    d = len(low)
    common = np.maximum(
        np.minimum(low[0] + length, corners[d]) - np.maximum(low[0], corners[0]), 0.0
    )
    for axis in range(1, d):
        at = low[axis]
        common *= np.maximum(
            np.minimum(at + 1, corners[d + axis]) - np.maximum(at, corners[axis]), 0.0
        )
    return np.asarray(common)


def contains(start: I64, length: I64, offsets: I64, size: I64, queries: tuple[I64, F64]) -> Flags:
    """Return whether the voxel that holds ``points[k]`` (x, y[, z]) belongs to the object
    ``rows[k]``.

    ``queries`` is (rows, points). ``size`` is (n, d), of every object. A point outside of the image
    belongs to nothing.
    """
    rows, points = queries
    voxel, frame = np.floor(points), size[rows]
    inside = np.asarray(((voxel >= 0) & (voxel < frame)).all(axis=1))
    at = np.where(inside[:, None], voxel, 0).astype(np.int64)
    index = at[:, -1]
    for axis in range(at.shape[1] - 2, -1, -1):
        index = index * frame[:, axis] + at[:, axis]
    # Runs are sorted inside of their object: with the object in front they are sorted as a whole.
    unit = int(np.prod(size, axis=1).max(initial=1))
    before = (
        np.searchsorted(ragged.owners(offsets) * unit + start, rows * unit + index, side="right")
        - 1
    )
    mine = inside & (before >= offsets[rows])
    run = np.where(mine, before, 0)
    if not len(start):
        return mine
    return np.asarray(mine & (index < start[run] + length[run]))
