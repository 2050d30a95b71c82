# SPDX-License-Identifier: Apache-2.0
"""Describe a figure in a sentence, for readers who do not see it: kind, axes, series and counts."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from calipers.plots import figures as f
from calipers.plots.svg.words import clean, shorten
from calipers.plots.ticks import tick_text

MOST = 12  # series that are named one by one
LONGEST = 60


def description(figure: f.Figure) -> str:
    """Return the sentence, followed by the note of the figure."""
    for kind, sentence in SENTENCES.items():
        if isinstance(figure, kind):
            text = sentence(figure)
            break
    else:
        text = "Figure."
    return clean(f"{text} {shorten(figure.note, 1000)}".strip())


def _name(name: str) -> str:
    """Return a name that does not turn the words beside it: one written from right to left is set
    apart.
    """
    short = clean(shorten(name, LONGEST))
    turns = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in short)
    return f"\N{LEFT-TO-RIGHT MARK}{short}\N{LEFT-TO-RIGHT MARK}" if turns else short


def _join(names: Iterable[str]) -> str:
    every = [name for name in names if name]
    more = f" and {len(every) - MOST} more" if len(every) > MOST else ""
    return ", ".join(every[:MOST]) + more


def _count(n: int, word: str, words: str = "") -> str:
    """Return a number with its noun, whose plural is ``words``, or ends in s."""
    if n == 1:
        return f"1 {word}"
    return f"{n} {words or word + 's'}"


def _axis(axis: f.Axis) -> str:
    label = clean(axis.label) or "no unit"
    return f"{label} (logarithmic)" if axis.log else label


def _curves(figure: f.Curves) -> str:
    def one(line: f.Line) -> str:
        band = ", with a band" if line.low is not None and line.high is not None else ""
        points = _count(_n_finite(line.x, line.y), "point")
        return f"{_name(line.name) or 'unnamed'} ({points}{band})"

    n = _count(len(figure.lines), "series", "series")
    text = f"Curves of {_axis(figure.y)} against {_axis(figure.x)}, {n}"
    lines = _join(map(one, figure.lines))
    return f"{text}: {lines}." if lines else f"{text}."


def _n_finite(*values: Any) -> int:
    return int(np.logical_and.reduce([np.isfinite(v) for v in values]).sum())


def _forest(figure: f.Forest) -> str:
    marks = [mark for row in figure.rows for mark in row.marks]
    n_estimates = sum(math.isfinite(mark.value) for mark in marks)
    text = f"Forest plot of {_axis(figure.x)}, {_count(len(figure.rows), 'row')}, "
    text += _count(n_estimates, "estimate")
    if len(marks) > n_estimates:
        text += f", {len(marks) - n_estimates} undefined"
    series = _join(map(_name, figure.series))
    return f"{text}; series: {series}." if series else f"{text}."


def _bars(figure: f.Bars) -> str:
    kind = "Stacked bars" if figure.stacked else "Bars"
    n = _count(len(figure.x.names), "category", "categories")
    series = _join(map(_name, figure.series))
    return f"{kind} of {_axis(figure.y)} by {_axis(figure.x)}, {n}; series: {series}."


def _heatmap(figure: f.HeatMap) -> str:
    n = f"{_count(len(figure.y.names), 'row')} and {_count(len(figure.x.names), 'column')}"
    n_missing = figure.values.size - _n_finite(figure.values)
    undefined = f", {_count(n_missing, 'cell')} undefined" if n_missing else ""
    axes = f"{_axis(figure.y)} by {_axis(figure.x)}"
    return f"Heat map of {clean(figure.label)}: {axes}, {n}{undefined}."


def _scatter(figure: f.Scatter) -> str:
    def one(dots: f.Dots) -> str:
        return f"{_name(dots.name) or 'unnamed'} ({_count(_n_finite(dots.x, dots.y), 'point')})"

    series = _join(map(one, figure.dots))
    return f"Points of {_axis(figure.y)} against {_axis(figure.x)}; series: {series}."


def _blob(figure: f.Blob) -> str:
    def one(m: int) -> str:
        rank = f" (median {figure.medians[m]:g})" if m < len(figure.medians) else ""
        return f"{_name(figure.models[m])}{rank}"

    models = range(len(figure.models))
    return f"Ranks of {_count(len(models), 'model')} over {figure.of}: {_join(map(one, models))}."


def _boxes(figure: f.BoxDots) -> str:
    def one(name: str, sample: f.F64) -> str:
        good = sample[np.isfinite(sample)]
        median = f", median {tick_text(round(float(np.median(good)), 4))}" if len(good) else ""
        return f"{_name(name)} (n = {len(good)}{median})"

    return f"Box plots of {_axis(figure.y)}: {_join(map(one, figure.names, figure.samples))}."


def _contour(figure: f.Contour) -> str:
    values = figure.values[np.isfinite(figure.values)]
    span = ""
    if len(values):
        span = f", from {tick_text(float(values.min()))} to {tick_text(float(values.max()))}"
    n = f"{len(figure.xs)} by {len(figure.ys)} points"
    axes = f"{_axis(figure.x)} and {_axis(figure.y)}"
    return f"Contours of {clean(figure.label)} over {axes}, {n}{span}."


def _histogram(figure: f.Histogram) -> str:
    bins = _count(max(len(figure.edges) - 1, 0), "bin")
    threshold = f", line at {tick_text(figure.cut)}" if math.isfinite(figure.cut) else ""
    series = _join(map(_name, figure.series))
    return (
        f"Histogram of {_axis(figure.x)}, {_axis(figure.y)} in {bins}{threshold}; series: {series}."
    )


def _cells(figure: f.Cells) -> str:
    total = np.bincount(figure.counts.ravel(), minlength=figure.most + 1)
    counts = ", ".join(f"{n} with {k}" for k, n in enumerate(total.tolist()) if n)
    rows, columns = figure.counts.shape
    around = ""
    if figure.inside is not None:
        around = f"; a line runs around {_count(int(figure.inside.sum()), 'cell')}"
    label = _name(figure.label)
    return f"Map of {rows} by {columns} cells, {label}: {counts or 'no cells'}{around}."


def _overlay(figure: f.Overlay) -> str:
    counts = Counter(mark.fate for mark in figure.marks)
    boxes = ", ".join(f"{n} {fate}" for fate, n in counts.items()) or "no objects"
    text = f"Image of {figure.size[0]:g} by {figure.size[1]:g} pixels"
    if not (figure.picture or figure.symbol):
        text += ", without the picture"
    if figure.shade or figure.shade_symbol:
        text += ", with the map of scores"
    return f"{text}: {boxes}."


SENTENCES: dict[type[f.Figure], Callable[[Any], str]] = {
    f.Curves: _curves,
    f.Forest: _forest,
    f.Bars: _bars,
    f.HeatMap: _heatmap,
    f.Scatter: _scatter,
    f.Blob: _blob,
    f.BoxDots: _boxes,
    f.Contour: _contour,
    f.Histogram: _histogram,
    f.Cells: _cells,
    f.Overlay: _overlay,
}
