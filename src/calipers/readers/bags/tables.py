# SPDX-License-Identifier: Apache-2.0
"""Open bags from a long table: a row per instance with its bag, place and value, and optionally its
model.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, raise_problems
from calipers.readers.bags.columns import BAG, VALUE, require_column
from calipers.readers.bags.model_maps import ModelMaps, check_shape
from calipers.readers.plain import read_plain
from calipers.readers.table_columns import column_of, missing_column
from calipers.readers.tabular import Table, codes, numbers, texts
from calipers.readers.volumes.volume import Volume

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
# Axes of a map, the most of them first.
PLACES = (("slice", "row", "column"), ("row", "column"), ("instance",))
ALIASES = {
    "slice": ("slice", "z"),
    "row": ("row",),
    "column": ("column", "col"),
    "instance": ("instance", "instance_id", "patch", "index"),
}
MODEL = ("model",)
LARGEST = 1 << 31


@dataclass(frozen=True)
class _Rows:
    """The rows in the order of model, bag and place; a map is a stretch of them."""

    table: Table
    order: I64  # (n,) row of the table
    starts: I64  # (m,) where every map begins
    stops: I64
    model: I64  # (m,)
    bag: I64  # (m,)
    values: F64  # (n,) in this order
    places: I64  # (n, axes) in this order, counted from 0
    axes: tuple[str, ...]  # columns of the places


def open_table(path: Path, model: str, *, unit: bool = True) -> list[ModelMaps]:
    """Return the maps of every model of a table (CSV, TSV or parquet).

    Parameters
    ----------
    model
        The name of the model if the table has no column ``model`` or only one model in it; with
        several models, a prefix of their names, unless it is empty.
    unit
        Whether values outside [0, 1] are errors here, with their line.

    Notes
    -----
    Columns: ``bag`` (or ``image``), ``value`` (or ``score``, ``probability``) and the place:
    ``instance``, or ``row`` and ``column``, or ``slice`` too. Places count from 0 or from 1, and
    every bag has all of them, each once.
    """
    table, _ = read_plain(path)
    bag, ids = _names(table, require_column(table, BAG, "bag"))
    model_code, names = np.zeros(len(table), np.int64), [""]
    column = column_of(table, MODEL)
    if column is not None:
        model_code, names = _names(table, column)
    rows = _sorted_rows(table, model_code, bag, _values(table, unit))
    shapes = _shapes(rows, ids)
    maps: list[dict[str, Volume]] = [{} for _ in names]
    # Rows are sorted by model, then by the code of their bag, which counts the ids in order.
    for k, (start, stop) in enumerate(zip(rows.starts.tolist(), rows.stops.tolist())):
        reader = partial(_stretch, rows.values, start, stop, shapes[k])
        volume = Volume(table.file, table.format, shapes[k], np.dtype(np.float64), reader)
        maps[int(rows.model[k])][ids[int(rows.bag[k])]] = volume
    if not names:
        return [ModelMaps(model, table.file, {})]
    models = []
    for k, own_maps in enumerate(maps):
        models.append(ModelMaps(_title(model, names, k), table.file, own_maps))
    return models


def _title(prefix: str, names: Sequence[str], k: int) -> str:
    own = names[k]
    if not own or (prefix and len(names) == 1):
        return prefix
    return f"{prefix}/{own}" if prefix else own


def _names(table: Table, column: str) -> tuple[I64, list[str]]:
    """Return the (n,) code of the name in every row, and the names; an empty name is an error."""
    raw, cells = codes(texts(table, column))
    clean, names = codes([unicodedata.normalize("NFC", cell.strip()) for cell in cells])
    name_code = clean[raw]
    if "" in names:
        row = int(np.flatnonzero(name_code == names.index(""))[0])
        raise table.problem(row, column, "missing-id", f"the {column} of every row", "").as_error(
            table.file
        )
    return name_code, names


def _values(table: Table, unit: bool) -> F64:
    name = require_column(table, VALUE, "value")
    values, bad = numbers(table, name)
    raise_problems([problem.as_error(table.file) for problem in bad.values()])
    for wrong, rule, expected in (
        (~np.isfinite(values), "non-finite", "a finite value for every instance"),
        (unit & ((values < 0) | (values > 1)), "score-range", "values in [0, 1]"),
    ):
        rows = np.flatnonzero(wrong)
        if len(rows):
            hint = "give probabilities, or 0 and 1" if rule == "score-range" else ""
            cell = texts(table, name)[rows[0]]
            raise table.problem(int(rows[0]), name, rule, expected, cell, hint).as_error(table.file)
    return values


def _sorted_rows(table: Table, model: I64, bag: I64, values: F64) -> _Rows:
    """Return the rows by model, bag and place."""
    columns = _place_columns(table)
    places = np.stack([_whole(table, name) for name in columns], axis=1)
    # Places count from 0 or from 1, and some bag has the first one; `_shapes` checks the rest.
    if len(table):
        places = places - places.min(axis=0)
    order = np.lexsort((*places.T[::-1], bag, model))
    model, bag = model[order], bag[order]
    new = np.flatnonzero((np.diff(model, prepend=-1) != 0) | (np.diff(bag, prepend=-1) != 0))
    stops = np.append(new[1:], len(order)) if len(new) else new
    return _Rows(
        table, order, new, stops, model[new], bag[new], values[order], places[order], columns
    )


def _place_columns(table: Table) -> tuple[str, ...]:
    for axes in PLACES:
        columns = [column_of(table, ALIASES[axis]) for axis in axes]
        if all(columns):
            return tuple(column for column in columns if column is not None)
    raise missing_column(
        table,
        "a column instance, or columns row and column",
        "a row holds the value of one instance: bag,row,column,value or bag,instance,value",
    )


def _whole(table: Table, name: str) -> I64:
    values, bad = numbers(table, name)
    raise_problems([problem.as_error(table.file) for problem in bad.values()])
    rows = np.flatnonzero(~((values >= 0) & (values < LARGEST) & (values == np.floor(values))))
    if len(rows):
        cell = texts(table, name)[rows[0]]
        expected = "a whole number that counts from 0 or 1"
        raise table.problem(int(rows[0]), name, "type", expected, cell).as_error(table.file)
    places = values.astype(np.int64)
    if len(places) and places.min() > 1:
        expected, lowest = "places that count from 0 or 1", int(places.min())
        row = int(places.argmin())
        raise table.problem(row, name, "instances", expected, lowest).as_error(table.file)
    return places


def _shapes(rows: _Rows, ids: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the shape of every map; a place twice, or one that is missing, is an error."""
    if not len(rows.starts):
        return []
    same = np.flatnonzero((np.diff(rows.places, axis=0) == 0).all(axis=1)) + 1
    same = same[~np.isin(same, rows.starts)]
    if len(same):
        row, name = int(rows.order[same[0]]), rows.axes[-1]
        at = _place(rows, rows.places[same[0]])
        expected = f"every instance of a bag once, not {at} twice"
        raise rows.table.problem(row, name, "instances", expected, None).as_error(rows.table.file)
    sides = np.maximum.reduceat(rows.places, rows.starts, axis=0) + 1
    counts = rows.stops - rows.starts
    # Multiplied as floats: integers up to 2^31 per side may overflow. Rounding sets in above 2^53,
    # far more than the rows of a table, so equality is exact wherever it can hold.
    wrong = np.flatnonzero(sides.astype(np.float64).prod(axis=1) != counts)
    if len(wrong):
        raise _hole(rows, int(wrong[0]), tuple(sides[wrong[0]].tolist()), ids)
    shapes = [tuple(side) for side in sides.tolist()]
    for shape in set(shapes):
        check_shape(shape, 8, rows.table.file)
    return shapes


