# SPDX-License-Identifier: Apache-2.0
"""The order of positive and negative cases by their score, of which many are silent, under many
weightings at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class CaseRanks:
    """Positive cases, and negative ones in ascending order; silent negative cases, mostly many, are
    one entry.
    """

    positive: I64  # (p,) cases
    negative: I64  # (q,) cases that are not silent, in ascending order
    silent: int  # place of the silent ones among the negative ones
    below: I64  # (p,) how many of the q + 1 negative entries lie below each positive case
    upto: I64  # (p,) how many lie below or level with it

    @classmethod
    def of(cls, score: F64, positive: Flags, silent: float) -> CaseRanks:
        """Rank cases (n,) by their scores; cases without one are at -inf and are ``silent``."""
        mute = np.isneginf(score)
        score = np.where(mute, silent, score)
        sick, well = np.flatnonzero(positive), np.flatnonzero(~positive & ~mute)
        well = well[np.argsort(score[well], kind="stable")]
        place = int(np.searchsorted(score[well], silent))
        entries = np.insert(score[well], place, silent)
        below, upto = (
            np.searchsorted(entries, score[sick], side=side) for side in ("left", "right")
        )
        return cls(sick, well, place, below.astype(np.int64), upto.astype(np.int64))

    def area(self, weights: NDArray[Any]) -> F64:
        """Return (R,): the weighted share of pairs in the right order, ties counting half; NaN
        without a pair.

        Whole numbers, so it is exact in any order.
        """
        by_case = weights.T
        sick = by_case[self.positive].astype(np.int64)  # (p, R)
        n_sick, n_all = sick.sum(axis=0), weights.sum(axis=1, dtype=np.int64)
        entries = np.zeros((len(self.negative) + 2, len(weights)), np.int64)
        here = np.arange(1, len(self.negative) + 1)
        entries[here + (here > self.silent)] = by_case[self.negative]
        n_well = n_all - n_sick
        entries[self.silent + 1] = n_well - entries.sum(axis=0)
        np.cumsum(entries, axis=0, out=entries)
        twice = np.einsum("ij,ij->j", sick, entries[self.below] + entries[self.upto])
        pairs = n_sick * n_well
        return np.asarray(
            np.divide(0.5 * twice, pairs, out=np.full(len(weights), np.nan), where=pairs > 0)
        )
