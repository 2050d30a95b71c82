# SPDX-License-Identifier: Apache-2.0
"""Weighted sums and medians that are the same to the last bit in any order, under many weightings
at once.

Floating point sums depend on the order of their terms. Here every number is split into three digits
of 24 bits, whose weighted sums are whole numbers below 2^53 and thus exact as long as the weights
add up to less than 2^29. So a weight of 2 is a duplicate, parts are the whole, and a matrix product
may add as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

BITS = 24  # of a digit
N_DIGITS = 3
AT_ONCE = 100_000  # cells whose weights are laid out together
BLOCK = 256  # values of a median that are looked at together


@dataclass(frozen=True)
class SumTable:
    """Numbers with the image and the column that they belong to, split and ordered once for all
    weights.
    """

    digits: F64  # (N_DIGITS, n) whole numbers
    exponent: int
    image: I64  # (n,)
    edges: I64  # (n_columns + 1,) the entries of column c are edges[c]:edges[c + 1]

    @classmethod
    def of(cls, values: F64, image: I64, column: NDArray[np.integer], n_columns: int) -> SumTable:
        """Return the table of numbers (n,) from 0 on."""
        order = np.argsort(column, kind="stable")
        parts, exponent = digits(values[order])
        edges = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=n_columns))])
        return cls(parts, exponent, image[order], edges.astype(np.int64))

    def sums(self, weights: NDArray[Any]) -> F64:
        """Return (R, n_columns): the sums of ``weights[:, image] * values`` in every column; of
        nothing 0.

        ``weights`` are whole numbers (R, n_images).
        """
        by_image = weights.T
        totals = np.zeros((len(self.edges) - 1, N_DIGITS, len(weights)))
        for start in range(0, len(self.image), AT_ONCE):
            stop = min(start + AT_ONCE, len(self.image))
            weight = by_image[self.image[start:stop]].astype(np.float64)
            first, last = np.searchsorted(self.edges, [start, stop - 1], side="right") - 1
            for c in range(first, last + 1):
                a, b = max(int(self.edges[c]), start), min(int(self.edges[c + 1]), stop)
                totals[c] += self.digits[:, a:b] @ weight[a - start : b - start]
        high, *low = (
            np.ldexp(totals[:, k], self.exponent - BITS * (k + 1)) for k in range(N_DIGITS)
        )
        return np.ascontiguousarray((high + (low[0] + low[1])).T)


def digits(values: F64) -> tuple[F64, int]:
    """Split numbers from 0 on into whole numbers below 2^24, the leading ones first, and their
    common exponent.

    ``values = sum(digit[k] * 2^(exponent - 24 (k + 1)))``, cut off at 2^-72 of the power of two
    above the largest.
    """
    exponent = int(np.frexp(values.max(initial=0.0))[1])
    rest = np.ldexp(values, -exponent)
    result = np.empty((N_DIGITS, len(values)))
    for k in range(N_DIGITS):
        rest = np.ldexp(rest, BITS)
        result[k] = np.floor(rest)
        rest = rest - result[k]
    return result, exponent


@dataclass(frozen=True)
class MedianTable:
    """Numbers in ascending order with the image that they belong to."""

    values: F64  # (n,)
    image: I64  # (n,)

    @classmethod
    def of(cls, values: F64, image: I64) -> MedianTable:
        """Sort numbers (n,)."""
        order = np.argsort(values, kind="stable")
        return cls(values[order], image[order])

    def medians(self, weights: NDArray[Any]) -> F64:
        """Return (R,): the median of the values, each repeated as often as its image weighs; NaN of
        nothing.

        Of an even number it is the mean of the two in the middle.
        """
        if not len(self.values):
            return np.full(len(weights), np.nan)
        starts = np.arange(0, len(self.values), BLOCK)
        of_block = np.add.reduceat(weights.T[self.image], starts, axis=0, dtype=np.int64)
        upto = np.cumsum(of_block, axis=0)  # (n_blocks, R)
        total = upto[-1]
        lower, upper = (self._at(rank, upto, weights) for rank in ((total - 1) // 2, total // 2))
        return np.where(total > 0, lower + 0.5 * (upper - lower), np.nan)

    def _at(self, rank: I64, upto: I64, weights: NDArray[Any]) -> F64:
        """Return (R,): the values at the given places among the repeated ones, counted from 0."""
        replicate = np.arange(len(rank))
        block = np.minimum((upto <= rank).sum(axis=0), len(upto) - 1)
        before = np.where(block > 0, upto[np.maximum(block - 1, 0), replicate], 0)
        # The (R, BLOCK) places of the block that contains the rank.
        place = np.minimum(block[:, None] * BLOCK + np.arange(BLOCK), len(self.values) - 1)
        inside = np.cumsum(weights[replicate[:, None], self.image[place]], axis=1, dtype=np.int64)
        step = np.minimum((inside <= (rank - before)[:, None]).sum(axis=1), BLOCK - 1)
        return np.asarray(self.values[place[replicate, step]])
