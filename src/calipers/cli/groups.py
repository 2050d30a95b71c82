# SPDX-License-Identifier: Apache-2.0
"""Estimates per group as tables in the terminal, with mean, standard deviation and range over the
groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from calipers.cli.tables import Line, cells_of, grid
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
    """Print a table for every grouping and each of its first headline metrics; return what was
    shown.
    """
    estimates: list[Estimate] = []
    for grouping in evaluation.groupings:
        there = dict.fromkeys(row.metric for row in grouping.rows)
        headline = [
            metric
            for metric in evaluation.protocol.headline or evaluation.metrics
            if metric in there
        ]
        for metric in headline[:MOST_METRICS]:
            estimates += _print(evaluation, grouping, (metric, None), above, console)
        for label in dict.fromkeys(
            row.label for row in grouping.rows if row.label and row.metric == headline[0]
        ):
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
    """Print one metric and class: a line per group, a column per model, then what the groups come
    to.
    """
    metric, label = what
    table = grouping.table(metric, label, evaluation.models)
    rows = list(table.values())
    groups = [
        Line(name, cells, (row[0].n_units, row[0].n_images, row[0].n_references))
        for name, cells, row in zip(table, cells_of(rows, above), rows)
    ]
    n_more = len(groups) - MOST_GROUPS
    groups = groups[:MOST_GROUPS] + (
        [Line(f"... and {n_more} more", [""] * len(rows[0]), ())] if n_more > 0 else []
    )
    over = [grouping.summary(metric, label, model) for model in evaluation.models]
    title = " ".join([metric, *([] if label is None else ["of", label]), grouping.title])
    names = (plural(rows[0][0].unit), "images", "references")
    console.print(grid(console, title, evaluation.models, groups, names, below=_summaries(over)))
    return [estimate for row in rows[:MOST_GROUPS] for estimate in row]


def _summaries(over: list[GroupSummary]) -> list[Line]:
    """Return mean and standard deviation, and the range; groups without a value are counted."""

    def mean(summary: GroupSummary) -> str:
        spread = f", SD {short_number(summary.sd)}" if short_number(summary.sd) else ""
        some = (
            f" ({summary.n_defined} of {summary.n_groups})"
            if summary.n_defined < summary.n_groups
            else ""
        )
        return short_number(summary.mean) + spread + some

    def between(summary: GroupSummary) -> str:
        return (
            f"{short_number(summary.lowest)} to {short_number(summary.highest)}"
            if summary.n_defined
            else ""
        )

    first = f"mean of {over[0].n_groups} groups"
    return [Line(first, list(map(mean, over)), ()), Line("range", list(map(between, over)), ())]
