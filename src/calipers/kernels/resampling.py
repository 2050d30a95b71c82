# SPDX-License-Identifier: Apache-2.0
"""Blocks of weights: how often each unit was drawn, for all images and many replicates.

A block is a (R, n_images) array. Weights that fit into a byte are kept as bytes with the replicates of an image side by
side in memory, which is what the compiled kernels walk along; as an array it looks like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Weights = NDArray[np.uint8] | I64

MOST = 255  # what a byte holds


def spread(drawn: Sequence[I64], n_units: int, code: I64) -> Weights:
    """Return (R, n_images) weights of the units drawn in each of R replicates; ``code`` is the unit of each image."""
    counts = _counts(drawn, n_units)
    alone = len(code) == n_units and bool((code == np.arange(n_units)).all())
    return (counts if alone else counts[code]).T


def _counts(drawn: Sequence[I64], n_units: int) -> Weights:
    """Return (n_units, R)."""
    counts = np.stack([np.bincount(entry, minlength=n_units) for entry in drawn], axis=1)
    return counts.astype(np.uint8) if counts.max(initial=0) <= MOST else counts
