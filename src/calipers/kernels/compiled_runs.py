# SPDX-License-Identifier: Apache-2.0
"""The compiled twins of the kernels for runs, with the signatures of their NumPy kernels. Nothing
here computes.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.route import threads

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Array = NDArray[Any]
RunTable = tuple[I64, I64, I64]  # offsets, start, length

WHOLE = "biu"  # kinds of arrays whose equal values have equal bytes
REAL = (np.dtype(np.float32), np.dtype(np.float64))


def pieces(native: ModuleType, array: Array, alike: bool) -> tuple[I64, I64, Array]:
    """Twin of `runs._pieces` for arrays of whole numbers or flags."""
    flat = np.require(array, requirements=["C", "A"]).reshape(-1)
    begins, ends = np.empty((2, len(flat) // 64 + 1), np.uint64)
    shape = (flat.itemsize, max(1, array.shape[-1]), alike)
    n = native.run_borders(flat.view(np.uint8), *shape, begins, ends, threads())
    start, length = np.empty(n, np.int64), np.empty(n, np.int64)
    native.runs_between(begins, ends, start, length, threads())
    return start, length, flat[:0] if alike else flat[start]


def grouped(native: ModuleType, start: I64, length: I64, owner: I64, n: int) -> RunTable:
    """Twin of `runs.grouped`."""
    table = (
        np.empty(n + 1, np.int64),
        np.empty(len(start), np.int64),
        np.empty(len(start), np.int64),
    )
    native.group_runs(_i64(start), _i64(length), _i64(owner), *table)
    return table


def boxes(native: ModuleType, runs: RunTable, size: I64) -> F64:
    """Twin of `runs.boxes`; sizes are (n, d)."""
    corners = np.empty((len(size), 2 * size.shape[1]))
    native.run_boxes(*map(_i64, runs), _i64(size), size.shape[1], corners, threads())
    return corners


def weighted_centroids(
    native: ModuleType, values: Array, runs: RunTable, size: I64
) -> tuple[F64, F64]:
    """Twin of `runs.weighted_centroids` for maps of float32 or float64 over one image."""
    n = len(runs[0]) - 1
    total, centroids = np.empty(n), np.empty((n, len(size)))
    native.run_centroids(*_map(values), *map(_i64, runs), _i64(size), total, centroids, threads())
    return total, centroids


def components(
    native: ModuleType, start: I64, length: I64, size: I64, steps: Any, value: Array | None
) -> I64:
    """Twin of `components.components`; values are whole numbers."""
    numbers = np.empty(len(start), np.int64)
    values = np.zeros(0, np.int64) if value is None else _i64(value)
    native.run_components(
        _i64(start), _i64(length), values, _i64(size), np.array(steps, np.int64), numbers, threads()
    )
    return numbers


def common(native: ModuleType, a: RunTable, b: RunTable, rows: I64, columns: I64) -> I64:
    """Twin of `run_algebra.common`."""
    voxels = np.empty(len(rows), np.int64)
    native.common_voxels(*map(_i64, a), *map(_i64, b), _i64(rows), _i64(columns), voxels, threads())
    return voxels


def intersections(
    native: ModuleType, a: tuple[I64, I64, I64], b: tuple[I64, I64, I64]
) -> tuple[I64, I64, I64]:
    """Twin of `run_algebra.intersections`."""
    one, other, voxels = native.intersections(*map(_i64, a), *map(_i64, b))
    return (
        np.frombuffer(one, np.int64),
        np.frombuffer(other, np.int64),
        np.frombuffer(voxels, np.int64),
    )


def _map(values: Array) -> tuple[Array, bool]:
    return np.require(values, requirements=["C", "A"]), values.dtype == np.float64


def _i64(array: Array) -> I64:
    return np.ascontiguousarray(array, np.int64)
