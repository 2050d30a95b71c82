# SPDX-License-Identifier: Apache-2.0
"""Values of the whole data set from the scores of all voxels, while they fit into memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import score_blocks
from calipers.metrics.measures import Measure
from calipers.metrics.pooling import Pooled, value_of

F64 = NDArray[np.float64]
Scores = NDArray[np.floating]

MOST_BYTES = 400_000_000  # of all models together


class ExactScores:
    """The scores of all voxels of every model; given up as a whole when they become too many."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[Scores, Scores, F64]]] = {}
        self._bytes = 0
        self.given_up = False

    def add(self, model: str, scores: tuple[Scores, Scores, F64]) -> None:
        """Take the voxels of one sample: scores of positive and negative ones, and shares of references."""
        if self.given_up:
            return
        self._bytes += sum(part.nbytes for part in scores)
        if self._bytes > MOST_BYTES:
            self.given_up = True
            self._held.clear()
            return
        self._held.setdefault(model, []).append(scores)

    def values(self, model: str, regions: int, measures: Sequence[Measure]) -> Mapping[str, float] | None:
        """Return the values of the measures that look at all voxels together, and let go of the scores."""
        parts = self._held.pop(model, None)
        if not parts:
            return None
        positives, negatives, share = (np.concatenate(column) for column in zip(*parts))
        del parts
        found = score_blocks.blocks(positives, negatives)
        overlap = np.bincount(np.searchsorted(found.values, positives), weights=share, minlength=len(found.values))
        number = np.array([float(regions)])
        counted = Pooled(found.positives[None], found.negatives[None], overlap[None], number)
        return {m.key: float(value_of(counted, m)[0]) for m in measures if m.pooled}
