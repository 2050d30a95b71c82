# SPDX-License-Identifier: Apache-2.0
"""Open ``.npy`` and ``.npz`` files: arrays ``[z, ]y, x``.

A `Request` comes in, a `Volume` goes out, to `calipers.io.volumes.open`; the readers of bags use
`read_layout`, `check_directory`, `members_of` and `as_array` on archives of their own. Members
``spacing`` and ``affine`` of an archive describe the array beside them.

Nothing is unpickled and nothing is extracted to disk: headers are parsed by NumPy after their
length was checked, and zip archives after the length of their list of members was.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from calipers.arrays import F64, Array
from calipers.errors import InputError
from calipers.io.archives import ArchiveMember
from calipers.io.source import PICKLES, open_regular
from calipers.io.volumes.volume import (
    DEFAULT,
    Limits,
    Request,
    Volume,
    VolumeReader,
    axis_codes,
    broken_file,
    check_affine,
    check_extent,
    check_packed,
    check_spacing,
    check_stored,
    drain,
    fill,
    spacing_of,
)

LONGEST_HEADER = 10_000  # bytes: it is parsed as text
MOST_MEMBERS = 10_000
LONGEST_DIRECTORY = 4 << 20  # bytes of the list of members
# Other methods of zip (bzip2, lzma) expand far more than the limits on packed files assume.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
FACTS = ("spacing", "affine")  # members that describe the array beside them


class NpyReader(VolumeReader):
    """An array of NumPy."""

    name = title = "npy"
    extensions = (".npy",)

    def recognises(self, name: str, head: bytes) -> bool:
        """Recognise the first bytes."""
        return head.startswith(npy.MAGIC_PREFIX)

    def open(self, request: Request) -> Volume:
        """Open the array."""
        return open_npy(request)


class NpzReader(VolumeReader):
    """An archive of arrays of NumPy."""

    name = title = "npz"
    extensions = (".npz",)

    def recognises(self, name: str, head: bytes) -> bool:
        """Recognise a zip archive that is no checkpoint."""
        return head[:4] in (b"PK\3\4", b"PK\5\6") and not name.endswith(PICKLES)

    def open(self, request: Request) -> Volume:
        """Open one array of the archive."""
        return open_npz(request)


def open_npy(request: Request) -> Volume:
    """Return the array of a ``.npy`` file; it has no spacing."""
    file = request.file
    with open_regular(request.path, follow=True) as stream:
        layout = read_layout(stream, file)
    _check(layout, file, request.limits)
    stored = request.path.stat().st_size
    check_stored(layout.start + layout.count, stored, file)
    # NumPy may append several arrays to a file; which one is meant would be a guess.
    if stored > layout.start + layout.count:
        raise broken_file(
            file,
            f"{stored - layout.start - layout.count} bytes more",
            "one array and nothing after it",
        )
    return Volume(
        file,
        "npy",
        layout.shape,
        layout.stored.newbyteorder("="),
        partial(_read_npy, file, layout),
    )


def open_member(member: ArchiveMember, limits: Limits = DEFAULT) -> Volume:
    """Return the array of a ``.npy`` file in a zip or tar archive."""
    layout = member_layout(member, limits)
    check_extent(layout.shape, layout.stored.itemsize, member.file, limits)
    return member_volume(member, layout)


def member_layout(member: ArchiveMember, limits: Limits = DEFAULT) -> ArrayLayout:
    """Parse the header of an array in an archive, whose list must agree with it."""
    file = member.file
    if not member.name.lower().endswith(".npy"):
        raise InputError(
            "an array, .npy",
            rule="archive-member",
            file=file,
            value=Path(member.name).suffix,
            hint="only arrays are read from archives; extract it to read other formats",
        )
    layout = read_layout(io.BytesIO(member.head(LONGEST_HEADER + 12)), file)
    check_numbers(layout, file)
    check_packed(member.size, member.packed, file, limits)
    if layout.start + layout.count != member.size:
        raise broken_file(
            file, f"{member.size:,} bytes", f"an array of {layout.start + layout.count:,} bytes"
        )
    return layout


def member_volume(member: ArchiveMember, layout: ArrayLayout) -> Volume:
    """Return the volume of an array in an archive."""
    reader = partial(_read_member, member, layout)
    native = layout.stored.newbyteorder("=")
    return Volume(member.file, "npy", layout.shape, native, reader, member=member)


def _read_member(member: ArchiveMember, layout: ArrayLayout) -> Array:
    raw = np.frombuffer(member.read(), np.uint8, layout.count, layout.start)
    return as_array(raw, layout)


def open_npz(request: Request) -> Volume:
    """Return one array of a ``.npz`` archive: ``member``, or the only one beside ``spacing`` and
    ``affine``.
    """
    file = request.file
    with open_regular(request.path, follow=True) as stream:
        check_directory(stream, file)
        with zipfile.ZipFile(stream) as archive:
            members = members_of(archive, file)
            name = _array_name(members, request.member, file)
            layout = _member_layout(archive, members[name], file, request.limits)
            # With four axes allowed, the array is a stack of maps whose first axis may count
            # classes: its place in space is not needed.
            facts = {}
            for fact in FACTS:
                if fact in members and fact != name and request.limits.axes == 3:
                    facts[fact] = _fact(archive, members[fact], file)
    dimensions = len(layout.shape)
    spacing, affine = _place(facts, dimensions, file)
    codes = None
    if affine is not None:
        codes = axis_codes(affine, dimensions)
    return Volume(
        file=file,
        format="npz",
        shape=layout.shape,
        dtype=layout.stored.newbyteorder("="),
        reader=partial(_read_npz, request.path, members[name].filename, layout),
        spacing=spacing,
        affine=affine,
        codes=codes,
    )


@dataclass(frozen=True, slots=True)
class ArrayLayout:
    """What the header of an array says."""

    shape: tuple[int, ...]
    fortran: bool
    stored: np.dtype[Any]
    start: int  # bytes of magic and header

    @property
    def count(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.stored.itemsize


def read_layout(stream: IO[bytes], file: str) -> ArrayLayout:
    """Parse magic and header; lengths are checked before they are used."""
    start = stream.read(12)
    if start[:6] != npy.MAGIC_PREFIX:
        raise InputError("a NumPy array", rule="volume-format", file=file, value=start[:6])
    version = tuple(start[6:8])
    if version not in ((1, 0), (2, 0), (3, 0)) or len(start) < 12:
        raise broken_file(file, f"version {version}", "a version of the format from 1 to 3")
    # Magic and version take 8 bytes, the length of the header 2 (version 1) or 4 bytes.
    prefix = 10 if version == (1, 0) else 12
    length = int.from_bytes(start[8:prefix], "little")
    if length > LONGEST_HEADER:
        raise InputError(
            f"a header of at most {LONGEST_HEADER} bytes", rule="too-large", file=file, value=length
        )
    text = start[prefix:] + stream.read(length - (12 - prefix))
    if len(text) < length:
        raise broken_file(file, f"{len(text)} bytes", f"a header of {length} bytes")
    layout = _layout_of(version == (1, 0), start[8:prefix] + text)
    if any(n < 0 for n in layout.shape):
        raise broken_file(file, layout.shape, "lengths of axes")
    return layout


# The files of a folder have few different headers, and parsing one takes longer than opening it.
@lru_cache(maxsize=256)
def _layout_of(is_first: bool, header: bytes) -> ArrayLayout:
    """Parse the length of a header and the header, of version 1 or a later one."""
    # Version 3 differs from version 2 only in the encoding of field names, which numbers do not
    # have.
    parse = npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0
    shape, fortran, dtype = parse(io.BytesIO(header))
    # The header is a Python literal: True is a number there.
    lengths = tuple(-1 if isinstance(n, bool) else int(n) for n in shape)
    # Magic and version take 8 bytes.
    return ArrayLayout(lengths, bool(fortran), np.dtype(dtype), 8 + len(header))


def check_numbers(layout: ArrayLayout, file: str) -> None:
    """Raise for an array of anything but numbers."""
    if layout.stored.hasobject:
        hint = "save numbers: object arrays are pickles and could run programs"
        raise InputError(
            "an array of numbers", rule="pickle", file=file, value="an object array", hint=hint
        )
    if layout.stored.kind not in "buif" or layout.stored.itemsize > 8:
        raise InputError(
            "a number per voxel", rule="volume-dtype", file=file, value=str(layout.stored)
        )


def _check(layout: ArrayLayout, file: str, limits: Limits) -> None:
    check_numbers(layout, file)
    check_extent(layout.shape, layout.stored.itemsize, file, limits)


def check_directory(stream: BinaryIO, file: str) -> None:
    """Raise if an archive has no list of members, or one that is too long to parse.

    The length is read from the end-of-central-directory record, the last one of the archive.
    """
    stream.seek(0, 2)
    # The record has 22 bytes and a comment of at most 64 kB behind it.
    stream.seek(max(0, stream.tell() - (1 << 16) - 22))
    tail = stream.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + 22:
        raise broken_file(file, "no list of members", "a zip archive")
    count, length = struct.unpack("<10xHI", tail[at : at + 16])
    if count > MOST_MEMBERS or length > LONGEST_DIRECTORY:
        expected = f"at most {MOST_MEMBERS:,} arrays in an archive"
        raise InputError(
            expected, rule="too-large", file=file, value=f"{count} in a list of {length} bytes"
        )
    stream.seek(0)


def members_of(archive: zipfile.ZipFile, file: str) -> dict[str, zipfile.ZipInfo]:
    """Return name -> member of an archive; unsafe names and other compressions are errors."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        # Nothing is extracted, yet a name that leads out of the archive is a sign of an attack.
        parts = info.filename.replace("\\", "/").split("/")
        if ".." in parts or not parts[0] or info.filename.endswith("/"):
            hint = "names with '..' or an absolute path are refused: save the archive again"
            raise InputError(
                "names of arrays", rule="volume-member", file=file, value=info.filename, hint=hint
            )
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise InputError("one array of a name", rule="volume-member", file=file, value=name)
        if info.flag_bits & 1 or info.compress_type not in METHODS:
            expected = "members that are stored or deflated and not encrypted"
            raise InputError(expected, rule="volume-format", file=file, field=name)
        members[name] = info
    return members


