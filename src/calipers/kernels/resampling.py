# SPDX-License-Identifier: Apache-2.0
"""Blocks of weights: how often each unit was drawn, for all images and many replicates.

A block is a (R, n_images) array. Weights that fit into a byte are kept as bytes with the replicates of an image side by
side in memory, which is what the compiled kernels walk along; as an array it looks like any other.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled, route

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Weights = NDArray[np.uint8] | I64

MOST = 255  # what a byte holds


def spread(drawn: Iterable[I64], n_replicates: int, n_units: int, code: I64) -> Weights:
    """Return (R, n_images) weights of the units drawn in each of R replicates; ``code`` is the unit of each image.

    Replicates are counted one after the other as they come, so that only one of them is in memory as draws.
    """
    native, counts = route.native(), np.zeros((n_replicates, n_units), np.uint8)
    for row, entry in enumerate(drawn):
        if native is not None and counts.dtype == np.uint8 and compiled.count_draws(native, entry, counts[row]):
            continue
        exact = np.bincount(entry, minlength=n_units)
        if exact.max(initial=0) > MOST:
            counts = counts.astype(np.int64)
        counts[row] = exact
    turned = compiled.turned(native, counts) if native is not None and counts.dtype == np.uint8 else counts.T.copy()
    alone = len(code) == n_units and bool((code == np.arange(n_units)).all())
    return (turned if alone else turned[code]).T


def cell_sums(cell: I32, image: I32, weights: NDArray[np.integer], n_cells: int) -> F64:
    """Return (R, n_cells): the weight of the objects of every cell; whole numbers, exact."""
    native = route.native()
    if native is not None and compiled.fit_lanes(weights, len(cell)):
        return compiled.cell_sums(native, cell, image, weights, n_cells)
    rows = [np.bincount(cell, weights=weight[image], minlength=n_cells) for weight in weights]
    return np.stack(rows) if rows else np.zeros((0, n_cells))
