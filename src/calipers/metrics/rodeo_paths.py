# SPDX-License-Identifier: Apache-2.0
"""The evidence of RoDeO: per image the matching as a function of the class weight, and who is where.

RoDeO's class weight depends on the whole data set, so it moves with every bootstrap replicate, and the matching with
it. Keeping the few pieces of every image makes each replicate exact without matching again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import overlap, ragged
from calipers.kernels.parametric import Pieces, best_assignments
from calipers.tables import Cohort

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class RodeoPaths:
    """Pieces of every image; for each piece its matched pairs, missed references and extra predictions."""

    n_classes: int
    presence: I64  # (n_images, 3) classes that are in both, only predicted, only referenced
    objects: I64  # (n_images, 2) references and predictions
    piece_offsets: I64  # per image
    start: F64  # (n_pieces,) valid from this class weight on
    pair_offsets: I64  # per piece
    reference_label: I32
    prediction_label: I32
    distance: F64  # squared distance of the centres in sizes of the reference
    shape: F64  # centred IoU
    missed_offsets: I64  # per piece
    missed: I32  # label
    extra_offsets: I64  # per piece
    extra: I32  # label

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.objects)

    @cached_property
    def piece_image(self) -> I64:
        """(n_pieces,) image of every piece."""
        return ragged.owners(self.piece_offsets)

    @cached_property
    def piece_end(self) -> F64:
        """(n_pieces,) the class weight from which the next piece of the image is valid; infinite for the last."""
        end = np.full(len(self.start), np.inf)
        follows = self.piece_image[1:] == self.piece_image[:-1]
        end[:-1][follows] = self.start[1:][follows]
        return end

    def take(self, images: I64) -> RodeoPaths:
        """Return the evidence of some images, in that order."""
        pieces, piece_offsets = ragged.take_rows(self.piece_offsets, images)
        pairs, pair_offsets = ragged.take_rows(self.pair_offsets, pieces)
        missed, missed_offsets = ragged.take_rows(self.missed_offsets, pieces)
        extra, extra_offsets = ragged.take_rows(self.extra_offsets, pieces)
        return RodeoPaths(
            n_classes=self.n_classes,
            presence=self.presence[images],
            objects=self.objects[images],
            piece_offsets=piece_offsets,
            start=self.start[pieces],
            pair_offsets=pair_offsets,
            reference_label=self.reference_label[pairs],
            prediction_label=self.prediction_label[pairs],
            distance=self.distance[pairs],
            shape=self.shape[pairs],
            missed_offsets=missed_offsets,
            missed=self.missed[missed],
            extra_offsets=extra_offsets,
            extra=self.extra[extra],
        )

    @classmethod
    def concat(cls, parts: Sequence[RodeoPaths]) -> RodeoPaths:
        """Return the evidence of all images of several parts."""
        joined: dict[str, Any] = {"n_classes": parts[0].n_classes}
        for name in cls.__dataclass_fields__:
            columns = [getattr(part, name) for part in parts]
            if name.endswith("offsets"):
                joined[name] = ragged.concat_offsets(columns)
            elif name != "n_classes":
                joined[name] = np.concatenate(columns)
        return cls(**joined)


@dataclass(frozen=True)
class RodeoRecipe:
    """How RoDeO's evidence is collected: what gives the class weight, and which predictions exist."""

    class_weight: str | float = "data-set"  # "data-set", "image", or a number
    score_cut: float = float("-inf")

    @property
    def key(self) -> tuple[Any, ...]:
        """Two recipes are merged only if they are equal."""
        return ("rodeo", self.class_weight, self.score_cut)

    def merge(self, other: RodeoRecipe) -> RodeoRecipe:
        """Return this recipe, which serves the other too."""
        return self

    def collect(self, cohort: Cohort, model: str) -> RodeoPaths:
        """Match every image for all class weights that can occur."""
        references = cohort.references.keep(~cohort.references.ignore)
        predictions = cohort.predictions(model)
        predictions = predictions.keep(predictions.score >= self.score_cut)
        counts = np.stack([np.diff(references.offsets), np.diff(predictions.offsets)], axis=1)
        rows, columns, offsets = _cross(references.offsets, predictions.offsets, counts)
        boxes = [np.ascontiguousarray(table.boxes.T) for table in (references, predictions)]
        pair_boxes = boxes[0][:, rows], boxes[1][:, columns]
        gain = overlap.giou(*pair_boxes, references.extent[rows], predictions.extent[columns])
        same = references.label[rows] == predictions.label[columns]
        presence = _presence(cohort, references.image, references.label, predictions.image, predictions.label)
        pieces = best_assignments(gain, same, offsets, counts, self._weights(presence, len(cohort.classes)))
        return _paths(cohort, counts, presence, pieces, (references, predictions), (rows, columns), pair_boxes)

    def _weights(self, presence: I64, n_classes: int) -> F64 | None:
        if self.class_weight == "data-set":
            return None
        if self.class_weight == "image":
            return np.maximum(0.0, presence_mcc(presence.astype(np.float64), n_classes))
        return np.full(len(presence), float(self.class_weight))


