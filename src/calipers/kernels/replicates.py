# SPDX-License-Identifier: Apache-2.0
"""Average precision of many replicates at once.

Weights change how much every prediction counts, never its place in the ranking. So everything that
is the same in all replicates is worked out once, as a plan; what is left per replicate is sums of
weights and a few operating points.

- Views that count the same predictions share the running sum of all predictions.
- Precision grows along a run of hits, so the envelope needs only the last hit of every run:
  whatever the weights are, no other point can be higher than it.
- The sum over recalls is one over the levels of the envelope, each times the number of recalls it
  reaches, from the highest recall down. It does not depend on where runs end: a weight of 2 gives
  the bits of an image listed twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled, ragged, route
from calipers.kernels.matching import HIT, IGNORED

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]

EPS = np.spacing(1)  # pycocotools adds it to every denominator; kept, for equal bits
# moves a quotient of whole numbers below 1e8 safely to the right side of a whole number
NUDGE = 1e-9
MOST_RECALLS = 128  # two words of bits
AT_ONCE = 4_000_000  # weights in memory at a time


class ReplicatePlan(NamedTuple):
    """What all replicates share. Cells are (view, class); groups are sets of views that count the
    same predictions.
    """

    group_of: I64  # (V,)
    row_image: I32  # image of every counted prediction, by group, class and rank
    row_offsets: I64  # (G * K + 1,)
    mark_at: I64  # rows after which some view of the group has an operating point
    mark_offsets: I64  # (G * K + 1,)
    hit_image: I32  # image of every hit, by cell and rank
    hit_offsets: I64  # (V * K + 1,)
    point_hits: I64  # operating points, by cell: how many hits (of all cells) lie at or before it
    point_mark: I64  # which mark it is
    point_offsets: I64  # (V * K + 1,)
    enveloped: bool  # whether only the ends of runs are points

    @property
    def arrays(self) -> tuple[NDArray[np.integer], ...]:
        """What the compiled twin takes."""
        return self[:-1]


def plan(
    fates: I8, order: I64, offsets: I64, ends: I64, image: I64, *, enveloped: bool
) -> ReplicatePlan:
    """Return the plan for fates (V, N) in input order and a ranking of the predictions.

    Without ``enveloped`` every operating point with a hit is kept, not only the ends of runs.
    """
    n_classes = len(offsets) - 1
    by_object = np.ascontiguousarray(fates.T)[order]  # rows of all views: few jumps in memory
    ranked = np.ascontiguousarray(by_object.T)
    groups: dict[bytes, list[int]] = {}
    for view, row in enumerate(ranked):
        groups.setdefault((row != IGNORED).tobytes(), []).append(view)
    classes = ragged.owners(offsets)
    # View -> rows of hits, hits before each point, marks.
    parts: dict[int, tuple[I64, I64, I64]] = {}
    rows, marks, group_of = [], [], np.zeros(len(fates), np.int64)
    row_counts, mark_counts = [], []
    n_rows = n_marks = 0
    for g, views in enumerate(groups.values()):
        rows_counted = np.flatnonzero(ranked[views[0]] != IGNORED)
        block = ends[rows_counted]
        label = classes[rows_counted]
        hits = {view: ranked[view][rows_counted] == HIT for view in views}
        points_of = {view: _points(hits[view], block, label, enveloped) for view in views}
        marked = np.zeros(len(rows_counted), np.bool_)
        for points, _ in points_of.values():
            marked[points] = True
        at, place = np.flatnonzero(marked), n_marks - 1 + np.cumsum(marked)
        for view, (points, before) in points_of.items():
            parts[view] = rows_counted[hits[view]], before, place[points]
            group_of[view] = g
        rows.append(image[order[rows_counted]])
        marks.append(n_rows + at)
        row_counts.append(np.bincount(label, minlength=n_classes))
        mark_counts.append(np.bincount(label[at], minlength=n_classes))
        n_rows, n_marks = n_rows + len(rows_counted), n_marks + len(at)
    return _assemble(
        group_of, (rows, row_counts), (marks, mark_counts), parts, order, offsets, image, enveloped
    )


def _points(hit: NDArray[np.bool_], block: I64, label: I64, enveloped: bool) -> tuple[I64, I64]:
    """Return the rows that end an operating point that matters, and how many hits lie up to each.

    Hits, blocks of equal scores and classes of the counted predictions in the order of the ranking.
    """
    if not len(hit):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    last = np.append(block[1:] != block[:-1], True)
    at = np.flatnonzero(last)
    so_far = np.cumsum(hit)[at]
    hits, size = np.diff(so_far, prepend=0), np.diff(at, prepend=-1)
    is_point = hits > 0
    if enveloped:
        follows = np.append((hits == size)[1:] & (label[at][1:] == label[at][:-1]), False)
        is_point &= ~follows  # nothing but hits comes next, which can only be higher
    return at[is_point], np.asarray(so_far[is_point], np.int64)


def _assemble(
    group_of: I64,
    rows: tuple[list[I64], list[I64]],
    marks: tuple[list[I64], list[I64]],
    parts: dict[int, tuple[I64, I64, I64]],
    order: I64,
    offsets: I64,
    image: I64,
    enveloped: bool,
) -> ReplicatePlan:
    n_classes, views = len(offsets) - 1, range(len(group_of))
    hits = [parts[view][0] for view in views]
    base = ragged.from_counts(np.array([len(entry) for entry in hits], np.int64))
    classes = ragged.owners(offsets)
    owner = [classes[entry] for entry in hits]
    # The class of a point is that of the last hit up to it.
    of_point = []
    for view, own in zip(views, owner):
        n_hits = parts[view][1]
        of_point.append(own[n_hits - 1] if len(n_hits) else n_hits)
    return ReplicatePlan(
        group_of=group_of,
        row_image=_concatenate(rows[0]).astype(np.int32),
        row_offsets=ragged.from_counts(_concatenate(rows[1])),
        mark_at=_concatenate(marks[0]),
        mark_offsets=ragged.from_counts(_concatenate(marks[1])),
        hit_image=image[order[_concatenate(hits)]].astype(np.int32),
        hit_offsets=ragged.from_counts(
            _concatenate([np.bincount(entry, minlength=n_classes) for entry in owner])
        ),
        point_hits=_concatenate(
            [start + parts[view][1] for start, view in zip(base.tolist(), views)]
        ),
        point_mark=_concatenate([parts[view][2] for view in views]),
        point_offsets=ragged.from_counts(
            _concatenate([np.bincount(entry, minlength=n_classes) for entry in of_point])
        ),
        enveloped=enveloped,
    )


def _concatenate(parts: list[I64]) -> I64:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def average_precision(
    p: ReplicatePlan, weights: NDArray[np.integer], positives: I64, recalls: F64 | None
) -> F64:
    """Return (R, V, K); NaN for a class without references.

    Parameters
    ----------
    positives
        (R, V, K) weight of the counted references.
    recalls
        The `evenly_spaced` recalls that the precision is averaged over; None takes the area.
    """
    native, rounded = route.native(), None if recalls is None else rounded_up(recalls)
    if native is not None and compiled.fit_lanes(weights, len(p.row_image)):
        return compiled.replicates(native, p, weights, positives, rounded)
    step = max(1, AT_ONCE // max(1, len(p.row_image), len(p.hit_image)))
    parts = [
        _block(p, weights[first : first + step], positives[first : first + step], rounded)
        for first in range(0, len(weights), step)
    ]
    return np.concatenate(parts) if parts else np.zeros(positives.shape)


def hits_at(p: ReplicatePlan, weights: NDArray[np.integer], allowed: F64) -> I64:
    """Return (R, V, K, n): the most hits of a cell at an operating point with at most ``allowed``
    (R, n) false alarms.

    At the end of a run of hits there are more hits than before, and no more false alarms: no other
    point is needed.
    """
    native = route.native()
    if native is not None and compiled.fit_lanes(weights, len(p.row_image)):
        return compiled.replicate_hits(native, p, weights, allowed)
    n_cells, step = (
        len(p.point_offsets) - 1,
        max(1, AT_ONCE // max(1, len(p.row_image), len(p.hit_image))),
    )
    result = np.zeros((len(weights), n_cells, allowed.shape[1]), np.int64)
    filled = np.flatnonzero(np.diff(p.point_offsets))
    for first in range(0, len(weights) if len(filled) else 0, step):
        rows = slice(first, first + step)
        hits, every = running(p, weights[rows])
        for k in range(allowed.shape[1]):
            reached = np.where(every - hits <= allowed[rows, k, None], hits, 0)
            result[rows, filled, k] = np.maximum.reduceat(reached, p.point_offsets[filled], axis=1)
    return result.reshape(len(weights), len(p.group_of), -1, allowed.shape[1])


def _block(
    p: ReplicatePlan,
    weights: NDArray[np.integer],
    positives: I64,
    rounded: NDArray[np.bool_] | None,
) -> F64:
    hits, every = running(p, weights)
    values = hits / (every + EPS)
    cells = ragged.owners(p.point_offsets)
    total = positives.reshape(len(positives), -1)
    if not p.enveloped:
        reached = hits
        sums = _sums(values * _steps(reached, p.point_offsets), cells, total.shape)
    else:
        reached = hits if rounded is None else recalls_reached(hits, total[:, cells], rounded)
        values = envelope(values, p.point_offsets)
        sums = level_sums(values, _steps(reached, p.point_offsets), p.point_offsets)
    divisor = total if rounded is None else np.full(total.shape, len(rounded))
    mean = np.divide(sums, divisor, out=np.full(total.shape, np.nan), where=total > 0)
    return np.asarray(mean.reshape(positives.shape))


def running(p: ReplicatePlan, weights: NDArray[np.integer]) -> tuple[I64, I64]:
    """Return (R, P): the weight of the hits and of all counted predictions up to every operating
    point.
    """
    marks = np.zeros((len(weights), len(p.mark_at)), np.int64)
    n_classes = (len(p.hit_offsets) - 1) // max(1, len(p.group_of))
    # One group of views after the other: less memory.
    for first in range(0, len(p.row_offsets) - 1, n_classes):
        start, stop = p.row_offsets[first], p.row_offsets[first + n_classes]
        sums = _cumulated(weights, p.row_image[start:stop])
        here = slice(p.mark_offsets[first], p.mark_offsets[first + n_classes])
        begins = np.repeat(
            p.row_offsets[first : first + n_classes],
            np.diff(p.mark_offsets[first : first + n_classes + 1]),
        )
        marks[:, here] = sums[:, p.mark_at[here] + 1 - start] - sums[:, begins - start]
    hits = _cumulated(weights, p.hit_image)
    begins = np.repeat(p.hit_offsets[:-1], np.diff(p.point_offsets))
    return hits[:, p.point_hits] - hits[:, begins], marks[:, p.point_mark]


def _cumulated(weights: NDArray[np.integer], image: I32) -> I64:
    """Return (R, n + 1): running sums that begin with 0."""
    sums = np.zeros((len(weights), len(image) + 1), np.int64)
    np.cumsum(weights[:, image], axis=1, out=sums[:, 1:])
    return sums


def _steps(reached: I64, offsets: I64) -> I64:
    """Return how much every point adds to the one before it in its cell."""
    steps = np.diff(reached, axis=1, prepend=0)
    first = offsets[:-1][np.diff(offsets) > 0]
    steps[:, first] = reached[:, first]
    return steps


def recalls_reached(hits: I64, positives: I64, rounded: NDArray[np.bool_]) -> I64:
    """Return how many of n evenly spaced recalls are at most ``hits / positives``, in float64.

    Only an exact hit can be rounded to the wrong side, so the whole numbers decide, and ``rounded``
    (n,) says of which recalls that is true; see `rounded_up`.
    """
    n = len(rounded)
    x = hits * ((n - 1) / np.maximum(positives, 1)) + NUDGE
    whole = np.minimum(x.astype(np.int64), n - 1)
    return np.asarray(whole + 1 - ((x - whole < 2 * NUDGE) & rounded[whole]))


def evenly_spaced(recalls: F64) -> bool:
    """Return whether the recalls are ``linspace(0, 1, n)`` or the quotients ``k / (n - 1)``: last
    bits differ.
    """
    n = len(recalls)
    if not 1 < n <= MOST_RECALLS:
        return False
    return bool(
        (recalls == np.linspace(0.0, 1.0, n)).all() or (recalls == np.arange(n) / (n - 1)).all()
    )


def rounded_up(recalls: F64) -> NDArray[np.bool_]:
    """Return, for evenly spaced recalls, which are larger than the quotient that they stand for."""
    return np.asarray(recalls > np.arange(len(recalls)) / (len(recalls) - 1))


def envelope(values: F64, offsets: I64) -> F64:
    """Return the largest value at or after each position, segment by segment."""
    result = np.empty_like(values)
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist()):
        if start < stop:
            np.maximum.accumulate(
                values[:, start:stop][:, ::-1], axis=1, out=result[:, start:stop][:, ::-1]
            )
    return result


def level_sums(values: F64, counts: NDArray[np.integer], offsets: I64) -> F64:
    """Return (R, segments): the sum over the distinct levels of ``values`` of level x count, from
    the last one on.

    Values do not ascend within a segment. The order is part of the contract: every route adds up
    the same way.
    """
    n_segments = len(offsets) - 1
    if not values.shape[1]:
        return np.zeros((len(values), n_segments))
    ends = np.ones(values.shape, np.bool_)
    ends[:, :-1] = values[:, 1:] != values[:, :-1]
    inner = offsets[1:]
    ends[:, inner[inner > 0] - 1] = True
    where = np.flatnonzero(ends)
    running = np.cumsum(counts, axis=1, dtype=np.int64).reshape(-1)[where]
    row, column = np.divmod(where, values.shape[1])
    before = np.concatenate([[0], running[:-1]])
    before[np.append(True, row[1:] != row[:-1])] = 0
    products = values.reshape(-1)[where] * (running - before)
    cell = row * n_segments + ragged.owners(offsets)[column]
    total = np.bincount(cell[::-1], weights=products[::-1], minlength=len(values) * n_segments)
    return np.asarray(total.reshape(len(values), n_segments))


def _sums(products: F64, cells: I64, shape: tuple[int, ...]) -> F64:
    """Return (R, cells): sums of the products of every cell, in order."""
    rows = [np.bincount(cells, weights=entry, minlength=shape[1]) for entry in products]
    return np.asarray(np.stack(rows)) if rows else np.zeros(shape)
