# SPDX-License-Identifier: Apache-2.0
"""Save the evidence from the maps of each model as four tables, and the pictures; read both back.

``maps.parquet`` has a row per model, image and bin, ``map_bins.parquet`` one per model and bin,
``map_images.parquet`` one per model and image, and ``map_sums.parquet`` one per model, key of a
metric and image. Images are the rows of ``images.parquet``, from 0. Everything comes back bit for
bit. ``slices.parquet`` holds the pictures of samples, so that a page can be made again without the
volumes.

`calipers.evaluation.saved` calls `save_maps` and `save_slices`, `calipers.io.saved.folder` calls
`read_maps` and `read_slices`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.data.maps import BINS, COUNTED, Histograms, Maps
from calipers.io.saved.cohort import (
    StoredColumns,
)
from calipers.io.source import InputFile, open_source
from calipers.io.tables.arrow import constant_column, stack_columns, text_column_of, with_nulls
from calipers.io.tables.table import write_table
from calipers.kernels import ragged
from calipers.results.files import Encoded, Slices

MAPS, MAP_BINS, MAP_IMAGES, MAP_SUMS = MAP_FILES = (
    "maps.parquet",
    "map_bins.parquet",
    "map_images.parquet",
    "map_sums.parquet",
)
ABOUT = "calipers.maps"  # key of the metadata of maps.parquet
SHARES = ("overlap",)  # those of COUNTED that are not whole numbers
# Each shift halves the number of bins; at this one a single bin is left.
MOST_SHIFT = BINS.bit_length() - 1

SLICES = "slices.parquet"
NOTES = "calipers.notes"  # key of the metadata: what is to be said about the pictures
# The names and data that a page may hold: both end up in HTML, so nothing else passes.
KEY = re.compile(r"(picture|map-\d+)-\d+(-z\d+)?", re.ASCII)
DATA = re.compile(r"data:image/(webp|jpeg|png);base64,[A-Za-z0-9+/]+=*", re.ASCII)
LARGEST = 4096  # pixels of a side; the page shows 512


def save_maps(folder: Path, maps: Mapping[str, Maps]) -> None:
    """Write the four tables; nothing at all if there are no maps."""
    if not maps:
        return
    about = [_about(model, evidence) for model, evidence in maps.items()]
    metadata = {ABOUT: json.dumps([entry.as_dict() for entry in about])}
    write_table(folder / MAPS, _stack_models(maps, _entry_columns), metadata)
    write_table(folder / MAP_BINS, _stack_models(maps, _bin_columns))
    write_table(folder / MAP_IMAGES, _stack_models(maps, _image_columns))
    write_table(folder / MAP_SUMS, _stack_models(maps, _sum_columns))


def read_maps(
    folder: Path, open_file: Callable[[Path], InputFile] = open_source
) -> dict[str, Maps]:
    """Return the maps of every model; ``open_file`` may check more than that it can be read."""
    tables = {name: StoredColumns.read(open_file(folder / name)) for name in MAP_FILES}
    about = _read_about(tables[MAPS])
    # Models follow each other in every table, in the order of the metadata.
    starts = dict.fromkeys(MAP_FILES, 0)
    sizes = [_table_sizes(entry) for entry in about]
    for name, table in tables.items():
        total = sum(size[name] for size in sizes)
        if len(table) != total:
            table.refuse(f"{total} rows", "record-count", "", value=len(table))
    maps = {}
    for entry, size in zip(about, sizes):
        parts = {}
        for name in MAP_FILES:
            parts[name] = tables[name].part(starts[name], size[name])
            starts[name] += size[name]
        maps[entry.model] = _maps(entry, parts)
    return maps


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


def _table_sizes(about: About) -> dict[str, int]:
    """Return how many rows of each table belong to a model."""
    return {
        MAPS: about.entries,
        MAP_BINS: about.bins,
        MAP_IMAGES: about.images,
        MAP_SUMS: about.images * len(about.keys),
    }


@dataclass(frozen=True)
class About:
    """The description of one model in the metadata of ``maps.parquet``."""

    model: str
    images: int
    entries: int
    bins: int
    shift: int
    keys: tuple[str, ...]
    exact: Mapping[str, float] | None

    def as_dict(self) -> dict[str, Any]:
        """Return the description for JSON; exact values as text, because JSON has no NaN."""
        exact: dict[str, str] | None = None
        if self.exact is not None:
            exact = {name: repr(float(value)) for name, value in self.exact.items()}
        return {**vars(self), "keys": list(self.keys), "exact": exact}


def _about(model: str, maps: Maps) -> About:
    histograms = maps.histograms
    return About(
        model=model,
        images=maps.n_images,
        entries=len(histograms.bin),
        bins=int(np.isfinite(histograms.lowest).sum()),
        shift=histograms.shift,
        keys=tuple(maps.sums),
        exact=maps.exact,
    )


def _stack_models(
    maps: Mapping[str, Maps], columns_of: Callable[[Maps], dict[str, Any]]
) -> dict[str, Any]:
    """Return the columns of all models, one below the other, after a column of their names."""
    parts: dict[str, list[Any]] = {"model": []}
    for model, evidence in maps.items():
        columns = columns_of(evidence)
        n = len(next(iter(columns.values())))
        parts["model"].append(constant_column(model, n))
        for name, column in columns.items():
            parts.setdefault(name, []).append(column)
    return {name: stack_columns(columns) for name, columns in parts.items()}


def _entry_columns(maps: Maps) -> dict[str, Any]:
    histograms = maps.histograms
    columns = {name: getattr(histograms, name) for name in COUNTED}
    return {
        "image": ragged.owners(histograms.offsets),
        "bin": histograms.bin.astype(np.int64),
        **columns,
    }


def _bin_columns(maps: Maps) -> dict[str, Any]:
    lowest, highest = maps.histograms.lowest, maps.histograms.highest
    # Bins without scores have infinite bounds, and are left out.
    bins = np.flatnonzero(np.isfinite(lowest))
    return {"bin": bins, "lowest": lowest[bins], "highest": highest[bins]}


def _image_columns(maps: Maps) -> dict[str, Any]:
    return {
        "image": np.arange(maps.n_images),
        "references": maps.references,
        "predictions": maps.predictions,
    }


def _sum_columns(maps: Maps) -> dict[str, Any]:
    n, keys = maps.n_images, list(maps.sums)
    # The empty part allows for maps without any sums.
    sums = np.concatenate([np.zeros((0, 2)), *maps.sums.values()])
    return {
        "key": text_column_of(keys, np.repeat(np.arange(len(keys)), n)),
        "image": np.tile(np.arange(n), len(keys)),
        "sum": with_nulls(sums[:, 0]),
        "count": with_nulls(sums[:, 1]),
    }


def _read_about(entries: StoredColumns) -> list[About]:
    """Return the descriptions of all models in the metadata, checked."""
    metadata: Mapping[bytes, bytes] = entries.table.schema.metadata or {}
    try:
        documents = json.loads(metadata[ABOUT.encode()])
        about = [_about_from(entry) for entry in documents]
    except (KeyError, TypeError, ValueError, RecursionError, AttributeError):
        entries.refuse("a description of the maps in the metadata", "missing-key", "", value=ABOUT)
        raise
    models = [entry.model for entry in about]
    if len(set(models)) < len(models):
        entries.refuse("models that differ", "stored-order", "", value=models)
    return about


def _about_from(entry: Any) -> About:
    """Return one description; what does not fit raises ValueError."""
    counts = {name: entry[name] for name in ("images", "entries", "bins", "shift")}
    for count in counts.values():
        if type(count) is not int or not 0 <= count < 1 << 40:
            raise ValueError("counts")
    keys, exact = entry["keys"], entry["exact"]
    if counts["shift"] > MOST_SHIFT or len(set(keys)) < len(keys):
        raise ValueError("shift or keys")
    if not all(isinstance(name, str) for name in (entry["model"], *keys)):
        raise ValueError("names")
    if exact is not None:
        exact = {str(name): float(value) for name, value in exact.items()}
    return About(model=entry["model"], keys=tuple(keys), exact=exact, **counts)


def _maps(about: About, parts: Mapping[str, StoredColumns]) -> Maps:
    for part in parts.values():
        _same_text(part, "model", about.model)
    images = parts[MAP_IMAGES]
    images.refuse(
        "images in order", "stored-order", "image", images.whole("image") != np.arange(about.images)
    )
    return Maps(
        _sums(about, parts[MAP_SUMS]),
        images.whole("references"),
        images.whole("predictions"),
        _histograms(about, parts[MAPS], parts[MAP_BINS]),
        about.exact,
    )


def _sums(about: About, table: StoredColumns) -> dict[str, NDArray[np.float64]]:
    sums = {}
    for k, key in enumerate(about.keys):
        part = table.part(k * about.images, about.images)
        _same_text(part, "key", key)
        wrong = part.whole("image") != np.arange(about.images)
        part.refuse("images in order", "stored-order", "image", wrong)
        columns = [part.numbers("sum", missing=True), part.numbers("count", missing=True)]
        sums[key] = np.stack(columns, axis=1)
    return sums


def _histograms(about: About, entries: StoredColumns, bins: StoredColumns) -> Histograms:
    size = BINS >> about.shift
    lowest, highest = np.full(size, np.inf), np.full(size, -np.inf)
    bin_numbers = bins.whole("bin")
    wrong = (bin_numbers >= size) | (np.diff(bin_numbers, prepend=-1) <= 0)
    bins.refuse("bins in order", "stored-order", "bin", wrong)
    lowest[bin_numbers], highest[bin_numbers] = bins.numbers("lowest"), bins.numbers("highest")
    wrong = lowest[bin_numbers] > highest[bin_numbers]
    bins.refuse("a highest score that is not below the lowest", "range", "highest", wrong)
    image, which = entries.whole("image"), entries.whole("bin")
    entries.refuse("an image of the evaluation", "unknown-image", "image", image >= about.images)
    wrong = (which >= size) | np.isinf(lowest[np.minimum(which, size - 1)])
    entries.refuse("a bin that has scores", "range", "bin", wrong)
    # One number for image and bin: ascending without repetition is the order of the histograms.
    wrong = np.diff(image * size + which, prepend=-1) <= 0
    entries.refuse("images and bins in order", "stored-order", "bin", wrong)
    columns: dict[str, Any] = {}
    for name in COUNTED:
        columns[name] = entries.numbers(name) if name in SHARES else entries.whole(name)
    return Histograms(
        offsets=ragged.from_owner(image, about.images),
        bin=which.astype(np.int32),
        lowest=lowest,
        highest=highest,
        shift=about.shift,
        **columns,
    )


def _same_text(part: StoredColumns, name: str, expected: str) -> None:
    """Raise unless a column holds the same text in all rows."""
    names, codes = part.texts(name)
    wrong = np.array([text != expected for text in names], np.bool_)[codes]
    part.refuse(f"{expected!r}", "stored-order", name, wrong)


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
