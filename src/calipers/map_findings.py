# SPDX-License-Identifier: Apache-2.0
"""Warnings about maps: samples without a value, values counted in bins, constant and faint maps.

`findings.warnings_of` calls `map_warnings`; the page calls `bounds_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import voxel_histograms
from calipers.metrics.contract import Metric
from calipers.metrics.map_settings import AXES, MapSettings
from calipers.metrics.measures import Measure
from calipers.metrics.pooling import Tables
from calipers.metrics.voxels import MapMetric
from calipers.protocol import Protocol
from calipers.tables import Cohort
from calipers.tables.maps import Histograms, Maps

F64 = NDArray[np.float64]

EXACT = 1e-6  # a bound of this width changes no digit that is shown
FAINT = 0.1  # a score below which a voxel is hardly called
# of the reference voxels: faint scores that sum up to more than this lower the soft IoU visibly
HEAVY = 0.25


def map_warnings(
    cohort: Cohort, protocol: Protocol, metrics: Sequence[Metric[Any]]
) -> Iterator[str]:
    """Yield the warnings of an evaluation of maps; none without maps."""
    if not cohort.maps:
        return
    measures: dict[str, Measure] = {}
    for metric in metrics:
        if isinstance(metric, MapMetric):
            measures.update(measures_of(metric))
    yield from _undefined(cohort, protocol, measures)
    for model, maps in cohort.maps.items():
        yield from _binned(model, maps, measures)
        yield from _constant(model, maps.histograms)
        yield from _faint(model, maps.histograms, measures)


def measures_of(metric: MapMetric) -> dict[str, Measure]:
    """Return name -> measure."""
    return dict(zip(metric.facts.names, metric.measures))


def _undefined(
    cohort: Cohort, protocol: Protocol, measures: Mapping[str, Measure]
) -> Iterator[str]:
    """Yield how many samples or slices have no value, once for all metrics with that number."""
    maps = next(iter(cohort.maps.values()))  # the references are the same for all models
    missing: dict[tuple[str, int, int], list[str]] = {}
    for name, measure in measures.items():
        if measure.level in ("sample", "slice"):
            total = cohort.n_images
            if measure.level == "slice":
                total = number_of_slices(cohort, protocol)
            defined = int(maps.sums[measure.key][:, 1].sum())
            if defined < total:
                missing.setdefault((measure.level, defined, total), []).append(name)
    for (level, defined, total), names in missing.items():
        n_missing = total - defined
        rest = f"the mean is over the other {defined}" if defined else "there is no mean"
        have = f"{level}s have" if total != 1 else f"{level} has"
        healthy = level == "slice" or n_missing == int((maps.references == 0).sum())
        lack = "no references and no value" if healthy else "no value"
        yield f"{', '.join(names)}: {n_missing} of {total} {have} {lack}; {rest}."


def number_of_slices(cohort: Cohort, protocol: Protocol) -> int:
    """Return the slices of all samples; a picture is one slice."""
    if cohort.dimensions == 2:
        return cohort.n_images
    axis = AXES.index((protocol.maps or MapSettings()).slices)
    return int(cohort.images.size[:, axis].sum())


def bounds_of(maps: Maps) -> dict[str, tuple[float, float]]:
    """Return between which values AP and AUROC of all voxels lie; nothing where they are exact."""
    if maps.exact_values or not len(maps.histograms.bin):
        return {}
    pooled = Tables(maps.histograms).pooled(np.ones((1, maps.n_images), np.int64), maps.references)
    bounds = voxel_histograms.bounds(pooled.positives[0], pooled.negatives[0], pooled.inexact)
    return {"AP": bounds.ap, "AUROC": bounds.auroc}


def _binned(model: str, maps: Maps, measures: Mapping[str, Measure]) -> Iterator[str]:
    """Yield the metrics that are counted in bins, with bounds of the exact value."""
    bounds = bounds_of(maps)
    for name, measure in measures.items():
        low, high = bounds.get(measure.quantity, (0.0, 0.0)) if measure.pooled else (0.0, 0.0)
        if high - low > EXACT:
            yield (
                f"{name} of {model} is counted in bins: "
                f"the exact value lies in [{low:.6f}, {high:.6f}]."
            )


def _constant(model: str, histograms: Histograms) -> Iterator[str]:
    """Yield how many maps have one value: such maps rank nothing."""
    single = np.flatnonzero(np.diff(histograms.offsets) == 1)
    bins = histograms.bin[histograms.offsets[single]]
    n = int((histograms.lowest[bins] == histograms.highest[bins]).sum())
    if n:
        n_maps = len(histograms.offsets) - 1
        have = "has" if n == 1 else "have"
        yield (
            f"{model}: {n} of {n_maps} maps {have} one score everywhere; "
            "their AUROC is 0.5 and their AP the share of reference voxels."
        )


def _faint(model: str, histograms: Histograms, measures: Mapping[str, Measure]) -> Iterator[str]:
    """Yield a warning if faint scores over the background lower the soft IoU.

    They lower it more than false objects do, and nobody sees them.
    """
    soft = [name for name, measure in measures.items() if measure.quantity == "softIoU"]
    if not soft:
        return
    faint, total = faint_scores(histograms)
    inside = float(histograms.positives.sum())
    if faint > 0.5 * total and faint > HEAVY * inside > 0:
        yield (
            f"{soft[0]} of {model}: {100 * faint / total:.0f} % of the score outside of references "
            f"lies in voxels scored below {FAINT:g}, together as much as {faint / inside:.1f} "
            "times the reference voxels; such faint scores lower the soft IoU, while AP and "
            "objects ignore them."
        )


def faint_scores(histograms: Histograms) -> tuple[float, float]:
    """Return the sum of the scores of voxels outside of references: of those with faint scores, and
    of all.
    """
    # The middle of a bin stands for the scores in it.
    score = 0.5 * (histograms.lowest[histograms.bin] + histograms.highest[histograms.bin])
    sums = histograms.negatives * score
    return float(sums[score < FAINT].sum()), float(sums.sum())
