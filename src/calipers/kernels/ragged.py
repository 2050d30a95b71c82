# SPDX-License-Identifier: Apache-2.0
"""Offsets algebra: rows of a flat table that belong to images (or any other owner).

``offsets`` is int64 of length n + 1; the rows ``offsets[i]:offsets[i+1]`` belong to owner i. Owners
without rows are allowed everywhere. All kernels and the tables of `calipers.data` use this instead
of lists of arrays, so that no loop over images is needed. `distinct_rows` holds every distinct row
of fates once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import I8, I32, I64, FateRows
from calipers.kernels import route


def from_counts(counts: NDArray[np.integer]) -> I64:
    """Return offsets of owners that have ``counts`` rows each."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def from_owner(owner: NDArray[np.integer], n_owners: int) -> I64:
    """Return offsets of rows that are sorted by ``owner``."""
    return from_counts(np.bincount(owner, minlength=n_owners))


def owners(offsets: I64) -> I64:
    """Return the owner of every row."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def positions(counts: NDArray[np.integer]) -> I64:
    """Return 0..c-1 for each count c, one after the other."""
    counts = np.asarray(counts, np.int64)
    starts = np.cumsum(counts) - counts
    return np.asarray(np.arange(int(counts.sum())) - np.repeat(starts, counts))


def spans(starts: I64, counts: I64) -> I64:
    """Return the row numbers start..start+count-1 of each span, one after the other."""
    counts = np.asarray(counts, np.int64)
    before = np.cumsum(counts) - counts
    # Row numbers go up by one, but for a jump where a span begins.
    rows = np.repeat(np.asarray(starts, np.int64) - before, counts)
    rows += np.arange(len(rows))
    return rows


def take_rows(offsets: I64, selection: I64) -> tuple[I64, I64]:
    """Return (row numbers, new offsets) of the owners in ``selection``, in that order."""
    counts = np.diff(offsets)[selection]
    return spans(offsets[selection], counts), from_counts(counts)


def concat_offsets(parts: Sequence[I64]) -> I64:
    """Return the offsets of tables that are put one below the other."""
    return from_counts(np.concatenate([np.diff(part) for part in parts] or [np.zeros(0, np.int64)]))


def ranks_in_runs(keys: NDArray[np.integer]) -> I64:
    """Return the position of every entry inside its run of equal neighbouring ``keys``."""
    n = len(keys)
    if n == 0:
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return np.arange(n) - np.repeat(starts, np.diff(np.append(starts, n)))


def is_first(keys: I64) -> NDArray[np.bool_]:
    """Return (n,) which positions are the first of their key; keys are not negative."""
    first = np.empty(int(keys.max(initial=-1)) + 1, np.int64)
    place = np.arange(len(keys))
    # The last write, which is the first occurrence, stays.
    first[keys[::-1]] = place[::-1]
    return np.asarray(first[keys] == place)


def first_places(keys: I64) -> I64:
    """Return the positions at which each key occurs first, in ascending order."""
    return np.flatnonzero(is_first(keys))


def matching_spans(sorted_keys: NDArray[np.integer], keys: NDArray[np.integer]) -> tuple[I64, I64]:
    """Return (start, count) of the run of each of the ``keys`` in ``sorted_keys``."""
    starts = np.searchsorted(sorted_keys, keys, side="left")
    return starts, np.searchsorted(sorted_keys, keys, side="right") - starts


def batches(counts: I64, most: int) -> list[tuple[int, int]]:
    """Return spans of owners, one after the other, that have about ``most`` rows each, and at least
    one owner.
    """
    total = np.cumsum(counts)
    # An owner is never cut in two: one with more than `most` rows gets a span of its own.
    cuts = np.searchsorted(total, np.arange(most, int(total[-1]) if len(total) else 0, most)) + 1
    edges = np.unique(np.concatenate([[0], cuts, [len(counts)]])).tolist()
    return list(pairwise(edges))


def distinct_rows(fates: I8 | FateRows) -> FateRows:
    """Return fates (V, n) with every distinct row held once."""
    if isinstance(fates, FateRows):
        return fates
    by_object = np.ascontiguousarray(fates.T, np.int8)
    native = route.native()
    if native is not None:
        place = np.empty(len(by_object), np.int32)
        first = np.frombuffer(native.distinct_rows(by_object, len(fates), place), np.int64)
        return FateRows(by_object[first], place)
    whole_rows = by_object.view(f"V{by_object.shape[1]}").ravel()
    _, at, number = np.unique(whole_rows, return_index=True, return_inverse=True)
    return FateRows(by_object[at], number.ravel().astype(np.int32))


def rows_by_object(fates: I8 | FateRows) -> tuple[I8, I32]:
    """Return fates (V, n) as the compiled twins take them: rows, and the row of every object; none
    of these where each has its own.
    """
    if isinstance(fates, FateRows):
        # Without objects there are no rows either: rows alone would be one of each object.
        return (fates.rows if len(fates.place) else fates.rows[:0]), fates.place
    return np.ascontiguousarray(fates.T, np.int8), np.zeros(0, np.int32)
