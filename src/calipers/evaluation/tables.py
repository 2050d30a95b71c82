# SPDX-License-Identifier: Apache-2.0
"""Tables of an evaluation: pooled metrics, one metric per class, one metric per group.

An `Evaluation` comes in, `show.table.Table` goes out. `Evaluation.tables`, the command line
(`print_evaluation`), the page and the notebook show the same tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from calipers.evaluation.protocol import Protocol
from calipers.evaluation.result import Evaluation
from calipers.results.comparison import ColumnAverage, ColumnSummary, GroupedRows, GroupSummary
from calipers.results.estimate import Estimate
from calipers.show.table import Amount, Cell, Kind, Table, TableRow
from calipers.show.words import (
    NO_NAME,
    best_of,
    count_text,
    number_text,
    plural,
    same_for_all,
    speaks_for,
)

# What a terminal has room for; the files have everything.
MOST_CLASSES = 12
MOST_METRICS = 3  # per grouping
MOST_GROUPS = 40


def tables(evaluation: Evaluation) -> list[Table]:
    """Return all metrics, then the headline metrics per class and per group."""
    results = [metrics_table(evaluation)]
    headline = evaluation.headline
    if len(evaluation.cohort.classes) > 1:
        for metric in headline:
            if metric in evaluation.metrics_per_class:
                results.append(classes_table(evaluation, metric))
    for grouping in evaluation.groupings:
        for metric, label in _grouped_metrics(grouping, headline):
            results.append(groups_table(evaluation, grouping, metric, label))
    return results


def print_evaluation(evaluation: Evaluation) -> None:
    """Print all metrics, for few classes the first headline metric per class, and the groups."""
    # Only the command line prints, and only it needs the terminal.
    from calipers.show.terminal import print_tables

    print_tables(_tables_for_terminal(evaluation))


def _tables_for_terminal(evaluation: Evaluation) -> list[Table]:
    results = [metrics_table(evaluation)]
    per_class = evaluation.metrics_per_class
    headline = [metric for metric in evaluation.protocol.headline if metric in per_class]
    if headline and 1 < len(evaluation.cohort.classes) <= MOST_CLASSES:
        results.append(classes_table(evaluation, headline[0]))
    for grouping in evaluation.groupings:
        candidates = evaluation.protocol.headline or evaluation.metrics
        grouped = _grouped_metrics(grouping, candidates)
        pooled = [pair for pair in grouped if pair[1] is None]
        of_classes = [pair for pair in grouped if pair[1] is not None]
        for metric, label in (*pooled[:MOST_METRICS], *of_classes):
            table = groups_table(evaluation, grouping, metric, label)
            results.append(table.first(MOST_GROUPS, all_in="--json"))
        others = [metric for metric, _ in pooled[MOST_METRICS:]]
        if others:
            note = f"{', '.join(others)} {grouping.title}: see --json, or -o."
            results[-1] = results[-1].with_notes(note)
    return _with_one_note_on_intervals(evaluation, results)


def _with_one_note_on_intervals(evaluation: Evaluation, tables: Sequence[Table]) -> list[Table]:
    """Return the tables with one note on intervals for all: their notes stand together below the
    last of them, and "No intervals" of one would be read as that of all.
    """
    estimates = [estimate for table in tables for estimate in table.estimates()]
    spread = speaks_for(evaluation.statistics, estimates)
    results = []
    for table in tables:
        own = speaks_for(evaluation.statistics, table.estimates())
        if own in ("", spread):
            results.append(table)
            continue
        notes = tuple(note for note in table.notes if note != own)
        results.append(replace(table, notes=notes, say_why=True))
    return results


def _grouped_metrics(
    grouping: GroupedRows, candidates: Sequence[str]
) -> list[tuple[str, str | None]]:
    """Return metric and class of the tables of a grouping: pooled, then the first per class."""
    metrics = {row.metric for row in grouping.rows}
    headline = [metric for metric in candidates if metric in metrics]
    pairs: list[tuple[str, str | None]] = [(metric, None) for metric in headline]
    for row in grouping.rows:
        if row.label and row.metric == headline[0] and (row.metric, row.label) not in pairs:
            pairs.append((row.metric, row.label))
    return pairs


def metrics_table(evaluation: Evaluation, metrics: Sequence[str] | None = None) -> Table:
    """Return the pooled estimates: a row per metric (all metrics by default), a column per model.

    The numbers of images and references are in a note, or in columns if they vary.
    """
    metrics = evaluation.metrics if metrics is None else metrics
    lower = evaluation.protocol.lower_is_better
    estimates = [_estimates(evaluation, metric) for metric in metrics]
    behind = {
        "images": [row[0].n_images for row in estimates],
        "references": [row[0].n_references for row in estimates],
    }
    # Numbers that are the same in every row are said once, below the table.
    varying = {name: numbers for name, numbers in behind.items() if len(set(numbers)) > 1}
    best: set[tuple[int, int]] = set()
    rows: list[TableRow] = []
    for k, (metric, row) in enumerate(zip(metrics, estimates)):
        numbers = [column[k] for column in varying.values()]
        rows.append((metric, *row, *numbers))
        best |= _best(k, row, lower=metric in lower)
    whole: dict[int, Kind] = {}
    for k, metric in enumerate(metrics):
        if metric in evaluation.protocol.whole:
            whole[k] = "whole"
    return Table(
        ("metric", *evaluation.models, *varying),
        tuple(rows),
        title=_pooled_title(evaluation),
        notes=_notes(evaluation, metrics, _n_note(estimates), list(chain(*estimates))),
        kinds=_kinds(len(evaluation.models), len(varying)),
        row_kinds=whole,
        best=frozenset(best),
        series="model",
    )


def models_table(evaluation: Evaluation, metrics: Sequence[str]) -> Table:
    """Return the pooled estimates of many models: a row per model, best first, a column per
    metric.
    """
    lower = evaluation.protocol.lower_is_better
    columns = [_estimates(evaluation, metric) for metric in metrics]
    order = evaluation.models_by_value
    # Estimates come in the order of the evaluation, rows in that of the values.
    places = {model: k for k, model in enumerate(order)}
    best = set()
    for c, (metric, column) in enumerate(zip(metrics, columns)):
        stars = best_of(column, lower=metric in lower)
        for model, is_best in zip(evaluation.models, stars):
            if is_best:
                best.add((places[model], c + 1))
    rows: list[TableRow] = []
    for model in order:
        k = evaluation.models.index(model)
        rows.append((model, *(column[k] for column in columns)))
    return Table(
        ("model, best first", *metrics),
        tuple(rows),
        title=_pooled_title(evaluation),
        notes=_notes(evaluation, metrics, _n_note(columns), list(chain(*columns))),
        kinds=_kinds(len(metrics), 0),
        best=frozenset(best),
        series="metric",
    )


def classes_table(evaluation: Evaluation, metric: str) -> Table:
    """Return one metric: a row per class, a column per model."""
    lower = metric in evaluation.protocol.lower_is_better
    best: set[tuple[int, int]] = set()
    rows: list[TableRow] = []
    every = _estimates(evaluation, metric)
    for k, label in enumerate(evaluation.cohort.classes):
        row = _estimates(evaluation, metric, label)
        rows.append((label, *row, row[0].n_references))
        best |= _best(k, row, lower=lower)
        every += row
    return Table(
        ("class", *evaluation.models, "references"),
        tuple(rows),
        title=f"{metric} per class{_remark(evaluation, metric)}",
        notes=tuple(filter(None, [speaks_for(evaluation.statistics, every)])),
        kinds=_kinds(len(evaluation.models), 1),
        best=frozenset(best),
        series="model",
        say_why=not same_for_all(every),
    )


def groups_table(
    evaluation: Evaluation, grouping: GroupedRows, metric: str, label: str | None = None
) -> Table:
    """Return one metric: a row per group, a column per model, then mean, standard deviation and
    range.
    """
    lower = metric in evaluation.protocol.lower_is_better
    best: set[tuple[int, int]] = set()
    rows: list[TableRow] = []
    every: list[Estimate] = []
    for k, (name, row) in enumerate(grouping.table(metric, label, evaluation.models).items()):
        numbers = _behind(row[0])
        rows.append((name or NO_NAME, *row, *numbers.values()))
        best |= _best(k, row, lower=lower)
        every += row
    summaries = [grouping.summary(metric, label, model) for model in evaluation.models]
    of = "" if label is None else f" of {label}"
    return Table(
        ("group", *evaluation.models, *numbers),
        tuple(rows),
        title=f"{metric}{of} {grouping.title}{_remark(evaluation, metric)}",
        notes=tuple(filter(None, [speaks_for(evaluation.statistics, every)])),
        summary=_summary_rows(summaries, len(numbers)),
        kinds=_kinds(len(evaluation.models), len(numbers)),
        best=frozenset(best),
        series="model",
        say_why=True,
    )


def summary_tables(summary: ColumnSummary, metrics: Sequence[str] | None = None) -> list[Table]:
    """Return a row per group, then mean (SD) and range over the groups.

    With further columns in the grouping, such as sizes, there is a table per model and metric with
    a column per value of these; else one per model with a column per metric.
    """
    parts: dict[tuple[str, str], list[ColumnAverage]] = {}
    for average in summary.averages:
        if metrics is None or average.metric in metrics:
            metric = average.metric if average.group else ""
            parts.setdefault((average.model, metric), []).append(average)
    results = []
    for number, ((model, metric), averages) in enumerate(parts.items()):
        of = f"{metric} of {model}" if metric else model
        table = _summary_table(summary, averages)
        name = f"table-summary-{number}"
        results.append(replace(table, title=f"{of} per {summary.over}", name=name))
    return results


def _summary_table(summary: ColumnSummary, averages: Sequence[ColumnAverage]) -> Table:
    columns = [", ".join(average.group.values()) or average.metric for average in averages]
    rows: list[TableRow] = []
    for k, group in enumerate(summary.groups):
        values = [average.values[k] for average in averages]
        rows.append((group.name, *values, group.n_images, group.prevalence))
    means: list[Cell] = [f"mean of {count_text('group', len(summary.groups))} (SD)"]
    ranges: list[Cell] = ["range"]
    for average in averages:
        means.append(_mean_cell(average))
        ranges.append(Amount(math.nan, low=average.lowest, high=average.highest))
    values_kinds: list[Kind] = ["value"] * len(averages)
    return Table(
        (summary.over, *columns, "images", "prevalence"),
        tuple(rows),
        notes=(
            "Mean and standard deviation (n - 1) over the groups that have a value, each with the "
            "same weight. Prevalence: the share of images with a reference.",
        ),
        summary=(
            (*means, summary.n_images, summary.prevalence),
            (*ranges, None, None),
        ),
        kinds=("name", *values_kinds, "count", "share"),
    )


def _mean_cell(average: ColumnAverage) -> Amount:
    beside = [] if math.isnan(average.sd) else [number_text(average.sd)]
    if average.n_defined < len(average.values):
        beside.append(f"{average.n_defined} of {len(average.values)} groups")
    return Amount(average.mean, ", ".join(beside))


def intervals_table(evaluation: Evaluation) -> Table:
    """Return details of the headline intervals: method, percentile interval, bias, Monte-Carlo
    error.
    """
    rows: list[TableRow] = []
    for metric in evaluation.headline:
        for model in evaluation.models:
            e = evaluation.get(metric, model=model)
            method = "" if e.method == "none" else e.method
            # An interval without a value: the value stands beside it already.
            percentile = Amount(math.nan, low=e.percentile[0], high=e.percentile[1])
            rows.append((metric, model, e, method, percentile, e.bias, *e.mc_error, e.undefined))
    return Table(
        (
            "metric",
            "model",
            "value",
            "made by",
            "percentile",
            "bias",
            "error of low",
            "error of high",
            "left out",
        ),
        tuple(rows),
        title="Details of the intervals",
        notes=(
            "The headline metrics for all classes together; evaluation.json has the others. "
            "Percentile: the percentile interval, which most papers use, for comparison. Bias: "
            "mean of the replicates minus the value. Error of low and high: Monte-Carlo standard "
            "error of the bounds, from the finite number of replicates. Left out: replicates "
            "without a value.",
        ),
        kinds=("name", "text", "value", "text", "value", "number", "number", "number", "count"),
    )


def _estimates(evaluation: Evaluation, metric: str, label: str | None = None) -> list[Estimate]:
    """Return one metric of every model."""
    return [evaluation.get(metric, model=model, label=label) for model in evaluation.models]


def _kinds(n_values: int, n_counts: int) -> tuple[Kind, ...]:
    values: list[Kind] = ["value"] * n_values
    counts: list[Kind] = ["count"] * n_counts
    return ("name", *values, *counts)


def _best(row: int, estimates: Sequence[Estimate], *, lower: bool) -> set[tuple[int, int]]:
    """Return the places of the best estimates of a row, whose name is in front of them."""
    stars = best_of(estimates, lower=lower)
    return {(row, c + 1) for c, is_best in enumerate(stars) if is_best}


def _remark(evaluation: Evaluation, metric: str) -> str:
    remark = evaluation.protocol.remark(metric)
    return f" ({remark})" if remark else ""


def _pooled_title(evaluation: Evaluation) -> str:
    return "All classes together" if len(evaluation.cohort.classes) > 1 else "All metrics"


def _n_note(estimates: Sequence[Sequence[Estimate]]) -> str:
    """Return the numbers that are the same behind all estimates, in words."""
    n_images = {row[0].n_images for row in estimates}
    n_references = {row[0].n_references for row in estimates}
    numbers = []
    if len(n_images) == 1:
        numbers.append(count_text("image", n_images.pop()))
    if len(n_references) == 1:
        numbers.append(count_text("reference", n_references.pop()))
    return f"n = {', '.join(numbers)}." if numbers else ""


def _notes(
    evaluation: Evaluation, metrics: Sequence[str], n_note: str, every: Sequence[Estimate]
) -> tuple[str, ...]:
    """Return what stands below pooled estimates: n, what is better, the intervals."""
    spread = speaks_for(evaluation.statistics, every)
    return tuple(filter(None, (n_note, *reading_notes(evaluation.protocol, metrics), spread)))


def reading_notes(protocol: Protocol, metrics: Sequence[str]) -> tuple[str, str]:
    """Return of which metrics less is better, and which have a unit."""
    exceptions = [metric for metric in metrics if metric in protocol.lower_is_better]
    direction = "Higher is better."
    if exceptions:
        direction = f"Higher is better, except for {', '.join(exceptions)}."
    units = protocol.units
    phrases = [f"{metric} is in {units[metric]}" for metric in metrics if metric in units]
    return direction, f"{'; '.join(phrases)}." if phrases else ""


def _behind(estimate: Estimate) -> dict[str, int]:
    """Return the counts of a group: units, images if they are not the units, references."""
    return {
        plural(estimate.unit): estimate.n_units,
        "images": estimate.n_images,
        "references": estimate.n_references,
    }


def _summary_rows(summaries: Sequence[GroupSummary], n_counts: int) -> tuple[TableRow, ...]:
    """Return mean and standard deviation, and the range, over the groups that have a value;
    nothing if no group has one.
    """
    if not any(summary.n_defined for summary in summaries):
        return ()
    means: list[Cell] = [f"mean of {count_text('group', summaries[0].n_groups)}"]
    ranges: list[Cell] = ["range"]
    for summary in summaries:
        beside = [] if math.isnan(summary.sd) else [f"SD {number_text(summary.sd)}"]
        if summary.n_defined == 0:
            means.append("no value")
            ranges.append("no value")
            continue
        if summary.n_defined < summary.n_groups:
            beside.append(f"{summary.n_defined} of {summary.n_groups} groups")
        means.append(Amount(summary.mean, ", ".join(beside)))
        # A range has two ends and no value in the middle.
        ranges.append(Amount(math.nan, low=summary.lowest, high=summary.highest))
    blank = [None] * n_counts
    return (*means, *blank), (*ranges, *blank)
