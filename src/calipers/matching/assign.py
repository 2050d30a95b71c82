# SPDX-License-Identifier: Apache-2.0
"""Matching of predictions with references: candidate pairs, then fates under all views at once.

`match` turns a cohort and a model into `Matches`, the evidence of all metrics that count objects;
`MatchRecipe` and `PairRecipe` are how metrics ask for it. A criterion says how near two objects
are, `kernels.boxes` lists who could belong to whom, and `kernels.assignment` decides who does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from calipers import registry
from calipers.arrays import F64, I32, I64
from calipers.data.cohort import Cohort
from calipers.data.objects import Predictions, References
from calipers.errors import InputError
from calipers.kernels import assignment, boxes
from calipers.kernels.assignment import DUPLICATE, IGNORED, FateTable
from calipers.matching.criteria import Criterion, PairTable
from calipers.matching.matches import Matches, Pairs, View

# Of an image: 2,900 references and as many predictions that all overlap, and 350 MB.
MOST_PAIRS = 1 << 23
# Of an image: pairs that share a place on one axis and have to be compared, in some seconds.
MOST_COMPARED = 1 << 27


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
    rules = _rules(criterion, references, predictions, views)
    least = float(rules.cutoffs.min())
    candidates = candidate_pairs(cohort, predictions, criterion, n_classes, least=least)
    rank = assignment.ranks(predictions.offsets, predictions.label, predictions.score, n_classes)
    absent = (rank >= first.max_dets) | (predictions.score < first.score_cut)
    outcome = assignment.decide(
        candidates,
        (references.offsets, predictions.offsets),
        assignment.PredictionRanks(predictions.label, predictions.score, rank, n_classes),
        absent,
        rules,
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
        partners=Pairs.of_partners(outcome.partner, outcome.similarity),
        pairs=Pairs(*candidates),
        forgiven=forgiven,
    )
    matches.remember(table)
    return matches


def candidate_pairs(
    cohort: Cohort,
    predictions: Predictions,
    criterion: Criterion,
    n_classes: int,
    *,
    least: float = -np.inf,
) -> assignment.PairList:
    """Return the candidate pairs of a criterion: those nearer than objects that have nothing to do
    with each other.

    With ``n_classes`` 0 the classes do not matter. Pairs of a distance below ``least``, which no
    view admits, are left out: every two objects have a distance. An image with more than
    `MOST_PAIRS` candidates is refused.
    """
    parts = []
    in_image = np.zeros(cohort.n_images, np.int64)
    possible = np.diff(cohort.references.offsets) * np.diff(predictions.offsets)
    # Images are counted only where one could have too many: most cohorts are never near.
    is_crowded = bool((possible > MOST_PAIRS).any())
    if criterion.fused is not None and not is_crowded:
        return assignment.PairList(*criterion.fused(cohort, predictions, n_classes))
    listing = _all_pairs
    is_limited = least > -np.inf or not criterion.distance
    if is_crowded and is_limited and criterion.reach is not None:
        listing = _near_pairs
    for reference, prediction in listing(cohort, predictions, criterion, n_classes, -least):
        rows, columns, similarity = _compared(cohort, predictions, criterion, reference, prediction)
        if criterion.distance and least > -np.inf:
            near = np.flatnonzero(similarity >= least)
            rows, columns, similarity = rows[near], columns[near], similarity[near]
        parts.append((rows, columns, similarity))
        if is_crowded:
            in_image += np.bincount(predictions.image[columns], minlength=len(in_image))
            _check_number(cohort, in_image, MOST_PAIRS, "near each other")
    return assignment.PairList(*(np.concatenate(columns) for columns in zip(*parts)))


def _all_pairs(
    cohort: Cohort, predictions: Predictions, criterion: Criterion, n_classes: int, limit: float
) -> Iterator[tuple[I64, I64]]:
    """Yield reference and prediction of all pairs of a cell, sorted by prediction."""
    references = cohort.references
    return boxes.pair_blocks(
        references.offsets, references.label, predictions.offsets, predictions.label, n_classes
    )


def _near_pairs(
    cohort: Cohort, predictions: Predictions, criterion: Criterion, n_classes: int, limit: float
) -> Iterator[tuple[I64, I64]]:
    """Yield those that the criterion can reach, in the same order: all pairs of an image of 20,000
    references and as many predictions would take minutes.
    """
    assert criterion.reach is not None, "the caller asks first"
    references = cohort.references
    ours, theirs = criterion.reach(cohort, predictions, limit)
    sweep = boxes.swept(
        (references.offsets, references.label, ours),
        (predictions.offsets, predictions.label, theirs),
        n_classes,
    )
    compared = np.bincount(predictions.image, sweep.counts, minlength=cohort.n_images)
    _check_number(cohort, compared.astype(np.int64), MOST_COMPARED, "that overlap along an axis")
    return sweep.blocks()


def _compared(
    cohort: Cohort,
    predictions: Predictions,
    criterion: Criterion,
    reference: I64,
    prediction: I64,
) -> tuple[I32, I32, F64]:
    """Return reference, prediction and similarity of the candidates among some pairs."""
    table = PairTable(cohort, predictions, reference, prediction)
    similarity = criterion.similarity(table)
    crowd = cohort.references.crowd
    if criterion.crowd is not None and crowd.any():
        similarity = np.where(crowd[reference], criterion.crowd(table), similarity)
    # Pairs that no threshold would admit are dropped before anything is sorted.
    near = np.flatnonzero(similarity > criterion.none)
    rows, columns = reference[near].astype(np.int32), prediction[near].astype(np.int32)
    return rows, columns, similarity[near]


def _check_number(cohort: Cohort, in_image: I64, most: int, where: str) -> None:
    """Raise for an image with too many pairs, which would take all memory or hours."""
    image = int(in_image.argmax())
    if in_image[image] > most:
        raise InputError(
            f"at most {most:,} pairs of a reference and a prediction {where} on an image",
            rule="too-large",
            location=f"image {cohort.images.ids[image]!r}",
            value=f"more than {most:,}",
            hint="leave predictions of low score out of the file, or repeated references",
        )


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
