# SPDX-License-Identifier: Apache-2.0
"""What is measured on the map of one sample: numbers per sample and slice, and its voxels counted
by score.

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


class Histogram(NamedTuple):
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
        inside = self.objects.sums(flat)
        background = max(float(flat.sum(dtype=np.float64)) - float(inside.sum()), 0.0)
        return softness.SoftSums(inside, self.voxels, background)


def histogram(view: MapView) -> Histogram:
    """Count the voxels of a map by score, and share every object out among its voxels."""
    found = counted(view.scores, view.positive)
    entry = np.searchsorted(found.bin, voxels.bins_of(view.scores.reshape(-1)[view.objects.index]))
    share = np.bincount(
        entry, weights=1.0 / view.voxels[view.objects.owner], minlength=len(found.bin)
    )
    return found._replace(overlap=np.round(share / FINEST) * FINEST)


def counted(scores: Scores, positive: Flags) -> Histogram:
    """Count the voxels of a map by score, whatever objects they belong to: there is no overlap."""
    found = voxels.histogram(scores.reshape(-1), positive.reshape(-1))
    overlap = np.zeros(len(found.bin))
    return Histogram(
        found.bin, found.positives, found.negatives, overlap, found.lowest, found.highest
    )


def sums(view: MapView, measures: Sequence[Measure], slices: str) -> dict[str, Pair]:
    """Return what every measure leaves of a sample, except those that need the voxels of several
    samples together.
    """
    found: dict[str, Pair] = {}
    for level in ("sample", "slice"):
        ranked = [
            measure
            for measure in measures
            if measure.level == level and measure.quantity != "softIoU"
        ]
        found |= _at_level(view, ranked, level, slices) if ranked else {}
    for measure in measures:
        if measure.quantity == "softIoU":
            value = softness.per_sample(view.soft_sums, measure.alpha, _variant(measure))
            found[measure.key] = _mean_parts(np.array([value]))
        elif measure.level in ("dataset", "batch") and measure.threshold is not None:
            found[measure.key] = _called(view, measure)
    return found


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
    ranked = voxel_ranking.ranking_figures(sides)
    return {measure.key: _mean_parts(_values(view, measure, sides, ranked)) for measure in measures}


def _values(view: MapView, measure: Measure, sides: Sides, ranked: RankingFigures) -> F64:
    """Return a measure of every sample or slice."""
    if measure.quantity == "AUPRO":
        return _aupro(view, sides, measure.limit)
    return figure_of(measure, sides, ranked)


def figure_of(measure: Measure, sides: Sides, ranked: RankingFigures) -> F64:
    """Return (G,) a measure of ranked voxels, except the overlap of regions."""
    if measure.quantity in ("AP", "AUROC"):
        return ranked.ap if measure.quantity == "AP" else ranked.auroc
    found: VoxelOverlap | RankingFigures = ranked
    if measure.threshold is not None:
        found = voxel_thresholds.at_threshold(sides, measure.threshold)
    elif measure.rate is not None:
        found = voxel_thresholds.at_false_positive_rate(sides, measure.rate)
    return found.dice if measure.quantity == "Dice" else found.iou


def _aupro(view: MapView, sides: Sides, limit: float) -> F64:
    """Return (1,) the area under the overlap of regions of one sample."""
    if not view.objects.n or not len(sides.negatives):
        return np.full(1, np.nan)
    inside = view.scores.reshape(-1)[view.objects.index]
    outside = (
        sides.negatives.copy()
    )  # it is put into another order, and other measures need it sorted
    found = aupro.per_region(inside, outside, view.objects.owner, view.objects.n, limit)
    return np.full(1, found.mean())


def _mean_parts(values: F64) -> Pair:
    defined = values[~np.isnan(values)]
    return float(defined.sum()), float(len(defined))


def _called(view: MapView, measure: Measure) -> Pair:
    """Return numerator and denominator of Dice or IoU at a threshold."""
    called = view.scores >= (measure.threshold or 0.0)
    n_called, n_positive, both = (
        int(flags.sum()) for flags in (called, view.positive, called & view.positive)
    )
    if measure.quantity == "Dice":
        return 2.0 * both, float(n_called + n_positive)
    return float(both), float(n_called + n_positive - both)
