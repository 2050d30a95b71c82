# SPDX-License-Identifier: Apache-2.0
"""Estimates as HTML tables of the page. Every text from the data passes through `text`.

Evaluation in a notebook.

Tables of an evaluation.

Estimates per group as tables in the terminal, with mean, standard deviation and range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from calipers.evaluation.result import Evaluation
from calipers.results.comparison import GroupedRows, GroupSummary
from calipers.results.estimate import Estimate
from calipers.show.html import _head, _line, digits, frame, framed, text
from calipers.show.terminal import UNLIMITED, _table, name_of, one_line, stdout_console
from calipers.show.words import (
    best_of,
    between,
    legend,
    marks_of,
    plural,
    reason_word,
    same_for_all,
    short,
    short_number,
    speaks_for,
    undefined,
    without_interval,
)
from calipers.show.words import count_text as counted

FEW = 3  # models
MOST_GROUPS = 60
NUMBER = {"n": "references"}
BESIDE = (
    "The headline metrics for all classes together; evaluation.json has the others. Percentile: "
    "the percentile interval, which most papers use, for comparison. Bias: mean of the replicates "
    "minus the value. Monte-Carlo error: standard error of the two bounds that comes from the "
    "number of replicates. Left out: replicates without a value."
)


def metrics_table(evaluation: Evaluation, metrics: Sequence[str]) -> str:
    """Return the pooled estimates, a row per metric; n is in the caption, or in a column of its own
    if it varies.
    """
    lower = evaluation.protocol.lower_is_better
    rows = [_estimates(evaluation, metric) for metric in metrics]
    n_references = [estimates[0].n_references for estimates in rows]
    varies = len(set(n_references)) > 1
    every = list(chain.from_iterable(rows))
    say_why = not same_for_all(every)
    lines = []
    for metric, estimates, n in zip(metrics, rows, n_references):
        cells = _cells(estimates, lower=metric in lower, say_why=say_why)
        lines.append(_line(metric, cells, (n,) if varies else ()))
    number = counted("image", rows[0][0].n_images)
    number += " (and n references)" if varies else f", {counted('reference', n_references[0])}"
    caption = _caption(evaluation, metrics, number, every)
    head = _head("metric", evaluation.models, NUMBER if varies else {})
    return frame(caption, head, lines, kind=_table_class(evaluation), below=_below(every))


def models_table(evaluation: Evaluation, metrics: Sequence[str]) -> str:
    """Return the pooled estimates of many models: a row per model, best first, a column per
    metric.
    """
    lower = evaluation.protocol.lower_is_better
    columns = [_estimates(evaluation, metric) for metric in metrics]
    every = list(chain.from_iterable(columns))
    say_why = not same_for_all(every)
    stars = [best_of(column, lower=metric in lower) for metric, column in zip(metrics, columns)]
    lines = {}
    for k, model in enumerate(evaluation.models):
        cells = [_cell(column[k], star[k], say_why=say_why) for column, star in zip(columns, stars)]
        lines[model] = _line(model, "".join(cells), ())
    number = counted("image", columns[0][0].n_images)
    n_references = {column[0].n_references for column in columns}
    if len(n_references) == 1:
        number += f", {counted('reference', n_references.pop())}"
    caption = _caption(evaluation, metrics, number, every)
    head = _head("model, best first", metrics, {})
    sorted_lines = [lines[model] for model in evaluation.models_by_value]
    return frame(caption, head, sorted_lines, kind="sheet models", below=_below(every))


def _estimates(evaluation: Evaluation, metric: str, label: str | None = None) -> list[Estimate]:
    """Return one metric of every model."""
    return [evaluation.get(metric, model=model, label=label) for model in evaluation.models]


def _caption(
    evaluation: Evaluation, metrics: Sequence[str], number: str, every: Sequence[Estimate]
) -> str:
    """Return what stands above a table of pooled estimates: n, the legend, the intervals."""
    lower = evaluation.protocol.lower_is_better
    sentences = [
        f"All classes together, n = {number}.",
        *_legend(evaluation, [metric for metric in metrics if metric in lower]),
        speaks_for(evaluation.statistics, every),
    ]
    return " ".join(filter(None, sentences))


def classes_table(evaluation: Evaluation, metric: str) -> str:
    """Return one metric: a row per class, a column per model."""
    lower = metric in evaluation.protocol.lower_is_better
    classes = evaluation.cohort.classes
    rows = [_estimates(evaluation, metric, label) for label in classes]
    every = list(chain.from_iterable(rows))
    say_why = not same_for_all([*every, *_estimates(evaluation, metric)])
    lines = []
    for label, row in zip(classes, rows):
        cells = _cells(row, lower=lower, say_why=say_why)
        lines.append(_line(label, cells, (row[0].n_references,)))
    title = f"<strong>{text(metric)}</strong>{_direction(lower)}"
    head = _head("class", evaluation.models, NUMBER)
    return frame("", head, lines, title=title, kind=_table_class(evaluation), below=_below(every))


def _direction(lower: bool) -> str:
    return " (lower is better)" if lower else ""


def groups_table(
    evaluation: Evaluation, grouping: GroupedRows, metric: str, label: str | None
) -> str:
    """Return one metric: a row per group, a column per model, then mean, standard deviation and
    range.
    """
    lower = metric in evaluation.protocol.lower_is_better
    table = list(grouping.table(metric, label, evaluation.models).items())
    lines, estimates = [], []
    for name, row in table[:MOST_GROUPS]:
        lines.append(_line(name, _cells(row, lower=lower, say_why=True), (_behind(row[0]),)))
        estimates += row
    summaries = [grouping.summary(metric, label, model) for model in evaluation.models]
    lines += _summary_lines(summaries)
    of = "" if label is None else f" of {label}"
    title = f"<strong>{text(metric + of)}</strong> {text(grouping.title)}{_direction(lower)}"
    caption = ""
    if len(table) > MOST_GROUPS:
        caption = f" (the first {MOST_GROUPS} of {len(table)} groups)"
    unit_names = " / ".join(dict.fromkeys((plural(table[0][1][0].unit), "images", "references")))
    head = _head("group", evaluation.models, {"n": unit_names})
    below = [*_below(estimates), f"n: {unit_names}"]
    kind = f"{_table_class(evaluation)} groups"
    return frame(caption, head, lines, title=title, kind=kind, below=below)


def beside_table(evaluation: Evaluation) -> str:
    """Return details of the headline intervals: method, percentile interval, bias, Monte-Carlo
    error.
    """
    names = (
        "metric",
        "model",
        "value",
        "interval",
        "made by",
        "percentile",
        "bias",
        "Monte-Carlo error",
        "left out",
    )
    lines = []
    for metric in evaluation.headline:
        for model in evaluation.models:
            e = evaluation.get(metric, model=model)
            method = "" if e.method == "none" else e.method
            texts = (between(e.low, e.high), method, between(*e.percentile))
            errors = ", ".join(filter(None, map(_fine, e.mc_error)))
            cells = [
                f"<td>{text(short(model))}</td>",
                _number(e.value, short_number(e.value)),
                *(f"<td>{text(cell)}</td>" for cell in texts),
                _number(e.bias, _fine(e.bias)),
                f"<td>{errors}</td><td class=num>{e.undefined}</td>",
            ]
            lines.append(f"<tr><th scope=row>{text(metric)}</th>{''.join(cells)}</tr>")
    head = "".join(f"<th scope=col>{name}</th>" for name in names)
    return frame(BESIDE, f"<tr>{head}</tr>", lines, label="Beside the intervals")


def _number(value: float, content: str) -> str:
    if math.isnan(value):
        return "<td class=num></td>"
    return f'<td data-v="{digits(value)}">{content}</td>'


def _fine(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"


def _table_class(evaluation: Evaluation) -> str:
    """Return the CSS class of a table; rows of a few models fit a narrow screen with their name
    above them.
    """
    return "sheet few" if len(evaluation.models) <= FEW else "sheet"


def _cells(estimates: Sequence[Estimate], *, lower: bool, say_why: bool) -> str:
    pairs = zip(estimates, best_of(estimates, lower=lower))
    return "".join(_cell(estimate, best, say_why=say_why) for estimate, best in pairs)


def _cell(estimate: Estimate, best: bool, *, say_why: bool) -> str:
    if math.isnan(estimate.value):
        return f"<td class=undefined>{text(reason_word(estimate.reason))}</td>"
    value, kind = short_number(estimate.value), ""
    if best:
        value, kind = value + '<span class=star title="best model">&#9733;</span>', " class=best"
    why = without_interval(estimate) if say_why else ""
    beside = between(estimate.low, estimate.high) + marks_of(estimate) or why
    small = f"<small>{text(beside)}</small>" if beside else ""
    ends = ""
    if not math.isnan(estimate.low):
        ends = f' data-low="{digits(estimate.low)}" data-high="{digits(estimate.high)}"'
    return f'<td{kind} data-v="{digits(estimate.value)}"{ends}>{value}{small}</td>'


def _behind(estimate: Estimate) -> str:
    """Return the counts of a group: units, images if they are not the units, references."""
    images = [] if estimate.unit == "image" else [estimate.n_images]
    return " / ".join(map(str, (estimate.n_units, *images, estimate.n_references)))


def _summary_lines(summaries: Sequence[GroupSummary]) -> list[str]:
    """Return mean and standard deviation, and the range, over the groups that have a value."""
    means, ranges = "", ""
    for summary in summaries:
        means += _mean_cell(summary)
        ranges += _range_cell(summary)
    first = f"mean of {counted('group', summaries[0].n_groups)}"
    return [_line(first, means, ("",), kind="over"), _line("range", ranges, ("",), kind="over")]


def _mean_cell(summary: GroupSummary) -> str:
    spread = "" if math.isnan(summary.sd) else f"SD {short_number(summary.sd)}"
    some = ""
    if summary.n_defined < summary.n_groups:
        some = f"{summary.n_defined} of {summary.n_groups} groups"
    small = f"<small>{', '.join(filter(None, (spread, some)))}</small>"
    return f'<td data-v="{_data_value(summary.mean)}">{short_number(summary.mean)}{small}</td>'


def _range_cell(summary: GroupSummary) -> str:
    low, high = _data_value(summary.lowest), _data_value(summary.highest)
    content = ""
    if summary.n_defined:
        content = f"{short_number(summary.lowest)} to {short_number(summary.highest)}"
    return f'<td data-v="" data-low="{low}" data-high="{high}">{content}</td>'


def _data_value(value: float) -> str:
    return "" if math.isnan(value) else digits(value)


def _below(estimates: Sequence[Estimate]) -> list[str]:
    return [*legend(estimates), *filter(None, [undefined(estimates)])]


def _legend(evaluation: Evaluation, lower: Sequence[str]) -> list[str]:
    sentences = ["Higher is better."]
    if lower:
        sentences = [f"Higher is better, except for {', '.join(lower)}."]
    if len(evaluation.models) > 1:
        sentences.append("A star marks the best model of a metric.")
    return sentences


def of_evaluation(evaluation: Evaluation) -> str:
    """Return all pooled estimates as a table."""
    return framed(metrics_table(evaluation, evaluation.metrics))


MOST_CLASSES = 12


READABLE = 100  # columns; a wider table gets a line per model


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
    whole = evaluation.protocol.whole
    cells = cells_of(rows, (), [metric in whole for metric in evaluation.metrics])
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
        cells.append([_terminal_cell(each, width, say_why=say_why, count=count) for each in row])
    return cells


def single_cells(estimates: Sequence[Estimate]) -> list[str]:
    """Return the cells of one column of estimates."""
    rows = [[estimate] for estimate in estimates]
    return [cell for (cell,) in cells_of(rows, ())]


def _terminal_cell(estimate: Estimate, width: int, *, say_why: bool, count: bool = False) -> str:
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


MOST_METRICS = 3
MOST_TERMINAL_GROUPS = 40


def print_groups(
    evaluation: Evaluation, above: Sequence[Estimate], console: Console
) -> list[Estimate]:
    """Print a table for every grouping and each of its first headline metrics; return the printed
    estimates.
    """
    estimates: list[Estimate] = []
    for grouping in evaluation.groupings:
        metrics = {row.metric for row in grouping.rows}
        candidates = evaluation.protocol.headline or evaluation.metrics
        headline = [metric for metric in candidates if metric in metrics]
        for metric in headline[:MOST_METRICS]:
            estimates += _print(evaluation, grouping, (metric, None), above, console)
        labels: dict[str, None] = {}  # an ordered set
        for row in grouping.rows:
            if row.label and row.metric == headline[0]:
                labels[row.label] = None
        for label in labels:
            estimates += _print(evaluation, grouping, (headline[0], label), above, console)
        if len(headline) > MOST_METRICS:
            console.print(
                f"{', '.join(headline[MOST_METRICS:])} {grouping.title}: see --json, or -o.\n",
                markup=False,
            )
    return estimates


def _print(
    evaluation: Evaluation,
    grouping: GroupedRows,
    what: tuple[str, str | None],
    above: Sequence[Estimate],
    console: Console,
) -> list[Estimate]:
    """Print one metric and class: a line per group, a column per model, then the summaries."""
    metric, label = what
    table = grouping.table(metric, label, evaluation.models)
    rows = list(table.values())
    lines = []
    for name, cells, row in zip(table, cells_of(rows, above), rows):
        lines.append(TableLine(name, cells, (row[0].n_units, row[0].n_images, row[0].n_references)))
    n_more = len(lines) - MOST_TERMINAL_GROUPS
    if n_more > 0:
        empty = [""] * len(evaluation.models)
        lines[MOST_TERMINAL_GROUPS:] = [TableLine(f"... and {n_more} more", empty, ())]
    summaries = [grouping.summary(metric, label, model) for model in evaluation.models]
    of = "" if label is None else f" of {label}"
    title = f"{metric}{of} {grouping.title}"
    names = (plural(rows[0][0].unit), "images", "references")
    below = _summaries(summaries)
    console.print(grid(console, title, evaluation.models, lines, names, below=below))
    return list(chain.from_iterable(rows[:MOST_TERMINAL_GROUPS]))


def _summaries(summaries: list[GroupSummary]) -> list[TableLine]:
    """Return mean and standard deviation, and the range, over the groups that have a value."""
    means, ranges = [], []
    for summary in summaries:
        mean = short_number(summary.mean)
        if short_number(summary.sd):
            mean += f", SD {short_number(summary.sd)}"
        if summary.n_defined < summary.n_groups:
            mean += f" ({summary.n_defined} of {summary.n_groups})"
        means.append(mean)
        span = ""
        if summary.n_defined:
            span = f"{short_number(summary.lowest)} to {short_number(summary.highest)}"
        ranges.append(span)
    first = f"mean of {summaries[0].n_groups} groups"
    return [TableLine(first, means, ()), TableLine("range", ranges, ())]
