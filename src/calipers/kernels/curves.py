# SPDX-License-Identifier: Apache-2.0
"""Precision-recall and FROC curves under integer weights: many replicates, views and all classes.

In comes a `CurveProblem`: fates of predictions (`kernels.assignment`), the order in which a curve
walks through them (`ranking`), and weights (R, n_images). Out come average precision (R, V, K) from
`average_precision`, interpolated precision at given recalls (`precisions`) and the hits
within an allowed number of false alarms (`hits_at`), for R replicates, V views and K classes. The
ranking metrics are the callers.

*Curves.* Precision is highest at hits and recall moves only there. So a `Curve` is held at the H
hits of all classes: the cumulative weight of hits inside the class, and that of all counted
predictions. A weight of 2 gives the same bits as listing the image twice.

*Replicates.* Weights change how much every prediction counts, never its place in the ranking. So
everything that is the same in all replicates is worked out once, as a `ReplicatePlan`; what is left
per replicate is sums of weights and a few operating points.

- Views that count the same predictions share the running sum of all predictions.
- Precision grows along a run of hits, so the envelope needs only the last hit of every run:
  whatever the weights are, no other point can be higher than it.
- The sum over recalls is one over the levels of the envelope, each times the number of recalls it
  reaches, from the highest recall down. It does not depend on where runs end.

Precision is ``hits / (all + eps)`` and recall ``hits / references``, in the order of operations of
pycocotools.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I8, I32, I64, Flags
from calipers.kernels import ragged, route
from calipers.kernels.assignment import HIT, IGNORED, FateTable, all_ones

EPS = np.spacing(1)  # pycocotools adds it to every denominator; kept, for equal bits
# moves a quotient of whole numbers below 1e8 safely to the right side of a whole number
NUDGE = 1e-9
MOST_RECALLS = 128  # two words of bits
AT_ONCE = 4_000_000  # weights in memory at a time


class CurveOrder(NamedTuple):
    """Predictions in the order of a curve: by class, then descending score, equal scores in input
    order.
    """

    order: I32  # (N,) rows of the predictions; of millions, numbers of 64 bits are much
    offsets: I64  # (K + 1,) classes
    # (N,) position at which the operating point of each prediction is read off; empty where that
    # is its own
    ends: I32

    def ends_of(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return where the operating points of some positions are read off."""
        return self.ends[positions] if len(self.ends) else positions


class CurveProblem(NamedTuple):
    """What curves are made of: fates, the order in which predictions are walked through, and
    weights of the images.
    """

    table: FateTable  # (all views, n_predictions) in input order
    views: list[int]  # the V rows of the fates to use
    ranked: CurveOrder
    # (n_predictions,) image of each; where every image counts once, nobody asks
    images: Callable[[], I64]
    weights: I64  # (R, n_images)
    # made once, for all replicates
    plans: dict[tuple[int | bool, ...], ReplicatePlan] | None = None

    @property
    def plain(self) -> bool:
        """Whether all images count once."""
        return all_ones(self.weights)

    def plan(self, *, enveloped: bool) -> ReplicatePlan:
        """Return what all replicates share."""
        key = (enveloped, *self.views)
        plans = {} if self.plans is None else self.plans
        if key not in plans:
            every = self.views == list(range(len(self.table.fates)))
            fates = self.table.fates if every else self.table.fates[self.views]
            plans[key] = plan(fates, self.ranked, self.images(), enveloped=enveloped)
        return plans[key]

    def ordered_weights(self) -> I64:
        """Return (R, N): the weight of every prediction in the order of the ranking."""
        return np.asarray(self.weights[:, self.images()[self.ranked.order]], np.int64)


class Curve(NamedTuple):
    """One view at its H hits."""

    offsets: I64  # (K + 1,) classes
    hits: I64  # (R, H) cumulative weight of hits
    every: I64  # (R, H) cumulative weight of counted predictions
    weight: I64  # (R, H) of each hit


def ranking(score: F64, label: I32, n_classes: int, *, blocks: bool) -> CurveOrder:
    """Sort predictions for a curve; with ``blocks`` equal scores of a class are one operating
    point.
    """
    native = route.native()
    if native is not None:
        return CurveOrder(*route.ranking(native, score, label, n_classes, blocks))
    order = np.argsort(-score, kind="stable")
    small = label[order].astype(np.min_scalar_type(n_classes))  # NumPy sorts 16 bits by radix
    order = order[np.argsort(small, kind="stable")]
    offsets = ragged.from_counts(np.bincount(label, minlength=n_classes))
    ends = block_ends(score[order], offsets) if blocks else np.zeros(0, np.int64)
    return CurveOrder(order.astype(np.int32), offsets, ends.astype(np.int32))


