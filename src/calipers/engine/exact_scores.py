# SPDX-License-Identifier: Apache-2.0
"""Values of the whole data set from the scores of all voxels, while they fit into memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calipers.engine.sample_measures import figure_of
from calipers.kernels import aupro, voxel_ranking
from calipers.metrics.measures import Measure

I64 = NDArray[np.int64]
Scores = NDArray[np.floating]

MOST_BYTES = 400_000_000  # of all models together


class ExactScores:
    """The scores of all voxels of every model; dropped as a whole when they become too many."""

    def __init__(self, *, needed: bool = True) -> None:
        self._parts: dict[str, list[tuple[Scores, Scores, I64]]] = {}
        self._bytes = 0
        self.given_up = not needed  # whether scores need not be handed over

    def add(self, model: str, scores: tuple[Scores, Scores, I64]) -> None:
        """Take the voxels of one sample: scores of positive and negative ones, and of the former,
        the object.
        """
        if self.given_up:
            return
        self._bytes += sum(part.nbytes for part in scores)
        if self._bytes > MOST_BYTES:
            self.given_up = True
            self._parts.clear()
            return
        self._parts.setdefault(model, []).append(scores)

    def values(self, model: str, measures: Sequence[Measure]) -> Mapping[str, float] | None:
        """Return the values of the measures on all voxels together, and free the scores."""
        parts = self._parts.pop(model, None)
        if not parts:
            return None
        positives, negatives, region = _join(parts)
        del parts
        values = {}
        for measure in measures:
            if measure.pooled and measure.quantity == "AUPRO":
                values[measure.key] = _aupro(positives, negatives, region, measure.limit)
        negatives.sort()  # only now: AUPRO puts them into an order of its own
        positives.sort()
        ends = (np.array([0, len(positives)]), np.array([0, len(negatives)]))
        sides = voxel_ranking.Sides(positives, negatives, *ends)
        ranking = voxel_ranking.ranking_figures(sides)
        for measure in measures:
            if measure.pooled and measure.key not in values:
                values[measure.key] = float(figure_of(measure, sides, ranking)[0])
        return values


def _join(parts: Sequence[tuple[Scores, Scores, I64]]) -> tuple[Scores, Scores, I64]:
    """Return the voxels of all samples; regions are numbered consecutively."""
    positives = np.concatenate([part[0] for part in parts])
    negatives = np.concatenate([part[1] for part in parts])
    kind = np.result_type(positives, negatives)
    n_regions = [int(part[2].max(initial=-1)) + 1 for part in parts]
    before = np.cumsum([0, *n_regions])
    region = np.concatenate([part[2] + n for part, n in zip(parts, before)])
    return positives.astype(kind, copy=False), negatives.astype(kind, copy=False), region


def _aupro(positives: Scores, negatives: Scores, region: I64, limit: float) -> float:
    if not len(region) or not len(negatives):
        return float("nan")
    return float(
        aupro.per_region(positives, negatives, region, int(region.max()) + 1, limit).mean()
    )
