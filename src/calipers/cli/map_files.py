# SPDX-License-Identifier: Apache-2.0
"""Which file of a folder is the map of which image and class, and how large the images are.

`calipers boxes` calls `find_maps` and `ids_and_sizes` before it reads any map.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.heatmaps.checks import as_map
from calipers.readers.maps import MAP_SUFFIXES, load_map, size_of
from calipers.readers.volumes.opening import stem_of

PLACES = re.compile(r"\{([^{}]*)\}")


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
            raise _axes("one map per file", values, path, volumes)
        return values

    def _stack(self, path: Path, volumes: bool) -> NDArray[Any]:
        values = as_map(load_map(path), str(path))
        if len(self.classes) == 1 and values.ndim == 2 + volumes:
            values = values[None]
        if values.ndim != 3 + volumes or len(values) != len(self.classes):
            raise _axes(
                f"{len(self.classes)} maps in every file, one per class", values, path, volumes
            )
        return values


def _axes(expected: str, values: NDArray[Any], path: Path, volumes: bool) -> InputError:
    hint = "maps of volumes are read with --volumes"
    if volumes:
        hint = "maps of pictures are read without --volumes"
    return InputError(expected, rule="map-shape", file=str(path), value=values.shape, hint=hint)


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
    if not by_class and not classes:
        raise UsageError(
            "--classes is needed: it names the maps in a file, in their order, such as "
            "--classes nodule,mass"
        )
    paths, n_unmatched = _match_files(folder, files, _expression(pattern, classes), pattern)
    names = tuple(classes) or tuple(sorted({name for _, name in paths}))
    notes = []
    if n_unmatched:
        notes.append(f"{n_unmatched} files do not fit {pattern!r}")
    if n_others:
        notes.append(f"{n_others} files of other kinds are not read")
    if by_class:
        notes += _complete(folder, paths, names, missing)
    images = tuple(dict.fromkeys(image for image, _ in paths))
    return MapFiles(folder, images, names, by_class, paths, tuple(notes))


def _list_maps(folder: str) -> tuple[dict[str, str], int]:
    """Return the files of maps below a folder, sorted by name, and the number of other files."""
    from calipers.readers.listing import list_files

    if not Path(folder).is_dir():
        rule = "not-a-folder" if Path(folder).exists() else "not-found"
        hint = "one file per image, or image and class"
        raise InputError("a folder of maps", rule=rule, file=folder, hint=hint)
    files = list_files(Path(folder)).files
    maps = {}
    for name, path in sorted(files.items()):
        if name.lower().endswith(MAP_SUFFIXES):
            maps[name] = path
    if not maps:
        expected = f"maps ({', '.join(MAP_SUFFIXES)})"
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
    with_suffix = pattern.lower().endswith(MAP_SUFFIXES)
    paths: dict[tuple[str, str], Path] = {}
    for name, path in files.items():
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


def _complete(
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


def ids_and_sizes(images: Sequence[str], options: Mapping[str, Any]) -> tuple[tuple[str, ...], Any]:
    """Return the ids of the images, and their sizes: one for all, one each, or None for those of
    the maps.
    """
    size_options = [
        f"--{name}" for name in ("images", "sizes", "size") if options[name] is not None
    ]
    if len(size_options) > 1:
        raise UsageError(f"{' and '.join(size_options)} exclude each other: give one of them")
    if options["ids"] == "picture" and options["images"] is None:
        raise UsageError("--ids picture needs --images DIR, the folder of the pictures")
    if options["images"] is not None:
        return _of_pictures(images, options["images"], options["ids"])
    if options["sizes"] is not None:
        return _of_table(images, options["sizes"])
    return tuple(images), None if options["size"] is None else _one_size(options["size"])


def _one_size(text: str) -> list[int]:
    sides = re.split(r"[x,]", text)
    if len(sides) not in (2, 3) or not all(side.isascii() and side.isdigit() for side in sides):
        raise UsageError(f"--size takes WIDTHxHEIGHT, or WIDTHxHEIGHTxDEPTH, not {text!r}")
    return [int(side) for side in sides]


def _of_pictures(images: Sequence[str], folder: str, ids: str) -> tuple[tuple[str, ...], Any]:
    from calipers.pictures.finding import PictureFiles
    from calipers.tables.cohort import Cohort

    # Pictures are looked up for a cohort, so the images become one without objects.
    nothing = [{"image_id": name, "boxes": [], "labels": []} for name in images]
    pictures = PictureFiles.of(Path(folder), Cohort.from_arrays(nothing, classes=("any",)))
    paths = []
    for k, name in enumerate(images):
        path = pictures.path_of(k)
        if path is None:
            hint = "; ".join(pictures.notes())
            raise InputError(
                "a picture for every map", rule="no-picture", file=folder, value=name, hint=hint
            )
        paths.append(path)
    sizes = [size_of(path) for path in paths]
    if ids == "picture":
        return tuple(path.name for path in paths), sizes
    return tuple(images), sizes


def _of_table(images: Sequence[str], path: str) -> tuple[tuple[str, ...], Any]:
    from calipers.readers.image_sizes import read_sizes

    table = read_sizes(path)
    stems = [_stem(name) for name in table.ids]
    # An exact name comes first; a name without its extension counts only if nothing else fits.
    row_lookups = [
        _rows_of(table.ids),
        _rows_of(table.names),
        _rows_of(stems),
        _rows_of([_stem(name) for name in table.names]),
    ]
    table_rows = []
    for image in images:
        rows = next((lookup[image] for lookup in row_lookups if image in lookup), [])
        if not rows:
            hint = did_you_mean(image, list(dict.fromkeys(stems))[:1000])
            raise InputError(
                "a size for every map", rule="size-unknown", file=path, value=image, hint=hint
            )
        if len(rows) > 1:
            value = f"{image}: {table.ids[rows[0]]} or {table.ids[rows[1]]}"
            raise InputError("one image for every map", rule="dup-image", file=path, value=value)
        table_rows.append(rows[0])
    sizes = table.size[np.array(table_rows, np.int64)].astype(int).tolist()
    return tuple(table.ids[row] for row in table_rows), sizes


def _rows_of(names: Sequence[str]) -> dict[str, list[int]]:
    """Return name -> its rows."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows


def _stem(name: str) -> str:
    last = name.rpartition("/")[2]
    return stem_of(last) or last.rpartition(".")[0] or name
