# SPDX-License-Identifier: Apache-2.0
"""Collect the voxel histograms of many samples, one after the other, within a limit of memory.

Used by `sample_cohort` and by the choice of thresholds (`map_thresholds`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calipers.engine.sample_measures import VoxelHistogram
from calipers.kernels import ragged
from calipers.tables.maps import BINS, COUNTED, Histograms

# of the histograms of a model, 640 MB; with more, neighbouring bins are joined
MOST_ENTRIES = 20_000_000


class GatheredHistograms:
    """The histograms of the maps of one model. Where they grow too large, bins are joined on the
    way.
    """

    def __init__(self) -> None:
        self._settled = _no_histograms()
        self._waiting: list[VoxelHistogram] = []
        self._entries = 0

    def add(self, histogram: VoxelHistogram) -> None:
        """Add one more sample."""
        self._waiting.append(histogram)
        self._entries += len(histogram.bin)
        if self._entries > MOST_ENTRIES:
            self.settled()

    def settled(self) -> Histograms:
        """Return the histograms of all samples so far, in bins wide enough for the memory."""
        histograms = Histograms.concat([self._settled, _join(self._waiting)])
        self._waiting.clear()
        while len(histograms.bin) > MOST_ENTRIES // 2:
            histograms = histograms.coarsened(histograms.shift + 1)
        self._settled, self._entries = histograms, len(histograms.bin)
        return histograms


def _no_histograms() -> Histograms:
    nothing = np.zeros(0, np.int64)
    columns = (nothing.astype(np.int32), nothing, nothing, np.zeros(0))
    return Histograms(
        np.zeros(1, np.int64), *columns, np.full(BINS, np.inf), np.full(BINS, -np.inf)
    )


def _join(parts: Sequence[VoxelHistogram]) -> Histograms:
    """Return the histograms of several samples, with the extremes of every bin."""
    nothing = _no_histograms()
    if not parts:
        return nothing
    lowest, highest = nothing.lowest, nothing.highest
    for part in parts:  # a bin occurs once in a sample, so that no entry is overwritten
        lowest[part.bin] = np.minimum(lowest[part.bin], part.lowest)
        highest[part.bin] = np.maximum(highest[part.bin], part.highest)
    columns: dict[str, Any] = {}
    for name in ("bin", *COUNTED):
        columns[name] = np.concatenate([getattr(part, name) for part in parts])
    offsets = ragged.from_counts(np.array([len(part.bin) for part in parts], np.int64))
    return Histograms(offsets=offsets, lowest=lowest, highest=highest, **columns)
