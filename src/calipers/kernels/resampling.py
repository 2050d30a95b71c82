# SPDX-License-Identifier: Apache-2.0
"""Bootstrap weights, and weighted sums and medians that have the same bits in any order.

*Weights.* A block is a (R, n_images) array: how often each image was drawn in each of R replicates.
`uniform_counts` draws units (patients), `image_weights` hands their counts on to images. Weights
that fit into a byte are kept as bytes with the replicates of an image side by side in memory, which
is what the compiled kernels walk along; as an array it looks like any other. Every replicate has a
generator of its own, so replicates may be computed in any order and in any blocks.

*Sums.* Floating point sums depend on the order of their terms. `SumTable` splits every number into
three digits of 24 bits, whose weighted sums are whole numbers below 2^53 and thus exact as long as
the weights add up to less than 2^29. So a weight of 2 is a duplicate, parts are the whole, and a
matrix product may add as it likes. `MedianTable` sorts once and counts weights.

`calipers.statistics.weights` and metrics of real-valued quantities are the callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64
from calipers.errors import UsageError
from calipers.kernels import route

Weights = NDArray[np.uint8] | I64

MOST = 255  # what a byte holds
MOST_UNITS = 2**31  # the compiled route draws 32 bits at a time
# Of random bits, for rejected draws; see `uniform_counts`.
SPARE_WORDS = 16

BITS = 24  # of a digit
N_DIGITS = 3  # 72 bits: more than the 53 of a float64
AT_ONCE = 100_000  # cells whose weights are laid out together
BLOCK = 256  # values of a median that are looked at together


def check_seed(seed: Any) -> None:
    """Raise for a seed that the generator does not take."""
    # A duration is an integer to NumPy.
    is_integer = isinstance(seed, int | np.integer) and not isinstance(seed, bool | np.timedelta64)
    if not is_integer or not 0 <= seed < 2**64:
        raise UsageError(f"a seed is a whole number from 0 to 2^64 - 1, got {str(seed)[:80]}")


def generator(seed: int, replicate: int) -> np.random.Generator:
    """Return the random numbers of one replicate."""
    return np.random.Generator(_bits(seed, replicate))


def uniform_counts(seed: int, replicates: Sequence[int], n_units: int) -> Weights:
    """Return (n_units, R): how often each unit is among ``n_units`` draws of every replicate.

    The draws are those of ``generator(seed, b).integers(0, n_units, n_units)``, on the compiled
    route made from the raw random bits in the same way.
    """
    native = route.native()
    if native is not None and 1 < n_units < MOST_UNITS:
        # Spare bits, because some draws are rejected: the bits do not divide evenly.
        spare = SPARE_WORDS + 4 * n_units**2 // 2**32
        words = (n_units + 1) // 2 + spare
        raw = (route.random_words(native, _key(seed, b), words) for b in replicates)
        weights = route.uniform_counts(native, raw, len(replicates), n_units)
        if weights is not None:
            return weights
    draws = (generator(seed, b).integers(0, n_units, n_units) for b in replicates)
    return counts(draws, len(replicates), n_units)


def counts(draws: Iterable[I64], n_replicates: int, n_units: int) -> Weights:
    """Return (n_units, R): how often each unit was drawn in each of R replicates, which are looked
    at one by one.
    """
    weights: Weights = np.zeros((n_replicates, n_units), np.uint8)
    for row, entry in enumerate(draws):
        exact = np.bincount(entry, minlength=n_units)
        # Rare: one unit drawn more than 255 times widens the whole block.
        if exact.max(initial=0) > MOST:
            weights = weights.astype(np.int64)
        weights[row] = exact
    return weights.T.copy()


def image_weights(unit_counts: Weights, code: I64) -> Weights:
    """Return (R, n_images): the weights of images, given those of units (n_units, R) and the unit
    of each image.
    """
    alone = len(code) == len(unit_counts) and bool((code == np.arange(len(code))).all())
    return (unit_counts if alone else unit_counts[code]).T


def _bits(seed: int, replicate: int) -> np.random.Philox:
    return np.random.Philox(key=_key(seed, replicate))


def _key(seed: int, replicate: int) -> NDArray[np.uint64]:
    check_seed(seed)
    # As an array: a list of large numbers would become float.
    return np.array([seed, replicate], np.uint64)


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
            # A piece may begin and end in the middle of a column; sums of whole numbers do not
            # mind.
            first, last = np.searchsorted(self.edges, [start, stop - 1], side="right") - 1
            for c in range(first, last + 1):
                a, b = max(int(self.edges[c]), start), min(int(self.edges[c + 1]), stop)
                totals[c] += self.digits[:, a:b] @ weight[a - start : b - start]
        # (column, digit, replicate) -> a table (column, replicate) for every digit.
        return np.ascontiguousarray(joined(np.moveaxis(totals, 1, 0), self.exponent).T)


def exact_product(weights: NDArray[Any], table: F64) -> F64:
    """Return the product of whole numbers (R, n) and finite numbers (n, k) that does not depend on
    the order of its sums.

    A library for matrices adds in the order that suits the processor, and the last digits follow.
    Whole numbers below 2^53 have no such digits.
    """
    if (table < 0).any():
        above, below = np.maximum(table, 0.0), np.maximum(-table, 0.0)
        return exact_product(weights, above) - exact_product(weights, below)
    parts, exponent = digits(np.asarray(table, np.float64).reshape(-1))
    return joined(products(weights, [part.reshape(table.shape) for part in parts]), exponent)


def products(weights: NDArray[Any], parts: Iterable[Any]) -> list[F64]:
    """Return the product of weights with each of several tables, dense or sparse."""
    w = weights.astype(np.float64)
    return [np.asarray(w @ part) for part in parts]


def joined(totals: Sequence[F64] | F64, exponent: int) -> F64:
    """Return the numbers whose digits, as `digits` gives them, have these sums."""
    parts = []
    for k in range(N_DIGITS):
        parts.append(np.ldexp(totals[k], exponent - BITS * (k + 1)))
    high, middle, low = parts
    # The smaller parts first: one rounding of the low digits, one of the whole.
    return np.asarray(high + (middle + low))


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
        # An odd number has one middle, which both ranks hit; then the mean is exact.
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
