# SPDX-License-Identifier: Apache-2.0
"""What the tables of data sets share: fixed names of columns, and columns made from others.

A `ListReader` opens the table of a data set and says which column is which; the rows are then read
as those of every other table (`calipers.io.tables.objects`). A `DerivedTable` has columns that the
file does not have, such as the corners of a box that the file keeps in one cell; its messages name
the place in the file. `expand_strings` makes a row of every box of a ``PredictionString``.

The readers of this package call them; `calipers.io.read` calls the readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from calipers.data.rules import Role
from calipers.io.reader import (
    ObjectPart,
    Options,
    Problem,
    ReferenceFile,
    ReferenceIndex,
    Sniffed,
)
from calipers.io.source import InputFile
from calipers.io.tables.columns import missing_column
from calipers.io.tables.delimited import header_names, read_delimited
from calipers.io.tables.objects import TableReader, predictions_from, references_from
from calipers.io.tables.table import Cells, FileTable, texts

PREDICTION_STRING = "predictionstring"


@dataclass(frozen=True)
class DerivedTable(FileTable):
    """A table with columns that were made from those of a file."""

    made_from: Mapping[str, str] = field(default_factory=dict)  # own column -> that of the file
    # Where the row of each line is, if several rows share a line or come from several files.
    places: Sequence[str] = ()

    def locate(self, line: int, column: str) -> str:
        """Return the place in the file of a cell."""
        if self.places:
            return self.places[line]
        return super().locate(line, self.made_from.get(column, column))

    def problem(
        self, row: int, column: str, rule: str, expected: str, value: object = None, hint: str = ""
    ) -> Problem:
        """Return a problem of one cell, under the name of its column in the file."""
        problem = super().problem(row, column, rule, expected, value, hint)
        place = self.places[int(self.lines[row])] if self.places else ""
        return replace(problem, field=self.made_from.get(column, column), origin=place)


class ListReader(TableReader):
    """The table of a data set.

    Its columns have fixed names, which options for the other file do not change.
    """

    box_format: ClassVar[str] = "xyxy"
    columns: ClassVar[Mapping[str, str]] = {}  # our name -> that of the file in lower case
    submission: ClassVar[str] = ""  # what a file with a string of boxes per image is called

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the header of a submission, or that of the data set."""
        names = header_names(file.head)
        if self.submission and names == {self.columns["image"], PREDICTION_STRING}:
            return Sniffed(self.name, "predictions", f"its header is that of {self.submission}")
        return self.sniff_rows(names, file.head)

    def sniff_rows(self, names: Set[str], head: str) -> Sniffed | None:
        """Recognise the header of a file with a row per object."""
        return None

    def table(self, file: InputFile) -> FileTable:
        """Read the text."""
        return replace(read_delimited(file), format=self.name)

    def arranged(self, table: FileTable, role: Role) -> FileTable:
        """Return the table with all columns that a row per object needs."""
        return table

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read the rows as references."""
        self._boxes_only(file, options)
        table = self.arranged(self.table(file), "references")
        return references_from(table, self._own_options(table, options))

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read the rows as predictions."""
        self._boxes_only(file, options)
        table = self.arranged(self.table(file), "predictions")
        index = replace(index, images=index.as_text)
        return predictions_from(table, index, self._own_options(table, options))

    def _own_options(self, table: FileTable, options: Options) -> Options:
        names = names_in(table)
        columns = {}
        for name, column in options.columns.items():
            if column in table.names:
                columns[name] = column
        for name, column in self.columns.items():
            if column in names:
                columns[name] = names[column]
        return replace(options, columns=columns, box_format=self.box_format)


def names_in(table: FileTable) -> dict[str, str]:
    """Return the columns of a table by their names in lower case."""
    return {name.lower(): name for name in table.names}


def column_in(table: FileTable, name: str) -> str:
    """Return the column of a name in lower case, or raise."""
    names = names_in(table)
    if name not in names:
        raise missing_column(table, f"a column {name!r}, as format {table.format} has it")
    return names[name]


