# SPDX-License-Identifier: Apache-2.0
"""Columns as delimited text that no spreadsheet will run."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

FORMULA = re.compile(r"'*[=+\-@\t\r\0]")


def delimited(columns: Mapping[str, Sequence[Any]], delimiter: str = ",") -> str:
    """Return a table with a header; undefined values are empty cells, numbers stay numbers to the last bit."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow([protect(name) for name in columns])
    for row in zip(*columns.values()):
        writer.writerow([cell(value) for value in row])
    return text.getvalue()


def protect(text: str) -> str:
    """Put a quote before a text that a spreadsheet would take for a formula; the readers take it away again."""
    return "'" + text if FORMULA.match(text) else text


def cell(value: Any) -> str:
    """Return a cell: text protected, floats with all their digits, nothing for None and NaN."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return protect(value) if isinstance(value, str) else str(value)
