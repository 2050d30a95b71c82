# SPDX-License-Identifier: Apache-2.0
"""A table that describes images: groups such as patient and centre, sizes, spacings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, did_you_mean, raise_problems
from calipers.readers.layout import IMAGE_LEVEL, SIZES, SPACINGS, find_columns
from calipers.readers.parts import ImageList, Options, text_column
from calipers.readers.source import Opened
from calipers.readers.tabular import Table, numbers, texts
from calipers.tables.intake import FileIntake
from calipers.tables.objects import Column

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class _Matched:
    table: Table
    rows: I64  # (n_images,) row of each image, -1 = none


def add_groups(
    images: ImageList, table: Table, opened: Opened, options: Options
) -> tuple[ImageList, FileIntake]:
    """Give images the columns of a table; sizes and spacings fill what is unknown.

    Notes
    -----
    Strict reading wants a row for every image. Lenient reading leaves the cell of a missing image
    empty and says so. Rows of images that are not in the cohort are counted in a note.
    """
    raise_problems([problem.as_error(table.file) for problem in table.problems])
    names = [name for name in table.names if name]
    column = _image_column(names, table.file)
    matched, strange = _match(images, table, column)
    notes = [*table.notes, *_missing(images, matched, options.lenient)]
    if strange:
        notes.append(f"{strange} rows describe images that are not in the references")
    found = find_columns([name for name in names if name != column], {}, table.file)
    found = {
        name: found[name] for name in (*IMAGE_LEVEL, *SIZES, "spacing", *SPACINGS) if name in found
    }
    used = {column, *(found[name] for name in found if name not in IMAGE_LEVEL)}
    words = {old: new for new, old in found.items() if new in IMAGE_LEVEL}
    groups = {words.get(name, name): _column(matched, name) for name in names if name not in used}
    notes += [f"column {old!r} is read as {new!r}" for old, new in words.items() if old != new]
    size = _filled(images.size, matched, [found.get(name) for name in SIZES])
    spacings = [found.get(name, found.get("spacing")) for name in SPACINGS]
    spacing = _filled(images.spacing, matched, spacings)
    images = replace(images, size=size, spacing=spacing, groups={**images.groups, **groups})
    n = len(table)
    intake = FileIntake(
        opened.file, "groups", table.format, n, n, {}, opened.sha256, opened.size, tuple(notes)
    )
    return images, intake


def _image_column(names: list[str], file: str) -> str:
    lower = {name.lower(): name for name in names}
    for alias in ("image", "image_id", "id", "file_name", "filename"):
        if alias in lower:
            return lower[alias]
    raise InputError(
        "a column image, image_id, id or file_name",
        rule="missing-column",
        file=file,
        location="1",
        value=names,
    )


def _match(images: ImageList, table: Table, column: str) -> tuple[_Matched, int]:
    known: dict[str, int] = {name: k for k, name in enumerate(images.ids)}
    if column.lower() in ("file_name", "filename") and "file_name" in images.groups:
        known = {str(name): k for k, name in enumerate(images.groups["file_name"].tolist())}
    rows = np.full(len(images.keys), -1, np.int64)
    strange = 0
    for row, name in enumerate(texts(table, column)):
        k = known.get(name)
        if k is None:
            strange += 1
        elif rows[k] >= 0:
            raise table.problem(row, column, "dup-image", "one row per image", name).as_error(
                table.file
            )
        else:
            rows[k] = row
    if strange == len(table):
        hint = did_you_mean(texts(table, column)[0], list(known)[:10]) if strange else ""
        raise InputError(
            "images of the references",
            rule="unknown-image",
            file=table.file,
            field=column,
            hint=hint,
        )
    return _Matched(table, rows), strange


def _missing(images: ImageList, matched: _Matched, lenient: bool) -> list[str]:
    missing = np.flatnonzero(matched.rows < 0)
    if not len(missing):
        return []
    said = f"{len(missing)} of {len(images.keys)} images have no row in the table of groups"
    if lenient:
        return [said + "; their cells are empty"]
    raise InputError(
        "a row for every image",
        rule="missing-group",
        file=matched.table.file,
        value=images.ids[missing[0]],
        hint=said,
    )


def _column(matched: _Matched, name: str) -> Column:
    cells = matched.table.columns[name]
    if not isinstance(cells, list) and (matched.rows >= 0).all():
        return cells[matched.rows]
    held = texts(matched.table, name)
    return text_column([held[row] if row >= 0 else "" for row in matched.rows.tolist()])


def _filled(known: F64, matched: _Matched, columns: list[str | None]) -> F64:
    """Fill unknown sizes from columns; a size that is known differently is an error, not a choice."""
    filled = known.copy()
    for k, name in enumerate(columns[: known.shape[1]]):
        if name is None:
            continue
        table = matched.table
        values, bad = numbers(table, name)
        raise_problems([problem.as_error(table.file) for problem in bad.values()])
        given = np.where(matched.rows >= 0, values[matched.rows], np.nan)
        wrong = np.flatnonzero(~(np.isnan(given) | ((given > 0) & np.isfinite(given))))
        clash = np.flatnonzero(
            np.isfinite(known[:, k]) & np.isfinite(given) & (known[:, k] != given)
        )
        for at, rule, expected in (
            (wrong, "image-size", "a size above zero"),
            (clash, "size-conflict", "the size that the references have"),
        ):
            if len(at):
                row = int(matched.rows[at[0]])
                raise table.problem(row, name, rule, expected, given[at[0]].item()).as_error(
                    table.file
                )
        filled[:, k] = np.where(np.isnan(known[:, k]), given, known[:, k])
    return filled
