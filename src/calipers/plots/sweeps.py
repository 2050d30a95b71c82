# SPDX-License-Identifier: Apache-2.0
"""Figures of sweeps: curves over a number, a forest plot over words, contours over two numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.plots.figures import (
    Axis,
    Contour,
    Curves,
    Figure,
    Forest,
    ForestRow,
    HeatMap,
    Line,
    Mark,
)
from calipers.plots.sweep_words import ranges, sensitivity, spread_of_words, who_is_best
from calipers.plots.words import short_name
from calipers.sensitivity.choices import Value
from calipers.sensitivity.swept import Sweep, SweepAxis

F64 = NDArray[np.float64]
MOST_MARKED = 25  # points of a line that get a marker


def sweep_figure(sweep: Sweep, metric: str | None = None, *, model: str | None = None) -> Figure:
    """Return a sweep as a figure.

    Parameters
    ----------
    metric
        The first one if left out. Of one model, or an oracle, over one choice: all that have the
        same scale.
    model
        The first one if left out; over one choice all models are shown together, unless one is
        named.

    Notes
    -----
    One choice of numbers gives curves with bands, one of words a forest plot; two of numbers a
    contour map, a number and a word a curve per word, two of words a heat map. Beside another
    choice, a single number counts as a word.

    Examples
    --------
    >>> import calipers as cal
    >>> from calipers.plots.sweeps import sweep_figure
    >>> result = cal.sweep(cal.demo_cohort(), "AP@0.5", {"threshold": [0.1, 0.5, 0.9]}, ci=False)
    >>> sweep_figure(result).title
    'The best model depends on the threshold: overpredicts first, misses-small from 0.9 on'
    """
    for what, name, names in (("metric", metric, sweep.metrics), ("model", model, sweep.models)):
        if name is not None and name not in names:
            raise UsageError(f"no {what} {name!r} in this sweep; {did_you_mean(name, names)}")
    if len(sweep.axes) == 2:
        return _of_two(sweep, metric or sweep.metrics[0], model or sweep.models[0])
    if model is None and len(sweep.models) > 1:
        return _of_models(sweep, metric or sweep.metrics[0])
    metrics = _alike(sweep) if metric is None else (metric,)
    return _of_metrics(sweep, metrics, model or sweep.models[0])


def sweep_figures(sweep: Sweep) -> dict[str, Figure]:
    """Return all figures of a sweep by name: the metric, or ``metric of model``.

    Over two choices a figure can show one model only.
    """
    figures: dict[str, Figure] = {}
    if len(sweep.axes) == 2:
        for metric in sweep.metrics:
            for model in sweep.models:
                name = f"{metric} of {model}" if len(sweep.models) > 1 else metric
                figures[name] = _of_two(sweep, metric, model)
        return figures
    if len(sweep.models) > 1 or len(sweep.metrics) == 1:
        return {metric: sweep_figure(sweep, metric) for metric in sweep.metrics}
    alike = _alike(sweep)
    name = " and ".join(alike[:2])
    if len(alike) > 2:
        name += " and more"
    figures[name] = sweep_figure(sweep)
    for metric in sweep.metrics:
        if metric not in alike:
            figures[metric] = sweep_figure(sweep, metric)
    return figures


def _alike(sweep: Sweep) -> tuple[str, ...]:
    """Return the metrics that can share a scale with the first one."""
    first = sweep.metrics[0]
    if first not in sweep.bounded:
        return (first,)
    return tuple(metric for metric in sweep.metrics if metric in sweep.bounded)


def _of_models(sweep: Sweep, metric: str) -> Figure:
    """Return one metric of all models over one choice."""
    axis, tables = sweep.axes[0], [sweep.line(metric, model) for model in sweep.models]
    values = np.array([table[0] for table in tables])
    title = who_is_best(
        axis, sweep.metric_label(metric), sweep.models, values, lower=metric in sweep.lower
    )
    return _over(sweep, axis, title, sweep.models, tables, _scale(sweep, (metric,)))


def _of_metrics(sweep: Sweep, metrics: tuple[str, ...], model: str) -> Figure:
    """Return metrics of one model over one choice."""
    axis, tables = sweep.axes[0], [sweep.line(metric, model) for metric in metrics]
    names = tuple(sweep.metric_label(metric) for metric in metrics)
    title = sensitivity(axis, names, np.array([table[0] for table in tables]))
    title = _title_of(sweep, model, title)
    return _over(sweep, axis, title, names, tables, _scale(sweep, metrics))


def _of_two(sweep: Sweep, metric: str, model: str) -> Figure:
    """Return one metric of one model over two choices."""
    first, second = sweep.axes
    tables = sweep.line(metric, model)
    label, scale = sweep.metric_label(metric), _scale(sweep, (metric,))
    if _is_continuous(first) != _is_continuous(second):
        return _of_number_and_word(sweep, metric, model)
    title = _title_of(sweep, model, ranges(sweep.axes, label, tables[0]))
    note = _note(sweep, band=False)
    if not _is_continuous(first):
        low, high = _colours(scale, tables[0])
        columns, rows = (Axis(axis.label, names=_words(axis)) for axis in (first, second))
        return HeatMap(title, columns, rows, tables[0].T, scale.label, low, high, note=note)
    xs, ys = (np.array(axis.values, np.float64) for axis in (first, second))
    x_order, y_order = np.argsort(xs), np.argsort(ys)
    values = tables[0].T[np.ix_(y_order, x_order)]
    axes = Axis(first.label), Axis(second.label)
    return Contour(title, *axes, xs[x_order], ys[y_order], values, scale.label, note=note)


def _of_number_and_word(sweep: Sweep, metric: str, model: str) -> Figure:
    """Return a curve over the number for every word."""
    first, second = sweep.axes
    number, word = (first, second) if _is_continuous(first) else (second, first)
    # Words along the first axis, so that every row is a curve.
    values, low, high = (
        np.moveaxis(table, sweep.axes.index(word), 0) for table in sweep.line(metric, model)
    )
    label = sweep.metric_label(metric)
    title = _title_of(sweep, model, spread_of_words(number, word, label, values))
    lines = list(zip(values, low, high))
    return _over(sweep, number, title, _words(word), lines, _scale(sweep, (metric,)))


def _over(
    sweep: Sweep,
    axis: SweepAxis,
    title: str,
    names: Sequence[str],
    tables: Sequence[tuple[F64, ...]],
    scale: Axis,
) -> Figure:
    """Return series over one choice: curves over numbers, a forest plot over words."""
    if not _is_continuous(axis) and isinstance(axis.values[0], str):
        rows = []
        for k, word in enumerate(_words(axis)):
            marks = tuple(_mark(table, k) for table in tables)
            rows.append(ForestRow(word, str(sweep.n_references), marks))
        return Forest(title, scale, tuple(names), tuple(rows), n="references", note=_note(sweep))
    x = np.array(axis.values, np.float64)
    order = np.argsort(x, kind="stable")
    marks_at = tuple(range(len(x))) if len(x) <= MOST_MARKED else ()
    lines = []
    for k, (name, (value, low, high)) in enumerate(zip(names, tables)):
        band = low[order], high[order]
        lines.append(Line(name, x[order], value[order], *band, slot=k, marks=marks_at))
    return Curves(title, Axis(axis.label), scale, tuple(lines), note=_note(sweep))


def _title_of(sweep: Sweep, model: str, title: str) -> str:
    """Return a title that names its model, if there are several."""
    if len(sweep.models) == 1:
        return title
    if title.startswith("The"):
        title = "t" + title[1:]
    return f"{short_name(model)}: {title}"


def _is_continuous(axis: SweepAxis) -> bool:
    """Return whether a line may join the values: they are numbers, more than one."""
    return axis.numeric and len(axis.values) > 1


def _words(axis: SweepAxis) -> tuple[str, ...]:
    return tuple(map(_value_text, axis.values))


def _value_text(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _mark(table: tuple[F64, ...], k: int) -> Mark:
    value, low, high = (float(part[k]) for part in table)
    return Mark(value, low, high, "" if value == value else "undefined")


def _scale(sweep: Sweep, metrics: Sequence[str]) -> Axis:
    """Return the axis of values: from 0 to 1 if all metrics are bounded by 0 and 1."""
    label = sweep.metric_label(metrics[0]) if len(metrics) == 1 else "value"
    if any(metric in sweep.lower for metric in metrics):
        label += " (lower is better)"
    if all(metric in sweep.bounded for metric in metrics):
        return Axis(label, 0.0, 1.0)
    return Axis(label)


def _colours(scale: Axis, values: F64) -> tuple[float, float]:
    """Return the ends of the colours: those of the axis, else those of the values."""
    if scale.high == scale.high:
        return scale.low, scale.high
    defined = values[np.isfinite(values)]
    if len(defined) and defined.min() < defined.max():
        return float(defined.min()), float(defined.max())
    return 0.0, 1.0


def _note(sweep: Sweep, *, band: bool = True) -> str:
    """Return what bands are, and how many images and references there are."""
    sentences = []
    if band and sweep.band != "none":
        sentences.append(f"{sweep.band[0].upper()}{sweep.band[1:]}, each point by itself.")
    if not band and sweep.of_oracle and sweep.runs > 1:
        sentences.append(f"Mean of {sweep.runs} runs.")
    counts = f"{sweep.n_images} images, {sweep.n_references} references"
    sentences.append(f"{counts}; protocol {sweep.protocol}.")
    return " ".join(sentences)
