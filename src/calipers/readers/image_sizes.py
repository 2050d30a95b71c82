# SPDX-License-Identifier: Apache-2.0
"""How large images are, from a table with a row per image or from a file of references."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, raise_problems
from calipers.readers.delimited import NIH_HEADER, read_nih, read_table
from calipers.readers.layout import SIZES, find_columns
from calipers.readers.source import Opened, open_source
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
    opened = open_source(fspath(path))
    if opened.data[:1] in (b"{", b"["):
        return _of_references(opened)
    return _of_table(_table(opened))


def _of_references(opened: Opened) -> ImageSizes:
    from calipers.readers.reading import read

    images = read(opened.file).images
    names = images.groups.get("file_name")
    listed = images.ids if names is None else tuple(str(name) for name in names.tolist())
    unknown = np.flatnonzero(~np.isfinite(images.size).all(axis=1))
    if len(unknown):
        image = images.ids[unknown[0]]
        raise InputError(
            "width and height of every image", rule="size-unknown", file=opened.file, value=image
        )
    return ImageSizes(opened.file, images.ids, listed, images.size)


def _table(opened: Opened) -> Table:
    from calipers.readers import columnar

    if opened.data[:4] == columnar.MAGIC:
        return columnar.read_table(opened)
    start = bytes(opened.data[:200]).decode("utf-8", "replace")
    return read_nih(opened) if NIH_HEADER.match(start) else read_table(opened)


def _of_table(table: Table) -> ImageSizes:
    raise_problems([problem.as_error(table.file) for problem in table.problems])
    found = find_columns([name for name in table.names if name], {}, table.file)
    for name in ("image", "width", "height"):
        if name not in found:
            wanted = f"a column {name!r}"
            raise InputError(
                wanted,
                rule="missing-column",
                file=table.file,
                location="1",
                value=list(table.names),
            )
    columns = [found[name] for name in SIZES if name in found]
    table = table.rows(
        np.flatnonzero([bool(name.strip()) for name in texts(table, found["image"])])
    )
    rows = np.stack([_lengths(table, column) for column in columns], axis=1)
    first: dict[str, int] = {}
    for row, name in enumerate(texts(table, found["image"])):
        known = first.setdefault(name, row)
        if (rows[row] != rows[known]).any():
            wanted = "one size per image"
            raise table.problem(
                row, columns[0], "size-conflict", wanted, rows[row].tolist()
            ).as_error(table.file)
    ids = tuple(first)
    return ImageSizes(
        table.file, ids, ids, rows[list(first.values())].reshape(len(ids), len(columns))
    )


def _lengths(table: Table, column: str) -> F64:
    values, bad = numbers(table, column)
    raise_problems([problem.as_error(table.file) for problem in bad.values()])
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 1) & (values == np.floor(values))))
    if len(wrong):
        row = int(wrong[0])
        wanted = "a whole number above zero"
        raise table.problem(row, column, "image-size", wanted, values[row].item()).as_error(
            table.file
        )
    return values
