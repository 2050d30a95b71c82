# SPDX-License-Identifier: Apache-2.0
"""Curves over all voxels as families of numbers, so that every point gets its interval like any
other metric.

They are drawn, not listed in protocols. Voxels of all images are ranked together, and weights
multiply those of an image; a bin of scores is one operating point. See `calipers.metrics.pooling`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calipers.metrics.contract import Facts
from calipers.metrics.measures import Measure
from calipers.metrics.pooling import pool_voxels
from calipers.metrics.voxels import MapMetric, MapRecipe
from calipers.tables.maps import Maps

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

SLACK = 1e-9  # of a voxel: a recall of 0.07 of 100 voxels is 7 of them


class VoxelCurve(MapMetric):
    """Base of curves: one number per place on the x axis."""

    word = ""

    def __init__(self, places: Sequence[float]) -> None:
        self.places = np.array(places, np.float64)
        self.measures = (Measure("AUROC"),) * len(places)  # all voxels together
        self.recipe = MapRecipe(())
        names = tuple(f"{self.word}@{place:g}" for place in places)
        self.facts = Facts(id=self.id, names=names, per_class=False, swap=False)

    def value(self, evidence: Maps, weights: I64) -> F64:
        """Return (R, 1, n_places); NaN without a positive voxel, of rates also without a negative
        one.
        """
        voxels = pool_voxels(evidence, weights)
        hits = np.cumsum(voxels.positives[:, ::-1], axis=1)
        alarms = np.cumsum(voxels.negatives[:, ::-1], axis=1)
        return np.stack([self._curve(*row) for row in zip(hits, alarms)])[:, None, :]

    def _curve(self, hits: F64, alarms: F64) -> F64:
        """Return (n_places,) from the numbers of voxels of either kind at and above ever lower
        scores.
        """
        raise AssertionError("every curve says how it is made")


class SensitivityCurve(VoxelCurve):
    """The share of reference voxels that are called, at shares of the other voxels that are called:
    the ROC curve.

    Between two operating points it is a straight line, so that the area below it is the AUROC.
    """

    id, word = "voxel-roc@1", "TPR"

    def _curve(self, hits: F64, alarms: F64) -> F64:
        if not len(hits) or not hits[-1] or not alarms[-1]:
            return np.full(len(self.places), np.nan)
        rate, share = np.append(0.0, alarms / alarms[-1]), np.append(0.0, hits / hits[-1])
        # of points with the same rate, the one with the highest share
        before = np.searchsorted(rate, self.places, side="right") - 1
        after = np.minimum(before + 1, len(rate) - 1)
        gap = rate[after] - rate[before]
        way = np.divide(self.places - rate[before], gap, out=np.zeros(len(gap)), where=gap > 0)
        return np.asarray(share[before] + way * (share[after] - share[before]))


class VoxelPrecisionCurve(VoxelCurve):
    """The share of called voxels that are of references, at the highest score that reaches a
    recall.
    """

    id, word = "voxel-precision@1", "precision"

    def _curve(self, hits: F64, alarms: F64) -> F64:
        if not len(hits) or not hits[-1]:
            return np.full(len(self.places), np.nan)
        first = np.searchsorted(hits, self.places * hits[-1] - SLACK)
        return np.asarray(hits[first] / (hits[first] + alarms[first]))
