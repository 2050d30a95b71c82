# SPDX-License-Identifier: Apache-2.0
"""Pairs of instances that two maps put in opposite orders, counted as inversions in O(N log N) with
memory of O(N).

List the instances in the order of one map and write down the place of each in the other: a
discordant pair is a place that stands before a lower one. Ties in one map are ordered by the other,
so that they never count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled_pairwise, route
from calipers.kernels.rank_rows import RankPlaces

I64 = NDArray[np.int64]
Whole = NDArray[np.integer]

ENTRIES = 1 << 17  # places of several pairs that are worked on together


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
        return compiled_pairwise.discordant(native, places.order, places.below, tied, first, second)
    counts, joint = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    step = max(1, ENTRIES // max(1, n))
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
