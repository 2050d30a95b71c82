# SPDX-License-Identifier: Apache-2.0
"""Read a table of alarms: a row per image, a column per monitor, and columns that describe images.

`calipers.monitors` calls `read_alarms` and evaluates the `Alarms`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import path as as_path
from calipers.arguments import several
from calipers.errors import InputError, did_you_mean, raise_problems
from calipers.readers.alarm_columns import AlarmColumns, find_alarm_columns
from calipers.readers.parts import Problem, text_column
from calipers.readers.reading import read_groups_table
from calipers.readers.source import open_source
from calipers.readers.tabular import Table, empty, flags, numbers, texts
from calipers.tables.cohort import Images
from calipers.tables.intake import FileIntake
from calipers.tables.objects import Column

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
YES_NO = {"true": "1", "false": "0"}
MANY_NAMES = 1000


@dataclass(frozen=True)
class Alarms:
    """The alarms of M monitors on n images, in the order of the images that were asked for."""

    names: tuple[str, ...]
    values: F64  # (M, n), finite; the direction is the user's to say
    ood: Flags | None  # (n,) out of distribution; None = not stated
    tuning: Flags | None  # (n,) thresholds are chosen on these; None = not stated
    groups: Mapping[str, Column]
    images: tuple[str, ...]
    notes: tuple[str, ...] = ()
    intake: FileIntake | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.names)


def read_alarms(
    path: str | PathLike[str],
    images: Sequence[str] | Images,
    *,
    monitors: Sequence[str] | None = None,
    image: str | None = None,
    ood: str | None = None,
    tuning: str | None = None,
) -> Alarms:
    """Read a table with a row per image: CSV, TSV or parquet.

    Parameters
    ----------
    images
        Ids of the images that are evaluated, or the images of a cohort; these may also be named by
        their ``file_name``.
    monitors
        The columns that are monitors. None: every column of numbers, or of true and false, that
        has no other meaning.
    image, ood, tuning
        The columns of the image, of what is out of distribution, and of the images on which
        thresholds are chosen. None: found by their names. Instead of ``tuning`` a column ``split``
        may say ``tuning``, ``tune``, ``calibration``, ``val`` or ``validation``.

    Raises
    ------
    InputError
        Images without a row (how many, and the first), rows of unknown images, two rows of one
        image, empty cells, NaN or infinity, text among the numbers, no monitor at all.

    Notes
    -----
    Every row must belong to an image and every image must have a row: nothing is left out. A column
    in which more than half of the cells are numbers is a column of numbers, and text in it is an
    error; other columns are groups. A column ``split`` is a group too. A monitor with the same
    value on all images is allowed, and noted.
    """
    input_file = open_source(as_path("path", path))
    table = read_groups_table(input_file)
    raise_problems([problem.as_error(table.file) for problem in table.problems])
    columns = find_alarm_columns(table, monitors=monitors, image=image, ood=ood, tuning=tuning)
    ids, rows = _rows(table, columns, images)
    values, problems = _values(table, columns.monitors)
    is_ood = _flags(table, columns.ood, problems)
    is_tuning = _flags(table, columns.tuning, problems)
    raise_problems([problem.as_error(table.file) for problem in problems])
    if is_tuning is None:
        is_tuning = _split_flags(table, columns)
    values = values[:, rows]
    notes = (*table.notes, *columns.notes, *_constant(columns.monitors, values))
    n = len(table)
    intake = FileIntake(
        table.file, "alarms", table.format, n, n, {}, input_file.sha256, input_file.size, notes
    )
    return Alarms(
        names=columns.monitors,
        values=values,
        ood=_take(is_ood, rows),
        tuning=_take(is_tuning, rows),
        groups={name: _group(table, name, rows) for name in columns.groups},
        images=ids,
        notes=notes,
        intake=intake,
    )


def _take(flags: Flags | None, rows: I64) -> Flags | None:
    return None if flags is None else flags[rows]


def _rows(
    table: Table, columns: AlarmColumns, images: Sequence[str] | Images
) -> tuple[tuple[str, ...], I64]:
    """Return the ids of the images, and the row of each."""
    names: Column | None = None
    if isinstance(images, Images):
        ids = images.ids
        names = images.groups.get("file_name")
    else:
        ids = tuple(map(str, several("images", images)))
    repeated = next((name for name, n in Counter(ids).items() if n > 1), None)
    if repeated is not None:
        raise InputError("every image once", rule="dup-image", field="images", value=repeated)
    index = {name: k for k, name in enumerate(ids)}
    if names is not None and columns.image.lower() in ("file_name", "filename"):
        index = {str(name): k for k, name in enumerate(names.tolist())}
    rows = np.full(len(ids), -1, np.int64)
    problems: list[Problem] = []
    hint = ""
    for row, cell in enumerate(texts(table, columns.image)):
        k = index.get(cell)
        if k is None:
            # Names are compared once: with many images each comparison takes long.
            hint = hint or did_you_mean(cell, list(index)[:MANY_NAMES])[:300]
            expected = "an image that is judged"
            problems.append(
                table.problem(row, columns.image, "unknown-image", expected, cell, hint)
            )
        elif rows[k] >= 0:
            problems.append(
                table.problem(row, columns.image, "dup-image", "one row per image", cell)
            )
        else:
            rows[k] = row
    raise_problems([problem.as_error(table.file) for problem in problems])
    missing = np.flatnonzero(rows < 0)
    if len(missing):
        first = ids[missing[0]]
        raise InputError(
            "a row for every image",
            rule="missing-image",
            file=table.file,
            field=columns.image,
            value=first,
            hint=f"{len(missing)} of {len(ids)} images have no row; the first of them is {first!r}",
        )
    return ids, rows


def _values(table: Table, names: Sequence[str]) -> tuple[F64, list[Problem]]:
    """Return the (M, rows) values, and every cell that is no finite number."""
    values = np.empty((len(names), len(table)))
    problems: list[Problem] = []
    for k, name in enumerate(names):
        cells = table.columns[name]
        values[k], bad = numbers(_as_numbers(table, name), name)
        for row in np.flatnonzero(~np.isfinite(values[k])).tolist():
            if isinstance(cells, list) and not cells[row].strip():
                bad[row] = table.problem(row, name, "type", "a number for every image", "")
            elif row not in bad:
                bad[row] = table.problem(row, name, "non-finite", "a finite number", cells[row])
        problems += (bad[row] for row in sorted(bad))
    return values, problems


def _as_numbers(table: Table, name: str) -> Table:
    """Return the table with true and false of one column as 1 and 0."""
    cells = table.columns[name]
    if not isinstance(cells, list):
        return table
    words = [YES_NO.get(cell.strip().lower(), cell) for cell in cells]
    return Table(
        table.file, table.format, {**table.columns, name: words}, table.lines, table.by_line
    )


def _flags(table: Table, name: str | None, problems: list[Problem]) -> Flags | None:
    """Return a column of 0 and 1; empty cells and all others become problems."""
    if name is None:
        return None
    values, bad = flags(table, name, "type")
    for row in np.flatnonzero(empty(table.columns[name])).tolist():
        bad[row] = table.problem(row, name, "type", "0 or 1", "")
    problems += (bad[row] for row in sorted(bad))
    return values


def _split_flags(table: Table, columns: AlarmColumns) -> Flags | None:
    """Return which rows a column `split` names for tuning."""
    if columns.split is None:
        return None
    words = texts(table, columns.split)
    return np.array([word in columns.tuning_words for word in words], np.bool_)


def _group(table: Table, name: str, rows: I64) -> Column:
    cells = table.columns[name]
    if isinstance(cells, list):
        return text_column([cells[row] for row in rows.tolist()])
    return cells[rows]


def _constant(names: Sequence[str], values: F64) -> Iterator[str]:
    for name, column in zip(names, values):
        if len(column) and (column == column[0]).all():
            yield f"monitor {name!r} has the value {column[0]:g} on all {len(column)} images"
