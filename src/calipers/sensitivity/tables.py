# SPDX-License-Identifier: Apache-2.0
"""Tables of a multiverse and of a sweep.

A `Multiverse` or a `Sweep` comes in, `show.table.Table` goes out; command line, page and notebook
show these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from calipers.sensitivity.figures import point_text, short
from calipers.sensitivity.result import Multiverse, choice_name
from calipers.sensitivity.sweep import Sweep, SweepAxis
from calipers.show.table import Amount, Cell, Table, TableRow, same_kind

UNDEFINED = "undefined"


def tables(result: Multiverse) -> list[Table]:
    """Return who wins with every value of every choice, and the grid."""
    return [levels_table(result), grid_table(result)]


def levels_table(result: Multiverse, *, silent: bool = True) -> Table:
    """Return the share of configurations that every model wins, at every value of every choice.

    Parameters
    ----------
    silent
        Whether choices that change no share are shown too.
    """
    rows: list[TableRow] = []
    for choice, level, n, wins in result.levels:
        # In a terminal, choices that change nothing would hide those that do.
        if silent or choice not in result.silent:
            shares = [wins[model] for model in result.models]
            rows.append((choice_name(choice), level, *shares, n))
    means = [result.wins[model] for model in result.models]
    return Table(
        ("choice", "value", *result.models, "configurations"),
        tuple(rows),
        title="Share of configurations in which each model has the best value",
        summary=(("all", "", *means, len(result.each)),),
        name="table-levels",
        kinds=("name", "name", *same_kind("share", len(result.models)), "count"),
        series="model",
    )


def wins_table(result: Multiverse) -> Table:
    """Return the share of all configurations that every model wins."""
    return Table(
        ("model", "configurations won"),
        tuple(result.wins.items()),
        title=f"{len(result.each)} configurations",
        notes=("Models that tie share a configuration.",),
        kinds=("name", "share"),
    )


def grid_table(result: Multiverse) -> Table:
    """Return the values of every choice."""
    rows = []
    for name in result.choices:
        values = dict.fromkeys(str(one[name]) for one in result.each if name in one)
        rows.append((choice_name(name), ", ".join(values)))
    return Table(("choice", "values"), tuple(rows), title="The grid", name="table-grid")


def sweep_tables(sweep: Sweep) -> list[Table]:
    """Return the values of a sweep: over one choice a column per model, or per metric of a single
    model; over two choices a table per model and metric.
    """
    if len(sweep.axes) == 2:
        results = []
        for model in sweep.models:
            results += [_over_two(sweep, model, metric) for metric in sweep.metrics]
        return results
    at = short(sweep.axes[0])
    if len(sweep.models) > 1:
        results = []
        for metric in sweep.metrics:
            lines = [(model, model, metric) for model in sweep.models]
            results.append(
                _over_one(sweep, f"{sweep.metric_label(metric)} at {at}", lines, "model")
            )
        return results
    model = sweep.models[0]
    lines = [(sweep.metric_label(metric), model, metric) for metric in sweep.metrics]
    return [_over_one(sweep, at, lines, "metric")]


def _over_one(
    sweep: Sweep, first: str, lines: Sequence[tuple[str, str, str]], series: str
) -> Table:
    """Return a row per value and a column per line: its name, model and metric."""
    axis = sweep.axes[0]
    curves = [sweep.line(metric, model) for _, model, metric in lines]
    rows: list[TableRow] = []
    for k in range(len(axis.values)):
        cells = [_cell(sweep, value[k], low[k], high[k]) for value, low, high in curves]
        rows.append((_value_text(axis, k), *cells))
    names = [name for name, _, _ in lines]
    return Table(
        (first, *names),
        tuple(rows),
        kinds=("name", *same_kind("value", len(names))),
        notes=_band(sweep),
        series=series,
    )


def _over_two(sweep: Sweep, model: str, metric: str) -> Table:
    """Return a row per value of the first choice and a column per value of the second."""
    first, second = sweep.axes
    value, low, high = sweep.line(metric, model)
    rows: list[TableRow] = []
    for i in range(len(first.values)):
        cells = []
        for j in range(len(second.values)):
            cells.append(_cell(sweep, value[i, j], low[i, j], high[i, j]))
        rows.append((_value_text(first, i), *cells))
    of_model = f" of {model}" if len(sweep.models) > 1 else ""
    heads = [point_text(second, k) for k in range(len(second.values))]
    return Table(
        (f"{sweep.metric_label(metric)}{of_model} at {short(first)}", *heads),
        tuple(rows),
        kinds=("name", *same_kind("value", len(heads))),
        notes=_band(sweep),
        series=short(second),
    )


def _cell(sweep: Sweep, value: float, low: float, high: float) -> Cell:
    if math.isnan(value):
        return UNDEFINED
    # The band of an oracle is a standard deviation to both sides, not an interval.
    if sweep.of_oracle:
        return Amount(float(value), spread=float(high - low) / 2)
    return Amount(float(value), low=float(low), high=float(high))


def _value_text(axis: SweepAxis, k: int) -> str:
    value = axis.values[k]
    return value if isinstance(value, str) else f"{value:g}"


def _band(sweep: Sweep) -> tuple[str, ...]:
    """Return what stands beside the values."""
    if sweep.band == "none":
        return ()
    if sweep.of_oracle:
        return (f"After ±: {sweep.band}.",)
    return (f"In brackets: pointwise {sweep.band}.",)
