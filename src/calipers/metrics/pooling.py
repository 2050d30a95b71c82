# SPDX-License-Identifier: Apache-2.0
"""The voxels of all images together, counted by score, under many weightings at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged, region_overlap, voxel_histograms
from calipers.metrics.measures import Measure
from calipers.tables.maps import COUNTED, Histograms, Maps

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

RATE = 0.05  # of false voxels, where none is named
COARSE = 3  # shift of the bins of replicates: 8,192 of them
MOST_DENSE = 400_000_000  # bytes; larger tables stay sparse


@dataclass(frozen=True)
class PooledVoxels:
    """Voxels by ascending score, (R, B): in references, outside of them, and shares of references;
    (R,) references.
    """

    positives: F64
    negatives: F64
    overlap: F64
    regions: F64
    inexact: NDArray[np.bool_]  # (B,) whether a column holds more than one score
    _cache: dict[float, voxel_histograms.PooledFigures] = field(default_factory=dict)

    def figures(self, rate: float = RATE) -> voxel_histograms.PooledFigures:
        """Return the values of all metrics on voxels, computed once."""
        if rate not in self._cache:
            self._cache[rate] = voxel_histograms.from_histograms(
                self.positives, self.negatives, rate, self.inexact
            )
        return self._cache[rate]


def value_of(voxels: PooledVoxels, measure: Measure) -> F64:
    """Return (R,) a measure of voxels that are counted by score.

    NaN without a positive voxel, and for areas under a curve also without a negative one.
    """
    if measure.quantity == "AUPRO":
        return region_overlap.area_to_limit(
            voxels.overlap, voxels.regions, voxels.negatives, measure.limit
        )
    figures = voxels.figures(RATE if measure.rate is None else measure.rate)
    if measure.quantity in ("AP", "AUROC"):
        return figures.ap if measure.quantity == "AP" else figures.auroc
    dice = figures.dice if measure.rate is None else figures.rate_dice
    return dice if measure.quantity == "Dice" else dice / (2.0 - dice)


class Tables:
    """The histograms of some images as matrices, over the bins that occur; products with weights
    pool them.
    """

    def __init__(self, histograms: Histograms) -> None:
        self.used, self._column = np.unique(histograms.bin, return_inverse=True)
        self._histograms = histograms
        self.inexact = histograms.lowest[self.used] < histograms.highest[self.used]

    @cached_property
    def _matrices(self) -> list[Any]:
        histograms = self._histograms
        shape = len(histograms.offsets) - 1, len(self.used)
        image = ragged.owners(histograms.offsets)
        if 8 * shape[0] * shape[1] * len(COUNTED) <= MOST_DENSE:
            tables = []
            for name in COUNTED:
                table = np.zeros(shape)
                table[image, self._column] = getattr(histograms, name)
                tables.append(table)
            return tables
        from scipy.sparse import csr_array

        matrices = []
        for name in COUNTED:
            values = getattr(histograms, name).astype(np.float64)
            matrices.append(csr_array((values, self._column, histograms.offsets), shape=shape))
        return matrices

    def pooled(self, weights: I64, references: I64) -> PooledVoxels:
        """Return the pooled voxels of every replicate. Sums of whole numbers below 2^53 are exact
        in any order.
        """
        w = weights.astype(np.float64)
        positives, negatives, overlap = (np.asarray(w @ table) for table in self._matrices)
        return PooledVoxels(
            positives, negatives, overlap, (weights @ references).astype(np.float64), self.inexact
        )


def pool_voxels(evidence: Maps, weights: I64) -> PooledVoxels:
    """Return the pooled voxels of an evidence; the last block of weights is cached, because all
    metrics need it.

    A single weighting uses all bins. Replicates, which only show how much a value varies, use
    fewer, because the time of each grows with the bins: 128 in every octave of the distance to 0 or
    1.
    """
    cache: dict[str, Any] = evidence.__dict__.setdefault("_pooling", {})
    key = "one" if len(weights) == 1 else "many"
    if key not in cache:
        histograms = evidence.histograms
        cache[key] = Tables(histograms if len(weights) == 1 else histograms.coarsened(COARSE))
    if cache.get("weights") is not weights:
        cache.update(weights=weights, voxels=cache[key].pooled(weights, evidence.references))
    voxels: PooledVoxels = cache["voxels"]
    return voxels
