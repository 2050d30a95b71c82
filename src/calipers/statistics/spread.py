# SPDX-License-Identifier: Apache-2.0
"""Moments, quantiles and batches of columns of replicates.

Replicates come as (..., B, m): B replicates of m numbers, or several batches of them at once, and
every function returns (..., m). Undefined replicates are NaN and left out. `statistics.intervals`
makes intervals of these numbers.

Bits matter here, because stored results are recomputed and compared: NumPy adds up a column that
lies together in memory pairwise, and columns side by side row by row. Nothing below changes the
layout that it was handed.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64

STRIP = 64  # columns whose moments are taken at a time


def quantiles(rows: F64, level: float) -> tuple[F64, F64]:
    """Return the two outer quantiles of every column (type 7, NumPy's bits), leaving out NaN."""
    columns = np.sort(rows, axis=-2)  # NaN come last
    n = rows.shape[-2] - np.isnan(rows).sum(axis=-2)
    return quantile(columns, n, (1 - level) / 2), quantile(columns, n, (1 + level) / 2)


def quantile(sorted_columns: F64, n: NDArray[np.int64], q: F64 | float) -> F64:
    """Return one quantile of the first n of every sorted column; NaN where there are none."""
    if not sorted_columns.shape[-2]:
        return np.full(n.shape, np.nan)
    last = np.maximum(n - 1, 0)
    at = last * q
    below = np.floor(at)
    share, k = at - below, below.astype(np.int64)
    a = _entries(sorted_columns, k)
    b = _entries(sorted_columns, np.minimum(k + 1, last))
    # From the nearer end, as NumPy does it: the result lies between the two, and is exact at both.
    return np.asarray(np.where(share >= 0.5, b - (b - a) * (1 - share), a + (b - a) * share))


def _entries(columns: F64, k: NDArray[np.int64]) -> F64:
    """Return the k-th entry of every column."""
    return np.asarray(np.take_along_axis(columns, k[..., None, :], axis=-2)[..., 0, :])


def batches(rows: F64, number: int) -> list[F64]:
    """Return batches of consecutive replicates, those of one size as (batches, size, m).

    A view: replicates that lie together in memory still do, and are added up in the same order.
    """
    size, n_longer = divmod(len(rows), number)
    longer, shorter = np.split(rows, [n_longer * (size + 1)])
    stacks = [shorter.reshape(-1, size, rows.shape[1])]
    if n_longer:
        stacks.insert(0, longer.reshape(-1, size + 1, rows.shape[1]))
    return stacks


def moments(rows: F64, missing: NDArray[np.bool_]) -> tuple[F64, F64]:
    """Return mean and standard deviation (ddof 1) of every column, leaving out NaN."""
    m = rows.shape[-1]
    if m < 2 * STRIP:
        return _moments(rows, missing)
    # What is made on the way is as large as the replicates. The last strip is never one column.
    edges = [*range(0, m - STRIP + 1, STRIP), m]
    parts = []
    for first, end in pairwise(edges):
        parts.append(_moments(rows[..., first:end], missing[..., first:end]))
    means_of_strips, deviations = zip(*parts)
    return np.concatenate(means_of_strips, axis=-1), np.concatenate(deviations, axis=-1)


def _moments(rows: F64, missing: NDArray[np.bool_]) -> tuple[F64, F64]:
    n = (~missing).sum(axis=-2)
    filled = np.where(missing, 0.0, rows)
    # Relative to the first replicate, so that equal replicates have a deviation of exactly 0.
    base = filled[..., :1, :].sum(axis=-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = np.where(missing, 0.0, filled - base[..., None, :])
        mean = base + shifted.sum(axis=-2) / n
        square = (np.where(missing, 0.0, filled - mean[..., None, :]) ** 2).sum(axis=-2)
        return mean, np.sqrt(square / (n - 1))


def variances(rows: F64) -> F64:
    """Return the variance of every column, leaving out NaN."""
    return np.asarray(moments(rows, np.isnan(rows))[1] ** 2)


def means(rows: F64) -> F64:
    """Return the mean of every column, leaving out NaN; NaN where nothing is left."""
    return moments(rows, np.isnan(rows))[0]
