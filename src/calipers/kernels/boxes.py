# SPDX-License-Identifier: Apache-2.0
"""Axis-aligned boxes: geometry of pairs, candidate pairs of a cell, and fusion.

*Geometry.* Functions of two tables compare row k of the first with row k of the second. Boxes come
as columns, ``(2 d, n)`` with all low corners first (``x0 y0 [z0] x1 y1 [z1]``), because a gather of
contiguous columns is several times faster than one of rows; `gather` makes them. Results are
``(n,)`` float64.

*Candidate pairs.* `all_pairs`, `rivals` and `overlapping` list the pairs of one cell: an image, or
an image and class. `calipers.matching` and `kernels.rodeo` are the callers; `overlapping` has a
compiled twin. `swept` lists those that meet without looking at all of them, for images with
thousands of objects.

*Fusion.* Boxes of a cell are taken from the best score on, of equal ones the earlier. Each joins
the cluster whose box it overlaps most, if that IoU is above the threshold, or leads a new one. The
boxes come as one `BoxPool` per model, and what is left goes out as one pool, the boxes of every
image from the best on. Three methods are this
one loop (`clusters`):

- non-maximum suppression keeps the leaders (`suppressed`);
- non-maximum weighted averages a cluster, weighted by score times IoU with the leader (H. Zhou et
  al., ICCV workshops 2017; `merged_about_best`);
- weighted boxes fusion averages a cluster, weighted by score, and compares with that running
  average instead of the leader (R. Solovyev, W. Wang, T. Gabruseva, Image and Vision Computing
  2021; `fused`, whose four confidences are those of `fused_scores`).

Their compiled twin does an image from its boxes to its result, so that the boxes of all models are
never in one table. Soft-NMS lowers the scores of overlapping boxes instead of removing them
(N. Bodla et al., ICCV 2017; `decayed_scores`, with a twin). Boxes without area overlap nothing, so
they lead clusters of their own. `calipers.fusion` and `calipers.matching.suppress` are the callers.

Generalised IoU: H. Rezatofighi et al., CVPR 2019. Distance and complete IoU: Z. Zheng et al.,
AAAI 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import factorial

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I32, I64, Array, Flags, joined
from calipers.kernels import ragged, route

PAIRS_AT_ONCE = 1 << 20
DENSE_CELLS = 20_000_000  # above this many cells a search is cheaper than a table
TERMS = tuple(1.0 / factorial(k) for k in range(14))  # of the series of e to the power of x


def sides(boxes: F64) -> F64:
    """Return the (d, n) sides."""
    half = len(boxes) // 2
    return boxes[half:] - boxes[:half]


def centres(boxes: F64) -> F64:
    """Return the (d, n) centres."""
    half = len(boxes) // 2
    return (boxes[:half] + boxes[half:]) / 2.0


def intersection(a: F64, b: F64) -> F64:
    """Return the common area (volume); every factor is clamped at 0, so two gaps never make an
    overlap.
    """
    half = len(a) // 2
    common: F64 = np.maximum(np.minimum(a[half], b[half]) - np.maximum(a[0], b[0]), 0.0)
    for k in range(1, half):
        common *= np.maximum(np.minimum(a[half + k], b[half + k]) - np.maximum(a[k], b[k]), 0.0)
    return common


def iou(a: F64, b: F64, extent_a: F64, extent_b: F64) -> F64:
    """Return intersection over union."""
    common = intersection(a, b)
    return np.asarray(common / (extent_a + extent_b - common))


def giou(a: F64, b: F64, extent_a: F64, extent_b: F64) -> F64:
    """Return the generalised IoU: IoU - (enclosing - union) / enclosing."""
    common = intersection(a, b)
    union = extent_a + extent_b - common
    enclosing = np.prod(_enclosing_sides(a, b), axis=0)
    return np.asarray(common / union - (enclosing - union) / enclosing)


def centred_iou(a: F64, b: F64) -> F64:
    """Return the IoU when both centres are put on one place: it compares shapes only."""
    side_a, side_b = sides(a), sides(b)
    common = np.prod(np.minimum(side_a, side_b), axis=0)
    return np.asarray(common / (np.prod(side_a, axis=0) + np.prod(side_b, axis=0) - common))


def complete_iou(a: F64, b: F64, extent_a: F64, extent_b: F64) -> F64:
    """Return the complete IoU: IoU - centre distance^2 / enclosing diagonal^2 - weighted aspect
    term.

    The aspect term compares ``atan(w / h)``; it has no form in 3D, where this is the distance IoU.
    """
    plain = iou(a, b, extent_a, extent_b)
    distance = np.sum((centres(a) - centres(b)) ** 2, axis=0) / np.sum(
        _enclosing_sides(a, b) ** 2, axis=0
    )
    if len(a) != 4:
        return np.asarray(plain - distance)
    side_a, side_b = sides(a), sides(b)
    aspect = 4.0 / np.pi**2 * (_angle(side_a) - _angle(side_b)) ** 2
    denominator = 1.0 - plain + aspect
    # Equal boxes have IoU 1 and aspect term 0: 0/0, and nothing to take off.
    weight = np.divide(aspect, denominator, out=np.zeros_like(aspect), where=denominator > 0)
    return np.asarray(plain - distance - weight * aspect)


def _angle(side: F64) -> F64:
    """Return (P,) the angle of the diagonal of boxes; of boxes that are a point, 0."""
    # Predictions may be without area; the angle of a line is that of a box ever thinner.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = side[0] / side[1]
    return np.arctan(np.where(np.isnan(ratio), 0.0, ratio))


def distance(a: F64, b: F64, unit: F64 | float = 1.0) -> F64:
    """Return the distance of points (d, n) after every axis was multiplied by ``unit`` ((d, n) or a
    number).
    """
    return np.asarray(np.sqrt(np.sum(((a - b) * unit) ** 2, axis=0)))


def contains(boxes: F64, points: F64) -> NDArray[np.bool_]:
    """Return whether the points (d, n) lie in the boxes; the border belongs to them."""
    half = len(boxes) // 2
    return np.asarray(((boxes[:half] <= points) & (points <= boxes[half:])).all(axis=0))


def hausdorff_similarity(a: F64, b: F64, size: F64) -> F64:
    """Return 1 - the Hausdorff distance of the boxes put on one centre, in fractions of the image
    ``size`` (d, n).
    """
    excess = (sides(a) - sides(b)) / size / 2.0
    forth = np.sqrt(np.sum(np.maximum(excess, 0.0) ** 2, axis=0))
    back = np.sqrt(np.sum(np.maximum(-excess, 0.0) ** 2, axis=0))
    return np.asarray(1.0 - np.maximum(forth, back))


def _enclosing_sides(a: F64, b: F64) -> F64:
    half = len(a) // 2
    return np.maximum(a[half:], b[half:]) - np.minimum(a[:half], b[:half])


def cells(offsets: I64, label: I32, n_classes: int) -> I64:
    """Return the cell of every object; with ``n_classes`` 0 the classes do not matter and cells are
    images.
    """
    image = ragged.owners(offsets)
    return image * n_classes + label if n_classes else image


def overlapping(
    reference: tuple[I64, I32, F64, F64],
    prediction: tuple[I64, I32, F64, F64],
    crowd: Flags,
    n_classes: int,
) -> tuple[I32, I32, F64]:
    """Return (reference, prediction, IoU) of the pairs that overlap, sorted by prediction, then
    reference.

    Each side is (offsets, label, boxes (n, 2 d), extent). The similarity to a crowd is the share of
    the prediction that it covers, as in COCO.
    """
    native = route.native()
    if native is not None:
        return route.overlapping(native, reference, prediction, crowd, n_classes)
    row, column = all_pairs(reference[0], reference[1], prediction[0], prediction[1], n_classes)
    a, b = gather(reference[2], row), gather(prediction[2], column)
    common = intersection(a, b)
    # Most pairs of an image do not meet; dropping them here saves the divisions.
    near = np.flatnonzero(common > 0)
    row, column, common = row[near], column[near], common[near]
    own, other = prediction[3][column], reference[3][row]
    similarity = common / np.where(crowd[row], own, other + own - common)
    return row.astype(np.int32), column.astype(np.int32), similarity


def all_pairs(
    reference_offsets: I64,
    reference_label: I32,
    prediction_offsets: I64,
    prediction_label: I32,
    n_classes: int,
) -> tuple[I64, I64]:
    """Return (reference, prediction) of every pair of one cell, sorted by prediction, then
    reference.
    """
    order, starts, counts = _partners(
        reference_offsets, reference_label, prediction_offsets, prediction_label, n_classes
    )
    return order[ragged.spans(starts, counts)], np.repeat(np.arange(len(prediction_label)), counts)


def pair_blocks(
    reference_offsets: I64,
    reference_label: I32,
    prediction_offsets: I64,
    prediction_label: I32,
    n_classes: int,
) -> Iterator[tuple[I64, I64]]:
    """Yield `all_pairs` in blocks of about a million, at least one of them: an image of thousands
    of objects has too many to look at together.
    """
    order, starts, counts = _partners(
        reference_offsets, reference_label, prediction_offsets, prediction_label, n_classes
    )
    for first, last in ragged.batches(counts, PAIRS_AT_ONCE) or [(0, 0)]:
        own = counts[first:last]
        rows = order[ragged.spans(starts[first:last], own)]
        yield rows, np.repeat(np.arange(first, last), own)


@dataclass(frozen=True)
class AxisSweep:
    """For every prediction the references whose intervals on one axis may meet its own.

    References are shared out to groups of similar length. In each they stand by cell and lower end,
    so those that can meet an interval are neighbours.
    """

    reference: F64  # (n, 2 d) boxes
    prediction: F64
    groups: list[tuple[I64, I64, I64]]  # references in order; first one and number per prediction

    @property
    def counts(self) -> I64:
        """(m,) references that have to be compared with each prediction."""
        total = np.zeros(len(self.prediction), np.int64)
        for _, _, counts in self.groups:
            total += counts
        return total

    def blocks(self) -> Iterator[tuple[I64, I64]]:
        """Yield (reference, prediction) of the pairs that meet, sorted by prediction, then
        reference, in blocks of about a million that were compared; at least one block.
        """
        half = self.reference.shape[1] // 2
        for first, last in ragged.batches(self.counts, PAIRS_AT_ONCE) or [(0, 0)]:
            parts = []
            for order, starts, counts in self.groups:
                own = counts[first:last]
                rows = order[ragged.spans(starts[first:last], own)]
                columns = np.repeat(np.arange(first, last), own)
                for k in range(half):
                    near = np.flatnonzero(
                        (self.reference[rows, k] <= self.prediction[columns, half + k])
                        & (self.reference[rows, half + k] >= self.prediction[columns, k])
                    )
                    rows, columns = rows[near], columns[near]
                parts.append((rows, columns))
            rows, columns = (np.concatenate(column) for column in zip(*parts))
            order = np.lexsort((rows, columns))
            yield rows[order], columns[order]


def swept(
    reference: tuple[I64, I32, F64], prediction: tuple[I64, I32, F64], n_classes: int
) -> AxisSweep:
    """Return which boxes of a cell may meet, by the axis that leaves fewest pairs to compare.

    Each side is (offsets, label, boxes (n, 2 d)). Boxes that touch meet. The time grows with the
    pairs whose intervals meet on that axis, not with all pairs.
    """
    cell = cells(*reference[:2], n_classes)
    own_cell = cells(*prediction[:2], n_classes)
    half = reference[2].shape[1] // 2
    sweeps = []
    for k in range(half):
        low, high = reference[2][:, k], reference[2][:, half + k]
        own_low, own_high = prediction[2][:, k], prediction[2][:, half + k]
        groups = []
        for rows, longest in _of_similar_length(high - low):
            # Rounding must not lose a pair that only touches.
            slack = 1e-12 * (np.abs(own_low) + longest)
            spans = _spans_between(
                (cell[rows], low[rows]), own_cell, own_low - longest - slack, own_high
            )
            groups.append((rows[spans[0]], *spans[1:]))
        sweeps.append(AxisSweep(reference[2], prediction[2], groups))
    return min(sweeps, key=lambda sweep: int(sweep.counts.sum()))


def _of_similar_length(length: F64) -> list[tuple[I64, float]]:
    """Return the rows of every group of lengths, and its longest: powers of two, all short ones
    together.
    """
    # A single long interval would otherwise be a reason to look at all short ones too.
    power = np.frexp(np.minimum(length, np.finfo(np.float64).max))[1]
    power = np.maximum(power, power.max(initial=0) - 16)
    groups = []
    for value in np.unique(power).tolist():
        rows = np.flatnonzero(power == value)
        groups.append((rows, float(length[rows].max())))
    return groups or [(np.zeros(0, np.int64), 0.0)]


def _spans_between(
    entries: tuple[I64, F64], cell: I64, low: F64, high: F64
) -> tuple[I64, I64, I64]:
    """Return an order of entries (cell, value), and where in it those of a cell between low and
    high begin and how many they are.
    """
    values = np.unique(entries[1])
    # One whole number stands for cell and value, so that one search finds both.
    n = len(values) + 1
    key = entries[0] * n + np.searchsorted(values, entries[1])
    order = np.argsort(key, kind="stable")
    starts = np.searchsorted(key[order], cell * n + np.searchsorted(values, low))
    ends = np.searchsorted(key[order], cell * n + np.searchsorted(values, high, side="right"))
    return order, starts, np.maximum(ends - starts, 0)


def rivals(offsets: I64, label: I32, n_classes: int, most: int) -> tuple[I64, I64] | None:
    """Return (other, mine) of all ordered pairs of a cell, each with itself too; None if more than
    ``most``.
    """
    order, starts, counts = _partners(offsets, label, offsets, label, n_classes)
    if counts.sum() > most:
        return None
    return order[ragged.spans(starts, counts)], np.repeat(np.arange(len(label)), counts)


def _partners(
    reference_offsets: I64,
    reference_label: I32,
    prediction_offsets: I64,
    prediction_label: I32,
    n_classes: int,
) -> tuple[I64, I64, I64]:
    """Return references sorted by cell and, for every prediction, where those of its cell begin and
    how many.
    """
    reference_cell = cells(reference_offsets, reference_label, n_classes)
    prediction_cell = cells(prediction_offsets, prediction_label, n_classes)
    # Stable, so that references of a cell stay in input order: ties depend on it.
    order = np.argsort(reference_cell, kind="stable")
    n_cells = (len(reference_offsets) - 1) * max(n_classes, 1)
    if n_cells > DENSE_CELLS:
        return order, *ragged.matching_spans(reference_cell[order], prediction_cell)
    counts = np.bincount(reference_cell, minlength=n_cells)
    return order, (np.cumsum(counts) - counts)[prediction_cell], counts[prediction_cell]


def gather(boxes: F64, rows: I64) -> F64:
    """Return the corners of some rows as contiguous columns, (2 d, n)."""
    return np.stack([column[rows] for column in np.ascontiguousarray(boxes.T)])


@dataclass(frozen=True)
class BoxPool:
    """The boxes of a model, or what fusion left of those of several, image by image."""

    offsets: I64  # (n_images + 1,)
    label: I32  # (n,)
    boxes: F64  # (n, 2 d) corners
    extent: F64  # (n,) area (volume)
    score: F64  # (n,)
    # (n,) row in the table that the box came from; of a fused box, that of its leader; None: they
    # are counted from `first_row` on
    row: I64 | None = None
    first_row: int = 0

    def __len__(self) -> int:
        return len(self.score)

    @property
    def rows(self) -> I64:
        """(n,) row in the table that a box came from."""
        if self.row is not None:
            return self.row
        return np.arange(self.first_row, self.first_row + len(self))

    def keep(self, selection: Flags) -> BoxPool:
        """Return the boxes for which ``selection`` is true; the images stay."""
        if selection.all():
            return self
        rows = np.flatnonzero(selection)
        # Rows ascend, so the first of every image is found among them.
        return self.take(rows, np.searchsorted(rows, self.offsets))

    def take(self, rows: I64, offsets: I64) -> BoxPool:
        """Return these rows, which belong to images as ``offsets`` say."""
        return BoxPool(
            offsets=offsets,
            label=self.label[rows],
            boxes=np.take(self.boxes, rows, axis=0),  # faster than an index, which looks at axes
            extent=self.extent[rows],
            score=self.score[rows],
            row=rows + self.first_row if self.row is None else self.row[rows],
        )

    def with_boxes(self, boxes: F64) -> BoxPool:
        """Return the pool with other boxes; a box that did not move keeps its extent."""
        same = (boxes == self.boxes).all(axis=1)
        return replace(self, boxes=boxes, extent=np.where(same, self.extent, _extent_of(boxes)))


def together(pools: Sequence[BoxPool]) -> tuple[BoxPool, I64]:
    """Return the boxes of all models, image by image, models in their order; and (n,) the model of
    every box.
    """
    if len(pools) == 1:
        return pools[0], np.zeros(len(pools[0]), np.int64)
    n_images, n_pools = len(pools[0].offsets) - 1, len(pools)
    counts = np.stack([np.diff(pool.offsets) for pool in pools], axis=1)  # (n_images, n_pools)
    # Where the boxes of an image begin in each model, and the models one below the other.
    base = ragged.from_counts(np.array([len(pool) for pool in pools]))
    starts = np.stack([pool.offsets[:-1] for pool in pools], axis=1) + base[:-1]
    order = ragged.spans(starts.ravel(), counts.ravel())

    def column(name: str) -> Array:
        return np.take(joined(pools, name), order, axis=0)

    pool = BoxPool(
        offsets=ragged.from_counts(counts.sum(axis=1)),
        label=column("label"),
        boxes=column("boxes"),
        extent=column("extent"),
        score=column("score"),
        row=column("rows"),
    )
    return pool, np.repeat(np.tile(np.arange(n_pools), n_images), counts.ravel())


def suppressed(pools: Sequence[BoxPool], factors: F64, threshold: float) -> BoxPool:
    """Return the boxes that non-maximum suppression leaves.

    Parameters
    ----------
    pools
        The boxes of every model, on the same images.
    factors
        By which the scores of each model are multiplied.
    """
    native = route.native()
    if native is not None:
        return _of_rows(pools, route.fused_boxes(native, pools, factors, "suppress", threshold))
    pool, _ = _multiplied(pools, factors, -np.inf)
    leader, _, _ = clusters(pool, threshold, moving=False)
    return best_first(pool.keep(leader == np.arange(len(pool))))


def merged_about_best(
    pools: Sequence[BoxPool], factors: F64, threshold: float, skip_threshold: float
) -> BoxPool:
    """Return the boxes of non-maximum weighted; those with a score below ``skip_threshold``, before
    it is multiplied, are left out.
    """
    native = route.native()
    if native is not None:
        columns = route.fused_boxes(
            native, pools, factors, "merge-about-best", threshold, skip_threshold
        )
        return _of_rows(pools, columns)
    pool, _ = _multiplied(pools, factors, skip_threshold)
    leader, _, order = clusters(pool, threshold, moving=False)
    boxes = averaged_by_leader(pool, leader, order)
    is_leader = leader == np.arange(len(pool))
    return best_first(pool.keep(is_leader).with_boxes(boxes[is_leader]))


def fused(
    pools: Sequence[BoxPool],
    weights: F64,
    threshold: float,
    skip_threshold: float,
    confidence: str,
    overflow: bool = False,
) -> BoxPool:
    """Return the boxes of weighted boxes fusion; those with a score below ``skip_threshold``,
    before it is multiplied by the weight of its model, are left out.
    """
    native = route.native()
    if native is not None:
        columns = route.fused_boxes(
            native, pools, weights, "fuse", threshold, skip_threshold, confidence, overflow
        )
        return _of_rows(pools, columns)
    pool, model = _multiplied(pools, weights, skip_threshold)
    leader, boxes, order = clusters(pool, threshold, moving=True)
    score = fused_scores(pool.score, leader, order, model, weights, confidence, overflow)
    is_leader = leader == np.arange(len(pool))
    return best_first(replace(pool.keep(is_leader), score=score).with_boxes(boxes[is_leader]))


def _of_rows(pools: Sequence[BoxPool], columns: tuple[I64, I32, F64, F64, F64, I64]) -> BoxPool:
    """Return the pool of columns, the last of which counts through all pools."""
    left = BoxPool(*columns)
    assert left.row is not None
    if len(pools) == 1 and pools[0].row is None:
        return replace(left, row=left.row + pools[0].first_row)
    if all(pool.row is None for pool in pools) and pools[0].first_row == 0:
        return left  # the pools are the tables
    return replace(left, row=joined(pools, "rows")[left.row])


def _multiplied(
    pools: Sequence[BoxPool], factors: F64, skip_threshold: float
) -> tuple[BoxPool, I64]:
    """Return the boxes from ``skip_threshold`` on, their scores multiplied, and their models."""
    pool, model = together(pools)
    enough = pool.score >= skip_threshold
    pool, model = pool.keep(enough), model[enough]
    return replace(pool, score=pool.score * factors[model]), model


def clusters(pool: BoxPool, threshold: float, moving: bool) -> tuple[I64, F64, I64]:
    """Return (n,) the leader of every box, (n, 2 d) the box of every cluster, at its leader, and
    (n,) the order in which the boxes of a cell were taken.

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
    boxes, extent, score = pool.boxes, pool.extent, pool.score
    n = len(pool)
    order, starts, counts = _cells_by_score(pool.offsets, pool.label, score)
    leader, cluster_box, cluster_extent = np.arange(n), boxes.copy(), extent.copy()
    total, weighted = score.copy(), boxes * score[:, None]
    # Leaders of a cell, from its start on, in the order in which their clusters were made.
    leaders, n_leaders = np.empty(n, np.int64), np.zeros(len(starts), np.int64)
    for k in range(int(counts.max(initial=0))):
        cells = np.flatnonzero(counts > k)
        rows = order[starts[cells] + k]
        own = n_leaders[cells]
        candidates = leaders[ragged.spans(starts[cells], own)]
        iou = _iou_of_rows(
            (cluster_box, cluster_extent), candidates, (boxes, extent), np.repeat(rows, own)
        )
        best, best_iou = _best_of_runs(iou, own)
        joins = best_iou > threshold
        members, heads = rows[joins], candidates[best[joins]]
        leader[members] = heads
        if moving:
            weighted[heads] += boxes[members] * score[members, None]
            total[heads] += score[members]
            heads = heads[total[heads] > 0]
            cluster_box[heads] = weighted[heads] / total[heads, None]
            cluster_extent[heads] = _extent_of(cluster_box[heads])
        first = cells[~joins]
        leaders[starts[first] + n_leaders[first]] = rows[~joins]
        n_leaders[first] += 1
    return leader, cluster_box, order


