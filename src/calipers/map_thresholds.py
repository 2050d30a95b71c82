# SPDX-License-Identifier: Apache-2.0
"""Thresholds that the maps themselves determine: from which score on a voxel belongs to an object.

`evaluate_maps` calls `chosen_thresholds` if the protocol asks for the best Dice or for a rate of
false voxels instead of naming a number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.engine.blocks import Progress
from calipers.engine.sample_histograms import GatheredHistograms
from calipers.engine.sample_measures import VoxelHistogram, count_voxels
from calipers.engine.samples import in_order
from calipers.errors import InputError, UsageError
from calipers.given_samples import GivenSamples
from calipers.metrics.map_settings import MapSettings
from calipers.metrics.pooling import PooledVoxels, Tables
from calipers.tables.maps import Histograms
from calipers.tables.samples import Sample

F64 = NDArray[np.float64]


def chosen_thresholds(
    source: GivenSamples, settings: MapSettings, *, jobs: int = 1, progress: Progress | None = None
) -> dict[str, float] | None:
    """Return model -> threshold, None if the settings name a number.

    Scores are counted in bins: the threshold is the lowest score of its bin that occurs, so that
    the rate of false voxels stays within what was asked for. It is above 0. A model that has no
    such score, as its maps are empty or constant, has the threshold inf: it calls nothing.
    """
    if not settings.is_rule:
        return None
    if not source.again:
        raise UsageError(
            f"a threshold of {settings.threshold!r} reads the maps twice: "
            "give a list, not an iterator"
        )
    maps: dict[str, GatheredHistograms] = {}
    for n_done, histograms in enumerate(in_order(source.loaders(), _histograms, jobs), start=1):
        for model, part in histograms.items():
            maps.setdefault(model, GatheredHistograms()).add(part)
        if progress is not None and source.number:
            progress(n_done, source.number)
    if not maps:
        raise InputError(f"samples to choose a threshold on ({settings.tuning})", rule="no-images")
    thresholds = {}
    for model, gathered in maps.items():
        thresholds[model] = _threshold(model, gathered.settled(), settings)
    return thresholds


def _histograms(sample: Sample) -> dict[str, VoxelHistogram]:
    """Return the voxels of every map counted by score."""
    positive = sample.labels != 0
    return {model: count_voxels(scores, positive) for model, scores in sample.maps.items()}


def _threshold(model: str, histograms: Histograms, settings: MapSettings) -> float:
    tables = Tables(histograms)
    n = len(histograms.offsets) - 1
    pooled = tables.pooled(np.ones((1, n), np.int64), np.zeros(n, np.int64))
    voxels = pooled.positives if settings.rate is None else pooled.negatives
    if not voxels.sum():
        raise InputError(
            f"maps of {model} with a threshold for {settings.threshold}",
            rule="threshold",
            value=f"no voxel {'in' if settings.rate is None else 'outside of'} a reference",
            hint="give a number as threshold, or other samples to choose it on",
        )
    return _score(histograms.lowest[tables.used], pooled, settings.rate)


def _score(values: F64, pooled: PooledVoxels, rate: float | None) -> float:
    """Return the lowest score of the bin of the best Dice, or of the lowest one within a rate of
    false voxels.

    Of equally good ones for Dice the highest; inf if no score above 0 will do.
    """
    hits, alarms = (np.cumsum(side[0][::-1])[::-1] for side in (pooled.positives, pooled.negatives))
    if rate is None:
        overlap = np.where(values > 0, hits / (hits[0] + alarms), 0.0)
        # argmax finds the first of equals, which in reverse order is the highest score.
        best = len(overlap) - 1 - int(np.argmax(overlap[::-1]))
        return float(values[best]) if overlap[best] > 0 else float("inf")
    candidates = np.flatnonzero((values > 0) & (alarms / alarms[0] <= rate))
    return float(values[candidates[0]]) if len(candidates) else float("inf")
