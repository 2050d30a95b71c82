# SPDX-License-Identifier: Apache-2.0
"""Everything that RoDeO needs of every image: the matching for every class weight, and what it
leaves over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled, overlap, ragged, route
from calipers.kernels.parametric import Pieces, best_assignments

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


class BoxSide(NamedTuple):
    """Objects of images: corners (n, 2 d) and areas."""

    offsets: I64
    label: I32
    boxes: F64
    extent: F64


class Paths(NamedTuple):
    """Pieces in image order; pairs and left-overs piece by piece, in input order inside a piece."""

    presence: I64  # (n_images, 3) classes that are in both, only predicted, only referenced
    image: I64  # of each piece
    start: F64  # class weight from which each piece is valid
    n_pairs: I64  # of each piece
    reference_label: I32  # of each pair
    prediction_label: I32
    distance: F64  # squared distance of the centres in sizes of the reference
    shape: F64  # centred IoU
    n_missed: I64  # of each piece
    missed: I32  # labels
    n_extra: I64  # of each piece
    extra: I32  # labels


def paths(
    reference: BoxSide, prediction: BoxSide, n_classes: int, class_weight: str | float
) -> Paths:
    """Match every image for all class weights in [0, 1] ("data-set"), at its own ("image"), or at a
    fixed number.

    References and predictions are paired at the largest total of GIoU + class weight x [same
    class].
    """
    native = route.native()
    if native is not None:
        w = _weights(reference, prediction, n_classes, class_weight)
        return Paths(*compiled.rodeo_paths(native, reference, prediction, n_classes, w))
    counts = np.stack([np.diff(reference.offsets), np.diff(prediction.offsets)], axis=1)
    rows, columns, offsets = _cross(prediction.offsets, counts)
    boxes = [np.ascontiguousarray(side.boxes.T) for side in (reference, prediction)]
    a, b = boxes[0][:, rows], boxes[1][:, columns]
    gain = overlap.giou(a, b, reference.extent[rows], prediction.extent[columns])
    same = reference.label[rows] == prediction.label[columns]
    w = _weights(reference, prediction, n_classes, class_weight)
    pieces = best_assignments(gain, same, offsets, counts, w)
    presence = class_presence(reference, prediction, n_classes)
    return _complete(presence, counts, pieces, (reference, prediction), (rows, columns), (a, b))


class TallyTable(NamedTuple):
    """What is summed over pieces; an owner is a class or an image."""

    pair_offsets: I64  # per piece
    missed_offsets: I64
    extra_offsets: I64
    owner: NDArray[np.integer]  # of each pair
    missed_owner: NDArray[np.integer]
    extra_owner: NDArray[np.integer]
    right: NDArray[np.bool_]  # whether the classes of a pair agree
    near: F64
    shape: F64


def tally(piece_weights: I64, table: TallyTable, n_owners: int) -> F64:
    """Return (R, 6, n_owners): weighted sums of pairs, right ones, nearness, shape, missed and
    extra objects.

    Plain sequential sums, so that every route gives the same bits. ``piece_weights`` is (R,
    n_pieces), 0 for pieces that are not valid.
    """
    native = route.native()
    if (
        native is not None
        and len(piece_weights) > 1
        and compiled.fit_lanes(piece_weights, len(table.owner))
    ):
        return compiled.lane_tally(native, piece_weights, table, n_owners)
    if native is not None:
        return compiled.tally(native, piece_weights, table, n_owners)
    piece = ragged.owners(table.pair_offsets)
    missed_piece, extra_piece = (
        ragged.owners(table.missed_offsets),
        ragged.owners(table.extra_offsets),
    )
    result = np.empty((len(piece_weights), 6, n_owners))
    for r, weight in enumerate(piece_weights):
        of_pair = weight[piece].astype(np.float64)
        for k, values in enumerate(
            (of_pair, of_pair * table.right, of_pair * table.near, of_pair * table.shape)
        ):
            result[r, k] = np.bincount(table.owner, weights=values, minlength=n_owners)
        result[r, 4] = np.bincount(
            table.missed_owner, weights=weight[missed_piece], minlength=n_owners
        )
        result[r, 5] = np.bincount(
            table.extra_owner, weights=weight[extra_piece], minlength=n_owners
        )
    return result


def class_presence(reference: BoxSide, prediction: BoxSide, n_classes: int) -> I64:
    """Return (n_images, 3): how many classes are in both, only predicted, only referenced."""
    n_images = len(reference.offsets) - 1
    reference_cells = np.unique(ragged.owners(reference.offsets) * n_classes + reference.label)
    predicted_cells = np.unique(ragged.owners(prediction.offsets) * n_classes + prediction.label)
    both = reference_cells[np.isin(reference_cells, predicted_cells, assume_unique=True)]
    per_image = [
        np.bincount(cells // n_classes, minlength=n_images)
        for cells in (both, predicted_cells, reference_cells)
    ]
    return np.stack(
        [per_image[0], per_image[1] - per_image[0], per_image[2] - per_image[0]], axis=1
    )


def presence_mcc(presence: F64, cells: float | F64) -> F64:
    """Return the MCC of (..., 3) cells in both, only predicted, only referenced, of ``cells``; 0 if
    undefined.
    """
    tp, fp, fn = presence[..., 0], presence[..., 1], presence[..., 2]
    tn = cells - tp - fp - fn
    norm = np.sqrt((tp + fp) * (tp + fn)) * np.sqrt((tn + fp) * (tn + fn))
    return np.asarray(
        np.divide(tp * tn - fp * fn, norm, out=np.zeros(np.shape(norm)), where=norm > 0)
    )


def _weights(
    reference: BoxSide, prediction: BoxSide, n_classes: int, class_weight: str | float
) -> F64 | None:
    """Return None for all weights, else one weight per image."""
    if class_weight == "data-set":
        return None
    if class_weight == "image":
        presence = class_presence(reference, prediction, n_classes)
        return np.maximum(0.0, presence_mcc(presence.astype(np.float64), n_classes))
    return np.full(len(reference.offsets) - 1, float(class_weight))


def _cross(prediction_offsets: I64, counts: I64) -> tuple[I64, I64, I64]:
    """Return all pairs of every image, row-major with one row per reference, and their offsets per
    image.
    """
    per_reference = np.repeat(counts[:, 1], counts[:, 0])
    rows = np.repeat(np.arange(len(per_reference)), per_reference)
    columns = ragged.spans(np.repeat(prediction_offsets[:-1], counts[:, 0]), per_reference)
    return rows, columns, ragged.from_counts(counts[:, 0] * counts[:, 1])


def _complete(
    presence: I64,
    counts: I64,
    pieces: Pieces,
    sides: tuple[BoxSide, BoxSide],
    ends: tuple[I64, I64],
    boxes: tuple[F64, F64],
) -> Paths:
    """Add a piece for every image without a pair, and look up what is matched, missed and extra."""
    bare = np.flatnonzero((counts == 0).any(axis=1))
    image = np.concatenate([pieces.image, bare])
    order = np.argsort(image, kind="stable")
    sizes = np.concatenate([np.diff(pieces.offsets), np.zeros(len(bare), np.int64)])[order]
    # The pieces were sorted, and a bare image has no other piece: pairs stay in order.
    image = image[order]
    row, column = ends[0][pieces.pair], ends[1][pieces.pair]
    piece = np.repeat(np.arange(len(image)), sizes)
    missed, n_missed = _left_over(image, sides[0], piece, row)
    extra, n_extra = _left_over(image, sides[1], piece, column)
    a, b = boxes[0][:, pieces.pair], boxes[1][:, pieces.pair]
    shift = overlap.centres(a) - overlap.centres(b)
    return Paths(
        presence=presence,
        image=image,
        start=np.concatenate([pieces.start, np.zeros(len(bare))])[order],
        n_pairs=sizes,
        reference_label=sides[0].label[row],
        prediction_label=sides[1].label[column],
        distance=np.sum((shift / overlap.sides(a)) ** 2, axis=0),
        shape=overlap.centred_iou(a, b),
        n_missed=n_missed,
        missed=missed,
        n_extra=n_extra,
        extra=extra,
    )


def _left_over(image: I64, side: BoxSide, piece: I64, row: I64) -> tuple[I32, I64]:
    """Return the labels of the objects of each piece's image that are in none of its pairs, and how
    many they are.
    """
    rows, offsets = ragged.take_rows(side.offsets, image)
    begin = offsets[:-1] - side.offsets[image]
    alone = np.ones(len(rows), np.bool_)
    alone[begin[piece] + row] = False
    owner = ragged.owners(offsets)[alone]
    return side.label[rows[alone]], np.bincount(owner, minlength=len(image))
