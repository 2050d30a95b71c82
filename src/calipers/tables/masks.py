# SPDX-License-Identifier: Apache-2.0
"""Run-length masks: which pixels or voxels belong to an object.

A run is a piece of one row: voxels that follow each other along x. Runs lie in the order of the voxels, never touch in
a row and never cross its end, so equal masks have equal runs. The voxel at x, y[, z] of an image of size
width, height[, depth] has the index ``(z * height + y) * width + x``, that of an array ``[z, ]y, x`` in C order. It
covers ``[x, x + 1)`` by ``[y, y + 1)`` and so on: masks and boxes share one system of coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Masks:
    """The masks of n objects; runs ``offsets[k]:offsets[k+1]`` belong to object k. Every mask has a voxel."""

    offsets: I64  # (n + 1,)
    start: I64  # (m,) index of the first voxel of a run in its image
    length: I64  # (m,) voxels, at least 1
    size: I64  # (n, 2|3) width, height[, depth] of the image of an object

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: I64 | Flags | slice) -> Masks:
        """Return the masks of some objects, in that order; a slice with step 1 copies nothing."""
        if isinstance(rows, slice):
            first, last, step = rows.indices(len(self))
            if step == 1:
                last = max(first, last)
                begin, end = int(self.offsets[first]), int(self.offsets[last])
                offsets = self.offsets[first : last + 1] - begin
                return Masks(offsets, self.start[begin:end], self.length[begin:end], self.size[first:last])
        chosen = np.arange(len(self))[rows]
        runs, offsets = ragged.take_rows(self.offsets, chosen)
        return Masks(offsets, self.start[runs], self.length[runs], self.size[chosen])

    @property
    def dimensions(self) -> int:
        """2 or 3."""
        return int(self.size.shape[1])

    @property
    def owner(self) -> I64:
        """(m,) object of every run."""
        return ragged.owners(self.offsets)

    @property
    def voxels(self) -> I64:
        """(n,) number of pixels or voxels."""
        total = np.concatenate([[0], np.cumsum(self.length)])
        return np.asarray(total[self.offsets[1:]] - total[self.offsets[:-1]])

    @classmethod
    def concat(cls, parts: Sequence[Masks]) -> Masks:
        """Return the masks of several tables, one below the other."""
        return cls(
            ragged.concat_offsets([part.offsets for part in parts]),
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.length for part in parts]),
            np.concatenate([part.size for part in parts]),
        )


def no_masks(dimensions: int = 2) -> Masks:
    """Return the masks of no object."""
    nothing = np.zeros(0, np.int64)
    return Masks(np.zeros(1, np.int64), nothing, nothing, np.zeros((0, dimensions), np.int64))
