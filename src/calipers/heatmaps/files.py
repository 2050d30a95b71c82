# SPDX-License-Identifier: Apache-2.0
"""Files of `calipers boxes`: which file is the map of which image and class, reading, image sizes.

`find_maps` lists the maps below a folder by a pattern before any is read, `MapFiles.load` reads
them image by image, `load_map` reads one file, one map or a stack with one per class. `read_sizes`
reads the sizes of images from a table with a row per image or from a file of references, and
`size_of` that of a picture from its header.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.heatmaps.settings import as_map
from calipers.io.read import read, sniff_file
from calipers.io.source import InputFile, open_source
from calipers.io.tables.columns import OBJECTS, SIZES, declare, find_columns
from calipers.io.tables.table import FileTable, open_table, strict_numbers, texts
from calipers.io.volumes.open import open_volume, stem_of
from calipers.io.volumes.pictures import PALETTE, picture_size
from calipers.io.volumes.volume import Limits, Volume
from calipers.io.write_volume import SUFFIXES

# No JPEG: it is lossy, so its maps would have values that no model gave.
FORMATS = ("npy", "npz", "png", "tiff", "nifti")
SIZE_COLUMNS = declare(
    replace(OBJECTS["image"], hint=""),
    replace(OBJECTS["width"], required=True),
    replace(OBJECTS["height"], required=True),
    OBJECTS["depth"],
)
TABLES = ("csv", "parquet")  # formats of tables of sizes; all others hold references
# The value of white in a picture, by type.
WHITE = {"bool": 1.0, "uint8": 255.0, "uint16": 65535.0, "float32": 1.0}
STACKED = Limits(axes=4)  # an axis of classes before those of a volume

# {image} and {class} in a pattern.
PLACES = re.compile(r"\{([^{}]*)\}")


def find_maps(folder: str, pattern: str | None, classes: Sequence[str], missing: str) -> MapFiles:
    """Return the maps below a folder.

    Parameters
    ----------
    pattern
        Path below the folder with ``{image}`` and maybe ``{class}``, with or without extension;
        None: ``{image}``, or ``{class}/{image}`` if the files lie in sub-folders.
    classes
        Selected classes in order; empty: those of the file names, sorted.
    missing
        ``"refuse"`` or ``"empty"``: what happens if an image has maps of some classes only.
    """
    files, n_others = _list_maps(folder)
    if not pattern:
        in_folders = any("/" in name for name in files)
        pattern = "{class}/{image}" if in_folders else "{image}"
    by_class = "{class}" in pattern
    # A stack has no names inside: only the user knows them.
    if not by_class and not classes:
        raise UsageError(
            "--classes is needed: it names the maps in a file, in their order, such as "
            "--classes nodule,mass"
        )
    paths, n_unmatched = _match_files(folder, files, _expression(pattern, classes), pattern)
    names = tuple(classes) or tuple(sorted({name for _, name in paths}))
    notes = []
    if n_unmatched:
        notes.append(f"files that do not fit {pattern!r}: {n_unmatched}")
    if n_others:
        notes.append(f"files of other kinds, not read: {n_others}")
    if by_class:
        notes += _notes_on_missing(folder, paths, names, missing)
    images = tuple(dict.fromkeys(image for image, _ in paths))
    return MapFiles(folder, images, names, by_class, paths, tuple(notes))


@dataclass(frozen=True)
class MapFiles:
    """The maps of a folder. Without a class in their names, files hold one map per class."""

    folder: str
    images: tuple[str, ...]
    classes: tuple[str, ...]
    by_class: bool
    paths: Mapping[tuple[str, str], Path]  # (image, class), or (image, "")
    notes: tuple[str, ...]

    def load(self, volumes: bool, progress: Callable[[int, int], None]) -> Iterator[Any]:
        """Yield the maps of every image, one image at a time, checked so far that errors name the
        file.
        """
        for k, image in enumerate(self.images):
            if self.by_class:
                yield [self._layer(image, name, volumes) for name in self.classes]
            else:
                yield self._stack(self.paths[image, ""], volumes)
            progress(k + 1, len(self.images))

    def _layer(self, image: str, name: str, volumes: bool) -> NDArray[Any] | None:
        path = self.paths.get((image, name))
        if path is None:
            return None
        values = as_map(load_map(path), str(path))
        if values.ndim != 2 + volumes:
            raise _axes_error("one map per file", values, path, volumes)
        return values

    def _stack(self, path: Path, volumes: bool) -> NDArray[Any]:
        values = as_map(load_map(path), str(path))
        if len(self.classes) == 1 and values.ndim == 2 + volumes:
            values = values[None]
        if values.ndim != 3 + volumes or len(values) != len(self.classes):
            raise _axes_error(
                f"{len(self.classes)} maps in every file, one per class", values, path, volumes
            )
        return values


def _axes_error(expected: str, values: NDArray[Any], path: Path, volumes: bool) -> InputError:
    hint = "maps of volumes are read with --volumes"
    if volumes:
        hint = "maps of pictures are read without --volumes"
    return InputError(expected, rule="map-shape", file=str(path), value=values.shape, hint=hint)


def _list_maps(folder: str) -> tuple[dict[str, str], int]:
    """Return the files of maps below a folder, sorted by name, and the number of other files."""
    from calipers.io.source import list_files

    if not os.path.isdir(folder):
        rule = "not-a-folder" if os.path.exists(folder) else "not-found"
        hint = "one file per image, or image and class"
        raise InputError("a folder of maps", rule=rule, file=folder, hint=hint)
    files = list_files(Path(folder)).files
    maps = {}
    for name, path in sorted(files.items()):
        if name.lower().endswith(SUFFIXES):
            maps[name] = path
    if not maps:
        expected = f"maps ({', '.join(SUFFIXES)})"
        value = f"{len(files)} other files"
        raise InputError(expected, rule="map-missing", file=folder, value=value)
    return maps, len(files) - len(maps)


def _expression(pattern: str, classes: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern as a regular expression; given classes decide where the name of an image
    ends.
    """
    places = PLACES.findall(pattern)
    if sorted(places) not in (["image"], ["class", "image"]):
        raise UsageError(
            f"--pattern contains {{image}} once and {{class}} at most once, not {pattern!r}"
        )
    # Longer names first: an alternation takes the first one that fits.
    longest_first = sorted(classes, key=len, reverse=True)
    class_names = "|".join(map(re.escape, longest_first)) or "[^/]+"
    groups = {"image": "(?P<image>.+)", "class": f"(?P<class>{class_names})"}
    text = ""
    for k, piece in enumerate(PLACES.split(pattern)):
        # Every second piece is the name of a place, the others are literal text.
        text += groups[piece] if k % 2 else re.escape(piece)
    return re.compile(text, re.DOTALL)


