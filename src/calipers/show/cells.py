# SPDX-License-Identifier: Apache-2.0
"""Tables made of cells that are texts already; `show.table` takes their place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from calipers.results.estimate import Estimate
from calipers.show.terminal import READABLE, UNLIMITED, name_of, one_line
from calipers.show.words import marks_of, number_text, same_for_all, without_interval


@dataclass(frozen=True, slots=True)
class TableLine:
    """What a table says about one thing: a cell for every column, and the numbers behind them."""

    name: str
    cells: Sequence[str]
    numbers: Sequence[object]


def grid(
    console: Console,
    first: str,
    models: Sequence[str],
    lines: Sequence[TableLine],
    numbers: Sequence[str] = (),
    below: Sequence[TableLine] = (),
    series: str = "model",
) -> RichTable:
    """Return a line per thing and a column per model (or other series); if that is too wide, a line
    per model.
    """
    wide = _empty([first], models, numbers)
    long = _empty([first, series], ["value"], numbers)
    for part in (lines, below):
        for line in part:
            wide.add_row(name_of(line.name), *map(escape, line.cells), *map(str, line.numbers))
            for k, (model, cell) in enumerate(zip(models, line.cells)):
                numbers_once = () if k else map(str, line.numbers)
                long.add_row(
                    "" if k else name_of(line.name), name_of(model), escape(cell), *numbers_once
                )
        if below:
            wide.add_section()
            long.add_section()
    limit = console.width if console.is_terminal else READABLE
    whole = console.measure(
        wide, options=console.options.update(max_width=UNLIMITED * len(models))
    ).maximum
    return wide if len(models) == 1 or whole <= limit else long


def cells_of(
    rows: Sequence[Sequence[Estimate]], above: Sequence[Estimate], counts: Sequence[bool] = ()
) -> list[list[str]]:
    """Return value and interval of estimates, values right-aligned; rows of *counts* have values
    without decimals.

    A cell says why it has no interval, unless the reason is the same for all, including the
    estimates in tables above.
    """
    every = list(chain.from_iterable(rows))
    width = max(len(number_text(estimate.value)) for estimate in every)
    say_why = not same_for_all([*above, *every])
    cells = []
    for row, count in zip(rows, counts or [False] * len(rows)):
        cells.append([_terminal_cell(each, width, say_why=say_why, count=count) for each in row])
    return cells


def single_cells(estimates: Sequence[Estimate]) -> list[str]:
    """Return the cells of one column of estimates."""
    rows = [[estimate] for estimate in estimates]
    return [cell for (cell,) in cells_of(rows, ())]


def _terminal_cell(estimate: Estimate, width: int, *, say_why: bool, count: bool = False) -> str:
    if math.isnan(estimate.value):
        return str(estimate.reason).replace("_", " ")
    value = (f"{estimate.value:.0f}" if count else number_text(estimate.value)).rjust(width)
    if not math.isnan(estimate.low):
        return (
            f"{value} [{number_text(estimate.low)}, "
            f"{number_text(estimate.high)}]{marks_of(estimate)}"
        )
    why = without_interval(estimate) if say_why else ""
    return f"{value} ({one_line(why)})" if why else value


def _empty(left: Sequence[str], right: Sequence[str], numbers: Sequence[str]) -> RichTable:
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(escape(one_line(name)), no_wrap=True)
    for name in right:
        table.add_column(name_of(name), overflow="fold")
    for name in numbers:
        table.add_column(name_of(name), justify="right", style="dim", overflow="fold")
    return table
