# SPDX-License-Identifier: Apache-2.0
"""Any table (pandas frame, arrow table, mapping of columns, file) as columns of numbers and texts.

A column of a CSV file is a number if every cell is one, and a text if none is; if it is mixed, the
user has to declare it. Tables in memory and parquet files have types of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, did_you_mean
from calipers.readers.tabular import Cells, Table, empty, numbers, texts

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]
MEMORY = "<table>"


@dataclass(frozen=True)
class Frame:
    """A table, and the declared order of the values of its columns."""

    table: Table
    orders: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # columns that are categories, whatever they hold

    @classmethod
    def of(
        cls, source: Any, required: Sequence[str], levels: Mapping[str, Sequence[Any]] | None = None
    ) -> Frame:
        """Return the frame of any table.

        Parameters
        ----------
        wanted
            The columns that will be used; those of tables in memory are converted, others are not
            looked at.
        levels
            Declares columns as categories, in this order.
        """
        orders_from_levels = {
            name: tuple(map(str, values)) for name, values in (levels or {}).items()
        }
        if isinstance(source, Frame):
            frame = cls(source.table, {**source.orders, **orders_from_levels})
        elif isinstance(source, Table):
            frame = cls(source, orders_from_levels)
        else:
            columns, orders = _columns(source, [*required, *orders_from_levels])
            n = len(next(iter(columns.values()), ()))
            frame = cls(
                Table(MEMORY, "memory", columns, np.arange(n), False),
                {**orders, **orders_from_levels},
            )
        for name in (*required, *orders_from_levels):
            frame.require(name)
        return frame

    def __len__(self) -> int:
        return len(self.table)

    def require(self, name: str) -> None:
        """Raise if there is no such column."""
        _require(name, self.table.names, self.table.file)

    def is_category(self, name: str) -> bool:
        """Return whether a column holds categories; a mixture of numbers and other texts is an
        error.
        """
        cells = self.table.columns[name]
        if name in self.orders:
            return True
        if not isinstance(cells, list):
            return False
        if self.table.format != "csv":
            return True
        _, problems = numbers(self.table, name)
        if problems and len(problems) < int((~empty(cells)).sum()):
            row, problem = next(iter(problems.items()))
            hint = problem.hint or "if these are categories, declare them as levels"
            expected = "a number, as in other rows"
            raise self.table.problem(row, name, "type", expected, cells[row], hint).as_error(
                self.table.file
            )
        return bool(problems)

    def numbers(self, name: str) -> F64:
        """Return a column as numbers, NaN where a cell is empty; a text is an error that says
        where.
        """
        cells = self.table.columns[name]
        values, problems = numbers(self.table, name)
        for problem in problems.values():
            raise problem.as_error(self.table.file)
        if isinstance(cells, list) and self.table.format != "csv" and not empty(cells).all():
            row = int(np.flatnonzero(~empty(cells))[0])
            raise self.table.problem(row, name, "type", "a number", cells[row]).as_error(
                self.table.file
            )
        infinite = np.flatnonzero(np.isinf(values))
        if len(infinite):
            row = int(infinite[0])
            raise self.table.problem(
                row, name, "non-finite", "a finite number", values[row]
            ).as_error(self.table.file)
        return values

    def texts(self, name: str) -> NDArray[np.str_]:
        """Return a column as text, empty where a cell is."""
        return np.array(texts(self.table, name), np.str_)

    def missing(self, name: str, *, as_text: bool = False) -> Flags:
        """Return which cells of a column hold nothing; a number that is NaN is nothing, a text
        ``nan`` is a text.
        """
        if as_text or self.is_category(name):
            return empty(self.table.columns[name])
        return np.isnan(self.numbers(name))

    def rows(self, rows: NDArray[np.int64]) -> Frame:
        """Return the frame with only these rows; errors still name the original ones."""
        return Frame(self.table.rows(rows), self.orders)

    def with_column(self, name: str, cells: Cells, order: tuple[str, ...] | None = None) -> Frame:
        """Return the frame with a column added or replaced; with an ``order`` it is one of
        categories.
        """
        orders = {key: value for key, value in self.orders.items() if key != name}
        table = replace(self.table, columns={**self.table.columns, name: cells})
        return Frame(table, orders if order is None else {**orders, name: order})


def _require(name: str, names: Sequence[str], file: str) -> None:
    if name not in names:
        hint = did_you_mean(name, names)
        raise InputError(
            f"a column {name!r}", rule="missing-column", file=file, field=name, hint=hint
        )


def _columns(
    source: Any, required: Sequence[str]
) -> tuple[dict[str, Cells], dict[str, tuple[str, ...]]]:
    """Return some columns of a table in memory, and the order of those that are declared as
    categories.
    """

    def take(name: str) -> Any:
        return source.column(name).to_pylist() if hasattr(source, "column_names") else source[name]

    if isinstance(source, Mapping):
        names = list(source)
    elif hasattr(source, "column_names") and hasattr(source, "column"):  # arrow
        names = list(source.column_names)
    elif hasattr(source, "columns") and hasattr(source, "__getitem__"):  # pandas, polars
        names = list(source.columns)
    else:
        expected = "a pandas frame, an arrow table or a mapping of columns"
        raise InputError(expected, rule="type", file=MEMORY, value=type(source).__name__)
    for name in required:
        _require(name, names, MEMORY)
    raw_columns = {name: take(name) for name in dict.fromkeys(required)}
    orders = {}
    for name, column in raw_columns.items():
        if _categorical(column):
            orders[name] = tuple(map(str, column.cat.categories))
    columns = {name: _cells(name, column) for name, column in raw_columns.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError("columns of one length", rule="length", file=MEMORY, value=lengths)
    return columns, orders


def _categorical(column: Any) -> bool:
    return hasattr(getattr(column, "dtype", None), "categories") and hasattr(column, "cat")


def _cells(name: str, column: Any) -> Cells:
    """Return numbers as an array and anything else as texts; missing values are NaN or an empty
    text.
    """
    array = np.asarray(column)
    if array.ndim != 1:
        raise InputError(
            "one value per row", rule="length", file=MEMORY, field=name, value=array.shape
        )
    if array.dtype.kind in "biuf":
        return array.astype(np.float64) if array.dtype.kind in "bf" else array
    cells = array.tolist()
    if array.dtype.kind in "US":
        return [str(cell) for cell in cells]
    present = [cell for cell in cells if not _nothing(cell)]
    if all(isinstance(cell, bool | int | float | np.number) for cell in present) and present:
        numbers = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            if not _nothing(cell):
                numbers[row] = float(cell)
        return numbers
    if all(isinstance(cell, str | int) for cell in present):
        texts = [str(cell) for cell in cells]
        for row, cell in enumerate(cells):
            if _nothing(cell):
                texts[row] = ""
        return texts
    strange = next(cell for cell in present if not isinstance(cell, str))
    raise InputError("numbers or text", rule="column-type", file=MEMORY, field=name, value=strange)


def _nothing(cell: Any) -> bool:
    return (
        cell is None
        or (isinstance(cell, float) and cell != cell)
        or type(cell).__name__ in ("NAType", "NaTType")
    )