def _match_files(
    folder: str, files: Mapping[str, str], expression: re.Pattern[str], pattern: str
) -> tuple[dict[tuple[str, str], Path], int]:
    """Return the files that fit, and how many do not."""
    with_suffix = pattern.lower().endswith(SUFFIXES)
    paths: dict[tuple[str, str], Path] = {}
    for name, path in files.items():
        # A pattern without suffix fits files of all formats.
        fits = expression.fullmatch(name if with_suffix else stem_of(name) or "")
        if fits is None:
            continue
        key = fits["image"], fits.groupdict().get("class", "")
        if key in paths:
            hint = f"{paths[key]} is a map of the same image and class"
            raise InputError(
                "one map per image and class", rule="dup-image", file=path, value=key, hint=hint
            )
        paths[key] = Path(path)
    if not paths:
        hint = (
            f"there is {next(iter(files))!r}; --pattern says which part is {{image}} and which is "
            "{class}"
        )
        raise InputError(f"files that fit {pattern!r}", rule="map-missing", file=folder, hint=hint)
    return paths, len(files) - len(paths)


def _notes_on_missing(
    folder: str, paths: Mapping[tuple[str, str], Path], names: Sequence[str], missing: str
) -> list[str]:
    """Return notes on images without a map of some class; raise if they are refused."""
    images = sorted({image for image, _ in paths})
    present = {name for _, name in paths}
    for name in names:
        if name not in present:
            hint = did_you_mean(name, sorted(present))
            raise InputError(
                "maps of every class", rule="map-missing", file=folder, value=name, hint=hint
            )
    absent = []
    for image in images:
        absent += [(image, name) for name in names if (image, name) not in paths]
    if not absent:
        return []
    count = f"{len(absent)} of {len(images) * len(names)} maps are missing"
    if missing == "refuse":
        hint = f"{count}; --missing empty treats them as maps without a finding"
        raise InputError(
            "a map per image and class", rule="map-missing", file=folder, value=absent[0], hint=hint
        )
    return [f"{count}: they give no box"]


