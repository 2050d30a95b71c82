# SPDX-License-Identifier: Apache-2.0
"""The evidence of the error types: the kind of mistake of every prediction, and the references that
no prediction finds. `metrics.errors` and `metrics.errors_gains` compute from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.assignment import candidate_pairs
from calipers.criteria import Criterion
from calipers.kernels import error_types, fates, ragged
from calipers.matches import ObjectsByImage
from calipers.tables import Cohort

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Mistakes(ObjectsByImage):
    """The kinds of all objects, in the order of the cohort; codes are those of
    `kernels.error_types`.
    """

    n_classes: int
    reference_offsets: I64
    prediction_offsets: I64
    reference_label: I32
    prediction_label: I32
    score: F64
    reference_kind: I8
    prediction_kind: I8
    covered: Flags  # (n_predictions,) in an ignored region: a mistake that costs nothing
    mended: Flags  # (n_predictions,) whether mending makes it a hit
    partner: I32  # (n_predictions,) reference row or -1
    similarity: F64  # (n_predictions,) to the partner, NaN without

    @cached_property
    def counted_references(self) -> Flags:
        """(n_references,) who is not ignored."""
        return np.asarray(self.reference_kind != error_types.ABSENT)

    @cached_property
    def counted_predictions(self) -> Flags:
        """(n_predictions,) who is there and in no ignored region."""
        return np.asarray((self.prediction_kind != error_types.ABSENT) & ~self.covered)

    @cached_property
    def false_on_empty(self) -> Flags:
        """(n_predictions,) counted predictions on images without counted references: all of them
        are false alarms.
        """
        some = np.zeros(self.n_images, np.bool_)
        some[self.reference_image[self.counted_references]] = True
        return np.asarray(self.counted_predictions & ~some[self.prediction_image])

    @cached_property
    def cache(self) -> dict[Any, Any]:
        """What the metric makes of the evidence once and uses under all weights."""
        return {}

    def take(self, images: I64) -> Mistakes:
        """Return the evidence of some images, in that order; images may be repeated."""
        references, reference_offsets = ragged.take_rows(self.reference_offsets, images)
        predictions, prediction_offsets = ragged.take_rows(self.prediction_offsets, images)
        shift = reference_offsets[:-1] - self.reference_offsets[images]
        shift_of_row = shift[ragged.owners(prediction_offsets)]
        partner = self.partner[predictions]
        columns = {
            name: getattr(self, name)[references] for name in ("reference_label", "reference_kind")
        }
        columns |= {name: getattr(self, name)[predictions] for name in PREDICTION_COLUMNS}
        columns["partner"] = np.where(partner < 0, -1, partner + shift_of_row).astype(np.int32)
        return replace(
            self,
            reference_offsets=reference_offsets,
            prediction_offsets=prediction_offsets,
            **columns,
        )

    @classmethod
    def concat(cls, parts: Sequence[Mistakes]) -> Mistakes:
        """Return the evidence of all images of several parts."""
        first = ragged.from_counts(np.array([len(part.reference_label) for part in parts]))
        names = ("reference_label", "reference_kind", *PREDICTION_COLUMNS)
        columns: dict[str, Any] = {}
        for name in names:
            columns[name] = np.concatenate([getattr(part, name) for part in parts])
        partner = [
            np.where(part.partner < 0, -1, part.partner + start)
            for part, start in zip(parts, first)
        ]
        columns["partner"] = np.concatenate(partner).astype(np.int32)
        for name in ("reference_offsets", "prediction_offsets"):
            columns[name] = ragged.concat_offsets([getattr(part, name) for part in parts])
        return cls(n_classes=parts[0].n_classes, **columns)


PREDICTION_COLUMNS = (
    "prediction_label",
    "score",
    "prediction_kind",
    "covered",
    "mended",
    "similarity",
)


@dataclass(frozen=True)
class ErrorRecipe:
    """How mistakes are classified: criterion, limits, and the predictions that take part."""

    criterion: str = "box-iou"
    background: float = 0.1
    foreground: float = 0.5
    max_dets: int = 100  # of an image, all classes together
    score_cut: float = float("-inf")
    within_class: bool = True
    strict: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        """Two recipes are merged only if they are equal."""
        limits = (self.background, self.foreground, self.max_dets, self.score_cut)
        return ("error types", self.criterion, *limits, self.within_class, self.strict)

    def merge(self, other: ErrorRecipe) -> ErrorRecipe:
        """Return this recipe, which serves the other too."""
        return self

    def collect(self, cohort: Cohort, model: str) -> Mistakes:
        """Compare all predictions with all references of their image, whatever their class, and
        name the mistakes.
        """
        criterion: Criterion = registry.resolve("criterion", self.criterion)
        # Every ignored reference is a region here: what counts is how much of a prediction lies in
        # it.
        references = replace(cohort.references, crowd=cohort.references.ignore)
        predictions = cohort.predictions(model)
        pairs = candidate_pairs(replace(cohort, references=references), predictions, criterion, 0)
        rank = fates.ranks(predictions.offsets, predictions.label, predictions.score, 0)
        absent = (rank >= self.max_dets) | (predictions.score < self.score_cut)
        label, prediction_label = references.label, predictions.label
        if not self.within_class:
            label, prediction_label = np.zeros_like(label), np.zeros_like(prediction_label)
        objects = error_types.TypedObjects(
            references.offsets,
            predictions.offsets,
            label,
            prediction_label,
            rank,
            absent,
            references.ignore,
        )
        foreground = criterion.cutoff(self.foreground, strict=self.strict)
        mistakes = error_types.error_types(pairs, objects, self.background, foreground)
        return Mistakes(
            n_classes=len(cohort.classes) if self.within_class else 1,
            reference_offsets=references.offsets,
            prediction_offsets=predictions.offsets,
            reference_label=label,
            prediction_label=prediction_label,
            score=predictions.score,
            reference_kind=mistakes.reference,
            prediction_kind=mistakes.prediction,
            covered=mistakes.covered,
            mended=mistakes.mended,
            partner=mistakes.partner,
            similarity=mistakes.similarity,
        )
