# SPDX-License-Identifier: Apache-2.0
"""Error types: the kinds of mistakes of a model, and the average precision each costs (TIDE).

``dAP/cls dAP/loc dAP/both dAP/dup dAP/bkg dAP/miss``
    average precision gained if every mistake of one kind were mended and nothing else: a wrong
    class, a place that is roughly right, both wrong, a second prediction on one reference, a
    prediction on nothing, a reference that nobody came near. `kernels.error_types` says who is
    what. The gains do not add up: mending one kind makes others matter more or less.
``dAP/fp``, ``dAP/fn``, ``dAP/empty``
    gained without any false alarm, without any reference that is not found, and without the false
    alarms on images that have no reference. The last one is not of TIDE.
``AP@0.5`` (kind ``tide-average-precision``)
    the average precision from which the gains are counted.
``errors/cls`` to ``errors/miss``
    how many mistakes there are of a kind. In an ignored region a mistake is counted too, as the
    authors' code does, though it costs nothing.
``errors/empty``
    false alarms on images without references, those in ignored regions left out; they are among
    ``errors/bkg``.

A gain is undefined without references; a count only without images. Per class: the gain in the
class's own AP, the mistakes whose prediction is of the class, the missed references of the class.

`ErrorRecipe` collects the evidence (`Mistakes`), `gains` and `counts` compute from it under
weights, `ErrorTypes` is the metric. Average precision is the mean interpolated precision at the
recalls 0/100 to 100/100. Mending changes one list of predictions into another:

``cls``, ``loc``
    the first mistake on a reference that nobody took becomes a hit (of the reference's class); the
    others go;
``both``, ``dup``, ``bkg``
    go;
``miss``
    the references go that are neither found nor mendable otherwise;
``fp``
    all false alarms go, of whatever kind; nothing becomes a hit;
``fn``
    all references go that are not found;
``empty``
    the false alarms on images without references go.

The pooled AP is the mean over the classes that have references or predictions left; a class without
references has AP 0 as long as it has predictions. Mending may leave a class without anything, which
then leaves the mean.

References
----------
Bolya et al., TIDE: A General Toolbox for Identifying Object Detection Errors, ECCV 2020.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from calipers import registry
from calipers.arrays import F64, I8, I32, I64, BlockCache, Flags, joined_columns
from calipers.data.cohort import Cohort
from calipers.errors import UsageError, did_you_mean
from calipers.kernels import assignment, curves, error_types, ragged
from calipers.kernels.assignment import FALSE_ALARM, HIT, IGNORED, FateTable
from calipers.kernels.error_types import BKG, BOTH, CLS, DUP, LOC, MISS, RIGHT
from calipers.matching.assign import candidate_pairs
from calipers.matching.criteria import Criterion
from calipers.matching.matches import COUNTED, HITS, ObjectsByImage, View
from calipers.metrics.base import Facts, MetricPlan, UnitMarks, check_number, check_options
from calipers.metrics.ranking import BIAS_REACH_OF_CLASSES

PREDICTION_COLUMNS = (
    "prediction_label",
    "score",
    "prediction_kind",
    "covered",
    "mended",
    "similarity",
)

KINDS = {"cls": CLS, "loc": LOC, "both": BOTH, "dup": DUP, "bkg": BKG, "miss": MISS}
GAINS = (*KINDS, "fp", "fn", "empty")
COUNTS = (*KINDS, "empty")
OF_PREDICTIONS = ("cls", "loc", "both", "dup", "bkg")
# As the authors' code divides; the recalls of COCO differ in the last bits, which matters where a
# recall is reached exactly.
RECALLS = np.arange(101) / 100
NOBODY = np.zeros(0, np.int32)  # no limit by rank

VIEWS = [*range(8), 0, 0]  # as it is, then what the slots say
# Where the precision of each mended list stands among the ten of `_precisions`.
SLOTS = {"cls": 1, "loc": 2, "both": 3, "dup": 4, "bkg": 5, "fp": 6, "empty": 7, "miss": 8, "fn": 9}

OPTIONS = ("gain", "count", "criterion", "background", "foreground", "max_dets")
FROM_PROTOCOL = ("score_cut", "ties", "matching")
# Errors that are false alarms and nothing else; mending them only removes predictions.
FALSE_ALARMS = ("both", "dup", "bkg", "fp", "empty")
# Errors that miss a reference and are false alarms too; mending them makes hits.
MOVED = ("cls", "loc")
# What one error is assumed to cost, in references: one that is not found costs 1 / n of the recall,
# a false alarm at most 1 / n of the precision of all hits below it, and a hit in the wrong place or
# class both, but as an alarm hardly all of it. Candidates for these, and for how far intervals
# reach beyond the bootstrap's bias, were compared in `validation.choices_gains` and
# `validation.choices_costs`.
COST_OF_REFERENCE, COST_OF_ALARM, COST_OF_MOVED = 1.0, 1.0, 1.75
MISSES = ("miss", "fn")  # all cost one reference
BIAS_REACH = 1.0
# The gain without any false alarm has the bias of AP itself, about four times the bootstrap's.
BIAS_REACH_OF_ALARMS = 4.0
RANGES = {"gain": (0.0, 1.0), "count": (0.0, float("inf"))}
FAMILIES = {"dAP": ("gain", GAINS), "errors": ("count", COUNTS)}


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
        # Rows of references are renumbered, and partners with them.
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
        columns = joined_columns(parts, names)
        # A partner is a row of the references, which are counted on from the parts before.
        partner = []
        for part, start in zip(parts, first):
            partner.append(np.where(part.partner < 0, -1, part.partner + start))
        columns["partner"] = np.concatenate(partner).astype(np.int32)
        for name in ("reference_offsets", "prediction_offsets"):
            columns[name] = ragged.concat_offsets([getattr(part, name) for part in parts])
        return cls(n_classes=parts[0].n_classes, **columns)


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
        rank = assignment.ranks(predictions.offsets, predictions.label, predictions.score, 0)
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


class MistakeRanking(NamedTuple):
    """Predictions as they are (view 0), with the mistakes of each kind mended (1 to 5), and with
    fewer of them.

    That is without false alarms (6), and without those on empty images (7).

    A prediction that mending gives to another class has a second row there.
    """

    table: FateTable
    label: I32
    image: I64
    mended: curves.CurveOrder
    plain: (
        curves.CurveOrder
    )  # of the predictions as they are; it may order equal scores differently


def gains(evidence: Mistakes, weights: I64, *, blocks: bool) -> F64:
    """Return (R, 1 + n_classes, 9): the AP gained by mending each of `GAINS`, at least 0.

    NaN without references: in the class, or at all. With ``blocks`` equal scores are one operating
    point; else they are walked through in input order, after mending those that were mistakes
    first, as the authors' code does.
    """
    every, references = _averaged(evidence, weights, blocks=blocks)
    # Mending can lower an AP by rounding, or by a class that leaves the mean.
    gain = np.maximum(every[:, [SLOTS[name] for name in GAINS]] - every[:, :1], 0.0)
    return np.asarray(np.where(references[:, :, None] > 0, np.moveaxis(gain, 1, 2), np.nan))


def precision(evidence: Mistakes, weights: I64, *, blocks: bool) -> F64:
    """Return (R, 1 + n_classes): the AP from which the gains are counted, as the authors' code has
    it; NaN without references.
    """
    every, references = _averaged(evidence, weights, blocks=blocks)
    return np.asarray(np.where(references > 0, every[:, 0], np.nan))


def _averaged(evidence: Mistakes, weights: I64, *, blocks: bool) -> tuple[F64, I64]:
    """Return (R, 10, 1 + K) average precisions, the mean over classes first, and (R, 1 + K) weights
    of the references.
    """
    averages: BlockCache = evidence.cache.setdefault(("averaged", blocks), BlockCache())
    return averages.get(weights, lambda: _average(evidence, weights, blocks=blocks))


def _average(evidence: Mistakes, weights: I64, *, blocks: bool) -> tuple[F64, I64]:
    """Compute what `_averaged` returns."""
    precisions, exists, positives = _precisions(evidence, weights, blocks=blocks)
    per_class = np.where(np.isnan(precisions), 0.0, precisions)
    number = exists.sum(axis=2)
    mean = np.divide(
        (per_class * exists).sum(axis=2), number, out=np.zeros(number.shape), where=number > 0
    )
    every = np.concatenate([mean[:, :, None], per_class], axis=2)
    references = positives[:, 0]
    references = np.concatenate([references.sum(axis=1, keepdims=True), references], axis=1)
    return every, references


def counts(evidence: Mistakes, weights: I64) -> F64:
    """Return (R, 1 + n_classes, 7): how many mistakes there are of each of `COUNTS`."""
    of_predictions = _totals(evidence, "mistakes", weights)[:, :, HITS]
    missed = _totals(evidence, "references", weights)[:, 1:2, HITS]
    per_class = np.concatenate([of_predictions[:, :5], missed, of_predictions[:, 5:6]], axis=1)
    return (
        np.concatenate([per_class.sum(axis=2, keepdims=True), per_class], axis=2)
        .swapaxes(1, 2)
        .astype(np.float64)
    )


def object_weights(evidence: Mistakes, weights: I64) -> tuple[I64, I64]:
    """Return (R, n_classes) weights of the counted references and of the counted predictions."""
    references = _totals(evidence, "references", weights)[:, 0, HITS]
    return references, _totals(evidence, "mistakes", weights)[:, 6, HITS]


def _precisions(evidence: Mistakes, weights: I64, *, blocks: bool) -> tuple[F64, Flags, I64]:
    """Return (R, 10, K) each: average precisions, whether anything is left of a class, weights of
    its references.
    """
    ranking = _known_ranking(evidence, blocks=blocks)
    sides = (ranking.table, ranking.label, NOBODY, 0, ranking.image)
    predictions = assignment.totals(*sides, weights, evidence.n_classes)[:, :, COUNTED]
    of_references = _totals(evidence, "references", weights)[:, :, HITS]
    references, misses, hits = np.moveaxis(of_references, 1, 0)
    # Mending predictions leaves all references; `miss` and `fn` take some away.
    positives = np.stack([references] * 8 + [references - misses, hits], axis=1)
    plans = evidence.cache.setdefault(("plans", blocks), ({}, {}))

    def images() -> I64:
        return ranking.image

    problem = curves.CurveProblem(ranking.table, VIEWS, ranking.mended, images, weights, plans[0])
    values = curves.average_precision(problem, positives, RECALLS)
    if ranking.plain is not ranking.mended:
        problem = curves.CurveProblem(
            ranking.table, VIEWS[:1], ranking.plain, images, weights, plans[1]
        )
        values[:, :1] = curves.average_precision(problem, positives[:, :1], RECALLS)
    # Without false alarms (view 6) a class still counts as having its predictions, at the end of
    # the list, so that it stays in the mean over classes.
    predictions = predictions[:, [0, 1, 2, 3, 4, 5, 0, 7, 0, 0]]
    return values, np.asarray((predictions > 0) | (positives > 0)), positives


def _known_ranking(evidence: Mistakes, *, blocks: bool) -> MistakeRanking:
    key = ("ranked", blocks)
    if key not in evidence.cache:
        evidence.cache[key] = _ranking(evidence, blocks=blocks)
    ranking: MistakeRanking = evidence.cache[key]
    return ranking


def _ranking(evidence: Mistakes, *, blocks: bool) -> MistakeRanking:
    kind, n = evidence.prediction_kind, evidence.n_classes
    present = np.flatnonzero(kind != 0)
    reclassified = np.flatnonzero((kind == CLS) & evidence.mended)
    row = np.concatenate([present, reclassified])
    label = np.concatenate(
        [
            evidence.prediction_label[present],
            evidence.reference_label[evidence.partner[reclassified]],
        ]
    )
    table = np.empty((8, len(row)), np.int8)
    table[0, : len(present)] = _as_they_are(kind[present], evidence.covered[present])
    # The second rows play no part until their kind is mended.
    table[0, len(present) :] = IGNORED
    table[1:] = table[0]
    for view, name in enumerate(OF_PREDICTIONS, start=1):
        table[view, : len(present)][kind[present] == KINDS[name]] = IGNORED
    table[1, len(present) :] = HIT
    table[2, : len(present)][(kind[present] == LOC) & evidence.mended[present]] = HIT
    table[6][table[6] == FALSE_ALARM] = IGNORED
    table[7, : len(present)][evidence.false_on_empty[present]] = IGNORED
    right = np.concatenate([kind[present] == RIGHT, np.zeros(len(reclassified), np.bool_)])
    score, image = evidence.score[row], evidence.prediction_image[row]
    ranking = plain = curves.ranking(score, label, n, blocks=blocks)
    # Only where a hit and a mistake tie does the order after mending differ.
    if not blocks and _mixed(score, right, ranking):
        first = np.lexsort((row, right))  # mistakes first, each part in input order
        mended = curves.ranking(score[first], label[first], n, blocks=False)
        ranking = mended._replace(order=first[mended.order].astype(np.int32))
    return MistakeRanking(FateTable(table), label.astype(np.int32), image, ranking, plain)


def _as_they_are(kind: I8, in_ignored_region: Flags) -> I8:
    fate = np.where(kind == RIGHT, np.int8(HIT), np.int8(FALSE_ALARM))
    fate[in_ignored_region] = IGNORED
    return fate


def _mixed(score: F64, right: Flags, ranking: curves.CurveOrder) -> bool:
    """Return whether a hit and a mistake have equal scores: then it matters which of them comes
    first.
    """
    score, right = score[ranking.order], right[ranking.order]
    return bool(((score[1:] == score[:-1]) & (right[1:] != right[:-1])).any())


def _totals(evidence: Mistakes, side: str, weights: I64) -> I64:
    """Return (R, views, 2, K): references that are counted, missed, found; or predictions of each
    kind.

    The kinds are those of `OF_PREDICTIONS`, then false alarms on empty images, then all that are
    counted.
    """
    if side not in evidence.cache:
        evidence.cache[side] = FateTable(_flags(evidence, side))
    if side == "references":
        label, image = evidence.reference_label, evidence.reference_image
    else:
        label, image = evidence.prediction_label, evidence.prediction_image
    return assignment.totals(
        evidence.cache[side], label, NOBODY, 0, image, weights, evidence.n_classes
    )


def _flags(evidence: Mistakes, side: str) -> I8:
    """Return fates that are hits where an object is of a kind, else ignored: sums of hits are then
    counts.
    """
    if side == "references":
        kind = evidence.reference_kind
        rows = [evidence.counted_references, kind == MISS, kind == RIGHT]
    else:
        rows = [evidence.prediction_kind == KINDS[name] for name in OF_PREDICTIONS]
        rows += [evidence.false_on_empty, evidence.counted_predictions]
    return np.where(np.stack(rows), np.int8(HIT), np.int8(IGNORED))


@dataclass(frozen=True)
class ErrorQuantity:
    """One number of the family: ``gain`` or ``count``, and of what."""

    what: str
    of: str


def error_cost(of: str) -> float:
    """Return what one error of a kind is assumed to cost, in references."""
    if of in FALSE_ALARMS:
        return COST_OF_ALARM
    return COST_OF_MOVED if of in MOVED else COST_OF_REFERENCE


class ErrorTypes:
    """What each kind of mistake costs, and how many there are."""

    own_matching = True
    own_options: tuple[str, ...] = OPTIONS
    defaults = FROM_PROTOCOL
    facts = Facts(
        id="error-types@1",
        bounds=(0.0, float("inf")),  # no mistake at all is the best there is
        counts_events=True,
        per_image=False,
        higher_is_better=False,
        swap=False,
        word="error types (TIDE)",
        meaning=(
            "Error types of TIDE: dAP is the average precision gained if one type of error were "
            "fixed, errors is their number: wrong class (cls), inexact place (loc), both, "
            "duplicate (dup), prediction on background (bkg), reference that "
            "no prediction comes near (miss), all false alarms (fp), all references that were not "
            "found (fn), false alarms on images without references (empty). Gains do not add up."
        ),
        citations=(
            "Bolya D, et al. TIDE: a general toolbox for identifying object detection errors. ECCV "
            "2020, 558-573.",
        ),
        page="explanation/error-types.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        for plan in plans:
            check_options(plan, (*OPTIONS, *FROM_PROTOCOL))
        self.recipe = shared_recipe(plans)
        self.plans = tuple(plans)
        self.quantities = tuple(_quantity(plan) for plan in plans)
        names_of: dict[str, list[str]] = {"gain": [], "count": []}
        costs, reaches, misses = {}, {}, []
        for plan, quantity in zip(plans, self.quantities):
            names_of[quantity.what].append(plan.name)
            if quantity.what == "gain":
                costs[plan.name] = error_cost(quantity.of)
                if quantity.of in MISSES:
                    misses.append(plan.name)
                if quantity.of == "fp":
                    reaches[plan.name] = BIAS_REACH_OF_ALARMS
        self.facts = replace(
            self.facts,
            names=tuple(plan.name for plan in plans),
            bounds_of_names=tuple(RANGES[one.what] for one in self.quantities),
            ids=tuple(f"error-types.{one.what}.{one.of}@1" for one in self.quantities),
            per_class=self.recipe.within_class,
            class_means=frozenset(names_of["gain"]),
            bias_reach=dict.fromkeys(names_of["gain"], BIAS_REACH) | reaches,
            few_bias_reach=reaches,
            error_costs=costs,
            equal_costs=frozenset(misses),
            rough=frozenset(names_of["gain"]),
            whole=frozenset(names_of["count"]),
        )

    def value(self, evidence: Mistakes, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        tables: dict[tuple[str, bool], F64] = {}
        columns = []
        for quantity, plan in zip(self.quantities, self.plans):
            key = quantity.what, plan.options.get("ties", "coco") == "block"
            if key not in tables:
                tables[key] = _table(evidence, weights, *key)
            kinds = GAINS if quantity.what == "gain" else COUNTS
            columns.append(tables[key][:, :, kinds.index(quantity.of)])
        return np.stack(columns, axis=2)

    def reasons(self, evidence: Mistakes) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: no references, or nothing at all."""
        weights = np.ones(evidence.n_images, np.int64)
        table, values = self.counts(evidence, weights), self.value(evidence, weights[None])[0]
        why = {}
        for row, k in np.argwhere(np.isnan(values)).tolist():
            why[row, k] = "no_references" if table[row, k, 2] else "no_objects"
        return why

    def counts(self, evidence: Mistakes, weights: I64) -> I64:
        """Return (1 + n_classes, n_names, 3): images, counted references, counted predictions."""
        table = np.zeros((1 + evidence.n_classes, len(self.plans), 3), np.int64)
        table[:, :, 0] = weights.sum()
        for side, column in enumerate(object_weights(evidence, weights[None]), start=1):
            table[1:, :, side] = column[0][:, None]
        table[0, :, 1:] = table[1:, :, 1:].sum(axis=0)
        return table

    def support(self, evidence: Mistakes, unit: I64, n_units: int) -> I64:
        """Return (1 + n_classes, n_names, 3): units with references, with any object, with such a
        mistake.

        To a count every unit matters.
        """
        of_reference, of_prediction = (
            unit[evidence.reference_image],
            unit[evidence.prediction_image],
        )

        def units(references: Flags, predictions: Flags, *, both_classes: bool = False) -> I64:
            marks = UnitMarks(n_units, evidence.n_classes)
            marks.add(of_reference[references], evidence.reference_label[references])
            marks.add(of_prediction[predictions], evidence.prediction_label[predictions])
            if both_classes:
                # Mending a wrong class changes two classes: the one it is called and the right one.
                rows = np.flatnonzero(predictions & (evidence.prediction_kind == CLS))
                marks.add(of_prediction[rows], evidence.reference_label[evidence.partner[rows]])
            return marks.counts()

        real, nobody = evidence.counted_references, np.zeros(len(evidence.score), np.bool_)
        needed = units(real, nobody)
        tried = units(real, evidence.prediction_kind != 0)
        every = np.full_like(needed, n_units)
        table = np.zeros((1 + evidence.n_classes, len(self.plans), 3), np.int64)
        for k, quantity in enumerate(self.quantities):
            gain = quantity.what == "gain"
            wrong = units(*_mistake_flags(evidence, quantity.of), both_classes=gain)
            columns = [needed, tried, wrong] if gain else [every, every, wrong]
            table[:, k] = np.stack(columns, axis=1)
        return table


