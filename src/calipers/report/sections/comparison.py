# SPDX-License-Identifier: Apache-2.0
"""Are the differences between models more than chance, and would the order stand with other patients?"""

from __future__ import annotations

import math
from dataclasses import replace

from calipers.errors import UsageError
from calipers.plots import forests
from calipers.plots.figures import Table
from calipers.report.context import Context
from calipers.report.markup import data_table, figure_block, items, paragraph
from calipers.results.comparison import Comparison
from calipers.results.ranking import Ranking

MOST_SENTENCES = 8
MOST_ROWS = 18


def section(page: Context) -> str:
    """Return differences with intervals and tests, and how firmly the order stands; nothing for one model."""
    found = page.comparison
    if found is None or all(math.isnan(row.estimate.value) for row in found.rows):
        return ""
    figure = forests.differences(replace(found, rows=found.rows[:MOST_ROWS]))
    sentences = items([row.sentence for row in found.rows[:MOST_SENTENCES]])
    more = len(found.rows) - MOST_SENTENCES
    parts = [
        paragraph(
            f"Paired differences on the same images, over {found.n_units} {found.unit}s; tests corrected together "
            f"({found.correction}, {found.family} tests)."
        ),
        f'<div class="pair">{figure_block(figure, "fig-differences")}{_ranks(page)}</div>',
        sentences,
        paragraph(f"{more} more differences are in the table.", "note") if more > 0 else "",
        data_table(_table(found), "table-differences", "All differences"),
    ]
    return "\n".join(part for part in parts if part)


def _ranks(page: Context) -> str:
    if len(page.evaluation.models) < 3:
        return ""
    try:
        ranking: Ranking = page.evaluation.rank()
    except UsageError:  # a model without a value has no rank
        return ""
    return figure_block(forests.blob(ranking), "fig-ranking") if ranking.reason is None else ""


def _table(found: Comparison) -> Table:
    columns = ("metric", "model a", "model b", "a", "b", "a - b", "low", "high", "p", "p corrected", "test", "verdict")
    rows = []
    for d in found.rows:
        e = d.estimate
        numbers = (d.value_a, d.value_b, e.value, e.low, e.high, d.p, d.p_adjusted)
        known = [value if math.isfinite(value) else None for value in numbers]
        rows.append((d.metric, d.model_a, d.model_b, *known, d.test, d.verdict.replace("_", " ")))
    return Table(columns, tuple(rows))
