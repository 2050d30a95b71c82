# SPDX-License-Identifier: Apache-2.0
"""`ObjectStability`, the result of `object_stability`: estimates, tables, single images and models.

It holds rows of estimates and the evidence, and computes the rest on demand: how many models find
each reference, agreement per image and per pair, what happens without one of the models (the
jackknife over models), and the most disputed images; as sentences, warnings and JSON.

`select_models` checks which models are compared; `object_stability` and `detections_as_bags` call
it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, Column
from calipers.data.cohort import Cohort
from calipers.data.look_alikes import NARROWER, note_on_names
from calipers.errors import InputError, UsageError, did_you_mean, several
from calipers.kernels.ranks import pair_index
from calipers.results.document import Document
from calipers.results.estimate import Estimate, Row, number
from calipers.show.words import (
    ci_text,
    interval_in_words,
    level_text,
    percent_span,
    percent_text,
    plural,
    reason_text,
    span_text,
    two_decimals,
)
from calipers.stability.objects_evidence import ObjectPairs, mean_of_defined
from calipers.stability.score_diagnostics import jackknife_error, t_interval

NAN = math.nan
MEANS = ("agreement", "mean-iou")
SHARES = ("found-by-all", "found-by-some", "found-by-none")
FEWEST_MODELS = 3

ALL = "all models"
SIZES = {2: ("small", "large"), 3: ("small", "medium", "large")}
MOST_DISPUTED = 10  # disputed images in the JSON document

# Our judgement: fewer trainings than these are warned about, as are so many undefined pairs.
FEW_MODELS = 5
MANY_UNDEFINED = 0.2


@dataclass(frozen=True, slots=True)
class FoundBy:
    """How many references exactly k models find."""

    k: int
    references: int
    share: Estimate


@dataclass(frozen=True, slots=True)
class FalseAlarmsBy:
    """At how many places exactly k models raise a false alarm."""

    k: int
    places: int
    share: Estimate


@dataclass(frozen=True, slots=True)
class DisputedReference:
    """A reference that some models find and others do not."""

    row: int  # in the references of the cohort
    place: int  # row in the input
    label: str
    found_by: tuple[str, ...]
    missed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DisputedImage:
    """An image with disputed references."""

    image: str
    index: int  # in the cohort
    n_references: int  # counted ones
    agreement: float  # of the models on this image
    references: tuple[DisputedReference, ...]  # the disputed ones

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return {
            "image": self.image,
            "references": self.n_references,
            "agreement": number(self.agreement),
            "disputed": [
                {
                    "row": one.row,
                    "place": one.place,
                    "class": one.label,
                    "found_by": list(one.found_by),
                    "missed_by": list(one.missed_by),
                }
                for one in self.references
            ],
        }


@dataclass(frozen=True, slots=True)
class ObjectLeaveOneOut:
    """A number without each of the models, and its jackknife interval for other trainings."""

    metric: str
    value: float  # with all models
    without: Mapping[str, float]  # model -> value of the others
    standard_error: float  # jackknife over models
    low: float  # t interval over models
    high: float
    level: float
    reason: str | None  # why there is no interval

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return {
            "metric": self.metric,
            "value": number(self.value),
            "without": {name: number(value) for name, value in self.without.items()},
            "standard_error": number(self.standard_error),
            "low": number(self.low),
            "high": number(self.high),
            "level": self.level,
            "n_models": len(self.without),
            "reason": self.reason,
        }


@dataclass(frozen=True, repr=False, eq=False)
class ObjectStability(Document):
    """What `calipers.stability.objects.object_stability` returns.

    Figures are ``found-by``, ``false-alarms``, ``sizes``, ``agreement`` and ``pairs``.
    """

    SCHEMA = "calipers.object-stability/1"
    FIGURES = "calipers.stability.figures:OBJECT_FIGURES"
    FIRST_FIGURE = "found-by"
    TABLES = "calipers.stability.tables:object_tables"

    cohort: Cohort
    models: tuple[str, ...]
    evidence: ObjectPairs
    rows: tuple[Row, ...]
    settings: Mapping[str, Any]
    below: Mapping[str, int]  # model -> predictions below the score cut, which were left out

    def __getitem__(self, metric: str) -> Estimate:
        """Return the estimate of all objects together, such as ``["agreement"]`` or
        ``["found-by-some"]``.
        """
        return self.get(metric)

    def get(self, metric: str, *, label: str | None = None, **group: str) -> Estimate:
        """Return the estimate of all objects, a class, or a group such as ``size="small"``."""
        rows = [row for row in self.rows if row.metric == metric]
        if not rows:
            metrics = dict.fromkeys(row.metric for row in self.rows)
            raise UsageError(
                f"no number {metric!r} in this result; {did_you_mean(metric, metrics)}"
            )
        for row in rows:
            if row.label == label and dict(row.group or {}) == group:
                return row.estimate
        subsets = dict.fromkeys(str(row.label or dict(row.group or {}) or "all") for row in rows)
        raise UsageError(
            f"{metric!r} exists for: {'; '.join(subsets)}; not for {label or group or 'all'}"
        )

    def found_by(self) -> tuple[FoundBy, ...]:
        """Return how many references exactly 0, 1, ..., K models find, with the interval of their
        share.
        """
        finders = self.evidence.references.by_model.sum(axis=1)
        times = np.bincount(finders, minlength=len(self.models) + 1)
        return tuple(FoundBy(k, int(n), self._share("found-by", k)) for k, n in enumerate(times))

    def false_alarms_by(self) -> tuple[FalseAlarmsBy, ...]:
        """Return at how many places exactly 1, ..., K models raise a false alarm, with the interval
        of their share.
        """
        n_models = len(self.models)
        times = np.bincount(self.evidence.places.by_model.sum(axis=1), minlength=n_models + 1)
        rows = []
        for k in range(1, n_models + 1):
            rows.append(FalseAlarmsBy(k, int(times[k]), self._share("false-alarms-by", k)))
        return tuple(rows)

    def _share(self, metric: str, k: int) -> Estimate:
        return self.get(metric, models=f"{k} of {len(self.models)}")

    @cached_property
    def per_image(self) -> Mapping[str, Column]:
        """One entry per image of the cohort: means over pairs of models, and references by who
        found them.
        """
        evidence, n_models = self.evidence, len(self.models)
        agreement, iou = dense_pairs(evidence)
        times = evidence.references.by_model.sum(axis=1)
        owner, n = evidence.references.image, evidence.n_images
        kinds = {
            "found_by_all": times == n_models,
            "found_by_some": (times > 0) & (times < n_models),
            "found_by_none": times == 0,
        }
        counts = {name: np.bincount(owner[rows], minlength=n) for name, rows in kinds.items()}
        return {
            "image": np.array(self.cohort.images.ids, dtype=object),
            "agreement": mean_of_defined(agreement),
            "undefined_pairs": np.isnan(agreement).sum(axis=1),
            "mean_iou": mean_of_defined(iou),
            "predictions": np.diff(evidence.predictions.offsets),
            "references": np.diff(evidence.references.offsets),
            **counts,
            "false_alarm_places": np.diff(evidence.places.offsets),
        }

    def sd(self, metric: str = "agreement") -> float:
        """Return the standard deviation (ddof 1) over the images that have a value: of agreement or
        mean-iou.
        """
        if metric not in MEANS:
            raise UsageError(
                f"only means over images vary over images; {did_you_mean(metric, MEANS)}"
            )
        values = self.per_image[metric.replace("-", "_")]
        defined_values = values[~np.isnan(values)]
        return float(defined_values.std(ddof=1)) if len(defined_values) > 1 else float("nan")

    @property
    def undefined(self) -> tuple[int, int, int]:
        """Pairs of models that both predict nothing on an image, the number of all such pairs, and
        images without any prediction.
        """
        # Skipped pairs are counted: many of them mean that the models are silent, not that they
        # agree.
        missing = self.per_image["undefined_pairs"]
        n_pairs = len(self.models) * (len(self.models) - 1) // 2
        return int(missing.sum()), n_pairs * len(missing), int((missing == n_pairs).sum())

    @cached_property
    def per_pair(self) -> F64:
        """(K, K) the mean agreement of every two models over images; NaN on the diagonal."""
        return pair_matrix(self.evidence)

    def leave_one_out(self, metric: str = "agreement") -> ObjectLeaveOneOut:
        """Return a number without each of the models, with a jackknife interval over models where
        there is one.
        """
        if metric not in (*MEANS, *SHARES):
            raise UsageError(
                f"no {metric!r} without a model; {did_you_mean(metric, (*MEANS, *SHARES))}"
            )
        return self.without_models[metric]

    @cached_property
    def without_models(self) -> Mapping[str, ObjectLeaveOneOut]:
        """Every number without each of the models."""
        level = float(self.settings["level"])
        table = {}
        for metric in (*MEANS, *SHARES):
            table[metric] = leave_one_out(self.evidence, self.models, metric, level)
        return table

    def disputed(self, n: int = 10) -> tuple[DisputedImage, ...]:
        """Return the n images with the most references that some but not all models find.

        Of equal ones first those on which the models agree less, then those that come first. Images
        without any are not among them.
        """
        some, agreement = self.per_image["found_by_some"], self.per_image["agreement"]
        # lexsort takes the last key first; an undefined agreement is no disagreement
        order = np.lexsort((np.nan_to_num(agreement, nan=1.0), -some))
        return tuple(self._disputed(int(image)) for image in order[:n] if some[image])

    def _disputed(self, image: int) -> DisputedImage:
        table, cohort = self.evidence.references, self.cohort
        mine = slice(int(table.offsets[image]), int(table.offsets[image + 1]))
        references = []
        for row, flags in zip(table.row[mine].tolist(), table.by_model[mine].tolist()):
            if any(flags) and not all(flags):
                finders = tuple(model for model, flag in zip(self.models, flags) if flag)
                others = tuple(model for model, flag in zip(self.models, flags) if not flag)
                label = cohort.classes[int(cohort.references.label[row])]
                place = int(cohort.references.place[row])
                references.append(DisputedReference(row, place, label, finders, others))
        agreement = float(self.per_image["agreement"][image])
        return DisputedImage(
            cohort.images.ids[image], image, mine.stop - mine.start, agreement, tuple(references)
        )

    def sentences(self) -> list[str]:
        """Return in words how far the models find the same."""

        return sentences(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the numbers must know."""

        return warnings(self)

    def __str__(self) -> str:
        return "\n".join([*self.sentences(), *(f"note: {text}" for text in self.warnings)])

    def _content(self) -> dict[str, Any]:
        n_undefined, n_pairs, n_silent = self.undefined
        return {
            "settings": dict(self.settings),
            "models": list(self.models),
            "images": self.evidence.n_images,
            "references": len(self.evidence.references),
            "ignored_references": int(self.evidence.ignored.sum()),
            "predictions": np.bincount(
                self.evidence.predictions.model, minlength=len(self.models)
            ).tolist(),
            "predictions_below_cut": [self.below[name] for name in self.models],
            "duplicates": self.evidence.duplicates.sum(axis=0).tolist(),
            "false_alarm_places": len(self.evidence.places),
            "undefined": {"pairs": n_undefined, "of_pairs": n_pairs, "silent_images": n_silent},
            "rows": self._records(),
            "sd": {name: number(self.sd(name)) for name in MEANS},
            "pairs": [list(map(number, line)) for line in self.per_pair.tolist()],
            "leave_one_out": [self.leave_one_out(name).as_dict() for name in (*MEANS, *SHARES)],
            "disputed": [image.as_dict() for image in self.disputed(MOST_DISPUTED)],
            "sentences": self.sentences(),
            "warnings": list(self.warnings),
        }


