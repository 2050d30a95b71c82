# SPDX-License-Identifier: Apache-2.0
"""Fusion of boxes: greedy clusters, fused boxes and scores, decay of scores.

Boxes come as a flat table with offsets per image: labels, corners ``(n, 2 d)``, extents, scores.
Boxes of one image and class are a *cell*; only they meet. `calipers.fusion` and
`calipers.matching.suppress` are the callers.

*Clusters.* Boxes of a cell are taken from the best score on, of equal ones the earlier. Each joins
the cluster whose box it overlaps most, if that IoU is above the threshold, or leads a new one
(`clusters`, with a compiled twin). Three methods are this one loop:

- non-maximum suppression keeps the leaders;
- non-maximum weighted averages a cluster, weighted by score times IoU with the leader (H. Zhou et
  al., ICCV workshops 2017; `averaged_by_leader`);
- weighted boxes fusion averages a cluster, weighted by score, and compares with that running
  average instead of the leader (R. Solovyev, W. Wang, T. Gabruseva, Image and Vision Computing
  2021; `fused_scores` gives its four confidences).

*Decay.* Soft-NMS lowers the scores of overlapping boxes instead of removing them (N. Bodla et al.,
ICCV 2017; `decayed_scores`).

Boxes without area overlap nothing, so they lead clusters of their own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calipers.arrays import F64, I32, I64, Flags
from calipers.kernels import boxes as geometry
from calipers.kernels import ragged, route


def clusters(
    offsets: I64,
    label: I32,
    boxes: F64,
    extent: F64,
    score: F64,
    threshold: float,
    moving: bool,
) -> tuple[I64, F64]:
    """Return (n,) the leader of every box and (n, 2 d) the box of every cluster, at its leader.

    Parameters
    ----------
    threshold
        A box joins a cluster if their IoU is above it.
    moving
        Whether the box of a cluster is the average of its members, weighted by score, at every
        moment; else it is the leader. A cluster whose scores are all 0 stays where its leader is.

    Notes
    -----
    Cells are independent, so all of them take their k-th box in the same round. A cluster lives in
    the row of its leader.
    """
    native = route.native()
    if native is not None:
        return route.clusters(native, offsets, label, boxes, extent, score, threshold, moving)
    n = len(score)
    order, starts, counts = _cells_by_score(offsets, label, score)
    leader, cluster_box, cluster_extent = np.arange(n), boxes.copy(), extent.copy()
    total, weighted = score.copy(), boxes * score[:, None]
    # Leaders of a cell, from its start on, in the order in which their clusters were made.
    leaders, n_leaders = np.empty(n, np.int64), np.zeros(len(starts), np.int64)
    for k in range(int(counts.max(initial=0))):
        cells = np.flatnonzero(counts > k)
        rows = order[starts[cells] + k]
        own = n_leaders[cells]
        candidates = leaders[ragged.spans(starts[cells], own)]
        iou = _iou((cluster_box, cluster_extent), candidates, (boxes, extent), np.repeat(rows, own))
        best, best_iou = _best_of_runs(iou, own)
        joins = best_iou > threshold
        members, heads = rows[joins], candidates[best[joins]]
        leader[members] = heads
        if moving:
            weighted[heads] += boxes[members] * score[members, None]
            total[heads] += score[members]
            heads = heads[total[heads] > 0]
            cluster_box[heads] = weighted[heads] / total[heads, None]
            cluster_extent[heads] = _extent(cluster_box[heads])
        first = cells[~joins]
        leaders[starts[first] + n_leaders[first]] = rows[~joins]
        n_leaders[first] += 1
    return leader, cluster_box


def averaged_by_leader(boxes: F64, extent: F64, score: F64, leader: I64) -> F64:
    """Return (n, 2 d), at every leader the mean of its members, weighted by score times IoU with
    the leader; where all weights are 0, the leader.
    """
    rows = np.arange(len(score))
    weight = score * _iou((boxes, extent), leader, (boxes, extent), rows)
    total = np.bincount(leader, weight, len(score))
    average = boxes.copy()
    has_weight = total > 0
    alone = np.bincount(leader, minlength=len(score)) == 1
    moves = has_weight & ~alone  # a box alone stays as it is, to the last bit
    for k in range(boxes.shape[1]):
        column = np.bincount(leader, weight * boxes[:, k], len(score))
        average[moves, k] = column[moves] / total[moves]
    return average


def fused_scores(
    score: F64, leader: I64, model: I64, weights: F64, confidence: str, overflow: bool
) -> F64:
    """Return (n,), at every leader the confidence of its cluster, of weighted boxes fusion.

    Parameters
    ----------
    score
        (n,) scores times the weight of their model.
    model
        (n,) which of the models a box is from.
    weights
        One weight per model.
    confidence
        ``avg``: the mean score times the number of boxes, of at most one per model, over the sum of
        weights. ``max``: the best score over the largest weight. ``box_and_model_avg``: the
        weighted mean score times the share of weight of the models that are present.
        ``absent_model_aware_avg``: the weighted mean score, in which absent models count as 0.
    overflow
        For ``avg``: count every box of a cluster, and let scores be above 1.
    """
    n, n_models = len(score), len(weights)
    whole = _sum(weights)
    if confidence == "max":
        best = np.zeros(n)
        np.maximum.at(best, leader, score)
        return best / weights.max()
    total = np.bincount(leader, score, n)
    count = np.bincount(leader, minlength=n)
    if confidence == "avg":
        if overflow:
            return total / whole
        mean = total / np.maximum(count, 1)
        # Several boxes of a heavy model in one cluster would lift the mean above 1.
        return np.minimum(mean * np.minimum(count, n_models) / whole, 1.0)
    box_weight = np.bincount(leader, weights[model], n)
    present = np.zeros((n, n_models), np.bool_)
    present[leader, model] = True
    present_weight, absent_weight = np.zeros(n), np.zeros(n)
    for k in range(n_models):
        present_weight += np.where(present[:, k], weights[k], 0.0)
        absent_weight += np.where(present[:, k], 0.0, weights[k])
    if confidence == "box_and_model_avg":
        return _ratio(total, box_weight) * present_weight / whole
    return _ratio(total, box_weight + absent_weight)


def decayed_scores(
    offsets: I64,
    label: I32,
    boxes: F64,
    extent: F64,
    score: F64,
    decay: Callable[[F64], F64],
) -> F64:
    """Return (n,) the scores that soft-NMS gives; ``decay`` turns an IoU into a factor.

    The best box of a cell keeps its score and lowers those of the others; then the best of the
    others does the same, until none is left. Of equal scores the earlier is better.
    """
    lowered, is_open = score.copy(), np.ones(len(score), np.bool_)
    order, starts, counts = _cells_by_score(offsets, label, score)
    for k in range(int(counts.max(initial=0))):
        cells = np.flatnonzero(counts > k)
        rows = order[ragged.spans(starts[cells], counts[cells])]
        # A box that had its turn is out of the running; scores are never negative.
        place, _ = _best_of_runs(np.where(is_open[rows], lowered[rows], -1.0), counts[cells])
        best = rows[place]
        is_open[best] = False
        heads = np.repeat(best, counts[cells])
        others = is_open[rows]
        rows, heads = rows[others], heads[others]
        lowered[rows] *= decay(_iou((boxes, extent), heads, (boxes, extent), rows))
    return lowered


def best_rows(offsets: I64, score: F64, most: int) -> Flags:
    """Return (n,) which boxes are among the ``most`` best of their image, equal ones in input
    order.
    """
    image = ragged.owners(offsets)
    order = np.lexsort((-score, image))
    keep = np.zeros(len(score), np.bool_)
    keep[order] = ragged.positions(np.diff(offsets)) < most
    return keep


def resized(boxes: F64, factor: F64) -> F64:
    """Return the boxes with sides times ``factor`` (n,), about their centres."""
    low, high = np.split(boxes, 2, axis=1)
    centre, half = (low + high) / 2.0, (high - low) / 2.0 * factor[:, None]
    return np.where(
        factor[:, None] == 1.0, boxes, np.concatenate([centre - half, centre + half], 1)
    )


def _cells_by_score(offsets: I64, label: I32, score: F64) -> tuple[I64, I64, I64]:
    """Return the boxes sorted by cell, then from the best score on, and starts and counts of the
    cells that have boxes.
    """
    image = ragged.owners(offsets)
    # lexsort is stable: equal scores stay in input order.
    order = np.lexsort((-score, label, image))
    image, label = image[order], label[order]
    is_start = np.ones(len(order), np.bool_)
    is_start[1:] = (image[1:] != image[:-1]) | (label[1:] != label[:-1])
    starts = np.flatnonzero(is_start)
    return order, starts, np.diff(np.append(starts, len(order)))


def _best_of_runs(values: F64, counts: I64) -> tuple[I64, F64]:
    """Return where the largest value of each run is, the first of equal ones, and that value; of an
    empty run place 0 and -1.
    """
    best, largest = np.zeros(len(counts), np.int64), np.full(len(counts), -1.0)
    runs = np.flatnonzero(counts)
    if not len(runs):
        return best, largest
    starts = (np.cumsum(counts) - counts)[runs]
    largest[runs] = np.maximum.reduceat(values, starts)
    owner = np.repeat(np.arange(len(counts)), counts)
    places = np.flatnonzero(values == largest[owner])
    # Written from the last to the first, so that the first of equal ones stays.
    best[owner[places[::-1]]] = places[::-1]
    return best, largest


def _iou(a: tuple[F64, F64], rows_a: I64, b: tuple[F64, F64], rows_b: I64) -> F64:
    """Return the IoU of pairs of boxes; of boxes that do not meet it is 0, also without area."""
    common = geometry.intersection(geometry.gather(a[0], rows_a), geometry.gather(b[0], rows_b))
    union = a[1][rows_a] + b[1][rows_b] - common
    return np.divide(common, union, out=np.zeros(len(common)), where=common > 0)


def _extent(boxes: F64) -> F64:
    """Return (n,) the area (volume) of boxes (n, 2 d)."""
    sides = geometry.sides(boxes.T)
    extent: F64 = sides[0].copy()
    for side in sides[1:]:
        extent *= side
    return extent


def _ratio(numerator: F64, denominator: F64) -> F64:
    return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0)


def _sum(weights: F64) -> float:
    """Return the sum from the first weight to the last, whose bits do not depend on NumPy."""
    return float(np.cumsum(weights)[-1])