def _array_name(members: dict[str, zipfile.ZipInfo], member: str | None, file: str) -> str:
    arrays = [name for name in members if name not in FACTS] or list(members)
    if member is not None:
        if member in members:
            return member
        raise InputError(
            "the name of an array in the archive",
            rule="volume-member",
            file=file,
            value=member,
            hint=_list(arrays),
        )
    if len(arrays) != 1:
        value = f"{len(arrays)} of them"
        hint = f"name one with member: {_list(arrays)}"
        if "boxes" in arrays:
            hint = (
                "boxes of one image are read from a folder of archives, each named after its "
                "image; those of all images from JSON or a table"
            )
        raise InputError(
            "one array",
            rule="volume-member",
            file=file,
            value=value,
            hint=hint,
        )
    return arrays[0]


def _list(names: list[str]) -> str:
    quoted = ", ".join(repr(name[:80]) for name in names[:10])
    return f"the archive has {quoted or 'nothing'}"


def _member_layout(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: str, limits: Limits
) -> ArrayLayout:
    with archive.open(info) as stream:
        layout = read_layout(stream, file)
    _check(layout, file, limits)
    # The size in the list of members may be a lie, so the header of the array must agree with it.
    check_packed(info.file_size, info.compress_size, file, limits)
    if layout.start + layout.count != info.file_size:
        raise broken_file(
            file, f"{info.file_size:,} bytes", f"an array of {layout.start + layout.count:,} bytes"
        )
    return layout


