# SPDX-License-Identifier: Apache-2.0
"""Robust Detection Outcome (RoDeO): scores of place, shape and class, and their harmonic mean.

References and predictions of an image are paired by the Hungarian method on ``-w [same class] -
GIoU``, with no minimum overlap. Over the M pairs, with Ut missed references and Up extra
predictions:

- loc: mean of ``2^-(d^2)``, d the distance of the centres in sizes of the reference (option
  ``scale``: 0.5 is reached at d = scale);
- shape: mean IoU of the two boxes put on one centre;
- cls: ``max(0, MCC)`` of the one-hot classes, ``(C acc - 1) / (C - 1)`` (option ``multiclass``:
  Gorodkin's R_K);
- each times ``M / (M + Ut + Up)``; total: harmonic mean, 0 if one of them is 0 (option
  ``summary``).

w is ``max(0, MCC)`` of which classes are present in which image, over the data set. Boxes on one
side only give 0; no box anywhere, or a class that nobody has, is undefined; with a single declared
class cls is undefined and the total is that of loc and shape.

*Evidence.* The class weight depends on the whole data set, so it moves with every bootstrap
replicate, and the matching with it. `RodeoRecipe` keeps the few pieces of every image
(`kernels.rodeo`), the matching as a function of the class weight, in `RodeoPaths`: each replicate
is then exact without matching again.

References
----------
Meissen et al., Robust Detection Outcome: A Metric for Pathology Detection in Medical Images, MIDL
2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I32, I64
from calipers.data.cohort import Cohort
from calipers.data.objects import Predictions, References
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.kernels import ragged
from calipers.kernels.rodeo import BoxSide, TallyTable, paths, presence_mcc
from calipers.kernels.rodeo import tally as weigh_pieces
from calipers.metrics.base import Facts, MetricPlan, UnitMarks, check_number, check_options

MOST_PAIRS = 1 << 24  # of an image: 4,096 objects on either side, and 300 MB
PARTS = ("total", "localization", "shape", "classification")
SUMMARIES = ("harmonic", "arithmetic", "minimum")
OPTIONS = (
    "part",
    "class_weight",
    "scale",
    "summary",
    "multiclass",
    "weight_matched",
    "weight_missed",
    "weight_extra",
    "epsilon",
)


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


def _check_pairs(cohort: Cohort, references: References, predictions: Predictions) -> None:
    """Raise for an image with too many pairs: the assignment looks at all of them, several times
    per object.
    """
    pairs = np.diff(references.offsets) * np.diff(predictions.offsets)
    image = int(pairs.argmax()) if len(pairs) else 0
    if len(pairs) and pairs[image] > MOST_PAIRS:
        raise InputError(
            f"at most {MOST_PAIRS:,} pairs of references and predictions on an image for RoDeO",
            rule="too-large",
            location=f"image {cohort.images.ids[image]!r}",
            value=f"{int(pairs[image]):,}",
            hint="leave out predictions of low score with score_cut in the protocol",
        )


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
        # RoDeO knows no ignored regions: such references are left out before matching.
        if references.ignore.any():
            references = references.keep(~references.ignore)
        if (predictions.score < self.score_cut).any():
            predictions = predictions.keep(predictions.score >= self.score_cut)
        _check_pairs(cohort, references, predictions)
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


@dataclass(frozen=True)
class Tallies:
    """Weighted sums of one or more replicates, (R, C) each."""

    matched: F64
    correct: F64
    localization: F64
    shape: F64
    missed: F64
    extra: F64
    confusion: F64 | None  # (R, C, C), only for `multiclass`

    def pooled(self) -> Tallies:
        """Return the sums over classes, (R, 1) each."""

        def total(column: F64) -> F64:
            return np.asarray(column.sum(axis=1, keepdims=True))

        return Tallies(
            matched=total(self.matched),
            correct=total(self.correct),
            localization=total(self.localization),
            shape=total(self.shape),
            missed=total(self.missed),
            extra=total(self.extra),
            confusion=self.confusion,
        )


class Rodeo:
    """RoDeO and its parts, pooled and per class. Matching is global; a class sees the pairs whose
    reference it is.
    """

    own_matching = True
    own_options = OPTIONS
    defaults = ("score_cut",)
    facts = Facts(
        id="rodeo@1",
        short={
            "RoDeO": {},
            "RoDeO/loc": {"part": "localization"},
            "RoDeO/shape": {"part": "shape"},
            "RoDeO/cls": {"part": "classification"},
        },
        knows_ignored=False,
        word="RoDeO",
        meaning=(
            "Robust Detection Outcome: every box is paired with its most plausible partner, then "
            "judged in three parts, place (loc), shape and class (cls); the total is their "
            "harmonic mean. Missed and surplus boxes lower all parts."
        ),
        citations=(
            "Meissen F, et al. Robust detection outcome: a metric for pathology detection in "
            "medical images. MIDL 2023.",
        ),
        matching="RoDeO pairs boxes by its own rule.",
        page="explanation/rodeo.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        for plan in plans:
            check_options(plan, OPTIONS)
            _check_choice(plan, "part", PARTS)
            _check_choice(plan, "summary", SUMMARIES)
            _check_class_weight(plan)
            _check_numbers(plan)
        recipes = {_recipe(plan) for plan in plans}
        if len(recipes) > 1:
            raise UsageError("all RoDeO metrics of a protocol share class_weight and score_cut")
        self.plans = tuple(plans)
        names = tuple(plan.name for plan in plans)
        self.facts = replace(self.facts, names=names, graded=frozenset(names))

    @property
    def recipe(self) -> RodeoRecipe:
        """How the evidence is collected."""
        return _recipe(self.plans[0])

    def value(self, evidence: RodeoPaths, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        # The class weight moves with every replicate, and with it the matching of every image.
        active = active_pieces(evidence, class_weights(evidence, weights))
        # Image by image, as weights lie in memory.
        piece_weights = (np.ascontiguousarray(weights.T)[evidence.piece_image] * active.T).T
        cache: dict[str, tuple[dict[str, F64], dict[str, F64]]] = {}
        columns = []
        for plan in self.plans:
            options = {name: value for name, value in plan.options.items() if name != "part"}
            key = repr(sorted(options.items()))  # the parts of one set of options share the work
            if key not in cache:
                scale = float(options.get("scale", 1.0))
                multiclass = bool(options.get("multiclass", False))
                tallies = tally(evidence, piece_weights, scale, multiclass)
                of_all = scores(tallies.pooled(), evidence.n_classes, options)
                # R_K is one number of the whole confusion matrix; single classes use the one-hot
                # form.
                one_hot = {**options, "multiclass": False}
                cache[key] = of_all, scores(tallies, evidence.n_classes, one_hot)
            part = plan.options.get("part", "total")
            of_all, of_classes = cache[key]
            columns.append(np.concatenate([of_all[part], of_classes[part]], axis=1))
        return np.stack(columns, axis=2)

    def per_image(self, evidence: RodeoPaths) -> dict[str, F64]:
        """Return name -> (n_images,): the scores of every single image, at the class weight of the
        data set.

        As for single classes, cls is the one-hot form: a few pairs make no R_K.
        """
        weights = np.ones((1, evidence.n_images), np.int64)
        active = active_pieces(evidence, class_weights(evidence, weights))
        values = {}
        for plan in self.plans:
            scale = float(plan.options.get("scale", 1.0))
            tallies = tally(
                evidence, active.astype(np.int64), scale, multiclass=False, by_image=True
            )
            parts = scores(tallies, evidence.n_classes, plan.options)
            values[plan.name] = parts[plan.options.get("part", "total")][0]
        return values

    def reasons(self, evidence: RodeoPaths) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: nothing there, no references of the class, or a single
        declared class.
        """
        weights = np.ones(evidence.n_images, np.int64)
        table = self.counts(evidence, weights)
        why = {}
        for row, k in np.argwhere(np.isnan(self.value(evidence, weights[None])[0])).tolist():
            if not table[row, k, 1:].any():
                why[row, k] = "no_objects"
            elif evidence.n_classes == 1:
                why[row, k] = "single_class"
            else:  # every prediction of the class belongs to a reference of another one
                why[row, k] = "no_references"
        return why

    def counts(self, evidence: RodeoPaths, weights: I64) -> I64:
        """Return (1 + n_classes, n_names, 3): images, references, predictions."""
        # Each image once: all its pieces hold the same objects.
        first = evidence.piece_offsets[:-1]
        pairs = evidence.pair_offsets
        references = (evidence.reference_label, pairs), (evidence.missed, evidence.missed_offsets)
        predictions = (evidence.prediction_label, pairs), (evidence.extra, evidence.extra_offsets)
        tables = []
        for side in (references, predictions):
            total = np.zeros(evidence.n_classes)
            for column, bounds in side:
                rows, per_image = ragged.take_rows(bounds, first)
                weight = weights[ragged.owners(per_image)]
                total += np.bincount(column[rows], weights=weight, minlength=evidence.n_classes)
            tables.append(total)
        table = np.zeros((1 + evidence.n_classes, len(self.plans), 3), np.int64)
        table[:, :, 0] = weights.sum()
        table[1:, :, 1:] = np.stack(tables, axis=1)[:, None, :]
        table[0, :, 1:] = table[1:, :, 1:].sum(axis=0)
        return table

    def support(self, evidence: RodeoPaths, unit: I64, n_units: int) -> I64:
        """Return (1 + n_classes, n_names, 3): units with references, with objects, with anything
        imperfect.
        """
        w = class_weights(evidence, np.ones((1, evidence.n_images), np.int64))
        active = active_pieces(evidence, w)[0]
        of_piece = unit[evidence.piece_image]
        pair, missed, extra = (
            ragged.owners(bounds)
            for bounds in (evidence.pair_offsets, evidence.missed_offsets, evidence.extra_offsets)
        )
        sides = (
            (of_piece[pair], evidence.reference_label, active[pair]),
            (of_piece[missed], evidence.missed, active[missed]),
            (of_piece[extra], evidence.extra, active[extra]),
        )
        # A unit is in error as soon as anything is not perfect.
        far, misshapen = evidence.distance > 0, evidence.shape < 1
        mistaken = evidence.reference_label != evidence.prediction_label
        wrong = dict(zip(PARTS, (far | misshapen | mistaken, far, misshapen, mistaken)))

        def units(*rows: NDArray[np.bool_]) -> I64:
            marks = UnitMarks(n_units, evidence.n_classes)
            for (of_side, label, here), flags in zip(sides, rows):
                marks.add(of_side[here & flags], label[here & flags])
            return marks.counts()

        everyone = [np.ones(len(label), np.bool_) for _, label, _ in sides]
        needed, tried = units(*everyone[:2]), units(*everyone)
        table = np.zeros((1 + evidence.n_classes, len(self.plans), 3), np.int64)
        for k, plan in enumerate(self.plans):
            in_error = units(wrong[plan.options.get("part", "total")], *everyone[1:])
            table[:, k] = np.stack([needed, tried, in_error], axis=1)
        return table


