# SPDX-License-Identifier: Apache-2.0
"""A table of text or parquet, and its cells as numbers, flags and texts. Nothing is guessed.

Read and write parquet: the same tables as delimited text, with typed columns.

Sizes and types that a file declares are checked before it is unpacked.

Columns as delimited text (CSV, TSV) in which no cell is a formula to a spreadsheet.

All CSV files that Calipers writes come from here. Cells follow RFC 4180; see `protect` for text
that starts like a formula.

Read text with commas, semicolons or tabs, and the NIH list of boxes. Cells stay text.

Read a table with neither references nor predictions: any columns, a row per measurement.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags
from calipers.errors import InputError, raise_problems
from calipers.io.assemble import Problem
from calipers.io.source import InputFile, open_source
from calipers.io.tables.arrow import arrow_column
from calipers.results.files import write_atomically

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


MAGIC = b"PAR1"
MAX_ROWS = 50_000_000
MAX_BYTES = 8 << 30  # uncompressed
MAX_RATIO = 200


def read_columnar(input_file: InputFile) -> Table:
    """Read a parquet file into a table, after its declared sizes and column types were checked."""
    columns = {}
    with _refusing(input_file.file):
        table = _read_arrow(input_file, _check_schema)
        for name in table.column_names:
            # pandas writes its row labels as a column of this name.
            if not name.startswith("__index"):
                columns[name] = _cells(table.column(name))
    lines = np.arange(table.num_rows)
    return Table(input_file.file, "parquet", columns, lines, False, notes=list(input_file.notes))


def read_arrow(input_file: InputFile, check: Callable[[Any, str], None]) -> Any:
    """Read a parquet file into an arrow table, after its declared sizes and, by ``check``, its
    schema were checked.
    """
    with _refusing(input_file.file):
        return _read_arrow(input_file, check)


def write_table(
    path: Path, columns: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Write columns (sequences, or arrow arrays) as parquet, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {name: arrow_column(column) for name, column in columns.items()}
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays).replace_schema_metadata(metadata), sink, compression="zstd")
    write_atomically(path, sink.getvalue())


@contextmanager
def _refusing(file: str) -> Iterator[None]:
    """Turn the exceptions of arrow for a broken file into an `InputError`."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise InputError(
            "a parquet file", rule="parquet-syntax", file=file, value=str(error).split("\n")[0]
        ) from None


def _read_arrow(input_file: InputFile, check: Callable[[Any, str], None]) -> Any:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(
        io.BytesIO(input_file.data) if isinstance(input_file.data, bytes) else input_file.file
    )
    _check_sizes(file.metadata, input_file)
    check(file.schema_arrow, input_file.file)
    table = file.read()
    table.validate(full=True)
    return table


def _check_sizes(metadata: Any, input_file: InputFile) -> None:
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    unpacked = sum(group.total_byte_size for group in groups)
    if metadata.num_rows > MAX_ROWS or metadata.num_rows < 0:
        raise InputError(
            f"at most {MAX_ROWS} rows",
            rule="too-large",
            file=input_file.file,
            value=metadata.num_rows,
        )
    if unpacked > MAX_BYTES or (unpacked > 1 << 28 and unpacked > MAX_RATIO * input_file.size):
        raise InputError(
            f"at most {MAX_BYTES} bytes unpacked",
            rule="too-large",
            file=input_file.file,
            value=unpacked,
        )


def _check_schema(schema: Any, file: str) -> None:
    """Refuse column names that occur twice, and columns of other kinds than numbers and text."""
    import pyarrow.types as kinds

    plain_kinds = (
        kinds.is_integer,
        kinds.is_floating,
        kinds.is_boolean,
        kinds.is_string,
        kinds.is_large_string,
        kinds.is_decimal,
        kinds.is_null,
        kinds.is_string_view,
    )
    names = [name.strip().lower() for name in schema.names]
    for k, column in enumerate(schema):
        if names[k] in names[:k]:
            raise InputError(
                "column names that differ", rule="dup-column", file=file, field=column.name
            )
        kind = column.type.value_type if kinds.is_dictionary(column.type) else column.type
        if not any(is_kind(kind) for is_kind in plain_kinds):
            raise InputError(
                "numbers, flags or text",
                rule="column-type",
                file=file,
                field=column.name,
                value=str(column.type),
            )


