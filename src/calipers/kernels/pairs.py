# SPDX-License-Identifier: Apache-2.0
"""Candidate pairs: every reference with every prediction of its image, or image and class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled, overlap, ragged, route

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Flags = NDArray[np.bool_]

DENSE_CELLS = 20_000_000  # above this many cells a search is cheaper than a table


def cells(offsets: I64, label: I32, n_classes: int) -> I64:
    """Return the cell of every object; with ``n_classes`` 0 the classes do not matter and cells are
    images.
    """
    image = ragged.owners(offsets)
    return image * n_classes + label if n_classes else image


def all_pairs(
    reference_offsets: I64,
    reference_label: I32,
    prediction_offsets: I64,
    prediction_label: I32,
    n_classes: int,
) -> tuple[I64, I64]:
    """Return (reference, prediction) of every pair of one cell, sorted by prediction, then
    reference.
    """
    order, starts, counts = _partners(
        reference_offsets, reference_label, prediction_offsets, prediction_label, n_classes
    )
    return order[ragged.spans(starts, counts)], np.repeat(np.arange(len(prediction_label)), counts)


def rivals(offsets: I64, label: I32, n_classes: int, most: int) -> tuple[I64, I64] | None:
    """Return (other, mine) of all ordered pairs of a cell, each with itself too; None if more than
    ``most``.
    """
    order, starts, counts = _partners(offsets, label, offsets, label, n_classes)
    if counts.sum() > most:
        return None
    return order[ragged.spans(starts, counts)], np.repeat(np.arange(len(label)), counts)


def _partners(
    reference_offsets: I64,
    reference_label: I32,
    prediction_offsets: I64,
    prediction_label: I32,
    n_classes: int,
) -> tuple[I64, I64, I64]:
    """Return references sorted by cell and, for every prediction, where those of its cell begin and
    how many.
    """
    reference_cell = cells(reference_offsets, reference_label, n_classes)
    prediction_cell = cells(prediction_offsets, prediction_label, n_classes)
    order = np.argsort(reference_cell, kind="stable")
    n_cells = (len(reference_offsets) - 1) * max(n_classes, 1)
    if n_cells > DENSE_CELLS:
        return order, *ragged.matching_spans(reference_cell[order], prediction_cell)
    counts = np.bincount(reference_cell, minlength=n_cells)
    return order, (np.cumsum(counts) - counts)[prediction_cell], counts[prediction_cell]


def overlapping(
    reference: tuple[I64, I32, F64, F64],
    prediction: tuple[I64, I32, F64, F64],
    crowd: Flags,
    n_classes: int,
) -> tuple[I32, I32, F64]:
    """Return (reference, prediction, IoU) of the pairs that overlap, sorted by prediction, then
    reference.

    Each side is (offsets, label, boxes (n, 2 d), extent). The similarity to a crowd is the share of
    the prediction that it covers, as in COCO.
    """
    native = route.native()
    if native is not None:
        return compiled.overlapping(native, reference, prediction, crowd, n_classes)
    row, column = all_pairs(reference[0], reference[1], prediction[0], prediction[1], n_classes)
    a, b = gather(reference[2], row), gather(prediction[2], column)
    common = overlap.intersection(a, b)
    near = np.flatnonzero(common > 0)
    row, column, common = row[near], column[near], common[near]
    own, other = prediction[3][column], reference[3][row]
    similarity = common / np.where(crowd[row], own, other + own - common)
    return row.astype(np.int32), column.astype(np.int32), similarity


def gather(boxes: F64, rows: I64) -> F64:
    """Return the corners of some rows as contiguous columns, (2 d, n)."""
    return np.stack([column[rows] for column in np.ascontiguousarray(boxes.T)])
