# SPDX-License-Identifier: Apache-2.0
"""Precision-recall and FROC curves under integer weights, for many replicates, views and all
classes in one call.

Only hits matter for an average precision: precision is highest at hits and recall moves only there.
So a curve is held at the H hits of all classes: the cumulative weight of hits inside the class, and
that of all counted predictions. A weight of 2 gives the same as listing the image twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled, ragged, replicates, route
from calipers.kernels.matching import HIT, IGNORED

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]

EPS = np.spacing(1)  # pycocotools adds it to every denominator; kept, for equal bits


class Ranking(NamedTuple):
    """Predictions in the order of a curve: by class, then descending score, equal scores in input
    order.
    """

    order: I64  # (N,) rows of the predictions
    offsets: I64  # (K + 1,) classes
    ends: I64  # (N,) position at which the operating point of each prediction is read off


class CurveProblem(NamedTuple):
    """What curves are made of: fates, the order in which predictions are walked through, and
    weights of the images.
    """

    table: compiled.FateTable  # (all views, n_predictions) in input order
    views: list[int]  # the V rows of the fates to use
    ranked: Ranking
    image: I64  # (n_predictions,)
    weights: I64  # (R, n_images)
    # made once, for all replicates
    plans: dict[tuple[int | bool, ...], replicates.ReplicatePlan] | None = None

    @property
    def plain(self) -> bool:
        """Whether all images count once."""
        return len(self.weights) == 1 and bool((self.weights == 1).all())

    def plan(self, *, enveloped: bool) -> replicates.ReplicatePlan:
        """Return what all replicates share."""
        key = (enveloped, *self.views)
        plans = {} if self.plans is None else self.plans
        if key not in plans:
            every = self.views == list(range(len(self.table.fates)))
            fates = self.table.fates if every else self.table.fates[self.views]
            plans[key] = replicates.plan(fates, *self.ranked, self.image, enveloped=enveloped)
        return plans[key]

    def ordered_weights(self) -> I64:
        """Return (R, N): the weight of every prediction in the order of the ranking."""
        return np.asarray(self.weights[:, self.image[self.ranked.order]], np.int64)


class Curve(NamedTuple):
    """One view at its H hits."""

    offsets: I64  # (K + 1,) classes
    hits: I64  # (R, H) cumulative weight of hits
    every: I64  # (R, H) cumulative weight of counted predictions
    weight: I64  # (R, H) of each hit


def ranking(score: F64, label: I32, n_classes: int, *, blocks: bool) -> Ranking:
    """Sort predictions for a curve; with ``blocks`` equal scores of a class are one operating
    point.
    """
    native = route.native()
    if native is not None:
        return Ranking(*compiled.ranking(native, score, label, n_classes, blocks))
    order = np.argsort(-score, kind="stable")
    small = label[order].astype(np.min_scalar_type(n_classes))  # NumPy sorts 16 bits by radix
    order = order[np.argsort(small, kind="stable")]
    offsets = ragged.from_counts(np.bincount(label, minlength=n_classes))
    ends = block_ends(score[order], offsets) if blocks else np.arange(len(order))
    return Ranking(order, offsets, ends)


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


def curve(fate: I8, ranked: Ranking, weight: I64 | None) -> Curve:
    """Accumulate one view; ``fate`` (N,) and ``weight`` (R, N) in the order of the ranking, None
    for ones.
    """
    where = np.flatnonzero(fate == HIT)
    owner = np.searchsorted(ranked.offsets, where, side="right") - 1
    offsets = ragged.from_counts(np.bincount(owner, minlength=len(ranked.offsets) - 1))
    ends, start = ranked.ends[where], ranked.offsets[owner]
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
    if not problem.plain and (recalls is None or replicates.evenly_spaced(recalls)):
        plan = problem.plan(enveloped=enveloped)
        return replicates.average_precision(plan, problem.weights, positives, recalls)
    if native is not None:
        if recalls is not None:
            kind = compiled.RECALLS
        elif enveloped:
            kind = compiled.ENVELOPE
        else:
            kind = compiled.STEPS
        return compiled.average_precision(native, problem, positives, recalls, kind)
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
        sums = replicates.level_sums(values, np.ones(values.shape, np.int64), cells)
        result[:] = np.where(positives > 0, sums.reshape(positives.shape) / len(recalls), np.nan)
    return result


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
    j = np.where((j - 1) / count >= recalls, j - 1, j)
    return np.maximum(np.where(j / count < recalls, j + 1, j), 1)


def precisions(problem: CurveProblem, needed: I64) -> F64:
    """Return (R, K, n): the interpolated precision of one view at each ``needed`` (R, K, n) number
    of hits.

    Under weights only the ends of runs of hits are looked at: the envelope is the same, see
    `replicates`.
    """
    if problem.plain:
        fate = problem.table.fates[problem.views[0]][problem.ranked.order]
        return precision_at(curve(fate, problem.ranked, None), needed)
    plan = problem.plan(enveloped=True)
    step = max(1, replicates.AT_ONCE // max(1, len(plan.row_image)))
    result = np.empty(needed.shape)
    for first in range(0, len(needed), step):
        rows = slice(first, first + step)
        hits, every = replicates.running(plan, problem.weights[rows])
        result[rows] = precision_at(Curve(plan.point_offsets, hits, every, hits), needed[rows])
    return result


def precision_at(c: Curve, needed: I64) -> F64:
    """Return (R, K, n): the interpolated precision at each needed number of hits; 0 where it is
    never reached.
    """
    best = replicates.envelope(precision(c.hits, c.every), c.offsets)
    n_classes = len(c.offsets) - 1
    stride = int(max(needed.max(initial=0), c.hits.max(initial=0))) + 2
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
        total = replicates.level_sums(replicates.envelope(values, c.offsets), c.weight, c.offsets)
    else:
        total = _steps(c, values, positives.shape)
    return np.asarray(
        np.divide(total, positives, out=np.full(total.shape, np.nan), where=positives > 0)
    )


def _steps(c: Curve, values: F64, shape: tuple[int, ...]) -> F64:
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


def hits_at(problem: CurveProblem, allowed: F64) -> I64:
    """Return (R, V, K, n): the most hits of a class at an operating point with at most ``allowed``
    (R, n) false alarms.

    Operating points are the ends of the ranking's blocks, in descending score.
    """
    return replicates.hits_at(problem.plan(enveloped=True), problem.weights, allowed)