class TideAveragePrecision(ErrorTypes):
    """The average precision from which the gains of the error types are counted."""

    own_options = OPTIONS[2:]
    facts = Facts(
        id="tide-ap@1",
        swap=False,
        word="average precision (TIDE)",
        meaning=(
            "The average precision from which the gains of the error types are counted: the mean "
            "interpolated precision at the recalls 0/100 to 100/100. Unlike COCO's it averages "
            "over all classes that have references or predictions, takes at most 100 predictions "
            "of an image instead of 100 of each class, and reaches a recall exactly."
        ),
        citations=ErrorTypes.facts.citations,
        page="explanation/error-types.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        for plan in plans:
            check_options(plan, (*self.own_options, *FROM_PROTOCOL))
        self.recipe = shared_recipe(plans)
        self.plans = tuple(plans)
        names = tuple(plan.name for plan in plans)
        self.facts = replace(
            self.facts,
            names=names,
            ids=(self.facts.id,) * len(names),
            per_class=self.recipe.within_class,
            class_means=frozenset(names),
            mean_bias_reach=dict.fromkeys(names, BIAS_REACH_OF_CLASSES),
            less_than_share=frozenset(names),
            rough=frozenset(names),
        )

    def value(self, evidence: Mistakes, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        columns = []
        for plan in self.plans:
            blocks = plan.options.get("ties", "coco") == "block"
            columns.append(precision(evidence, weights, blocks=blocks))
        return np.stack(columns, axis=2)

    def support(self, evidence: Mistakes, unit: I64, n_units: int) -> I64:
        """Return (1 + n_classes, n_names, 3): units with references, with any object, with a
        mistake.
        """
        real = evidence.counted_references
        needed, tried, wrong = (UnitMarks(n_units, evidence.n_classes) for _ in range(3))
        for marks in (needed, tried):
            marks.add(unit[evidence.reference_image[real]], evidence.reference_label[real])
        present = evidence.prediction_kind != 0
        of_prediction = unit[evidence.prediction_image]
        tried.add(of_prediction[present], evidence.prediction_label[present])
        missed = real & (evidence.reference_kind != RIGHT)
        wrong.add(unit[evidence.reference_image[missed]], evidence.reference_label[missed])
        alarms = evidence.counted_predictions & (evidence.prediction_kind != RIGHT)
        wrong.add(of_prediction[alarms], evidence.prediction_label[alarms])
        counts = np.stack([needed.counts(), tried.counts(), wrong.counts()], axis=1)
        return np.repeat(counts[:, None], len(self.plans), axis=1)


def shared_recipe(plans: Sequence[MetricPlan]) -> ErrorRecipe:
    """Return the recipe of some plans, which must be the same."""
    for plan in plans:
        check_number(plan, "background", above=0.0)
        check_number(plan, "foreground", above=0.0)
    recipes = {_recipe(plan) for plan in plans}
    if len(recipes) > 1:
        names = ", ".join(plan.name for plan in plans)
        raise UsageError(f"{names}: error types must share their limits and criterion")
    recipe = next(iter(recipes))
    _check_recipe(plans[0].name, recipe)
    return recipe


def _table(evidence: Mistakes, weights: I64, what: str, blocks: bool) -> F64:
    """Return (R, 1 + n_classes, ...): all gains, or all counts, which are undefined without
    images.
    """
    if what == "gain":
        return gains(evidence, weights, blocks=blocks)
    some = np.asarray(weights.any(axis=1))
    return np.where(some[:, None, None], counts(evidence, weights), np.nan)


def _mistake_flags(evidence: Mistakes, of: str) -> tuple[Flags, Flags]:
    """Return which references and which predictions are mistakes of a kind."""
    kind, real = evidence.prediction_kind, evidence.counted_references
    nobody, none = np.zeros(len(real), np.bool_), np.zeros(len(kind), np.bool_)
    if of == "miss":
        return np.asarray(evidence.reference_kind == KINDS["miss"]), none
    if of == "fn":
        return real & (evidence.reference_kind != RIGHT), none
    if of == "fp":
        return nobody, evidence.counted_predictions & (kind != RIGHT)
    return nobody, evidence.false_on_empty if of == "empty" else np.asarray(kind == KINDS[of])


def _quantity(plan: MetricPlan) -> ErrorQuantity:
    """Return the quantity of a plan, from its option or from its name, which must not contradict
    each other.
    """
    name, _, part = plan.name.partition("#")[0].partition("/")
    family = FAMILIES.get(name)
    options = [(what, plan.options[what]) for what in ("gain", "count") if what in plan.options]
    if len(options) > 1:
        raise UsageError(f"metric {plan.name!r}: set gain or count, not both")
    if options:
        what, of = options[0]
    elif family:
        what, of = family[0], part
    else:
        raise UsageError(
            f"metric {plan.name!r} (error-types): the error type is missing; call it dAP/cls or "
            "errors/cls, or set gain or count"
        )
    kinds = GAINS if what == "gain" else COUNTS
    if of not in kinds:
        raise UsageError(
            f"metric {plan.name!r}: no {what} of {of!r}; {did_you_mean(str(of), kinds)}"
        )
    if family and (what, of) != (family[0], part):
        raise UsageError(
            f"metric {plan.name!r}: its name says {part!r}, its options say {what} of {of!r}"
        )
    return ErrorQuantity(what, of)


def _recipe(plan: MetricPlan) -> ErrorRecipe:
    options = plan.options
    view = options.get("matching", View())
    if not isinstance(view, View):
        raise UsageError(
            f"metric {plan.name!r} (error-types) has no option 'matching'; set "
            f"{', '.join(OPTIONS[2:])}"
        )
    limit = options.get("max_dets", view.max_dets)
    return ErrorRecipe(
        criterion=registry.check("criterion", options.get("criterion", view.criterion)),
        background=float(options.get("background", 0.1)),
        foreground=float(options.get("foreground", view.threshold)),
        max_dets=sys.maxsize if limit == float("inf") else int(limit),
        score_cut=options.get("score_cut", float("-inf")),
        within_class=view.within_class,
        strict=view.strict,
    )


def _check_recipe(name: str, recipe: ErrorRecipe) -> None:
    """Raise for limits in the wrong order, and for a criterion that is no overlap from 0 to 1."""
    if not recipe.background < recipe.foreground <= 1:
        raise UsageError(
            f"metric {name!r}: needs 0 < background < foreground <= 1, got {recipe.background:g} "
            f"and {recipe.foreground:g}; foreground is the threshold of the matching unless it is "
            "set"
        )
    criterion: Criterion = registry.resolve("criterion", recipe.criterion)
    if criterion.distance or criterion.yes_no or criterion.none != 0:
        raise UsageError(
            f"metric {name!r}: needs a criterion that measures an overlap from 0 to 1, such as "
            f"box-iou or mask-iou, not {recipe.criterion}"
        )
