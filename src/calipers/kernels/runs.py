# SPDX-License-Identifier: Apache-2.0
"""Run lengths: voxels that follow each other along x, as index of the first and their number.

This is how masks are held and compared; no dense array is made on the way. `calipers.data` finds
runs in arrays (`find`, `of_labels`) and checks them (`sound_runs`), `calipers.matching` asks what
objects share (`common`, `in_box`, `contains`, `boundaries`), the COCO reader turns runs along
columns into runs along rows (`turned`), and maps are measured along them.

*Layout.* Flat arrays throughout: ``start`` and ``length`` (m,), and ``size`` as width, height[,
depth], (d,) for runs of one image or (m, d) for runs of several. Arrays of voxels are ``[z, ]y, x``
in C order; coordinates are x, y[, z], and the centre of a voxel lies at + 0.5. Runs of an object
are sorted, disjoint, and end with their row.

*Turning.* Sizes are then ``(fast, slow)``: the pixel ``(f, s)`` has the index ``s * fast + f``.
Rows of a picture have the width as their fast axis, COCO counts down columns and has the height.

*Sets.* Runs of many images are told apart by their starts: an image (or object) k is moved by k
times a number of voxels that no image exceeds, and then nothing of it meets anything of another
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from calipers.arrays import F64, I64, Array, Flags
from calipers.kernels import ragged, route

Runs = tuple[I64, I64, I64]  # offsets (n + 1,), start (m,), length (m,)
Table = tuple[I64, I64, I64]  # offsets, start, length: runs of objects
Owned = tuple[I64, I64, I64]  # start, length, owner
StartsAndLengths = tuple[I64, I64]  # start, length

AT_ONCE = 1 << 19  # voxels that are compared together: they stay in the cache
BATCH = 1 << 20  # runs whose pixels are sorted together: what bounds the memory
PAIRS_AT_ONCE = 1 << 18  # pairs of runs; what they need stays in the cache
MOST_VOXELS = 1 << 40  # of one image
MOST_KEYS = 1 << 62  # pairs of owners as one number: below the end of 64 bits


def find(array: Array) -> tuple[I64, I64]:
    """Return (start, length) of the runs of the voxels that are not zero, in the order of the
    voxels.
    """
    start, length, _ = _runs(array, True)
    return start, length


def of_labels(labels: Array) -> tuple[I64, I64, Array]:
    """Return (start, length, value) of the runs of equal values that are not zero, in the order of
    the voxels.
    """
    return _runs(labels, False)


def _runs(array: Array, alike: bool) -> tuple[I64, I64, Array]:
    native = route.native()
    # Equal floats may differ in their bytes (0.0 and -0.0), which is what the twin compares.
    if native is not None and alike and array.dtype.kind not in route.WHOLE:
        array = array != 0
    if native is not None and array.dtype.kind in route.WHOLE:
        return route.pieces(native, array, alike)
    return _pieces(array, alike and array.dtype != np.bool_)


def _pieces(array: Array, alike: bool) -> tuple[I64, I64, Array]:
    """Return the runs and their values; with ``alike`` all values but zero are one."""
    flat = np.ascontiguousarray(array).reshape(-1)
    edges = [np.zeros(min(1, len(flat)), np.int64)]
    for low in range(1, len(flat), AT_ONCE):  # what is compared stays in the cache
        part = flat[low - 1 : low + AT_ONCE]
        part = part != 0 if alike else part
        edges.append(np.flatnonzero(part[1:] != part[:-1]) + low)
    first = np.concatenate(edges)
    value = flat[first]
    nonzero = np.flatnonzero(value)
    start, length, mine = cut_at_rows(
        first[nonzero], np.append(first, len(flat))[nonzero + 1], array.shape[-1]
    )
    return start, length, value[nonzero[mine]]


def cut_at_rows(first: I64, after: I64, width: int) -> tuple[I64, I64, I64]:
    """Cut pieces ``first:after`` of a flat array where a row ends; return start, length and the
    piece of every run.
    """
    row = first // max(width, 1)
    rows = (after - 1) // max(width, 1) - row + 1
    mine = np.repeat(np.arange(len(rows)), rows)
    place = row[mine] + ragged.positions(rows)
    start = np.maximum(first[mine], place * width)
    return start, np.minimum(after[mine], (place + 1) * width) - start, mine


def numbered(value: Array) -> tuple[I64, int]:
    """Return the place of every value among the distinct ones, ascending, and their number."""
    if value.dtype.kind in "biu" and value.size:
        low, high = int(value.min()), int(value.max())
        # A table of all values in between is quicker than a sort, if there are not too many.
        if high - low <= max(4 * len(value), AT_ONCE) and high < 1 << 62:
            place = value.astype(np.int64) - low
            present = np.zeros(high - low + 1, np.bool_)
            present[place] = True
            return (np.cumsum(present) - 1)[place], int(present.sum())
    values, owner = np.unique(value, return_inverse=True)
    return owner, len(values)


def grouped(start: I64, length: I64, owner: I64, n: int) -> tuple[I64, I64, I64]:
    """Return (offsets, start, length) of the runs sorted by owner, 0..n-1; those of one owner keep
    their order.
    """
    native = route.native()
    if native is not None:
        return route.grouped(native, start, length, owner, n)
    order = np.argsort(owner, kind="stable")
    return ragged.from_owner(owner, n), start[order], length[order]


def sound_runs(offsets: I64, start: I64, length: I64, size: I64) -> Flags:
    """Return which of n objects have runs as `calipers.data.masks.Masks` holds them.

    At least one run; each has a voxel, lies in the image and ends with its row; they ascend, and
    two of one row do not touch, so that there is one way only to write a mask. Sizes are (n, d)
    width, height[, depth] of at least 1.
    """
    sides = np.asarray((size >= 1).all(axis=1))
    sides &= np.prod(np.maximum(size, 1).astype(np.float64), axis=1) <= MOST_VOXELS
    frame = np.where(sides[:, None], size, 1)
    owner = ragged.owners(offsets)
    width, voxels = frame[owner, 0], np.prod(frame, axis=1)[owner]
    # Bad runs are replaced before the arithmetic below, which could overflow.
    bad = (length < 1) | (start < 0) | (length > width) | (start >= voxels)
    first = np.where(bad, 0, start)
    after = first + np.where(bad, 1, length)
    bad |= first % width + (after - first) > width
    same = owner[1:] == owner[:-1]
    bad[1:] |= same & (first[1:] < after[:-1])
    bad[1:] |= same & (first[1:] == after[:-1]) & (first[1:] % width[1:] != 0)
    return np.asarray(
        sides & (np.diff(offsets) > 0) & (np.bincount(owner[bad], minlength=len(size)) == 0)
    )


def fill(start: I64, length: I64, value: Array | bool | int, shape: tuple[int, ...]) -> Array:
    """Return the dense array: ``value`` (one, or one per run) inside runs, zero elsewhere."""
    value = np.asarray(value)
    array = np.zeros(shape, value.dtype)
    array.reshape(-1)[ragged.spans(start, length)] = (
        np.repeat(value, length) if value.ndim else value
    )
    return array


def places(start: I64, size: I64) -> I64:
    """Return the (d, m) coordinates x, y[, z] of the voxels with the indices ``start``."""
    width = size[..., 0]
    row = start // width
    x = start - row * width
    if size.shape[-1] == 2:
        return np.stack([x, row])
    z = row // size[..., 1]
    return np.stack([x, row - z * size[..., 1], z])


def voxels(length: I64, offsets: I64) -> I64:
    """Return the (n,) number of voxels of every object; 0 without runs."""
    total = np.concatenate([[0], np.cumsum(length)])
    return np.asarray(total[offsets[1:]] - total[offsets[:-1]])


def boxes(start: I64, length: I64, offsets: I64, size: I64) -> F64:
    """Return the (n, 2 d) smallest boxes around the voxels of every object; NaN without runs. Sizes
    are (n, d).
    """
    native = route.native()
    if native is not None:
        return route.boxes(native, (offsets, start, length), size)
    low = places(start, size[ragged.owners(offsets)])
    high = low + 1
    high[0] = low[0] + length
    corners = np.full((len(offsets) - 1, 2 * len(low)), np.nan)
    some = np.flatnonzero(np.diff(offsets))
    if len(some):
        corners[some, : len(low)] = np.minimum.reduceat(low, offsets[some], axis=1).T
        corners[some, len(low) :] = np.maximum.reduceat(high, offsets[some], axis=1).T
    return corners


def centroids(start: I64, length: I64, offsets: I64, size: I64) -> F64:
    """Return the (n, d) mean of the voxel centres of every object; NaN without runs. Sizes are (n,
    d).

    Sums are whole numbers and exact, up to objects of 2^62 / (2 width) voxels.
    """
    # Twice the sum of the centres of a run.
    twice = (2 * places(start, size[ragged.owners(offsets)]) + 1) * length
    twice[0] += (length - 1) * length
    means = np.full((len(offsets) - 1, len(twice)), np.nan)
    some = np.flatnonzero(np.diff(offsets))
    if len(some):
        total = np.add.reduceat(length, offsets[some])
        means[some] = (np.add.reduceat(twice, offsets[some], axis=1) / (2 * total)).T
    return means


def weighted_centroids(
    values: Array, start: I64, length: I64, offsets: I64, size: I64
) -> tuple[F64, F64]:
    """Return (n,) sums of a flat map over the voxels of every object and their (n, d) centroids
    weighted by it.

    The centroid is ``sum(value * centre) / sum(value)``; NaN where the sum is 0, as it is without
    runs. Everything is added up in float64 and in the order of the voxels.
    """
    native = route.native()
    if native is not None and values.dtype in route.REAL and size.ndim == 1:
        return route.weighted_centroids(native, values, (offsets, start, length), size)
    n, voxel_values = len(offsets) - 1, _values_of(values, start, length)
    of_run = np.repeat(ragged.owners(offsets), length)
    total = _sums_by_owner(of_run, voxel_values, n)
    where = places(start, size)
    means = np.full((n, len(where)), np.nan)
    some = total != 0
    for axis, at in enumerate(where):
        centre = np.repeat(at, length) + (ragged.positions(length) if axis == 0 else 0) + 0.5
        means[some, axis] = _sums_by_owner(of_run, voxel_values * centre, n)[some] / total[some]
    return total, means


def _values_of(values: Array, start: I64, length: I64) -> F64:
    """Return the values of all voxels of the runs, one after the other."""
    return values[ragged.spans(start, length)].astype(np.float64, copy=False)


def _sums_by_owner(owner: I64, values: F64, n: int) -> F64:
    # Without values, bincount returns whole numbers.
    return np.bincount(owner, weights=values, minlength=n).astype(np.float64, copy=False)


def in_box(start: I64, length: I64, size: I64, corners: F64) -> F64:
    """Return the (m,) area (volume) that run k shares with the box ``corners[:, k]``, (2 d, m):
    exact, voxels are cut.

    A run is the box ``[x, x + length)`` by ``[y, y + 1)`` and so on. A box whose high corner lies
    before its low one shares nothing.
    """
    low = places(start, size)
    d = len(low)
    common = np.maximum(
        np.minimum(low[0] + length, corners[d]) - np.maximum(low[0], corners[0]), 0.0
    )
    for axis in range(1, d):
        at = low[axis]
        common *= np.maximum(
            np.minimum(at + 1, corners[d + axis]) - np.maximum(at, corners[axis]), 0.0
        )
    return np.asarray(common)


def contains(start: I64, length: I64, offsets: I64, size: I64, queries: tuple[I64, F64]) -> Flags:
    """Return whether the voxel that holds ``points[k]`` (x, y[, z]) belongs to the object
    ``rows[k]``.

    ``queries`` is (rows, points). ``size`` is (n, d), of every object. A point outside of the image
    belongs to nothing.
    """
    rows, points = queries
    voxel, frame = np.floor(points), size[rows]
    inside = np.asarray(((voxel >= 0) & (voxel < frame)).all(axis=1))
    at = np.where(inside[:, None], voxel, 0).astype(np.int64)
    # From the slowest axis to x, as voxels are numbered.
    index = at[:, -1]
    for axis in range(at.shape[1] - 2, -1, -1):
        index = index * frame[:, axis] + at[:, axis]
    # Runs are sorted inside of their object: with the object in front they are sorted as a whole.
    unit = int(np.prod(size, axis=1).max(initial=1))
    before = (
        np.searchsorted(ragged.owners(offsets) * unit + start, rows * unit + index, side="right")
        - 1
    )
    mine = inside & (before >= offsets[rows])
    run = np.where(mine, before, 0)
    if not len(start):
        return mine
    return np.asarray(mine & (index < start[run] + length[run]))


def common(a: Table, b: Table, rows: I64, columns: I64) -> I64:
    """Return the (P,) voxels that object ``rows[k]`` of a and object ``columns[k]`` of b share.

    Runs of an object are sorted and disjoint. Those of the object with fewer runs are looked up
    among those of the other: what lies in a run is what lies before its end without what lies
    before its start.
    """
    native = route.native()
    if native is not None:
        return route.common(native, a, b, rows, columns)
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
    for one, other in ragged.batches(counts, PAIRS_AT_ONCE):
        offsets = ragged.from_counts(counts[one:other])
        runs = ragged.spans(low[one:other], counts[one:other])
        start = np.repeat((of_many * unit)[one:other], counts[one:other]) + few[1][runs]
        overlap = _voxels_before(start + few[2][runs], line, many[2], before) - _voxels_before(
            start, line, many[2], before
        )
        voxels[one:other] = np.diff(ragged.from_counts(overlap)[offsets])
    return voxels


def _voxels_before(places: I64, line: I64, length: I64, before: I64) -> I64:
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
        return route.intersections(native, a, b)
    # In 64 bits the products of owners do not overflow.
    a, b = ((start, length, owner.astype(np.int64, copy=False)) for start, length, owner in (a, b))
    pieces = [*_overlaps_begun_inside(a, b, "left")]
    for owner_b, owner_a, common in _overlaps_begun_inside(b, a, "right"):
        pieces.append((owner_a, owner_b, common))
    if not pieces:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    owner_a, owner_b, common = (np.concatenate(parts) for parts in zip(*pieces))
    return _pair_sums(owner_a, owner_b, common)


def _overlaps_begun_inside(outer: Owned, inner: Owned, side: str) -> Iterator[tuple[I64, I64, I64]]:
    """Yield the voxels that owners share, of pairs where a run of ``inner`` begins inside of one of
    ``outer``.

    With side "right" runs that begin together are left out.
    """
    start, length, owner = _by_start(inner)
    after = start + length
    end = outer[0] + outer[1]
    first = np.searchsorted(start, outer[0], side=side)  # type: ignore[call-overload]
    counts = np.searchsorted(start, end) - first
    total = np.cumsum(counts)
    cuts = np.searchsorted(
        total, np.arange(PAIRS_AT_ONCE, total[-1] if len(total) else 0, PAIRS_AT_ONCE)
    )
    for low, high in zip([0, *cuts], [*cuts, len(counts)]):
        owners = low + np.flatnonzero(counts[low:high])
        inside = ragged.spans(first[owners], counts[owners])
        mine = np.repeat(owners, counts[owners])
        common = np.minimum(end[mine], after[inside]) - start[inside]
        if len(common):
            yield _pair_sums(outer[2][mine], owner[inside], common)


def _by_start(runs_of: Owned) -> Owned:
    start, length, owner = runs_of
    if (start[1:] >= start[:-1]).all():
        return start, length, owner
    order = np.argsort(start, kind="stable")
    return start[order], length[order], owner[order]


def _pair_sums(a: I64, b: I64, common: I64) -> tuple[I64, I64, I64]:
    """Return the sum of ``common`` for every pair of owners; sums of whole numbers in float64 are
    exact below 2^53.
    """
    lowest_a, lowest_b = int(a.min()), int(b.min())
    height, width = int(a.max()) - lowest_a + 1, int(b.max()) - lowest_b + 1
    # Names of owners may be anything; numbered from 0 their pairs fit into 64 bits.
    if height * width >= MOST_KEYS:
        (owners_a, a), (owners_b, b) = (np.unique(owner, return_inverse=True) for owner in (a, b))
        one, other, total = _pair_sums(a, b, common)
        return owners_a[one], owners_b[other], total
    key = (a - lowest_a) * width + (b - lowest_b)
    if height * width <= max(4 * len(key), PAIRS_AT_ONCE):
        total = np.bincount(key, weights=common)
        key = np.flatnonzero(total)
        total = total[key]
    else:
        key, position = np.unique(key, return_inverse=True)
        total = np.bincount(position, weights=common)
    return lowest_a + key // width, lowest_b + key % width, total.astype(np.int64)


def both(a: StartsAndLengths, b: StartsAndLengths) -> tuple[I64, I64, I64]:
    """Return (start, length) of what two sets of sorted, disjoint runs share, and the run of a that
    it lies in.
    """
    first = np.searchsorted(b[0] + b[1], a[0], side="right")
    counts = np.maximum(np.searchsorted(b[0], a[0] + a[1]) - first, 0)
    inside, mine = ragged.spans(first, counts), np.repeat(np.arange(len(counts)), counts)
    start = np.maximum(a[0][mine], b[0][inside])
    return start, np.minimum((a[0] + a[1])[mine], (b[0] + b[1])[inside]) - start, mine


def without(a: StartsAndLengths, inner: StartsAndLengths) -> StartsAndLengths:
    """Return the runs of a without those of ``inner``, which lie inside of them; both sorted and
    disjoint.
    """
    # Every hole ends one piece and begins another: sorted, k-th start and k-th end belong together.
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
    inner = _erosion((owner * unit + start, length), owner, size, (depth, unit))
    start, length = without((owner * unit + start, length), inner)
    return start % unit, length, start // unit


def _erosion(
    all_of: StartsAndLengths, owner: I64, size: I64, rule: tuple[int, int]
) -> StartsAndLengths:
    """Erode by a cube with sides of 2 depth + 1, axis by axis; starts have their owner in front."""
    depth, unit = rule
    # Along x erosion shortens every run at both ends.
    start, length = all_of[0] + depth, all_of[1] - 2 * depth
    left = length > 0
    start, length, size = start[left], length[left], size[left]
    for axis in range(1, size.shape[1]):
        start, length, size = _erosion_along(axis, (start, length), size, (depth, unit))
    return start, length


def _erosion_along(
    axis: int, these: StartsAndLengths, size: I64, rule: tuple[int, int]
) -> tuple[I64, I64, I64]:
    """Keep what is there in all of 2 depth + 1 rows (slices) in sequence: sets of 1, 2, 4 ... of
    them, doubled.
    """
    depth, unit = rule
    window, have = 2 * depth + 1, 1
    while have < window and len(these[0]):
        step = min(have, window - have)
        at, stride = places(these[0] % unit, size)[axis], _stride(size, axis)
        # The row `step` further on, moved here; the first rows have nowhere to go.
        later = at >= step
        moved = these[0][later] - step * stride[later], these[1][later]
        start, length, mine = both(these, moved)
        these, size, have = (start, length), size[mine], have + step
    return these[0] + depth * _stride(size, axis), these[1], size


def _stride(size: I64, axis: int) -> I64:
    return np.asarray(np.prod(size[:, :axis], axis=1))


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


class Border(NamedTuple):
    """Runs of pixels, by object, on one line on which the pictures of all objects lie behind each
    other.
    """

    owner: I64
    start: I64
    length: I64


class Turn(NamedTuple):
    """Runs to be turned: their number is known before they take any memory."""

    columns: Runs
    size: I64
    base: I64
    borders: tuple[Border, Border] | None  # first and last pixels; None: the twins find them again
    counts: I64  # (n,) runs of each object

    @classmethod
    def of(cls, offsets: I64, start: I64, length: I64, size: I64) -> Turn:
        """Prepare what `turned` does."""
        base, columns = _bases(size), (offsets, start, length)
        native = route.native()
        if native is not None:
            return cls(columns, size, base, None, route.turned_counts(native, columns, size))
        first, last = (
            _border(offsets, start, length, size, base, forward=forward)
            for forward in (True, False)
        )
        counts = np.bincount(first.owner, first.length, len(size)).astype(np.int64)
        return cls(columns, size, base, (first, last), counts)

    def runs(self) -> Runs:
        """Return the runs."""
        offsets = ragged.from_counts(self.counts)
        if self.borders is None:
            native = route.native()
            assert native is not None  # nobody changes the route in between
            return route.turned_runs(native, self.columns, self.size, offsets)
        first, last = self.borders
        begins, ends = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
        for one, other in ragged.batches(self.counts, BATCH):
            part = slice(int(offsets[one]), int(offsets[other]))
            begins[part] = _border_pixels(first, one, other, self.size, self.base)
            ends[part] = _border_pixels(last, one, other, self.size, self.base)
        ends -= begins
        ends += 1
        return offsets, begins, ends


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


def _border_pixels(border: Border, first: int, last: int, size: I64, base: I64) -> I64:
    """Return the pixels of a border of some objects, counted along the slow axis, in ascending
    order.
    """
    begin, end = np.searchsorted(border.owner, (first, last))
    length = border.length[begin:end]
    owner = np.repeat(border.owner[begin:end], length)
    place = ragged.spans(border.start[begin:end] - base[border.owner[begin:end]], length)
    fast, slow = size[owner, 0], size[owner, 1]
    line = place // fast
    # In place: these arrays are what bounds the memory of a batch.
    place -= line * fast  # now the coordinate on the fast axis
    place *= slow
    place += line
    room = int((size[first:last, 0] * size[first:last, 1]).max(initial=1))
    owner *= room
    place += owner
    place.sort()
    return np.asarray(place - owner)  # every object still has its own places: as many as before


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
