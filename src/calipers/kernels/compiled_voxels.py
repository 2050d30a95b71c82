# SPDX-License-Identifier: Apache-2.0
"""The compiled twins of the voxel kernels, with the signatures of their NumPy kernels. Nothing here
computes.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.route import threads

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Flags = NDArray[np.bool_]
Scores = NDArray[np.floating[Any]]


def bins_of(native: ModuleType, values: Scores) -> I32:
    """Twin of `voxels.bins_of`."""
    bins = np.empty(values.size, np.int32)
    native.voxel_bins(values, _wide(values), bins, threads())
    return bins


def table(
    native: ModuleType, values: Scores, positive: Flags, n_bins: int
) -> tuple[I64, I64, F64, F64]:
    """Twin of `voxels._table`."""
    positives, negatives = np.empty(n_bins, np.int64), np.empty(n_bins, np.int64)
    lowest, highest = np.empty(n_bins), np.empty(n_bins)
    columns = (positives, negatives, lowest, highest)
    native.voxel_histogram(values, _wide(values), positive.view(np.uint8), *columns, threads())
    return columns


def split(
    native: ModuleType, values: Scores, positive: Flags, n_positives: int
) -> tuple[Scores, Scores]:
    """Twin of `voxel_ranking._split`."""
    positives = np.empty(n_positives + 1, values.dtype)
    negatives = np.empty(values.size - n_positives + 1, values.dtype)
    native.voxel_split(values, _wide(values), positive.view(np.uint8), positives, negatives)
    return positives[:-1], negatives[:-1]


def walk(
    native: ModuleType,
    positives: Scores,
    negatives: Scores,
    positive_offsets: I64,
    negative_offsets: I64,
) -> tuple[I64, I64, I64, F64, F64]:
    """Twin of `voxel_ranking.walk`."""
    n = len(positive_offsets) - 1
    counts = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    columns = (*counts, np.empty(n), np.empty(n))
    offsets = (_i64(positive_offsets), _i64(negative_offsets))
    sides = (np.ascontiguousarray(positives), np.ascontiguousarray(negatives))
    native.voxel_walk(*sides, _wide(positives), *offsets, *columns, threads())
    return columns


def pooled(native: ModuleType, positives: F64, negatives: F64, inexact: Flags, rate: float) -> F64:
    """Twin of `voxel_histograms.sums`."""
    n = len(positives)
    sums = np.empty((9, n))
    flags = np.ascontiguousarray(inexact, np.bool_).view(np.uint8)
    native.voxel_pooled(positives, negatives, flags, n, np.array([rate]), sums, threads())
    return sums


def _wide(values: Scores) -> bool:
    return bool(values.dtype == np.float64)


def _i64(array: NDArray[Any]) -> I64:
    return np.ascontiguousarray(array, np.int64)
