# SPDX-License-Identifier: Apache-2.0
"""Are the differences between models more than chance, and how stable is their ranking?"""

from __future__ import annotations

import math

from calipers.plots import forests
from calipers.plots.figures import Table
from calipers.report.context import Context
from calipers.report.markup import data_table, figure_block, items, paragraph
from calipers.report.words import plural as counted
from calipers.results.comparison import Comparison
from calipers.results.estimate import number

MOST_SENTENCES = 8
MOST_ROWS = 18


def section(page: Context) -> str:
    """Return differences with intervals and tests, and the ranking; nothing for one model."""
    comparison = page.comparison
    if comparison is None or all(math.isnan(row.estimate.value) for row in comparison.rows):
        return ""
    figures = figure_block(forests.differences(comparison, most=MOST_ROWS), "fig-differences")
    if page.ranking is not None:
        blob = forests.blob(page.ranking, page.evaluation.models)
        if blob is not None:
            figures += figure_block(blob, "fig-ranking")
    n_more = len(comparison.rows) - MOST_SENTENCES
    more = f"{counted('more difference', n_more)} in the table." if n_more > 0 else ""
    parts = [
        paragraph(
            f"Paired differences on the same images, resampled by {comparison.unit} "
            f"(n = {comparison.n_units}); p values corrected together "
            f"({comparison.correction}, {counted('test', comparison.family)})."
        ),
        f'<div class="pair">{figures}</div>',
        items([row.sentence for row in comparison.rows[:MOST_SENTENCES]]),
        paragraph(more, "note"),
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
        values = (d.value_a, d.value_b, e.value, e.low, e.high, d.p, d.p_adjusted)
        numbers = [number(value) for value in values]
        rows.append((d.metric, d.model_a, d.model_b, *numbers, d.test, d.verdict.replace("_", " ")))
    return Table(columns, tuple(rows))
