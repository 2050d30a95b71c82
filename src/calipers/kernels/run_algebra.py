# SPDX-License-Identifier: Apache-2.0
"""Sets of runs against each other: how much they share, what is left of one without the other,
erosion.

Runs of many images are told apart by their starts: an image (or object) k is moved by k times a
number of voxels that no image exceeds, and then nothing of it meets anything of another one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled_runs, ragged, route, runs

I64 = NDArray[np.int64]
Runs = tuple[I64, I64]  # start, length
Owned = tuple[I64, I64, I64]  # start, length, owner
Table = tuple[I64, I64, I64]  # offsets, start, length: runs of objects
AT_ONCE = 1 << 18  # pairs of runs; what they need stays in the cache
MOST_KEYS = 1 << 62


def common(a: Table, b: Table, rows: I64, columns: I64) -> I64:
    """Return the (P,) voxels that object ``rows[k]`` of a and object ``columns[k]`` of b share.

    Runs of an object are sorted and disjoint. Those of the object with fewer runs are looked up
    among those of the other: what lies in a run is what lies before its end without what lies
    before its start.
    """
    native = route.native()
    if native is not None:
        return compiled_runs.common(native, a, b, rows, columns)
    voxels = np.zeros(len(rows), np.int64)
    one, other = np.diff(a[0])[rows], np.diff(b[0])[columns]
    some, fewer = (one > 0) & (other > 0), one <= other
    sides = ((fewer, a, b, rows, columns), (~fewer, b, a, columns, rows))
    for fewest, few, many, of_few, of_many in sides:
        pairs = np.flatnonzero(fewest & some)
        voxels[pairs] = _common_voxels(few, many, of_few[pairs], of_many[pairs])
    return voxels


def _common_voxels(few: Table, many: Table, of_few: I64, of_many: I64) -> I64:
    """Return the voxels that pairs share, some pairs at a time; every object has runs."""
    voxels = np.zeros(len(of_few), np.int64)
    unit = 1 + max(int((start + length).max(initial=0)) for _, start, length in (few, many))
    # With the object in front of their starts, the runs of all objects ascend.
    searched, line = (ragged.owners(offsets) * unit + start for offsets, start, _ in (few, many))
    before = ragged.from_counts(many[2])
    first, last = many[0][:-1][of_many], many[0][1:][of_many] - 1
    low = np.searchsorted(searched, of_few * unit + many[1][first], side="right") - 1
    low = np.maximum(low, few[0][of_few])  # runs before and behind the other object share nothing
    high = np.searchsorted(searched, of_few * unit + many[1][last] + many[2][last])
    counts = np.maximum(high - low, 0)
    for one, other in ragged.batches(counts, AT_ONCE):
        offsets = ragged.from_counts(counts[one:other])
        runs = ragged.spans(low[one:other], counts[one:other])
        start = np.repeat((of_many * unit)[one:other], counts[one:other]) + few[1][runs]
        overlap = _below(start + few[2][runs], line, many[2], before) - _below(
            start, line, many[2], before
        )
        voxels[one:other] = np.diff(ragged.from_counts(overlap)[offsets])
    return voxels


def _below(places: I64, line: I64, length: I64, before: I64) -> I64:
    """Return how many voxels of sorted runs lie before some places."""
    run = np.searchsorted(line, places)
    last = np.maximum(run - 1, 0)
    return np.asarray(before[run] - np.maximum(line[last] + length[last] - places, 0) * (run > 0))


def intersections(a: Owned, b: Owned) -> tuple[I64, I64, I64]:
    """Return (owner in a, owner in b, common voxels) of all owners that share a voxel, sorted by
    the owners.

    Runs may come in any order, and runs of one side may overlap if their owners differ. Of two runs
    that overlap one begins inside of the other, so that two searches among sorted starts find every
    pair once; the work grows with the number of pairs.
    """
    native = route.native()
    if native is not None:
        return compiled_runs.intersections(native, a, b)
    # In 64 bits the products of owners do not overflow.
    a, b = ((start, length, owner.astype(np.int64, copy=False)) for start, length, owner in (a, b))
    pieces = [*_begun_inside(a, b, "left")]
    for owner_b, owner_a, common in _begun_inside(b, a, "right"):
        pieces.append((owner_a, owner_b, common))
    if not pieces:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    owner_a, owner_b, common = (np.concatenate(parts) for parts in zip(*pieces))
    return _added_up(owner_a, owner_b, common)


def _begun_inside(outer: Owned, inner: Owned, side: str) -> Iterator[tuple[I64, I64, I64]]:
    """Yield the voxels that owners share, of pairs where a run of ``inner`` begins inside of one of
    ``outer``.

    With side "right" runs that begin together are left out.
    """
    start, length, owner = _sorted(inner)
    after = start + length
    end = outer[0] + outer[1]
    first = np.searchsorted(start, outer[0], side=side)  # type: ignore[call-overload]
    counts = np.searchsorted(start, end) - first
    total = np.cumsum(counts)
    cuts = np.searchsorted(total, np.arange(AT_ONCE, total[-1] if len(total) else 0, AT_ONCE))
    for low, high in zip([0, *cuts], [*cuts, len(counts)]):
        met = low + np.flatnonzero(counts[low:high])
        inside = ragged.spans(first[met], counts[met])
        mine = np.repeat(met, counts[met])
        common = np.minimum(end[mine], after[inside]) - start[inside]
        if len(common):
            yield _added_up(outer[2][mine], owner[inside], common)


def _sorted(runs_of: Owned) -> Owned:
    start, length, owner = runs_of
    if (start[1:] >= start[:-1]).all():
        return start, length, owner
    order = np.argsort(start, kind="stable")
    return start[order], length[order], owner[order]


def _added_up(a: I64, b: I64, common: I64) -> tuple[I64, I64, I64]:
    """Return the sum of ``common`` for every pair of owners; sums of whole numbers in float64 are
    exact below 2^53.
    """
    lowest_a, lowest_b = int(a.min()), int(b.min())
    height, width = int(a.max()) - lowest_a + 1, int(b.max()) - lowest_b + 1
    if height * width >= MOST_KEYS:
        (owners_a, a), (owners_b, b) = (np.unique(owner, return_inverse=True) for owner in (a, b))
        one, other, total = _added_up(a, b, common)
        return owners_a[one], owners_b[other], total
    key = (a - lowest_a) * width + (b - lowest_b)
    if height * width <= max(4 * len(key), AT_ONCE):
        total = np.bincount(key, weights=common)
        key = np.flatnonzero(total)
        total = total[key]
    else:
        key, position = np.unique(key, return_inverse=True)
        total = np.bincount(position, weights=common)
    return lowest_a + key // width, lowest_b + key % width, total.astype(np.int64)


def both(a: Runs, b: Runs) -> tuple[I64, I64, I64]:
    """Return (start, length) of what two sets of sorted, disjoint runs share, and the run of a that
    it lies in.
    """
    first = np.searchsorted(b[0] + b[1], a[0], side="right")
    counts = np.maximum(np.searchsorted(b[0], a[0] + a[1]) - first, 0)
    inside, mine = ragged.spans(first, counts), np.repeat(np.arange(len(counts)), counts)
    start = np.maximum(a[0][mine], b[0][inside])
    return start, np.minimum((a[0] + a[1])[mine], (b[0] + b[1])[inside]) - start, mine


def without(a: Runs, inner: Runs) -> Runs:
    """Return the runs of a without those of ``inner``, which lie inside of them; both sorted and
    disjoint.
    """
    start = np.sort(np.concatenate([a[0], inner[0] + inner[1]]))
    end = np.sort(np.concatenate([inner[0], a[0] + a[1]]))
    left = end > start
    return start[left], (end - start)[left]


def boundaries(start: I64, length: I64, owner: I64, size: I64, depth: int) -> Owned:
    """Return the voxels of every object that erosion, ``depth`` times with full connectivity, takes
    away.

    Those are the voxels at most ``depth`` steps from the outside; what is not in the image is
    outside. ``size`` is (m, d). Objects are sorted by owner and stay so; none becomes empty.
    """
    unit = int(np.prod(size, axis=1).max(initial=1))
    inner = _eroded((owner * unit + start, length), owner, size, (depth, unit))
    start, length = without((owner * unit + start, length), inner)
    return start % unit, length, start // unit


def _eroded(all_of: Runs, owner: I64, size: I64, rule: tuple[int, int]) -> Runs:
    """Erode by a cube with sides of 2 depth + 1, axis by axis; starts have their owner in front."""
    depth, unit = rule
    start, length = all_of[0] + depth, all_of[1] - 2 * depth
    left = length > 0
    start, length, size = start[left], length[left], size[left]
    for axis in range(1, size.shape[1]):
        start, length, size = _eroded_along(axis, (start, length), size, (depth, unit))
    return start, length


def _eroded_along(axis: int, these: Runs, size: I64, rule: tuple[int, int]) -> tuple[I64, I64, I64]:
    """Keep what is there in all of 2 depth + 1 rows (slices) in sequence: sets of 1, 2, 4 ... of
    them, doubled.
    """
    depth, unit = rule
    window, have = 2 * depth + 1, 1
    while have < window and len(these[0]):
        step = min(have, window - have)
        at, stride = runs.places(these[0] % unit, size)[axis], _stride(size, axis)
        # The row `step` further on, moved here; the first rows have nowhere to go.
        later = at >= step
        moved = these[0][later] - step * stride[later], these[1][later]
        start, length, mine = both(these, moved)
        these, size, have = (start, length), size[mine], have + step
    return these[0] + depth * _stride(size, axis), these[1], size


def _stride(size: I64, axis: int) -> I64:
    return np.asarray(np.prod(size[:, :axis], axis=1))
