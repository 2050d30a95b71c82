# SPDX-License-Identifier: Apache-2.0
"""What is measured on the map of one sample: numbers per sample and slice, and its voxels counted by score.

A measure leaves two numbers per sample: the sum of its values (of one sample, or of the slices that have one) and how
many there are. At the level of the data set with a given threshold they are the parts of the ratio itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.engine.sample_objects import Expanded
from calipers.kernels import score_blocks, softness, voxels
from calipers.metrics.map_settings import AXES
from calipers.metrics.measures import Measure
from calipers.metrics.pooling import Pooled, value_of

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


def histogram(view: MapView) -> Histogram:
    """Count the voxels of a map by score."""
    flat = view.scores.reshape(-1)
    found = voxels.histogram(flat, view.positive.reshape(-1))
    share = np.zeros(len(found.bin))
    if view.objects.n:
        entry = np.searchsorted(found.bin, voxels.bins_of(flat[view.objects.index]))
        share = np.bincount(entry, weights=1.0 / view.voxels[view.objects.owner], minlength=len(found.bin))
    overlap = np.round(share / FINEST) * FINEST
    return Histogram(found.bin, found.positives, found.negatives, overlap, found.lowest, found.highest)


def sums(view: MapView, measures: Sequence[Measure], slices: str) -> dict[str, Pair]:
    """Return what every measure leaves of a sample, except those that need the voxels of several samples together."""
    found: dict[str, Pair] = {}
    for level in ("sample", "slice"):
        ranked = [measure for measure in measures if measure.level == level and measure.quantity != "softIoU"]
        found |= _at_level(view, ranked, level, slices) if ranked else {}
    for measure in measures:
        if measure.quantity == "softIoU":
            found[measure.key] = (float(np.mean(soft(view, measure))), 1.0)
        elif measure.level == "dataset" and not measure.pooled:
            found[measure.key] = _parts(measure, *_called(view.scores, view.positive, measure))
    return found


def soft(view: MapView, measure: Measure) -> F64:
    """Return the soft IoU of every reference; of a sample without any, one number for the sample."""
    flat = view.scores.reshape(-1)
    inside = view.objects.sums(flat)
    background = max(float(flat.sum(dtype=np.float64)) - float(inside.sum()), 0.0)
    return softness.soft_overlap(
        inside, view.voxels.astype(np.float64), background, alpha=measure.alpha, variant=measure.variant
    )


def _parts_of(view: MapView, level: str, slices: str) -> Iterator[tuple[Scores, Flags]]:
    """Yield the scores and labels of the sample, or of its slices; a picture is one slice."""
    if level == "sample" or view.scores.ndim == 2:
        yield view.scores, view.positive
        return
    axis = view.scores.ndim - 1 - AXES.index(slices)
    for k in range(view.scores.shape[axis]):
        yield view.scores.take(k, axis), view.positive.take(k, axis)


def _at_level(view: MapView, measures: Sequence[Measure], level: str, slices: str) -> dict[str, Pair]:
    """Return the measures of one level; a sample or slice without a positive voxel has no value."""
    values: dict[str, list[float]] = {measure.key: [] for measure in measures}
    ranked = any(measure.threshold is None for measure in measures)
    for scores, positive in _parts_of(view, level, slices):
        if not positive.any():
            continue
        counted = _counted(view, scores, positive, level) if ranked else None
        for measure in measures:
            if measure.threshold is not None:
                top, bottom = _parts(measure, *_called(scores, positive, measure))
                values[measure.key].append(top / bottom)
            elif counted is not None:
                values[measure.key].append(float(value_of(counted, measure)[0]))
    defined = {key: [value for value in found if value == value] for key, found in values.items()}
    return {key: (float(sum(found)), float(len(found))) for key, found in defined.items()}


def _counted(view: MapView, scores: Scores, positive: Flags, level: str) -> Pooled:
    """Return the voxels counted by every distinct score; shares of references are those of the whole sample."""
    blocks = score_blocks.blocks(scores[positive], scores[~positive])
    share = np.zeros(len(blocks.values))
    if level == "sample":
        entry = np.searchsorted(blocks.values, view.scores.reshape(-1)[view.objects.index])
        share = np.bincount(entry, weights=1.0 / view.voxels[view.objects.owner], minlength=len(share))
    regions = np.array([float(view.objects.n)])
    return Pooled(blocks.positives[None], blocks.negatives[None], share[None], regions)


def _called(scores: Scores, positive: Flags, measure: Measure) -> tuple[int, int, int]:
    """Return the numbers of called voxels, of positive ones, and of those that are both."""
    called = scores >= measure.threshold
    return int(called.sum()), int(positive.sum()), int((called & positive).sum())


def _parts(measure: Measure, called: int, positive: int, both: int) -> Pair:
    """Return numerator and denominator of Dice or IoU."""
    if measure.quantity == "Dice":
        return 2.0 * both, float(called + positive)
    return float(both), float(called + positive - both)
