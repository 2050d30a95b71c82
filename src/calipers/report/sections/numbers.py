# SPDX-License-Identifier: Apache-2.0
"""Every row of the evaluation in one table that the reader can search, sort and save.

The rows travel as JSON, deflated, because 80 classes of 10 models would be a megabyte of HTML; a
script shows them page by page, as text only. Without scripts the section names the file that has
the same numbers.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from typing import Any

from calipers.report.context import Context
from calipers.report.grids import metrics_table
from calipers.report.markup import paragraph
from calipers.results import Row

MOST_ROWS = 12_000
COLUMNS = (
    "model",
    "metric",
    "class",
    "group",
    "value",
    "low",
    "high",
    "units",
    "references",
    "predictions",
    "note",
)
LONGEST_NAME = 800  # several names of a group are joined


def section(page: Context) -> str:
    """Return all pooled metrics, and the place of the table whose rows are in `payload`."""
    total = len(page.evaluation.rows)
    words = f"{total} estimates: every metric, model, class and group."
    if total > MOST_ROWS:
        words += f" This page has the first {MOST_ROWS}, evaluation.json has all."
    off = (
        "This table needs JavaScript. The same rows are in evaluation.json, and many of them in "
        "the "
        "sections above."
    )
    pooled = metrics_table(page.evaluation, page.evaluation.metrics)
    without_script = f"<noscript>{paragraph(off, 'note')}</noscript>"
    return f'{pooled}\n{paragraph(words)}<div id="every-row"></div>{without_script}'


def payload(page: Context) -> str:
    """Return the rows for a script element, as ``{"deflate": base64}``: no sign of HTML is in
    it.
    """
    text = json.dumps(_document(page), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    deflated = base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")
    return json.dumps({"deflate": deflated})


def _document(page: Context) -> dict[str, Any]:
    rows = page.evaluation.rows[:MOST_ROWS]
    names: dict[str, dict[str, int]] = {
        "model": {},
        "metric": {},
        "class": {},
        "group": {},
        "note": {},
    }

    def code(kind: str, name: str) -> int:
        return names[kind].setdefault(name[:LONGEST_NAME], len(names[kind]))

    columns: list[list[Any]] = [[] for _ in COLUMNS]
    for row in rows:
        for column, entry in zip(columns, _pack_row(row, code)):
            column.append(entry)
    return {
        "columns": COLUMNS,
        "names": {kind: list(codes) for kind, codes in names.items()},
        "rows": columns,
    }


def _pack_row(row: Row, code: Any) -> tuple[Any, ...]:
    e = row.estimate
    group = ", ".join(f"{name} {value}" for name, value in (row.group or {}).items())
    notes = [] if e.reason in (None, "not_requested") else [str(e.reason)]
    note = "; ".join([*notes, *e.flags]).replace("_", " ")
    return (
        code("model", row.model),
        code("metric", row.metric),
        code("class", row.label or ""),
        code("group", group),
        *map(_short, (e.value, e.low, e.high)),
        e.n_units,
        e.n_references,
        e.n_predictions,
        code("note", note),
    )


def _short(value: float) -> float | int | None:
    """Return a number with four significant digits: the page is for reading, evaluation.json for
    computing.
    """
    if not math.isfinite(value):
        return None
    short = float(f"{value:.4g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short
