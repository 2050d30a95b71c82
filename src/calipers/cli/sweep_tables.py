# SPDX-License-Identifier: Apache-2.0
"""Sweeps as tables and sentences in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from calipers.cli.messages import one_line
from calipers.cli.tables import Line, grid, stdout_console
from calipers.plots.sweep_words import point_text, short
from calipers.plots.sweeps import sweep_figures
from calipers.results.digits import shown
from calipers.sensitivity.swept import Sweep, SweepAxis

MOST_ROWS = 40


def print_sweep(sweep: Sweep) -> None:
    """Print a table per figure, what each says in words, and what stands behind the numbers."""
    console = stdout_console()
    if len(sweep.axes) == 2:
        _two(sweep, console)
    elif len(sweep.models) > 1:
        for metric in sweep.metrics:
            _one(
                sweep,
                console,
                f"{sweep.metric_label(metric)} at {short(sweep.axes[0])}",
                [(m, metric) for m in sweep.models],
            )
    else:
        _one(
            sweep,
            console,
            short(sweep.axes[0]),
            [(sweep.models[0], metric) for metric in sweep.metrics],
        )
    said = [f"{figure.title}." for figure in sweep_figures(sweep).values()]
    behind = (
        f"n = {sweep.n_images} images, {sweep.n_references} references; protocol {sweep.protocol}."
    )
    band = (
        f"After ±: {sweep.band}."
        if sweep.of_oracle
        else f"In brackets: {sweep.band}, each point by itself."
    )
    band = "" if sweep.band == "none" else band
    for sentence in (*dict.fromkeys(said), behind, band):
        if sentence:
            console.print(Text(one_line(sentence)), soft_wrap=True)


def _one(sweep: Sweep, console: Console, first: str, series: Sequence[tuple[str, str]]) -> None:
    """Print a line per value and a column per series: models, or metrics of one."""
    by_model = len(sweep.models) > 1
    names = [model if by_model else sweep.metric_label(metric) for model, metric in series]
    tables = [sweep.line(metric, model) for model, metric in series]
    axis = sweep.axes[0]
    cell = _spread if sweep.of_oracle else _interval
    lines = [
        Line(_word(axis, k), [cell(t[0][k], t[1][k], t[2][k]) for t in tables], ())
        for k in _shown(axis)
    ]
    console.print(grid(console, first, names, lines, series="model" if by_model else "metric"))
    _more(axis, console)


def _two(sweep: Sweep, console: Console) -> None:
    """Print a table per model and metric: a line per value of the first choice, a column per value
    of the second.
    """
    rows, columns = sweep.axes
    cell = _spread if sweep.of_oracle else _interval
    head = [point_text(columns, k) for k in range(len(columns.values))]
    for model in sweep.models:
        for metric in sweep.metrics:
            value, low, high = sweep.line(metric, model)
            lines = [
                Line(
                    _word(rows, i),
                    [cell(value[i, j], low[i, j], high[i, j]) for j in range(len(head))],
                    (),
                )
                for i in _shown(rows)
            ]
            of = f" of {model}" if len(sweep.models) > 1 else ""
            console.print(
                grid(
                    console,
                    f"{sweep.metric_label(metric)}{of} at {short(rows)}",
                    head,
                    lines,
                    series=short(columns),
                )
            )
            _more(rows, console)


def _shown(axis: SweepAxis) -> range:
    return range(min(len(axis.values), MOST_ROWS))


def _more(axis: SweepAxis, console: Console) -> None:
    if len(axis.values) > MOST_ROWS:
        console.print(f"... and {len(axis.values) - MOST_ROWS} more values, see --json or -o")


def _word(axis: SweepAxis, k: int) -> str:
    value = axis.values[k]
    return value if isinstance(value, str) else f"{value:g}"


def _interval(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return "undefined"
    return shown(value) + ("" if math.isnan(low) else f" [{shown(low)}, {shown(high)}]")


def _spread(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return "undefined"
    return shown(value) + ("" if math.isnan(low) else f" ± {shown((high - low) / 2)}")
