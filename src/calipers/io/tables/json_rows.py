# SPDX-License-Identifier: Apache-2.0
"""The format ``json-rows``: a table of objects whose rows are JSON objects with names of columns.

So pandas writes a table with ``to_json(orient="records")``, as a list or with an object per line
(``lines=True``), and so do many scripts. The columns are those of delimited text: `JsonRowsReader`
makes a `FileTable` of the rows, and `calipers.io.tables.objects` does the rest. Cells are texts,
numbers, true and false, or null, which is an empty cell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from calipers.errors import InputError
from calipers.io.lists.listing import DerivedTable
from calipers.io.reader import Problem, Sniffed
from calipers.io.source import InputFile
from calipers.io.tables.columns import OBJECTS, hold_boxes
from calipers.io.tables.objects import BOX_LIST, TableReader
from calipers.io.tables.table import FileTable

CELLS = (str, int, float, bool, type(None))


class JsonRowsReader(TableReader):
    """A list of flat JSON objects, of which each is a row."""

    name = "json-rows"
    may_omit_empty = True

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise a list whose first object has the columns of a box."""
        row = _first_row(file.head)
        if row is None or not all(_is_cell(name, cell) for name, cell in row.items()):
            return None
        names = {name.lower() for name in row}
        # Records of COCO have a list as well, and ids of images and categories.
        has_list = BOX_LIST in names and not {"image_id", "category_id"} & names
        if not hold_boxes(names) and not has_list:
            return None
        role = "predictions" if names & set(OBJECTS["score"].aliases) else "references"
        return Sniffed(self.name, role, "it is a list of JSON objects with a box in every row")

    def table(self, file: InputFile) -> FileTable:
        """Read the rows; a column that a row lacks is empty there."""
        from calipers.io.coco.walk import read_value

        rows = read_value(file)
        if not isinstance(rows, list):
            raise InputError("a list of rows", rule="format", file=file.file, value=type(rows))
        names: dict[str, None] = {}
        sound: list[Mapping[str, Any]] = []
        places: list[int] = []
        problems = []
        for k, row in enumerate(rows):
            problem = _problem(row, k)
            if problem is not None:
                problems.append(problem)
                continue
            names.update(dict.fromkeys(row))
            sound.append(row)
            places.append(k)
        columns: dict[str, list[str]] = {name: [] for name in names}
        for row in sound:
            for name, cells in columns.items():
                cells.append(_text(row.get(name)))
        return JsonTable(
            file.file,
            self.name,
            columns,
            np.array(places, np.int64),
            by_line=False,
            problems=problems,
            notes=list(file.notes),
            source=file,
        )


class JsonTable(DerivedTable):
    """Rows of a list; places are JSON pointers."""

    def locate(self, line: int, column: str) -> str:
        """Return the pointer to a cell."""
        return f"/{line}/{self.made_from.get(column, column)}"


def _first_row(head: str) -> Mapping[str, Any] | None:
    """Return the first object of a list, if the beginning of the file holds all of it."""
    if head[:1] != "[":
        return None
    try:
        row, _ = json.JSONDecoder().raw_decode(head[1:].lstrip())
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _problem(row: Any, k: int) -> Problem | None:
    """Return what is wrong with a row that is no flat object."""
    text = str(row)[:2000]
    if not isinstance(row, dict):
        return Problem("type", f"/{k}", "row", "an object of cells", row, "", text)
    for name, cell in row.items():
        if not _is_cell(name, cell):
            expected = "a text, a number, true, false or null"
            return Problem("type", f"/{k}/{name}", name, expected, cell, "", text, f"/{k}")
    return None


def _is_cell(name: str, value: Any) -> bool:
    """Return whether a value may stand in a cell: a list only where it is a box."""
    if isinstance(value, list) and name.lower() == BOX_LIST:
        return all(isinstance(number, int | float) for number in value)
    return isinstance(value, CELLS)


def _text(cell: Any) -> str:
    """Return a cell as delimited text has it."""
    if cell is None:
        return ""
    if isinstance(cell, list):
        return ",".join(map(str, cell))
    return str(cell).lower() if isinstance(cell, bool) else str(cell)
