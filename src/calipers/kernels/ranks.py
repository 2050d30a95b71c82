# SPDX-License-Identifier: Apache-2.0
"""Ranks of K maps of the same N instances, and joint counts and correlations of every pair of maps.

In come values (K, N); out come, for all pairs at once, positives shared at thresholds
(`joint_counts`) and Pearson, Spearman and Kendall correlations (`correlations`). Pairs are
unordered and listed as (0, 1), (0, 2), ..., (K-2, K-1). The stability of repeated trainings is the
caller. Fewer than 2^31 instances.

What depends on one map only, its order, ranks (`places`) and positives, is found once per map;
pairs are products. Counts are whole numbers, and the few floating-point operations on them are the
same on both routes, so ranks, counts and what follows from them have the same bits everywhere.

Kendall's tau counts pairs of instances that two maps put in opposite orders, as inversions in
O(N log N) with memory of O(N): list the instances in the order of one map and write down the place
of each in the other; a discordant pair is a place that stands before a lower one. Ties in one map
are ordered by the other, so that they never count.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I32, I64, Flags
from calipers.kernels import route

# Entries of rows that are sorted together: few calls for small maps, little memory for large ones.
ENTRIES = 1 << 16
WIDTH = 1 << 16  # instances of a product at a time
EXACT = 1 << 18  # instances up to which a sum of products of ranks stays below 2^53
SPLIT = 1 << 16  # larger ranks are taken apart into a high and a low half of 16 bits

Whole = NDArray[np.integer]

KENDALL_ENTRIES = 1 << 17  # places of several pairs that are worked on together


class RankPlaces(NamedTuple):
    """Where the instances of every map stand; (K, N) each."""

    order: I32  # instances in ascending order of their values, ties in any order
    below: I32  # how many instances have a lower value
    # twice the distance of the midrank from the mean rank: N at most, and 0 throughout a constant
    # map
    doubled: I32

    @property
    def untied(self) -> I64:
        """(K,) pairs of instances with different values: each instance has that many below it."""
        return np.asarray(self.below.sum(axis=1, dtype=np.int64))

    @property
    def constant(self) -> Flags:
        """(K,) maps that have one value only; maps without instances are."""
        return np.asarray(self.untied == 0)


@lru_cache(maxsize=4)  # asked for every bag, with the same number of models
def pair_index(n_models: int) -> tuple[I64, I64]:
    """Return the first and the second model of every pair, (P,) each, not to be written to."""
    pairs = np.array(np.triu_indices(n_models, 1), np.int64)
    pairs.flags.writeable = False
    return pairs[0], pairs[1]


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
        return route.joint_counts(native, rows, cuts)
    n_models, n = rows.shape
    shared = np.zeros((len(cuts), n_models, n_models), np.int64)
    votes = np.zeros((len(cuts), n_models + 1), np.int64)
    for start in range(0, n, WIDTH):
        block = rows[:, start : start + WIDTH]
        for t, cut in enumerate(cuts):
            # Counts within a block of 2^16 instances are exact in float32, and its product is the
            # fastest.
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


def correlations(values: F64) -> F64:
    """Return (4, P): Pearson, Spearman, Kendall tau-b, Kendall tau-a."""
    ranked = places(values)
    return np.stack([pearson(values), _spearman(ranked), *_kendall(ranked)])


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
    # Decided on the values themselves: rounding may leave a constant map a little variance.
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


def spearman(values: F64) -> F64:
    """Return (P,) rank correlations: those of the midranks; NaN where one of the two maps is
    constant.
    """
    return _spearman(places(values))


def _spearman(ranked: RankPlaces) -> F64:
    shared = products(ranked.doubled)
    squares = np.where(ranked.constant, np.nan, np.diagonal(shared))
    first, second = pair_index(len(shared))
    return _cosines(shared[first, second], squares, first, second)


def kendall(values: F64) -> tuple[F64, F64]:
    """Return (P,) tau-b and (P,) tau-a.

    tau-a is concordant less discordant pairs of instances, over all of them; tau-b leaves out the
    pairs that are tied in either map, and is NaN where a map is constant. Both are NaN for fewer
    than two instances.
    """
    return _kendall(places(values))


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


def midranks(values: F64) -> F64:
    """Return (K, N) ranks from 1 within every map; ties share the mean of their ranks."""
    return np.asarray((places(values).doubled + (values.shape[1] + 1.0)) / 2)


def places(values: F64) -> RankPlaces:
    """Return the order and the ranks of every map (K, N); 0.0 and -0.0 are equal."""
    native, rows = route.native(), np.ascontiguousarray(values, np.float64)
    if native is not None:
        return RankPlaces(*route.places(native, rows))
    result = RankPlaces(*(np.empty(rows.shape, np.int32) for _ in range(3)))
    step = max(1, ENTRIES // max(1, rows.shape[1]))
    for start in range(0, len(rows) if rows.shape[1] else 0, step):
        _sort(rows[start : start + step], *(part[start : start + step] for part in result))
    return result


def _sort(values: F64, order: I32, below: I32, doubled: I32) -> None:
    """Fill in some rows."""
    n = values.shape[1]
    place, begins = np.arange(n, dtype=np.int32), np.ones(values.shape, np.bool_)
    at = np.argsort(values, axis=1)
    sorted_values = np.take_along_axis(values, at, axis=1)
    np.not_equal(sorted_values[:, 1:], sorted_values[:, :-1], out=begins[:, 1:])
    starts = np.maximum.accumulate(np.where(begins, place, np.int32(0)), axis=1)
    ends = np.full(values.shape, n, np.int32)  # of the run of equal values that an entry belongs to
    ends[:, :-1] = np.where(begins[:, 1:], place[1:], np.int32(n))
    ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    order[:] = at
    np.put_along_axis(below, at, starts, axis=1)
    np.put_along_axis(doubled, at, starts + ends - np.int32(n), axis=1)


def products(doubled: I32) -> F64:
    """Return (K, K) sums of products of the rows of `RankPlaces.doubled`: whole numbers, rounded
    once if beyond 2^53.
    """
    k, n = doubled.shape
    total = np.zeros((k, k))
    if n > EXACT:
        return _products_of_halves(doubled)
    for start in range(0, n, WIDTH):
        block = doubled[:, start : start + WIDTH].astype(np.float64)
        total += block @ block.T
    return total


def _products_of_halves(doubled: I32) -> F64:
    """Return the same for any N: with a = a1 s + a0, a product is a1 b1 s^2 + (a1 b0 + a0 b1) s +
    a0 b0.
    """
    k, n = doubled.shape
    high, mixed, low = (np.zeros((k, k), np.int64) for _ in range(3))
    for start in range(0, n, WIDTH):
        block = doubled[:, start : start + WIDTH]
        above = np.floor_divide(block, SPLIT)
        left, right = above.astype(np.float64), (block - above * SPLIT).astype(np.float64)
        cross = (left @ right.T).astype(np.int64)
        high += (left @ left.T).astype(np.int64)
        low += (right @ right.T).astype(np.int64)
        mixed += cross + cross.T
    # Python's integers cannot overflow.
    exact = (high.astype(object) * SPLIT + mixed) * SPLIT + low
    return np.asarray(exact.astype(np.float64))


def discordant(places: RankPlaces, first: I64, second: I64) -> tuple[I64, I64]:
    """Return (P,) discordant pairs of instances, and (P,) pairs that are tied in both maps.

    Parameters
    ----------
    places
        Of K maps.
    first, second
        (P,) the maps of every pair.
    """
    native, n = route.native(), places.below.shape[1]
    tied = places.untied != n * (n - 1) // 2
    if native is not None:
        return route.discordant(native, places.order, places.below, tied, first, second)
    counts, joint = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    step = max(1, KENDALL_ENTRIES // max(1, n))
    for start in range(0, len(first) if n else 0, step):
        here = slice(start, start + step)
        a, b = first[here], second[here]
        if tied[a].any() or tied[b].any():
            listed, joint[here] = _arrangement(places.below[a], places.below[b])
        else:
            listed = np.take_along_axis(places.below[a], places.order[b], axis=1)
        counts[here] = inversions(listed)
    return counts, joint


def _arrangement(one: Whole, other: Whole) -> tuple[Whole, I64]:
    """Return places by (one, other) along the order by (other, one), and how many pairs are tied in
    both.
    """
    n = one.shape[1]
    key = one.astype(np.int64) * n + other
    sequence = np.argsort(key, axis=1)
    key = np.take_along_axis(key, sequence, axis=1)
    index, begins = np.arange(n), np.ones(key.shape, np.bool_)
    np.not_equal(key[:, 1:], key[:, :-1], out=begins[:, 1:])
    # The distance from the first entry with the same key.
    since = index - np.maximum.accumulate(np.where(begins, index, 0), axis=1)
    listed = np.argsort(np.take_along_axis(other, sequence, axis=1), axis=1, kind="stable")
    return listed, since.sum(axis=1)


def inversions(listed: Whole) -> I64:
    """Return (P,) inversions of arrangements (P, N) of 0 ... N - 1: pairs of which the higher
    stands first.

    Notes
    -----
    Groups of numbers that share their leading bits are parted by the next bit, the order inside
    kept. Each group holds all its numbers, so a half of them are zeros; those would be at the front
    of the group if no one stood before them, and every one that does moves a zero back by one
    place.
    """
    rows, n = listed.shape
    size = 1 << max(0, n - 1).bit_length()
    now = np.empty((rows, size), np.int32 if size <= 1 << 30 else np.int64)
    now[:, :n] = listed
    now[:, n:] = np.arange(n, size)  # in order at the end: no inversion
    count, half = np.zeros(rows, np.int64), size // 2
    while half:
        ones = (now & half).astype(np.bool_)
        zeros = np.flatnonzero(~ones)
        moved = (zeros & (2 * half - 1)).reshape(rows, -1).sum(axis=1)
        count += moved - (size // (2 * half)) * (half * (half - 1) // 2)
        flat, groups = now.reshape(-1), (-1, half)
        now = np.concatenate(
            [flat[zeros].reshape(groups), now[ones].reshape(groups)], axis=1
        ).reshape(rows, size)
        half //= 2
    return count


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