def class_weights(evidence: RodeoPaths, weights: I64) -> F64:
    """Return (R,): max(0, MCC) of the class presence over the weighted images."""
    # products of whole numbers: exact in any order
    cells = weights.astype(np.float64) @ evidence.presence.astype(np.float64)
    n_cells = weights.sum(axis=1) * float(evidence.n_classes)
    return np.maximum(0.0, presence_mcc(cells, n_cells))


def active_pieces(evidence: RodeoPaths, w: F64) -> NDArray[np.bool_]:
    """Return (R, n_pieces): which piece of every image is valid at the class weights ``w`` (R,)."""
    return ((evidence.start[:, None] <= w) & (w < evidence.piece_end[:, None])).T


def tally(
    evidence: RodeoPaths,
    piece_weights: I64,
    scale: float,
    multiclass: bool,
    *,
    by_image: bool = False,
) -> Tallies:
    """Return the weighted sums per class, or per image."""
    owners: tuple[NDArray[np.integer], ...] = (
        evidence.reference_label,
        evidence.missed,
        evidence.extra,
    )
    if by_image:
        offsets = (evidence.pair_offsets, evidence.missed_offsets, evidence.extra_offsets)
        owners = tuple(evidence.piece_image[ragged.owners(bounds)] for bounds in offsets)
    table = TallyTable(
        pair_offsets=evidence.pair_offsets,
        missed_offsets=evidence.missed_offsets,
        extra_offsets=evidence.extra_offsets,
        owner=owners[0],
        missed_owner=owners[1],
        extra_owner=owners[2],
        right=evidence.reference_label == evidence.prediction_label,
        # `distance` is squared already.
        near=np.exp2(-evidence.distance / scale**2),
        shape=evidence.shape,
    )
    sums = weigh_pieces(piece_weights, table, evidence.n_images if by_image else evidence.n_classes)
    confusion = _confusion(evidence, piece_weights) if multiclass else None
    n_matched, correct, localization, shape, n_missed, n_extra = (sums[:, k] for k in range(6))
    return Tallies(n_matched, correct, localization, shape, n_missed, n_extra, confusion)


