# SPDX-License-Identifier: Apache-2.0
"""Open bags from ``.npy`` (bags, ...) and ``.npz`` (an array per bag, or ``maps`` and ``ids``).

Headers are parsed and checked here; every map becomes a `Volume` that reads its values on demand.
Nothing is unpickled.
"""

from __future__ import annotations

import unicodedata
import zipfile
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from calipers.errors import InputError
from calipers.readers.bags.model_maps import ModelMaps, check_shape
from calipers.readers.bags.stacks import Stack
from calipers.readers.source import open_regular, require_file
from calipers.readers.volumes.limits import DEFAULT, check_packed, check_stored
from calipers.readers.volumes.numpy_files import (
    FACTS,
    ArrayLayout,
    as_array,
    check_directory,
    check_numbers,
    members_of,
    read_layout,
)
from calipers.readers.volumes.streams import broken_file, drain, fill, guarded
from calipers.readers.volumes.volume import Array, Volume

MAPS, IDS = "maps", "ids"
UNNAMED = "arr_0"  # what NumPy calls an array that was saved without a name
LONGEST_IDS = 1 << 28  # bytes


def open_npy(path: Path, model: str) -> ModelMaps:
    """Return the maps of an array (bags, ...), by position."""
    file = str(require_file(path))
    with guarded(file):
        layout = _npy_layout(path)
    each = _each(layout, file)
    count = layout.shape[0]
    maps: dict[str, Volume] = {}
    for k in range(count):
        reader = partial(_row, path, layout, k)
        maps[str(k)] = Volume(file, "npy", each.shape, _native(each), reader)
    return ModelMaps(model, file, maps, named=False)


def open_one(path: Path) -> Volume:
    """Return the single map of a ``.npy`` file: instances in a row, an image or a volume."""
    file = str(require_file(path))
    with guarded(file):
        layout = _npy_layout(path)
        check_shape(layout.shape, layout.stored.itemsize, file)
    return Volume(file, "npy", layout.shape, _native(layout), partial(_whole, path, layout))


def open_npz(path: Path, model: str) -> ModelMaps:
    """Return the maps of an archive: ``maps`` (bags, ...) with or without ``ids``, or an array per
    bag by its id.

    Notes
    -----
    An archive of a single array without a name is read as (bags, ...), like a ``.npy`` file.
    """
    file = str(require_file(path))
    with guarded(file):
        with open_regular(path, follow=True) as stream:
            check_directory(stream, file)
        archive = _Archive(path)
        members = archive.members
        if MAPS in members:
            return _open_stack(archive, MAPS, model)
        if set(members) - set(FACTS) == {UNNAMED}:
            return _open_stack(archive, UNNAMED, model)
        layouts = {name: archive.layout(name) for name in members if name not in FACTS}
    maps: dict[str, Volume] = {}
    for name, layout in layouts.items():
        check_numbers(layout, file)
        check_shape(layout.shape, layout.stored.itemsize, file)
        reader = partial(archive.read, name, layout)
        _add(maps, name, Volume(file, "npz", layout.shape, _native(layout), reader))
    others = [name for name in FACTS if name in members]
    return ModelMaps(model, file, maps, notes=_unused_note(file, others))


def _open_stack(archive: _Archive, name: str, model: str) -> ModelMaps:
    """Return the maps of one array (bags, ...) in an archive."""
    file, layout = archive.file, archive.layout(name)
    each = _each(layout, file)
    if layout.fortran:
        hint = "save numpy.ascontiguousarray(maps), so that one bag can be read without the others"
        raise InputError(
            "an array in C order",
            rule="volume-format",
            file=file,
            field=name,
            value="Fortran",
            hint=hint,
        )
    ids = archive.ids() if IDS in archive.members else None
    if ids is not None and len(ids) != layout.shape[0]:
        value = f"{len(ids)} ids, {layout.shape[0]} maps"
        raise InputError(
            "an id for every map", rule="bags-differ", file=file, field=IDS, value=value
        )
    stack = Stack(archive.path, archive.members[name].filename, layout, each)
    maps: dict[str, Volume] = {}
    for k in range(layout.shape[0]):
        bag = str(k) if ids is None else ids[k]
        _add(maps, bag, Volume(file, "npz", each.shape, _native(each), partial(stack.read, k)))
    others = [other for other in archive.members if other not in (name, IDS)]
    return ModelMaps(model, file, maps, ids is not None, _unused_note(file, others))


