# SPDX-License-Identifier: Apache-2.0
"""Are these the runs of masks: in order, inside of their image, within their rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
MOST_VOXELS = 1 << 40  # of one image


def sound_runs(offsets: I64, start: I64, length: I64, size: I64) -> Flags:
    """Return which of n objects have runs as `calipers.tables.masks.Masks` holds them.

    At least one run; each has a voxel, lies in the image and ends with its row; they ascend, and
    two of one row do not touch, so that there is one way only to write a mask. Sizes are (n, d)
    width, height[, depth] of at least 1.
    """
    sides = np.asarray((size >= 1).all(axis=1))
    sides &= np.prod(np.maximum(size, 1).astype(np.float64), axis=1) <= MOST_VOXELS
    frame = np.where(sides[:, None], size, 1)
    owner = ragged.owners(offsets)
    width, voxels = frame[owner, 0], np.prod(frame, axis=1)[owner]
    bad = (length < 1) | (start < 0) | (length > width) | (start >= voxels)
    first = np.where(bad, 0, start)
    after = first + np.where(bad, 1, length)
    bad |= first % width + (after - first) > width
    same = owner[1:] == owner[:-1]
    bad[1:] |= same & (first[1:] < after[:-1])
    bad[1:] |= same & (first[1:] == after[:-1]) & (first[1:] % width[1:] != 0)
    return np.asarray(
        sides & (np.diff(offsets) > 0) & (np.bincount(owner[bad], minlength=len(size)) == 0)
    )
