# SPDX-License-Identifier: Apache-2.0
"""Columns as delimited text that no spreadsheet will run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

FORMULA = re.compile(r"'*[=+\-@\t\r\0]")
PROTECTED = re.compile("'" + FORMULA.pattern)


def delimited(columns: Mapping[str, Sequence[Any]], delimiter: str = ",") -> str:
    """Return a table with a header; undefined values are empty cells, numbers stay numbers to the
    last bit.
    """
    lines = [_line([protect(name) for name in columns], delimiter)]
    lines += [_line([cell(value) for value in row], delimiter) for row in zip(*columns.values())]
    return "".join(lines)


def _line(cells: Sequence[str], delimiter: str) -> str:
    """Return a line as in RFC 4180; a lone carriage return is quoted too, it ends a row for many
    readers.
    """
    special = (delimiter, '"', "\n", "\r")
    quoted = [
        '"' + c.replace('"', '""') + '"' if any(s in c for s in special) else c for c in cells
    ]
    return (delimiter.join(quoted) or '""') + "\n"


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