def block_ends(score: F64, offsets: I64) -> I64:
    """Return the last position of every run of equal sorted scores inside its class."""
    n = len(score)
    if n == 0:
        return np.zeros(0, np.int64)
    last = np.ones(n, np.bool_)
    last[:-1] = score[1:] != score[:-1]
    inner = offsets[1:-1]
    last[inner[(inner > 0) & (inner < n)] - 1] = True
    ends = np.flatnonzero(last)
    return np.repeat(ends, np.diff(ends, prepend=-1))


def average_precision(
    problem: CurveProblem, positives: I64, recalls: F64 | None, *, enveloped: bool = True
) -> F64:
    """Return (R, V, K); NaN for a class without references.

    Parameters
    ----------
    positives
        (R, V, K) weight of the counted references.
    recalls
        Points at which the interpolated precision is averaged; None: the area, of the envelope or
        of the steps.
    """
    native = route.native()
    # Unevenly spaced recalls cannot be counted by one division; they take the road by curves.
    if not problem.plain and (recalls is None or evenly_spaced(recalls)):
        plan = problem.plan(enveloped=enveloped)
        return replicate_precision(plan, problem.weights, positives, recalls)
    if native is not None:
        if recalls is not None:
            kind = route.RECALLS
        elif enveloped:
            kind = route.ENVELOPE
        else:
            kind = route.STEPS
        return route.average_precision(native, problem, positives, recalls, kind)
    result = np.empty(positives.shape)
    ranked, weight = problem.ranked, None if problem.plain else problem.ordered_weights()
    needed: dict[bytes, I64] = {}  # views of one size range share their references
    levels = []
    for view, column in enumerate(problem.views):
        c = curve(problem.table.fates[column][ranked.order], ranked, weight)
        if recalls is not None:
            key = positives[:, view].tobytes()
            if key not in needed:
                needed[key] = needed_hits(positives[:, view], recalls)
            levels.append(precision_at(c, needed[key]))
        else:
            result[:, view] = area(c, positives[:, view], enveloped=enveloped)
    if recalls is not None and levels:
        precisions_at = np.stack(levels, axis=1)
        cells = np.arange(precisions_at[0].size // len(recalls) + 1) * len(recalls)
        values = precisions_at.reshape(len(precisions_at), -1)
        sums = level_sums(values, np.ones(values.shape, np.int64), cells)
        result[:] = np.where(positives > 0, sums.reshape(positives.shape) / len(recalls), np.nan)
    return result


def precisions(problem: CurveProblem, positives: I64, recalls: F64) -> F64:
    """Return (R, K, n): the interpolated precision of one view at each of n recalls.

    Under weights only the ends of runs of hits are looked at: the envelope is the same, see
    `ReplicatePlan`.

    Parameters
    ----------
    positives
        (R, K) weight of the counted references; the precision of a class without any means nothing.
    """
    if problem.plain:
        fate = problem.table.fates[problem.views[0]][problem.ranked.order]
        return precision_at(curve(fate, problem.ranked, None), needed_hits(positives, recalls))
    plan, native = problem.plan(enveloped=True), route.native()
    fits = native is not None and route.fit_lanes(problem.weights, len(plan.row_image))
    if native is not None and fits and evenly_spaced(recalls):
        rounded = rounded_up(recalls)
        weights = problem.weights
        return route.replicate_curve(native, plan, weights, positives[:, None], rounded)[:, 0]
    step = max(1, AT_ONCE // max(1, len(plan.row_image)))
    needed = needed_hits(positives, recalls)
    result = np.empty(needed.shape)
    for first in range(0, len(needed), step):
        rows = slice(first, first + step)
        hits, every = running(plan, problem.weights[rows])
        result[rows] = precision_at(Curve(plan.point_offsets, hits, every, hits), needed[rows])
    return result


def hits_at(problem: CurveProblem, allowed: F64) -> I64:
    """Return (R, V, K, n): the most hits of a class at an operating point with at most ``allowed``
    (R, n) false alarms.

    Operating points are the ends of the ranking's blocks, in descending score.
    """
    return replicate_hits(problem.plan(enveloped=True), problem.weights, allowed)


def interpolated_hits(problem: CurveProblem, view: int, alarms: F64) -> F64:
    """Return (R, K, n): the hits of a class at ``alarms`` (R, n) false alarms, on straight lines
    between operating points.

    The curve begins with no hit and no false alarm, and stays level behind its last point. Where
    several points have one number of false alarms, the highest counts.
    """
    order, offsets, _ = problem.ranked
    fate = problem.table.fates[view][order]
    weight = problem.ordered_weights()
    hits = np.cumsum(weight * (fate == HIT), axis=1)
    false = np.cumsum(weight * ((fate != HIT) & (fate != IGNORED)), axis=1)
    result = np.zeros((len(weight), len(offsets) - 1, alarms.shape[1]))
    for k, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist())):
        if start == stop:
            continue
        points = np.unique(problem.ranked.ends_of(np.arange(start, stop)))
        for r in range(len(weight)):
            before = (hits[r, start - 1], false[r, start - 1]) if start else (0, 0)
            of_hits = np.concatenate([[0], hits[r, points] - before[0]])
            of_false = np.concatenate([[0], false[r, points] - before[1]])
            result[r, k] = np.interp(alarms[r], of_false, of_hits)
    return result


