# SPDX-License-Identifier: Apache-2.0
"""Sweeps as tables and sentences in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from calipers.cli.messages import one_line
from calipers.cli.tables import TableLine, grid, stdout_console
from calipers.plots.sweep_words import point_text, short
from calipers.plots.sweeps import sweep_figures
from calipers.results.digits import short_number
from calipers.sensitivity.swept import Sweep, SweepAxis

MOST_ROWS = 40


def print_sweep(sweep: Sweep) -> None:
    """Print a table per figure, its finding in words, and the numbers behind it."""
    console = stdout_console()
    axis = short(sweep.axes[0])
    if len(sweep.axes) == 2:
        _two(sweep, console)
    elif len(sweep.models) > 1:
        for metric in sweep.metrics:
            series = [(model, metric) for model in sweep.models]
            _one(sweep, console, f"{sweep.metric_label(metric)} at {axis}", series)
    else:
        _one(sweep, console, axis, [(sweep.models[0], metric) for metric in sweep.metrics])
    sentences = dict.fromkeys(f"{figure.title}." for figure in sweep_figures(sweep).values())
    numbers = f"n = {sweep.n_images} images, {sweep.n_references} references"
    sentences[f"{numbers}; protocol {sweep.protocol}."] = None
    if sweep.band != "none":
        band = f"In brackets: pointwise {sweep.band}."
        if sweep.of_oracle:
            band = f"After ±: {sweep.band}."
        sentences[band] = None
    for sentence in sentences:
        console.print(Text(one_line(sentence)), soft_wrap=True)


def _one(sweep: Sweep, console: Console, first: str, series: Sequence[tuple[str, str]]) -> None:
    """Print a line per value and a column per series: models, or metrics of one."""
    by_model = len(sweep.models) > 1
    names, curves = [], []
    for model, metric in series:
        names.append(model if by_model else sweep.metric_label(metric))
        curves.append(sweep.line(metric, model))
    axis = sweep.axes[0]
    cell = _spread if sweep.of_oracle else _interval
    lines = []
    for k in _table_rows(axis):
        cells = [cell(value[k], low[k], high[k]) for value, low, high in curves]
        lines.append(TableLine(_word(axis, k), cells, ()))
    console.print(grid(console, first, names, lines, series="model" if by_model else "metric"))
    _print_omitted(axis, console)


def _two(sweep: Sweep, console: Console) -> None:
    """Print a table per model and metric: a line per value of the first choice, a column per value
    of the second.
    """
    rows, columns = sweep.axes
    cell = _spread if sweep.of_oracle else _interval
    head = [point_text(columns, k) for k in range(len(columns.values))]
    for model in sweep.models:
        of = f" of {model}" if len(sweep.models) > 1 else ""
        for metric in sweep.metrics:
            value, low, high = sweep.line(metric, model)
            lines = []
            for i in _table_rows(rows):
                cells = [cell(value[i, j], low[i, j], high[i, j]) for j in range(len(head))]
                lines.append(TableLine(_word(rows, i), cells, ()))
            first = f"{sweep.metric_label(metric)}{of} at {short(rows)}"
            console.print(grid(console, first, head, lines, series=short(columns)))
            _print_omitted(rows, console)


def _table_rows(axis: SweepAxis) -> range:
    return range(min(len(axis.values), MOST_ROWS))


def _print_omitted(axis: SweepAxis, console: Console) -> None:
    if len(axis.values) > MOST_ROWS:
        console.print(f"... and {len(axis.values) - MOST_ROWS} more values, see --json or -o")


def _word(axis: SweepAxis, k: int) -> str:
    value = axis.values[k]
    return value if isinstance(value, str) else f"{value:g}"


def _interval(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return "undefined"
    return short_number(value) + (
        "" if math.isnan(low) else f" [{short_number(low)}, {short_number(high)}]"
    )


def _spread(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return "undefined"
    return short_number(value) + ("" if math.isnan(low) else f" ± {short_number((high - low) / 2)}")
