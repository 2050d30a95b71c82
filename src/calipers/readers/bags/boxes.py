# SPDX-License-Identifier: Apache-2.0
"""Boxes of what is to be found in a bag, beside its label: which instances they make positive is a
rule of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, raise_problems
from calipers.readers.layout import ALIASES, BOX_LAYOUTS
from calipers.readers.table_columns import column_of, missing_column
from calipers.readers.tabular import Table, numbers
from calipers.tables.bags import Flags
from calipers.tables.boxes import to_corners

F64 = NDArray[np.float64]
CORNERS = 4


@dataclass(frozen=True)
class BagBoxes:
    """Boxes in pixels of the image of a bag; a bag that is not in `of` has something to find, but
    no box of it.
    """

    of: Mapping[str, F64]  # bag -> (n, 4) corners x0 y0 x1 y1; (0, 4): there is nothing to find
    sizes: Mapping[str, tuple[float, float]]  # bag -> width, height of its image
    columns: tuple[str, ...] = ()  # of the table

    def without_unknown(self, positive: Flags, bags: Sequence[str], file: str) -> BagBoxes:
        """Return the boxes without those bags that are positive and have none: where it is, nobody
        said.
        """
        wrong = next(
            (bag for bag, one in zip(bags, positive.tolist()) if not one and len(self.of[bag])),
            None,
        )
        if wrong is not None:
            raise InputError(
                "no box in a bag of label 0",
                rule="labels-differ",
                file=file,
                location=f"bag {wrong!r}",
                value=f"{len(self.of[wrong])} boxes",
                hint="a box is around something to find: label the bag 1, or leave the cells of its box empty",
            )
        kept = {
            bag: self.of[bag]
            for bag, one in zip(bags, positive.tolist())
            if not one or len(self.of[bag])
        }
        return replace(
            self, of=kept, sizes={bag: self.sizes[bag] for bag in kept if bag in self.sizes}
        )


def read_boxes(table: Table, rows: list[list[int]], bags: Sequence[str]) -> BagBoxes | None:
    """Return the boxes of a table, with (0, 4) for bags without; None if it has no columns of
    boxes.
    """
    layout = _layout(table)
    if layout is None:
        return None
    kind, columns = layout
    size_columns = _size_columns(table)
    cells = np.stack([_numbers(table, name) for name in columns], axis=1)
    given: Flags = np.asarray(np.isfinite(cells).any(axis=1))
    sizes = np.stack([_numbers(table, name) for name in size_columns], axis=1)
    for row in np.flatnonzero(given).tolist():
        _check(table, row, columns, cells, size_columns, sizes)
    corners, _ = to_corners(cells, kind)
    for row in np.flatnonzero(given & np.any(corners[:, 2:] <= corners[:, :2], axis=1)).tolist():
        value = [float(side) for side in corners[row]]
        problem = table.problem(
            row, columns[0], "zero-area", "a second corner beyond the first", value
        )
        raise problem.as_error(table.file)
    of = {bag: corners[[row for row in own if given[row]]] for bag, own in zip(bags, rows)}
    found = {bag: _size(table, own, sizes, size_columns) for bag, own in zip(bags, rows)}
    known = {bag: size for bag, size in found.items() if size is not None}
    return BagBoxes(of, known, (*columns, *size_columns))


def _layout(table: Table) -> tuple[str, tuple[str, ...]] | None:
    for kind, names in BOX_LAYOUTS:
        found = [column_of(table, (name,)) for name in names]
        if len(names) == CORNERS and all(found):
            return kind, tuple(name for name in found if name is not None)
    return None


def _size_columns(table: Table) -> tuple[str, str]:
    found = column_of(table, ALIASES["width"]), column_of(table, ALIASES["height"])
    if found[0] is None or found[1] is None:
        raise missing_column(
            table,
            "columns width and height beside boxes",
            "boxes are in pixels of the image: its size says which instances of the map they cover",
        )
    return found[0], found[1]


def _numbers(table: Table, name: str) -> F64:
    values, bad = numbers(table, name)
    raise_problems([problem.as_error(table.file) for problem in bad.values()])
    return values


def _check(
    table: Table,
    row: int,
    columns: Sequence[str],
    cells: F64,
    size_columns: Sequence[str],
    sizes: F64,
) -> None:
    """Raise for a row whose box or size is not whole."""
    for k in np.flatnonzero(~np.isfinite(cells[row])).tolist():
        problem = table.problem(
            row, columns[k], "box-shape", "four finite numbers, or four empty cells", cells[row, k]
        )
        raise problem.as_error(table.file)
    for k in np.flatnonzero(~(np.isfinite(sizes[row]) & (sizes[row] > 0))).tolist():
        problem = table.problem(
            row, size_columns[k], "image-size", "a size above zero", sizes[row, k]
        )
        raise problem.as_error(table.file)


def _size(
    table: Table, own: Sequence[int], sizes: F64, columns: Sequence[str]
) -> tuple[float, float] | None:
    """Return the one size of a bag; None if its rows do not say it."""
    said = [
        (row, (float(sizes[row, 0]), float(sizes[row, 1])))
        for row in own
        if np.isfinite(sizes[row]).all()
    ]
    for row, size in said:
        if size != said[0][1]:
            problem = table.problem(
                row, columns[0], "size-conflict", "one size per image", list(size)
            )
            raise problem.as_error(table.file)
    return said[0][1] if said else None
