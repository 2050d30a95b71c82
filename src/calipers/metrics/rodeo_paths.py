# SPDX-License-Identifier: Apache-2.0
"""The evidence of RoDeO: per image the matching as a function of the class weight, and its pairs.

RoDeO's class weight depends on the whole data set, so it moves with every bootstrap replicate, and
the matching with it. Keeping the few pieces of every image makes each replicate exact without
matching again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged
from calipers.kernels.rodeo import BoxSide, paths
from calipers.tables import Cohort

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@dataclass(frozen=True)
class RodeoPaths:
    """Pieces of every image; for each piece its matched pairs, missed references and extra
    predictions.
    """

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
        """(n_pieces,) the class weight from which the next piece of the image is valid; infinite
        for the last.
        """
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
        fields: dict[str, Any] = {"n_classes": parts[0].n_classes}
        for name in cls.__dataclass_fields__:
            columns = [getattr(part, name) for part in parts]
            if name.endswith("offsets"):
                fields[name] = ragged.concat_offsets(columns)
            elif name != "n_classes":
                fields[name] = np.concatenate(columns)
        return cls(**fields)


@dataclass(frozen=True)
class RodeoRecipe:
    """How RoDeO's evidence is collected: the class weight, and the predictions that take part."""

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
        references, predictions = cohort.references, cohort.predictions(model)
        if references.ignore.any():
            references = references.keep(~references.ignore)
        if (predictions.score < self.score_cut).any():
            predictions = predictions.keep(predictions.score >= self.score_cut)
        sides = [BoxSide(t.offsets, t.label, t.boxes, t.extent) for t in (references, predictions)]
        pieces = paths(sides[0], sides[1], len(cohort.classes), self.class_weight)
        return RodeoPaths(
            n_classes=len(cohort.classes),
            presence=pieces.presence,
            objects=np.stack([np.diff(references.offsets), np.diff(predictions.offsets)], axis=1),
            piece_offsets=ragged.from_owner(pieces.image, cohort.n_images),
            start=pieces.start,
            pair_offsets=ragged.from_counts(pieces.n_pairs),
            reference_label=pieces.reference_label,
            prediction_label=pieces.prediction_label,
            distance=pieces.distance,
            shape=pieces.shape,
            missed_offsets=ragged.from_counts(pieces.n_missed),
            missed=pieces.missed,
            extra_offsets=ragged.from_counts(pieces.n_extra),
            extra=pieces.extra,
        )
