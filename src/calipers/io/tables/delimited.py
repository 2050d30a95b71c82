# SPDX-License-Identifier: Apache-2.0
"""The format ``csv``: text with commas, semicolons or tabs, and a header line. Cells stay text.

An `InputFile` comes in, a `FileTable` goes out. `calipers.io.tables.table.open_table` and
`DelimitedReader` call `read_delimited`; other formats made of delimited text use `rows_of` and
`read_body`. The text goes by line by line, and the cells of a long table are kept as `TextCells`:
neither is ever in memory as Python objects all at once.

The delimiter is the one that splits the header into most cells; quotes follow RFC 4180. Rows that
do not fit the header are problems of the table, each with the line on which it begins.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np

from calipers.arrays import I64
from calipers.errors import InputError
from calipers.io.reader import Problem, Sniffed
from calipers.io.source import HEAD, InputFile
from calipers.io.tables.columns import OBJECTS, hold_boxes
from calipers.io.tables.objects import BOX_LIST, TableReader
from calipers.io.tables.table import BLOCK, FileTable, TextCells, unprotect

DELIMITERS = (",", ";", "\t")
BLANK = " "  # between the cells that R writes if nobody asks for another sign
DIGITS = tuple(b"%d" % digit for digit in range(10))
QUOTED_NAMES = re.compile(r'"[^"]*"(?: "[^"]*")+')
ROWS_WITH_NAMES = 3  # that are looked at
UTF8_HINT = (
    "save the table as UTF-8 (in Excel: CSV UTF-8), or convert it from the encoding that it has: "
    "iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"
)
LONGEST_LINE = 1 << 20  # characters; as many bytes are read together
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # with its break, the last one without
BREAK = re.compile(r"\r\n|\r|\n")
SUFFIXES = (".csv", ".tsv", ".txt")


class DelimitedReader(TableReader):
    """A row per object; predictions have a score, and maybe a column for their model."""

    name = "csv"
    by_line = True
    may_omit_empty = True

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise a header line with names that we know, or the extension of a table."""
        header = file.head.split("\n", 1)[0]
        names = header_names(header)
        has_boxes = hold_boxes(names) or BOX_LIST in names
        known_names = {"id"}.union(*(column.aliases for column in OBJECTS.values()))
        has_suffix = Path(file.file).suffix.lower() in SUFFIXES
        is_table = has_boxes or names & known_names or has_suffix
        is_cut = any(sign in header for sign in DELIMITERS)
        # Blanks are in any text: only the columns of a box make it a table.
        if not is_table or not (is_cut or has_boxes):
            return None
        if OBJECTS["score"].among(dict.fromkeys(sorted(names), "")) is not None:
            return Sniffed(self.name, "predictions", "it is delimited text with a score column")
        if has_boxes:
            reason = "it is delimited text with a box in every row"
            return Sniffed(self.name, "references", reason)
        return Sniffed(self.name, "groups", "it is delimited text without boxes")

    def table(self, file: InputFile) -> FileTable:
        """Read the text."""
        return read_delimited(file)


def read_delimited(input_file: InputFile) -> FileTable:
    """Read delimited text into a table; the delimiter is taken from the header line.

    Names of rows that have no place in the header, as R writes them, are left out.
    """
    delimiter = find_delimiter(input_file)
    _, header = next(rows_of(input_file, delimiter), (1, []))
    names = _header(header, input_file.file)
    if _has_row_names(input_file, len(names), delimiter):
        names = ["", *names]
    body = read_body(input_file, len(names), delimiter)
    columns: dict[str, Sequence[str]] = dict(zip(names, body.columns))
    columns.pop("", None)  # the row labels of pandas, or the names of rows of R
    notes = list(input_file.notes)
    notes += body.notes(sum(unprotect(name.strip()) != name.strip() for name in header))
    if "" in names:
        notes.append("the first column has no name and was not read")
    # A number that was cut off is a number, too: 44 becomes 4. Programs end their last line.
    if len(body.lines) and input_file.data[len(input_file.data) - 1 :] in DIGITS:
        notes.append("the last line is not ended: if the file was cut off, so was its last number")
    return FileTable(
        input_file.file,
        "csv",
        columns,
        body.lines,
        by_line=True,
        problems=body.problems,
        notes=notes,
        source=input_file,
        decimal_comma=delimiter != ",",
    )


