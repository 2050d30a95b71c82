# SPDX-License-Identifier: Apache-2.0
"""A table: columns of text or numbers, from a file or from memory. Nothing is guessed.

`open_table` reads delimited text (`calipers.io.tables.delimited`) or parquet
(`calipers.io.tables.parquet`) into a `FileTable`. All readers of tables call it: those of groups,
alarms, ratings, bags, sizes and measurements. `numbers`, `flags` and `texts` interpret the cells of
a column, and every cell that they refuse becomes a `Problem` with its place.
`calipers.io.tables.columns` finds the columns.

All CSV and parquet files that Calipers writes come from here too: `delimited` and `write_table`.
Text cells follow RFC 4180; see `protect` for text that starts like a formula.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags
from calipers.data.cohort import FileIntake
from calipers.errors import InputError, raise_problems
from calipers.io.reader import Problem
from calipers.io.source import InputFile, open_source
from calipers.io.tables.arrow import arrow_column
from calipers.results.files import atomic_file

Cells = Sequence[str] | NDArray[Any]  # texts, or numbers (parquet; NaN is an empty cell)

# Rows that are converted together, and cells that `TextCells` joins.
BLOCK = 1 << 16
ROW_GROUP = 1 << 20  # rows of a parquet file that are compressed together, as arrow has it
MAGIC = b"PAR1"  # the beginning of a parquet file
# The words for yes and no, wherever a cell or an option means one of the two; case does not matter.
YES_NO = {
    "1": True,
    "true": True,
    "yes": True,
    "y": True,
    "0": False,
    "false": False,
    "no": False,
    "n": False,
}
SPACE = re.compile(r"\s")
# Three digits after a comma may also be thousands, so they are no decimal comma here.
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d{1,2}$|[+-]?\d+,\d{4,}$")
COMMA_NUMBER = re.compile(r"\s*[+-]?\d+(,\d+)?([eE][+-]?\d+)?\s*$", re.ASCII)
CLEAR_COMMA = re.compile(r"\s*[+-]?(0,\d+|\d+,\d{1,2}|\d+,\d{4,}|\d{4,},\d+)\s*$", re.ASCII)
THOUSANDS = re.compile(r"[+-]?\d{1,3}([,'. ]\d{3})+([.,]\d+)?$")
POINT_OR_THOUSAND = re.compile(r"\s*[+-]?[1-9]\d{0,2}\.\d{3}\s*$", re.ASCII)
# What a number may look like, in ASCII; everything else is refused with a hint.
PLAIN_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$", re.ASCII)
WORD_NUMBER = re.compile(r"\s*[+-]?(nan|inf|infinity)\s*$", re.IGNORECASE)

# The first signs that spreadsheets take for a formula (OWASP, "CSV injection"). Quotes before them
# count too, so that `unprotect` undoes `protect` for every text.
FORMULA = re.compile(r"'*[=+\-@\t\r\0]")
PROTECTED = re.compile("'" + FORMULA.pattern)
FORMULA_STARTS = frozenset("'=+-@\t\r\0")


class TextCells(Sequence[str]):
    """A long column of texts in little more room than in its file.

    A text of its own costs Python 50 bytes and more; here the texts of a block of rows are one, and
    every cell is a piece of it.
    """

    def __init__(self) -> None:
        # Joined texts, and where each of them begins.
        self._blocks: list[tuple[str, NDArray[Any]]] = []
        self._starts: list[int] = []  # first row of every block
        self._n = 0

    def add(self, cells: Sequence[str]) -> None:
        """Add a block of rows."""
        bounds = np.zeros(len(cells) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, cells), np.int64, len(cells)), out=bounds[1:])
        # Half the room does for a block of less than 2 GB.
        small = bounds.astype(np.uint32) if bounds[-1] < 1 << 32 else bounds
        self._starts.append(self._n)
        self._blocks.append(("".join(cells), small))
        self._n += len(cells)

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return list(islice(self._from(at.start or 0), len(range(self._n)[at])))
        k, row = self._place(range(self._n)[at])
        text, bounds = self._blocks[k]
        return text[bounds[row] : bounds[row + 1]]

    def __iter__(self) -> Iterator[str]:
        return self._from(0)

    def _place(self, row: int) -> tuple[int, int]:
        """Return the block of a row, and the row inside of it."""
        k = bisect_right(self._starts, row) - 1
        return k, row - self._starts[k]

    def blank(self) -> Flags:
        """Return which cells are empty or blank."""
        parts = [np.zeros(0, np.bool_)]
        for text, bounds in self._blocks:
            is_blank = bounds[1:] == bounds[:-1]
            # Without any space in the block, only an empty cell is blank.
            if SPACE.search(text):
                for row, (start, stop) in enumerate(pairwise(bounds.tolist())):
                    is_blank[row] |= text[start:stop].isspace()
            parts.append(is_blank)
        return np.concatenate(parts)

    def _from(self, start: int) -> Iterator[str]:
        """Yield the cells from a row on."""
        k, row = self._place(start)
        for text, bounds in self._blocks[k:]:
            for first, last in pairwise(bounds[row:].tolist()):
                yield text[first:last]
            row = 0


@dataclass(frozen=True)
class FileTable:
    """Columns by name, with the line (text) or row (parquet) each row came from."""

    file: str
    format: str
    columns: Mapping[str, Cells]
    lines: I64  # (n,) line or row number, ascending
    by_line: bool  # locations are line:column, else row:column
    problems: list[Problem] = field(default_factory=list)  # rows that do not fit the header
    notes: list[str] = field(default_factory=list)
    source: InputFile | None = None  # None: from memory
    decimal_comma: bool = False  # commas do not separate cells, so they may stand in numbers

    @property
    def names(self) -> tuple[str, ...]:
        """The header."""
        return tuple(self.columns)

    def __len__(self) -> int:
        return len(self.lines)

    def rows(self, rows: I64) -> FileTable:
        """Return the table with only these rows; all problems and notes stay."""
        columns: dict[str, Cells] = {}
        row_list = rows.tolist()
        for name, cells in self.columns.items():
            if isinstance(cells, np.ndarray):
                columns[name] = cells[rows]
            else:
                columns[name] = [cells[row] for row in row_list]
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

    def error(
        self, row: int, column: str, rule: str, expected: str, value: object = None, hint: str = ""
    ) -> InputError:
        """Return the error of one cell."""
        return self.problem(row, column, rule, expected, value, hint).as_error(self.file)

    def refuse(self, problems: Iterable[Problem]) -> None:
        """Raise the problems of cells or rows, if there are any."""
        raise_problems([problem.as_error(self.file) for problem in problems])

    @property
    def sha256(self) -> str:
        """The hash of the file; empty for a table from memory."""
        return "" if self.source is None else self.source.sha256

    def intake(
        self,
        role: str,
        notes: Sequence[str],
        used: int | None = None,
        quarantined: Mapping[str, int] | None = None,
    ) -> FileIntake:
        """Return the account of the file; all rows are used unless it says otherwise."""
        n = len(self) + len(self.problems)
        n_bytes = 0 if self.source is None else self.source.size
        return FileIntake(
            file=self.file,
            role=role,
            format=self.format,
            read=n,
            used=n if used is None else used,
            quarantined=dict(quarantined or {}),
            sha256=self.sha256,
            bytes=n_bytes,
            notes=tuple(notes),
        )


def open_table(
    source: Path | str | InputFile, *, ragged: bool = False, hint: str = ""
) -> FileTable:
    """Open a table: delimited text (csv, tsv) or parquet.

    Parameters
    ----------
    ragged
        Whether rows that do not fit the header become the table's ``problems``, which the caller
        accounts for. Otherwise they are refused here.
    hint
        What to do if the file is JSON, which is no table.
    """
    file = source if isinstance(source, InputFile) else open_source(source)
    if file.data[:1] in (b"{", b"["):
        raise InputError(
            "a table (csv, tsv or parquet)",
            rule="format",
            file=file.file,
            value="JSON",
            hint=hint,
        )
    if file.data[: len(MAGIC)] == MAGIC:
        # Imported here: the readers import this file, and pyarrow is slow to load.
        from calipers.io.tables.parquet import read_columnar as read
    else:
        from calipers.io.tables.delimited import read_delimited as read
    table = read(file)
    if not ragged:
        table.refuse(table.problems)
    return table


def texts(table: FileTable, name: str) -> list[str]:
    """Return a column as text. Numbers of parquet become text without a trailing ``.0``."""
    cells = table.columns[name]
    if isinstance(cells, list):
        return cells
    if not isinstance(cells, np.ndarray):
        return _shared(cells)
    if cells.dtype.kind == "f":
        return list(map(_plain, cells.tolist()))
    return list(map(str, cells.tolist()))


def _shared(cells: Sequence[str]) -> list[str]:
    """Return texts as a list in which equal ones that are not far apart are one object."""
    recent_texts: dict[str, str] = {}
    shared = []
    for cell in cells:
        shared.append(recent_texts.setdefault(cell, cell))
        if len(recent_texts) > BLOCK:
            recent_texts.clear()
    return shared


def empty(cells: Cells) -> Flags:
    """Return which cells are empty or blank."""
    if isinstance(cells, TextCells):
        return cells.blank()
    if not isinstance(cells, np.ndarray):
        return np.array([not cell or cell.isspace() for cell in cells], np.bool_)
    if cells.dtype.kind == "f":
        return np.isnan(cells)
    return np.zeros(len(cells), np.bool_)


def numbers(
    table: FileTable, name: str, mask: Flags | None = None, *, yes_no: bool = False
) -> tuple[F64, dict[int, Problem]]:
    """Return a column as numbers, and the cells that are none.

    Cells that are empty or outside ``mask`` become NaN. With ``yes_no`` the words of `YES_NO` are 1
    and 0.
    """
    cells = table.columns[name]
    if isinstance(cells, np.ndarray):
        return cells.astype(np.float64), {}
    if table.source is not None:
        table.source.advance(table.names.index(name), len(table.names), step="converting")
    if yes_no:
        cells = list(map(_word_as_number, cells))
    has_text = ~empty(cells)
    if mask is not None:
        has_text &= mask
    values = np.full(len(cells), np.nan)
    if _fill_plain(values, cells, has_text):
        return values, _thousands(table, name, cells, has_text) if table.decimal_comma else {}
    rows = np.flatnonzero(has_text)
    texts_of_rows = [cells[row] for row in rows.tolist()]
    with_points = _decimal_points(texts_of_rows) if table.decimal_comma else None
    if with_points is not None:
        values[rows] = with_points
        note = f"column {name!r} is read with decimal commas"
        if note not in table.notes:
            table.notes.append(note)
        return values, {}
    # The slow way, cell by cell, only if the whole column did not convert.
    problems = {}
    has_commas = table.decimal_comma and any(map(CLEAR_COMMA.match, texts_of_rows))
    for row, cell in zip(rows.tolist(), texts_of_rows):
        is_plain = PLAIN_NUMBER.match(cell) or WORD_NUMBER.match(cell)
        # Beside decimal commas, 1.234 may be a thousand.
        if is_plain and not (has_commas and POINT_OR_THOUSAND.match(cell)):
            values[row] = float(cell)
        else:
            values[row] = np.nan
            problems[row] = table.problem(row, name, "type", "a number", cell, _number_hint(cell))
    return values, problems


def _fill_plain(values: F64, cells: Sequence[str], has_text: Flags) -> bool:
    """Enter the numbers of all cells with text; return whether all of them are plain numbers."""
    for start in range(0, len(cells), BLOCK):
        block = cells[start : start + BLOCK]
        rows = np.flatnonzero(has_text[start : start + BLOCK])
        if len(rows) < len(block):
            block = [block[row] for row in rows.tolist()]
        joint_text = "".join(block)
        # Python's float also accepts digits of other scripts and underscores; we do not.
        if not joint_text.isascii() or "_" in joint_text:
            return False
        try:
            values[start + rows] = list(map(float, block))
        except ValueError:
            return False
    return True


def _decimal_points(cells: Sequence[str]) -> list[float] | None:
    """Return the numbers of cells with decimal commas; None if they may be anything else.

    1,234 may be a thousand: one cell of the column has to be beyond doubt.
    """
    if not all(map(COMMA_NUMBER.match, cells)) or not any(map(CLEAR_COMMA.match, cells)):
        return None
    return [float(cell.replace(",", ".")) for cell in cells]


def _thousands(
    table: FileTable, name: str, cells: Sequence[str], has_text: Flags
) -> dict[int, Problem]:
    """Return the cells with a point that may be thousands: 1.234 beside columns with 56,7.

    A cell such as 1.5 or 0.123 shows that the points of a column are decimal ones.
    """
    rows = [row for row in np.flatnonzero(has_text).tolist() if "." in cells[row]]
    if not rows or not all(POINT_OR_THOUSAND.match(cells[row]) for row in rows):
        return {}
    others = [other for other in table.names if other != name]
    comma_column = next((other for other in others if _has_decimal_commas(table, other)), None)
    if comma_column is None:
        return {}
    hint = f"a thousands separator? Column {comma_column!r} has decimal commas: write 1234.5"
    return {row: table.problem(row, name, "type", "a number", cells[row], hint) for row in rows}


def _has_decimal_commas(table: FileTable, name: str) -> bool:
    cells = table.columns[name]
    if isinstance(cells, np.ndarray):
        return False
    with_text = [cell for cell in cells if cell and not cell.isspace()]
    return _decimal_points(with_text) is not None


def _word_as_number(cell: str) -> str:
    meaning = YES_NO.get(cell.strip().lower())
    return cell if meaning is None else str(int(meaning))


def strict_numbers(table: FileTable, name: str) -> F64:
    """Return a column as numbers; a cell that is none is an error, an empty one is NaN."""
    values, bad = numbers(table, name)
    table.refuse(bad.values())
    return values


def flags(table: FileTable, name: str, rule: str) -> tuple[Flags, dict[int, Problem]]:
    """Return a column of the words of `YES_NO` or of 0 and 1; an empty cell is 0."""
    cells = table.columns[name]
    if isinstance(cells, np.ndarray):
        values = np.where(cells == 1, 1, -1)
        values[empty(cells) | (cells == 0)] = 0
    else:
        words = {**YES_NO, "": False}
        values = np.array([words.get(cell.strip().lower(), -1) for cell in cells], np.int8)
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


def write_table(
    path: Path, columns: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Write columns (sequences, or arrow arrays) as parquet, whole or not at all."""
    import pyarrow as pa

    # No metadata but ours: equal columns give equal bytes.
    arrays = {name: arrow_column(column) for name, column in columns.items()}
    _write_parquet(path, [pa.table(arrays).replace_schema_metadata(metadata)])


