# SPDX-License-Identifier: Apache-2.0
"""AUROC, average precision and best overlap of voxels, exactly: every score counts, equal scores
are one point.

The two kinds of voxels are sorted apart and by value only, which is many times faster than sorting
places. Precision and overlap are best, and recall moves, at scores of positive voxels; so a curve
is walked along these, and the negatives are only counted beside them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled_voxels, ragged, route
from calipers.kernels.voxels import as_flags, as_scores

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Scores = NDArray[np.floating[Any]]

BLOCK_BITS = 12  # a partial sum for so many positives: precise, and alike on both routes
PIECE = 1 << 20  # positives whose operating points are held at once; a multiple of a block


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
        parts = compiled_voxels.split(native, flat, flags, int(positive_offsets[-1]))
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
        return Walk(*compiled_voxels.walk(native, *scores))
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
        blocks = np.bincount((start - first) >> BLOCK_BITS, weights=terms)
        result.precision[g] = np.cumsum(np.append(result.precision[g], blocks))[-1]
        overlap = hits / (n + alarms)
        k = len(overlap) - 1 - int(np.argmax(overlap[::-1]))
        if overlap[k] >= best:
            best = float(overlap[k])
            result.hits[g], result.alarms[g], result.threshold[g] = hits[k], alarms[k], value[k]