@dataclass(frozen=True)
class _Archive:
    """An archive whose list of members is parsed once."""

    path: Path

    @property
    def file(self) -> str:
        return str(self.path)

    @cached_property
    def zip(self) -> zipfile.ZipFile:
        # It closes its file when it is collected; several threads may read members.
        return zipfile.ZipFile(self.path)

    @cached_property
    def members(self) -> dict[str, zipfile.ZipInfo]:
        return members_of(self.zip, self.file)

    def layout(self, name: str) -> ArrayLayout:
        info = self.members[name]
        with self.zip.open(info) as stream:
            layout = read_layout(stream, self.file)
        if layout.stored.hasobject:
            return layout  # a pickle, whose length means nothing; the callers refuse it
        check_packed(info.file_size, info.compress_size, self.file, DEFAULT)
        if layout.start + layout.count != info.file_size:
            raise broken_file(
                self.file,
                f"{info.file_size:,} bytes",
                f"an array of {layout.start + layout.count:,} bytes",
            )
        return layout

    def read(self, name: str, layout: ArrayLayout) -> Array:
        with self.zip.open(self.members[name]) as stream:
            fill(stream, layout.start, self.file)
            raw = fill(stream, layout.count, self.file)
            drain(stream, self.file)
        return as_array(raw, layout)

    def ids(self) -> list[str]:
        """Return the texts or whole numbers of the array ``ids``."""
        layout = self.layout(IDS)
        if layout.stored.hasobject or layout.stored.kind not in "USiu" or len(layout.shape) != 1:
            value = f"shape {layout.shape} of {layout.stored}"
            hint = "save ids as text: numpy.array(ids, dtype=str)"
            raise InputError(
                "a text for every bag",
                rule="id-type",
                file=self.file,
                field=IDS,
                value=value,
                hint=hint,
            )
        if layout.count > LONGEST_IDS:
            raise InputError(
                "short ids",
                rule="too-large",
                file=self.file,
                field=IDS,
                value=f"{layout.count:,} bytes",
            )
        if not layout.count:
            return []
        names = self.read(IDS, layout).tolist()
        if layout.stored.kind == "S":
            return [name.decode("utf-8") for name in names]
        return [str(name) for name in names]


def _npy_layout(path: Path) -> ArrayLayout:
    file, stored = str(path), path.stat().st_size
    with open_regular(path, follow=True) as stream:
        layout = read_layout(stream, file)
    check_numbers(layout, file)
    check_stored(layout.start + layout.count, stored, file)
    if stored > layout.start + layout.count:
        raise broken_file(
            file,
            f"{stored - layout.start - layout.count} bytes more",
            "one array and nothing behind it",
        )
    return layout


def _each(layout: ArrayLayout, file: str) -> ArrayLayout:
    """Return the layout of one bag of an array (bags, ...)."""
    check_numbers(layout, file)
    if len(layout.shape) not in (2, 3, 4):
        hint = (
            "the first axis counts the bags: (bags, instances), (bags, rows, columns) "
            "or (bags, slices, rows, columns)"
        )
        value = " x ".join(map(str, layout.shape)) or "one number"
        raise InputError("maps (bags, ...)", rule="volume-shape", file=file, value=value, hint=hint)
    if layout.shape[0] == 0:
        raise InputError(
            "at least one map", rule="no-bags", file=file, value=" x ".join(map(str, layout.shape))
        )
    check_shape(layout.shape[1:], layout.stored.itemsize, file)
    return replace(layout, shape=layout.shape[1:], start=0)


def _add(maps: dict[str, Volume], bag: str, volume: Volume) -> None:
    bag = unicodedata.normalize("NFC", bag)
    if bag in maps:
        hint = "every bag has an id of its own"
        raise InputError(
            "ids that differ", rule="dup-bag", file=volume.file, field=IDS, value=bag, hint=hint
        )
    maps[bag] = volume


def _unused_note(file: str, names: list[str]) -> tuple[str, ...]:
    if not names:
        return ()
    return (f"{file}: arrays that are no maps were not read: {', '.join(names)}",)


def _native(layout: ArrayLayout) -> np.dtype[Any]:
    return layout.stored.newbyteorder("=")


def _map_file(path: Path, layout: ArrayLayout) -> Array:
    with open_regular(path, follow=True) as stream:
        # NumPy takes an open file, although its types do not say so.
        memory_map: Any = np.memmap
        order = "F" if layout.fortran else "C"
        values: Array = memory_map(stream, layout.stored, "r", layout.start, layout.shape, order)
        return values


def _row(path: Path, layout: ArrayLayout, k: int) -> Array:
    return _plain(_map_file(path, layout)[k])


def _whole(path: Path, layout: ArrayLayout) -> Array:
    return _plain(_map_file(path, layout))


def _plain(view: Array) -> Array:
    """Return a copy in memory in the byte order of this machine.

    Any byte of a boolean array other than 0 is true.
    """
    values = np.array(view, order="C")
    if values.dtype.kind == "b":
        return np.asarray(values.view(np.uint8) != 0)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))
