# SPDX-License-Identifier: Apache-2.0
"""Estimates side by side: RoDeO's parts beside average precision, classes, groups."""

from __future__ import annotations

from collections.abc import Sequence

from calipers.evaluation import Evaluation
from calipers.plots.catalogue import figure
from calipers.plots.forests import headline_of
from calipers.report.context import Context
from calipers.report.grids import classes_table, groups_table
from calipers.report.markup import details, figure_block, paragraph, text
from calipers.report.order import leading
from calipers.results.groups import GroupedRows

MOST_FIGURES = 4
MOST_LINES = 5  # models
FEW_GROUPS = 12
MOST_TABLED = 300  # cells of a static table of classes; the table of all numbers has the others


def parts(page: Context) -> str:
    """Return average precision beside the parts of RoDeO, which explain the score of a model."""
    ev = page.evaluation
    has_rodeo = any(plan.kind == "rodeo" for plan in ev.protocol.metrics)
    if not has_rodeo or not len(ev.cohort.references):
        return ""
    words = (
        "Average precision measures how well predictions are ranked. RoDeO measures what is wrong "
        "with them: their place (loc), their shape, or their class (cls); missed and surplus boxes "
        "lower all three."
    )
    rodeo = figure(ev, "rodeo", models=leading(ev, MOST_LINES))
    return paragraph(words) + figure_block(rodeo, "fig-rodeo")


def classes(page: Context) -> str:
    """Return the headline metrics per class; nothing for a single class."""
    ev = page.evaluation
    if len(ev.cohort.classes) < 2:
        return ""
    names = []
    for name in headline_of(ev):
        if name in ev.metrics_per_class and _has_class_values(ev, name):
            names.append(name)
    few_rows = len(ev.models) <= MOST_FIGURES and len(ev.cohort.classes) <= 20
    figure_metrics = _one_of_a_kind(ev, names)[: MOST_FIGURES if few_rows else 1]
    blocks = ""
    for k, name in enumerate(figure_metrics):
        blocks += figure_block(figure(ev, "classes", metric=name), f"fig-classes-{k}")
    if not blocks:
        return ""
    figures = f'<div class="pair">{blocks}</div>'
    if len(ev.cohort.classes) * len(ev.models) <= MOST_TABLED:
        tables = "".join(classes_table(ev, name) for name in figure_metrics)
        return figures + details("As tables", f'<div class="pairs">{tables}</div>')
    return figures + paragraph(
        "The table of all numbers below has all classes, metrics and models.", "note"
    )


def groups(page: Context) -> str:
    """Return the headline metrics per group, grouping by grouping."""
    return "\n".join(
        _grouping(page.evaluation, grouping, g)
        for g, grouping in enumerate(page.evaluation.groupings)
    )


def _grouping(ev: Evaluation, grouping: GroupedRows, number: int) -> str:
    """Return figures and tables of one grouping; for many groups fewer of them, because the table
    of all numbers has the rest.
    """
    places = dict.fromkeys((row.metric, row.label) for row in grouping.rows)  # an ordered set
    names = [name for name in headline_of(ev) if (name, None) in places]
    if not names:
        return ""
    n_groups = len(grouping.table(names[0], None, ev.models))
    n_figures = MOST_FIGURES if n_groups <= FEW_GROUPS else 1
    blocks = ""
    for k, name in enumerate(_one_of_a_kind(ev, names)[:n_figures]):
        chart = figure(ev, "groups", by=grouping.by, metric=name)
        blocks += figure_block(chart, f"fig-groups-{number}-{k}")
    tabled: list[tuple[str, str | None]] = [(name, None) for name in names]
    for metric, label in places:
        if label is not None and metric == names[0]:
            tabled.append((metric, label))
    n_tables = max(1, MOST_TABLED // (n_groups * len(ev.models)))
    tables = "".join(groups_table(ev, grouping, *place) for place in tabled[:n_tables])
    n_omitted = len(tabled) - n_tables
    note = ""
    if n_omitted > 0:
        note = f"The table of all numbers has {n_omitted} more tables of groups."
    parts = [
        f"<h3>{text(grouping.title[:1].upper() + grouping.title[1:])}</h3>",
        f'<div class="pair">{blocks}</div>',
        details(
            "As tables, with mean and range of the groups", f'<div class="stack">{tables}</div>'
        ),
        paragraph(note, "note"),
    ]
    return "\n".join(parts)


def _one_of_a_kind(evaluation: Evaluation, names: Sequence[str]) -> list[str]:
    """Return the first metric of every kind: RoDeO without its parts."""
    kinds = {plan.name: plan.kind for plan in evaluation.protocol.metrics}
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(kinds[name], name)
    return list(first.values())


def _has_class_values(evaluation: Evaluation, metric: str) -> bool:
    """Return whether a metric has any value per class."""
    return any(
        row.metric == metric and row.label is not None and row.estimate.value == row.estimate.value
        for row in evaluation.rows
    )
