# SPDX-License-Identifier: Apache-2.0
"""What was evaluated, and what must be known before the numbers are trusted."""

from __future__ import annotations

from pathlib import Path

from calipers.plots.figures import Cell, Table
from calipers.report import markup
from calipers.report.context import Context

MOST_COLUMNS = 4  # models
MOST_CLASSES = 150


def section(page: Context) -> str:
    """Return warnings, classes and the account of every input."""
    ev = page.evaluation
    warnings = markup.items(ev.warnings)
    cautions = (
        f'<div class="care"><h3>Before you trust these numbers</h3>{warnings}</div>'
        if ev.warnings
        else ""
    )
    caption = "References and predictions of every class"
    if len(ev.cohort.classes) > MOST_CLASSES:
        caption = f"References and predictions of the {MOST_CLASSES} classes with most references, and of all"
    if len(ev.models) > MOST_COLUMNS:
        caption += f", of the first {MOST_COLUMNS} of {len(ev.models)} models"
    parts = [
        cautions,
        markup.data_table(_classes(page), "table-classes", caption, 1 + MOST_CLASSES, over=1),
    ]
    files = ev.cohort.intake.files
    if files:
        parts.append(
            markup.data_table(
                _files(page), "table-files", "Every input: records read = used + set aside"
            )
        )
    return "\n".join(part for part in parts if part)


def _classes(page: Context) -> Table:
    cohort = page.evaluation.cohort
    table = cohort.references
    n_references = [
        int((table.label[~table.ignore] == c).sum()) for c in range(len(cohort.classes))
    ]
    n_ignored = int(table.ignore.sum())
    table_models = dict(list(cohort.models.items())[:MOST_COLUMNS])
    of_models = [
        [int((p.label == c).sum()) for c in range(len(cohort.classes))]
        for p in table_models.values()
    ]
    columns = [n_references, *of_models]
    order = sorted(range(len(cohort.classes)), key=lambda k: -n_references[k])[
        :MOST_CLASSES
    ]  # if there are too many
    rows: list[tuple[Cell, ...]] = [
        (cohort.classes[k], *(c[k] for c in columns)) for k in sorted(order)
    ]
    rows.append(("all classes", *(sum(c) for c in columns)))
    extra = f", without {n_ignored} ignored" if n_ignored else ""
    names = (
        "class",
        f"references{extra}",
        *(f"predictions of {markup.cut(m, 40)}" for m in table_models),
    )
    return Table(names, tuple(rows))


def _files(page: Context) -> Table:
    rows = []
    for file in page.evaluation.cohort.intake.files:
        aside = sum(file.quarantined.values())
        rows.append(
            (
                Path(file.file).name,
                file.role,
                file.format,
                file.read,
                file.used,
                aside,
                file.sha256[:16],
            )
        )
    return Table(
        ("file", "role", "format", "read", "used", "set aside", "sha256 (first 16)"), tuple(rows)
    )
