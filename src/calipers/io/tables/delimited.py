# SPDX-License-Identifier: Apache-2.0
"""The format ``csv``: text with commas, semicolons or tabs, and a header line. Cells stay text.

An `InputFile` comes in, a `FileTable` goes out. `calipers.io.tables.table.open_table` and
`DelimitedReader` call `read_delimited`; other formats made of delimited text use `rows_of` and
`fitting_rows`.

The delimiter is the one that splits the header into most cells; quotes follow RFC 4180. Rows that
do not fit the header are problems of the table, each with the line on which it begins.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calipers.errors import InputError
from calipers.io.reader import Problem, Sniffed
from calipers.io.source import InputFile
from calipers.io.tables.columns import BOX_NAMES, OBJECTS
from calipers.io.tables.objects import TableReader
from calipers.io.tables.table import FileTable, unprotect

DELIMITERS = (",", ";", "\t")
LONGEST_LINE = 1 << 20  # bytes
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # with its break, the last one without
SUFFIXES = (".csv", ".tsv", ".txt")


class DelimitedReader(TableReader):
    """A row per object; predictions have a score, and maybe a column for their model."""

    name = "csv"

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise a header line with names that we know, or the extension of a table."""
        header = file.head.split("\n", 1)[0]
        names = header_names(header)
        has_boxes = len(names & BOX_NAMES) >= 4
        known_names = {"id"}.union(*(column.aliases for column in OBJECTS.values()))
        has_suffix = Path(file.file).suffix.lower() in SUFFIXES
        is_table = has_boxes or names & known_names or has_suffix
        if not is_table or not any(sign in header for sign in DELIMITERS):
            return None
        if names & set(OBJECTS["score"].aliases):
            return Sniffed(self.name, "predictions", "it is delimited text with a score column")
        if has_boxes:
            reason = "it is delimited text with a box in every row"
            return Sniffed(self.name, "references", reason)
        return Sniffed(self.name, "groups", "it is delimited text without boxes")

    def table(self, file: InputFile) -> FileTable:
        """Read the text."""
        return read_delimited(file)


def read_delimited(input_file: InputFile) -> FileTable:
    """Read delimited text into a table; the delimiter is taken from the header line."""
    text = decode(input_file)
    delimiter = find_delimiter(text)
    rows = rows_of(input_file.file, text, delimiter)
    _, header = next(rows, (1, []))
    names = _header(header, input_file.file)
    cells, lines, problems = fitting_rows(rows, len(names), delimiter)
    columns: dict[str, list[str]] = {name: [] for name in names}
    columns.update(zip(names, map(list, zip(*cells))))
    columns.pop("", None)  # the row labels of pandas
    # A quote anywhere is a cheap test; most files have none, and their cells are left alone.
    notes = list(input_file.notes)
    if "'" in text:
        notes += _unprotect(header, columns)
    if "" in names:
        notes.append("the first column has no name and was not read")
    return FileTable(
        input_file.file,
        "csv",
        columns,
        np.array(lines, np.int64),
        by_line=True,
        problems=problems,
        notes=notes,
        source=input_file,
        decimal_comma=delimiter != ",",
    )


def decode(input_file: InputFile) -> str:
    """Return the text of a file, or name the byte that is not UTF-8."""
    _check_lines(input_file)
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
        # Valid UTF-8, but no text: most likely UTF-16 without a mark, or a binary file.
        where = f"line {text[: text.index(chr(0))].count(chr(10)) + 1}"
        raise InputError("text without NUL", rule="encoding", file=input_file.file, location=where)
    return text


def _check_lines(input_file: InputFile) -> None:
    """Raise for a line that no table has; the search stops at the first break of every piece."""
    data = input_file.data
    for start in range(0, len(data), LONGEST_LINE):
        stop = start + LONGEST_LINE
        if stop <= len(data) and data.find(b"\n", start, stop) < 0 > data.find(b"\r", start, stop):
            raise InputError(
                f"lines of at most {LONGEST_LINE:,} bytes",
                rule="too-large",
                file=input_file.file,
                location=f"byte {start}",
                hint="is it a table of text?",
            )


def find_delimiter(text: str) -> str:
    """Return the sign among comma, semicolon and tab that splits the header into most cells."""
    # Quoted names may hold any of the three signs.
    header = re.sub(r'"[^"]*"', "", text.lstrip("\r\n").split("\n", 1)[0])
    return max(DELIMITERS, key=header.count)


def rows_of(file: str, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells); the line is the one on which a row begins; blank lines are skipped."""
    # Line by line: a stream over the text would copy it with four bytes for every character.
    lines = (line[0] for line in LINE.finditer(text))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
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
        # A quoted cell may hold line breaks, so rows and lines are counted apart.
        line = reader.line_num + 1


def fitting_rows(
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
            # Spreadsheets write delimiters for empty columns to the right of the table.
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


def header_names(text: str) -> set[str]:
    """Return the names of the first line in lower case, whatever its delimiter."""
    header = text.split("\n", 1)[0]
    return {name.strip().strip('"').lower() for name in re.split("[,;\t]", header)}
