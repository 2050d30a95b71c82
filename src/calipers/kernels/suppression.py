# SPDX-License-Identifier: Apache-2.0
"""Greedy suppression: a box stays unless a better one that stays overlaps it too much."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

UNDECIDED, STAYS, GOES = 0, 1, 2


def survivors(better: I64, worse: I64, n: int) -> Flags:
    """Return (n,) who stays, given all pairs in which ``better`` would suppress ``worse``.

    Notes
    -----
    Equals going through the boxes from the best to the worst. In rounds: who has no better rival
    left stays, and all that it would suppress go; there are as many rounds as the longest chain is
    long. "Better" must be an order.
    """
    state = np.zeros(n, np.int8)
    while len(better):
        threatened = np.zeros(n, np.bool_)
        threatened[worse] = True  # by a rival that is undecided, the others were dropped
        state[(state == UNDECIDED) & ~threatened] = STAYS
        state[worse[state[better] == STAYS]] = GOES
        open_ = (state[better] == UNDECIDED) & (state[worse] == UNDECIDED)
        better, worse = better[open_], worse[open_]
    return np.asarray(state != GOES)


def rank_of(offsets: I64, score: F64) -> I64:
    """Return (n,) the place of every box in its image from the best score on; of equal scores the
    earlier is better.
    """
    image = ragged.owners(offsets)
    order = np.lexsort((np.arange(len(score)), -score, image))
    rank = np.empty(len(score), np.int64)
    rank[order] = np.arange(len(score))
    return rank
