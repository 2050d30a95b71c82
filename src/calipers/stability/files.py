# SPDX-License-Identifier: Apache-2.0
"""Open the maps of one model: an array, an archive, a folder with a file per bag, or one volume.

`calipers.stability.read` calls these functions and gets `ModelMaps`: a header per bag, whatever
files it comes from. Headers are parsed and checked here; every map is a `Volume` that reads its
values on demand, from a compressed array by a `Stack` that goes on from the nearest position before
it. Nothing is unpickled.
"""

from __future__ import annotations

import math
import threading
import unicodedata
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal

import numpy as np

from calipers.arrays import Array
from calipers.errors import InputError
from calipers.io.archives import find_member
from calipers.io.source import open_regular, require_file
from calipers.io.tables.columns import ColumnSpec
from calipers.io.tables.table import FileTable
from calipers.io.volumes.numpy import (
    FACTS,
    ArrayLayout,
    as_array,
    check_directory,
    check_numbers,
    member_layout,
    member_volume,
    members_of,
    read_layout,
)
from calipers.io.volumes.open import open_volume
from calipers.io.volumes.pairing import list_samples
from calipers.io.volumes.volume import (
    DEFAULT,
    STEP,
    Role,
    Volume,
    broken_file,
    check_extent,
    check_packed,
    check_stored,
    drain,
    fill,
    guarded,
)

MOST_CURSORS = 8  # of readers that go through different parts at once

LEAST_AXES = 2  # of what `check_extent` accepts

MAPS, IDS = "maps", "ids"
UNNAMED = "arr_0"  # what NumPy calls an array that was saved without a name
LONGEST_IDS = 1 << 28  # bytes

BAG = ColumnSpec(
    "bag",
    ("bag", "bag_id", "image", "image_id", "case", "sample", "id", "file_name", "filename"),
    required=True,
)


@dataclass(frozen=True)
class ModelMaps:
    """The maps of one model by bag; values are read on demand."""

    model: str
    source: str  # file or folder
    maps: Mapping[str, Volume]  # bag id -> map
    named: bool = True  # whether bags have ids; if not, these are the positions "0", "1", ...
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.maps:
            raise InputError(
                "at least one map",
                rule="no-bags",
                file=self.source,
                location=f"model {self.model!r}",
            )


def open_npy(path: Path, model: str) -> ModelMaps:
    """Return the maps of an array (bags, ...), by position."""
    file = str(require_file(path))
    with guarded(file):
        layout = _npy_layout(path)
    each = _layout_of_bag(layout, file)
    count = layout.shape[0]
    maps: dict[str, Volume] = {}
    for k in range(count):
        reader = partial(_read_bag, path, layout, k)
        maps[str(k)] = Volume(file, "npy", each.shape, _native_type(each), reader)
    return ModelMaps(model, file, maps, named=False)


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
        _add_bag(maps, name, Volume(file, "npz", layout.shape, _native_type(layout), reader))
    others = [name for name in FACTS if name in members]
    return ModelMaps(model, file, maps, notes=_unused_note(file, others))


def open_folder(folder: Path, model: str, pattern: str | None = None) -> ModelMaps:
    """Return the maps of a folder, or of a zip or tar of arrays; the id of a bag is the name of
    its file without extension.

    ``pattern`` is the path with ``{name}`` in place of the id, such as ``"{name}_map.nii.gz"``.
    """
    listing = list_samples(folder, "maps", pattern)
    if not listing.files:
        names = []
        if folder.is_dir():
            names = [path.name for path in sorted(folder.iterdir()) if path.is_file()]
        hint = ""
        if names:
            hint = (
                f"a file here is called {names[0]!r}; the pattern is its name, "
                "with {name} for the id of the image"
            )
        raise InputError(
            f"files that match the pattern {pattern!r}",
            rule="no-bags",
            file=str(folder),
            location=f"model {model!r}",
            hint=hint,
        )
    maps: dict[str, Volume] = {}
    for bag, path in listing.files.items():
        try:
            maps[bag] = open_file(path, "map")
        except InputError as error:
            raise located(error, model, bag) from None
    notes = list(listing.notes)
    for volume in maps.values():
        notes += volume.notes
    return ModelMaps(model, str(folder), maps, notes=tuple(dict.fromkeys(notes)))