def _has_row_names(input_file: InputFile, width: int, delimiter: str) -> bool:
    """Return whether rows begin with their name, which has no place in the header, as R writes
    them: 1, 2, 3, or other numbers if the header is quoted as R quotes it.
    """
    rows = rows_of(input_file, delimiter)
    next(rows, None)
    first_cells = []
    for _, row in islice(rows, ROWS_WITH_NAMES):
        # Spreadsheets end rows with delimiters.
        if len(row) != width + 1 or not row[-1].strip():
            return False
        first_cells.append(row[0])
    is_quoted = bytes(input_file.data[:1]) == b'"'
    counts = [str(k) for k in range(1, len(first_cells) + 1)]
    is_named = is_quoted and all(cell.isdigit() for cell in first_cells)
    return bool(first_cells) and (first_cells == counts or is_named)


def decode(input_file: InputFile) -> str:
    """Return the text of a file, or name the byte that is not UTF-8."""
    return "".join(lines_of(input_file))


def lines_of(input_file: InputFile) -> Iterator[str]:
    """Yield the lines of a file with their breaks, without the whole of it in memory.

    Raises
    ------
    InputError
        A byte that is not UTF-8, NUL, or a line that no table has.
    """
    data = input_file.data
    decoder = codecs.getincrementaldecoder("utf-8")()
    rest, line = "", 1
    for start in range(0, len(data), LONGEST_LINE):
        piece = data[start : start + LONGEST_LINE]
        input_file.advance(start)
        is_last = start + len(piece) == len(data)
        try:
            text = rest + decoder.decode(piece, is_last)
        except UnicodeDecodeError as error:
            # The decoder may have kept bytes of the piece before.
            place = start + len(piece) - len(error.object) + error.start
            raise InputError(
                "text in UTF-8",
                rule="encoding",
                file=input_file.file,
                location=f"byte {place}",
                value=error.object[error.start : error.start + 10],
                hint=UTF8_HINT,
            ) from None
        if "\0" in text:
            # Valid UTF-8, but no text: most likely UTF-16 without a mark, or a binary file.
            where = f"line {line + text[: text.index(chr(0))].count(chr(10))}"
            expected = "text without NUL"
            raise InputError(expected, rule="encoding", file=input_file.file, location=where)
        lines = LINE.findall(text)
        # The last line goes on in the next piece, and so may a break of two signs.
        rest = "" if is_last else lines.pop()
        if len(rest) > LONGEST_LINE:
            raise InputError(
                f"lines of at most {LONGEST_LINE:,} bytes",
                rule="too-large",
                file=input_file.file,
                location=f"line {line + len(lines)}",
                hint="is it a table of text?",
            )
        line += len(lines)
        yield from lines


def find_delimiter(input_file: InputFile) -> str:
    """Return the sign among comma, semicolon and tab that splits the header into most cells."""
    text = input_file.data[:HEAD].decode("utf-8", "replace")
    # Quoted names may hold any of the three signs.
    first_line = text.lstrip("\r\n").split("\n", 1)[0]
    header = re.sub(r'"[^"]*"', "", first_line)
    # One name may have blanks: several are those that R quotes, or the columns of a box.
    if not any(sign in header for sign in DELIMITERS):
        is_quoted = QUOTED_NAMES.fullmatch(first_line.strip())
        if is_quoted or hold_boxes(header_names(first_line.strip())):
            return BLANK
    return max(DELIMITERS, key=header.count)


