# SPDX-License-Identifier: Apache-2.0
"""Save and read the pictures of samples, so that a page can be made again without the volumes."""

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
    pictures = list(slices.pictures.values())
    rows = np.arange(len(pictures))
    columns = {
        "key": text_column_of(list(slices.pictures), rows),
        "width": np.array([picture.width for picture in pictures], np.int64),
        "height": np.array([picture.height for picture in pictures], np.int64),
        "data": text_column_of([picture.data for picture in pictures], rows),
    }
    write_table(path, columns, {NOTES: json.dumps(list(slices.notes))})


def read_slices(input_file: InputFile) -> Slices:
    """Read the pictures; anything else is an error, because it would end up in a page."""
    columns = StoredColumns.read(input_file)
    keys = _texts(columns, "key", KEY, "the name of a picture")
    data = _texts(columns, "data", DATA, "a picture as text")
    if len(set(keys)) < len(keys):
        columns.refuse("one row per picture", "dup-image", "key")
    widths, heights = columns.whole("width"), columns.whole("height")
    for name, side in (("width", widths), ("height", heights)):
        columns.refuse(f"sizes from 1 to {LARGEST}", "range", name, (side < 1) | (side > LARGEST))
    pictures = {}
    for key, text, width, height in zip(keys, data, widths.tolist(), heights.tolist()):
        pictures[key] = Encoded(text, width, height, len(text))
    return Slices(pictures, _notes(columns))


def _texts(columns: StoredColumns, name: str, pattern: re.Pattern[str], expected: str) -> list[str]:
    """Return a column of texts, all of which fit a pattern."""
    texts, codes = columns.texts(name)
    wrong = np.array([pattern.fullmatch(text) is None for text in texts], np.bool_)[codes]
    columns.refuse(expected, "picture", name, wrong, "")
    return [texts[code] for code in codes.tolist()]


def _notes(columns: StoredColumns) -> tuple[str, ...]:
    notes: Any = None
    with suppress(KeyError, ValueError, RecursionError):
        notes = json.loads((columns.table.schema.metadata or {})[NOTES.encode()])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        columns.refuse("a list of notes in the metadata", "missing-key", "")
    return tuple(notes)
