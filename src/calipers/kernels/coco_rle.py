# SPDX-License-Identifier: Apache-2.0
"""Run lengths of COCO: compressed text to counts, counts to runs, and back.

COCO counts down the columns of a picture: so many pixels outside, so many inside, and so on; the
first count may be 0. Its compressed text writes every count from the fourth on as the difference to
the count two before, in groups of five bits, the lowest first; a sixth bit says that another group
follows, the fifth bit of the last group is the sign, and 48 makes a printable character of each.

The COCO reader and writer call this with the texts of all objects at once, as one array of
characters with offsets. Nothing raises: an object whose text or counts are wrong gets a fault code,
from which the reader makes its message.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calipers.arrays import I8, I64, U8
from calipers.kernels import ragged, route, runs
from calipers.kernels.runs import Runs

# What can be wrong with the counts of an object; the order is that in which it is looked for.
SOUND, BAD_SIGN, UNFINISHED, TOO_LONG, NEGATIVE, SHORT, LONG = range(7)

# The character of an empty group, the bit for "another group follows", the sign, bits of a group.
ZERO, MORE, SIGN, BITS = 48, 32, 16, 5
MOST_GROUPS = 8  # 40 bits; longer numbers fit no picture
LARGEST = 1 << 40


class RunCounts(NamedTuple):
    """The counts of n objects, and what is wrong with their text; an object with a fault has no
    counts.
    """

    offsets: I64  # (n + 1,)
    counts: I64  # (m,) pixels outside, inside, outside, ...
    faults: I8  # (n,) SOUND, BAD_SIGN, UNFINISHED or TOO_LONG


def decode_text(offsets: I64, text: U8) -> RunCounts:
    """Return the counts of compressed texts; ``offsets`` are those of the characters."""
    native = route.native()
    if native is not None:
        return RunCounts(*route.decode_text(native, offsets, text))
    faults = _text_faults(offsets, text)
    rows, offsets = ragged.take_rows(offsets, np.flatnonzero(faults == SOUND))
    code = text[rows].astype(np.int64) - ZERO
    last = np.flatnonzero(code < MORE)
    groups = np.diff(last, prepend=-1)
    shift = BITS * ragged.positions(groups)
    first = last + 1 - groups
    value = (
        np.add.reduceat((code & (MORE - 1)) << shift, first)
        if len(first)
        else np.zeros(0, np.int64)
    )
    # Two's complement: a set sign bit takes off the power of two above the number.
    value -= np.where(code[last] & SIGN, np.int64(1) << (BITS * groups), 0)
    bounds = np.searchsorted(last, offsets)
    counts = np.zeros(len(faults), np.int64)
    counts[faults == SOUND] = np.diff(bounds)
    return RunCounts(ragged.from_counts(counts), _undo_differences(bounds, value), faults)


def encode_text(offsets: I64, counts: I64) -> tuple[I64, U8]:
    """Return (offsets, characters) of the compressed texts of counts."""
    place = ragged.positions(np.diff(offsets))
    late = np.flatnonzero(place > 2)
    value = counts.copy()
    value[late] -= counts[late - 2]
    groups = _groups_of(value)
    number, group = np.repeat(value, groups), ragged.positions(groups)
    code = (number >> (BITS * group)) & (MORE - 1)
    code += np.where(group + 1 < np.repeat(groups, groups), MORE, 0)
    ends = ragged.from_counts(groups)
    return ends[offsets], (code + ZERO).astype(np.uint8)


def count_faults(offsets: I64, counts: I64, size: I64) -> I8:
    """Return (n,) SOUND, or NEGATIVE, SHORT or LONG if the counts do not fill a picture of ``size``
    width, height.
    """
    n = len(offsets) - 1
    faults = np.zeros(n, np.int8)
    # As floats, because the sum of whole numbers could overflow.
    clipped = np.clip(counts, 0, LARGEST).astype(np.float64)
    total = np.bincount(ragged.owners(offsets), clipped, n)
    pixels = size[:, 0] * size[:, 1]
    faults[total > pixels] = LONG
    faults[total < pixels] = SHORT
    faults[ragged.owners(offsets)[counts < 0]] = NEGATIVE
    return faults


def column_runs(offsets: I64, counts: I64) -> Runs:
    """Return the runs down the columns that sound counts stand for."""
    ends = np.cumsum(counts)
    before = np.concatenate([[0], ends])[offsets[:-1]]
    inside = ragged.positions(np.diff(offsets)) % 2 == 1
    length = counts[inside]
    start = ends[inside] - length - np.repeat(before, np.diff(offsets))[inside]
    return ragged.from_counts(np.diff(offsets) // 2), start, length


def counts_from_rows(offsets: I64, start: I64, length: I64, size: I64) -> tuple[I64, I64]:
    """Return (offsets, counts) of COCO from runs along rows; ``size`` is width, height."""
    offsets, start, length = runs.joined(*runs.turned(offsets, start, length, size))
    owner, n = ragged.owners(offsets), np.diff(offsets)
    stop = start + length
    before = np.concatenate([[0], stop[:-1]])[: len(stop)]
    before[offsets[:-1][n > 0]] = 0
    pixels = size[:, 0] * size[:, 1]
    last = np.zeros(len(n), np.int64)
    last[n > 0] = stop[offsets[1:][n > 0] - 1]
    rest = pixels - last
    counts_offsets = ragged.from_counts(2 * n + (rest > 0))
    counts = np.empty(counts_offsets[-1], np.int64)
    at = counts_offsets[owner] + 2 * ragged.positions(n)
    # Each run gives the gap before it and itself; the rest of the picture, if any, is one more
    # count.
    counts[at], counts[at + 1] = start - before, length
    counts[counts_offsets[1:][rest > 0] - 1] = rest[rest > 0]
    return counts_offsets, counts


def _text_faults(offsets: I64, text: U8) -> I8:
    owner, code = ragged.owners(offsets), text.astype(np.int64) - ZERO
    faults = np.zeros(len(offsets) - 1, np.int8)
    more = code >= MORE
    n_more = np.cumsum(more)
    before = np.maximum.accumulate(np.where(more, 0, n_more)) if len(n_more) else n_more
    # What is looked for first is written last, and stays.
    faults[owner[n_more - before >= MOST_GROUPS]] = TOO_LONG
    filled = np.flatnonzero(np.diff(offsets))
    faults[filled[more[offsets[filled + 1] - 1]]] = UNFINISHED
    faults[owner[(code < 0) | (code >= 2 * MORE)]] = BAD_SIGN
    return faults


def _undo_differences(offsets: I64, value: I64) -> I64:
    """Undo the differences: two sums that run through the counts of an object by turns, the first
    count in neither.
    """
    counts = value.copy()
    place = ragged.positions(np.diff(offsets))
    for turn in (0, 1):
        rows = np.flatnonzero((place > 0) & (place % 2 == turn))
        total = np.cumsum(value[rows])
        owner = np.searchsorted(offsets, rows, side="right") - 1
        new = np.ones(len(rows), np.bool_)
        new[1:] = owner[1:] != owner[:-1]
        begins = np.flatnonzero(new)
        before = np.concatenate([[0], total])[begins]
        counts[rows] = total - np.repeat(before, np.diff(np.append(begins, len(rows))))
    return counts


def _groups_of(value: I64) -> I64:
    """Return how many groups of five bits hold a number and its sign."""
    size = np.where(value < 0, ~value, value)
    groups = np.ones(len(value), np.int64)
    for k in range(1, MOST_GROUPS + 1):
        groups += size >= (1 << (BITS * k - 1))
    return groups