def _hole(rows: _Rows, k: int, shape: tuple[int, ...], ids: Sequence[str]) -> InputError:
    """Return the error for a bag that lacks an instance, with the first one that it lacks."""
    start, stop = int(rows.starts[k]), int(rows.stops[k])
    flat = np.zeros(stop - start, np.float64)
    for axis, side in enumerate(shape):
        flat = flat * side + rows.places[start:stop, axis]
    gaps = np.flatnonzero(flat != np.arange(stop - start))
    first: list[Any] = []
    position = int(gaps[0]) if len(gaps) else stop - start
    for side in reversed(shape):
        first.insert(0, position % side)
        position //= side
    return InputError(
        f"a value for each of {' x '.join(map(str, shape))} instances",
        rule="instances",
        file=rows.table.file,
        location=f"bag {ids[int(rows.bag[k])]!r}",
        value=f"{stop - start}; the first missing one is {_place(rows, first)}, counted from 0",
        hint="every bag needs a value for each of its instances",
    )


def _place(rows: _Rows, place: Any) -> str:
    return ", ".join(f"{name} {int(at)}" for name, at in zip(rows.axes, place))


def _stretch(values: F64, start: int, stop: int, shape: tuple[int, ...]) -> F64:
    return values[start:stop].reshape(shape)
