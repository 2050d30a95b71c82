# SPDX-License-Identifier: Apache-2.0
"""The pictures of samples that are kept with a saved evaluation, so that its page can be made anew
without volumes.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from calipers.readers.columnar import write_table
from calipers.readers.source import InputFile
from calipers.readers.stored_columns import StoredColumns
from calipers.readers.stored_tables import text_column_of
from calipers.results.pictures import Encoded, Slices

SLICES = "slices.parquet"
NOTES = "calipers.notes"  # key of the metadata: what is to be said about the pictures
KEY = re.compile(r"(picture|map-\d+)-\d+(-z\d+)?", re.ASCII)
DATA = re.compile(r"data:image/(webp|jpeg|png);base64,[A-Za-z0-9+/]+=*", re.ASCII)
LARGEST = 4096  # pixels of a side; the page shows 512


def save_slices(path: Path, slices: Slices) -> None:
    """Write one row per picture: its name on the page, its size, and the picture as text."""
    pictures = list(slices.pictures.items())
    columns = {
        "key": text_column_of([key for key, _ in pictures], np.arange(len(pictures))),
        "width": np.array([picture.width for _, picture in pictures], np.int64),
        "height": np.array([picture.height for _, picture in pictures], np.int64),
        "data": text_column_of([picture.data for _, picture in pictures], np.arange(len(pictures))),
    }
    write_table(path, columns, {NOTES: json.dumps(list(slices.notes))})


def read_slices(input_file: InputFile) -> Slices:
    """Read the pictures; what is no picture of ours is an error, because a page will hold it."""
    columns = StoredColumns.read(input_file)
    keys, data = (_texts(columns, name) for name in ("key", "data"))
    for name, values, fits in (("key", keys, KEY), ("data", data, DATA)):
        bad = np.array([fits.fullmatch(value) is None for value in values], np.bool_)
        columns.refuse(
            "the name of a picture" if name == "key" else "a picture as text",
            "picture",
            name,
            bad,
            "",
        )
    if len(set(keys)) < len(keys):
        columns.refuse("one row per picture", "dup-image", "key")
    sides = [columns.whole(name) for name in ("width", "height")]
    for name, side in zip(("width", "height"), sides):
        columns.refuse(f"sizes from 1 to {LARGEST}", "range", name, (side < 1) | (side > LARGEST))
    rows = zip(keys, data, *(side.tolist() for side in sides))
    return Slices(
        {key: Encoded(text, w, h, len(text)) for key, text, w, h in rows}, _notes(columns)
    )


def _texts(columns: StoredColumns, name: str) -> list[str]:
    texts, codes = columns.texts(name)
    return [texts[code] for code in codes.tolist()]


def _notes(columns: StoredColumns) -> tuple[str, ...]:
    notes: Any = None
    with suppress(KeyError, ValueError, RecursionError):
        notes = json.loads((columns.table.schema.metadata or {})[NOTES.encode()])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        columns.refuse("a list of notes in the metadata", "missing-key", "")
    return tuple(notes)