def _fact(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: str) -> F64:
    """Return a small array of numbers."""
    with archive.open(info) as stream:
        layout = read_layout(stream, file)
        if layout.stored.kind not in "uif" or layout.count > 1024:
            raise InputError("a few numbers", rule="volume-member", file=file, field=info.filename)
        values = fill(stream, layout.count, file).view(layout.stored)
    return values.reshape(layout.shape, order="F" if layout.fortran else "C").astype(np.float64)


def _place(
    facts: dict[str, F64], dimensions: int, file: str
) -> tuple[tuple[float, ...] | None, F64 | None]:
    # The spacing follows from an affine, so a second statement of it is not looked at.
    affine, spacing = facts.get("affine"), facts.get("spacing")
    if affine is not None:
        if affine.shape != (4, 4):
            raise InputError(
                "an affine of 4 x 4 numbers", rule="affine", file=file, value=affine.shape
            )
        affine = check_affine(affine, file)
        return spacing_of(affine, dimensions), affine
    if spacing is None:
        return None, None
    if spacing.shape != (dimensions,):
        raise InputError(
            f"{dimensions} spacings: x, y, z", rule="spacing", file=file, value=spacing.tolist()
        )
    return check_spacing(tuple(spacing.tolist()), file), None


def _read_npy(file: str, layout: ArrayLayout) -> Array:
    with open_regular(Path(file), follow=True) as stream:
        stream.seek(layout.start)
        return as_array(fill(stream, layout.count, file), layout)


def _read_npz(path: Path, member: str, layout: ArrayLayout) -> Array:
    with (
        open_regular(path, follow=True) as file,
        zipfile.ZipFile(file) as archive,
        archive.open(member) as stream,
    ):
        fill(stream, layout.start, str(path))
        raw = fill(stream, layout.count, str(path))
        # zipfile compares the checksum only at the end of a member.
        drain(stream, str(path))
        return as_array(raw, layout)


def as_array(raw: Array, layout: ArrayLayout) -> Array:
    """Return bytes as the array that a header describes, in the byte order of this machine."""
    array = raw.view(layout.stored).reshape(layout.shape, order="F" if layout.fortran else "C")
    if layout.stored.kind == "b":
        return np.asarray(array.view(np.uint8) != 0)  # other bytes than 0 and 1 are true
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
