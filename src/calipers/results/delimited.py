# SPDX-License-Identifier: Apache-2.0
"""Columns as delimited text (CSV, TSV) in which no cell is a formula to a spreadsheet.

All CSV files that Calipers writes come from here. Cells follow RFC 4180; see `protect` for text
that starts like a formula.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

FORMULA = re.compile(r"'*[=+\-@\t\r\0]")
PROTECTED = re.compile("'" + FORMULA.pattern)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows with equal keys as columns, in the order of the first row."""
    columns: dict[str, list[Any]] = {name: [] for name in rows[0]}
    for row in rows:
        for name, column in columns.items():
            column.append(row[name])
    return columns


def delimited(columns: Mapping[str, Sequence[Any]], delimiter: str = ",") -> str:
    """Return a table with a header; undefined values are empty cells, and floats keep all their
    digits.
    """
    lines = [_line(map(protect, columns), delimiter)]
    for row in zip(*columns.values()):
        lines.append(_line(map(cell, row), delimiter))
    return "".join(lines)


def _line(cells: Iterable[str], delimiter: str) -> str:
    line = delimiter.join(_quoted(text, delimiter) for text in cells)
    # An empty line would be skipped by readers: a single empty cell is written as quotes.
    return (line or '""') + "\n"


def _quoted(text: str, delimiter: str) -> str:
    """Return a cell as in RFC 4180; a lone carriage return is quoted too, because many readers end
    a row there.
    """
    for special in (delimiter, '"', "\n", "\r"):
        if special in text:
            return '"' + text.replace('"', '""') + '"'
    return text


def protect(text: str) -> str:
    """Put a quote before a text that a spreadsheet would take for a formula; `unprotect` takes it
    away again.
    """
    return "'" + text if FORMULA.match(text) else text


def unprotect(text: str) -> str:
    """Undo `protect`, whatever the text was."""
    return text[1:] if PROTECTED.match(text) else text


def cell(value: Any) -> str:
    """Return a cell: text protected, floats with all their digits, nothing for None and NaN."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return protect(value) if isinstance(value, str) else str(value)
