# SPDX-License-Identifier: Apache-2.0
"""Figures of hits and errors: what became of references and predictions, and what mistakes cost.

An `Evaluation` comes in, a figure as data goes out; `evaluation.catalogue` names them.

- `fates`, `scores` and `overlaps` count references and predictions by fate, score and overlap;
- `thresholds` shows average precision against the threshold of the criterion;
- `error_gains` and `error_counts` show the kinds of errors of TIDE (Bolya et al. 2020), computed by
  `calipers.metrics.error_types`: what each costs in average precision, and how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calipers.arrays import F64
from calipers.errors import UsageError
from calipers.evaluation.collect import collect, jobs_of, with_areas
from calipers.evaluation.figures import at_level, models_shown, points, slot_of
from calipers.evaluation.result import Evaluation
from calipers.kernels import assignment
from calipers.kernels.roc import operating
from calipers.metrics.base import MetricPlan
from calipers.metrics.error_types import COUNTS, GAINS, ErrorTypes
from calipers.metrics.ranking import AveragePrecision, plan_of
from calipers.results.estimate import Estimate
from calipers.show.figures import Axis, Bars, Curves, Histogram, Line
from calipers.show.words import (
    count_text,
    join,
    percent_text,
    short_name,
    span_text,
    two_decimals,
    whole_text,
)

BINS = 20
# Criteria that are shares of an area: their thresholds can be moved from 0 to 1.
SHARES = ("box-iou", "iop", "ior", "mask-iou", "dice", "hull-iou", "boundary-iou")
KIND = "error-types"
MAIN = GAINS[:6]  # the kinds, without the sums over several kinds
MOST_NAMED = 3
WORDS = {  # short enough to stand below a bar
    "cls": "class",
    "loc": "place",
    "both": "both",
    "dup": "double",
    "bkg": "nothing",
    "miss": "missed",
    "fp": "all false",
    "fn": "all missed",
    "empty": "empty",
}
SENTENCES = {
    "cls": "a wrong class",
    "loc": "a place that is only roughly right",
    "both": "a wrong class in a place that is only roughly right",
    "dup": "second predictions on one reference",
    "bkg": "predictions on nothing",
    "miss": "references that no prediction came near",
    "empty": "false alarms on images without references",
}


def fates(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Bars:
    """Return how many references each model found and missed, and its wrong predictions."""
    fate_names = ("found", "missed", "false alarm", "duplicate")
    names = models_shown(evaluation, models)
    heights = np.zeros((len(fate_names), len(names)))
    for m, model in enumerate(names):
        table = evaluation.matches(model)
        of_reference, of_prediction = table.reference_fate[0], table.prediction_fate[0]
        heights[:, m] = [
            (of_reference == assignment.HIT).sum(),
            (of_reference == assignment.MISSED).sum(),
            (of_prediction == assignment.FALSE_ALARM).sum(),
            (of_prediction == assignment.DUPLICATE).sum(),
        ]
    score_cut = evaluation.protocol.matching.score_cut
    which = "All predictions, whatever their score."
    if score_cut != -math.inf:
        which = f"Predictions with scores of at least {score_cut:g}."
    n_images = evaluation.cohort.n_images
    images = "1 image" if n_images == 1 else f"{n_images} images"
    return Bars(
        _most_frequent(names, heights),
        Axis("fate", names=fate_names),
        Axis("objects", 0.0, whole=True),
        names,
        heights.T,
        note=f"{which} {images}.",
    )


def scores(evaluation: Evaluation, *, model: str | None = None) -> Histogram:
    """Return the scores of hits and of wrong predictions of one model."""
    if model is None:
        model = evaluation.models[0]
    if not evaluation.cohort.predictions(model).scored:
        raise UsageError(f"{model!r} has no scores")
    table = evaluation.matches(model)
    fate = table.prediction_fate[0]
    hit = fate == assignment.HIT
    wrong = (fate == assignment.FALSE_ALARM) | (fate == assignment.DUPLICATE)
    # From 0 to 1 at least, so that the figures of several models can be compared.
    low = float(min(table.score.min(initial=0.0), 0.0))
    high = float(max(table.score.max(initial=1.0), 1.0))
    edges = np.linspace(low, high, BINS + 1)
    counts = np.array(
        [np.histogram(table.score[rows], edges)[0] for rows in (hit, wrong)], np.float64
    )
    note = f"n = {int(hit.sum())} hits and {int(wrong.sum())} false alarms and duplicates."
    if np.intersect1d(table.score[hit], table.score[wrong]).size:
        note += " Pairs with equal scores count half."
    return Histogram(
        _overlap_in_words(model, table.score[hit], table.score[wrong]),
        Axis("score", low, high),
        Axis("predictions", 0.0, whole=True),
        edges,
        ("hits", "false alarms and duplicates"),
        counts,
        slots=(0, 1),
        note=note,
    )


def overlaps(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Histogram:
    """Return how well the found references are hit: the similarity of every hit."""
    names = models_shown(evaluation, models)
    view = evaluation.protocol.matching
    _check_share(view.criterion)
    edges = np.linspace(0.0, 1.0, BINS + 1)
    counts = np.zeros((len(names), BINS))
    medians, numbers = [], []
    for m, model in enumerate(names):
        table = evaluation.matches(model)
        values = table.similarity[table.prediction_fate[0] == assignment.HIT]
        counts[m] = np.histogram(values, edges)[0]
        numbers.append(f"{len(values)} ({short_name(model)})")
        if len(values):
            medians.append(f"{two_decimals(float(np.median(values)))} for {short_name(model)}")
    title = "There are no hits"
    if medians:
        title = f"The median {view.criterion} of a hit is {', '.join(medians[:3])}"
    return Histogram(
        title,
        Axis(view.criterion, 0.0, 1.0),
        Axis("hits", 0.0, whole=True),
        edges,
        names,
        counts,
        cut=view.threshold,
        slots=tuple(slot_of(evaluation, model) for model in names),
        note=f"n = {', '.join(numbers)} hits.",
    )


def thresholds(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Curves:
    """Return the average precision against the threshold of the criterion."""
    names = models_shown(evaluation, models)
    view = evaluation.protocol.matching
    _check_share(view.criterion)
    levels = tuple(round(0.05 * k, 2) for k in range(1, 20))
    ranking = _ranking_of(evaluation)
    plans = []
    for level in levels:
        plans.append(plan_of(replace(view, threshold=level), f"AP@{level:g}", **ranking))
    metric = AveragePrecision(plans)
    metric.facts = replace(metric.facts, per_class=False)  # only the mean over classes is drawn
    cohort = with_areas(evaluation.cohort, evaluation.protocol)
    cohort = replace(cohort, models={model: cohort.models[model] for model in names})
    evidence = collect(cohort, jobs_of(cohort, [metric]))
    cases = {model: (metric, evidence[model, metric.recipe.key]) for model in names}
    curves = points(evaluation, levels, cases)
    lines = [curves.line(model, slot_of(evaluation, model)) for model in names]
    return Curves(
        _orders_in_words(levels, lines),
        Axis(f"threshold of {view.criterion}", 0.0, 1.0),
        Axis("average precision, mean over classes", 0.0, 1.0),
        tuple(lines),
        levels=(0.1, 0.25, 0.5, 0.75, 0.9),
        note=at_level(evaluation, is_curve=True),
    )


def _ranking_of(evaluation: Evaluation) -> dict[str, str]:
    """Return how the protocol averages precision, so that the curve runs through its numbers."""
    for plan in evaluation.protocol.metrics:
        if plan.kind == "average-precision":
            interpolation = plan.options.get("interpolation", "coco101")
            break
    else:
        interpolation = "coco101"
    return {"ties": evaluation.protocol.ties, "interpolation": interpolation}


def _check_share(criterion: str) -> None:
    if criterion not in SHARES:
        raise UsageError(
            f"this figure needs a criterion between 0 and 1, one of {', '.join(SHARES)}, "
            f"not {criterion}"
        )


def _most_frequent(models: Sequence[str], heights: F64) -> str:
    clauses = []
    for m, model in enumerate(models[:3]):
        hits, missed, false, double = heights[:, m].astype(int).tolist()
        total = hits + missed
        if total:
            clauses.append(
                f"{short_name(model)} finds {hits} of {count_text('reference', total)}, "
                f"with {count_text('wrong prediction', false + double)}"
            )
    return "; ".join(clauses) or "There are no references to find"


def _overlap_in_words(model: str, hits: F64, wrong: F64) -> str:
    """Return how often a hit scores above a wrong prediction: the area under the ROC curve."""
    if not len(hits):
        return f"{short_name(model)}: no hits"
    if not len(wrong):
        return f"{short_name(model)}: no wrong predictions"
    positive = np.repeat([True, False], [len(hits), len(wrong)])
    ones = np.ones((1, len(positive)), np.int64)
    share = operating(np.concatenate([hits, wrong]), positive, ones).auroc()[0]
    return (
        f"{short_name(model)}: a hit scores higher than a wrong prediction "
        f"in {percent_text(float(share))} of all pairs"
    )


def _orders_in_words(levels: Sequence[float], lines: Sequence[Line]) -> str:
    """Return whether the order of the models is the same at all thresholds."""
    table = np.array([line.y for line in lines])
    if np.isnan(table).all():
        return "There is nothing to find: no references"
    if len(lines) == 1:
        first, last = table[0, 0], table[0, -1]
        course = (
            f"falls from {span_text(first, last)}"
            if first > last
            else f"stays at {two_decimals(first)}"
        )
        return f"From a threshold of {levels[0]:g} to {levels[-1]:g} the AP {course}"
    filled = np.nan_to_num(table, nan=-1.0)
    if (filled == filled[0]).all():
        return "The models have the same AP at every threshold"
    crossings = _crossings(levels, filled)
    if not crossings:
        return "The order of the models by AP is the same at every threshold"
    at = [f"{level:g}" for level in crossings[:MOST_NAMED]]
    if len(crossings) > MOST_NAMED:
        at.append(f"{len(crossings) - MOST_NAMED} more")
    return f"The order of the models by AP depends on the threshold: it changes at {join(at)}"


def _crossings(levels: Sequence[float], table: F64) -> list[float]:
    """Return the thresholds at which one model has passed another; a tie is no passing.

    ``table`` is (models, levels).
    """
    i, j = np.triu_indices(len(table), k=1)
    sides = np.sign(table[i] - table[j])
    last = np.zeros(len(i))  # who was ahead when the two models last differed
    crossings = []
    for k, level in enumerate(levels):
        if (sides[:, k] * last < 0.0).any():
            crossings.append(level)
        last = np.where(sides[:, k] != 0.0, sides[:, k], last)
    return crossings


def error_gains(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Bars:
    """Return the average precision gained by correcting each kind of error, and the false alarms on
    empty images.
    """
    names = models_shown(evaluation, models)
    metrics = metrics_of(evaluation, "gain", (*MAIN, "empty"))
    main_metrics = {kind: metric for kind, metric in metrics.items() if kind in MAIN}
    title = _costs_in_words(evaluation, names, main_metrics)
    note = "Gains do not add up: correcting one kind changes what the others cost."
    if "empty" in metrics:
        note += (
            " “empty” removes the false alarms on images without references; "
            "they also count in “nothing”."
        )
    return _bars(evaluation, names, metrics, title, "AP gained by correction", note)


def error_counts(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Bars:
    """Return the number of errors of each kind, and of false alarms on empty images."""
    names = models_shown(evaluation, models)
    metrics = metrics_of(evaluation, "count", COUNTS)
    kinds = {kind: metric for kind, metric in metrics.items() if kind != "empty"}
    title = _counts_in_words(evaluation, names, kinds)
    note = f"{evaluation.cohort.n_images} images; all predictions count, whatever their score."
    return _bars(evaluation, names, metrics, title, "errors", note)


def metrics_of(evaluation: Evaluation, what: str, order: Sequence[str]) -> dict[str, str]:
    """Return kind of error -> the metric that is its gain or its count; the first of several."""
    metric_of: dict[str, str] = {}
    for plan in evaluation.protocol.resolved():
        if plan.kind == KIND:
            quantity, kind = _quantity_and_kind(plan)
            if quantity == what:
                metric_of.setdefault(kind, plan.name)
    if not metric_of:
        raise UsageError(f"this protocol has no {what} of error types; use the preset tide")
    return {kind: metric_of[kind] for kind in order if kind in metric_of}


def _quantity_and_kind(plan: MetricPlan) -> tuple[str, str]:
    """Return what a metric states, ``gain`` or ``count``, and of which kind of error."""
    (quantity,) = ErrorTypes([plan]).quantities
    return quantity.what, quantity.of


def _bars(
    evaluation: Evaluation,
    models: Sequence[str],
    metrics: dict[str, str],
    title: str,
    label: str,
    note: str,
) -> Bars:
    shape = (len(models), len(metrics))
    heights, low, high = np.empty(shape), np.empty(shape), np.empty(shape)
    for m, model in enumerate(models):
        for k, name in enumerate(metrics.values()):
            estimate = evaluation.get(name, model=model)
            heights[m, k], low[m, k], high[m, k] = estimate.value, estimate.low, estimate.high
    band: dict[str, Any] = {}
    if np.isfinite(low).any():
        band = {"low": low, "high": high}
        note = f"{note} {at_level(evaluation)}"
        if (np.isnan(low) & (heights > 0)).any():
            note += " Bars without whiskers have no interval."
    return Bars(
        title,
        Axis("kind of error", names=tuple(WORDS[kind] for kind in metrics)),
        Axis(label, 0.0),
        tuple(models),
        np.nan_to_num(heights, nan=0.0),
        **band,
        slots=tuple(slot_of(evaluation, model) for model in models),
        note=note,
    )


def _largest(
    evaluation: Evaluation, model: str, metrics: dict[str, str]
) -> tuple[str, Estimate] | None:
    """Return the kind with the largest value; None if none is above 0."""
    estimates = {kind: evaluation.get(name, model=model) for kind, name in metrics.items()}
    positive = {kind: estimate for kind, estimate in estimates.items() if estimate.value > 0}
    if not positive:
        return None
    largest = max(positive, key=lambda kind: positive[kind].value)
    return largest, positive[largest]


def _costs_in_words(evaluation: Evaluation, models: Sequence[str], metrics: dict[str, str]) -> str:
    """Return what the kind with the largest value costs each of up to three models."""
    clauses = []
    for model in models[:MOST_NAMED]:
        largest = _largest(evaluation, model, metrics)
        if largest is not None:
            kind, estimate = largest
            clauses.append(
                f"{short_name(model)} loses {two_decimals(estimate.value)} AP by {SENTENCES[kind]}"
            )
    return "; ".join(clauses) or "No kind of error costs any average precision"


def _counts_in_words(evaluation: Evaluation, models: Sequence[str], metrics: dict[str, str]) -> str:
    """Return how many errors of all kinds each of up to three models makes."""
    clauses = []
    for model in models[:MOST_NAMED]:
        values = [evaluation.get(name, model=model).value for name in metrics.values()]
        number = sum(value for value in values if value == value)
        clauses.append(f"{short_name(model)} {whole_text(number)}")
    if all(clause.endswith(" 0") for clause in clauses):
        return "There are no errors"
    return f"Errors of all kinds: {', '.join(clauses)}"