def presence_mcc(presence: F64, cells: float | F64) -> F64:
    """Return the MCC of (..., 3) cells in both, only predicted, only referenced, of ``cells``; 0 if undefined."""
    tp, fp, fn = presence[..., 0], presence[..., 1], presence[..., 2]
    tn = cells - tp - fp - fn
    norm = np.sqrt((tp + fp) * (tp + fn)) * np.sqrt((tn + fp) * (tn + fn))
    return np.asarray(np.divide(tp * tn - fp * fn, norm, out=np.zeros(np.shape(norm)), where=norm > 0))


def _cross(reference_offsets: I64, prediction_offsets: I64, counts: I64) -> tuple[I64, I64, I64]:
    """Return all pairs of every image, row-major with one row per reference, and their offsets per image."""
    per_reference = np.repeat(counts[:, 1], counts[:, 0])
    rows = np.repeat(np.arange(len(per_reference)), per_reference)
    columns = ragged.spans(np.repeat(prediction_offsets[:-1], counts[:, 0]), per_reference)
    return rows, columns, ragged.from_counts(counts[:, 0] * counts[:, 1])


def _presence(cohort: Cohort, image: I64, label: I32, predicted_image: I64, predicted_label: I32) -> I64:
    n = len(cohort.classes)
    real = np.unique(image * n + label)
    said = np.unique(predicted_image * n + predicted_label)
    both = real[np.isin(real, said, assume_unique=True)]
    per_image = [np.bincount(cells // n, minlength=cohort.n_images) for cells in (both, said, real)]
    return np.stack([per_image[0], per_image[1] - per_image[0], per_image[2] - per_image[0]], axis=1)


def _paths(
    cohort: Cohort,
    counts: I64,
    presence: I64,
    pieces: Pieces,
    tables: tuple[Any, Any],
    ends: tuple[I64, I64],
    boxes: tuple[F64, F64],
) -> RodeoPaths:
    """Complete the pieces (images without a pair get one) and look up what is matched, missed and extra."""
    bare = np.flatnonzero((counts == 0).any(axis=1))
    image = np.concatenate([pieces.image, bare])
    order = np.argsort(image, kind="stable")
    sizes = np.concatenate([np.diff(pieces.offsets), np.zeros(len(bare), np.int64)])[order]
    image = image[order]  # the pieces were sorted, and a bare image has no other piece: pairs stay in order
    row, column = ends[0][pieces.pair], ends[1][pieces.pair]
    piece_of_pair = np.repeat(np.arange(len(image)), sizes)
    missed, missed_offsets = _left_over(image, tables[0], piece_of_pair, row)
    extra, extra_offsets = _left_over(image, tables[1], piece_of_pair, column)
    reference_boxes, prediction_boxes = boxes[0][:, pieces.pair], boxes[1][:, pieces.pair]
    shift = overlap.centres(reference_boxes) - overlap.centres(prediction_boxes)
    return RodeoPaths(
        n_classes=len(cohort.classes),
        presence=presence,
        objects=counts,
        piece_offsets=ragged.from_owner(image, cohort.n_images),
        start=np.concatenate([pieces.start, np.zeros(len(bare))])[order],
        pair_offsets=ragged.from_counts(sizes),
        reference_label=tables[0].label[row],
        prediction_label=tables[1].label[column],
        distance=np.sum((shift / overlap.sides(reference_boxes)) ** 2, axis=0),
        shape=overlap.centred_iou(reference_boxes, prediction_boxes),
        missed_offsets=missed_offsets,
        missed=missed,
        extra_offsets=extra_offsets,
        extra=extra,
    )


def _left_over(image: I64, table: Any, piece_of_pair: I64, row: I64) -> tuple[I32, I64]:
    """Return the labels of the objects of each piece's image that are in none of its pairs, and their offsets."""
    rows, offsets = ragged.take_rows(table.offsets, image)
    begin = offsets[:-1] - table.offsets[image]
    alone = np.ones(len(rows), np.bool_)
    alone[begin[piece_of_pair] + row] = False
    owner = ragged.owners(offsets)[alone]
    return table.label[rows[alone]], ragged.from_owner(owner, len(image))
