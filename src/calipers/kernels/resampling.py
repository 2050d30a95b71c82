# SPDX-License-Identifier: Apache-2.0
"""Blocks of weights: how often each unit was drawn, for all images and many replicates.

A block is a (R, n_images) array. Weights that fit into a byte are kept as bytes with the replicates of an image side by
side in memory, which is what the compiled kernels walk along; as an array it looks like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled, route

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Weights = NDArray[np.uint8] | I64

MOST = 255  # what a byte holds


def spread(drawn: Sequence[I64], n_units: int, code: I64) -> Weights:
    """Return (R, n_images) weights of the units drawn in each of R replicates; ``code`` is the unit of each image."""
    native = route.native()
    counts: Weights | None = compiled.draw_counts(native, drawn, n_units) if native is not None else None
    if counts is None:
        counts = _counts(drawn, n_units)
    alone = len(code) == n_units and bool((code == np.arange(n_units)).all())
    return (counts if alone else counts[code]).T


def cell_sums(cell: I32, image: I32, weights: NDArray[np.integer], n_cells: int) -> F64:
    """Return (R, n_cells): the weight of the objects of every cell; whole numbers, exact."""
    native = route.native()
    if native is not None and compiled.fit_lanes(weights, len(cell)):
        return compiled.cell_sums(native, cell, image, weights, n_cells)
    rows = [np.bincount(cell, weights=weight[image], minlength=n_cells) for weight in weights]
    return np.stack(rows) if rows else np.zeros((0, n_cells))


def _counts(drawn: Sequence[I64], n_units: int) -> Weights:
    """Return (n_units, R)."""
    counts = np.stack([np.bincount(entry, minlength=n_units) for entry in drawn], axis=1)
    return counts.astype(np.uint8) if counts.max(initial=0) <= MOST else counts
