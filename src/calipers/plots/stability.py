# SPDX-License-Identifier: Apache-2.0
"""Figures of a stability analysis: pairs of models, leaving out models, thresholds, scores, and the
relation to the reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calipers.errors import UsageError, did_you_mean
from calipers.plots.curves import ends_of_estimates
from calipers.plots.figures import (
    F64,
    Axis,
    Curves,
    Dots,
    Figure,
    Forest,
    ForestRow,
    HeatMap,
    Histogram,
    Line,
    Mark,
    Scatter,
)
from calipers.plots.stability_bags import bags, calls, score_text
from calipers.plots.words import short_name, why
from calipers.results import Estimate
from calipers.results.requirements import SHARE_OF_UNITS
from calipers.stability.correlation import correlation
from calipers.stability.result import StabilityResult
from calipers.stability.scores import AT_THRESHOLD
from calipers.statistics.weights import plural

SWEPT = ("APJ", "called-by-all")
CORRELATED = ("APJ", "AJ", "PAR", "NAR", "TAR", "AC1", "Pearson", "Spearman", "Kendall-b")
TOGETHER = 0.5  # rank correlation from which on two scores are said to go together
FEW = 10  # up to so many models, every pair has its number in the figure
BINS = 14  # of width 0.1, from -0.4 to 1


def pairs(result: StabilityResult, *, score: str = "APJ") -> HeatMap:
    """Return the mean of a score over images for every two models."""
    values = result.per_pair(score)
    names = tuple(short_name(model) for model in result.models)
    words = []
    if len(names) <= FEW:
        for r, row in enumerate(values.tolist()):
            texts = [score_text(value) or "undefined" for value in row]
            texts[r] = "–"  # a model is not compared with itself
            words.append(tuple(texts))
    missing = result.undefined(score)
    note = (
        f"Mean over {result.n_used} images, {_at(result, score)}. {missing.pairs} of "
        f"{missing.of_pairs} pairs of maps have no value and are left out. "
        "A model is not compared with itself."
    )
    return HeatMap(
        _pairs_title(result, score, values),
        Axis("model", names=names),
        Axis("with", names=names),
        values,
        score,
        words=tuple(words),
        note=note,
    )


def _pairs_title(result: StabilityResult, score: str, values: F64) -> str:
    defined = np.argwhere(np.triu(np.isfinite(values), 1))
    if not len(defined):
        return f"No two models have a value of {score}"
    a, b = min(defined.tolist(), key=lambda pair: float(values[pair[0], pair[1]]))
    first, second = short_name(result.models[a], 20), short_name(result.models[b], 20)
    title = f"{first} and {second} agree least: {score} {score_text(float(values[a, b]))}"
    if len(defined) > 1:
        highest = score_text(float(np.nanmax(values)))
        title += f"; the highest of {len(defined)} pairs is {highest}"
    return title


def models(result: StabilityResult, *, score: str = "APJ") -> Forest:
    """Return a score with all models, with its interval over models, and without each of them."""
    jackknife = result.leave_one_out(score)
    n = len(result.models)
    reason = (jackknife.reason or "").replace("_", " ")
    overall = Mark(jackknife.value, jackknife.low, jackknife.high, reason)
    rows = [ForestRow("all models", str(n), (overall,), strong=True)]
    for model, value in zip(result.models, jackknife.without):
        mark = Mark(value, reason=reason)
        rows.append(ForestRow(f"without {short_name(model)}", str(n - 1), (mark,)))
    title = f"{n} models are too few to say anything about other trainings"
    if jackknife.reason is None and jackknife.most_different is not None:
        outlier = jackknife.most_different
        without_it = score_text(jackknife.without[result.models.index(outlier)])
        with_it = score_text(jackknife.value)
        title = (
            f"Without {short_name(outlier)}, which differs most, "
            f"{score} is {without_it} instead of {with_it}"
        )
        if max(abs(other - jackknife.value) for other in jackknife.without) < 0.005:
            title = f"No single model moves {score}, which is {with_it}"
    note = (
        f"Mean over {result.n_used} images, {_at(result, score)}. The interval of all models is a "
        f"{100 * jackknife.level:g} % t interval over {n} models: "
        "it covers other trainings, on these images."
    )
    return Forest(
        title, Axis(score), (score,), tuple(rows), n="models", reference=jackknife.value, note=note
    )


def sweep(result: StabilityResult, *, scores: tuple[str, ...] = SWEPT) -> Curves:
    """Return scores against the threshold, with the band of their intervals."""
    lines = []
    for slot, score in enumerate(scores):
        x, estimates = result.sweep(score)
        y, low, high = ends(estimates)
        order = np.argsort(x, kind="stable")
        marks = tuple(np.flatnonzero(x[order] == result.threshold).tolist())
        line = Line(score, x[order], y[order], slot=slot, marks=marks)
        if np.isfinite(low).any():
            line = replace(line, low=low[order], high=high[order])
        lines.append(line)
    note = (
        f"Means over {result.n_used} images. The marker is the threshold of this analysis. "
        f"{_band(result['APJ'])}"
    )
    return Curves(
        _sweep_title(lines[0]),
        Axis("threshold", 0.0, 1.0),
        Axis("score"),
        tuple(lines),
        note=note.strip(),
    )


def _sweep_title(line: Line) -> str:
    """Return where a score is highest and lowest, or that the threshold hardly matters."""
    defined = np.flatnonzero(np.isfinite(line.y))
    if not len(defined):
        return f"{line.name} has no value at any threshold"
    lowest, highest = defined[np.argmin(line.y[defined])], defined[np.argmax(line.y[defined])]
    low, high = score_text(line.y[lowest]), score_text(line.y[highest])
    if line.y[highest] - line.y[lowest] < 0.01:
        return f"{line.name} does not depend on the threshold: {low} to {high}"
    return f"{line.name} is {high} at threshold {line.x[highest]:g}, {low} at {line.x[lowest]:g}"


def scores(
    result: StabilityResult, *, names: tuple[str, ...] = CORRELATED, method: str = "spearman"
) -> HeatMap:
    """Return the correlations between scores over images."""
    table = result.correlation(method)
    score_names = tuple(name for name in names if name in table.names)
    rows = [table.names.index(name) for name in score_names]
    values, counts = table.values[np.ix_(rows, rows)], table.n[np.ix_(rows, rows)]
    defined = np.argwhere(np.triu(np.isfinite(values), 1))
    title = "No two scores have a correlation over images"
    if len(defined):
        a, b = min(defined.tolist(), key=lambda pair: abs(float(values[pair[0], pair[1]])))
        title = (
            f"{score_names[a]} and {score_names[b]} rank images most differently: "
            f"correlation {score_text(values[a, b])}"
        )
    n = f"{counts.min()} to {counts.max()}" if counts.min() < counts.max() else f"{counts.min()}"
    how = {"spearman": "Rank correlations", "pearson": "Correlations"}[method]
    note = (
        f"{how} over {n} images with both scores. APJ = AJ / (2 − AJ) for every pair, "
        "so a correlation near 1 between the two is no finding."
    )
    x, y = Axis("score", names=score_names), Axis("with", names=score_names)
    return HeatMap(title, x, y, values, "correlation", -1.0, 1.0, note=note)


def images(result: StabilityResult, *, score: str = "APJ") -> Histogram:
    """Return the distribution of a score over images."""
    values = result.per_bag(score)
    defined = values[~np.isnan(values)]
    title = f"No image has a value of {score}"
    if len(defined):
        quantiles = np.quantile(defined, (0.1, 0.5, 0.9))
        low, median, high = (score_text(value) for value in quantiles)
        title = f"{score} is {low} to {high} on 8 of 10 images, with a median of {median}"
    edges = np.round(np.linspace(1.0 - 0.1 * BINS, 1.0, BINS + 1), 10)
    counts = np.histogram(np.clip(defined, edges[0], edges[-1]), edges)[0].astype(np.float64)[None]
    note = f"n = {len(defined)} images, mean over pairs of models, {_at(result, score)}."
    n_missing = len(values) - len(defined)
    if n_missing:
        note += f" {n_missing} more have no value, because models mark nothing or everything."
    return Histogram(title, Axis(score), Axis("images"), edges, ("images",), counts, note=note)


def dice(result: StabilityResult, *, score: str = "APJ", measure: str = "DICE") -> Scatter:
    """Return stability against agreement with the reference, a point per annotated image.

    Bars are the standard deviation over models.
    """
    local = result.localized
    if not local.has(measure):
        reason = local.missing.get(measure, "unknown measure").replace("_", " ")
        raise UsageError(f"there is no {measure}: {reason}")
    mean, sd = local.per_bag(measure)
    x = result.per_bag(score)[local.places]
    both = int((~np.isnan(x)).sum())
    together = round(correlation(x, mean), 2)
    dots = Dots("", x, mean, y_low=mean - sd, y_high=mean + sd, names=local.ids, quiet=True)
    note = (
        f"A point is an image; {both} of {len(x)} have both values. Bars are the standard "
        f"deviation over {len(result.models)} models (ddof 0), not intervals. "
        f"Threshold {result.threshold:g}."
    )
    return Scatter(
        f"{_words(score, measure, together)}, n = {both}",
        Axis(score),
        Axis(f"{measure}, mean over models", 0.0, 1.0),
        (dots,),
        note=note,
    )


def _words(score: str, measure: str, together: float) -> str:
    if together != together:
        return f"{score} and {measure} cannot be compared over images"
    strength = f"(rank correlation {score_text(together)})"
    if together >= TOGETHER:
        return f"Images with a high {score} have a high {measure} {strength}"
    if together <= -TOGETHER:
        return f"Images with a high {score} have a low {measure} {strength}"
    return f"{score} says little about {measure} {strength}"


def auc(result: StabilityResult, *, score: str = "APJ") -> Scatter:
    """Return, for every model, its agreement with the others against its bag AUC: how well it
    separates whole images.
    """
    local = result.localized
    if not local.has("AUC"):
        raise UsageError(f"there is no bag AUC: {local.missing['AUC'].replace('_', ' ')}")
    areas = [local.get("AUC", model) for model in result.models]
    y, low, high = ends(areas)
    matrix = result.per_pair(score)
    defined = np.isfinite(matrix)
    total, n = np.where(defined, matrix, 0.0).sum(axis=1), defined.sum(axis=1)
    x = np.divide(total, n, where=n > 0, out=np.full(len(matrix), np.nan))
    names = tuple(short_name(model) for model in result.models)
    dots = Dots("", x, y, y_low=low, y_high=high, names=names)
    title = f"Bag AUC is {_span(y)} for models whose {score} with the others is {_span(x)}"
    if not np.isfinite(x).any():
        title = f"Bag AUC is {_span(y)}; {score} has no value"
    pooled = "" if local.pooling == "given" else f" Bag scores are the {local.pooling} of each map."
    note = (
        f"A point is a model; across, its mean {score} with the others over {result.n_used} "
        f"images; up, its AUC over {areas[0].n_images} images.{pooled} {_band(areas[0])}"
    )
    return Scatter(
        title,
        Axis(f"mean {score} with the other models"),
        Axis("bag AUC"),
        (dots,),
        note=note.strip(),
    )


def ends(estimates: Sequence[Estimate]) -> tuple[F64, F64, F64]:
    """Return values and ends of intervals.

    The ends are NaN if the interval is not that of the value, but of the share of units.
    """
    value, low, high = ends_of_estimates(estimates)
    of_units = np.array([one.method == SHARE_OF_UNITS for one in estimates], np.bool_)
    return value, np.where(of_units, np.nan, low), np.where(of_units, np.nan, high)


def _span(values: Any) -> str:
    defined = values[np.isfinite(values)]
    if not len(defined):
        return "undefined"
    low, high = score_text(defined.min()), score_text(defined.max())
    return low if low == high else f"{low} to {high}"


def _at(result: StabilityResult, score: str) -> str:
    return f"threshold {result.threshold:g}" if score in AT_THRESHOLD else "no threshold"


def _band(estimate: Estimate) -> str:
    """Return what bands and bars are; "" if there are none."""
    if why(estimate) or math.isnan(estimate.low):
        return ""
    units = f"{estimate.n_units} {plural(estimate.unit)}"
    return f"Pointwise {100 * estimate.level:g} % intervals over {units}."


FIGURES: Mapping[str, Callable[..., Figure]] = {
    "pairs": pairs,
    "models": models,
    "called": calls,
    "bags": bags,
    "images": images,
    "sweep": sweep,
    "scores": scores,
    "dice": dice,
    "auc": auc,
}


def available(result: StabilityResult) -> tuple[str, ...]:
    """Return the figures that a result has: without a reference there is no DICE, without labels no
    AUC.
    """
    needs = {
        "dice": result.localized.has("DICE"),
        "auc": result.localized.has("AUC"),
        "bags": result.source is not None,
    }
    return tuple(name for name in FIGURES if needs.get(name, True))


def figure(result: StabilityResult, name: str, **choices: Any) -> Figure:
    """Return a figure of a stability analysis as data: one of `FIGURES`."""
    if name not in FIGURES:
        raise UsageError(f"no figure {name!r} of stability; {did_you_mean(name, FIGURES)}")
    options = FIGURES[name].__kwdefaults__ or {}
    for choice in choices:
        if choice not in options:
            raise UsageError(
                f"the figure {name!r} takes {', '.join(options) or 'no choice'}, not {choice!r}"
            )
    return FIGURES[name](result, **choices)
