# SPDX-License-Identifier: Apache-2.0
"""Hits and errors of models: fates of references and predictions, scores, overlaps, thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calipers.engine import collect
from calipers.errors import UsageError
from calipers.estimation import jobs_of, with_areas
from calipers.evaluation import Evaluation
from calipers.kernels import matching, roc
from calipers.metrics.curve_points import plan_of
from calipers.metrics.ranking import AveragePrecision
from calipers.plots.curves import models_shown, points, slot_of
from calipers.plots.figures import Axis, Bars, Curves, Histogram, Line
from calipers.plots.words import at_level, percent, short_name
from calipers.saving import shown_matches

F64 = NDArray[np.float64]
BINS = 20
# Criteria that are shares of an area: their thresholds can be moved from 0 to 1.
SHARES = ("box-iou", "iop", "ior", "mask-iou", "dice", "hull-iou", "boundary-iou")


def fates(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Bars:
    """Return how many references each model found and missed, and its wrong predictions."""
    fate_names = ("found", "missed", "false alarm", "duplicate")
    names = models_shown(evaluation, models)
    heights = np.zeros((len(fate_names), len(names)))
    for m, model in enumerate(names):
        table = shown_matches(evaluation, model)
        of_reference, of_prediction = table.reference_fate[0], table.prediction_fate[0]
        heights[:, m] = [
            (of_reference == matching.HIT).sum(),
            (of_reference == matching.MISSED).sum(),
            (of_prediction == matching.FALSE_ALARM).sum(),
            (of_prediction == matching.DUPLICATE).sum(),
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
        Axis("objects", 0.0),
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
    table = shown_matches(evaluation, model)
    fate = table.prediction_fate[0]
    hit = fate == matching.HIT
    wrong = (fate == matching.FALSE_ALARM) | (fate == matching.DUPLICATE)
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
        Axis("predictions", 0.0),
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
        table = shown_matches(evaluation, model)
        values = table.similarity[table.prediction_fate[0] == matching.HIT]
        counts[m] = np.histogram(values, edges)[0]
        numbers.append(f"{len(values)} ({short_name(model)})")
        if len(values):
            medians.append(f"{float(np.median(values)):.2f} for {short_name(model)}")
    title = "There are no hits"
    if medians:
        title = f"The median {view.criterion} of a hit is {', '.join(medians[:3])}"
    return Histogram(
        title,
        Axis(view.criterion, 0.0, 1.0),
        Axis("hits", 0.0),
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
        note=at_level(evaluation),
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
                f"{short_name(model)} finds {hits} of {total} and is wrong {false + double} times"
            )
    return "; ".join(clauses) or "There are no references to find"


def _overlap_in_words(model: str, hits: F64, wrong: F64) -> str:
    """Return how often a hit scores above a wrong prediction: the area under the ROC curve."""
    if not len(hits):
        return f"{short_name(model)}: no hits"
    if not len(wrong):
        return f"{short_name(model)}: no wrong predictions"
    positive = np.repeat([True, False], [len(hits), len(wrong)])
    ranks = roc.score_order(np.concatenate([hits, wrong]), positive)
    share = roc.area(roc.points(ranks, np.ones((1, len(positive)), np.int64)))[0]
    return (
        f"{short_name(model)}: a hit scores higher than a wrong prediction "
        f"in {percent(float(share))} of all pairs"
    )


def _orders_in_words(levels: Sequence[float], lines: Sequence[Line]) -> str:
    """Return whether the best model is the best at all thresholds."""
    table = np.array([line.y for line in lines])
    if np.isnan(table).all():
        return "There is nothing to show: no references"
    if len(lines) == 1:
        first, last = table[0, 0], table[0, -1]
        course = (
            f"falls from {first:.2f} to {last:.2f}" if first > last else f"stays at {first:.2f}"
        )
        return f"From a threshold of {levels[0]:g} to {levels[-1]:g} the AP {course}"
    filled = np.nan_to_num(table, nan=-1.0)
    ahead = filled == filled.max(axis=0)  # (models, levels): models that no other exceeds
    if ahead.all():
        return "The models have the same AP at every threshold"
    always = np.flatnonzero(ahead.all(axis=1))
    if not len(always):
        return _changes(levels, [line.name for line in lines], ahead)
    names = " and ".join(short_name(lines[k].name) for k in always[:2])
    if len(always) == 1:
        alone = int(ahead.sum(axis=0).max()) == 1
        ties = "" if alone else ", at some with others"
        return f"{names} has the highest AP at every threshold{ties}"
    others = "" if len(always) == 2 else " and others"
    return f"{names}{others} share the highest AP at every threshold"


def _changes(levels: Sequence[float], names: Sequence[str], ahead: NDArray[np.bool_]) -> str:
    """Return how the lead passes from model to model.

    A leader keeps the lead through ties, until another model exceeds it.
    """
    start = np.argmin(ahead, axis=1)  # level at which a model is first exceeded
    first = leader = int(np.argmax(start))
    turns = []
    for k, level in enumerate(levels):
        if not ahead[leader, k]:
            leader = int(np.argmax(ahead[:, k]))
            turns.append(f"{short_name(names[leader])} from {level:g} on")
    clauses = [f"{short_name(names[first])} first", *turns[:2]]
    more = ""
    if len(turns) == 3:
        more = ", then it changes again"
    elif len(turns) > 3:
        more = ", then it changes more often"
    return f"The best model depends on the threshold: {', '.join(clauses)}{more}"