def curve(fate: I8, ranked: CurveOrder, weight: I64 | None) -> Curve:
    """Accumulate one view; ``fate`` (N,) and ``weight`` (R, N) in the order of the ranking, None
    for ones.
    """
    where = np.flatnonzero(fate == HIT)
    owner = np.searchsorted(ranked.offsets, where, side="right") - 1
    offsets = ragged.from_counts(np.bincount(owner, minlength=len(ranked.offsets) - 1))
    ends, start = ranked.ends_of(where), ranked.offsets[owner]
    is_counted = fate != IGNORED
    if weight is None:
        of_hits = np.ones((1, len(where)), np.int64)
        running = (np.arange(1, len(where) + 1) - offsets[owner])[None]
        if is_counted.all():  # then the place in the ranking is the number of predictions so far
            every = (ends + 1 - start)[None]
        else:
            # 32 bits need half the memory and are twice as fast.
            total = np.cumsum(is_counted.astype(np.int32), dtype=np.int32)
            every = (total[ends] - np.where(start > 0, total[start - 1], 0)).astype(np.int64)[None]
    else:
        of_hits = weight[:, where]
        running = segment_cumsum(of_hits, offsets)
        sums = np.cumsum(weight * is_counted, axis=1)
        every = sums[:, ends] - np.where(start > 0, sums[:, start - 1], 0)
    # With blocks, all hits up to the end of the block count at once.
    upto = np.searchsorted(where, ends, side="right") - 1
    return Curve(offsets, running[:, upto], every, of_hits)


def segment_cumsum(values: I64, offsets: I64) -> I64:
    """Return cumulative sums along the last axis that start anew at every offset."""
    total = np.cumsum(values, axis=-1)
    base = np.zeros((*values.shape[:-1], len(offsets) - 1), total.dtype)
    inside = offsets[:-1] > 0
    base[..., inside] = total[..., offsets[:-1][inside] - 1]
    return np.asarray(total - np.repeat(base, np.diff(offsets), axis=-1))


def precision(hits: I64, every: I64) -> F64:
    """Return hits / (all + eps), in pycocotools' order of operations."""
    return np.asarray(hits / (every + EPS))


def needed_hits(positives: I64, recalls: F64) -> I64:
    """Return (R, K, n): the smallest whole number of hits j >= 1 with ``j / positives >= recall``
    in float64.

    Searching whole numbers instead of rounded recalls gives the same answer and lets all classes be
    searched at once.
    """
    count = np.maximum(positives, 1)[..., None]
    j = np.ceil(recalls * count).astype(np.int64)
    # The estimate may be off by one either way: the float64 quotient decides, as in pycocotools.
    j = np.where((j - 1) / count >= recalls, j - 1, j)
    return np.maximum(np.where(j / count < recalls, j + 1, j), 1)


def precision_at(c: Curve, needed: I64) -> F64:
    """Return (R, K, n): the interpolated precision at each needed number of hits; 0 where it is
    never reached.
    """
    best = envelope(precision(c.hits, c.every), c.offsets)
    n_classes = len(c.offsets) - 1
    stride = int(max(needed.max(initial=0), c.hits.max(initial=0))) + 2
    # Classes are moved apart on one axis, so that one search serves all of them.
    base = np.arange(n_classes) * stride
    keys = c.hits + np.repeat(base, np.diff(c.offsets))
    targets = np.minimum(needed, stride - 1) + base[:, None]
    result = np.empty(needed.shape)
    padded = np.concatenate([best, np.zeros((len(best), 1))], axis=1)
    ends = np.broadcast_to(c.offsets[1:, None], needed.shape[1:])
    for r in range(len(c.hits)):
        position = np.searchsorted(keys[r], targets[r], side="left")
        position = np.where(position < ends, position, padded.shape[1] - 1)
        result[r] = padded[r, position]
    return result


