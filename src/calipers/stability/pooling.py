# SPDX-License-Identifier: Apache-2.0
"""Four ways to pool the instances of a bag into one score of the whole bag.

``max`` the highest value; ``mean``; ``noisy-or`` 1 - prod(1 - p), computed as -sum log(1 - p),
which has the same order but does not saturate at 1 when many instances are nearly certain; ``lse``
log mean exp(p), which is close to the mean for probabilities.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean

F64 = NDArray[np.float64]

POOLINGS = ("max", "mean", "noisy-or", "lse")


def pool_maps(values: F64) -> F64:
    """Return (n_poolings, K): every pooling of the maps (K, N), as POOLINGS."""
    with np.errstate(divide="ignore"):
        unlikely = -np.log1p(-values).sum(axis=1)  # infinite if an instance is certain
    soft = np.log(np.exp(values).mean(axis=1))
    return np.stack([values.max(axis=1), values.mean(axis=1), unlikely, soft])


def check_pooling(name: str) -> None:
    """Raise for a pooling that does not exist."""
    if name not in POOLINGS:
        raise UsageError(f"no pooling {name!r}; {did_you_mean(name, POOLINGS)}")
