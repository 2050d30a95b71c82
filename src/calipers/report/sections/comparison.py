# SPDX-License-Identifier: Apache-2.0
"""Are the differences between models more than chance, and would the order stand with other
patients?
"""

from __future__ import annotations

import math

from calipers.plots import forests
from calipers.plots.figures import Table
from calipers.report.context import Context
from calipers.report.markup import data_table, figure_block, items, paragraph
from calipers.report.words import plural as counted
from calipers.results.comparison import Comparison

MOST_SENTENCES = 8
MOST_ROWS = 18


def section(page: Context) -> str:
    """Return differences with intervals and tests, and how firmly the order stands; nothing for one
    model.
    """
    comparison = page.comparison
    if comparison is None or all(math.isnan(row.estimate.value) for row in comparison.rows):
        return ""
    figure = forests.differences(comparison, most=MOST_ROWS)
    sentences = items([row.sentence for row in comparison.rows[:MOST_SENTENCES]])
    n_more = len(comparison.rows) - MOST_SENTENCES
    order = None if page.ranking is None else forests.blob(page.ranking, page.evaluation.models)
    ranks = "" if order is None else figure_block(order, "fig-ranking")
    parts = [
        paragraph(
            f"Paired differences on the same images, over {counted(comparison.unit, comparison.n_units)}; tests corrected "
            f"together ({comparison.correction}, {counted('test', comparison.family)})."
        ),
        f'<div class="pair">{figure_block(figure, "fig-differences")}{ranks}</div>',
        sentences,
        paragraph(f"{counted('more difference', n_more)} in the table.", "note")
        if n_more > 0
        else "",
        data_table(_table(comparison), "table-differences", "All differences"),
    ]
    return "\n".join(part for part in parts if part)


def _table(comparison: Comparison) -> Table:
    columns = (
        "metric",
        "model a",
        "model b",
        "a",
        "b",
        "a - b",
        "low",
        "high",
        "p",
        "p corrected",
        "test",
        "verdict",
    )
    rows = []
    for d in comparison.rows:
        e = d.estimate
        numbers = (d.value_a, d.value_b, e.value, e.low, e.high, d.p, d.p_adjusted)
        finite_numbers = [value if math.isfinite(value) else None for value in numbers]
        rows.append(
            (d.metric, d.model_a, d.model_b, *finite_numbers, d.test, d.verdict.replace("_", " "))
        )
    return Table(columns, tuple(rows))
