# SPDX-License-Identifier: Apache-2.0
"""Can the monitor of the model be trusted? Only on pages with an evaluation of monitors."""

from __future__ import annotations

from calipers.report.context import Context
from calipers.report.markup import details, figure_block, items, paragraph
from calipers.report.monitors import (
    beside_answer,
    labels_part,
    order_part,
    outcomes_part,
    summary_line,
    tau_part,
    verdict,
)
from calipers.report.monitors_methods import methods_part
from calipers.report.monitors_tables import headline_table, pairs_table


def section(page: Context) -> str:
    """Return the answer, the figures, the numbers and the methods; nothing if no monitor was
    evaluated.
    """
    monitors = page.monitor
    if monitors is None:
        return ""
    first, further = verdict(monitors)
    blocks = ""
    for name in beside_answer(monitors):
        blocks += figure_block(monitors.figure(name), f"fig-monitor-{name}")
    title = "The monitor" if len(monitors.monitors) == 1 else "The monitors"
    parts = [
        paragraph(summary_line(monitors), "note"),
        f"<h3>{title}</h3>",
        items([first, *further]),
        f'<div class="pair">{blocks}</div>' if blocks else "",
        order_part(monitors),
        outcomes_part(monitors),
        labels_part(monitors),
        tau_part(monitors),
        details("Numbers on monitors", headline_table(monitors) + pairs_table(monitors)),
    ]
    if not page.hidden:
        from calipers.report.monitors_images import images_part

        parts.append(details("Images on which monitors err most", images_part(monitors)))
    parts += [items(monitors.warnings), methods_part(monitors)]
    return "\n".join(part for part in parts if part)