def write_blocks(
    path: Path,
    blocks: Iterable[Mapping[str, Sequence[Any]]],
    type_of: Callable[[str], NDArray[Any] | None],
) -> None:
    """Write a table whose rows come in blocks as parquet: the same bytes as all rows at once.

    So many blocks make `ROW_GROUP` rows. ``type_of`` returns entries of a column that decide its
    type, because a block may hold nothing but empty cells; None means text.
    """
    import pyarrow as pa

    def groups() -> Iterator[Any]:
        schema, parts, n = None, [], 0
        for columns in blocks:
            if schema is None:
                # Without any row there is nothing to tell the type from.
                types = {name: pa.null() for name in columns}
                if any(columns.values()):
                    types = {name: _arrow_type(type_of(name)) for name in columns}
                schema = pa.schema(list(types.items()))
            parts.append(pa.table(dict(columns), schema=schema))
            n += len(parts[-1])
            if n >= ROW_GROUP:
                yield pa.concat_tables(parts).combine_chunks()
                parts, n = [], 0
        if parts:
            yield pa.concat_tables(parts).combine_chunks()

    _write_parquet(path, groups())


def _arrow_type(entries: NDArray[Any] | None) -> Any:
    """Return the type that arrow gives a list of these entries."""
    import pyarrow as pa

    if entries is None:
        return pa.string()
    if not len(entries):
        return pa.null()
    if entries.dtype.kind == "f":
        return pa.float64()
    if entries.dtype.kind in "iu" and entries.dtype != np.uint64:
        return pa.int64()
    return pa.array(entries.tolist()).type


