# SPDX-License-Identifier: Apache-2.0
"""Runs along one axis of a picture, turned into runs along the other.

Sizes are ``(fast, slow)``: the pixel ``(f, s)`` has the index ``s * fast + f``. Rows of a picture have the width as
their fast axis, COCO counts down columns and has the height.
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
    """Runs of pixels, by object, on one line on which the pictures of all objects lie behind each other."""

    owner: I64
    start: I64
    length: I64


def turned(offsets: I64, start: I64, length: I64, size: I64) -> Runs:
    """Return the same pixels as runs along the slow axis, which end where that axis ends.

    Parameters
    ----------
    start, length
        Runs of n objects in ascending order that do not overlap. They may touch, go on in the next line, and be empty.
    size
        (n, 2) pixels along the fast and the slow axis of each picture.

    Notes
    -----
    A pixel begins a run if its neighbour before it on the slow axis is not in the mask: it lies in the mask and not in
    the mask moved by one line. So the beginnings are a difference of two sets of runs, and no pixel inside of a run is
    ever looked at. The ends are found in the same way, and k-th beginning and k-th end in order make a run.
    """
    base = _bases(size)
    first = _border(offsets, start, length, size, base, forward=True)
    last = _border(offsets, start, length, size, base, forward=False)
    counts = _counts(first, len(size))
    found = ragged.from_counts(counts)
    begins, ends = np.empty(found[-1], np.int64), np.empty(found[-1], np.int64)
    for one, other in ragged.batches(counts, BATCH):
        part = slice(int(found[one]), int(found[other]))
        begins[part] = _in_order(first, one, other, size, base)
        ends[part] = _in_order(last, one, other, size, base)
    return found, begins, ends - begins + 1


def turned_counts(offsets: I64, start: I64, length: I64, size: I64) -> I64:
    """Return the (n,) number of runs that `turned` gives."""
    return _counts(_border(offsets, start, length, size, _bases(size), forward=True), len(size))


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


def _counts(border: Border, n: int) -> I64:
    return np.bincount(border.owner, border.length, n).astype(np.int64)


def _in_order(border: Border, first: int, last: int, size: I64, base: I64) -> I64:
    """Return the pixels of a border of some objects, counted along the slow axis, in ascending order."""
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
    """Return where each picture begins among all pixels, if a line that is free lies before and after each."""
    return ragged.from_counts(size[:, 0] * (size[:, 1] + 2))[:-1] + size[:, 0]


def _border(offsets: I64, start: I64, length: I64, size: I64, base: I64, *, forward: bool) -> Border:
    """Return the pixels that begin (forward) or end a run on the slow axis."""
    owner = ragged.owners(offsets)
    mask = np.empty(2 * len(start), np.int64)
    mask[0::2] = base[owner] + start
    mask[1::2] = mask[0::2] + length
    step = np.repeat(size[owner, 0], 2)
    at, count = _difference(mask, mask + step if forward else mask - step)
    return Border(np.searchsorted(base, at, side="right") - 1, at, count)


def _difference(first: I64, second: I64) -> tuple[I64, I64]:
    """Return (start, length) of what is in the first set and not in the second; sets are borders, in and out by turns.

    Both are ascending, so that a stable sort only merges them.
    """
    joint = np.concatenate([first, second])
    order = np.argsort(joint, kind="stable")
    joint, own = joint[order], order < len(first)
    inside = np.cumsum(own) & 1
    outside = np.cumsum(~own) & 1
    size = np.diff(joint)
    kept = np.flatnonzero((inside[:-1] > outside[:-1]) & (size > 0)) if len(size) else np.zeros(0, np.int64)
    return joint[kept], size[kept]
