# SPDX-License-Identifier: Apache-2.0
"""FROC and precision-recall curves, with bands."""

from __future__ import annotations

from calipers.plots.catalogue import figure
from calipers.report.context import Context
from calipers.report.markup import figure_block, paragraph
from calipers.report.order import leading

MOST_LINES = 5


def section(page: Context) -> str:
    """Return the curves of the leading models; nothing without scores or references."""
    ev = page.evaluation
    if page.at_one is None or not len(ev.cohort.references):
        return ""
    models = leading(ev, MOST_LINES)
    n_omitted = len(ev.models) - len(models)
    note = (
        f"The {len(models)} leading models; {n_omitted} more are in the tables."
        if n_omitted
        else ""
    )
    blocks = [
        figure_block(figure(ev, name, models=models), f"fig-{name}") for name in ("froc", "pr")
    ]
    return paragraph(note, "note") + f'<div class="pair">{"".join(blocks)}</div>'
