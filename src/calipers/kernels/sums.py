# SPDX-License-Identifier: Apache-2.0
"""Weighted sums and medians that are the same to the last bit in any order, under many weightings at once.

Floating point sums depend on the order of their terms. Here every number is split into three digits of 24 bits, whose
weighted sums are whole numbers below 2^53 and thus exact as long as the weights add up to less than 2^29. So a weight
of 2 is a duplicate, parts are the whole, and a matrix product may add as it likes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

BITS = 24  # of a digit
N_DIGITS = 3
CELLS_AT_ONCE = 2_000_000


def digits(values: F64) -> tuple[list[F64], int]:
    """Split numbers from 0 on into whole numbers below 2^24, the leading ones first, and their common exponent.

    ``values = sum(digit[k] * 2^(exponent - 24 (k + 1)))``, cut off at 2^-72 of the power of two above the largest.
    """
    exponent = int(np.frexp(values.max(initial=0.0))[1])
    rest = np.ldexp(values, -exponent)
    found = []
    for _ in range(N_DIGITS):
        rest = np.ldexp(rest, BITS)
        whole = np.floor(rest)
        found.append(whole)
        rest = rest - whole
    return found, exponent


def weighted_sums(values: F64, image: I64, column: NDArray[np.integer], weights: NDArray[Any], n_columns: int) -> F64:
    """Return (R, n_columns): the sums of ``weights[:, image] * values`` of the entries of every column.

    ``values`` (n,) are not negative, ``weights`` (R, n_images) whole numbers. Sums of nothing are 0.
    """
    parts, exponent = digits(values)
    n_images = weights.shape[1]
    step = max(1, CELLS_AT_ONCE // max(1, n_columns))
    totals = np.zeros((N_DIGITS, len(weights), n_columns))
    for start in range(0, n_images, step):
        stop = min(start + step, n_images)
        here = slice(None) if step >= n_images else np.flatnonzero((image >= start) & (image < stop))
        cell = (image[here] - start) * n_columns + column[here]
        weight = weights[:, start:stop].astype(np.float64)
        for k, digit in enumerate(parts):
            table = np.bincount(cell, weights=digit[here], minlength=(stop - start) * n_columns)
            totals[k] += weight @ table.reshape(stop - start, n_columns)
    low = np.ldexp(totals[1], exponent - 2 * BITS) + np.ldexp(totals[2], exponent - 3 * BITS)
    return np.asarray(np.ldexp(totals[0], exponent - BITS) + low)


def weighted_medians(values: F64, image: I64, weights: NDArray[Any]) -> F64:
    """Return (R,): the median of the values (n,), each repeated as often as its image weighs; NaN of nothing.

    Of an even number it is the mean of the two in the middle.
    """
    if not len(values):
        return np.full(len(weights), np.nan)
    order = np.argsort(values, kind="stable")
    held = values[order]
    upto = np.cumsum(weights[:, image[order]], axis=1, dtype=np.int64)
    total = upto[:, -1]
    lower, upper = (_position(upto, rank) for rank in ((total - 1) // 2, total // 2))
    middle = held[lower] + 0.5 * (held[upper] - held[lower])
    return np.where(total > 0, middle, np.nan)


def _position(upto: I64, rank: I64) -> I64:
    """Return (R,): the first position whose cumulative weight (R, n) exceeds the rank; the last if none does."""
    return np.asarray(np.minimum((upto <= rank[:, None]).sum(axis=1), upto.shape[1] - 1))
