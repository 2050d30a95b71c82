# SPDX-License-Identifier: Apache-2.0
"""Estimates per group as tables in the terminal, with mean, standard deviation and range."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from rich.console import Console

from calipers.cli.tables import TableLine, cells_of, grid
from calipers.evaluation import Evaluation
from calipers.results import Estimate
from calipers.results.digits import short_number
from calipers.results.groups import GroupedRows, GroupSummary
from calipers.statistics.weights import plural

MOST_METRICS = 3
MOST_GROUPS = 40


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
    n_more = len(lines) - MOST_GROUPS
    if n_more > 0:
        empty = [""] * len(evaluation.models)
        lines[MOST_GROUPS:] = [TableLine(f"... and {n_more} more", empty, ())]
    summaries = [grouping.summary(metric, label, model) for model in evaluation.models]
    of = "" if label is None else f" of {label}"
    title = f"{metric}{of} {grouping.title}"
    names = (plural(rows[0][0].unit), "images", "references")
    below = _summaries(summaries)
    console.print(grid(console, title, evaluation.models, lines, names, below=below))
    return list(chain.from_iterable(rows[:MOST_GROUPS]))


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
