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
    """Return average precision beside RoDeO's parts, so that one sees why a model scores as it
    does.
    """
    ev = page.evaluation
    if not any(plan.kind == "rodeo" for plan in ev.protocol.metrics) or not len(
        ev.cohort.references
    ):
        return ""
    words = (
        "Average precision says how well predictions are ranked. RoDeO says what is wrong with them: their place "
        "(loc), their shape, or their class (cls); missed and surplus boxes lower all three."
    )
    return paragraph(words) + figure_block(
        figure(ev, "rodeo", models=leading(ev, MOST_LINES)), "fig-rodeo"
    )


def classes(page: Context) -> str:
    """Return the headline metrics per class; nothing for a single class."""
    ev = page.evaluation
    if len(ev.cohort.classes) < 2:
        return ""
    names = [
        name
        for name in headline_of(ev)
        if name in ev.metrics_per_class and _has_class_values(ev, name)
    ]
    few_rows = len(ev.models) <= MOST_FIGURES and len(ev.cohort.classes) <= 20
    figure_metrics = _one_of_a_kind(ev, names)[: MOST_FIGURES if few_rows else 1]
    blocks = [
        figure_block(figure(ev, "classes", metric=name), f"fig-classes-{k}")
        for k, name in enumerate(figure_metrics)
    ]
    if not blocks:
        return ""
    figures = f'<div class="pair">{"".join(blocks)}</div>'
    if len(ev.cohort.classes) * len(ev.models) <= MOST_TABLED:
        tables = "".join(classes_table(ev, name) for name in figure_metrics)
        return figures + details("As tables", f'<div class="pairs">{tables}</div>')
    return figures + paragraph(
        "All classes, metrics and models are in the table of all numbers below.", "note"
    )


def groups(page: Context) -> str:
    """Return the headline metrics per group, grouping by grouping."""
    return "\n".join(
        _grouping(page.evaluation, grouping, g)
        for g, grouping in enumerate(page.evaluation.groupings)
    )


def _grouping(ev: Evaluation, grouping: GroupedRows, number: int) -> str:
    """Return figures and tables of one ``by``; of many groups fewer of them, the table of all
    numbers has the rest.
    """
    places = {(row.metric, row.label): None for row in grouping.rows}  # a set that keeps its order
    names = [name for name in headline_of(ev) if (name, None) in places]
    if not names:
        return ""
    n_groups = len(grouping.table(names[0], None, ev.models))
    figure_metrics = _one_of_a_kind(ev, names)[: MOST_FIGURES if n_groups <= FEW_GROUPS else 1]
    blocks = [
        figure_block(figure(ev, "groups", by=grouping.by, metric=name), f"fig-groups-{number}-{k}")
        for k, name in enumerate(figure_metrics)
    ]
    inside = [label for metric, label in places if label is not None and metric == names[0]]
    tabled = [*((name, None) for name in names), *((names[0], label) for label in inside)]
    n_tables = max(1, MOST_TABLED // (n_groups * len(ev.models)))
    tables = "".join(groups_table(ev, grouping, *place) for place in tabled[:n_tables])
    n_omitted = len(tabled) - n_tables
    parts = [
        f"<h3>{text(grouping.title[:1].upper() + grouping.title[1:])}</h3>",
        f'<div class="pair">{"".join(blocks)}</div>',
        details(
            "As tables, with mean and range of the groups", f'<div class="stack">{tables}</div>'
        ),
        paragraph(f"{n_omitted} more tables of groups are in the table of all numbers.", "note")
        if n_omitted > 0
        else "",
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
