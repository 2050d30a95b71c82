# SPDX-License-Identifier: Apache-2.0
"""Matching of predictions with references: candidate pairs, then fates under all views at once.

`match` turns a cohort and a model into `Matches`, the evidence of all metrics that count objects;
`MatchRecipe` and `PairRecipe` are how metrics ask for it. A criterion says how near two objects
are, `kernels.boxes` lists who could belong to whom, and `kernels.assignment` decides who does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from calipers import registry
from calipers.data.cohort import Cohort
from calipers.data.objects import Predictions, References
from calipers.kernels import assignment, boxes
from calipers.kernels.assignment import DUPLICATE, IGNORED, FateTable
from calipers.matching.criteria import Criterion, PairTable
from calipers.matching.matches import Matches, Pairs, View


def match(cohort: Cohort, model: str, views: Sequence[View]) -> Matches:
    """Match the predictions of a model with the references under every view.

    All views must share criterion, assignment, class rule, ``max_dets`` and score cut: what differs
    is the threshold and the size range.
    """
    first = views[0]
    criterion: Criterion = registry.resolve("criterion", first.criterion)
    registry.check("assignment", first.assignment)
    references, predictions = cohort.references, cohort.predictions(model)
    n_classes = len(cohort.classes) if first.within_class else 0
    candidates = candidate_pairs(cohort, predictions, criterion, n_classes)
    rank = assignment.ranks(predictions.offsets, predictions.label, predictions.score, n_classes)
    absent = (rank >= first.max_dets) | (predictions.score < first.score_cut)
    outcome = assignment.decide(
        candidates,
        (references.offsets, predictions.offsets),
        assignment.PredictionRanks(predictions.label, predictions.score, rank, n_classes),
        absent,
        _rules(criterion, references, predictions, views),
    )
    table, forgiven = outcome.prediction, None
    if first.duplicates == "forgiven":
        forgiven = table.fates == DUPLICATE
        table = FateTable(np.where(forgiven, np.int8(IGNORED), table.fates))
    reference_label, prediction_label = references.label, predictions.label
    if not first.within_class:
        # A hit may have two classes: without classes all objects are of one.
        reference_label = np.zeros_like(reference_label)
        prediction_label = np.zeros_like(prediction_label)
    matches = Matches(
        views=tuple(views),
        n_classes=max(n_classes, 1),
        reference_offsets=references.offsets,
        prediction_offsets=predictions.offsets,
        reference_label=reference_label,
        prediction_label=prediction_label,
        score=predictions.score,
        rank=rank,
        reference_fate=outcome.reference,
        prediction_fate=table.fates,
        partner=outcome.partner,
        similarity=outcome.similarity,
        pairs=Pairs(*candidates),
        forgiven=forgiven,
    )
    matches.remember(table)
    return matches


def candidate_pairs(
    cohort: Cohort, predictions: Predictions, criterion: Criterion, n_classes: int
) -> assignment.PairList:
    """Return the candidate pairs of a criterion: those nearer than objects that have nothing to do
    with each other.

    With ``n_classes`` 0 the classes do not matter.
    """
    references = cohort.references
    if criterion.fused is not None:
        return assignment.PairList(*criterion.fused(cohort, predictions, n_classes))
    parts = []
    for reference, prediction in boxes.pair_blocks(
        references.offsets, references.label, predictions.offsets, predictions.label, n_classes
    ):
        table = PairTable(cohort, predictions, reference, prediction)
        similarity = criterion.similarity(table)
        if criterion.crowd is not None and references.crowd.any():
            similarity = np.where(references.crowd[reference], criterion.crowd(table), similarity)
        # Pairs that no threshold would admit are dropped before anything is sorted.
        near = np.flatnonzero(similarity > criterion.none)
        rows, columns = reference[near].astype(np.int32), prediction[near].astype(np.int32)
        parts.append((rows, columns, similarity[near]))
    return assignment.PairList(*(np.concatenate(columns) for columns in zip(*parts)))


def _rules(
    criterion: Criterion, references: References, predictions: Predictions, views: Sequence[View]
) -> assignment.Rules:
    first = views[0]
    # Sizes come as a few distinct ranges: areas are compared once for each, not for every view.
    ranges = list(dict.fromkeys(view.size for view in views))
    return assignment.Rules(
        assignment=first.assignment,
        cutoffs=np.array([criterion.cutoff(view.threshold, strict=view.strict) for view in views]),
        size=np.array([ranges.index(view.size) for view in views]),
        ranges=np.array(ranges, np.float64),
        reference_area=references.area,
        prediction_area=predictions.area,
        ignore=references.ignore,
        crowd=references.crowd,
    )


@dataclass(frozen=True)
class MatchRecipe:
    """The expensive half of every metric that counts objects: which views are needed of which
    matching.

    Recipes that differ only in thresholds and sizes are merged, so that geometry and matching
    happen once.
    """

    views: tuple[View, ...]

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What two recipes must share to be served by one matching."""
        first = self.views[0]
        # What may differ between merged recipes is set to one value; all else must agree.
        return ("matches", replace(first, threshold=0.0, strict=False, size=(0.0, np.inf)))

    def merge(self, other: MatchRecipe) -> MatchRecipe:
        """Return the recipe that serves both."""
        return MatchRecipe(tuple(dict.fromkeys((*self.views, *other.views))))

    def collect(self, cohort: Cohort, model: str) -> Matches:
        """Match the images of a cohort."""
        return match(cohort, model, self.views)


@dataclass(frozen=True)
class PairRecipe(MatchRecipe):
    """A matching under one view alone, for metrics on who belongs to whom and how near.

    `Matches` keeps partners and similarities of its first view only; what is needed of another one
    is matched anew.
    """

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The view itself: it is the first, whichever other recipes there are."""
        return ("pairs", self.views[0])

    def merge(self, other: MatchRecipe) -> PairRecipe:
        """Return the recipe that serves both: recipes with one key are equal."""
        return self
