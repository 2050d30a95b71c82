# SPDX-License-Identifier: Apache-2.0
"""Runs along one axis of a picture, turned into runs along the other.

Sizes are ``(fast, slow)``: the pixel ``(f, s)`` has the index ``s * fast + f``. Rows of a picture
have the width as their fast axis, COCO counts down columns and has the height.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged

I64 = NDArray[np.int64]
BATCH = 1 << 20  # runs whose pixels are sorted together: what bounds the memory

Runs = tuple[I64, I64, I64]  # offsets (n + 1,), start (m,), length (m,)


class Border(NamedTuple):
    """Runs of pixels, by object, on one line on which the pictures of all objects lie behind each
    other.
    """

    owner: I64
    start: I64
    length: I64


def turned(offsets: I64, start: I64, length: I64, size: I64) -> Runs:
    """Return the same pixels as runs along the slow axis, which end where that axis ends.

    Parameters
    ----------
    start, length
        Runs of n objects in ascending order that do not overlap. They may touch, go on in the next
        line, and be empty.
    size
        (n, 2) pixels along the fast and the slow axis of each picture.

    Notes
    -----
    A pixel begins a run if its neighbour before it on the slow axis is not in the mask: it lies in
    the mask and not in the mask moved by one line. So the beginnings are a difference of two sets
    of runs, and no pixel inside of a run is ever looked at. The ends are found in the same way, and
    k-th beginning and k-th end in order make a run.
    """
    return Turn.of(offsets, start, length, size).runs()


class Turn(NamedTuple):
    """Runs to be turned: their number is known before they take any memory."""

    size: I64
    base: I64
    first: Border
    last: Border
    counts: I64  # (n,) runs of each object

    @classmethod
    def of(cls, offsets: I64, start: I64, length: I64, size: I64) -> Turn:
        """Prepare what `turned` does."""
        base = _bases(size)
        first, last = (
            _border(offsets, start, length, size, base, forward=forward)
            for forward in (True, False)
        )
        return cls(
            size,
            base,
            first,
            last,
            np.bincount(first.owner, first.length, len(size)).astype(np.int64),
        )

    def runs(self) -> Runs:
        """Return the runs."""
        offsets = ragged.from_counts(self.counts)
        begins, ends = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
        for one, other in ragged.batches(self.counts, BATCH):
            part = slice(int(offsets[one]), int(offsets[other]))
            begins[part] = _in_order(self.first, one, other, self.size, self.base)
            ends[part] = _in_order(self.last, one, other, self.size, self.base)
        ends -= begins
        ends += 1
        return offsets, begins, ends


def joined(offsets: I64, start: I64, length: I64) -> Runs:
    """Return runs of which no two of an object touch and none is empty."""
    owner, filled = ragged.owners(offsets), length > 0
    owner, start, length = owner[filled], start[filled], length[filled]
    first = np.ones(len(start), np.bool_)
    first[1:] = (start[1:] != start[:-1] + length[:-1]) | (owner[1:] != owner[:-1])
    begins = np.flatnonzero(first)
    ends = np.append(begins[1:], len(start)) - 1 if len(begins) else begins
    counts = np.bincount(owner[begins], minlength=len(offsets) - 1)
    return ragged.from_counts(counts), start[begins], start[ends] + length[ends] - start[begins]


def _in_order(border: Border, first: int, last: int, size: I64, base: I64) -> I64:
    """Return the pixels of a border of some objects, counted along the slow axis, in ascending
    order.
    """
    begin, end = np.searchsorted(border.owner, (first, last))
    length = border.length[begin:end]
    owner = np.repeat(border.owner[begin:end], length)
    place = ragged.spans(border.start[begin:end] - base[border.owner[begin:end]], length)
    fast, slow = size[owner, 0], size[owner, 1]
    line = place // fast
    place -= line * fast  # now the coordinate on the fast axis
    place *= slow
    place += line
    room = int((size[first:last, 0] * size[first:last, 1]).max(initial=1))
    owner *= room
    place += owner
    place.sort()
    return np.asarray(place - owner)  # every object still has its own places: as many as before


def _bases(size: I64) -> I64:
    """Return where each picture begins among all pixels, if a line that is free lies before and
    after each.
    """
    return ragged.from_counts(size[:, 0] * (size[:, 1] + 2))[:-1] + size[:, 0]


def _border(
    offsets: I64, start: I64, length: I64, size: I64, base: I64, *, forward: bool
) -> Border:
    """Return the pixels that begin (forward) or end a run on the slow axis."""
    owner = ragged.owners(offsets)
    mask = np.empty(2 * len(start), np.int64)
    mask[0::2] = base[owner] + start
    mask[1::2] = mask[0::2] + length
    step = np.repeat(size[owner, 0], 2)
    at, count = _difference(mask, mask + step if forward else mask - step)
    return Border(np.searchsorted(base, at, side="right") - 1, at, count)


def _difference(first: I64, second: I64) -> tuple[I64, I64]:
    """Return (start, length) of what is in the first set and not in the second; sets are borders,
    in and out by turns.

    Both are ascending, so that a stable sort only merges them.
    """
    joint = np.concatenate([first, second])
    order = np.argsort(joint, kind="stable")
    joint = joint[order]
    flips = np.where(order < len(first), np.uint8(1), np.uint8(2))
    state = np.bitwise_xor.accumulate(flips) if len(flips) else flips
    length = np.diff(joint)
    pieces = np.flatnonzero((state[:-1] == 1) & (length > 0))
    return joint[pieces], length[pieces]