def rows_of(input_file: InputFile, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells); the line is the one on which a row begins; blank lines are skipped."""
    reader = csv.reader(lines_of(input_file), delimiter=delimiter, strict=True)
    line = 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            hint = "is a quote left open?"
            raise InputError(
                "delimited text",
                rule="csv-syntax",
                file=input_file.file,
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


@dataclass(frozen=True)
class Body:
    """The rows below a header, as columns."""

    columns: list[Sequence[str]]
    lines: I64
    problems: list[Problem]  # rows that do not fit the header
    n_quotes: int  # cells that lost the quote that our writer puts before formulas

    def notes(self, n_names: int = 0) -> list[str]:
        """Say how many quotes were removed, with those of ``n_names`` names in the header."""
        n = self.n_quotes + n_names
        if not n:
            return []
        return [f"{n} cells began with a quote that protects spreadsheets; it was removed"]


def read_body(input_file: InputFile, width: int, delimiter: str) -> Body:
    """Return the rows below the header as columns of ``width``, and those that do not fit it as
    problems.
    """
    problems: list[Problem] = []
    long_columns = [TextCells() for _ in range(width)]
    all_lines: list[I64] = []
    n_quotes = 0
    columns: list[Sequence[str]] = [[] for _ in range(width)]
    for lines, rows in _body_blocks(input_file, width, delimiter, problems):
        # The block before was not the last one: there is more than a list should hold.
        if all_lines:
            _add_block(long_columns, columns)
        all_lines.append(lines)
        columns = [[] for _ in range(width)]
        for k, cells in enumerate(zip(*rows)):
            columns[k], n = _unprotected(cells)
            n_quotes += n
    lines = np.concatenate([np.zeros(0, np.int64), *all_lines])
    if len(all_lines) <= 1:
        return Body(columns, lines, problems, n_quotes)
    _add_block(long_columns, columns)
    return Body([*long_columns], lines, problems, n_quotes)


def _add_block(long_columns: Sequence[TextCells], columns: Sequence[Sequence[str]]) -> None:
    for long_column, column in zip(long_columns, columns):
        long_column.add(column)


def _body_blocks(
    input_file: InputFile, width: int, delimiter: str, problems: list[Problem]
) -> Iterator[tuple[I64, list[list[str]]]]:
    """Yield the lines and cells of rows that fit the header, a block at a time."""
    header_is_next = True
    for lines, rows in _row_blocks(input_file, delimiter):
        # Nearly always all rows are as they should be, and no row is looked at by itself.
        if set(map(len, rows)) != {width} or not all(map(str.strip, (row[0] for row in rows))):
            lines, rows = _fitting_rows(lines, rows, width, delimiter, problems, header_is_next)
        elif header_is_next:
            lines, rows = lines[1:], rows[1:]
        header_is_next = False
        yield lines, rows


def _fitting_rows(
    lines: I64,
    rows: list[list[str]],
    width: int,
    delimiter: str,
    problems: list[Problem],
    header_is_next: bool,
) -> tuple[I64, list[list[str]]]:
    """Return the rows of ``width`` cells; the others are entered as problems, but for blank ones
    and the header.
    """
    fitting_lines, fitting_rows = [], []
    for line, row in zip(lines.tolist(), rows):
        if not "".join(row).strip():
            continue
        if header_is_next:
            header_is_next = False
            continue
        if len(row) > width and not any(row[width:]):
            # Spreadsheets write delimiters for empty columns to the right of the table.
            row = row[:width]
        if len(row) == width:
            fitting_lines.append(line)
            fitting_rows.append(row)
        else:
            problems.append(_ragged(line, row, width, delimiter))
    return np.array(fitting_lines, np.int64), fitting_rows


def _row_blocks(input_file: InputFile, delimiter: str) -> Iterator[tuple[I64, list[list[str]]]]:
    """Yield some thousand rows at a time, with the lines on which they begin."""
    reader = csv.reader(lines_of(input_file), delimiter=delimiter, strict=True)
    line = 1
    while True:
        rows: list[list[str]] = []
        try:
            rows.extend(islice(reader, BLOCK))
        except csv.Error:
            # Row by row it is known where the broken one begins.
            for _ in rows_of(input_file, delimiter):
                pass
            raise
        if not rows:
            return
        starts = np.arange(line, line + len(rows))
        if reader.line_num + 1 - line > len(rows):
            # Quoted cells hold line breaks: every one shifts the rows below.
            breaks = [len(BREAK.findall("".join(row))) for row in rows]
            starts[1:] += np.cumsum(breaks)[:-1]
        yield starts, rows
        line = reader.line_num + 1


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
            expected = "unique column names"
            raise InputError(expected, rule="dup-column", file=file, location=location, value=name)
        earlier_names.add(name.lower())
    return names


def _ragged(line: int, row: list[str], width: int, delimiter: str) -> Problem:
    hint = ""
    if delimiter == "," and len(row) > width:
        hint = "a decimal comma or an unquoted comma in a name?"
    location = f"{line}:{min(len(row), width) + 1}"
    return Problem("ragged", location, "", f"{width} cells", len(row), hint, ",".join(row))


def _unprotected(cells: Sequence[str]) -> tuple[list[str], int]:
    """Remove the quotes that our writer puts before formulas, and count them.

    `_header` does the same for the names.
    """
    plain = list(cells)
    # A quote anywhere is a cheap test; most columns have none, and their cells are left alone.
    if "'" not in "".join(plain):
        return plain, 0
    n = 0
    for row, cell in enumerate(plain):
        if cell[:1] == "'" and unprotect(cell) != cell:
            plain[row] = unprotect(cell)
            n += 1
    return plain, n


@lru_cache(maxsize=2)  # one reader after the other looks at the beginning of the same file
def header_names(text: str) -> frozenset[str]:
    """Return the names of the first line in lower case, whatever its delimiter."""
    header = text.split("\n", 1)[0]
    names = re.split("[,;\t]", header)
    if len(names) == 1:
        names = header.split(BLANK)
    return frozenset({name.strip().strip('"').lower() for name in names})
