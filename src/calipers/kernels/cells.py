# SPDX-License-Identifier: Apache-2.0
"""Objects that share class and fates, counted together.

Under many views and replicates the fates of an object matter only through which views count it and
under which it is a hit. Few such patterns occur, so weights are summed up per (class, pattern)
first and spread over the views afterwards.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.matching import HIT, IGNORED

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]


class FateCells(NamedTuple):
    """The cell of every object, and what each cell stands for."""

    cell: I32  # (n,)
    image: I32  # (n,)
    label: I64  # (n_cells,) ascending
    flags: NDArray[np.bool_]  # (n_cells, V * 2) whether it is a hit, whether it is counted
    n_classes: int

    def totals(self, weights: NDArray[np.integer]) -> I64:
        """Return (R, V, 2, K): the weight of the hits and of all counted objects, for weights (R,
        n_images).
        """
        result = np.zeros((self.n_classes, len(weights), self.flags.shape[1]))
        rows = [
            np.bincount(self.cell, weights=weight[self.image], minlength=len(self.label))
            for weight in weights
        ]
        sums = np.stack(rows) if rows else np.zeros((0, len(self.label)))
        bounds = np.searchsorted(self.label, np.arange(self.n_classes + 1)).tolist()
        for k, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:  # whole numbers: exact in whatever order the product adds them up
                result[k] = sums[:, start:stop] @ self.flags[start:stop].astype(np.float64)
        by_class = result.astype(np.int64).reshape(self.n_classes, len(weights), -1, 2)
        return by_class.transpose(1, 2, 3, 0)

    def below(self, rank: I32, limit: int) -> FateCells:
        """Return the cells without the objects whose rank is at or above the limit; an empty rank
        leaves nobody out.
        """
        if not len(rank) or limit > rank.max(initial=0):
            return self
        rows = rank < limit
        return self._replace(cell=self.cell[rows], image=self.image[rows])

    def hitting(self) -> FateCells:
        """Return the cells without the objects that hit nothing."""
        rows = np.asarray(self.flags[:, ::2].any(axis=1))[self.cell]
        return self._replace(cell=self.cell[rows], image=self.image[rows])


def cells_of(fates: I8, label: I32, image: I64, n_classes: int) -> FateCells:
    """Return the cells of objects with fates (V, n)."""
    by_object = np.ascontiguousarray(fates.T)
    hit, counts = by_object == HIT, by_object != IGNORED
    words = np.concatenate([_words(hit), _words(counts)], axis=1)
    pattern = label.astype(np.int64)
    for word in words.T:
        code = _codes(word)
        # The class leads the pattern, so that cells stay in the order of classes.
        pattern = _codes(pattern * (int(code.max(initial=0)) + 1) + code)
    first = np.zeros(int(pattern.max(initial=-1)) + 1, np.int64)
    first[pattern] = np.arange(len(pattern))  # any of the objects that share a cell
    flags = np.stack([hit[first], counts[first]], axis=2).reshape(len(first), 2 * len(fates))
    return FateCells(
        pattern.astype(np.int32),
        image.astype(np.int32),
        label[first].astype(np.int64),
        flags,
        n_classes,
    )


def _codes(values: NDArray[np.integer]) -> I64:
    """Return the place of every value among the distinct ones, in ascending order."""
    # There are few: looking them up is quicker than sorting all values with their places.
    distinct = np.unique(values)
    return np.searchsorted(distinct, values)


def _words(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return (n, words): the flags of every row, 64 to a word."""
    packed = np.packbits(flags, axis=1)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)