def open_single(path: Path, model: str) -> ModelMaps:
    """Return one file as the only bag: the user has paired the models by giving a file of each."""
    volume = open_volume(path)
    return ModelMaps(model, str(path), {"0": volume}, named=False, notes=volume.notes)


def open_file(path: str, role: Role) -> Volume:
    """Return a map or a label mask; arrays may also have one axis: instances in a row."""
    return open_one(Path(path)) if path.lower().endswith(".npy") else open_volume(path, role=role)


def open_one(path: Path) -> Volume:
    """Return the single map of a ``.npy`` file: instances in a row, an image or a volume."""
    member = find_member(path)
    file = str(path if member is not None else require_file(path))
    with guarded(file):
        layout = _npy_layout(path) if member is None else member_layout(member)
        check_shape(layout.shape, layout.stored.itemsize, file)
    if member is not None:
        return member_volume(member, layout)
    return Volume(file, "npy", layout.shape, _native_type(layout), partial(_read_all, path, layout))


def _open_stack(archive: _Archive, name: str, model: str) -> ModelMaps:
    """Return the maps of one array (bags, ...) in an archive."""
    file, layout = archive.file, archive.layout(name)
    each = _layout_of_bag(layout, file)
    # In Fortran order the values of one bag are spread over the whole stream.
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
        _add_bag(
            maps, bag, Volume(file, "npz", each.shape, _native_type(each), partial(stack.read, k))
        )
    others = [other for other in archive.members if other not in (name, IDS)]
    return ModelMaps(model, file, maps, ids is not None, _unused_note(file, others))


@dataclass(frozen=True)
class _Archive:
    """An archive whose list of members is parsed once."""

    path: Path

    def __getstate__(self) -> dict[str, Any]:
        # An open archive stays in its process; a worker in another one opens its own.
        return {"path": self.path}

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


@dataclass
class _Cursor:
    """A stream, and the bag that it stands before."""

    stream: IO[bytes]
    at: int


@dataclass
class Stack:
    """An array in an archive that is read bag by bag; reading forwards costs one pass.

    A compressed stream has no random access. Open streams keep their position, so that several
    readers that each go forwards do not unpack anything twice; a step back unpacks from the
    beginning.
    """

    path: Path
    member: str
    layout: ArrayLayout
    each: ArrayLayout  # of one bag
    _archive: zipfile.ZipFile | None = None
    _cursors: list[_Cursor] = field(default_factory=list)  # the last used one is last
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __getstate__(self) -> dict[str, Any]:
        # Open streams and locks stay in their process; a worker in another one opens its own.
        return {"path": self.path, "member": self.member, "layout": self.layout, "each": self.each}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Stack.__init__(self, **state)

    def read(self, k: int) -> Array:
        """Return bag ``k``."""
        # Threads share the streams, and a stream has one position.
        with self._lock:
            cursor = self._nearest(k)
            try:
                raw = self._read_at(cursor, k)
            except BaseException:
                self._drop(cursor)  # its position is unknown
                raise
            if cursor.at == self.layout.shape[0]:
                self._drop(cursor)
        return as_array(raw, self.each)

    def _read_at(self, cursor: _Cursor, k: int) -> Array:
        file = str(self.path)
        self._skip(cursor, (k - cursor.at) * self.each.count)
        raw = fill(cursor.stream, self.each.count, file)
        cursor.at = k + 1
        # The checksum of the archive is verified only by who reads to the end.
        if cursor.at == self.layout.shape[0]:
            drain(cursor.stream, file)  # the checksum
        return raw

    def _nearest(self, k: int) -> _Cursor:
        """Return the cursor that has the least way to go, moved to the end of the list."""
        behind = [cursor for cursor in self._cursors if cursor.at <= k]
        if behind:
            best = max(behind, key=lambda cursor: cursor.at)
            self._cursors.remove(best)
        else:
            if self._archive is None:
                self._archive = zipfile.ZipFile(self.path)
            best = _Cursor(self._archive.open(self.member), 0)
            fill(best.stream, self.layout.start, str(self.path))
        self._cursors.append(best)
        # The one that was not used for longest goes.
        if len(self._cursors) > MOST_CURSORS:
            self._drop(self._cursors[0])
        return best

    def _drop(self, cursor: _Cursor) -> None:
        cursor.stream.close()
        self._cursors.remove(cursor)

    def _skip(self, cursor: _Cursor, count: int) -> None:
        while count:
            step = cursor.stream.read(min(count, STEP))
            if not step:
                raise broken_file(str(self.path), "the end of the file", "maps of all bags")
            count -= len(step)


