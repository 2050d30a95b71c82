# SPDX-License-Identifier: Apache-2.0
"""Figures of voxel maps from every score: AUROC, AP, Dice and IoU, AUPRO, soft instance IoU.

In come scores and flags or component numbers of voxels, in groups (volumes or slices); out come
figures per group, region or object, NaN where undefined. `calipers.metrics.maps` and
`calipers.maps.examine` are the callers. For voxels counted in bins see `kernels.voxels`.

*Ranking and overlap* (`sides`, `ranking_figures`, `at_threshold`, `at_false_positive_rate`,
`curve`) are exact: every score counts, equal scores are one point. The two kinds of voxels are
sorted apart and by value only, which is many times faster than sorting places. Precision and
overlap are best, and recall moves, at scores of positive voxels; so a curve is walked along these,
and the negatives are only counted beside them.

*AUPRO*, the area under the per-region overlap, says how much of each reference component is found
per false positive rate: `aupro` and `per_region` from scores, `area_to_limit` from voxels that are
counted by score. P. Bergmann, K. Batzner, M. Fauser, D. Sattlegger, C. Steger: The MVTec Anomaly
Detection Dataset, International Journal of Computer Vision 129, 2021.

*Soft instance IoU* (`sums`, `per_object`, `per_sample`) is the overlap of a map of scores with one
reference object at a time, without a threshold. Every object is judged on its own voxels and the
background; the voxels of other objects are left out. So all that is needed are sums: of the scores
in every object, and of the scores over the background.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64
from calipers.kernels import ragged, route
from calipers.kernels.voxels import as_flags, as_scores

Scores = NDArray[np.floating[Any]]

BLOCK_BITS = 12  # a partial sum for so many positives: precise, and alike on both routes
PIECE = 1 << 20  # positives whose operating points are held at once; a multiple of a block

# Of a curve for a plot: finer than it can show.
POINTS = 512

Arrays = NDArray[Any] | Sequence[NDArray[Any]]

Variant = Literal["tversky", "jaccard", "printed"]

EPSILON = 1e-5


class Sides(NamedTuple):
    """Scores of the positive and of the negative voxels of G groups, ascending inside of every
    group.
    """

    positives: Scores  # (P,)
    negatives: Scores  # (N,)
    positive_offsets: I64  # (G + 1,)
    negative_offsets: I64  # (G + 1,)

    @property
    def n_positives(self) -> I64:
        """(G,) positive voxels."""
        return np.diff(self.positive_offsets)

    @property
    def n_negatives(self) -> I64:
        """(G,) negative voxels."""
        return np.diff(self.negative_offsets)

    def group(self, g: int) -> tuple[Scores, Scores]:
        """Return the two sides of one group."""
        here, there = self.positive_offsets, self.negative_offsets
        return self.positives[here[g] : here[g + 1]], self.negatives[there[g] : there[g + 1]]


class Walk(NamedTuple):
    """What the operating points of every group sum up to; (G,) each."""

    doubled: I64  # twice the number of pairs in the right order, ties counting half
    hits: I64  # positives at or above the best threshold
    alarms: I64  # negatives at or above it
    precision: F64  # sum over positives of the precision at their score
    threshold: F64  # of the best overlap; NaN without positives


class RankingFigures(NamedTuple):
    """The figures of G groups; NaN where undefined."""

    auroc: F64
    ap: F64
    dice: F64  # the best over all thresholds
    iou: F64  # at the same threshold, where it is the best as well
    threshold: F64


def sides(values: NDArray[Any], positive: NDArray[Any], offsets: I64 | None = None) -> Sides:
    """Sort the scores of positive and negative voxels apart.

    Parameters
    ----------
    values
        Scores, of any shape; group by group if there are groups.
    positive
        Flags of the same shape.
    offsets
        (G + 1,) where the groups begin in the flat arrays; None for one group of all.

    Notes
    -----
    Needs the memory of the scores once more, and nothing else: the sort is in place.
    """
    flat, flags, native = as_scores(values), as_flags(positive), route.native()
    bounds = np.array([0, flat.size]) if offsets is None else offsets
    counts = np.array([np.count_nonzero(flags[a:b]) for a, b in pairwise(bounds)], np.int64)
    positive_offsets = ragged.from_counts(counts)
    negative_offsets = ragged.from_counts(np.diff(bounds) - counts)
    if native is not None:
        parts = route.split(native, flat, flags, int(positive_offsets[-1]))
    else:
        parts = flat[flags], flat[~flags]
    for side, places in zip(parts, (positive_offsets, negative_offsets)):
        for a, b in pairwise(places):
            side[a:b].sort()
    return Sides(*parts, positive_offsets, negative_offsets)


def slices(values: NDArray[Any], positive: NDArray[Any], axis: int) -> Sides:
    """Sort the scores of every slice of an array along an axis: one group per slice, in their
    order.
    """
    moved, flags = np.moveaxis(values, axis, 0), np.moveaxis(positive, axis, 0)
    return sides(moved, flags, np.arange(len(moved) + 1) * (moved.size // max(1, len(moved))))


def exact(positives: NDArray[Any], negatives: NDArray[Any]) -> tuple[float, float]:
    """Return AUROC and average precision from the scores of positive and of negative voxels.

    Notes
    -----
    AUROC is the share of pairs of a positive and a negative voxel in which the positive has the
    higher score, ties counting half; undefined (NaN) without positives or without negatives. The
    average precision is the mean over positive voxels of the precision at their score, ``TP / (TP +
    FP)`` of all voxels with that score or a higher one; undefined without positives.
    """
    first, second = np.sort(as_scores(positives)), np.sort(as_scores(negatives))
    kind = np.result_type(first, second)
    ends = [np.array([0, side.size]) for side in (first, second)]
    figures = ranking_figures(
        Sides(first.astype(kind, copy=False), second.astype(kind, copy=False), *ends)
    )
    return float(figures.auroc[0]), float(figures.ap[0])


def ranking_figures(scores: Sides) -> RankingFigures:
    """Return AUROC, average precision and the best Dice and IoU of every group.

    Notes
    -----
    For AUROC and AP see `exact`. Thresholds are scores, a voxel counts when its score is ``>=`` the
    threshold. Dice ``2 TP / (TP + FP + P)`` and IoU ``TP / (FP + P)`` rise and fall together, so
    one threshold is best for both; of equal ones the highest. Both are undefined (NaN) without
    positives.
    """
    n_positives, n_negatives = scores.n_positives, scores.n_negatives
    w = walk(scores)
    with np.errstate(divide="ignore", invalid="ignore"):
        auroc = w.doubled / (2.0 * n_positives * n_negatives)
        ap = w.precision / n_positives
        dice = 2 * w.hits / (w.hits + w.alarms + n_positives)
        iou = w.hits / (w.alarms + n_positives)
    undefined = n_positives == 0
    dice[undefined] = iou[undefined] = np.nan
    return RankingFigures(auroc, ap, dice, iou, w.threshold)


def walk(scores: Sides) -> Walk:
    """Walk along the operating points of every group; a group may have up to 2^32 voxels."""
    native = route.native()
    if native is not None:
        return Walk(*route.walk(native, *scores))
    n = len(scores.positive_offsets) - 1
    doubled, hits, alarms = np.zeros((3, n), np.int64)
    result = Walk(doubled, hits, alarms, np.zeros(n), np.full(n, np.nan))
    for g in range(n):
        _walk_group(*scores.group(g), result, g)
    return result


def _walk_group(positives: Scores, negatives: Scores, result: Walk, g: int) -> None:
    """Fill in the row of a group, piece by piece, so that memory does not grow with its distinct
    scores.
    """
    n, best = len(positives), -1.0
    for first in range(0, n, PIECE):
        last = min(first + PIECE, n)
        begins = np.ones(last - first, np.bool_)
        begins[1:] = positives[first + 1 : last] != positives[first : last - 1]
        begins[0] = first == 0 or positives[first] != positives[first - 1]
        start = first + np.flatnonzero(begins)
        if not len(start):
            continue
        value = positives[start]
        # Equal scores may go on in the next piece.
        end = np.searchsorted(positives, value[-1], side="right")
        gained = np.diff(start, append=end)
        below, upto = (
            np.searchsorted(negatives, value, side="left"),
            np.searchsorted(negatives, value, side="right"),
        )
        hits, alarms = n - start, len(negatives) - below
        result.doubled[g] += (gained * (below + upto)).sum()
        terms = gained * (hits / (hits + alarms))
        # Sums of blocks first, then their sum: the same order of additions as in the twin.
        blocks = np.bincount((start - first) >> BLOCK_BITS, weights=terms)
        result.precision[g] = np.cumsum(np.append(result.precision[g], blocks))[-1]
        overlap = hits / (n + alarms)
        # Scores ascend: the last of equal maxima is the highest threshold.
        k = len(overlap) - 1 - int(np.argmax(overlap[::-1]))
        if overlap[k] >= best:
            best = float(overlap[k])
            result.hits[g], result.alarms[g], result.threshold[g] = hits[k], alarms[k], value[k]


class VoxelOverlap(NamedTuple):
    """Dice and IoU of G groups at a threshold; NaN where undefined."""

    dice: F64
    iou: F64
    threshold: F64


class ThresholdCurve(NamedTuple):
    """Operating points of one group in descending threshold, from none to all voxels."""

    threshold: F64  # (k,) inf at the first point
    hits: I64  # (k,) positives at or above it
    alarms: I64  # (k,) negatives at or above it
    n_positives: int
    n_negatives: int


def at_threshold(scores: Sides, threshold: float) -> VoxelOverlap:
    """Return Dice ``2 TP / (TP + FP + P)`` and IoU ``TP / (FP + P)`` of all voxels with a score
    ``>= threshold``.

    The threshold is rounded to the type of the scores, as NumPy does. Undefined (NaN) without
    positives.
    """
    counts = [_at_or_above(scores.group(g), threshold) for g in range(len(scores.n_positives))]
    return _overlap_from_counts(scores, counts, np.full(len(counts), threshold))


def at_false_positive_rate(scores: Sides, limit: float) -> VoxelOverlap:
    """Return Dice and IoU of the largest set of voxels, cut at a score, whose false positive rate
    is ``<= limit``.

    Notes
    -----
    Equal scores go in or stay out together: with k the largest whole number for which ``k / N <=
    limit``, all voxels above the (k + 1)-th highest negative score are taken. The threshold is the
    lowest score taken, inf if there is none (Dice is then 0). Undefined (NaN) without positives or
    without negatives.
    """
    counts, thresholds = list[tuple[float, float]](), np.full(len(scores.n_positives), np.nan)
    for g in range(len(thresholds)):
        positives, negatives = scores.group(g)
        if not len(negatives):
            counts.append((np.nan, np.nan))
            continue
        allowed = _allowed_alarms(len(negatives), limit)
        if allowed >= len(negatives):
            first = [0, 0]
        else:
            # The first negative that may not go in; all that ties with it stays out too.
            barrier = negatives[len(negatives) - 1 - allowed]
            first = [
                int(np.searchsorted(side, barrier, side="right")) for side in (positives, negatives)
            ]
        lowest = [side[k] for side, k in zip((positives, negatives), first) if k < len(side)]
        thresholds[g] = min(lowest, default=np.inf)
        counts.append((len(positives) - first[0], len(negatives) - first[1]))
    return _overlap_from_counts(scores, counts, thresholds)


def curve(scores: Sides, most: int = POINTS) -> ThresholdCurve:
    """Return operating points of the first group for a plot, at most ``most`` of them.

    Notes
    -----
    Every point lies on the exact curve. All distinct scores are points if they are few enough; else
    the scores at evenly spaced ranks of either kind of voxel are, so that no step in recall or in
    the false positive rate between neighbours is larger than ``1 / (most // 2 - 2)`` and one voxel,
    ties apart. The first point takes no voxel, the last takes all.
    """
    positives, negatives = scores.group(0)
    values = [_distinct(side, most) for side in (positives, negatives)]
    cuts = np.unique(np.concatenate(values))
    if len(cuts) >= most:
        cuts = np.unique(
            np.concatenate([_evenly_spaced(side, most // 2 - 1) for side in (positives, negatives)])
        )
    cuts = cuts[::-1]
    hits, alarms = (
        len(side) - np.searchsorted(side, cuts, side="left") for side in (positives, negatives)
    )
    return ThresholdCurve(
        np.append(np.inf, cuts.astype(np.float64)),
        np.append(0, hits),
        np.append(0, alarms),
        len(positives),
        len(negatives),
    )


def _distinct(side: Scores, most: int) -> Scores:
    """Return the distinct scores of a sorted side, or, if there are more than ``most``, one more
    than that.
    """
    begins = np.flatnonzero(np.append(True, side[1:] != side[:-1])[: len(side)])
    return side[begins[: most + 1]]


def _evenly_spaced(side: Scores, n: int) -> Scores:
    """Return the scores at n evenly spaced ranks of a sorted side, the lowest and the highest among
    them.
    """
    return side[np.unique(np.linspace(0, len(side) - 1, n).astype(np.int64))] if len(side) else side


def _allowed_alarms(n: int, limit: float) -> int:
    """Return the largest whole number k with ``k / n <= limit`` in float64."""
    # The product is rounded, so begin one above and let the quotient decide.
    k = min(int(limit * n) + 1, n)
    while k / n > limit:
        k -= 1
    return k


def _at_or_above(group: tuple[Scores, Scores], threshold: float) -> tuple[int, int]:
    """Return how many positives and negatives have that score or a higher one."""
    hits, alarms = (
        len(side) - int(np.searchsorted(side, side.dtype.type(threshold))) for side in group
    )
    return hits, alarms


def _overlap_from_counts(
    scores: Sides, counts: Sequence[tuple[float, float]], threshold: F64
) -> VoxelOverlap:
    hits, alarms = np.array(counts, np.float64).reshape(-1, 2).T
    n = np.where(scores.n_positives > 0, scores.n_positives, np.nan)
    return VoxelOverlap(2 * hits / (hits + alarms + n), hits / (alarms + n), threshold)


def aupro(scores: Arrays, components: Arrays, limit: float = 0.3) -> float:
    """Return the area under the mean overlap of regions up to a false positive rate, divided by
    that rate.

    Parameters
    ----------
    scores
        The map of one sample, or a list with one per sample.
    components
        Whole numbers of the same shape: 0 outside of all components, else the component, unique
        inside of its sample.
    limit
        False positive rate up to which the area is taken, above 0 and at most 1.

    Notes
    -----
    At a threshold the overlap of a region is the share of its voxels with a score ``>=`` the
    threshold; the curve is its mean over all regions of all samples against the share of the voxels
    outside of regions, over all samples, with such a score. Operating points are the distinct
    scores and "none"; between neighbours the curve is a straight line, which is cut at ``limit``.
    Undefined (NaN) without regions or without voxels outside of them.

    The area under a mean is the mean of areas: a voxel of a region contributes the area under a
    ramp from (a, 0) to (b, 1) that stays at 1, with a and b the false positive rates just above its
    score and at its score. So one (partial) sort of the voxels outside of regions is all it takes.
    """
    pairs = _pairs_of(scores, components)
    inside, outside, region, n_regions = _collect(pairs)
    if not n_regions or not len(outside):
        return float("nan")
    return float(per_region(inside, outside, region, n_regions, limit).mean())


def per_region(inside: Scores, outside: Scores, region: I64, n_regions: int, limit: float) -> F64:
    """Return (n_regions,) the area of every region, divided by ``limit``; ``region`` (m,) is that
    of each voxel inside.

    The scores outside are put into another order, in place.
    """
    n = len(outside)
    # Scores below the one at which the limit is reached need no order: what lies there adds no
    # area.
    lowest = n - 1 - min(n - 1, math.ceil(limit * n))
    outside.partition(lowest)
    upper = outside[outside >= outside[lowest]]
    upper.sort()
    # Neighbours in score are neighbours in memory when they are looked up.
    order = np.argsort(inside)
    ascending = inside[order]
    before = (len(upper) - np.searchsorted(upper, ascending, side="right")) / n
    after = (len(upper) - np.searchsorted(upper, ascending, side="left")) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        # The part of a ramp that lies before the limit is a triangle.
        cut = (limit - before) ** 2 / (2 * (after - before))
    areas = np.where(
        after <= limit, limit - (before + after) / 2, np.where(before < limit, cut, 0.0)
    )
    sums = np.bincount(region[order], weights=areas, minlength=n_regions)
    return np.asarray(sums / np.bincount(region, minlength=n_regions) / limit)


def _pairs_of(scores: Arrays, components: Arrays) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return one pair of arrays per sample."""
    if isinstance(scores, np.ndarray) and isinstance(components, np.ndarray):
        return [(scores, components)]
    return list(zip(scores, components, strict=True))


def _collect(pairs: list[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[Scores, Scores, I64, int]:
    """Return the scores inside and outside of regions, the region of the former, and how many
    regions there are.
    """
    if not pairs:
        return np.zeros(0), np.zeros(0), np.zeros(0, np.int64), 0
    inside, outside, region, n_regions = list[Scores](), list[Scores](), list[I64](), 0
    for scores, components in pairs:
        flat, labels = as_scores(scores), np.ascontiguousarray(components).reshape(-1)
        flags = as_flags(labels != 0)
        names, numbers = np.unique(labels[flags], return_inverse=True)
        inside.append(flat[flags])
        outside.append(flat[~flags])
        region.append(numbers + n_regions)
        n_regions += len(names)
    return np.concatenate(inside), np.concatenate(outside), np.concatenate(region), n_regions


def area_to_limit(overlap: F64, regions: F64, negatives: F64, limit: float) -> F64:
    """Return (R,) the mean overlap of regions over false positive rates from 0 to ``limit``.

    Parameters
    ----------
    overlap
        (R, B) by ascending score: summed over the regions, the share of a region that has just this
        score.
    regions
        (R,) how many regions there are.
    negatives
        (R, B) voxels outside of all regions with this score.
    limit
        The largest rate.

    Notes
    -----
    The curve is linear between the points of different scores, and cut at the limit by
    interpolation. NaN without a region or without a voxel outside of them. Shares that do not quite
    add up to the number of regions, because they were rounded, are taken relative to their sum: the
    curve ends at 1.
    """
    start = np.zeros((len(overlap), 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        height = np.concatenate([start, np.cumsum(overlap[:, ::-1], axis=1)], axis=1)
        # Rounded shares need not add up to 1.
        height /= height[:, -1:]
        fallen = np.concatenate([start, np.cumsum(negatives[:, ::-1], axis=1)], axis=1)
        rate = fallen / fallen[:, -1:]
        width = np.diff(rate, axis=1)
        inside = np.minimum(rate[:, 1:], limit) - np.minimum(rate[:, :-1], limit)
        share = np.where(width > 0, inside / width, 0.0)
        area = inside * (height[:, :-1] + 0.5 * share * np.diff(height, axis=1))
        areas = np.minimum(area.sum(axis=1) / limit, 1.0)
    return np.where((regions > 0) & (fallen[:, -1] > 0), areas, np.nan)


class SoftSums(NamedTuple):
    """What soft overlap needs of one sample with K objects."""

    inside: F64  # (K,) sum of the scores in each object
    voxels: I64  # (K,) voxels of each object
    background: float  # sum of the scores outside of all objects


def sums(scores: NDArray[Any], objects: NDArray[Any], n_objects: int) -> SoftSums:
    """Return the sums of a sample; ``objects`` holds 0 for the background and 1 ... n_objects."""
    flat = np.ascontiguousarray(objects).reshape(-1)
    weights = np.ascontiguousarray(scores, np.float64).reshape(-1)
    totals = np.asarray(np.bincount(flat, weights=weights, minlength=n_objects + 1), np.float64)
    voxels = np.bincount(flat, minlength=n_objects + 1)
    return SoftSums(totals[1:], voxels[1:], float(totals[0]))


def per_object(totals: SoftSums, alpha: float, variant: Variant) -> F64:
    """Return (K,) the soft overlap of every object.

    Notes
    -----
    With p the scores and y the object, summed over the object and the background, and e = 1e-5:

    - ``tversky``: ``(sum p y + e) / (alpha sum p + (1 - alpha) sum y + e)``. 1 for a perfect map
      and every alpha; the soft Dice at alpha = .5. A larger alpha punishes scores outside of the
      object more, a smaller one gaps inside.
    - ``jaccard``: ``(TP + e) / (TP + 2 alpha FP + 2 (1 - alpha) FN + e)`` with ``TP = sum p y``,
      ``FP = sum p (1 - y)``, ``FN = sum (1 - p) y``: the soft IoU at alpha = .5.
    - ``printed``: ``alpha sum p y / sum (.5 p + (1 - alpha) y)``, as it stands in the paper;
      ``alpha / (1.5 - alpha)`` for a perfect map. NaN if alpha is 1 and all scores are 0.

    No objects give no values.
    """
    inside, background = totals.inside, totals.background
    everything = inside + background
    if variant == "tversky":
        return np.asarray(
            (inside + EPSILON) / (alpha * everything + (1 - alpha) * totals.voxels + EPSILON)
        )
    if variant == "jaccard":
        gaps = totals.voxels - inside
        return np.asarray(
            (inside + EPSILON)
            / (inside + 2 * alpha * background + 2 * (1 - alpha) * gaps + EPSILON)
        )
    with np.errstate(invalid="ignore"):
        return np.asarray(alpha * inside / (0.5 * everything + (1 - alpha) * totals.voxels))


def per_sample(totals: SoftSums, alpha: float, variant: Variant) -> float:
    """Return the mean over the objects of a sample; ``e / (alpha sum p + e)``, for every variant,
    if it has none.
    """
    if not len(totals.voxels):
        return float(EPSILON / (alpha * totals.background + EPSILON))
    return float(per_object(totals, alpha, variant).mean())
