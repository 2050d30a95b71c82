# SPDX-License-Identifier: Apache-2.0
"""Wilcoxon's signed-rank test, one-sided, under whole-number weights: weight 2 is the same as
listing a case twice.

Differences of 0 are left out. Without equal differences and with at most 50 of them the p value is
exact; else it is that of the normal distribution, with the variance corrected for ties and without
a continuity correction.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

MOST_EXACT = 50


def signed_rank_p(differences: F64, weights: NDArray[Any]) -> F64:
    """Return (R, 2): p values for "larger than 0" and for "smaller than 0" of differences (n,)
    under weights (R, n).

    1 for both where no difference is left.
    """
    from scipy.special import ndtr

    nonzero = np.flatnonzero(differences != 0.0)
    size = np.abs(differences[nonzero])
    order = nonzero[np.argsort(size, kind="stable")]
    if not len(order):
        return np.ones((len(weights), 2))
    weight = np.asarray(weights)[:, order].astype(np.float64)
    # Equal differences share their mid-rank; weights are repetitions of a case.
    starts = np.flatnonzero(np.diff(np.abs(differences[order]), prepend=-1.0))
    tied = np.add.reduceat(weight, starts, axis=1)
    rank = np.cumsum(tied, axis=1) - tied + (tied + 1.0) / 2.0
    positive = np.add.reduceat(weight * (differences[order] > 0.0), starts, axis=1)
    total, n = (positive * rank).sum(axis=1), tied.sum(axis=1)
    variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - (tied**3 - tied).sum(axis=1) / 48.0
    z = np.divide(
        total - n * (n + 1.0) / 4.0, np.sqrt(variance), out=np.zeros(len(n)), where=variance > 0
    )
    result = np.where((n > 0)[:, None], np.stack([ndtr(-z), ndtr(z)], axis=1), 1.0)
    for r in np.flatnonzero((tied.max(axis=1) <= 1.0) & (n > 0) & (n <= MOST_EXACT)):
        upper = _upper_tail(int(n[r]))
        reached, top = round(total[r]), len(upper) - 1
        result[r] = upper[reached], upper[top - reached]
    return result


@lru_cache(maxsize=MOST_EXACT)
def _upper_tail(n: int) -> F64:
    """Return P(sum of the ranks that got a plus >= s) for s = 0 ... n (n + 1) / 2 when signs are
    thrown at random.
    """
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, n + 1):
        ways[rank:] = ways[rank:] + ways[:-rank]
    return np.asarray(np.cumsum(ways[::-1])[::-1] / 2.0**n)
