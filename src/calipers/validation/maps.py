# SPDX-License-Identifier: Apache-2.0
"""Coverage of the intervals of metrics on maps: scores of voxels in simulated images.

An image has a number of positive voxels (log-normal) and a contrast of its own, which images of a
unit share in part. Its scores are drawn on `LEVELS` levels, so that histograms hold them exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calipers.arrays import F64
from calipers.data.maps import Histograms, Maps
from calipers.evaluation.protocol import Protocol
from calipers.statistics.estimates import Certainty, estimates
from calipers.statistics.weights import Units
from calipers.validation.cells import CoverageCell, Effort, Tally

PROTOCOL = """
schema = "calipers.protocol/1"
name = "validation of maps"
source = "Calipers: metrics whose intervals are measured"

[matching]
criterion = "mask-iou"
assignment = "by-overlap"
thresholds = 0.5

[[metric]]
name = "AP/dataset"
kind = "voxel-average-precision"
[[metric]]
name = "AUROC/dataset"
kind = "voxel-auroc"
[[metric]]
name = "Dice@0.5/sample"
kind = "voxel-dice"
level = "sample"
at = 0.5
"""
NAMES = ("AP/dataset", "AUROC/dataset", "Dice@0.5/sample")
LEVELS = 16  # of scores
VOXELS = 2000  # of an image
BINS = 1 << 16


@dataclass(frozen=True)
class MapDesign:
    """Data sets of maps of one kind."""

    name: str
    units: int
    images: int  # of a unit
    likeness: float
    contrast: float  # of positive and negative voxels, in standard deviations
    unit: str = "patient"


def map_cells(design: MapDesign, effort: Effort) -> list[CoverageCell]:
    """Return the cells of a design of maps."""
    metrics = Protocol.from_toml(PROTOCOL.replace("@0.5/sample", "")).compile()
    keys = [metric.measures[0].key for metric in metrics]  # type: ignore[attr-defined]
    rng = np.random.Generator(np.random.Philox(key=[effort.seed, design.units]))
    n = design.units * design.images
    units = Units.of(design.unit, np.repeat(np.arange(design.units), design.images), n)
    large = _evidence(replace(design, units=design.units * effort.large(n)), keys, rng)
    truth = _values(metrics, large)
    tallies = [Tally(value) for value in truth.tolist()]
    for number in range(effort.simulations + effort.extra):
        evidence = _evidence(design, keys, rng)
        if number >= effort.simulations:
            for tally, value in zip(tallies, _values(metrics, evidence).tolist()):
                tally.add_value(value)
            continue
        certainty = Certainty(replicates=effort.replicates, seed=number)
        tables = estimates([(metric, evidence) for metric in metrics], units, certainty)
        for tally, table in zip(tallies, tables):
            tally.add(table[0][0].value, table[0][0].low, table[0][0].high)
    cells = []
    for tally, name in zip(tallies, NAMES):
        cells.append(tally.cell("maps", name, design.name, units))
    return cells


def _values(metrics: Sequence[object], evidence: Maps) -> F64:
    weights = np.ones((1, evidence.n_images), np.int64)
    values = [metric.value(evidence, weights)[0, 0, 0] for metric in metrics]  # type: ignore[attr-defined]
    return np.array(values, np.float64)


def _evidence(design: MapDesign, keys: Sequence[str], rng: np.random.Generator) -> Maps:
    n = design.units * design.images
    shared = np.repeat(rng.standard_normal(design.units), design.images)
    own = rng.standard_normal(n)
    ease = np.sqrt(design.likeness) * shared + np.sqrt(1 - design.likeness) * own
    n_positive = np.clip(np.exp(rng.normal(4.0, 0.7, n)), 5, VOXELS / 2).astype(np.int64)
    positives = _levels(design.contrast + 0.5 * ease, n_positive, rng)
    negatives = _levels(np.zeros(n), VOXELS - n_positive, rng)
    upper = slice(LEVELS // 2, None)
    hits, alarms = positives[:, upper].sum(axis=1), negatives[:, upper].sum(axis=1)
    dice = 2 * hits / (hits + alarms + n_positive)
    # Level k has a bin of its own; both ends of a bin are its score.
    bins = (np.arange(LEVELS) + 1) * (BINS // (LEVELS + 2))
    lowest, highest = np.full(BINS, np.inf), np.full(BINS, -np.inf)
    lowest[bins] = highest[bins] = (np.arange(LEVELS) + 0.5) / LEVELS
    histograms = Histograms(
        offsets=np.arange(n + 1, dtype=np.int64) * LEVELS,
        bin=np.tile(bins, n).astype(np.int32),
        positives=positives.ravel(),
        negatives=negatives.ravel(),
        overlap=(positives / n_positive[:, None]).ravel(),
        lowest=lowest,
        highest=highest,
    )
    ones = np.ones(n, np.int64)
    return Maps({keys[-1]: np.stack([dice, np.ones(n)], axis=1)}, ones, ones, histograms)


def _levels(centre: F64, number: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return (n, LEVELS): how many voxels have which score."""
    from scipy.special import ndtr

    edges = np.linspace(-2.5, 3.5, LEVELS - 1)
    below = ndtr(edges[None] - centre[:, None])
    ends = np.ones((len(centre), 1))
    shares = np.diff(np.concatenate([0 * ends, below, ends], axis=1), axis=1)
    return np.asarray(rng.multinomial(number, shares))
