# SPDX-License-Identifier: Apache-2.0
"""Estimates as HTML tables of the page. Every text from the data passes through `text`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain

from calipers.evaluation import Evaluation
from calipers.findings import (
    legend,
    lower_is_better,
    marks_of,
    same_for_all,
    speaks_for,
    without_interval,
)
from calipers.plots.forests import headline_of
from calipers.report.markup import digits, scrolling, text
from calipers.report.order import by_value
from calipers.report.words import best_of, between, reason_word, short, undefined
from calipers.report.words import plural as counted
from calipers.results import Estimate
from calipers.results.digits import short_number
from calipers.results.groups import GroupedRows, GroupSummary
from calipers.statistics.weights import plural

FEW = 3  # models
LONG = 20  # characters of a name that need not stay in one piece
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
    lower = lower_is_better(evaluation.protocol)
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
    lower = lower_is_better(evaluation.protocol)
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
    sorted_lines = [lines[model] for model in by_value(evaluation)]
    return frame(caption, head, sorted_lines, kind="sheet models", below=_below(every))


def _estimates(evaluation: Evaluation, metric: str, label: str | None = None) -> list[Estimate]:
    """Return one metric of every model."""
    return [evaluation.get(metric, model=model, label=label) for model in evaluation.models]


def _caption(
    evaluation: Evaluation, metrics: Sequence[str], number: str, every: Sequence[Estimate]
) -> str:
    """Return what stands above a table of pooled estimates: n, the legend, the intervals."""
    lower = lower_is_better(evaluation.protocol)
    sentences = [
        f"All classes together, n = {number}.",
        *_legend(evaluation, [metric for metric in metrics if metric in lower]),
        speaks_for(evaluation.statistics, every),
    ]
    return " ".join(filter(None, sentences))


def classes_table(evaluation: Evaluation, metric: str) -> str:
    """Return one metric: a row per class, a column per model."""
    lower = metric in lower_is_better(evaluation.protocol)
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
    lower = metric in lower_is_better(evaluation.protocol)
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
    for metric in headline_of(evaluation):
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


def frame(
    caption: str,
    head: str,
    lines: Sequence[str],
    *,
    title: str = "",
    label: str = "",
    kind: str = "",
    below: Sequence[str] = (),
) -> str:
    """Return a table that scrolls within itself if it is too wide, with notes below it."""
    body = "\n".join(lines)
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in below)
    table = (
        f'<table class="{kind or "sheet"}"><caption>{title}{text(caption)}</caption>'
        f"<thead>{head}</thead>\n<tbody>{body}</tbody></table>"
    )
    return scrolling(table, label or caption) + notes


def _head(first: str, models: Sequence[str], numbers: Mapping[str, str]) -> str:
    columns = "".join(f"<th scope=col{_long(model)}>{text(short(model))}</th>" for model in models)
    behind = "".join(
        f'<th scope=col class=n><abbr title="{text(name)}">{text(letter)}</abbr></th>'
        for letter, name in numbers.items()
    )
    return f"<tr><th scope=col>{first}</th>{columns}{behind}</tr>"


def _table_class(evaluation: Evaluation) -> str:
    """Return the CSS class of a table; rows of a few models fit a narrow screen with their name
    above them.
    """
    return "sheet few" if len(evaluation.models) <= FEW else "sheet"


def _long(name: str) -> str:
    """Return the attributes of a long name: it may break anywhere, and its title has all of it."""
    title = f' title="{text(name)}"' if short(name) != name else ""
    return f" class=long{title}" if len(name) > LONG else ""


def _line(name: str, cells: str, numbers: Sequence[object], kind: str = "") -> str:
    behind = "".join(f"<td class=n>{n}</td>" for n in numbers)
    mark = f" class={kind}" if kind else ""
    return f"<tr{mark}><th scope=row{_long(name)}>{text(short(name))}</th>{cells}{behind}</tr>"


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
