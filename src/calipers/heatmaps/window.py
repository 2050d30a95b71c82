# SPDX-License-Identifier: Apache-2.0
"""The part of an array that holds something: what comes after works on it alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]


def window(mask: Flags) -> tuple[slice, ...] | None:
    """Return the smallest box that holds the mask, axis by axis; None if the mask is empty."""
    found = []
    for axis in range(mask.ndim):
        filled = np.flatnonzero(mask.any(axis=tuple(k for k in range(mask.ndim) if k != axis)))
        if not len(filled):
            return None
        found.append(slice(int(filled[0]), int(filled[-1]) + 1))
    return tuple(found)