def check_shape(shape: tuple[int, ...], each: int, file: str) -> None:
    """Raise for the shape of one map that is empty, too large, or has not one, two or three axes.

    Instances in a row, ``(n,)``, obey the limits of one image.
    """
    if shape:
        shape = (1,) * (LEAST_AXES - len(shape)) + shape
    check_extent(shape, each, file, DEFAULT)


def located(error: InputError, model: str, bag: str | None = None) -> InputError:
    """Return an error that also names the model and the bag."""
    place = f"model {model!r}"
    if bag is not None:
        place += f", bag {bag!r}"
    return InputError(
        error.expected,
        rule=error.rule,
        file=error.file,
        location=", ".join(part for part in (place, error.location) if part),
        field=error.field,
        # The value was made printable where the error arose; quoting it twice would show escapes.
        value=_Quoted(error.value) if error.value else None,
        hint=error.hint,
    )


class _Quoted(str):
    """A value that was shortened and quoted already: it is shown as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _npy_layout(path: Path) -> ArrayLayout:
    file, stored = str(path), path.stat().st_size
    with open_regular(path, follow=True) as stream:
        layout = read_layout(stream, file)
    check_numbers(layout, file)
    check_stored(layout.start + layout.count, stored, file)
    # Bytes behind the array: the header does not belong to this file, or it was written twice.
    if stored > layout.start + layout.count:
        raise broken_file(
            file,
            f"{stored - layout.start - layout.count} bytes more",
            "one array and nothing after it",
        )
    return layout


def _layout_of_bag(layout: ArrayLayout, file: str) -> ArrayLayout:
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


def _add_bag(maps: dict[str, Volume], bag: str, volume: Volume) -> None:
    bag = unicodedata.normalize("NFC", bag)
    if bag in maps:
        hint = "every bag has an id of its own"
        raise InputError(
            "unique ids", rule="dup-bag", file=volume.file, field=IDS, value=bag, hint=hint
        )
    maps[bag] = volume


def _unused_note(file: str, names: list[str]) -> tuple[str, ...]:
    if not names:
        return ()
    return (f"{file}: arrays that are not maps were not read: {', '.join(names)}",)


def _native_type(layout: ArrayLayout) -> np.dtype[Any]:
    return layout.stored.newbyteorder("=")


def _read_bag(path: Path, layout: ArrayLayout, k: int) -> Array:
    """Return one bag of an array of bags, without the others if they lie apart from it."""
    n, *rest = layout.shape
    size = math.prod(rest)
    with open_regular(path, follow=True) as stream:
        if not layout.fortran:
            stream.seek(layout.start + k * size * layout.stored.itemsize)
            return _native_copy(_values(stream, layout, size, path).reshape(rest))
        # The values of a bag lie n apart: the whole file goes by, some megabytes at a time.
        stream.seek(layout.start)
        step = max(1, STEP // (n * layout.stored.itemsize))
        parts = [np.empty(0, layout.stored)]
        for start in range(0, size, step):
            block = _values(stream, layout, n * min(step, size - start), path)
            parts.append(block[k::n])
    return _native_copy(np.concatenate(parts).reshape(rest, order="F"))


def _read_all(path: Path, layout: ArrayLayout) -> Array:
    with open_regular(path, follow=True) as stream:
        stream.seek(layout.start)
        values = _values(stream, layout, math.prod(layout.shape), path)
    order: Literal["F", "C"] = "F" if layout.fortran else "C"
    return _native_copy(values.reshape(layout.shape, order=order))


def _values(stream: BinaryIO, layout: ArrayLayout, n: int, path: Path) -> Array:
    """Return the next values of a file; one that was cut off since it was opened is an error."""
    return fill(stream, n * layout.stored.itemsize, str(path)).view(layout.stored)


def _native_copy(view: Array) -> Array:
    """Return a copy in memory in the byte order of this machine.

    Any byte of a boolean array other than 0 is true.
    """
    values = np.array(view, order="C")
    if values.dtype.kind == "b":
        return np.asarray(values.view(np.uint8) != 0)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def rename_column(table: FileTable, old: str, new: str) -> FileTable:
    """Return a table in which one column has another name."""
    columns = {}
    for name, cells in table.columns.items():
        columns[new if name == old else name] = cells
    return replace(table, columns=columns)