def _write_parquet(path: Path, tables: Iterable[Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with ExitStack() as stack:
        file, writer = stack.enter_context(atomic_file(path)), None
        for table in tables:
            if writer is None:
                # Names repeat, numbers hardly do: a list of the different ones would take longer
                # and more room.
                texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
                writer = stack.enter_context(
                    pq.ParquetWriter(file, table.schema, compression="zstd", use_dictionary=texts)
                )
            writer.write_table(table, row_group_size=ROW_GROUP)


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
    return "".join(delimited_blocks([columns], delimiter))


def delimited_blocks(
    blocks: Iterable[Mapping[str, Sequence[Any]]], delimiter: str = ","
) -> Iterator[str]:
    """Yield a table whose rows come in blocks; all have the same columns."""
    for k, columns in enumerate(blocks):
        cells = [_column_cells(column, delimiter) for column in columns.values()]
        lines = list(map(delimiter.join, zip(*cells)))
        if k == 0:
            header = [_quoted(protect(name), delimiter) for name in columns]
            lines.insert(0, delimiter.join(header))
        # An empty line would be skipped by readers: a single empty cell is written as quotes.
        yield "".join((line or '""') + "\n" for line in lines)


def _column_cells(column: Sequence[Any], delimiter: str) -> list[str]:
    """Return the cells of a column; whole numbers need neither protection nor quotes."""
    kinds = set(map(type, column))
    if kinds == {int}:
        return list(map(str, column))
    if kinds == {str}:
        # A formula begins with its sign, or with quotes before it.
        signs = {text[:1] for text in column} & FORMULA_STARTS
        cells = [protect(text) for text in column] if signs else list(column)
        # One look at the whole column: most columns need no quotes anywhere.
        together = "".join(cells)
        if _quoted(together, delimiter) == together:
            return cells
        return [_quoted(text, delimiter) for text in cells]
    return [_quoted(cell(value), delimiter) for value in column]


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
        # `repr` is the shortest text that gives the same float again.
        return repr(value).removesuffix(".0")
    return protect(value) if isinstance(value, str) else str(value)
