# SPDX-License-Identifier: Apache-2.0
"""Kinds of errors of a model: what each costs in average precision, and how many there are.

The kinds are those of TIDE (Bolya et al. 2020), computed by `calipers.metrics.errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calipers.errors import UsageError
from calipers.evaluation import Evaluation
from calipers.metrics.contract import MetricPlan
from calipers.metrics.errors import ErrorTypes
from calipers.metrics.errors_gains import COUNTS, GAINS
from calipers.plots.curves import models_shown, slot_of
from calipers.plots.figures import Axis, Bars
from calipers.plots.words import at_level, short_name
from calipers.results import Estimate

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


def error_gains(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Bars:
    """Return the average precision gained by correcting each kind of error, and the false alarms on
    empty images.
    """
    names = models_shown(evaluation, models)
    metrics = metrics_of(evaluation, "gain", (*MAIN, "empty"))
    main_metrics = {kind: metric for kind, metric in metrics.items() if kind in MAIN}
    title = _costliest(evaluation, names, main_metrics)
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
    title = _most_frequent(evaluation, names, kinds)
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
            note += " Bars without whiskers have too few errors for an interval."
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


def _costliest(evaluation: Evaluation, models: Sequence[str], metrics: dict[str, str]) -> str:
    clauses = []
    for model in models[:MOST_NAMED]:
        largest = _largest(evaluation, model, metrics)
        if largest is not None:
            kind, estimate = largest
            clauses.append(
                f"{short_name(model)} loses most by {SENTENCES[kind]} ({estimate.value:.2f} AP)"
            )
    return "; ".join(clauses) or "No kind of error costs any average precision"


def _most_frequent(evaluation: Evaluation, models: Sequence[str], metrics: dict[str, str]) -> str:
    clauses = []
    for model in models[:MOST_NAMED]:
        largest = _largest(evaluation, model, metrics)
        if largest is not None:
            kind, estimate = largest
            clauses.append(f"{short_name(model)}, {SENTENCES[kind]} ({estimate.value:.0f})")
    if not clauses:
        return "There are no errors"
    return f"Most frequent errors: {'; '.join(clauses)}"