def _cells(column: Any) -> Cells:
    """Return texts as a list (null is an empty cell), numbers as an array (null is NaN)."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kinds.is_boolean(column.type):
        column = column.cast(pa.int8())
    if kinds.is_decimal(column.type):
        column = column.cast(pa.float64())
    if kinds.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy())
    if kinds.is_floating(column.type):
        return np.asarray(column.to_numpy(), np.float64)
    # Whole numbers with holes become text: as floats, long ids would lose digits.
    cells = []
    for cell in column.to_pylist():
        cells.append("" if cell is None else str(cell))
    return cells


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


DELIMITERS = (",", ";", "\t")
NIH_HEADER = re.compile(r'^"?Image Index"?,"?Finding Label"?,"?Bbox \[x', re.IGNORECASE)
NIH_COLUMNS = ("image", "class", "x", "y", "w", "h")
NIH_SIDE = "1024"
NIH_NAMES = {"Infiltrate": "Infiltration"}


def read_delimited(input_file: InputFile) -> Table:
    """Read delimited text into a table; the delimiter is taken from the header line."""
    text = decode(input_file)
    delimiter = find_delimiter(text)
    rows = _rows(input_file.file, text, delimiter)
    _, header = next(rows, (1, []))
    names = _header(header, input_file.file)
    cells, lines, problems = _fitting(rows, len(names), delimiter)
    columns: dict[str, list[str]] = {name: [] for name in names}
    columns.update(zip(names, map(list, zip(*cells))))
    columns.pop("", None)  # the row labels of pandas
    notes = list(input_file.notes)
    if "'" in text:
        notes += _unprotect(header, columns)
    if "" in names:
        notes.append("the first column has no name and was not read")
    return Table(input_file.file, "csv", columns, np.array(lines, np.int64), True, problems, notes)


def read_nih(input_file: InputFile) -> Table:
    """Read ``BBox_List_2017.csv`` of ChestX-ray8 by position: its header breaks at its own commas.

    Notes
    -----
    All images of this data set have 1024 x 1024 pixels. `Infiltrate` in this list is the class
    `Infiltration` of the data set. The patient is the part of the image name before the underscore.
    """
    rows = _rows(input_file.file, decode(input_file), ",")
    next(rows, None)
    cells, lines, problems = _fitting(rows, len(NIH_COLUMNS), ",")
    columns: dict[str, list[str]] = {}
    for k, name in enumerate(NIH_COLUMNS):
        columns[name] = [row[k] for row in cells]
    n_renamed = sum(name in NIH_NAMES for name in columns["class"])
    columns["class"] = [NIH_NAMES.get(name, name) for name in columns["class"]]
    columns["width"] = columns["height"] = [NIH_SIDE] * len(cells)
    columns["patient"] = [name.split("_")[0] for name in columns["image"]]
    notes = []
    if n_renamed:
        note = f"{n_renamed} boxes of 'Infiltrate' are read as 'Infiltration'"
        notes = [*input_file.notes, note]
    return Table(input_file.file, "nih", columns, np.array(lines, np.int64), True, problems, notes)


def decode(input_file: InputFile) -> str:
    """Return the text of a file, or name the byte that is not UTF-8."""
    data = bytes(input_file.data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            "text in UTF-8",
            rule="encoding",
            file=input_file.file,
            location=f"byte {error.start}",
            value=data[error.start : error.start + 10],
            hint="save the table as UTF-8",
        ) from None
    if "\0" in text:
        where = f"line {text[: text.index(chr(0))].count(chr(10)) + 1}"
        raise InputError("text without NUL", rule="encoding", file=input_file.file, location=where)
    return text


def find_delimiter(text: str) -> str:
    """Return the sign among comma, semicolon and tab that splits the header into most cells."""
    header = re.sub(r'"[^"]*"', "", text.lstrip("\r\n").split("\n", 1)[0])
    return max(DELIMITERS, key=header.count)


def _rows(file: str, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells); the line is the one on which a row begins; blank lines are skipped."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            hint = "is a quote left open?"
            raise InputError(
                "delimited text",
                rule="csv-syntax",
                file=file,
                location=f"{line}:1",
                value=str(error),
                hint=hint,
            ) from None
        if row is None:
            return
        if "".join(row).strip():
            yield line, row
        line = reader.line_num + 1


def _fitting(
    rows: Iterator[tuple[int, list[str]]], width: int, delimiter: str
) -> tuple[list[list[str]], list[int], list[Problem]]:
    """Return the rows of ``width`` cells with their lines, and the others as problems.

    Empty cells beyond the width are dropped.
    """
    cells: list[list[str]] = []
    lines: list[int] = []
    problems: list[Problem] = []
    for line, row in rows:
        if len(row) > width and not any(row[width:]):
            row = row[:width]
        if len(row) != width:
            problems.append(_ragged(line, row, width, delimiter))
            continue
        cells.append(row)
        lines.append(line)
    return cells, lines, problems


def _header(header: list[str], file: str) -> list[str]:
    names = [unprotect(name.strip()) for name in header]
    while names and not names[-1]:
        names.pop()  # trailing delimiters of spreadsheets
    if not names:
        raise InputError("a header line", rule="empty-file", file=file, location="1")
    earlier_names: set[str] = set()
    for k, name in enumerate(names):
        location = f"1:{k + 1}"
        # Only the first column may have no name: pandas writes its row labels there.
        if not name and k > 0:
            raise InputError(
                "a name for every column", rule="header", file=file, location=location, value=name
            )
        if name.lower() in earlier_names:
            expected = "column names that differ"
            raise InputError(expected, rule="dup-column", file=file, location=location, value=name)
        earlier_names.add(name.lower())
    return names


def _ragged(line: int, row: list[str], width: int, delimiter: str) -> Problem:
    hint = ""
    if delimiter == "," and len(row) > width:
        hint = "a decimal comma or an unquoted comma in a name?"
    location = f"{line}:{min(len(row), width) + 1}"
    return Problem("ragged", location, "", f"{width} cells", len(row), hint, ",".join(row))


def _unprotect(header: list[str], columns: dict[str, list[str]]) -> list[str]:
    """Remove the quotes that our writer puts before formulas, and return a note.

    `_header` did the same for the names.
    """
    n = sum(unprotect(name.strip()) != name.strip() for name in header)
    for cells in columns.values():
        for row, cell in enumerate(cells):
            if cell[:1] == "'" and unprotect(cell) != cell:
                cells[row] = unprotect(cell)
                n += 1
    if not n:
        return []
    return [f"{n} cells began with a quote that protects spreadsheets; it was removed"]


def read_plain(path: Path | str) -> tuple[Table, InputFile]:
    """Return the table of a CSV, TSV or parquet file, and the file; every row fits the header."""
    input_file = open_source(path)
    if input_file.data[:1] in (b"{", b"["):
        hint = "references in JSON need predictions beside them"
        raise InputError(
            "a table (csv, tsv or parquet)",
            rule="format",
            file=input_file.file,
            value="JSON",
            hint=hint,
        )
    is_parquet = input_file.data[: len(MAGIC)] == MAGIC
    table = read_columnar(input_file) if is_parquet else read_delimited(input_file)
    raise_problems([problem.as_error(table.file) for problem in table.problems])
    return table, input_file
