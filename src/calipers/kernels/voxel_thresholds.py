# SPDX-License-Identifier: Apache-2.0
"""Overlap of thresholded voxels with the reference at one threshold, and curves for plots; from
sorted scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.voxel_ranking import Scores, Sides

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

POINTS = 512


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
    return _overlap(scores, counts, np.full(len(counts), threshold))


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
        allowed = _allowed(len(negatives), limit)
        if allowed >= len(negatives):
            first = [0, 0]
        else:
            barrier = negatives[len(negatives) - 1 - allowed]
            first = [
                int(np.searchsorted(side, barrier, side="right")) for side in (positives, negatives)
            ]
        lowest = [side[k] for side, k in zip((positives, negatives), first) if k < len(side)]
        thresholds[g] = min(lowest, default=np.inf)
        counts.append((len(positives) - first[0], len(negatives) - first[1]))
    return _overlap(scores, counts, thresholds)


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
            np.concatenate([_evenly(side, most // 2 - 1) for side in (positives, negatives)])
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


def _evenly(side: Scores, n: int) -> Scores:
    """Return the scores at n evenly spaced ranks of a sorted side, the lowest and the highest among
    them.
    """
    return side[np.unique(np.linspace(0, len(side) - 1, n).astype(np.int64))] if len(side) else side


def _allowed(n: int, limit: float) -> int:
    """Return the largest whole number k with ``k / n <= limit`` in float64."""
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


def _overlap(scores: Sides, counts: Sequence[tuple[float, float]], threshold: F64) -> VoxelOverlap:
    hits, alarms = np.array(counts, np.float64).reshape(-1, 2).T
    n = np.where(scores.n_positives > 0, scores.n_positives, np.nan)
    return VoxelOverlap(2 * hits / (hits + alarms + n), hits / (alarms + n), threshold)
