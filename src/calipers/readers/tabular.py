# SPDX-License-Identifier: Apache-2.0
"""A table of text or parquet, and its cells as numbers, flags and texts. Nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.readers.parts import Problem

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Cells = list[str] | NDArray[Any]  # texts, or numbers (parquet; NaN is an empty cell)

FLAG_WORDS = {"": 0, "0": 0, "1": 1, "false": 0, "true": 1}
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d{1,2}$|[+-]?\d+,\d{4,}$")
THOUSANDS = re.compile(r"[+-]?\d{1,3}([,'. ]\d{3})+([.,]\d+)?$")
PLAIN_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$", re.ASCII)
WORD_NUMBER = re.compile(r"\s*[+-]?(nan|inf|infinity)\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Table:
    """Columns by name, with the line (text) or row (parquet) each row came from."""

    file: str
    format: str
    columns: Mapping[str, Cells]
    lines: I64  # (n,) line or row number, ascending
    by_line: bool  # locations are line:column, else row:column
    problems: list[Problem] = field(default_factory=list)  # rows that do not fit the header
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """The header."""
        return tuple(self.columns)

    def __len__(self) -> int:
        return len(self.lines)

    def rows(self, rows: I64) -> Table:
        """Return the table with only these rows; all problems and notes stay."""
        columns: dict[str, Cells] = {}
        row_list = rows.tolist()
        for name, cells in self.columns.items():
            if isinstance(cells, list):
                columns[name] = [cells[row] for row in row_list]
            else:
                columns[name] = cells[rows]
        return replace(self, columns=columns, lines=self.lines[rows])

    def locate(self, line: int, column: str) -> str:
        """Return ``line:column`` of a cell; columns count from 1."""
        at = self.names.index(column) + 1 if column in self.columns else 1
        return f"{line}:{at}"

    def text(self, line: int) -> str:
        """Return the cells of a row as one text."""
        row = int(np.searchsorted(self.lines, line))
        return ",".join(str(cells[row]) for cells in self.columns.values())

    def problem(
        self, row: int, column: str, rule: str, expected: str, value: object = None, hint: str = ""
    ) -> Problem:
        """Return a problem of one cell."""
        line = int(self.lines[row])
        return Problem(
            rule, self.locate(line, column), column, expected, value, hint, self.text(line)
        )


def texts(table: Table, name: str) -> list[str]:
    """Return a column as text. Numbers of parquet become text without a trailing ``.0``."""
    cells = table.columns[name]
    if isinstance(cells, list):
        return cells
    if cells.dtype.kind == "f":
        return list(map(_plain, cells.tolist()))
    return list(map(str, cells.tolist()))


def empty(cells: Cells) -> Flags:
    """Return which cells are empty or blank."""
    if isinstance(cells, list):
        return np.array([not cell or cell.isspace() for cell in cells], np.bool_)
    if cells.dtype.kind == "f":
        return np.isnan(cells)
    return np.zeros(len(cells), np.bool_)


def numbers(table: Table, name: str, mask: Flags | None = None) -> tuple[F64, dict[int, Problem]]:
    """Return a column as numbers, and the cells that are none.

    Cells that are empty or outside ``mask`` become NaN.
    """
    cells = table.columns[name]
    if not isinstance(cells, list):
        return cells.astype(np.float64), {}
    has_text = ~empty(cells)
    if mask is not None:
        has_text &= mask
    rows = np.flatnonzero(has_text)
    values = np.full(len(cells), np.nan)
    texts_of_rows = [cells[row] for row in rows.tolist()]
    joint_text = "".join(texts_of_rows)
    # Python's float also accepts digits of other scripts and underscores; we do not.
    if joint_text.isascii() and "_" not in joint_text:
        try:
            values[rows] = list(map(float, texts_of_rows))
            return values, {}
        except ValueError:
            pass
    problems = {}
    for row, cell in zip(rows.tolist(), texts_of_rows):
        if PLAIN_NUMBER.match(cell) or WORD_NUMBER.match(cell):
            values[row] = float(cell)
        else:
            problems[row] = table.problem(row, name, "type", "a number", cell, _number_hint(cell))
    return values, problems


def flags(table: Table, name: str, rule: str) -> tuple[Flags, dict[int, Problem]]:
    """Return a column of 0/1 or true/false; an empty cell is 0."""
    cells = table.columns[name]
    if isinstance(cells, list):
        values = np.array([FLAG_WORDS.get(cell.strip().lower(), -1) for cell in cells], np.int8)
    else:
        values = np.where(cells == 1, 1, -1)
        values[empty(cells) | (cells == 0)] = 0
    problems = {}
    for row in np.flatnonzero(values < 0).tolist():
        problems[row] = table.problem(row, name, rule, "0 or 1", cells[row])
    return values == 1, problems


def codes(cells: Sequence[str]) -> tuple[I64, list[str]]:
    """Return the (n,) number of every text and the texts in order of first appearance."""
    index: dict[str, int] = {}
    numbered = np.fromiter(
        (index.setdefault(cell, len(index)) for cell in cells), np.int64, len(cells)
    )
    return numbered, list(index)


def _plain(number: float) -> str:
    """Return a number as text: NaN is an empty cell, 3.0 is 3."""
    if number != number:
        return ""
    # Beyond 2^53 a float need not be the number that was written.
    if number.is_integer() and abs(number) < 1 << 53:
        return str(int(number))
    return repr(number)


def _number_hint(cell: str) -> str:
    if DECIMAL_COMMA.match(cell.strip()):
        return "a decimal comma? Write 1.5, not 1,5: numbers are never guessed"
    if THOUSANDS.match(cell.strip()):
        return "a thousands separator? Write 1234.5: numbers are never guessed"
    return ""
