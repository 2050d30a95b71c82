# SPDX-License-Identifier: Apache-2.0
"""Every pair of K maps of the same N instances at once: joint counts and correlations.

Pairs are unordered and listed as (0, 1), (0, 2), ..., (K-2, K-1). What depends on one map only, its
ranks and its positives, is found once per map; pairs are products. Counts are whole numbers, and
the few floating-point operations on them are the same on both routes, so ranks, counts and what
follows from them have the same bits everywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled_pairwise, route
from calipers.kernels.kendall import discordant
from calipers.kernels.rank_rows import RankPlaces, places, products

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

WIDTH = 1 << 16  # instances of a product at a time: counts up to 2^24 are exact in single precision


def pair_index(n_models: int) -> tuple[I64, I64]:
    """Return the first and the second model of every pair, (P,) each."""
    first, second = np.triu_indices(n_models, 1)
    return first.astype(np.int64), second.astype(np.int64)


def joint_counts(values: F64, thresholds: F64) -> tuple[I64, I64, I64]:
    """Count the instances that models call positive, which is at or above a threshold.

    Parameters
    ----------
    values
        (K, N).
    thresholds
        (T,).

    Returns
    -------
    tuple
        (T, K) positives of every model; (T, P) positives shared by the models of every pair; (T, K
        + 1) instances that exactly k models call positive. All are 0 without instances.
    """
    native, rows = route.native(), np.ascontiguousarray(values, np.float64)
    cuts = np.ascontiguousarray(thresholds, np.float64)
    if native is not None and len(rows):  # the twin reads the number of instances off the rows
        return compiled_pairwise.joint_counts(native, rows, cuts)
    n_models, n = rows.shape
    shared = np.zeros((len(cuts), n_models, n_models), np.int64)
    votes = np.zeros((len(cuts), n_models + 1), np.int64)
    for start in range(0, n, WIDTH):
        block = rows[:, start : start + WIDTH]
        for t, cut in enumerate(cuts):
            positive = (block >= cut).astype(np.float32)
            shared[t] += (positive @ positive.T).astype(np.int64)
            votes[t] += np.bincount(positive.sum(axis=0).astype(np.int64), minlength=n_models + 1)
    first, second = pair_index(n_models)
    return np.diagonal(shared, axis1=1, axis2=2).copy(), shared[:, first, second], votes


def hits(values: F64, instances: Flags, thresholds: F64) -> I64:
    """Return (T, K): how many of the positive instances (N,) of a reference every model calls
    positive.
    """
    return joint_counts(values[:, instances], thresholds)[0]


def pearson(values: F64) -> F64:
    """Return (P,) product-moment correlations; NaN where one of the two maps is constant, or has no
    instance.

    Notes
    -----
    Maps are brought to a size near 1 by a power of two, which is exact, so that the squares of the
    smallest numbers do not vanish. Sums are NumPy's over one row, never a matrix product, whose
    order of terms is the machine's business.
    """
    n_models, n = values.shape
    correlations = np.full(n_models * (n_models - 1) // 2, np.nan)
    if n < 2 or n_models < 2:
        return correlations
    constant = (values == values[:, :1]).all(axis=1)
    centred = _unit(values)
    for _ in range(2):  # once more takes away what rounding left of the mean
        centred -= centred.mean(axis=1, keepdims=True)
    centred = _unit(centred)
    squares = np.where(constant, np.nan, np.array([np.square(row).sum() for row in centred]))
    first, second = pair_index(n_models)
    shared = np.empty(len(first))
    for k, (i, j) in enumerate(zip(first, second)):
        shared[k] = np.multiply(centred[i], centred[j]).sum()
    return _cosines(shared, squares, first, second)


def midranks(values: F64) -> F64:
    """Return (K, N) ranks from 1 within every map; ties share the mean of their ranks."""
    return np.asarray((places(values).doubled + (values.shape[1] + 1.0)) / 2)


def spearman(values: F64) -> F64:
    """Return (P,) rank correlations: those of the midranks; NaN where one of the two maps is
    constant.
    """
    return _spearman(places(values))


def kendall(values: F64) -> tuple[F64, F64]:
    """Return (P,) tau-b and (P,) tau-a.

    tau-a is concordant less discordant pairs of instances, over all of them; tau-b leaves out the
    pairs that are tied in either map, and is NaN where a map is constant. Both are NaN for fewer
    than two instances.
    """
    return _kendall(places(values))


def correlations(values: F64) -> F64:
    """Return (4, P): Pearson, Spearman, Kendall tau-b, Kendall tau-a."""
    ranked = places(values)
    return np.stack([pearson(values), _spearman(ranked), *_kendall(ranked)])


def _spearman(ranked: RankPlaces) -> F64:
    shared = products(ranked.doubled)
    squares = np.where(ranked.constant, np.nan, np.diagonal(shared))
    first, second = pair_index(len(shared))
    return _cosines(shared[first, second], squares, first, second)


def _kendall(ranked: RankPlaces) -> tuple[F64, F64]:
    n_models, n = ranked.below.shape
    first, second = pair_index(n_models)
    swapped, joint = discordant(ranked, first, second)
    untied, everything = ranked.untied, n * (n - 1) // 2
    # Concordant and discordant pairs are those that neither map ties; the former are what the
    # latter leave.
    excess = (untied[first] + untied[second] - everything + joint - 2 * swapped).astype(np.float64)
    size = untied.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return excess / np.sqrt(size[first] * size[second]), excess / np.float64(everything)


def _unit(values: F64) -> F64:
    """Return rows multiplied by the power of two that brings their largest size to [0.5, 1); rows
    of 0 as they are.
    """
    exponent = np.frexp(np.abs(values).max(axis=1, keepdims=True))[1]
    return np.asarray(np.ldexp(values, -exponent))


def _cosines(shared: F64, squares: F64, first: I64, second: I64) -> F64:
    """Return (P,) products over the root of the squares; one root for both, so that equal maps give
    exactly 1.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.clip(shared / np.sqrt(squares[first] * squares[second]), -1.0, 1.0))
