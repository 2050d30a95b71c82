# SPDX-License-Identifier: Apache-2.0
"""Object by object: references found by k of m models, shared false alarms, and disputed images."""

from __future__ import annotations

import math

from calipers.plots.figures import Cell, Table
from calipers.report.answer import in_pairs
from calipers.report.markup import cut, data_table, figure_block, items, paragraph
from calipers.stability.objects_result import ObjectStability

DISPUTED = 20
LONGEST = 2000  # characters of a sentence
WHY = (
    "If models that were trained alike find different objects, they are unsure of them, whatever "
    "their scores say. A reference is disputed if some but not all models find it."
)


def objects_block(result: ObjectStability) -> str:
    """Return sentences, figures and the most disputed images."""
    sentences = [cut(sentence, LONGEST) for sentence in (*result.sentences(), *result.warnings)]
    blocks = [figure_block(result.figure(name), f"fig-objects-{name}") for name in _figures(result)]
    return "\n".join([items(sentences), in_pairs(blocks), paragraph(WHY), _disputed(result)])


def _figures(result: ObjectStability) -> list[str]:
    names = ["found-by", "false-alarms", "agreement", "pairs"]
    if any("size" in (row.group or {}) for row in result.rows):
        names.append("sizes")
    return names


def _disputed(result: ObjectStability) -> str:
    images = result.disputed(DISPUTED)
    if not images:
        return paragraph("No reference is disputed.")
    rows: list[tuple[Cell, ...]] = []
    for one in images:
        agreement = None if math.isnan(one.agreement) else one.agreement
        counts = "; ".join(
            f"{ref.label}: {len(ref.found_by)} of {len(result.models)}" for ref in one.references
        )
        rows.append((one.image, len(one.references), one.n_references, agreement, counts))
    columns = ("image", "disputed", "references", "agreement of the models", "found by")
    return data_table(Table(columns, tuple(rows)), "table-disputed", "The most disputed images")
