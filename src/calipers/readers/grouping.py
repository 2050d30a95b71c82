# SPDX-License-Identifier: Apache-2.0
"""A table that describes images: groups such as patient and centre, sizes, spacings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, did_you_mean, raise_problems
from calipers.readers.layout import IMAGE_LEVEL, SIZES, SPACINGS, find_columns
from calipers.readers.parts import ImageList, Options, text_column
from calipers.readers.source import InputFile
from calipers.readers.tabular import Table, numbers, texts
from calipers.tables.intake import FileIntake
from calipers.tables.objects import Column

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class _Match:
    table: Table
    rows: I64  # (n_images,) row of each image, -1 = none


def add_groups(
    images: ImageList, table: Table, input_file: InputFile, options: Options
) -> tuple[ImageList, FileIntake]:
    """Give images the columns of a table; sizes and spacings fill in what is unknown.

    Notes
    -----
    Strict reading requires a row for every image. Lenient reading leaves the cells of a missing
    image empty and says so. Rows of images that are not in the cohort are counted in a note.
    """
    raise_problems([problem.as_error(table.file) for problem in table.problems])
    names = [name for name in table.names if name]
    image_column = _image_column(names, table.file)
    match, n_strange = _match_rows(images, table, image_column)
    notes = [*table.notes, *_missing(images, match, options.lenient)]
    if n_strange:
        notes.append(f"{n_strange} rows describe images that are not in the references")
    names.remove(image_column)
    columns = find_columns(names, {}, table.file)
    words = {}
    for word in IMAGE_LEVEL:
        if word in columns:
            name = columns[word]
            words[name] = word
            if word != name:
                notes.append(f"column {name!r} is read as {word!r}")
    lengths = {columns[name] for name in (*SIZES, "spacing", *SPACINGS) if name in columns}
    groups = {}
    for name in names:
        if name not in lengths:
            groups[words.get(name, name)] = _column(match, name)
    size = _fill_unknown(images.size, match, [columns.get(name) for name in SIZES])
    spacings = [columns.get(name, columns.get("spacing")) for name in SPACINGS]
    spacing = _fill_unknown(images.spacing, match, spacings)
    images = replace(images, size=size, spacing=spacing, groups={**images.groups, **groups})
    intake = FileIntake(
        file=input_file.file,
        role="groups",
        format=table.format,
        read=len(table),
        used=len(table),
        sha256=input_file.sha256,
        bytes=input_file.size,
        notes=tuple(notes),
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


def _match_rows(images: ImageList, table: Table, column: str) -> tuple[_Match, int]:
    index: dict[str, int] = {name: k for k, name in enumerate(images.ids)}
    if column.lower() in ("file_name", "filename") and "file_name" in images.groups:
        index = {str(name): k for k, name in enumerate(images.groups["file_name"].tolist())}
    rows = np.full(len(images.keys), -1, np.int64)
    strange = 0
    for row, name in enumerate(texts(table, column)):
        k = index.get(name)
        if k is None:
            strange += 1
        elif rows[k] >= 0:
            raise table.problem(row, column, "dup-image", "one row per image", name).as_error(
                table.file
            )
        else:
            rows[k] = row
    if strange == len(table):
        hint = did_you_mean(texts(table, column)[0], list(index)[:10]) if strange else ""
        raise InputError(
            "images of the references",
            rule="unknown-image",
            file=table.file,
            field=column,
            hint=hint,
        )
    return _Match(table, rows), strange


def _missing(images: ImageList, match: _Match, lenient: bool) -> list[str]:
    missing = np.flatnonzero(match.rows < 0)
    if not len(missing):
        return []
    message = f"{len(missing)} of {len(images.keys)} images have no row in the table of groups"
    if lenient:
        return [message + "; their cells are empty"]
    raise InputError(
        "a row for every image",
        rule="missing-group",
        file=match.table.file,
        value=images.ids[missing[0]],
        hint=message,
    )


def _column(match: _Match, name: str) -> Column:
    """Return a column in the order of the images; images without a row have an empty cell."""
    cells = match.table.columns[name]
    if not isinstance(cells, list) and (match.rows >= 0).all():
        return cells[match.rows]
    cells_as_text = [*texts(match.table, name), ""]  # row -1 is the empty cell
    return text_column([cells_as_text[row] for row in match.rows.tolist()])


def _fill_unknown(lengths: F64, match: _Match, columns: list[str | None]) -> F64:
    """Fill in unknown sizes from columns; a known size that differs is an error."""
    result = lengths.copy()
    for k, name in enumerate(columns[: lengths.shape[1]]):
        if name is None:
            continue
        table = match.table
        values, bad = numbers(table, name)
        raise_problems([problem.as_error(table.file) for problem in bad.values()])
        stated_lengths = np.where(match.rows >= 0, values[match.rows], np.nan)
        wrong = np.flatnonzero(
            ~(np.isnan(stated_lengths) | ((stated_lengths > 0) & np.isfinite(stated_lengths)))
        )
        clash = np.flatnonzero(
            np.isfinite(lengths[:, k])
            & np.isfinite(stated_lengths)
            & (lengths[:, k] != stated_lengths)
        )
        for at, rule, expected in (
            (wrong, "image-size", "a size above zero"),
            (clash, "size-conflict", "the size that the references have"),
        ):
            if len(at):
                row = int(match.rows[at[0]])
                raise table.problem(
                    row, name, rule, expected, stated_lengths[at[0]].item()
                ).as_error(table.file)
        result[:, k] = np.where(np.isnan(lengths[:, k]), stated_lengths, lengths[:, k])
    return result
