# SPDX-License-Identifier: Apache-2.0
"""The smallest box around a mask, so that later steps only work on that part of an array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]


def window(mask: Flags) -> tuple[slice, ...] | None:
    """Return the smallest box that holds the mask, axis by axis; None if the mask is empty."""
    sides = []
    for axis in range(mask.ndim):
        others = tuple(k for k in range(mask.ndim) if k != axis)
        places = np.flatnonzero(mask.any(axis=others))
        if not len(places):
            return None
        sides.append(slice(int(places[0]), int(places[-1]) + 1))
    return tuple(sides)
