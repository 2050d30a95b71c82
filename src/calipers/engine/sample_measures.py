# SPDX-License-Identifier: Apache-2.0
"""Measure the map of one sample: numbers per sample and slice, and its voxels counted by score.

A measure leaves two numbers per sample: the sum of its values (of one sample, or of the slices that
have one) and how many there are. At the level of the data set with a given threshold they are the
parts of the ratio itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from calipers.engine.sample_objects import Expanded
from calipers.kernels import aupro, softness, voxel_ranking, voxel_thresholds, voxels
from calipers.kernels.voxel_ranking import RankingFigures, Sides
from calipers.kernels.voxel_thresholds import VoxelOverlap
from calipers.metrics.map_settings import AXES
from calipers.metrics.measures import Measure

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Scores = NDArray[np.floating]
Flags = NDArray[np.bool_]
Pair = tuple[float, float]

FINEST = 2.0**-32  # shares are held in such steps, so that sums of many are exact in any order


class VoxelHistogram(NamedTuple):
    """The voxels of one sample, counted by score; entries by ascending bin."""

    bin: I32
    positives: I64
    negatives: I64
    overlap: F64
    lowest: F64
    highest: F64


@dataclass(frozen=True)
class MapView:
    """One map beside its references."""

    scores: Scores  # [z, ]y, x
    positive: Flags  # of the same shape
    objects: Expanded  # the voxels of the references
    voxels: I64  # (n,) of every reference

    @cached_property
    def soft_sums(self) -> softness.SoftSums:
        """What every soft IoU of this map is made of."""
        flat = self.scores.reshape(-1)
        of_objects = self.objects.sums(flat)
        background = max(float(flat.sum(dtype=np.float64)) - float(of_objects.sum()), 0.0)
        return softness.SoftSums(of_objects, self.voxels, background)


def histogram(view: MapView) -> VoxelHistogram:
    """Count the voxels of a map by score, and share every object out among its voxels."""
    counts = count_voxels(view.scores, view.positive)
    entry = np.searchsorted(counts.bin, voxels.bins_of(view.scores.reshape(-1)[view.objects.index]))
    share = np.bincount(
        entry, weights=1.0 / view.voxels[view.objects.owner], minlength=len(counts.bin)
    )
    return counts._replace(overlap=np.round(share / FINEST) * FINEST)


def count_voxels(scores: Scores, positive: Flags) -> VoxelHistogram:
    """Count the voxels of a map by score, whatever objects they belong to: there is no overlap."""
    counts = voxels.histogram(scores.reshape(-1), positive.reshape(-1))
    overlap = np.zeros(len(counts.bin))
    return VoxelHistogram(
        counts.bin, counts.positives, counts.negatives, overlap, counts.lowest, counts.highest
    )


def sums(view: MapView, measures: Sequence[Measure], slices: str) -> dict[str, Pair]:
    """Return sum and number of every measure on a sample, except those that need the voxels of
    several samples together.
    """
    pairs: dict[str, Pair] = {}
    for level in ("sample", "slice"):
        of_ranks = [
            measure
            for measure in measures
            if measure.level == level and measure.quantity != "softIoU"
        ]
        if of_ranks:
            pairs |= _at_level(view, of_ranks, level, slices)
    for measure in measures:
        if measure.quantity == "softIoU":
            value = softness.per_sample(view.soft_sums, measure.alpha, _variant(measure))
            pairs[measure.key] = _mean_parts(np.array([value]))
        elif measure.level in ("dataset", "batch") and measure.threshold is not None:
            pairs[measure.key] = _overlap_parts(view, measure)
    return pairs


def soft(view: MapView, measure: Measure) -> F64:
    """Return the soft IoU of every reference."""
    return softness.per_object(view.soft_sums, measure.alpha, _variant(measure))


def _variant(measure: Measure) -> softness.Variant:
    return cast(softness.Variant, measure.variant)


def _at_level(
    view: MapView, measures: Sequence[Measure], level: str, slices: str
) -> dict[str, Pair]:
    """Return the measures of one level; a sample or slice without a positive voxel has no value."""
    if not view.objects.n:
        return {measure.key: (0.0, 0.0) for measure in measures}
    volume = level == "slice" and view.scores.ndim == 3  # a picture is one slice
    if volume:
        axis = view.scores.ndim - 1 - AXES.index(slices)
        some = np.flatnonzero(view.positive.any(axis=tuple(k for k in range(3) if k != axis)))
        sides = voxel_ranking.slices(
            view.scores.take(some, axis), view.positive.take(some, axis), axis
        )
    else:
        sides = voxel_ranking.sides(view.scores, view.positive)
    ranking = voxel_ranking.ranking_figures(sides)
    return {
        measure.key: _mean_parts(_values(view, measure, sides, ranking)) for measure in measures
    }


def _values(view: MapView, measure: Measure, sides: Sides, ranking: RankingFigures) -> F64:
    """Return a measure of every sample or slice."""
    if measure.quantity == "AUPRO":
        return _aupro(view, sides, measure.limit)
    return figure_of(measure, sides, ranking)


def figure_of(measure: Measure, sides: Sides, ranking: RankingFigures) -> F64:
    """Return (G,) a measure of ranked voxels, except the overlap of regions."""
    if measure.quantity in ("AP", "AUROC"):
        return ranking.ap if measure.quantity == "AP" else ranking.auroc
    overlap: VoxelOverlap | RankingFigures = ranking  # the best of all thresholds
    if measure.threshold is not None:
        overlap = voxel_thresholds.at_threshold(sides, measure.threshold)
    elif measure.rate is not None:
        overlap = voxel_thresholds.at_false_positive_rate(sides, measure.rate)
    return overlap.dice if measure.quantity == "Dice" else overlap.iou


def _aupro(view: MapView, sides: Sides, limit: float) -> F64:
    """Return (1,) the area under the overlap of regions of one sample."""
    if not view.objects.n or not len(sides.negatives):
        return np.full(1, np.nan)
    positives = view.scores.reshape(-1)[view.objects.index]
    # a copy: the kernel puts it into another order, and other measures need it sorted
    negatives = sides.negatives.copy()
    areas = aupro.per_region(positives, negatives, view.objects.owner, view.objects.n, limit)
    return np.full(1, areas.mean())


def _mean_parts(values: F64) -> Pair:
    defined_values = values[~np.isnan(values)]
    return float(defined_values.sum()), float(len(defined_values))


def _overlap_parts(view: MapView, measure: Measure) -> Pair:
    """Return numerator and denominator of Dice or IoU at a threshold."""
    call = view.scores >= (measure.threshold or 0.0)
    n_called, n_positive = int(call.sum()), int(view.positive.sum())
    n_common = int((call & view.positive).sum())
    if measure.quantity == "Dice":
        return 2.0 * n_common, float(n_called + n_positive)
    return float(n_common), float(n_called + n_positive - n_common)
