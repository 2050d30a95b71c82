# SPDX-License-Identifier: Apache-2.0
"""Blocks of weights: how often each unit was drawn, for all images and many replicates.

A block is a (R, n_images) array. Weights that fit into a byte are kept as bytes with the replicates
of an image side by side in memory, which is what the compiled kernels walk along; as an array it
looks like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.kernels import compiled, route

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Weights = NDArray[np.uint8] | I64

MOST = 255  # what a byte holds
MOST_UNITS = 2**31
SPARE_WORDS = 16


def check_seed(seed: Any) -> None:
    """Raise for a seed that the generator does not take."""
    is_integer = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
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
        raw = (_bits(seed, b).random_raw(words) for b in replicates)
        weights = compiled.uniform_counts(native, raw, len(replicates), n_units)
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
    check_seed(seed)
    # As an array: a list of large numbers would become float.
    return np.random.Philox(key=np.array([seed, replicate], np.uint64))