def _confusion(evidence: RodeoPaths, piece_weights: I64) -> F64:
    """Return (R, C, C): the weight of the pairs of each reference class (row) and prediction class
    (column).
    """
    n, piece = evidence.n_classes, ragged.owners(evidence.pair_offsets)
    cell = evidence.reference_label.astype(np.int64) * n + evidence.prediction_label
    rows = [np.bincount(cell, weights=weight[piece], minlength=n * n) for weight in piece_weights]
    return np.asarray(np.stack(rows).reshape(-1, n, n), np.float64)


def scores(t: Tallies, n_classes: int, options: Mapping[str, Any]) -> dict[str, F64]:
    """Return the four scores of every column of the tallies."""
    hits = options.get("weight_matched", 1.0) * t.matched
    penalty = (
        options.get("weight_missed", 1.0) * t.missed + options.get("weight_extra", 1.0) * t.extra
    )
    everything = hits + penalty
    share = np.divide(hits, everything, out=np.full(everything.shape, np.nan), where=everything > 0)

    def mean(total: F64) -> F64:
        return np.divide(total, t.matched, out=np.zeros(total.shape), where=t.matched > 0)

    # Missed and extra boxes lower every part by the same factor.
    localization, shape = mean(t.localization) * share, mean(t.shape) * share
    if n_classes == 1:
        classification = np.full(share.shape, np.nan)
        parts = [localization, shape]
    else:
        agreement = _one_hot_mcc(t, n_classes)
        if options.get("multiclass", False) and t.confusion is not None:
            agreement = _gorodkin(t.confusion)[:, None]
        classification = np.maximum(0.0, agreement) * share
        parts = [localization, shape, classification]
    total = summarise(
        np.stack(parts), options.get("summary", "harmonic"), options.get("epsilon", 0.0)
    )
    total = np.where(t.matched > 0, total, 0.0 * share)  # nothing is paired: 0, with an epsilon too
    return dict(zip(PARTS, (total, localization, shape, classification)))


