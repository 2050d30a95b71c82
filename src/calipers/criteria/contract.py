# SPDX-License-Identifier: Apache-2.0
"""What a criterion is, and the pairs that it sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.kernels import overlap
from calipers.kernels.pairs import gather
from calipers.tables import Cohort, Predictions

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@dataclass(frozen=True)
class PairTable:
    """Aligned candidate pairs of one cohort and model; columns are gathered when a criterion asks
    for them.
    """

    cohort: Cohort
    predictions: Predictions
    reference: I64  # (P,) rows of the references
    prediction: I64  # (P,) rows of the predictions

    @cached_property
    def reference_boxes(self) -> F64:
        """(2 d, P) corners, low ones first."""
        return gather(self.cohort.references.boxes, self.reference)

    @cached_property
    def prediction_boxes(self) -> F64:
        """(2 d, P) corners, low ones first."""
        return gather(self.predictions.boxes, self.prediction)

    @cached_property
    def reference_points(self) -> F64:
        """(d, P) where the references are: their points if they have some, else the centres of
        their boxes.
        """
        points = self.cohort.references.points
        return (
            overlap.centres(self.reference_boxes)
            if points is None
            else gather(points, self.reference)
        )

    @cached_property
    def prediction_points(self) -> F64:
        """(d, P) where the predictions are: their points if they have some, else the centres of
        their boxes.
        """
        points = self.predictions.points
        return (
            overlap.centres(self.prediction_boxes)
            if points is None
            else gather(points, self.prediction)
        )

    @cached_property
    def cache(self) -> dict[str, Any]:
        """What a criterion found out about the pairs and may need again."""
        return {}

    @property
    def reference_extent(self) -> F64:
        """(P,) area or volume."""
        return self.cohort.references.extent[self.reference]

    @property
    def prediction_extent(self) -> F64:
        """(P,) area or volume."""
        return self.predictions.extent[self.prediction]

    def per_image(self, column: F64, what: str) -> F64:
        """Return an image-level (n_images, d) column as (d, P); an unknown value is an error that
        says which image.
        """
        missing = np.flatnonzero(np.isnan(column).any(axis=1))
        if len(missing):
            name = self.cohort.images.ids[missing[0]]
            raise UsageError(
                f"this criterion needs the {what} of every image; image {name!r} has none"
            )
        image = self.cohort.references.image[self.reference]
        return np.ascontiguousarray(column[image].T)


# Cohort, predictions, number of classes (0 = they do not matter) -> (reference, prediction,
# similarity) of the pairs that are nearer than `Criterion.none`, sorted by prediction, then
# reference; crowds have their own similarity already.
Fused = Callable[[Cohort, Predictions, int], tuple[I32, I32, F64]]


@dataclass(frozen=True)
class Criterion:
    """A similarity of two places, higher is nearer.

    ``none`` is the similarity of two objects that have nothing to do with each other: pairs at or
    below it are no candidates. A ``distance`` is stored with its sign turned, and its threshold is
    an upper limit. A ``yes_no`` criterion holds or does not: its similarity only orders the
    candidates, and a threshold plays no part.
    """

    name: str
    similarity: Callable[[PairTable], F64]
    none: float = 0.0
    distance: bool = False
    yes_no: bool = False
    crowd: Callable[[PairTable], F64] | None = None  # similarity to a crowd; None = like any other
    # lists the candidates and compares in one go; None = compare all pairs of a cell
    fused: Fused | None = None

    def cutoff(self, threshold: float, *, strict: bool = False) -> float:
        """Return the smallest admissible similarity: ``>= threshold``, strict on request and always
        at 0.

        For distances: ``distance <= threshold``, at 0 too.
        """
        if self.yes_no:
            return float(np.nextafter(self.none, np.inf))
        if self.distance:
            return float(np.nextafter(-threshold, np.inf)) if strict else -threshold
        if strict or threshold == 0:
            return float(np.nextafter(threshold, np.inf))
        return threshold
