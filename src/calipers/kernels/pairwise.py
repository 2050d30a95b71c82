# SPDX-License-Identifier: Apache-2.0
"""Every pair of K maps of the same N instances at once: joint counts and correlations.

Pairs are unordered and listed as (0, 1), (0, 2), ..., (K-2, K-1). What depends on one map only, its ranks and its
positives, is found once per map; pairs are products.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

CHUNK = 1 << 22  # entries of a table of differences at a time


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
        (T, K) positives of every model; (T, P) positives shared by the models of every pair; (T, K + 1) instances that
        exactly k models call positive.
    """
    n_models = len(values)
    first, second = pair_index(n_models)
    ones = np.zeros((len(thresholds), n_models), np.int64)
    both = np.zeros((len(thresholds), len(first)), np.int64)
    called = np.zeros((len(thresholds), n_models + 1), np.int64)
    for t, threshold in enumerate(thresholds):
        positive = values >= threshold
        shared = positive.astype(np.float64) @ positive.T.astype(np.float64)  # whole numbers: exact in any order
        ones[t], both[t] = np.diagonal(shared), shared[first, second]
        called[t] = np.bincount(positive.sum(axis=0), minlength=n_models + 1)
    return ones, both, called


def hits(values: F64, instances: Flags, thresholds: F64) -> I64:
    """Return (T, K): how many of the positive instances (N,) of a reference every model calls positive."""
    chosen = values[:, instances]
    return np.stack([(chosen >= threshold).sum(axis=1) for threshold in thresholds]).astype(np.int64)


def pearson(values: F64) -> F64:
    """Return (P,) product-moment correlations; NaN where one of the two maps is constant."""
    constant = (values == values[:, :1]).all(axis=1) if values.shape[1] else np.ones(len(values), np.bool_)
    centred = values - values.mean(axis=1, keepdims=True) if values.shape[1] else values
    return _correlated(centred, constant)


def midranks(values: F64) -> F64:
    """Return (K, N) ranks from 1 within every map; ties share the mean of their ranks."""
    found = np.empty(values.shape)
    for k, row in enumerate(values):
        order = np.argsort(row, kind="stable")
        starts = np.flatnonzero(np.concatenate([[True], row[order][1:] != row[order][:-1]])[: len(row)])
        ends = np.append(starts[1:], len(row))
        found[k, order] = np.repeat(0.5 * (starts + ends + 1), ends - starts)
    return found


def spearman(values: F64) -> F64:
    """Return (P,) rank correlations: those of the midranks; NaN where one of the two maps is constant."""
    ranks = midranks(values)
    constant = (ranks == ranks[:, :1]).all(axis=1) if ranks.shape[1] else np.ones(len(ranks), np.bool_)
    return _correlated(2 * ranks - (ranks.shape[1] + 1), constant)  # whole numbers: products are exact


def kendall(values: F64) -> tuple[F64, F64]:
    """Return (P,) tau-b and (P,) tau-a.

    tau-a is concordant less discordant pairs of instances, over all of them; tau-b leaves out the pairs that are tied
    in either map, and is NaN where a map is constant. Both are NaN for fewer than two instances.
    """
    n_models, n = values.shape
    first, second = pair_index(n_models)
    excess, untied = np.zeros(len(first), np.int64), np.zeros(n_models, np.int64)
    width = max(1, CHUNK // max(n_models * n, 1))
    for start in range(0, n, width):
        sign = np.sign(values[:, start : start + width, None] - values[:, None, :]).reshape(n_models, -1)
        shared = sign @ sign.T  # whole numbers
        excess += shared[first, second].astype(np.int64)
        untied += np.diagonal(shared).astype(np.int64)
    with np.errstate(invalid="ignore", divide="ignore"):
        tau_b = excess / np.sqrt(untied[first].astype(np.float64) * untied[second].astype(np.float64))
        tau_a = excess / np.float64(n * (n - 1))
    return tau_b, tau_a


def correlations(values: F64) -> F64:
    """Return (4, P): Pearson, Spearman, Kendall tau-b, Kendall tau-a."""
    return np.stack([pearson(values), spearman(values), *kendall(values)])


def _correlated(centred: F64, constant: Flags) -> F64:
    """Return (P,) cosines of the rows of (K, N); NaN where a row is constant."""
    first, second = pair_index(len(centred))
    products = centred @ centred.T
    size = np.sqrt(np.diagonal(products))
    size = np.where(constant, np.nan, size)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.clip(products[first, second] / (size[first] * size[second]), -1.0, 1.0))
