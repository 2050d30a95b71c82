# SPDX-License-Identifier: Apache-2.0
"""Estimates as tables in the terminal: the tables of `evaluate`, and parts that others share."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from calipers.cli.messages import one_line
from calipers.evaluation import Evaluation
from calipers.findings import legend, marks_of, same_for_all, speaks_for, without_interval
from calipers.results import Estimate
from calipers.results.digits import short_number

MOST_CLASSES = 12
UNLIMITED = 400
READABLE = 100  # columns; a wider table gets a line per model
LONGEST = 40  # characters of a name
COUNTS = "error-types.count."  # metrics whose values are whole numbers


@dataclass(frozen=True, slots=True)
class TableLine:
    """What a table says about one thing: a cell for every column, and the numbers behind them."""

    name: str
    cells: Sequence[str]
    numbers: Sequence[object]


def print_evaluation(evaluation: Evaluation) -> None:
    """Print the pooled estimates, for few classes the first headline metric per class, and the
    groups.
    """
    from calipers.cli.groups import print_groups

    console = stdout_console()
    per_class = evaluation.metrics_per_class
    headline = [metric for metric in evaluation.protocol.headline if metric in per_class]
    every, numbers_sentence = _metrics(evaluation, console)
    if 1 < len(evaluation.cohort.classes) <= MOST_CLASSES and headline:
        every += _classes(evaluation, headline[0], every, console)
    every += print_groups(evaluation, every, console)
    intervals = speaks_for(evaluation.statistics, every)
    for sentence in (numbers_sentence, intervals, *legend(every)):
        if sentence:
            console.print(Text(one_line(sentence)), soft_wrap=True)


def _metrics(evaluation: Evaluation, console: Console) -> tuple[list[Estimate], str]:
    """Print all metrics; return the printed estimates, and the numbers behind all of them in
    words.
    """
    rows = []
    for metric in evaluation.metrics:
        rows.append([evaluation.get(metric, model=model) for model in evaluation.models])
    behind = {
        "images": [row[0].n_images for row in rows],
        "references": [row[0].n_references for row in rows],
    }
    varying = {name: numbers for name, numbers in behind.items() if len(set(numbers)) > 1}
    numbers = list(zip(*varying.values())) or [()] * len(rows)
    counts = {row.metric for row in evaluation.rows if row.metric_id.startswith(COUNTS)}
    cells = cells_of(rows, (), [metric in counts for metric in evaluation.metrics])
    lines = [TableLine(*entry) for entry in zip(evaluation.metrics, cells, numbers)]
    console.print(grid(console, "metric", evaluation.models, lines, list(varying)))
    same = [f"{behind[name][0]} {name}" for name in behind if name not in varying]
    sentence = f"n = {', '.join(same)} in all." if same else ""
    return list(chain.from_iterable(rows)), sentence


def _classes(
    evaluation: Evaluation, metric: str, above: Sequence[Estimate], console: Console
) -> list[Estimate]:
    """Print one metric per class."""
    classes = evaluation.cohort.classes
    rows = []
    for label in classes:
        rows.append(
            [evaluation.get(metric, model=model, label=label) for model in evaluation.models]
        )
    lines = []
    for name, cells, row in zip(classes, cells_of(rows, above), rows):
        lines.append(TableLine(name, cells, (row[0].n_references,)))
    console.print(grid(console, f"{metric} of", evaluation.models, lines, ("references",)))
    return list(chain.from_iterable(rows))


def grid(
    console: Console,
    first: str,
    models: Sequence[str],
    lines: Sequence[TableLine],
    numbers: Sequence[str] = (),
    below: Sequence[TableLine] = (),
    series: str = "model",
) -> Table:
    """Return a line per thing and a column per model (or other series); if that is too wide, a line
    per model.
    """
    wide = _table([first], models, numbers)
    long = _table([first, series], ["value"], numbers)
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
    width = max(len(short_number(estimate.value)) for estimate in every)
    say_why = not same_for_all([*above, *every])
    cells = []
    for row, count in zip(rows, counts or [False] * len(rows)):
        cells.append([_cell(each, width, say_why=say_why, count=count) for each in row])
    return cells


def single_cells(estimates: Sequence[Estimate]) -> list[str]:
    """Return the cells of one column of estimates."""
    rows = [[estimate] for estimate in estimates]
    return [cell for (cell,) in cells_of(rows, ())]


def _cell(estimate: Estimate, width: int, *, say_why: bool, count: bool = False) -> str:
    if math.isnan(estimate.value):
        return str(estimate.reason).replace("_", " ")
    value = (f"{estimate.value:.0f}" if count else short_number(estimate.value)).rjust(width)
    if not math.isnan(estimate.low):
        return (
            f"{value} [{short_number(estimate.low)}, "
            f"{short_number(estimate.high)}]{marks_of(estimate)}"
        )
    why = without_interval(estimate) if say_why else ""
    return f"{value} ({one_line(why)})" if why else value


def _table(left: Sequence[str], right: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(escape(one_line(name)), no_wrap=True)
    for name in right:
        table.add_column(name_of(name), overflow="fold")
    for name in numbers:
        table.add_column(name_of(name), justify="right", style="dim", overflow="fold")
    return table


def plain_table(left: Sequence[str], right: Sequence[str]) -> Table:
    """Return an empty table: columns of names on the left, columns of numbers on the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", overflow="fold")
    return table


def stdout_console() -> Console:
    """Return the console for tables; a file or a pipe has no width, so that no name is cut
    there.
    """
    width = None if sys.stdout.isatty() else UNLIMITED
    return Console(file=sys.stdout, highlight=False, width=width)


def name_of(text: str) -> str:
    """Return a name as a cell: short, and without control characters."""
    return escape(one_line(text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."))
