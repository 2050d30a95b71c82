# SPDX-License-Identifier: Apache-2.0
"""Runs along one axis of a picture, turned into runs along the other.

Sizes are ``(fast, slow)``: the pixel ``(f, s)`` has the index ``s * fast + f``. Rows of a picture have the width as
their fast axis, COCO counts down columns and has the height.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged

I64 = NDArray[np.int64]
BATCH = 1 << 20  # runs whose pixels are sorted together: what bounds the memory

Runs = tuple[I64, I64, I64]  # offsets (n + 1,), start (m,), length (m,)


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
    batches = _batches(turned_counts(offsets, start, length, size))
    parts = [_turned(*_some(offsets, start, length, first, last), size[first:last]) for first, last in batches]
    if not parts:
        return np.zeros(len(offsets), np.int64), start[:0], length[:0]
    return (
        ragged.concat_offsets([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def turned_counts(offsets: I64, start: I64, length: I64, size: I64) -> I64:
    """Return the (n,) number of runs that `turned` gives."""
    base = _bases(size)
    at, count = _border(offsets, start, length, size, base, forward=True)
    owner = np.searchsorted(base, at, side="right") - 1
    found = np.zeros(len(offsets) - 1, np.int64)
    np.add.at(found, owner, count)
    return found


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


def _turned(offsets: I64, start: I64, length: I64, size: I64) -> Runs:
    base = _bases(size)
    pixels = int((size[:, 0] * size[:, 1]).max(initial=0))
    keys = []
    for forward in (True, False):
        at, count = _border(offsets, start, length, size, base, forward=forward)
        owner = np.searchsorted(base, at, side="right") - 1
        owner, place = np.repeat(owner, count), ragged.spans(at, count)
        place -= base[owner]
        fast = size[owner, 0]
        line = place // fast
        place -= line * fast  # now the coordinate on the fast axis
        place *= size[owner, 1]
        place += line
        keys.append(np.sort(owner * pixels + place))
    owner = keys[0] // pixels if pixels else keys[0]
    counts = np.bincount(owner, minlength=len(offsets) - 1)
    return ragged.from_counts(counts), keys[0] - owner * pixels, keys[1] - keys[0] + 1


def _bases(size: I64) -> I64:
    """Return where each picture begins among all pixels, if a line that is free lies before and after each."""
    return ragged.from_counts(size[:, 0] * (size[:, 1] + 2))[:-1] + size[:, 0]


def _border(offsets: I64, start: I64, length: I64, size: I64, base: I64, *, forward: bool) -> tuple[I64, I64]:
    """Return runs of the pixels that begin (forward) or end a run on the slow axis, among all pixels."""
    owner = ragged.owners(offsets)
    mask = np.empty(2 * len(start), np.int64)
    mask[0::2] = base[owner] + start
    mask[1::2] = mask[0::2] + length
    step = np.repeat(size[owner, 0], 2)
    moved = mask + step if forward else mask - step
    return _difference(mask, moved)


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


def _batches(counts: I64) -> list[tuple[int, int]]:
    """Return spans of objects with about `BATCH` runs each."""
    total = np.cumsum(counts)
    cuts = np.unique(np.searchsorted(total, np.arange(BATCH, int(total[-1]) if len(total) else 0, BATCH)) + 1)
    edges = np.unique(np.concatenate([[0], cuts, [len(counts)]])).tolist()
    return list(zip(edges[:-1], edges[1:]))


def _some(offsets: I64, start: I64, length: I64, first: int, last: int) -> Runs:
    begin, end = int(offsets[first]), int(offsets[last])
    return offsets[first : last + 1] - begin, start[begin:end], length[begin:end]
