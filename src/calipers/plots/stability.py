# SPDX-License-Identifier: Apache-2.0
"""Stability in figures: pairs of models, leaving out models, thresholds, scores, and what the
reference says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from calipers.errors import UsageError, did_you_mean
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
from calipers.plots.stability_bags import bags, called, score_text
from calipers.plots.words import short_name, why
from calipers.results import Estimate
from calipers.results.requirements import SHARE_OF_UNITS
from calipers.stability.correlation import correlation
from calipers.stability.result import StabilityResult
from calipers.stability.scores import AT_THRESHOLD
from calipers.statistics.weights import plural

SWEPT = ("APJ", "called-by-all")
CORRELATED = ("APJ", "AJ", "PAR", "NAR", "TAR", "AC1", "Pearson", "Spearman", "Kendall-b")
TOGETHER = 0.5  # from which rank correlation on two numbers are said to go together
FEW = 10  # models whose pairs have a number each in any case
BINS = 14  # of width 0.1, from -0.4 to 1


def pairs(result: StabilityResult, *, score: str = "APJ") -> HeatMap:
    """Return the mean of a score over images for every two models."""
    values = result.per_pair(score)
    defined = np.argwhere(np.triu(np.isfinite(values), 1))
    title = f"No two models have a value of {score}"
    if len(defined):
        a, b = min(defined.tolist(), key=lambda pair: float(values[pair[0], pair[1]]))
        least, most = float(values[a, b]), float(np.nanmax(values))
        title = f"{short_name(result.models[a], 20)} and {short_name(result.models[b], 20)} agree least: {score} {score_text(least)}"
        if len(defined) > 1:
            title += f"; the highest of {len(defined)} pairs is {score_text(most)}"
    names = tuple(short_name(model) for model in result.models)
    words = (
        ()
        if len(names) > FEW
        else tuple(
            tuple("–" if r == c else score_text(v) or "undefined" for c, v in enumerate(line))
            for r, line in enumerate(values)
        )
    )
    missing = result.undefined(score)
    note = (
        f"Mean over {result.n_used} images, {_at(result, score)}. {missing.pairs} of {missing.of_pairs} pairs of maps "
        "have no value and are left out. A model is not compared with itself."
    )
    return HeatMap(
        title,
        Axis("model", names=names),
        Axis("with", names=names),
        values,
        score,
        words=words,
        note=note,
    )


def models(result: StabilityResult, *, score: str = "APJ") -> Forest:
    """Return a score with all models, with its interval over models, and without each of them."""
    jackknife = result.leave_one_out(score)
    n = len(result.models)
    reason = "" if jackknife.reason is None else jackknife.reason.replace("_", " ")
    rows = [
        ForestRow(
            "all models",
            str(n),
            (Mark(jackknife.value, jackknife.low, jackknife.high, reason),),
            strong=True,
        )
    ]
    for model, value in zip(result.models, jackknife.without):
        rows.append(
            ForestRow(f"without {short_name(model)}", str(n - 1), (Mark(value, reason=reason),))
        )
    title = f"Of other trainings nothing can be said from {n} models"
    if jackknife.reason is None and jackknife.most_different is not None:
        best = jackknife.without[result.models.index(jackknife.most_different)]
        largest_change = max(abs(value - jackknife.value) for value in jackknife.without)
        title = f"Without {short_name(jackknife.most_different)}, which differs most, {score} is {score_text(best)} "
        title += f"instead of {score_text(jackknife.value)}"
        if largest_change < 0.005:
            title = f"No single model moves {score}, which is {score_text(jackknife.value)}"
    note = (
        f"Mean over {result.n_used} images, {_at(result, score)}. The interval of all models is a {100 * jackknife.level:g} % "
        f"t interval over {n} models: it speaks for other trainings, on these images."
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
        down, up = (low[order], high[order]) if np.isfinite(low).any() else (None, None)
        lines.append(Line(score, x[order], y[order], down, up, slot=slot, marks=marks))
    first = lines[0]
    defined = np.flatnonzero(np.isfinite(first.y))
    title = f"{first.name} has no value at any threshold"
    if len(defined):
        a, b = defined[np.argmin(first.y[defined])], defined[np.argmax(first.y[defined])]
        title = f"{first.name} is {score_text(first.y[b])} at threshold {first.x[b]:g}, {score_text(first.y[a])} at {first.x[a]:g}"
        if first.y[b] - first.y[a] < 0.01:
            title = f"{first.name} does not hang on the threshold: {score_text(first.y[a])} to {score_text(first.y[b])}"
    note = f"Means over {result.n_used} images. The marker is the chosen threshold. {_band(result['APJ'])}"
    return Curves(
        title, Axis("threshold", 0.0, 1.0), Axis("score"), tuple(lines), note=note.strip()
    )


def scores(
    result: StabilityResult, *, names: tuple[str, ...] = CORRELATED, method: str = "spearman"
) -> HeatMap:
    """Return the correlations between scores over images."""
    table = result.correlation(method)
    score_names = tuple(name for name in names if name in table.names)
    at = [table.names.index(name) for name in score_names]
    values = table.values[np.ix_(at, at)]
    defined = np.argwhere(np.triu(np.isfinite(values), 1))
    title = "No two scores have a correlation over images"
    if len(defined):
        a, b = min(defined.tolist(), key=lambda pair: abs(float(values[pair[0], pair[1]])))
        title = f"{score_names[a]} and {score_names[b]} order images most differently: correlation {score_text(values[a, b])}"
    counts = table.n[np.ix_(at, at)]
    n = f"{counts.min()} to {counts.max()}" if counts.min() < counts.max() else f"{counts.min()}"
    how = {"spearman": "Rank correlations", "pearson": "Correlations"}[method]
    note = f"{how} over {n} images with both scores. APJ = AJ / (2 − AJ) on every pair, so their near 1 is no finding."
    x, y = Axis("score", names=score_names), Axis("with", names=score_names)
    return HeatMap(title, x, y, values, "correlation", -1.0, 1.0, note=note)


def images(result: StabilityResult, *, score: str = "APJ") -> Histogram:
    """Return how a score is spread over images."""
    values = result.per_bag(score)
    defined = values[~np.isnan(values)]
    n_missing = len(values) - len(defined)
    title = f"No image has a value of {score}"
    if len(defined):
        low, middle, high = np.quantile(defined, (0.1, 0.5, 0.9))
        title = f"{score} is {score_text(low)} to {score_text(high)} on 8 of 10 images, with the median at {score_text(middle)}"
    edges = np.round(np.linspace(1.0 - 0.1 * BINS, 1.0, BINS + 1), 10)
    counts = np.histogram(np.clip(defined, edges[0], edges[-1]), edges)[0].astype(np.float64)[None]
    note = f"n = {len(defined)} images, mean over pairs of models, {_at(result, score)}."
    note += (
        f" {n_missing} more have no value, because models mark nothing or everything."
        if n_missing
        else ""
    )
    return Histogram(title, Axis(score), Axis("images"), edges, ("images",), counts, note=note)


def dice(result: StabilityResult, *, score: str = "APJ", measure: str = "DICE") -> Scatter:
    """Return stability against the reference: every annotated image, with the standard deviation
    over models.
    """
    local = result.localized
    if not local.has(measure):
        raise UsageError(
            f"there is no {measure}: {local.missing.get(measure, 'unknown measure').replace('_', ' ')}"
        )
    mean, sd = local.per_bag(measure)
    x = result.per_bag(score)[local.places]
    both = int((~np.isnan(x)).sum())
    together = round(correlation(x, mean), 2)
    dots = Dots("", x, mean, y_low=mean - sd, y_high=mean + sd, names=local.ids, quiet=True)
    note = (
        f"A point is an image, {both} of {len(x)} have both. Bars are the standard deviation over {len(result.models)} "
        f"models (ddof 0), no intervals. Threshold {result.threshold:g}."
    )
    title = f"{_words(score, measure, together)}, n = {both}"
    return Scatter(
        title, Axis(score), Axis(f"{measure}, mean over models", 0.0, 1.0), (dots,), note=note
    )


def _words(score: str, measure: str, together: float) -> str:
    if together != together:
        return f"{score} and {measure} cannot be compared over images"
    strength = f"(rank correlation {score_text(together)})"
    if together >= TOGETHER:
        return f"Images of high {score} have high {measure} {strength}"
    if together <= -TOGETHER:
        return f"Images of high {score} have low {measure} {strength}"
    return f"{score} says little of {measure} {strength}"


def auc(result: StabilityResult, *, score: str = "APJ") -> Scatter:
    """Return, for every model, its agreement with the others against how well it tells whole images
    apart.
    """
    local = result.localized
    if not local.has("AUC"):
        raise UsageError(f"there is no bag AUC: {local.missing['AUC'].replace('_', ' ')}")
    areas = [local.get("AUC", model) for model in result.models]
    y, low, high = ends(areas)
    matrix = result.per_pair(score)
    defined = np.isfinite(matrix)
    x = np.divide(np.where(defined, matrix, 0.0).sum(axis=1), defined.sum(axis=1), where=defined.any(axis=1),
                  out=np.full(len(matrix), np.nan))  # fmt: skip
    dots = Dots(
        "", x, y, y_low=low, y_high=high, names=tuple(short_name(model) for model in result.models)
    )
    title = f"Bag AUC is {_span(y)} of models whose {score} with the others is {_span(x)}"
    if not np.isfinite(x).any():
        title = f"Bag AUC is {_span(y)}; {score} has no value"
    pooled = "" if local.pooling == "given" else f" Bag scores are the {local.pooling} of each map."
    note = (
        f"A point is a model; across, its mean {score} with the others over {result.n_used} images; up, its AUC over "
        f"{areas[0].n_images} images.{pooled} {_band(areas[0])}"
    )
    return Scatter(
        title,
        Axis(f"mean {score} with the other models"),
        Axis("bag AUC"),
        (dots,),
        note=note.strip(),
    )


def ends(estimates: Sequence[Estimate]) -> tuple[F64, F64, F64]:
    """Return values and ends of intervals; NaN for those that are of the share of units instead of
    the value.
    """
    value = np.array([one.value for one in estimates])
    low, high = (
        np.array(
            [math.nan if one.method == SHARE_OF_UNITS else getattr(one, end) for one in estimates]
        )
        for end in ("low", "high")
    )
    return value, low, high


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
    return f"{100 * estimate.level:g} % intervals over {estimate.n_units} {plural(estimate.unit)}, each by itself."


FIGURES: Mapping[str, Callable[..., Figure]] = {
    "pairs": pairs,
    "models": models,
    "called": called,
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
