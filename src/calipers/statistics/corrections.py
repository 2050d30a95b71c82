# SPDX-License-Identifier: Apache-2.0
"""Many tests at once: p values adjusted so that chance has no more say than in one test.

``holm`` bounds the probability of one or more false claims in the whole family; ``bh`` (Benjamini
and Hochberg) the expected share of false ones among the claims, for exploration; ``none`` adjusts
nothing. A test without a p value is no member of the family: it stays NaN and the family shrinks,
which the size that is returned tells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean

F64 = NDArray[np.float64]

CORRECTIONS = ("holm", "bh", "none")


def adjusted(p: F64, correction: str = "holm") -> tuple[F64, int]:
    """Return the adjusted p values, in the order given, and how many tests the family has.

    Examples
    --------
    >>> import numpy as np
    >>> from calipers.statistics.corrections import adjusted
    >>> values, family = adjusted(np.array([0.01, 0.04, np.nan, 0.03]))
    >>> values.tolist(), family
    ([0.03, 0.06, nan, 0.06], 3)
    """
    if correction not in CORRECTIONS:
        raise UsageError(f"no correction {correction!r}; {did_you_mean(correction, CORRECTIONS)}")
    result = np.array(p, np.float64)
    # A test without a p value was not made: it is no member of the family.
    members = np.flatnonzero(~np.isnan(result))
    m = len(members)
    order = members[np.argsort(result[members], kind="stable")]
    rising = result[order]
    if correction == "holm":
        rising = np.maximum.accumulate((m - np.arange(m)) * rising)
    elif correction == "bh":
        rising = np.minimum.accumulate((m / np.arange(1, m + 1) * rising)[::-1])[::-1]
    result[order] = np.minimum(rising, 1.0)
    return result, m
