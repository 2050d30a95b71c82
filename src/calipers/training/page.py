# SPDX-License-Identifier: Apache-2.0
"""The page of a run: how loss and validation went, epoch by epoch, and what came out.

A `RunRecord` and the ``log.json`` of its models come in, ``training.html`` in the folder of the run
goes out. `curves_of` gives the two figures as data. Nothing is computed here but the range over
many models; `calipers.training.train` writes the page when a run is finished.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calipers.arrays import F64
from calipers.results.files import write_atomically
from calipers.show.figures import Axis, Curves, Line
from calipers.show.html import (
    answer_page,
    answer_section,
    as_bytes,
    details,
    figure_block,
    further,
    in_pairs,
    items,
    reproduce_block,
    table_block,
    text,
)
from calipers.show.words import count_text, two_decimals
from calipers.training.loop import History

if TYPE_CHECKING:
    from calipers.show.table import Table
    from calipers.training.train import RunRecord

PAGE = "training.html"
MOST_LINES = 6  # more models are shown as their mean and range


def curves_of(histories: Mapping[str, History], measure: str) -> list[Curves]:
    """Return the figures of a run: the loss, and the measure on the validation images if any.

    Parameters
    ----------
    histories
        By the name of the model.
    measure
        Its name in the log, such as ``AUC``.
    """
    losses, values = {}, {}
    for name, history in histories.items():
        losses[name] = np.array([epoch.loss for epoch in history.epochs])
        values[name] = np.array([epoch.validation.get(measure, np.nan) for epoch in history.epochs])
    figures = []
    for name, rows in (("training loss", losses), (f"{measure}, validation", values)):
        if any(np.isfinite(row).any() for row in rows.values()):
            figures.append(_figure(name, rows, histories))
    return figures


def _figure(name: str, rows: Mapping[str, F64], histories: Mapping[str, History]) -> Curves:
    last = [row[histories[model].best - 1] for model, row in rows.items()]
    epochs = "epoch that was stored" if len(rows) == 1 else "epochs that were stored"
    title = f"{name[0].upper()}{name[1:]}: {_span(last)} in the {epochs}"
    note = "The marker is the epoch whose weights were stored."
    lines = []
    if len(rows) <= MOST_LINES:
        for slot, (model, row) in enumerate(rows.items()):
            at = np.arange(1, len(row) + 1, dtype=np.float64)
            lines.append(Line(model, at, row, slot=slot, marks=(histories[model].best - 1,)))
    else:
        lines.append(_range_over(rows))
        note = f"Mean and range of {len(rows)} models; of an epoch, those that had it."
    return Curves(title, Axis("epoch"), Axis(name), tuple(lines), note=note)


def _range_over(rows: Mapping[str, F64]) -> Line:
    """Return mean and range over models; early stopping leaves some of them shorter."""
    longest = max(map(len, rows.values()))
    values = np.full((len(rows), longest), np.nan)
    for k, row in enumerate(rows.values()):
        values[k, : len(row)] = row
    at = np.arange(1, longest + 1, dtype=np.float64)
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    return Line("mean of the models", at, np.nanmean(values, axis=0), low, high)


def _span(values: Sequence[float]) -> str:
    numbers = [value for value in values if np.isfinite(value)]
    if not numbers:
        return "unknown"
    low, high = two_decimals(min(numbers)), two_decimals(max(numbers))
    return low if low == high else f"{low} to {high}"


def write_training_page(
    record: RunRecord,
    histories: Mapping[str, History],
    measure: str,
    tables: Sequence[Table],
    folder: Path,
) -> Path:
    """Write ``training.html`` into the folder of a run; return its path."""
    figures = []
    for k, figure in enumerate(curves_of(histories, measure)):
        figures.append(figure_block(figure, f"fig-{k}", all_in="log.json of each model"))
    tests = [model.test for model in record.models if model.test is not None]
    verdict = f"{count_text('model', len(record.models))} trained"
    if tests:
        verdict += f": {measure} {_span(tests)} on the test images"
    sizes = []
    for name, ids in record.split.items():
        sizes.append(f"{name}: {count_text('image', len(ids))}, {record.positive[name]} positive")
    if record.broken:
        sizes.append(f"{count_text('picture', len(record.broken))} could not be read")
    plan = json.dumps(record.plan.as_dict(), indent=1)
    parts = [
        ("curves", "Curves", in_pairs(figures)),
        ("models", "Models", "\n".join(table_block(table, all_in="run.json") for table in tables)),
        ("notes", "Notes", items(record.notes)),
        ("plan", "Plan", details("All settings", f"<pre>{text(plan)}</pre>")),
        ("reproduce", "Reproduce", reproduce_block((), _facts(record))),
    ]
    opening = f"{record.data}; plan {record.plan.name}; classes {', '.join(record.classes)}."
    answer = answer_section(f"{verdict}.", further(sizes))
    page = answer_page("How did the training go?", opening, answer, parts)
    write_atomically(folder / PAGE, as_bytes(page))
    return folder / PAGE


def _facts(record: RunRecord) -> dict[str, str]:
    torch = {name: record.environment.get(name) for name in ("torch", "device", "threads")}
    return {"seed": str(record.seed), **{name: str(value) for name, value in torch.items()}}
