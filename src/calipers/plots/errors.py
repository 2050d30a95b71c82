# SPDX-License-Identifier: Apache-2.0
"""What went wrong: fates of references and predictions, scores of hits and false alarms, overlaps,
thresholds.
"""

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
from calipers.plots.curves import points, slot_of
from calipers.plots.figures import Axis, Bars, Curves, Histogram, Line
from calipers.plots.words import at_level, percent, short_name
from calipers.saving import shown_matches

F64 = NDArray[np.float64]
BINS = 20
# Criteria that are shares of an area: their thresholds can be moved from 0 to 1.
SHARES = ("box-iou", "iop", "ior", "mask-iou", "dice", "hull-iou", "boundary-iou")


def fates(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Bars:
    """Return how many references were found and missed, and how many predictions were wrong, per
    model.
    """
    names = ("found", "missed", "false alarm", "duplicate")
    chosen = evaluation.models if models is None else tuple(models)
    heights = np.zeros((len(names), len(chosen)))
    for m, model in enumerate(chosen):
        table = shown_matches(evaluation, model)
        of_reference, of_prediction = table.reference_fate[0], table.prediction_fate[0]
        heights[:, m] = [
            (of_reference == matching.HIT).sum(),
            (of_reference == matching.MISSED).sum(),
            (of_prediction == matching.FALSE_ALARM).sum(),
            (of_prediction == matching.DUPLICATE).sum(),
        ]
    title = _most_frequent(chosen, heights)
    n_images, cut = evaluation.cohort.n_images, evaluation.protocol.matching.score_cut
    which = (
        "All predictions, whatever their score."
        if cut == -math.inf
        else f"Predictions with scores from {cut:g} on."
    )
    note = f"{which} {n_images} {'image' if n_images == 1 else 'images'}."
    return Bars(
        title, Axis("fate", names=names), Axis("objects", 0.0), chosen, heights.T, note=note
    )


def scores(evaluation: Evaluation, *, model: str | None = None) -> Histogram:
    """Return the scores of hits and of wrong predictions of one model."""
    model = evaluation.models[0] if model is None else model
    if not evaluation.cohort.predictions(model).scored:
        raise UsageError(f"{model!r} has no scores")
    table = shown_matches(evaluation, model)
    fate = table.prediction_fate[0]
    low, high = (
        float(min(table.score.min(initial=0.0), 0.0)),
        float(max(table.score.max(initial=1.0), 1.0)),
    )
    edges = np.linspace(low, high, BINS + 1)
    hit, wrong = fate == matching.HIT, (fate == matching.FALSE_ALARM) | (fate == matching.DUPLICATE)
    counts = np.array(
        [np.histogram(table.score[rows], edges)[0] for rows in (hit, wrong)], np.float64
    )
    tied = np.intersect1d(table.score[hit], table.score[wrong]).size
    halves = " Pairs with equal scores count half." if tied else ""
    return Histogram(
        _overlap_in_words(model, table.score[hit], table.score[wrong]),
        Axis("score", low, high),
        Axis("predictions", 0.0),
        edges,
        ("hits", "false alarms and duplicates"),
        counts,
        slots=(0, 1),
        note=f"n = {int(hit.sum())} hits and {int(wrong.sum())} false alarms and duplicates.{halves}",
    )


def overlaps(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Histogram:
    """Return how well the found references are hit: the similarity of every hit."""
    chosen = evaluation.models if models is None else tuple(models)
    view = evaluation.protocol.matching
    _check_share(view.criterion)
    edges, found = np.linspace(0.0, 1.0, BINS + 1), []
    for model in chosen:
        table = shown_matches(evaluation, model)
        found.append(table.similarity[table.prediction_fate[0] == matching.HIT])
    medians = {
        model: float(np.median(values)) for model, values in zip(chosen, found) if len(values)
    }
    said = ", ".join(
        f"{value:.2f} for {short_name(model)}" for model, value in list(medians.items())[:3]
    )
    return Histogram(
        f"The median {view.criterion} of a hit is {said}" if said else "There are no hits",
        Axis(view.criterion, 0.0, 1.0),
        Axis("hits", 0.0),
        edges,
        chosen,
        np.array([np.histogram(values, edges)[0] for values in found], np.float64).reshape(
            len(chosen), BINS
        ),
        cut=view.threshold,
        slots=tuple(slot_of(evaluation, model) for model in chosen),
        note="n = "
        + ", ".join(f"{len(values)} ({short_name(model)})" for model, values in zip(chosen, found))
        + " hits.",
    )


def thresholds(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Curves:
    """Return the average precision against the threshold of the criterion: how far the answer hangs
    on it.
    """
    chosen = evaluation.models if models is None else tuple(models)
    view = evaluation.protocol.matching
    _check_share(view.criterion)
    levels = tuple(round(0.05 * k, 2) for k in range(1, 20))
    metric = AveragePrecision(
        [
            plan_of(replace(view, threshold=level), f"AP@{level:g}", **_ranking_of(evaluation))
            for level in levels
        ]
    )
    metric.facts = replace(metric.facts, per_class=False)  # only the mean over classes is drawn
    cohort = with_areas(evaluation.cohort, evaluation.protocol)
    cohort = replace(cohort, models={model: cohort.models[model] for model in chosen})
    evidence = collect(cohort, jobs_of(cohort, [metric]))
    found = points(
        evaluation,
        levels,
        {model: (metric, evidence[model, metric.recipe.key]) for model in chosen},
    )
    lines = [found.line(model, slot_of(evaluation, model)) for model in chosen]
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
    plans = (plan for plan in evaluation.protocol.metrics if plan.kind == "average-precision")
    used = next((plan.options.get("interpolation", "coco101") for plan in plans), "coco101")
    return {"ties": evaluation.protocol.ties, "interpolation": used}


def _check_share(criterion: str) -> None:
    if criterion not in SHARES:
        raise UsageError(
            f"this figure needs a criterion between 0 and 1, one of {', '.join(SHARES)}, not {criterion}"
        )


def _most_frequent(models: Sequence[str], heights: F64) -> str:
    said = []
    for m, model in enumerate(models[:3]):
        found, missed, false, double = heights[:, m].astype(int).tolist()
        total = found + missed
        if total:
            said.append(
                f"{short_name(model)} finds {found} of {total} and is wrong {false + double} times"
            )
    return "; ".join(said) or "There are no references to find"


def _overlap_in_words(model: str, hits: F64, wrong: F64) -> str:
    """Return how often a hit scores above a false alarm: the area under that ROC curve, in words."""
    if not len(hits) or not len(wrong):
        return f"{short_name(model)}: {'no wrong predictions' if len(hits) else 'no hits'}"
    positive = np.repeat([True, False], [len(hits), len(wrong)])
    ranks = roc.ranked(np.concatenate([hits, wrong]), positive)
    share = roc.area(roc.points(ranks, np.ones((1, len(positive)), np.int64)))[0]
    return f"{short_name(model)}: a hit scores higher than a wrong prediction in {percent(float(share))} of all pairs"


def _orders_in_words(levels: Sequence[float], lines: Sequence[Line]) -> str:
    """Return whether the best model stays the best over the thresholds."""
    table = np.array([line.y for line in lines])
    if np.isnan(table).all():
        return "There is nothing to show: no references"
    if len(lines) == 1:
        first, last = table[0, 0], table[0, -1]
        moved = f"falls from {first:.2f} to {last:.2f}" if first > last else f"stays at {first:.2f}"
        return f"From a threshold of {levels[0]:g} to {levels[-1]:g} the AP {moved}"
    filled = np.nan_to_num(table, nan=-1.0)
    ahead = filled == filled.max(axis=0)  # (models, levels): models that nobody exceeds
    if ahead.all():
        return "The models have the same AP at every threshold"
    always = np.flatnonzero(ahead.all(axis=1))
    if len(always):
        alone = int(ahead.sum(axis=0).max()) == 1
        names = " and ".join(short_name(lines[k].name) for k in always[:2])
        if len(always) == 1:
            return f"{names} has the highest AP at every threshold{'' if alone else ', at some with others'}"
        return f"{names}{'' if len(always) == 2 else ' and others'} share the highest AP at every threshold"
    return _changes(levels, [line.name for line in lines], ahead)


def _changes(levels: Sequence[float], names: Sequence[str], ahead: NDArray[np.bool_]) -> str:
    """Return how the lead passes from model to model; who leads keeps the lead until somebody
    exceeds it.
    """
    start = np.argmin(ahead, axis=1)  # level at which a model is exceeded first
    first = leader = int(np.argmax(start))
    turns = []
    for k, level in enumerate(levels):
        if not ahead[leader, k]:
            leader = int(np.argmax(ahead[:, k]))
            turns.append((leader, level))
    said = [
        f"{short_name(names[first])} first",
        *(f"{short_name(names[m])} from {level:g} on" for m, level in turns[:2]),
    ]
    more = (
        ""
        if len(turns) <= 2
        else ", then it changes again"
        if len(turns) == 3
        else ", then it changes more often"
    )
    return f"The best model depends on the threshold: {', '.join(said)}{more}"