def area(c: Curve, positives: I64, *, enveloped: bool) -> F64:
    """Return (R, K): the sum over operating points of precision x hits gained, divided by the
    references.

    Of the envelope, level by level; else point by point.
    """
    values = precision(c.hits, c.every)
    if enveloped:
        total = level_sums(envelope(values, c.offsets), c.weight, c.offsets)
    else:
        total = _step_area(c, values, positives.shape)
    return np.asarray(
        np.divide(total, positives, out=np.full(total.shape, np.nan), where=positives > 0)
    )


def _step_area(c: Curve, values: F64, shape: tuple[int, ...]) -> F64:
    """Return (R, K): the sum over operating points of precision x hits gained; equal scores are one
    point.
    """
    total, owner = np.zeros(shape), ragged.owners(c.offsets)
    for r, hits in enumerate(c.hits):
        last = np.append((hits[1:] != hits[:-1]) | (owner[1:] != owner[:-1]), True)[: len(hits)]
        gained = np.diff(hits[last], prepend=0)
        first = np.append(True, owner[last][1:] != owner[last][:-1])[: len(gained)]
        gained[first] = hits[last][first]
        total[r] = np.bincount(owner[last], weights=gained * values[r][last], minlength=shape[1])
    return total


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
    # Equal neighbours of two segments are two levels.
    ends[:, inner[inner > 0] - 1] = True
    where = np.flatnonzero(ends)
    running = np.cumsum(counts, axis=1, dtype=np.int64).reshape(-1)[where]
    row, column = np.divmod(where, values.shape[1])
    before = np.concatenate([[0], running[:-1]])
    before[np.append(True, row[1:] != row[:-1])] = 0
    products = values.reshape(-1)[where] * (running - before)
    cell = row * n_segments + ragged.owners(offsets)[column]
    # bincount adds in the order of its input: reversed, the highest recall comes first.
    total = np.bincount(cell[::-1], weights=products[::-1], minlength=len(values) * n_segments)
    return np.asarray(total.reshape(len(values), n_segments))


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


def plan(fates: I8, ranking: CurveOrder, image: I64, *, enveloped: bool) -> ReplicatePlan:
    """Return the plan for fates (V, N) in input order and a ranking of the predictions.

    Without ``enveloped`` every operating point with a hit is kept, not only the ends of runs.
    """
    order, offsets, _ = ranking
    n_classes = len(offsets) - 1
    by_object = np.ascontiguousarray(fates.T)[order]  # rows of all views: few jumps in memory
    ranked = np.ascontiguousarray(by_object.T)
    # Views with the same counted predictions share rows and running sums.
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
        block = ranking.ends_of(rows_counted)
        label = classes[rows_counted]
        ends_of_blocks = BlockEnds.of(block, label)
        hits = {view: ranked[view][rows_counted] == HIT for view in views}
        points_of = {}
        marked = np.zeros(len(rows_counted), np.bool_)
        for view in views:
            points_of[view] = ends_of_blocks.points(hits[view], enveloped=enveloped)
            marked[points_of[view][0]] = True
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


class BlockEnds(NamedTuple):
    """The blocks of equal scores of counted predictions, which all views of a group share."""

    last: I64  # row of the last prediction of every block
    size: I64
    goes_on: Flags  # whether the next block is of the same class

    @classmethod
    def of(cls, block: NDArray[Any], label: I64) -> BlockEnds:
        """Return the ends of blocks (n,), of the classes ``label``, in the order of the ranking."""
        is_last = np.ones(len(block), np.bool_)
        is_last[:-1] = block[1:] != block[:-1]
        last = np.flatnonzero(is_last)
        goes_on = np.zeros(len(last), np.bool_)
        goes_on[:-1] = label[last[1:]] == label[last[:-1]]
        return cls(last, np.diff(last, prepend=-1), goes_on)

    def points(self, hit: Flags, *, enveloped: bool) -> tuple[I64, I64]:
        """Return the rows that end an operating point that matters, and how many hits lie up to
        each; ``hit`` says which predictions are hits.
        """
        so_far = np.cumsum(hit, dtype=np.int64)[self.last]
        hits = np.diff(so_far, prepend=0)
        is_point = hits > 0
        if enveloped:
            # Where nothing but hits comes next, the next point can only be higher.
            is_point[:-1] &= ~(self.goes_on[:-1] & (hits[1:] == self.size[1:]))
        return self.last[is_point], so_far[is_point]


