# SPDX-License-Identifier: Apache-2.0
"""Metrics on maps: average precision, AUROC, AUPRO, Dice and IoU of voxels, and the soft IoU of
instances.

At the level of the data set all voxels are ranked together, and weights multiply the voxels of an
image. At the level of samples, slices and batches a value is the weighted mean over those that have
one; a sample or slice without a positive voxel has none, and is counted. The evidence is
`calipers.tables.maps.Maps`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.metrics.contract import Facts, MetricPlan
from calipers.metrics.measures import Measure
from calipers.metrics.pooling import pool_voxels, value_of
from calipers.tables import Cohort
from calipers.tables.maps import Maps

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class MapRecipe:
    """Takes the evidence from the cohort: maps are examined when they are read."""

    measures: tuple[Measure, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """All metrics on maps share one evidence."""
        return ("maps",)

    def merge(self, other: MapRecipe) -> MapRecipe:
        """Return the recipe that serves both."""
        return MapRecipe(tuple(dict.fromkeys((*self.measures, *other.measures))))

    def collect(self, cohort: Cohort, model: str) -> Maps:
        """Return the evidence of a model."""
        if model not in cohort.maps:
            raise UsageError(
                "metrics on voxels need maps: use evaluate_maps or calipers maps instead of "
                "evaluate"
            )
        maps = cohort.maps[model]
        for measure in self.measures:
            if not measure.pooled and measure.key not in maps.sums:
                hint = did_you_mean(measure.key, maps.sums)
                raise UsageError(f"{measure.key} was not measured when the maps were read; {hint}")
        return maps


class MapMetric:
    """Base of the metrics on maps."""

    own_matching = True  # thresholds and criteria of the protocol play no part
    defaults: tuple[str, ...] = ()
    quantity = ""
    id = ""

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        self.measures = tuple(Measure.of(self.quantity, plan) for plan in plans)
        self.recipe = MapRecipe(self.measures)
        self.facts = Facts(
            id=self.id,
            names=tuple(plan.name for plan in plans),
            ids=tuple(self.id.replace("@", f".{measure.definition}@") for measure in self.measures),
            per_class=False,
            swap=False,
        )

    def value(self, evidence: Maps, weights: I64) -> F64:
        """Return (R, 1, n_names)."""
        columns = [self._column(evidence, measure, weights) for measure in self.measures]
        return np.stack(columns, axis=1)[:, None, :]

    def _column(self, evidence: Maps, measure: Measure, weights: I64) -> F64:
        if not measure.pooled:
            values = _ratio(weights @ evidence.sums[measure.key])
            if measure.level == "dataset":
                # False voxels alone make a ratio of 0, but there was nothing to find.
                values[weights @ evidence.references == 0] = np.nan
            return values
        if len(weights) == 1 and (weights == 1).all() and measure.key in evidence.exact_values:
            return np.array([evidence.exact_values[measure.key]])
        return value_of(pool_voxels(evidence, weights), measure)

    def reasons(self, evidence: Maps) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: no image, nothing to find, or every voxel is to be
        found.
        """
        value = self.value(evidence, np.ones((1, evidence.n_images), np.int64))[0]
        why = "single_category" if evidence.references.any() else "no_references"
        if not evidence.n_images:
            why = "no_objects"
        return {(int(row), int(k)): why for row, k in np.argwhere(np.isnan(value))}

    def counts(self, evidence: Maps, weights: I64) -> I64:
        """Return (1, n_names, 3): images, references and predicted objects."""
        row = [weights.sum(), weights @ evidence.references, weights @ evidence.predictions]
        return np.tile(np.array(row, np.int64), (1, len(self.measures), 1))

    def support(self, evidence: Maps, unit: I64, n_units: int) -> I64:
        """Return (1, n_names, 3): units with a value, that can be in error, that are in error."""
        table = np.zeros((1, len(self.measures), 3), np.int64)
        for k, measure in enumerate(self.measures):
            needed, tried, wrong = self._judged(evidence, measure)
            for entry, flags in enumerate((needed, tried, wrong)):
                table[0, k, entry] = len(np.unique(unit[flags]))
        return table

    def _judged(self, evidence: Maps, measure: Measure) -> tuple[NDArray[np.bool_], ...]:
        """Return three flags per image. Where all voxels are ranked together no image is free of
        error.
        """
        if measure.pooled:
            has = evidence.references > 0
            return has, np.ones_like(has), np.ones_like(has)
        total, number = evidence.sums[measure.key].T
        return number > 0, number > 0, total < number


def _ratio(sums: F64) -> F64:
    """Return (R,) the first of two columns over the second, NaN where it is 0."""
    quotient: F64 = np.full(len(sums), np.nan)
    np.divide(sums[:, 0], sums[:, 1], out=quotient, where=sums[:, 1] > 0)
    return quotient


class VoxelAveragePrecision(MapMetric):
    """The mean precision over the positive voxels, each at its own score; equal scores are one
    operating point.
    """

    quantity, id = "AP", "voxel-ap@1"


class VoxelAuroc(MapMetric):
    """The chance that a positive voxel scores higher than a negative one, ties counting half."""

    quantity, id = "AUROC", "voxel-auroc@1"


class Aupro(MapMetric):
    """The mean overlap of the references as a function of the rate of false voxels, up to a limit
    [1]_.

    References
    ----------
    .. [1] Bergmann et al., The MVTec anomaly detection dataset, IJCV 2021.
    """

    quantity, id = "AUPRO", "aupro@1"


class VoxelDice(MapMetric):
    """Twice the common voxels over the sum of both: at the best or a given threshold, or a rate of
    false voxels.
    """

    quantity, id = "Dice", "voxel-dice@1"


class VoxelIou(MapMetric):
    """The common voxels over those of either set: at the best or a given threshold, or a rate of
    false voxels.
    """

    quantity, id = "IoU", "voxel-iou@1"


class SoftInstanceIou(MapMetric):
    """The soft IoU of every reference object with the map around it, averaged per sample, then over
    samples.

    On an object and the background, other objects left out: ``(sum p y + e) / (a sum p + (1 - a)
    sum y + e)``. A sample without objects has ``e / (a sum p + e)``: 1 if nothing is called. See
    `calipers.kernels.softness`.
    """

    quantity, id = "softIoU", "soft-instance-iou@1"