def averaged_by_leader(pool: BoxPool, leader: I64, order: I64) -> F64:
    """Return (n, 2 d), at every leader the mean of its members, weighted by score times IoU with
    the leader; where all weights are 0, the leader. Sums go through the boxes in ``order``.
    """
    n, head = len(pool), leader[order]
    boxes, table = pool.boxes[order], (pool.boxes, pool.extent)
    weight = pool.score[order] * _iou_of_rows(table, head, table, order)
    total = np.bincount(head, weight, n)
    average = pool.boxes.copy()
    has_weight = total > 0
    alone = np.bincount(head, minlength=n) == 1
    moves = has_weight & ~alone  # a box alone stays as it is, to the last bit
    for k in range(boxes.shape[1]):
        column = np.bincount(head, weight * boxes[:, k], n)
        average[moves, k] = column[moves] / total[moves]
    return average


def fused_scores(
    score: F64,
    leader: I64,
    order: I64,
    model: I64,
    weights: F64,
    confidence: str,
    overflow: bool,
) -> F64:
    """Return (m,) the confidences of the clusters of weighted boxes fusion, in the order of their
    leaders.

    Parameters
    ----------
    score
        (n,) scores times the weight of their model.
    order
        (n,) the boxes in the order in which they are summed.
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
    is_leader = leader == np.arange(len(score))
    number = np.cumsum(is_leader) - 1
    cluster, score, model = number[leader[order]], score[order], model[order]
    n, n_models = int(is_leader.sum()), len(weights)
    whole = _plain_sum(weights)
    if confidence == "max":
        best = np.zeros(n)
        np.maximum.at(best, cluster, score)
        return np.asarray(best / weights.max())
    total = np.asarray(np.bincount(cluster, score, n), np.float64)
    count = np.bincount(cluster, minlength=n)
    if confidence == "avg":
        if overflow:
            return total / whole
        mean = total / count
        # Several boxes of a heavy model in one cluster would lift the mean above 1.
        return np.minimum(mean * np.minimum(count, n_models) / whole, 1.0)
    box_weight = np.asarray(np.bincount(cluster, weights[model], n), np.float64)
    present = np.zeros((n, n_models), np.bool_)
    present[cluster, model] = True
    present_weight, absent_weight = np.zeros(n), np.zeros(n)
    for k in range(n_models):
        present_weight += np.where(present[:, k], weights[k], 0.0)
        absent_weight += np.where(present[:, k], 0.0, weights[k])
    if confidence == "box_and_model_avg":
        return _ratio_or_0(total, box_weight) * present_weight / whole
    return _ratio_or_0(total, box_weight + absent_weight)


def decayed_scores(pool: BoxPool, threshold: float, sigma: float | None) -> F64:
    """Return (n,) the scores that soft-NMS gives.

    The best box of a cell keeps its score and lowers those of the others; then the best of the
    others does the same, until none is left. Of equal scores the one is better that was better
    before, or else the earlier.

    Parameters
    ----------
    threshold
        With ``sigma`` None: times 1 - IoU where the IoU is above it.
    sigma
        Times exp(-IoU^2 / sigma).
    """
    native = route.native()
    if native is not None:
        return route.decayed_scores(native, pool, threshold, sigma)
    lowered, is_open = pool.score.copy(), np.ones(len(pool), np.bool_)
    order, starts, counts = _cells_by_score(pool.offsets, pool.label, pool.score)
    table = (pool.boxes, pool.extent)
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
        iou = _iou_of_rows(table, heads, table, rows)
        if sigma is None:
            lowered[rows] *= np.where(iou > threshold, 1.0 - iou, 1.0)
        else:
            lowered[rows] *= falling_exp(-(iou * iou) / sigma)
    return lowered


def falling_exp(x: F64) -> F64:
    """Return e to the power of numbers up to 0, with the bits of the compiled twin: libraries
    differ in the last one.
    """
    x = np.maximum(x, -750.0)  # where it is 0 already
    power = np.rint(x * 1.4426950408889634)
    # ln 2 in two parts, of which the first times a whole number is exact.
    rest = (x - power * 0.693147180369123816490) - power * 1.90821492927058770002e-10
    total = np.full(len(x), TERMS[-1])
    for term in TERMS[-2::-1]:
        total = total * rest + term
    return np.asarray(np.ldexp(total, power.astype(np.int64)))


def best_first(pool: BoxPool) -> BoxPool:
    """Return the boxes of every image from the best score on, equal ones in their order."""
    rises = np.zeros(len(pool) + 1, np.bool_)
    np.greater(pool.score[1:], pool.score[:-1], out=rises[1:-1])
    rises[pool.offsets] = False  # another image begins there
    if not rises.any():
        return pool  # as the compiled kernels leave them
    return pool.take(np.lexsort((-pool.score, ragged.owners(pool.offsets))), pool.offsets)


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


def _iou_of_rows(a: tuple[F64, F64], rows_a: I64, b: tuple[F64, F64], rows_b: I64) -> F64:
    """Return the IoU of pairs of boxes; of boxes that do not meet it is 0, also without area."""
    common = intersection(gather(a[0], rows_a), gather(b[0], rows_b))
    union = a[1][rows_a] + b[1][rows_b] - common
    return np.divide(common, union, out=np.zeros(len(common)), where=common > 0)


def _extent_of(boxes: F64) -> F64:
    """Return (n,) the area (volume) of boxes (n, 2 d)."""
    lengths = sides(boxes.T)
    extent: F64 = lengths[0].copy()
    for length in lengths[1:]:
        extent *= length
    return extent


def _ratio_or_0(numerator: F64, denominator: F64) -> F64:
    return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0)


def _plain_sum(weights: F64) -> float:
    """Return the sum from the first weight to the last, whose bits do not depend on NumPy."""
    return float(np.cumsum(weights)[-1])
