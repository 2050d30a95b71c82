# SPDX-License-Identifier: Apache-2.0
"""What was evaluated, and what to know before trusting the numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calipers.plots.figures import Cell, Table
from calipers.report import markup
from calipers.report.context import Context

MOST_COLUMNS = 4  # models
MOST_CLASSES = 150


def section(page: Context) -> str:
    """Return warnings, classes and the account of every input."""
    ev = page.evaluation
    cautions = ""
    if ev.warnings:
        warnings = markup.items(ev.warnings)
        cautions = f'<div class="care"><h3>Before you trust these numbers</h3>{warnings}</div>'
    caption = "References and predictions of every class"
    if len(ev.cohort.classes) > MOST_CLASSES:
        caption = (
            f"References and predictions of the {MOST_CLASSES} classes with most references, and "
            "of all"
        )
    if len(ev.models) > MOST_COLUMNS:
        caption += f", of the first {MOST_COLUMNS} of {len(ev.models)} models"
    parts = [
        cautions,
        markup.data_table(_classes(page), "table-classes", caption, 1 + MOST_CLASSES, over=1),
    ]
    if ev.cohort.intake.files:
        files_caption = "Every input: records read = used + set aside"
        parts.append(markup.data_table(_files(page), "table-files", files_caption))
    return "\n".join(part for part in parts if part)


def _classes(page: Context) -> Table:
    cohort = page.evaluation.cohort
    references = cohort.references
    n_classes = len(cohort.classes)
    n_references = _count_labels(references.label[~references.ignore], n_classes)
    n_ignored = int(references.ignore.sum())
    extra = f", without {n_ignored} ignored" if n_ignored else ""
    names = ["class", f"references{extra}"]
    columns = [n_references]
    for model in list(cohort.models)[:MOST_COLUMNS]:
        names.append(f"predictions of {markup.cut(model, 40)}")
        columns.append(_count_labels(cohort.models[model].label, n_classes))
    # If there are too many classes, those with most references stay, in the order of the cohort.
    most_references = sorted(range(n_classes), key=lambda k: -n_references[k])[:MOST_CLASSES]
    rows: list[tuple[Cell, ...]] = []
    for k in sorted(most_references):
        rows.append((cohort.classes[k], *(column[k] for column in columns)))
    rows.append(("all classes", *map(sum, columns)))
    return Table(tuple(names), tuple(rows))


def _count_labels(label: NDArray[np.int32], n_classes: int) -> list[int]:
    return [int((label == k).sum()) for k in range(n_classes)]


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
