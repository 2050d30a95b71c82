# SPDX-License-Identifier: Apache-2.0
"""Objects that share class and fates, counted together.

Under many views and replicates the fates of an object matter only through which views count it and under which it is a
hit. Few such patterns occur, so weights are summed up per (class, pattern) first and spread over the views afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.matching import HIT, IGNORED

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]


class Cells(NamedTuple):
    """The cell of every object, and what each cell stands for."""

    cell: I32  # (n,)
    image: I32  # (n,)
    label: I64  # (n_cells,) ascending
    flags: F64  # (n_cells, V * 2) 1 where it is a hit, 1 where it is counted
    n_classes: int

    def expanded(self, sums: F64) -> I64:
        """Return (R, V, 2, K) of the weights (R, n_cells) of the cells."""
        n_views = self.flags.shape[1] // 2
        result = np.zeros((len(sums), self.n_classes, n_views, 2))
        bounds = np.searchsorted(self.label, np.arange(self.n_classes + 1))
        for k, (start, stop) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist())):
            if start < stop:  # whole numbers: exact in whatever order the product adds them up
                result[:, k] = (sums[:, start:stop] @ self.flags[start:stop]).reshape(-1, n_views, 2)
        return np.moveaxis(result, 1, 3).astype(np.int64)


def cells_of(fates: I8, label: I32, rank: I32, limit: int, image: I64, n_classes: int) -> Cells:
    """Return the cells of objects with fates (V, n); those with a rank at or above the limit are in none."""
    if len(rank) and limit <= rank.max(initial=0):
        kept = np.flatnonzero(rank < limit)
        fates, label, image = fates[:, kept], label[kept], image[kept]
    by_object = np.ascontiguousarray(fates.T)
    hit, counted = by_object == HIT, by_object != IGNORED
    words = np.concatenate([_words(hit), _words(counted)], axis=1)
    pattern = label.astype(np.int64)
    for word in words.T:
        values, code = np.unique(word, return_inverse=True)
        pattern = np.unique(pattern * len(values) + code, return_inverse=True)[
            1
        ]  # class first: cells stay in its order
    first = np.unique(pattern, return_index=True)[1]
    flags = np.stack([hit[first], counted[first]], axis=2).reshape(len(first), 2 * len(fates)).astype(np.float64)
    return Cells(pattern.astype(np.int32), image.astype(np.int32), label[first].astype(np.int64), flags, n_classes)


def _words(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return (n, words): the flags of every row, 64 to a word."""
    packed = np.packbits(flags, axis=1)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)
