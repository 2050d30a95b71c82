# SPDX-License-Identifier: Apache-2.0
"""The compiled twins for pairs of maps, with the signatures of their NumPy kernels. Nothing here
computes.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.route import threads

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Flags = NDArray[np.bool_]


def places(native: ModuleType, values: F64) -> tuple[I32, I32, I32]:
    """Twin of `rank_rows.places`."""
    order, below, doubled = (np.empty(values.shape, np.int32) for _ in range(3))
    native.row_places(values, len(values), order, below, doubled, threads())
    return order, below, doubled


def discordant(
    native: ModuleType, order: I32, below: I32, tied: Flags, first: I64, second: I64
) -> tuple[I64, I64]:
    """Twin of `kendall.discordant`."""
    inversions, joint = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
    native.kendall_pairs(
        order, below, tied.view(np.uint8), first, second, inversions, joint, threads()
    )
    return inversions, joint


def joint_counts(native: ModuleType, values: F64, thresholds: F64) -> tuple[I64, I64, I64]:
    """Twin of `pairwise.joint_counts`."""
    n, n_thresholds = len(values), len(thresholds)
    shapes = (n, n * (n - 1) // 2, n + 1)
    ones, both, votes = (np.zeros((n_thresholds, width), np.int64) for width in shapes)
    native.joint_counts(values, n, thresholds, ones, both, votes, threads())
    return ones, both, votes