def select_models(cohort: Cohort, models: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the models to compare: at least two different ones."""
    if not isinstance(cohort, Cohort):
        kind = type(cohort).__name__
        raise UsageError(
            f"object stability takes a cohort, not {kind}: make one with calipers.read"
        )
    if isinstance(models, str):
        raise UsageError(f"models takes several names, such as [{models!r}, ...]")
    names = tuple(cohort.models) if models is None else tuple(several("models", models))
    for name in names:
        cohort.predictions(name)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"model {twice!r} is named twice")
    if len(names) < 2:
        raise InputError(
            "the predictions of two or more models on the same images",
            rule="one-model",
            location="models",
            value=", ".join(names) or "none",
            hint="stability compares models that were trained alike: "
            "give their predictions as further models",
        )
    return names


def dense_pairs(evidence: ObjectPairs) -> tuple[F64, F64]:
    """Return (n_images, P) agreement and mean IoU of every pair of models, NaN where undefined."""
    cells = evidence.whole_cells
    shape = evidence.n_images, len(pair_index(evidence.n_models)[0])
    agreement, iou = np.full(shape, np.nan), np.full(shape, np.nan)
    agreement[cells.image], iou[cells.image] = cells.agreement, cells.iou
    return agreement, iou


def pair_matrix(evidence: ObjectPairs) -> F64:
    """Return (K, K) the mean agreement of two models over the images on which at least one of them
    predicts something.
    """
    one, other = pair_index(evidence.n_models)
    matrix = np.full((evidence.n_models, evidence.n_models), np.nan)
    matrix[one, other] = matrix[other, one] = mean_of_defined(dense_pairs(evidence)[0].T)
    return matrix


def leave_one_out(
    evidence: ObjectPairs, models: tuple[str, ...], metric: str, level: float
) -> ObjectLeaveOneOut:
    """Return a number without each of the models.

    The jackknife's standard error is ``sqrt((K - 1) / K * sum((v_m - mean)^2))`` over the values
    without model m; its interval is a t interval with K - 1 degrees of freedom, on the scale of
    shares, so that it stays within 0 and 1. It needs three models. Shares of references found by
    all, some or none have no such interval: with one model less they are another quantity, not the
    same one from less data.
    """
    everyone = np.ones(len(models), np.bool_)
    value = _value_of_models(evidence, metric, everyone)
    if len(models) < FEWEST_MODELS:
        return ObjectLeaveOneOut(
            metric, value, dict.fromkeys(models, NAN), NAN, NAN, NAN, level, "too_few_units"
        )
    without = np.zeros(len(models))
    for m in range(len(models)):
        others = everyone & (np.arange(len(models)) != m)
        without[m] = _value_of_models(evidence, metric, others)
    by_model = dict(zip(models, without.tolist()))
    # With one model less, found-by-all is another quantity: its values are shown, but make no
    # interval.
    if metric in SHARES or np.isnan(without).any():
        reason = "not_requested" if metric in SHARES else "no_objects"
        return ObjectLeaveOneOut(metric, value, by_model, NAN, NAN, NAN, level, reason)
    error = jackknife_error(without)
    low, high = t_interval(value, error, len(models), level, (0.0, 1.0))
    if not low < high:  # an interval of width 0 would claim certainty
        reason = "constant_input"
        return ObjectLeaveOneOut(metric, value, by_model, error, NAN, NAN, level, reason)
    return ObjectLeaveOneOut(metric, value, by_model, error, low, high, level, None)


def _value_of_models(evidence: ObjectPairs, metric: str, models: NDArray[np.bool_]) -> float:
    """Return a number of some of the models, (K,) flags."""
    if metric in SHARES:
        times, most = evidence.references.by_model[:, models].sum(axis=1), int(models.sum())
        kinds = {"all": times == most, "none": times == 0, "some": (times > 0) & (times < most)}
        return float(kinds[metric.removeprefix("found-by-")].mean()) if len(times) else NAN
    one, other = pair_index(evidence.n_models)
    # Pairs of the remaining models only: nothing is matched again.
    table = dense_pairs(evidence)[MEANS.index(metric)]
    of_images = mean_of_defined(table[:, models[one] & models[other]])
    return float(mean_of_defined(of_images[None])[0])


def sentences(result: ObjectStability) -> list[str]:
    """Return the result in sentences, the most important first."""
    # What is found first, then how far models agree: readers care about findings.
    candidates = [
        _references(result),
        _agreement(result),
        _overlap(result),
        _false_alarms(result),
        _trainings(result),
        _disputed(result),
    ]
    return [sentence for sentence in candidates if sentence]


def _references(result: ObjectStability) -> str:
    n, k = len(result.evidence.references), len(result.models)
    if not n:
        return "There are no counted references, so what the models find cannot be compared."
    every = _share(result["found-by-all"])
    some = _share(result["found-by-some"])
    none = _share(result["found-by-none"])
    references = _count_text(n, "reference")
    if k == 2:
        shares = f"both models find {every}, only one finds {some}"
    else:
        shares = f"all {k} models find {every}, some but not all find {some}"
    return f"Of {references}, {shares}, and none finds {none}."


def _agreement(result: ObjectStability) -> str:
    value, n_silent = result["agreement"], result.undefined[2]
    if math.isnan(value.value):
        return "No model predicts anything: agreement is undefined."
    details = f"mean over {_count_text(value.n_images, 'image')}"
    sd = result.sd("agreement")
    if sd == sd:
        details += f", standard deviation {two_decimals(sd)}"
    if n_silent:
        details += f"; {_count_text(n_silent, 'image')} without any prediction left out"
    return f"Two models agree on {_share(value)} of what they predict, correct or not ({details})."


def _overlap(result: ObjectStability) -> str:
    value = result["mean-iou"]
    if math.isnan(value.value):
        return ""
    interval = ""
    if not math.isnan(value.low):
        interval = f" ({interval_in_words(value)})"
    return (
        "Where they agree, their shapes have a mean intersection over union of "
        f"{two_decimals(value.value)}{interval}."
    )


def _false_alarms(result: ObjectStability) -> str:
    n = len(result.evidence.places)
    if not n:
        return "No model raises a false alarm."
    share = _share(result["false-alarms-shared"])
    return f"Of {_count_text(n, 'place')} with a false alarm, at least two models share {share}."


def _trainings(result: ObjectStability) -> str:
    jackknife = result.leave_one_out("agreement")
    if jackknife.reason is not None:
        return ""
    without, value = jackknife.without, jackknife.value
    name = max(without, key=lambda model: abs(without[model] - value))
    return (
        "Other trainings: without one of the models, the agreement ranges from "
        f"{span_text(min(without.values()), max(without.values()))} (it changes most without "
        f"{name}); the jackknife over {len(result.models)} models gives {two_decimals(value)} "
        f"({ci_text(jackknife.level, span_text(jackknife.low, jackknife.high))})."
    )


def _disputed(result: ObjectStability) -> str:
    images = result.disputed(3)
    if not images:
        return "No reference is disputed." if len(result.evidence.references) else ""
    texts = [f"{one.image} ({len(one.references)} of {one.n_references})" for one in images]
    return f"Most disputed references: {', '.join(texts)}."


def warnings(result: ObjectStability) -> tuple[str, ...]:
    """Return what was left out, and what limits the numbers."""
    return (*_left_out(result), *_limits(result), *_look_alikes(result))


def _look_alikes(result: ObjectStability) -> list[str]:
    unit, groups = result.settings["unit"], result.cohort.images.groups
    names = groups[unit].tolist() if unit in groups else ()
    return [*note_on_names(unit, names, NARROWER), *note_on_names("model", result.models)]


def _left_out(result: ObjectStability) -> list[str]:
    evidence, notes = result.evidence, []
    if n_ignored := int(evidence.ignored.sum()):
        notes.append(f"{_count_text(n_ignored, 'reference')} left out: ignored, or crowds")
    score_cut = result.settings["score_cut"]
    for name, n in result.below.items():
        if n:
            notes.append(
                f"{_count_text(n, 'prediction')} of {name} left out: score below {score_cut:g}"
            )
    for name, n in zip(result.models, evidence.duplicates.sum(axis=0).tolist()):
        if n:
            notes.append(
                f"{_count_text(n, 'duplicate')} of {name}: further predictions of a reference that "
                "was already found, not counted as false alarms"
            )
    # Places are connected groups, so that two false alarms of one model may share one.
    chained = int((evidence.places.members > evidence.places.by_model.sum(axis=1)).sum())
    if chained:
        notes.append(
            f"{_count_text(chained, 'place')} with several false alarms of one model, counted once"
        )
    unscored = [name for name in result.models if not result.cohort.models[name].scored]
    if unscored:
        notes.append(f"no scores: {', '.join(unscored)}; all predictions count, with a score of 1")
    return notes


def _limits(result: ObjectStability) -> list[str]:
    notes, n_models, agreement = [], len(result.models), result["agreement"]
    n_undefined, n_pairs, _ = result.undefined
    if n_undefined:
        note = (
            f"in {n_undefined} of {n_pairs} comparisons of two models on an image, both predict "
            "nothing: skipped"
        )
        if n_undefined > MANY_UNDEFINED * n_pairs:
            note += ", a large part: see agreement-with-silence too"
        notes.append(note)
    if n_models < FEW_MODELS:
        notes.append(f"{n_models} models are too few to predict what other trainings would find")
    if result.evidence.n_images and np.isnan(agreement.low) and agreement.reason:
        notes.append(f"no interval of the agreement: {reason_text(agreement.reason)}")
    if "few_units" in agreement.flags:
        notes.append(
            f"few units ({agreement.n_units} {plural(agreement.unit)}): intervals are rough"
        )
    notes.append(
        "the shares found by all, some and none depend on the number of models: compare only "
        "results with equal numbers"
    )
    return notes


def _count_text(n: int, what: str) -> str:
    return f"{n} {what if n == 1 else plural(what)}"


def _share(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return "an undefined share"
    # An interval of units is about the share of units without an exception, and says so.
    value = percent_text(estimate.value)
    if math.isnan(estimate.low):
        return value
    if estimate.method == "clopper-pearson-units":  # too few exceptions for a bootstrap
        level, units = level_text(estimate.level), plural(estimate.unit)
        return f"{value} (at {level}: {_span_text(estimate)} of the {units})"
    return f"{value} ({interval_in_words(estimate, percent_span)})"


def _span_text(estimate: Estimate) -> str:
    return percent_span(estimate.low, estimate.high)
