# SPDX-License-Identifier: Apache-2.0
"""What is left of the maps of each model, as four tables of a saved evaluation; read back bit by
bit, or refused.

``maps.parquet`` has a row per model, image and bin, ``map_bins.parquet`` one per model and bin,
``map_images.parquet`` one per model and image, and ``map_sums.parquet`` one per model, key of a
metric and image. Images are the rows of ``images.parquet``, from 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged
from calipers.readers.columnar import write_table
from calipers.readers.source import Opened, open_source
from calipers.readers.stored_columns import Columns
from calipers.readers.stored_tables import coded, constant, joined, masked
from calipers.tables.maps import BINS, COUNTED, Histograms, Maps

I64 = NDArray[np.int64]

MAPS, MAP_BINS, MAP_IMAGES, MAP_SUMS = MAP_FILES = (
    "maps.parquet",
    "map_bins.parquet",
    "map_images.parquet",
    "map_sums.parquet",
)
ABOUT = "calipers.maps"  # key of the metadata of maps.parquet
SHARES = ("overlap",)  # those of COUNTED that are not whole numbers
MOST_SHIFT = BINS.bit_length() - 1


@dataclass(frozen=True)
class About:
    """What the metadata say of one model."""

    model: str
    images: int
    entries: int
    bins: int
    shift: int
    keys: tuple[str, ...]
    exact: Mapping[str, float] | None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON; exact values as text, which also holds what JSON has no number for."""
        exact = (
            None
            if self.exact is None
            else {name: repr(float(value)) for name, value in self.exact.items()}
        )
        return {**vars(self), "keys": list(self.keys), "exact": exact}


def save_maps(folder: Path, maps: Mapping[str, Maps]) -> None:
    """Write the four tables; nothing at all if there are no maps."""
    if not maps:
        return
    about = [_about(model, found) for model, found in maps.items()]
    metadata = {ABOUT: json.dumps([one.as_dict() for one in about])}
    write_table(folder / MAPS, _stacked(maps, _entry_columns), metadata)
    write_table(folder / MAP_BINS, _stacked(maps, _bin_columns))
    write_table(folder / MAP_IMAGES, _stacked(maps, _image_columns))
    write_table(folder / MAP_SUMS, _stacked(maps, _sum_columns))


def read_maps(folder: Path, opened: Callable[[Path], Opened] = open_source) -> dict[str, Maps]:
    """Return the maps of every model; ``opened`` opens a file, and may ask more of it than that it
    can be read.
    """
    tables = {name: Columns.read(opened(folder / name)) for name in MAP_FILES}
    entries = tables[MAPS]
    about = _told(entries)
    sizes = {
        MAPS: [one.entries for one in about],
        MAP_BINS: [one.bins for one in about],
        MAP_IMAGES: [one.images for one in about],
        MAP_SUMS: [one.images * len(one.keys) for one in about],
    }
    for name, table in tables.items():
        if len(table) != sum(sizes[name]):
            table.refuse(f"{sum(sizes[name])} rows", "record-count", "", value=len(table))
    starts = {name: np.cumsum([0, *counts]).tolist() for name, counts in sizes.items()}
    found = {}
    for k, one in enumerate(about):
        parts = {name: tables[name].part(starts[name][k], sizes[name][k]) for name in MAP_FILES}
        found[one.model] = _maps(one, parts)
    return found


def _about(model: str, maps: Maps) -> About:
    histograms = maps.histograms
    bins = int(np.isfinite(histograms.lowest).sum())
    return About(
        model, maps.n_images, len(histograms.bin), bins, histograms.shift, tuple(maps.sums), maps.exact
    )  # fmt: skip


def _stacked(
    maps: Mapping[str, Maps], columns_of: Callable[[Maps], dict[str, Any]]
) -> dict[str, Any]:
    """Return the columns of all models, one below the other, with the names of the models before
    them.
    """
    parts = []
    for model, found in maps.items():
        columns = columns_of(found)
        parts.append({"model": constant(model, len(next(iter(columns.values())))), **columns})
    return {name: joined([part[name] for part in parts]) for name in parts[0]}


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
    filled = np.flatnonzero(np.isfinite(lowest))
    return {"bin": filled, "lowest": lowest[filled], "highest": highest[filled]}


