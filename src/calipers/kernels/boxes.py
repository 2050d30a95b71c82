# SPDX-License-Identifier: Apache-2.0
"""Axis-aligned boxes: geometry of pairs, and candidate pairs of a cell.

*Geometry.* Functions of two tables compare row k of the first with row k of the second. Boxes come
as columns, ``(2 d, n)`` with all low corners first (``x0 y0 [z0] x1 y1 [z1]``), because a gather of
contiguous columns is several times faster than one of rows; `gather` makes them. Results are
``(n,)`` float64.

*Candidate pairs.* `all_pairs`, `rivals` and `overlapping` list the pairs of one cell: an image, or
an image and class. `calipers.matching` and `kernels.rodeo` are the callers; `overlapping` has a
compiled twin.

Generalised IoU: H. Rezatofighi et al., CVPR 2019. Distance and complete IoU: Z. Zheng et al.,
AAAI 2020.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I32, I64, Flags
from calipers.kernels import ragged, route

PAIRS_AT_ONCE = 1 << 20
DENSE_CELLS = 20_000_000  # above this many cells a search is cheaper than a table


def sides(boxes: F64) -> F64:
    """Return the (d, n) sides."""
    half = len(boxes) // 2
    return boxes[half:] - boxes[:half]


def centres(boxes: F64) -> F64:
    """Return the (d, n) centres."""
    half = len(boxes) // 2
    return (boxes[:half] + boxes[half:]) / 2.0


def intersection(a: F64, b: F64) -> F64:
    """Return the common area (volume); every factor is clamped at 0, so two gaps never make an
    overlap.
    """
    half = len(a) // 2
    common: F64 = np.maximum(np.minimum(a[half], b[half]) - np.maximum(a[0], b[0]), 0.0)
    for k in range(1, half):
        common *= np.maximum(np.minimum(a[half + k], b[half + k]) - np.maximum(a[k], b[k]), 0.0)
    return common


def iou(a: F64, b: F64, extent_a: F64, extent_b: F64) -> F64:
    """Return intersection over union."""
    common = intersection(a, b)
    return np.asarray(common / (extent_a + extent_b - common))


def giou(a: F64, b: F64, extent_a: F64, extent_b: F64) -> F64:
    """Return the generalised IoU: IoU - (enclosing - union) / enclosing."""
    common = intersection(a, b)
    union = extent_a + extent_b - common
    enclosing = np.prod(_enclosing_sides(a, b), axis=0)
    return np.asarray(common / union - (enclosing - union) / enclosing)


def centred_iou(a: F64, b: F64) -> F64:
    """Return the IoU when both centres are put on one place: it compares shapes only."""
    side_a, side_b = sides(a), sides(b)
    common = np.prod(np.minimum(side_a, side_b), axis=0)
    return np.asarray(common / (np.prod(side_a, axis=0) + np.prod(side_b, axis=0) - common))


def complete_iou(a: F64, b: F64, extent_a: F64, extent_b: F64) -> F64:
    """Return the complete IoU: IoU - centre distance^2 / enclosing diagonal^2 - weighted aspect
    term.

    The aspect term compares ``atan(w / h)``; it has no form in 3D, where this is the distance IoU.
    """
    plain = iou(a, b, extent_a, extent_b)
    distance = np.sum((centres(a) - centres(b)) ** 2, axis=0) / np.sum(
        _enclosing_sides(a, b) ** 2, axis=0
    )
    if len(a) != 4:
        return np.asarray(plain - distance)
    side_a, side_b = sides(a), sides(b)
    aspect = 4.0 / np.pi**2 * (_angle(side_a) - _angle(side_b)) ** 2
    denominator = 1.0 - plain + aspect
    # Equal boxes have IoU 1 and aspect term 0: 0/0, and nothing to take off.
    weight = np.divide(aspect, denominator, out=np.zeros_like(aspect), where=denominator > 0)
    return np.asarray(plain - distance - weight * aspect)


def _angle(side: F64) -> F64:
    """Return (P,) the angle of the diagonal of boxes; of boxes that are a point, 0."""
    # Predictions may be without area; the angle of a line is that of a box ever thinner.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = side[0] / side[1]
    return np.arctan(np.where(np.isnan(ratio), 0.0, ratio))


def distance(a: F64, b: F64, unit: F64 | float = 1.0) -> F64:
    """Return the distance of points (d, n) after every axis was multiplied by ``unit`` ((d, n) or a
    number).
    """
    return np.asarray(np.sqrt(np.sum(((a - b) * unit) ** 2, axis=0)))


def contains(boxes: F64, points: F64) -> NDArray[np.bool_]:
    """Return whether the points (d, n) lie in the boxes; the border belongs to them."""
    half = len(boxes) // 2
    return np.asarray(((boxes[:half] <= points) & (points <= boxes[half:])).all(axis=0))


def hausdorff_similarity(a: F64, b: F64, size: F64) -> F64:
    """Return 1 - the Hausdorff distance of the boxes put on one centre, in fractions of the image
    ``size`` (d, n).
    """
    excess = (sides(a) - sides(b)) / size / 2.0
    forth = np.sqrt(np.sum(np.maximum(excess, 0.0) ** 2, axis=0))
    back = np.sqrt(np.sum(np.maximum(-excess, 0.0) ** 2, axis=0))
    return np.asarray(1.0 - np.maximum(forth, back))


def _enclosing_sides(a: F64, b: F64) -> F64:
    half = len(a) // 2
    return np.maximum(a[half:], b[half:]) - np.minimum(a[:half], b[:half])


def cells(offsets: I64, label: I32, n_classes: int) -> I64:
    """Return the cell of every object; with ``n_classes`` 0 the classes do not matter and cells are
    images.
    """
    image = ragged.owners(offsets)
    return image * n_classes + label if n_classes else image


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
        return route.overlapping(native, reference, prediction, crowd, n_classes)
    row, column = all_pairs(reference[0], reference[1], prediction[0], prediction[1], n_classes)
    a, b = gather(reference[2], row), gather(prediction[2], column)
    common = intersection(a, b)
    # Most pairs of an image do not meet; dropping them here saves the divisions.
    near = np.flatnonzero(common > 0)
    row, column, common = row[near], column[near], common[near]
    own, other = prediction[3][column], reference[3][row]
    similarity = common / np.where(crowd[row], own, other + own - common)
    return row.astype(np.int32), column.astype(np.int32), similarity


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


def pair_blocks(
    reference_offsets: I64,
    reference_label: I32,
    prediction_offsets: I64,
    prediction_label: I32,
    n_classes: int,
) -> Iterator[tuple[I64, I64]]:
    """Yield `all_pairs` in blocks of about a million, at least one of them: an image of thousands
    of objects has too many to look at together.
    """
    order, starts, counts = _partners(
        reference_offsets, reference_label, prediction_offsets, prediction_label, n_classes
    )
    for first, last in ragged.batches(counts, PAIRS_AT_ONCE) or [(0, 0)]:
        own = counts[first:last]
        rows = order[ragged.spans(starts[first:last], own)]
        yield rows, np.repeat(np.arange(first, last), own)


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
    # Stable, so that references of a cell stay in input order: ties depend on it.
    order = np.argsort(reference_cell, kind="stable")
    n_cells = (len(reference_offsets) - 1) * max(n_classes, 1)
    if n_cells > DENSE_CELLS:
        return order, *ragged.matching_spans(reference_cell[order], prediction_cell)
    counts = np.bincount(reference_cell, minlength=n_cells)
    return order, (np.cumsum(counts) - counts)[prediction_cell], counts[prediction_cell]


def gather(boxes: F64, rows: I64) -> F64:
    """Return the corners of some rows as contiguous columns, (2 d, n)."""
    return np.stack([column[rows] for column in np.ascontiguousarray(boxes.T)])
