# SPDX-License-Identifier: Apache-2.0
"""Read the boxes of the findings of a bag from the table of its label.

Which instances a box makes positive is decided elsewhere (`calipers.stability.instances`).
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
    """Boxes of bags in pixels of their images; a bag not in `of` is positive, but has no box."""

    of: Mapping[str, F64]  # bag -> (n, 4) corners x0 y0 x1 y1; (0, 4): the bag is negative
    sizes: Mapping[str, tuple[float, float]]  # bag -> width, height of its image
    columns: tuple[str, ...] = ()  # of the table

    def without_unknown(self, positive: Flags, bags: Sequence[str], file: str) -> BagBoxes:
        """Return the boxes without the positive bags that have none: their place is unknown."""
        boxes: dict[str, F64] = {}
        for bag, is_positive in zip(bags, positive.tolist()):
            own = self.of[bag]
            if len(own) and not is_positive:
                raise InputError(
                    "no box in a bag of label 0",
                    rule="labels-differ",
                    file=file,
                    location=f"bag {bag!r}",
                    value=f"{len(own)} boxes",
                    hint="label the bag 1, or leave the cells of its box empty",
                )
            if len(own) or not is_positive:
                boxes[bag] = own
        sizes = {bag: size for bag, size in self.sizes.items() if bag in boxes}
        return replace(self, of=boxes, sizes=sizes)


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
    has_box: Flags = np.asarray(np.isfinite(cells).any(axis=1))
    sizes = np.stack([_numbers(table, name) for name in size_columns], axis=1)
    for row in np.flatnonzero(has_box).tolist():
        _check(table, row, columns, cells, size_columns, sizes)
    corners, _ = to_corners(cells, kind)
    is_empty = has_box & np.any(corners[:, 2:] <= corners[:, :2], axis=1)
    for row in np.flatnonzero(is_empty).tolist():
        value = [float(side) for side in corners[row]]
        problem = table.problem(
            row, columns[0], "zero-area", "a second corner beyond the first", value
        )
        raise problem.as_error(table.file)
    boxes: dict[str, F64] = {}
    bag_sizes: dict[str, tuple[float, float]] = {}
    for bag, own in zip(bags, rows):
        boxes[bag] = corners[[row for row in own if has_box[row]]]
        size = _size(table, own, sizes, size_columns)
        if size is not None:
            bag_sizes[bag] = size
    return BagBoxes(boxes, bag_sizes, (*columns, *size_columns))


def _layout(table: Table) -> tuple[str, tuple[str, ...]] | None:
    for kind, names in BOX_LAYOUTS:
        columns = [column_of(table, (name,)) for name in names]
        if len(names) == CORNERS and all(columns):
            return kind, tuple(column for column in columns if column is not None)
    return None


def _size_columns(table: Table) -> tuple[str, str]:
    width, height = column_of(table, ALIASES["width"]), column_of(table, ALIASES["height"])
    if width is None or height is None:
        raise missing_column(
            table,
            "columns width and height beside boxes",
            "boxes are in pixels of the image: its size tells which instances they cover",
        )
    return width, height


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
    """Return the size of a bag, which all its rows must agree on; None if no row has it."""
    first: tuple[float, float] | None = None
    for row in own:
        if not np.isfinite(sizes[row]).all():
            continue
        size = (float(sizes[row, 0]), float(sizes[row, 1]))
        if first is None:
            first = size
        if size != first:
            problem = table.problem(
                row, columns[0], "size-conflict", "one size per image", list(size)
            )
            raise problem.as_error(table.file)
    return first
