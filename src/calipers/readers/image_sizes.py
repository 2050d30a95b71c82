# SPDX-License-Identifier: Apache-2.0
"""Read the sizes of images from a table with a row per image or from a file of references."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, raise_problems
from calipers.readers.delimited import NIH_HEADER, read_nih, read_table
from calipers.readers.layout import SIZES, find_columns
from calipers.readers.source import InputFile, open_source
from calipers.readers.tabular import Table, numbers, texts

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class ImageSizes:
    """Ids of images, the file names that some have beside them, and their sizes."""

    file: str
    ids: tuple[str, ...]
    names: tuple[str, ...]  # file names, or the ids once more
    size: F64  # (n, 2|3) width, height[, depth]


def read_sizes(path: str | PathLike[str]) -> ImageSizes:
    """Read ids and sizes of images.

    Parameters
    ----------
    path
        A table (csv, tsv, parquet) with the columns image, width, height[, depth]; several rows of
        an image have to agree, and rows without an image say nothing, so a table of references will
        do. Or references as COCO JSON or the NIH list.
    """
    input_file = open_source(fspath(path))
    if input_file.data[:1] in (b"{", b"["):
        return _of_references(input_file)
    return _of_table(_table(input_file))


def _of_references(input_file: InputFile) -> ImageSizes:
    from calipers.readers.reading import read

    images = read(input_file.file).images
    file_names = images.ids
    if "file_name" in images.groups:
        file_names = tuple(map(str, images.groups["file_name"].tolist()))
    unknown = np.flatnonzero(~np.isfinite(images.size).all(axis=1))
    if len(unknown):
        raise InputError(
            "width and height of every image",
            rule="size-unknown",
            file=input_file.file,
            value=images.ids[unknown[0]],
        )
    return ImageSizes(input_file.file, images.ids, file_names, images.size)


def _table(input_file: InputFile) -> Table:
    from calipers.readers import columnar

    if input_file.data[:4] == columnar.MAGIC:
        return columnar.read_table(input_file)
    start = bytes(input_file.data[:200]).decode("utf-8", "replace")
    return read_nih(input_file) if NIH_HEADER.match(start) else read_table(input_file)


def _of_table(table: Table) -> ImageSizes:
    raise_problems([problem.as_error(table.file) for problem in table.problems])
    columns = find_columns([name for name in table.names if name], {}, table.file)
    for name in ("image", "width", "height"):
        if name not in columns:
            raise InputError(
                f"a column {name!r}",
                rule="missing-column",
                file=table.file,
                location="1",
                value=list(table.names),
            )
    sides = [columns[name] for name in SIZES if name in columns]
    has_image = [bool(name.strip()) for name in texts(table, columns["image"])]
    table = table.rows(np.flatnonzero(has_image))
    sizes = np.stack([_lengths(table, side) for side in sides], axis=1)
    first_rows: dict[str, int] = {}
    for row, name in enumerate(texts(table, columns["image"])):
        first_row = first_rows.setdefault(name, row)
        if (sizes[row] != sizes[first_row]).any():
            problem = table.problem(
                row, sides[0], "size-conflict", "one size per image", sizes[row].tolist()
            )
            raise problem.as_error(table.file)
    ids = tuple(first_rows)
    size = sizes[list(first_rows.values())].reshape(len(ids), len(sides))
    return ImageSizes(table.file, ids, ids, size)


def _lengths(table: Table, column: str) -> F64:
    values, bad = numbers(table, column)
    raise_problems([problem.as_error(table.file) for problem in bad.values()])
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 1) & (values == np.floor(values))))
    if len(wrong):
        row = int(wrong[0])
        expected = "a whole number above zero"
        raise table.problem(row, column, "image-size", expected, values[row].item()).as_error(
            table.file
        )
    return values