def _assemble(
    group_of: I64,
    rows: tuple[list[I64], list[I64]],
    marks: tuple[list[I64], list[I64]],
    parts: dict[int, tuple[I64, I64, I64]],
    order: I32,
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
    # Hits count on through all views: those of a view begin where the ones before it end.
    point_hits = [start + parts[view][1] for start, view in zip(base.tolist(), views)]
    point_marks = [parts[view][2] for view in views]
    n_hits_of_class = [np.bincount(entry, minlength=n_classes) for entry in owner]
    n_points_of_class = [np.bincount(entry, minlength=n_classes) for entry in of_point]
    return ReplicatePlan(
        group_of=group_of,
        row_image=_concatenate(rows[0]).astype(np.int32),
        row_offsets=ragged.from_counts(_concatenate(rows[1])),
        mark_at=_concatenate(marks[0]),
        mark_offsets=ragged.from_counts(_concatenate(marks[1])),
        hit_image=image[order[_concatenate(hits)]].astype(np.int32),
        hit_offsets=ragged.from_counts(_concatenate(n_hits_of_class)),
        point_hits=_concatenate(point_hits),
        point_mark=_concatenate(point_marks),
        point_offsets=ragged.from_counts(_concatenate(n_points_of_class)),
        enveloped=enveloped,
    )


def _concatenate(parts: list[I64]) -> I64:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def replicate_precision(
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
    if native is not None and route.fit_lanes(weights, len(p.row_image)):
        return route.replicates(native, p, weights, positives, rounded)
    # So many replicates at a time that their running sums stay within AT_ONCE numbers.
    step = max(1, AT_ONCE // max(1, len(p.row_image), len(p.hit_image)))
    parts = []
    for first in range(0, len(weights), step):
        block = slice(first, first + step)
        parts.append(_precision_of_block(p, weights[block], positives[block], rounded))
    return np.concatenate(parts) if parts else np.zeros(positives.shape)


def replicate_hits(p: ReplicatePlan, weights: NDArray[np.integer], allowed: F64) -> I64:
    """Return (R, V, K, n): the most hits of a cell at an operating point with at most ``allowed``
    (R, n) false alarms.

    At the end of a run of hits there are more hits than before, and no more false alarms: no other
    point is needed.
    """
    native = route.native()
    if native is not None and route.fit_lanes(weights, len(p.row_image)):
        return route.replicate_hits(native, p, weights, allowed)
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


def _precision_of_block(
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
        sums = _cell_sums(values * _replicate_steps(reached, p.point_offsets), cells, total.shape)
    else:
        reached = hits if rounded is None else recalls_reached(hits, total[:, cells], rounded)
        values = envelope(values, p.point_offsets)
        sums = level_sums(values, _replicate_steps(reached, p.point_offsets), p.point_offsets)
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
        sums = _running_sums(weights, p.row_image[start:stop])
        here = slice(p.mark_offsets[first], p.mark_offsets[first + n_classes])
        begins = np.repeat(
            p.row_offsets[first : first + n_classes],
            np.diff(p.mark_offsets[first : first + n_classes + 1]),
        )
        marks[:, here] = sums[:, p.mark_at[here] + 1 - start] - sums[:, begins - start]
    hits = _running_sums(weights, p.hit_image)
    begins = np.repeat(p.hit_offsets[:-1], np.diff(p.point_offsets))
    return hits[:, p.point_hits] - hits[:, begins], marks[:, p.point_mark]


def _running_sums(weights: NDArray[np.integer], image: I32) -> I64:
    """Return (R, n + 1): running sums that begin with 0."""
    sums = np.zeros((len(weights), len(image) + 1), np.int64)
    np.cumsum(weights[:, image], axis=1, out=sums[:, 1:])
    return sums


def _replicate_steps(reached: I64, offsets: I64) -> I64:
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


def _cell_sums(products: F64, cells: I64, shape: tuple[int, ...]) -> F64:
    """Return (R, cells): sums of the products of every cell, in order."""
    rows = [np.bincount(cells, weights=entry, minlength=shape[1]) for entry in products]
    return np.asarray(np.stack(rows)) if rows else np.zeros(shape)