def summarise(parts: F64, summary: str, epsilon: float = 0.0) -> F64:
    """Return one number of the parts along the first axis; harmonic: 0 if one of them is 0."""
    if summary == "arithmetic":
        return np.asarray(parts.mean(axis=0))
    if summary == "minimum":
        return np.asarray(parts.min(axis=0))
    # 0 by default: then a part of 0 makes the total 0.
    parts = parts + epsilon
    # The inverse of a part that is all but 0 is infinite too, and the total 0 then.
    with np.errstate(divide="ignore", over="ignore"):
        return np.where((parts == 0).any(axis=0), 0.0, len(parts) / np.sum(1.0 / parts, axis=0))


def _one_hot_mcc(t: Tallies, n_classes: int) -> F64:
    """Return the MCC of flattened one-hot classes, which depends on the accuracy alone; 0 without a
    pair.
    """
    accuracy = np.divide(t.correct, t.matched, out=np.zeros(t.matched.shape), where=t.matched > 0)
    return np.where(t.matched > 0, (n_classes * accuracy - 1.0) / (n_classes - 1.0), 0.0)


def _gorodkin(confusion: F64) -> F64:
    """Return R_K of confusion matrices (R, C, C); 0 where it is undefined."""
    total, correct = confusion.sum(axis=(1, 2)), np.trace(confusion, axis1=1, axis2=2)
    references, predictions = confusion.sum(axis=2), confusion.sum(axis=1)
    covariance = correct * total - np.sum(references * predictions, axis=1)
    norm = np.sqrt(total**2 - np.sum(predictions**2, axis=1)) * np.sqrt(
        total**2 - np.sum(references**2, axis=1)
    )
    return np.asarray(np.divide(covariance, norm, out=np.zeros(norm.shape), where=norm > 0))


def _recipe(plan: MetricPlan) -> RodeoRecipe:
    weight = plan.options.get("class_weight", "data-set")
    return RodeoRecipe(weight, float(plan.options.get("score_cut", -np.inf)))


def _check_choice(plan: MetricPlan, option: str, choices: Sequence[str]) -> None:
    value = plan.options.get(option, choices[0])
    if value not in choices:
        raise UsageError(
            f"metric {plan.name!r}: no {option} {value!r}; {did_you_mean(str(value), choices)}"
        )


def _check_numbers(plan: MetricPlan) -> None:
    for option in ("scale", "weight_matched"):
        check_number(plan, option, above=0.0)
    for option in ("weight_missed", "weight_extra", "epsilon"):
        check_number(plan, option, least=0.0)
    if not isinstance(plan.options.get("multiclass", False), bool):
        raise UsageError(
            f"metric {plan.name!r}: multiclass is true or false, not {plan.options['multiclass']!r}"
        )


def _check_class_weight(plan: MetricPlan) -> None:
    value = plan.options.get("class_weight", "data-set")
    number = (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    )
    if value not in ("data-set", "image") and not number:
        raise UsageError(
            f"metric {plan.name!r}: class_weight is 'data-set', 'image' or a number, not {value!r}"
        )