def _image_columns(maps: Maps) -> dict[str, Any]:
    return {
        "image": np.arange(maps.n_images),
        "references": maps.references,
        "predictions": maps.predictions,
    }


def _sum_columns(maps: Maps) -> dict[str, Any]:
    n, keys = maps.n_images, list(maps.sums)
    sums = np.concatenate([np.zeros((0, 2)), *maps.sums.values()])
    return {
        "key": coded(keys, np.repeat(np.arange(len(keys)), n)),
        "image": np.tile(np.arange(n), len(keys)),
        "sum": masked(sums[:, 0]),
        "count": masked(sums[:, 1]),
    }


def _told(entries: Columns) -> list[About]:
    """Return what the metadata say, checked."""
    metadata: Mapping[bytes, bytes] = entries.table.schema.metadata or {}
    try:
        told = json.loads(metadata[ABOUT.encode()])
        found = [_one(entry) for entry in told]
    except (KeyError, TypeError, ValueError, RecursionError, AttributeError):
        entries.refuse("a description of the maps in the metadata", "missing-key", "", value=ABOUT)
        raise
    if len({one.model for one in found}) < len(found):
        entries.refuse("models that differ", "stored-order", "", value=[one.model for one in found])
    return found


def _one(entry: Any) -> About:
    """Return one description; what does not fit raises ValueError."""
    counts = {name: entry[name] for name in ("images", "entries", "bins", "shift")}
    if not all(type(count) is int and 0 <= count < 1 << 40 for count in counts.values()):
        raise ValueError("counts")
    keys, exact = entry["keys"], entry["exact"]
    if counts["shift"] > MOST_SHIFT or len(set(keys)) < len(keys):
        raise ValueError("shift or keys")
    if not all(isinstance(name, str) for name in (entry["model"], *keys)):
        raise ValueError("names")
    values = None if exact is None else {str(name): float(value) for name, value in exact.items()}
    return About(model=entry["model"], keys=tuple(keys), exact=values, **counts)


def _maps(about: About, parts: Mapping[str, Columns]) -> Maps:
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


def _sums(about: About, table: Columns) -> dict[str, NDArray[np.float64]]:
    found = {}
    for k, key in enumerate(about.keys):
        part = table.part(k * about.images, about.images)
        _same_text(part, "key", key)
        part.refuse(
            "images in order",
            "stored-order",
            "image",
            part.whole("image") != np.arange(about.images),
        )
        found[key] = np.stack(
            [part.numbers(name, missing=True) for name in ("sum", "count")], axis=1
        )
    return found


def _histograms(about: About, entries: Columns, bins: Columns) -> Histograms:
    size = BINS >> about.shift
    lowest, highest = np.full(size, np.inf), np.full(size, -np.inf)
    filled = bins.whole("bin")
    bins.refuse(
        "bins in order",
        "stored-order",
        "bin",
        (filled >= size) | (np.diff(filled, prepend=-1) <= 0),
    )
    lowest[filled], highest[filled] = bins.numbers("lowest"), bins.numbers("highest")
    bins.refuse(
        "a highest score that is not below the lowest",
        "range",
        "highest",
        lowest[filled] > highest[filled],
    )
    image, which = entries.whole("image"), entries.whole("bin")
    entries.refuse("an image of the evaluation", "unknown-image", "image", image >= about.images)
    entries.refuse(
        "a bin that has scores",
        "range",
        "bin",
        (which >= size) | np.isinf(lowest[np.minimum(which, size - 1)]),
    )
    falls = np.diff(image * size + which, prepend=-1) <= 0
    entries.refuse("images and bins in order", "stored-order", "bin", falls)
    counted: dict[str, Any] = {
        name: entries.numbers(name) if name in SHARES else entries.whole(name) for name in COUNTED
    }
    return Histograms(
        offsets=ragged.from_owner(image, about.images),
        bin=which.astype(np.int32),
        lowest=lowest,
        highest=highest,
        shift=about.shift,
        **counted,
    )


def _same_text(part: Columns, name: str, wanted: str) -> None:
    found, codes = part.texts(name)
    part.refuse(
        f"{wanted!r}",
        "stored-order",
        name,
        np.array([text != wanted for text in found], np.bool_)[codes],
    )