def load_map(path: Path | str) -> NDArray[Any]:
    """Return the array of a file.

    Notes
    -----
    Arrays of npy and npz files come as they are stored; an npz holds one array, and maybe
    ``spacing`` and ``affine``. Those of NIfTI files (extra ``volumes``) become ``[class, ]z, y,
    x``, with slope and intercept applied. Grey pictures of 8 or 16 bits are divided by 255 or
    65535, so that white is 1. Colours cannot be turned back into scores and are refused, and so are
    arrays of Python objects, files that are cut off, and files that unpack to far more than they
    should.
    """
    name = str(path)
    if not name.lower().endswith(SUFFIXES):
        hint = f"maps are read from {', '.join(SUFFIXES)}"
        raise InputError(
            "a map", rule="volume-format", file=name, value=Path(path).suffix, hint=hint
        )
    # The suffix lets a file in, its contents decide what it is.
    volume = open_volume(path, limits=STACKED)
    if volume.format not in FORMATS:
        expected = f"one of the formats {', '.join(FORMATS)}"
        raise InputError(
            expected,
            rule="volume-format",
            file=name,
            value=volume.format,
            hint="the name says otherwise",
        )
    if volume.format not in ("png", "tiff"):
        return volume.read()
    white = _white(volume)
    return volume.read().astype(np.float64) / white


def _white(volume: Volume) -> float:
    """Return what stands for 1 in a picture of one page, or say why it holds no scores."""
    if volume.dimensions != 2:
        raise InputError(
            "one page", rule="map-shape", file=volume.file, value=f"{volume.shape[0]} pages"
        )
    if PALETTE in volume.notes:
        hint = (
            "colours cannot be turned back into scores: "
            "save the map itself, as npy or as a grey picture"
        )
        raise InputError(
            "a grey picture", rule="volume-channels", file=volume.file, value="a palette", hint=hint
        )
    if volume.dtype.name not in WHITE:
        expected = "8 or 16 bits, or floats"
        raise InputError(expected, rule="volume-dtype", file=volume.file, value=volume.dtype.name)
    return WHITE[volume.dtype.name]


def size_of(path: Path | str) -> tuple[int, ...]:
    """Return width, height[, depth] of a picture or volume from its header, without EXIF turns."""
    return picture_size(Path(path)) or open_volume(path, role="image").size


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
    file = open_source(fspath(path))
    if sniff_file(file).format in TABLES:
        return _sizes_of_table(open_table(file))
    return _sizes_of_references(file)


def _sizes_of_references(input_file: InputFile) -> ImageSizes:
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


def _sizes_of_table(table: FileTable) -> ImageSizes:
    columns = find_columns(table, SIZE_COLUMNS)
    sides = [columns[name] for name in SIZES if name in columns]
    has_image = [bool(name.strip()) for name in texts(table, columns["image"])]
    table = table.rows(np.flatnonzero(has_image))
    sizes = np.stack([_lengths(table, side) for side in sides], axis=1)
    first_rows: dict[str, int] = {}
    for row, name in enumerate(texts(table, columns["image"])):
        first_row = first_rows.setdefault(name, row)
        if (sizes[row] != sizes[first_row]).any():
            raise table.error(
                row, sides[0], "size-conflict", "one size per image", sizes[row].tolist()
            )
    ids = tuple(first_rows)
    size = sizes[list(first_rows.values())].reshape(len(ids), len(sides))
    return ImageSizes(table.file, ids, ids, size)


def _lengths(table: FileTable, column: str) -> F64:
    values = strict_numbers(table, column)
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 1) & (values == np.floor(values))))
    if len(wrong):
        row = int(wrong[0])
        expected = "a whole number above zero"
        raise table.error(row, column, "image-size", expected, values[row].item())
    return values
