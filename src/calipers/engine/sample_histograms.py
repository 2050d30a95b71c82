# SPDX-License-Identifier: Apache-2.0
"""The voxels of many samples, counted by score: gathered one sample after the other, and held
small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calipers.engine.sample_measures import Histogram
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
        self._waiting: list[Histogram] = []
        self._entries = 0

    def add(self, found: Histogram) -> None:
        """Take one more sample."""
        self._waiting.append(found)
        self._entries += len(found.bin)
        if self._entries > MOST_ENTRIES:
            self.settled()

    def settled(self) -> Histograms:
        """Join what waits with what is there, in bins wide enough to be held; return it."""
        joined = Histograms.concat([self._settled, _joined(self._waiting)])
        self._waiting.clear()
        while len(joined.bin) > MOST_ENTRIES // 2:
            joined = joined.coarsened(joined.shift + 1)
        self._settled, self._entries = joined, len(joined.bin)
        return joined


def _no_histograms() -> Histograms:
    nothing = np.zeros(0, np.int64)
    columns = (nothing.astype(np.int32), nothing, nothing, np.zeros(0))
    return Histograms(
        np.zeros(1, np.int64), *columns, np.full(BINS, np.inf), np.full(BINS, -np.inf)
    )


def _joined(parts: Sequence[Histogram]) -> Histograms:
    """Return the histograms of several samples, with the extremes of every bin."""
    empty = _no_histograms()
    for part in parts:  # the bins of one sample differ
        empty.lowest[part.bin] = np.minimum(empty.lowest[part.bin], part.lowest)
        empty.highest[part.bin] = np.maximum(empty.highest[part.bin], part.highest)
    if not parts:
        return empty
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in ("bin", *COUNTED)
    }
    offsets = ragged.from_counts(np.array([len(part.bin) for part in parts], np.int64))
    return Histograms(offsets=offsets, lowest=empty.lowest, highest=empty.highest, **columns)
