# SPDX-License-Identifier: Apache-2.0
"""Orders and ranks of K maps of N instances, found once per map and used by every pair.

Everything is a whole number, so both routes and any order of sums give the same bits. Fewer than
2^31 instances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled_pairwise, route

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Flags = NDArray[np.bool_]

# Entries of rows that are sorted together: few calls for small maps, little memory for large ones.
ENTRIES = 1 << 16
WIDTH = 1 << 16  # instances of a product at a time
EXACT = 1 << 18  # instances up to which a sum of products of ranks stays below 2^53
SPLIT = 1 << 16  # larger ranks are taken apart into a high and a low half of 16 bits


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


def places(values: F64) -> RankPlaces:
    """Return the order and the ranks of every map (K, N); 0.0 and -0.0 are equal."""
    native, rows = route.native(), np.ascontiguousarray(values, np.float64)
    if native is not None:
        return RankPlaces(*compiled_pairwise.places(native, rows))
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
    """Return (K, K) sums of products of the rows of `Places.doubled`: whole numbers, rounded once
    if beyond 2^53.
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
