# SPDX-License-Identifier: Apache-2.0
"""Tables of the page. Every text from the data passes through `text`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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
    "The headline metrics, all classes together; evaluation.json has the others. Percentile: the interval that papers "
    "use, for comparison. Bias: mean of the replicates "
    "minus the value. Monte-Carlo error: standard error of the two bounds that comes from the number of replicates. "
    "Left out: replicates without a value."
)


def metrics_table(evaluation: Evaluation, metrics: Sequence[str]) -> str:
    """Return the pooled estimates, a row per metric; n is in the caption, or in a column of its own
    if it varies.
    """
    lower = lower_is_better(evaluation.protocol)
    rows = [
        [evaluation.get(metric, model=model) for model in evaluation.models] for metric in metrics
    ]
    behind = [estimates[0].n_references for estimates in rows]
    varies = len(set(behind)) > 1
    every = [e for row in rows for e in row]
    lines = []
    for metric, estimates, n in zip(metrics, rows, behind):
        cells = _cells(estimates, lower=metric in lower, say_why=not same_for_all(every))
        lines.append(_line(metric, cells, (n,) if varies else ()))
    number = counted("image", rows[0][0].n_images)
    number += " (and n references)" if varies else f", {counted('reference', behind[0])}"
    sentences = [
        f"All classes together, n = {number}.",
        *_legend(evaluation, [m for m in metrics if m in lower]),
    ]
    sentences.append(speaks_for(evaluation.statistics, every))
    head = _head("metric", evaluation.models, NUMBER if varies else {})
    return frame(
        " ".join(filter(None, sentences)),
        head,
        lines,
        kind=_table_class(evaluation),
        below=_below(every),
    )


def models_table(evaluation: Evaluation, metrics: Sequence[str]) -> str:
    """Return the pooled estimates of many models: a row per model, best first, a column per metric."""
    lower = lower_is_better(evaluation.protocol)
    columns = [
        [evaluation.get(metric, model=model) for model in evaluation.models] for metric in metrics
    ]
    every = [e for column in columns for e in column]
    say_why = not same_for_all(every)
    stars = [best_of(column, lower=metric in lower) for metric, column in zip(metrics, columns)]
    lines = {
        model: _line(
            model, "".join(_cell(c[k], s[k], say_why=say_why) for c, s in zip(columns, stars)), ()
        )
        for k, model in enumerate(evaluation.models)
    }
    behind = [
        counted("reference", n) for n in dict.fromkeys(column[0].n_references for column in columns)
    ]
    number = ", ".join(
        [counted("image", columns[0][0].n_images), *(behind if len(behind) == 1 else [])]
    )
    sentences = [
        f"All classes together, n = {number}.",
        *_legend(evaluation, [m for m in metrics if m in lower]),
    ]
    sentences.append(speaks_for(evaluation.statistics, every))
    head = _head("model, best first", metrics, {})
    sorted_lines = [lines[model] for model in by_value(evaluation)]
    return frame(
        " ".join(filter(None, sentences)),
        head,
        sorted_lines,
        kind="sheet models",
        below=_below(every),
    )


def classes_table(evaluation: Evaluation, metric: str) -> str:
    """Return one metric: a row per class, a column per model."""
    lower = metric in lower_is_better(evaluation.protocol)
    classes = evaluation.cohort.classes
    rows = [
        [evaluation.get(metric, model=model, label=label) for model in evaluation.models]
        for label in classes
    ]
    every = [e for row in rows for e in row]
    say_why = not same_for_all(
        [*every, *(evaluation.get(metric, model=model) for model in evaluation.models)]
    )
    lines = [
        _line(label, _cells(row, lower=lower, say_why=say_why), (row[0].n_references,))
        for label, row in zip(classes, rows)
    ]
    title = f"<strong>{text(metric)}</strong>{' (lower is better)' if lower else ''}"
    head = _head("class", evaluation.models, NUMBER)
    return frame("", head, lines, title=title, kind=_table_class(evaluation), below=_below(every))


def groups_table(
    evaluation: Evaluation, grouping: GroupedRows, metric: str, label: str | None
) -> str:
    """Return one metric: a row per group, a column per model, then mean, standard deviation and
    range.
    """
    lower = metric in lower_is_better(evaluation.protocol)
    table = list(grouping.table(metric, label, evaluation.models).items())
    lines = [
        _line(name, _cells(row, lower=lower, say_why=True), (_behind(row[0]),))
        for name, row in table[:MOST_GROUPS]
    ]
    over = [grouping.summary(metric, label, model) for model in evaluation.models]
    of = "" if label is None else f" of {label}"
    title = f"<strong>{text(metric + of)}</strong> {text(grouping.title)}{' (lower is better)' if lower else ''}"
    shortened_note = (
        f" (the first {MOST_GROUPS} of {len(table)} groups)" if len(table) > MOST_GROUPS else ""
    )
    unit_names = " / ".join(dict.fromkeys((plural(table[0][1][0].unit), "images", "references")))
    head = _head("group", evaluation.models, {"n": unit_names})
    below = [*_below([e for _, row in table[:MOST_GROUPS] for e in row]), f"n: {unit_names}"]
    lines += _summary_lines(over)
    return frame(
        shortened_note,
        head,
        lines,
        title=title,
        kind=f"{_table_class(evaluation)} groups".strip(),
        below=below,
    )


def beside_table(evaluation: Evaluation) -> str:
    """Return what stands beside the intervals: how each was made, the percentile interval, bias,
    Monte-Carlo error.
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
            errors = ", ".join(filter(None, map(_fine, e.mc_error)))
            cells = (between(e.low, e.high), method, between(*e.percentile))
            facts = "".join(f"<td>{text(fact)}</td>" for fact in cells) + _number(
                e.bias, _fine(e.bias)
            )
            facts += f"<td>{errors}</td><td class=num>{e.undefined}</td>"
            value = _number(e.value, short_number(e.value))
            lines.append(
                f"<tr><th scope=row>{text(metric)}</th><td>{text(short(model))}</td>{value}{facts}</tr>"
            )
    head = "".join(f"<th scope=col>{name}</th>" for name in names)
    return frame(BESIDE, f"<tr>{head}</tr>", lines, label="Beside the intervals")