def derived(
    table: FileTable, columns: Mapping[str, Cells], made_from: Mapping[str, str] | None = None
) -> DerivedTable:
    """Return a table with further columns, or with others in place of those of the same name."""
    whole = {**table.columns, **columns}
    if isinstance(table, DerivedTable):
        return replace(table, columns=whole, made_from={**table.made_from, **(made_from or {})})
    return DerivedTable(
        table.file,
        table.format,
        whole,
        table.lines,
        table.by_line,
        table.problems,
        table.notes,
        table.source,
        table.decimal_comma,
        made_from or {},
    )


def yes_no_class(table: FileTable, column: str, name: str, box: Sequence[str]) -> FileTable:
    """Return the table with a class instead of 1, and nothing instead of 0, in a column.

    Rows with another value are problems. They lose class and box and keep their image, which is not
    lost with a box.
    """
    words = {"1": name, "1.0": name, "0": "", "0.0": ""}
    cells = [cell.strip() for cell in texts(table, column)]
    problems = {}
    for row, cell in enumerate(cells):
        if cell not in words:
            problems[row] = table.problem(row, column, "type", "0 or 1", cell)
    columns: dict[str, list[str]] = {column: [words.get(cell, "") for cell in cells]}
    if problems:
        for box_name in box:
            own_name = column_in(table, box_name)
            columns[own_name] = list(texts(table, own_name))
            for row in problems:
                columns[own_name][row] = ""
    table = derived(table, columns)
    return replace(table, problems=[*table.problems, *problems.values()])


def split_numbers(
    table: FileTable, column: str, parts: Sequence[str], expected: str, *, of_image: bool = False
) -> FileTable:
    """Return the table with a column for each of the numbers that a cell lists with commas; an
    empty cell gives empty ones.

    A cell with another count is a problem of its row, and raises if it is about the image.
    """
    columns: dict[str, list[str]] = {name: [] for name in parts}
    problems = []
    for row, cell in enumerate(texts(table, column)):
        numbers = [number.strip() for number in cell.split(",")]
        if len(numbers) != len(parts) or not all(numbers):
            numbers = [""] * len(parts)
            if cell.strip():
                problems.append(table.problem(row, column, "box-shape", expected, cell))
        for name, number in zip(parts, numbers):
            columns[name].append(number)
    if of_image:
        table.refuse(problems)
    table = derived(table, columns, dict.fromkeys(parts, column))
    return replace(table, problems=[*table.problems, *problems])


def expand_strings(
    table: FileTable, image: str, names: Sequence[str], example: str
) -> DerivedTable:
    """Return a row for every box of the cells of a column ``PredictionString``.

    Parameters
    ----------
    names
        The columns that the words of a box are, in their order.
    example
        What a box looks like, for messages.

    Notes
    -----
    A cell whose words do not make whole boxes is one broken record.
    """
    strings = column_in(table, PREDICTION_STRING)
    columns: dict[str, list[str]] = {name: [] for name in (image, *names)}
    places: list[str] = []
    problems = list(table.problems)
    keys: set[str] = set()
    for row, (key, cell) in enumerate(zip(texts(table, image), texts(table, strings))):
        words = cell.split()
        if key in keys:
            expected = "one row of each image, with all of its boxes"
            problem = table.problem(row, image, "dup-image", expected, key)
            problems.append(replace(problem, origin=problem.location))
            continue
        keys.add(key)
        if len(words) % len(names):
            hint = f"a box is {len(names)} words: {example}"
            expected = f"boxes of {len(names)} words each"
            value = f"{len(words)} words"
            problem = table.problem(row, strings, "box-shape", expected, value, hint)
            problems.append(replace(problem, origin=problem.location))
            continue
        location = table.locate(int(table.lines[row]), strings)
        for start in range(0, len(words), len(names)):
            columns[image].append(key)
            for name, word in zip(names, words[start:]):
                columns[name].append(word)
            places.append(f"{location} box {start // len(names) + 1}")
    return DerivedTable(
        table.file,
        table.format,
        dict(columns),
        np.arange(len(places)),
        table.by_line,
        problems,
        table.notes,
        table.source,
        made_from=dict.fromkeys(names, strings),
        places=places,
    )
