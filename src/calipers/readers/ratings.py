# SPDX-License-Identifier: Apache-2.0
"""Read a table of ratings: find its columns, check every cell, and say how it was interpreted.

`calipers.statistics.agreement` calls `read_ratings`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError, raise_problems
from calipers.readers.parts import Problem
from calipers.readers.rating_columns import RatingChoices, RatingColumns, find_rating_columns
from calipers.readers.rating_scales import RatedColumn, read_scale
from calipers.readers.source import open_source
from calipers.readers.tabular import Table, codes, empty, numbers, texts
from calipers.tables.intake import FileIntake
from calipers.tables.ratings import NameCodes, Ratings

I64 = NDArray[np.int64]
Problems = dict[int, Problem]  # by row, the first of each

YES_NO = {"true": "1", "false": "0", "yes": "1", "no": "0"}


@dataclass(frozen=True)
class _File:
    table: Table
    sha256: str = ""
    size: int = 0


def read_ratings(
    source: Any, choices: RatingChoices | None = None, *, lenient: bool = False
) -> Ratings:
    """Read a table with a row per rating.

    Parameters
    ----------
    source
        A file (CSV, TSV or parquet), or columns by name: a mapping of arrays, a pandas frame.
    choices
        Which column is what; what is left out is found by its name.
    lenient
        Set rows aside that lack a rating, a criterion or their unit, or that hold an unexpected
        value, and count them. Otherwise the first hundred of them are the error.
    """
    file = _open(source)
    table, choices = file.table, choices or RatingChoices()
    columns = find_rating_columns(table, choices)
    reading, problems = read_scale(table, columns.rating, choices)
    criteria, more = _criteria(table, columns)
    problems = {**_nameless(table, columns), **more, **problems}
    sound_rows = _sound_rows(table, problems, lenient)
    part = table.rows(sound_rows)
    item, rater = _item(part, columns), _name_codes(part, columns.rater)
    _check_rows(part, columns, item, rater)
    criteria = {name: values[sound_rows] for name, values in criteria.items()}
    _check_items(part, item, criteria)
    set_aside = Counter(problem.rule for problem in (*table.problems, *problems.values()))
    n_records = len(table) + len(table.problems)
    intake = FileIntake(
        table.file,
        "ratings",
        table.format,
        n_records,
        len(part),
        dict(set_aside),
        file.sha256,
        file.size,
        tuple(table.notes),
    )
    ratings = _assemble(part, columns, reading.take(sound_rows), criteria, intake)
    if not criteria and not ratings.repeated:
        raise InputError(
            "a column of a criterion, or several ratings per item",
            rule="no-criteria",
            file=table.file,
            value=list(table.names),
            hint="name the columns with --criteria COLUMN,... or --item COLUMN",
        )
    return ratings


def _open(source: Any) -> _File:
    if isinstance(source, str | PathLike):
        input_file = open_source(fspath(source))
        if input_file.data[:1] in (b"{", b"["):
            raise InputError(
                "a table (csv, tsv or parquet)", rule="format", file=input_file.file, value="JSON"
            )
        from calipers.readers import columnar, delimited

        reader = columnar if input_file.data[:4] == columnar.MAGIC else delimited
        return _File(reader.read_table(input_file), input_file.sha256, input_file.size)
    if not isinstance(source, Mapping) and not hasattr(source, "columns"):
        raise UsageError(
            f"ratings are a file, a mapping of columns or a frame, not {type(source).__name__}"
        )
    names = list(source.columns) if hasattr(source, "columns") else list(source)
    cells = {str(name): _cells(str(name), source[name]) for name in names}
    if len({len(column) for column in cells.values()}) > 1:
        lengths = {name: len(column) for name, column in cells.items()}
        raise InputError("columns of one length", rule="length", value=lengths)
    n = len(next(iter(cells.values()), []))
    return _File(Table("<arrays>", "arrays", cells, np.arange(n), False))


def _cells(name: str, column: Any) -> list[str] | NDArray[Any]:
    """Return numbers as an array and everything else as text; None and NaN are empty cells."""
    array = np.asarray(column)
    if array.ndim != 1:
        raise InputError(
            "one value per row", rule="length", field=name, value=f"an array of shape {array.shape}"
        )
    if array.dtype.kind in "iuf":
        return array
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    cells = []
    for cell in array.tolist():
        is_missing = cell is None or cell != cell
        cells.append("" if is_missing else str(cell))
    return cells


def _criteria(
    table: Table, columns: RatingColumns
) -> tuple[dict[str, NDArray[np.float64]], Problems]:
    """Return the criteria as numbers, and the rows in which one is missing or no number."""
    criteria: dict[str, NDArray[np.float64]] = {}
    problems: Problems = {}
    hint = (
        "overlaps of a prediction that meets no reference are 0, "
        "its distance is larger than any other"
    )
    for name in columns.criteria:
        cells = words = table.columns[name]
        if isinstance(cells, list):
            words = [YES_NO.get(cell.strip().lower(), cell) for cell in cells]
        values, bad = numbers(replace(table, columns={**table.columns, name: words}), name)
        for row in np.flatnonzero(empty(cells)).tolist():
            expected = "a value of the criterion"
            bad[row] = table.problem(row, name, "criterion-missing", expected, "", hint)
        for row in np.flatnonzero(~np.isfinite(values)).tolist():
            if row not in bad:
                expected = "a finite number"
                bad[row] = table.problem(row, name, "non-finite", expected, cells[row], hint)
        low, high, expected = _range(name, name in columns.distances)
        for row in np.flatnonzero((values < low) | (values > high)).tolist():
            if row not in bad:
                percent = "write 0.55 for 55 %"
                bad[row] = table.problem(
                    row, name, "criterion-range", expected, cells[row], percent
                )
        criteria[name] = values
        problems = {**bad, **problems}
    return criteria, problems


def _range(name: str, distance: bool) -> tuple[float, float, str]:
    """Return between which numbers a criterion of this name lies, and in words."""
    if distance:
        return 0.0, np.inf, "a distance, which is not negative"
    if "giou" in name.lower() or "ciou" in name.lower():
        return -np.inf, 1.0, "an overlap of at most 1"
    if "iou" in name.lower() or "dice" in name.lower():
        return 0.0, 1.0, "an overlap between 0 and 1"
    return -np.inf, np.inf, "a number"


def _nameless(table: Table, columns: RatingColumns) -> Problems:
    """Return the rows without a rater, an item or a unit."""
    problems: Problems = {}
    for name in dict.fromkeys((columns.rater, columns.item, columns.cluster, columns.image)):
        if name is not None:
            for row in np.flatnonzero(empty(table.columns[name])).tolist():
                problems[row] = table.problem(
                    row, name, "missing-group", f"the {name} of every rating", ""
                )
    return problems


def _sound_rows(table: Table, problems: Problems, lenient: bool) -> I64:
    """Return the rows without a problem; strict reading raises all problems instead."""
    if not lenient:
        all_problems = [*table.problems, *(problems[row] for row in sorted(problems))]
        raise_problems([problem.as_error(table.file) for problem in all_problems])
    sound_rows = np.setdiff1d(np.arange(len(table)), np.array(list(problems), np.int64))
    if not len(sound_rows):
        raise InputError(
            "at least one rating", rule="no-ratings", file=table.file, value=f"{len(table)} rows"
        )
    return sound_rows


def _name_codes(table: Table, column: str | None) -> NameCodes | None:
    if column is None:
        return None
    numbered, names = codes([cell.strip() for cell in texts(table, column)])
    return NameCodes(numbered, tuple(names))


def _item(table: Table, columns: RatingColumns) -> NameCodes:
    """Return the items; without a column every row is one."""
    item_codes = _name_codes(table, columns.item)
    return item_codes or NameCodes(
        np.arange(len(table)), tuple(str(line) for line in table.lines.tolist())
    )


def _check_rows(
    table: Table, columns: RatingColumns, item: NameCodes, rater: NameCodes | None
) -> None:
    """Refuse a second rating of one item by one rater, and an item in two units."""
    earlier_pairs: set[tuple[int, int]] = set()
    if rater is not None:
        for row, pair in enumerate(zip(item.code.tolist(), rater.code.tolist())):
            if pair in earlier_pairs:
                name, who = item.names[pair[0]], rater.names[pair[1]]
                expected = f"one rating of {name!r} by {who!r}"
                problem = table.problem(
                    row, columns.rating, "dup-rating", expected, texts(table, columns.rating)[row]
                )
                raise problem.as_error(table.file)
            earlier_pairs.add(pair)
    for column in dict.fromkeys((columns.cluster, columns.image)):
        if column is not None:
            _one_per_item(table, column, item, [cell.strip() for cell in texts(table, column)])


def _check_items(
    table: Table, item: NameCodes, criteria: Mapping[str, NDArray[np.float64]]
) -> None:
    for name, values in criteria.items():
        _one_per_item(table, name, item, values.tolist())


def _one_per_item(table: Table, column: str, item: NameCodes, cells: Sequence[Any]) -> None:
    first_values: dict[int, Any] = {}
    for row, (k, cell) in enumerate(zip(item.code.tolist(), cells)):
        if first_values.setdefault(k, cell) != cell:
            expected = f"{first_values[k]!r} as in the other rows of item {item.names[k]!r}"
            hint = "a rating is of one prediction: give each its own name in the column of items"
            raise table.problem(row, column, "item-conflict", expected, cell, hint).as_error(
                table.file
            )


def _assemble(
    table: Table,
    columns: RatingColumns,
    reading: RatedColumn,
    criteria: Mapping[str, NDArray[np.float64]],
    intake: FileIntake,
) -> Ratings:
    item, unit = _item(table, columns), _name_codes(table, columns.cluster)
    if unit is None and columns.unit == "item" and len(item) < len(table):
        unit = item
    name = "ratings" if table.format == "arrays" else Path(table.file).stem
    return Ratings(
        name=name,
        code=reading.code,
        categories=reading.categories,
        values=reading.values,
        scale=reading.scale,
        useful=reading.useful,
        criteria=criteria,
        distances=columns.distances,
        item=item,
        rater=_name_codes(table, columns.rater),
        image=_name_codes(table, columns.image),
        unit=columns.unit,
        units=None if unit is None else unit.code,
        intake=intake,
        understood=(*columns.understood, *reading.understood),
    )