def _number(value: float, content: str) -> str:
    return (
        "<td class=num></td>"
        if math.isnan(value)
        else f'<td data-v="{digits(value)}">{content}</td>'
    )


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
        f'<table class="{kind or "sheet"}"><caption>{title}{text(caption)}</caption><thead>{head}</thead>\n'
        f"<tbody>{body}</tbody></table>"
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
    """Return the mark of a table whose rows fit a narrow screen once their name stands above them."""
    return "sheet few" if len(evaluation.models) <= FEW else "sheet"


def _long(name: str) -> str:
    """Return the mark of a name that may be broken anywhere; the whole of it, if it is shortened."""
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
    ends = (
        ""
        if math.isnan(estimate.low)
        else f' data-low="{digits(estimate.low)}" data-high="{digits(estimate.high)}"'
    )
    return f'<td{kind} data-v="{digits(estimate.value)}"{ends}>{value}{small}</td>'


def _behind(estimate: Estimate) -> str:
    """Return the numbers behind the estimates of a group: units, images if they are not the units,
    references.
    """
    images = [] if estimate.unit == "image" else [estimate.n_images]
    return " / ".join(map(str, (estimate.n_units, *images, estimate.n_references)))


def _summary_lines(over: Sequence[GroupSummary]) -> list[str]:
    """Return mean and standard deviation, and the range, of the groups; groups without a value are
    counted.
    """

    def mean(summary: GroupSummary) -> str:
        some = (
            f"{summary.n_defined} of {summary.n_groups} groups"
            if summary.n_defined < summary.n_groups
            else ""
        )
        spread = "" if math.isnan(summary.sd) else f"SD {short_number(summary.sd)}"
        small = f"<small>{', '.join(filter(None, (spread, some)))}</small>"
        return f'<td data-v="{_data_value(summary.mean)}">{short_number(summary.mean)}{small}</td>'

    def span(summary: GroupSummary) -> str:
        ends = (
            f'data-low="{_data_value(summary.lowest)}" data-high="{_data_value(summary.highest)}"'
        )
        content = (
            f"{short_number(summary.lowest)} to {short_number(summary.highest)}"
            if summary.n_defined
            else ""
        )
        return f'<td data-v="" {ends}>{content}</td>'

    rows = ((f"mean of {counted('group', over[0].n_groups)}", mean), ("range", span))
    return [_line(name, "".join(map(say, over)), ("",), kind="over") for name, say in rows]


def _data_value(value: float) -> str:
    return "" if math.isnan(value) else digits(value)


def _below(estimates: Sequence[Estimate]) -> list[str]:
    return [*legend(estimates), *filter(None, [undefined(estimates)])]


def _legend(evaluation: Evaluation, lower: Sequence[str]) -> list[str]:
    sentences = [
        f"Higher is better, except for {', '.join(lower)}." if lower else "Higher is better."
    ]
    if len(evaluation.models) > 1:
        sentences.append("A star marks the best model of a metric.")
    return sentences
