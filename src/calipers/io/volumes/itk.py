# SPDX-License-Identifier: Apache-2.0
"""Open NRRD and MetaImage files: a text header, then voxels with x fastest, plain or compressed.

NRRD is ``.nrrd``, or ``.nhdr`` with its voxels in a second file, plain or gzip. MetaImage is
``.mha``, or ``.mhd`` with its voxels in a second file, plain or zlib. `NrrdReader` and
`MetaImageReader` give volumes to `open_volume`: each parses its fields into a `Block` (where the
voxels are) and an affine, and `volume_of` compares the sizes with the file.

We parse both formats ourselves: no small library reads both, and a large one would allocate
whatever size a header claims. The fields are those of teem's NRRD definition and of ITK's MetaIO.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calipers.arrays import F64, Array
from calipers.errors import InputError
from calipers.io.source import open_regular, require_file
from calipers.io.volumes.volume import (
    Request,
    Volume,
    VolumeReader,
    affine_of,
    axis_codes,
    broken_file,
    check_affine,
    check_directions,
    check_extent,
    check_packed,
    check_spacing,
    check_stored,
    read_gzip,
    read_stored,
    read_zlib,
    spacing_of,
)

LONGEST_HEADER = 1 << 20  # bytes
LONGEST_NUMBER = 40  # characters

# NRRD: the words for each type of voxel, as its definition lists them.
MARK = b"NRRD"
NRRD_TYPES = {
    "i1": ("signed char", "int8", "int8_t"),
    "u1": ("uchar", "unsigned char", "uint8", "uint8_t"),
    "i2": ("short", "short int", "signed short", "signed short int", "int16", "int16_t"),
    "u2": ("ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"),
    "i4": ("int", "signed int", "int32", "int32_t"),
    "u4": ("uint", "unsigned int", "uint32", "uint32_t"),
    "i8": (
        "longlong",
        "long long",
        "long long int",
        "signed long long",
        "signed long long int",
        "int64",
        "int64_t",
    ),
    "u8": ("ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"),
    "f4": ("float",),
    "f8": ("double",),
}
CODES = {word: code for code, words in NRRD_TYPES.items() for word in words}
PACKINGS: dict[str, Any] = {"raw": "none", "gzip": "gzip", "gz": "gzip"}
ORDERS = {"little": "<", "big": ">"}
SPACES = {  # name -> signs of its axes in RAS
    "right-anterior-superior": (1, 1, 1),
    "ras": (1, 1, 1),
    "left-posterior-superior": (-1, -1, 1),
    "lps": (-1, -1, 1),
    "left-anterior-superior": (-1, 1, 1),
    "las": (-1, 1, 1),
}
VECTOR = re.compile(r"\([^()]*\)|none", re.IGNORECASE)

# MetaImage: this field ends the header; the voxels may follow at once.
LAST_FIELD = b"ElementDataFile"
TYPES = {
    "MET_CHAR": "i1",
    "MET_UCHAR": "u1",
    "MET_SHORT": "i2",
    "MET_USHORT": "u2",
    "MET_INT": "i4",
    "MET_UINT": "u4",
    # Long has 32 bits in the files of ITK, whatever it has on this machine.
    "MET_LONG": "i4",
    "MET_ULONG": "u4",
    "MET_LONG_LONG": "i8",
    "MET_ULONG_LONG": "u8",
    "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}
ORIGINS = ("Offset", "Position", "Origin")
MATRICES = ("TransformMatrix", "Rotation", "Orientation")
FLAGS = {"true": True, "1": True, "false": False, "0": False}


class NrrdReader(VolumeReader):
    """NRRD with its voxels, or beside them."""

    name, title = "nrrd", "NRRD"
    extensions = (".nrrd", ".nhdr")

    def recognises(self, name: str, head: bytes) -> bool:
        """Recognise the first bytes."""
        return head.startswith(MARK)

    def open(self, request: Request) -> Volume:
        """Open the volume."""
        return open_nrrd(request)


class MetaImageReader(VolumeReader):
    """MetaImage with its voxels, or beside them.

    The extension tells the format: the header begins with any of its fields.
    """

    name, title = "metaimage", "MetaImage"
    extensions = (".mha", ".mhd")

    def open(self, request: Request) -> Volume:
        """Open the volume."""
        return open_metaimage(request)


def open_nrrd(request: Request) -> Volume:
    """Return the volume of a NRRD file.

    Notes
    -----
    Places are converted to RAS from the three anatomical spaces (RAS, LPS, LAS); in any other space
    a volume has a spacing and no orientation. The origin is the centre of the first voxel.
    """
    file = request.file
    text, end = text_header(request, b"")
    if not text.startswith(MARK.decode()):
        raise InputError("a NRRD header", rule="volume-format", file=file)
    fields = _nrrd_fields(text, file)
    (axes,) = whole_numbers(_field(fields, "dimension", file), 1, file, "dimension")
    if axes not in (2, 3):
        hint = "one channel or time point per file"
        raise InputError(
            "two or three axes", rule="volume-shape", file=file, value=f"{axes} axes", hint=hint
        )
    size = whole_numbers(_field(fields, "sizes", file), axes, file, "sizes")
    block = _nrrd_block(request, fields, size, end)
    affine, spacing = _nrrd_place(fields, axes, file)
    return volume_of(request, "nrrd", block, affine, spacing, [])


def _nrrd_fields(text: str, file: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines()[1:]:
        name, sign, value = line.partition(":")
        # Comments, lines without a field, and key/value pairs (":="), which describe no voxels.
        if line.startswith("#") or not sign or value.startswith("="):
            continue
        key = name.strip().lower().replace(" ", "")
        if key in fields:
            raise InputError("a field once", rule="volume-broken", file=file, field=name.strip())
        fields[key] = value.strip()
    return fields


def _nrrd_block(request: Request, fields: dict[str, str], size: tuple[int, ...], end: int) -> Block:
    file = request.file
    kind = _field(fields, "type", file).lower()
    if kind not in CODES:
        raise InputError("a number per voxel", rule="volume-dtype", file=file, value=kind)
    encoding = _field(fields, "encoding", file).lower()
    if encoding not in PACKINGS:
        expected = f"an encoding among {', '.join(PACKINGS)}"
        raise InputError(
            expected, rule="volume-format", file=file, value=encoding, hint="save it as raw or gzip"
        )
    order = ORDERS.get(fields.get("endian", "little").lower())
    # Single bytes have no order, so only they may leave it out.
    if order is None or ("endian" not in fields and CODES[kind][1] != "1"):
        raise broken_file(file, fields.get("endian", "none"), "the field 'endian': little or big")
    if whole_numbers(fields.get("lineskip", "0"), 1, file, "line skip") != (0,):
        raise InputError(
            "voxels without lines before them", rule="volume-format", file=file, field="line skip"
        )
    (skip,) = whole_numbers(fields.get("byteskip", "0"), 1, file, "byte skip")
    stored = np.dtype(order + CODES[kind])
    name = fields.get("datafile")
    path, start = (request.path, end) if name is None else (beside(request, name), 0)
    # A byte skip of -1 is the format's sign for "the voxels are the last bytes".
    if skip == -1 and PACKINGS[encoding] == "none":
        count = Block(path, 0, size, stored, "none").count
        start, skip = max(start, path.stat().st_size - count), 0
    if not 0 <= skip <= 1 << 27:
        raise broken_file(file, skip, "a byte skip of at least 0")
    return Block(path, start, size, stored, PACKINGS[encoding], skip)


def _nrrd_place(
    fields: dict[str, str], axes: int, file: str
) -> tuple[F64 | None, tuple[float, ...] | None]:
    """Return the affine in RAS if the space is anatomical, and the spacing if there is one."""
    if "spacedirections" not in fields:
        if "spacings" not in fields:
            return None, None
        spacing = numbers(fields["spacings"], axes, file, "spacings")
        # NaN is the format's sign for an axis without spacing.
        if all(np.isnan(spacing)):
            return None, None
        return None, check_spacing(tuple(spacing), file)
    vectors = VECTOR.findall(fields["spacedirections"])
    if len(vectors) != axes or any(vector.lower() == "none" for vector in vectors):
        hint = "save one channel per file"
        raise InputError("a direction of every axis", rule="volume-shape", file=file, hint=hint)
    space = fields.get("space", "").lower()
    # An unknown space may have any number of axes; only the lengths of its vectors are used.
    across = 3 if space in SPACES else len(vectors[0].split(","))
    rows = []
    for vector in vectors:
        rows.append(numbers(vector[1:-1], across, file, "space directions", separator=","))
    steps = np.array(rows)
    if space not in SPACES:
        check_spacing(tuple(np.linalg.norm(steps, axis=1).tolist()), file)
        return None, spacing_of(np.transpose(steps), axes)
    origin = fields.get("spaceorigin", "(0,0,0)").strip()
    place = origin.removeprefix("(").removesuffix(")")
    centre = numbers(place, 3, file, "space origin", separator=",")
    # Directions and origin change sign together, along the axes that point the other way.
    signs = np.array(SPACES[space])
    affine = check_affine(
        affine_of(steps * signs, np.array(centre) * signs, lps=False), file, "space directions"
    )
    return affine, spacing_of(affine, axes)


def open_metaimage(request: Request) -> Volume:
    """Return the volume of a MetaImage file.

    Notes
    -----
    Places are in LPS and are converted to RAS. A row of the matrix is the direction of an axis. A
    picture without third axis has a spacing and no orientation.
    """
    file = request.file
    text, end = text_header(request, LAST_FIELD)
    fields = _metaimage_fields(text, file)
    axes = whole_numbers(_field(fields, "NDims", file), 1, file, "NDims")[0]
    if axes not in (2, 3):
        raise InputError("two or three axes", rule="volume-shape", file=file, value=f"{axes} axes")
    if fields.get("ElementNumberOfChannels", "1") != "1":
        value = fields["ElementNumberOfChannels"]
        raise InputError(
            "one channel",
            rule="volume-channels",
            file=file,
            value=value,
            hint="one channel per file",
        )
    size = whole_numbers(_field(fields, "DimSize", file), axes, file, "DimSize")
    block = _metaimage_block(request, fields, size, end)
    affine, spacing = _metaimage_place(fields, axes, file)
    return volume_of(request, "metaimage", block, affine, spacing, [])


def _metaimage_fields(text: str, file: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, sign, value = line.partition("=")
        if not sign:
            raise InputError("lines of the form 'key = value'", rule="volume-format", file=file)
        if name.strip() in fields:
            raise InputError("a field once", rule="volume-broken", file=file, field=name.strip())
        fields[name.strip()] = value.strip()
    return fields


def _metaimage_block(
    request: Request, fields: dict[str, str], size: tuple[int, ...], end: int
) -> Block:
    file = request.file
    kind = _field(fields, "ElementType", file)
    if kind not in TYPES:
        raise InputError("a number per voxel", rule="volume-dtype", file=file, value=kind)
    if not _flag(fields, ("BinaryData",), False, file):
        hint = "save it with BinaryData = True"
        raise InputError(
            "binary voxels", rule="volume-format", file=file, field="BinaryData", hint=hint
        )
    # Two names for the same flag: the writers of ITK have used both.
    big = _flag(fields, ("BinaryDataByteOrderMSB", "ElementByteOrderMSB"), False, file)
    stored = np.dtype((">" if big else "<") + TYPES[kind])
    packed = _flag(fields, ("CompressedData",), False, file)
    name = fields["ElementDataFile"]
    path, start = (request.path, end) if name.upper() == "LOCAL" else (beside(request, name), 0)
    (skip,) = whole_numbers(fields.get("HeaderSize", "0"), 1, file, "HeaderSize")
    if skip == -1 and not packed:  # -1 is the format's sign for "the voxels are the last bytes"
        start = max(start, path.stat().st_size - Block(path, 0, size, stored, "none").count)
    elif skip < 0 or (skip and packed):
        raise InputError(
            "voxels without bytes before them", rule="volume-format", file=file, field="HeaderSize"
        )
    else:
        start += skip
    return Block(path, start, size, stored, "zlib" if packed else "none")


def _metaimage_place(
    fields: dict[str, str], axes: int, file: str
) -> tuple[F64 | None, tuple[float, ...] | None]:
    name = next((name for name in ("ElementSpacing", "ElementSize") if name in fields), None)
    if name is None:
        return None, None
    spacing = check_spacing(tuple(numbers(fields[name], axes, file, name)), file)
    matrix = next((name for name in MATRICES if name in fields), None)
    if axes != 3 or matrix is None:
        return None, spacing
    rows = np.array(numbers(fields[matrix], 9, file, matrix)).reshape(3, 3)
    check_directions(rows, file, matrix)
    place = next((name for name in ORIGINS if name in fields), None)
    origin = [0.0, 0.0, 0.0] if place is None else numbers(fields[place], 3, file, place)
    affine = check_affine(
        affine_of(rows * np.array(spacing)[:, None], origin, lps=True), file, matrix
    )
    return affine, spacing_of(affine, axes)


def _flag(fields: dict[str, str], names: tuple[str, ...], otherwise: bool, file: str) -> bool:
    for name in names:
        if name in fields:
            if fields[name].lower() not in FLAGS:
                raise InputError(
                    "True or False", rule="volume-broken", file=file, field=name, value=fields[name]
                )
            return FLAGS[fields[name].lower()]
    return otherwise


def _field(fields: dict[str, str], name: str, file: str) -> str:
    if name not in fields:
        raise broken_file(file, "none", f"the field {name!r} in the header")
    return fields[name]


@dataclass(frozen=True, slots=True)
class Block:
    """Where the voxels are and how they are stored; axes x, y[, z]."""

    path: Path
    start: int
    size: tuple[int, ...]
    stored: np.dtype[Any]
    packing: Literal["none", "gzip", "zlib"]
    skip: int = 0  # unpacked bytes before the voxels

    @property
    def count(self) -> int:
        """Bytes of the voxels."""
        return math.prod(self.size) * self.stored.itemsize


def text_header(request: Request, end: bytes) -> tuple[str, int]:
    """Return the text of a header and its length in bytes.

    It ends after the first line that begins with ``end``; if ``end`` is empty, after an empty line.
    """
    with open_regular(request.path, follow=True) as file:
        head = file.read(LONGEST_HEADER)
    # Lines end with LF or CRLF; the header is bytes, because voxels may follow it directly.
    at = 0
    while at < len(head):
        stop = head.find(b"\n", at)
        stop = len(head) if stop < 0 else stop + 1
        line = head[at:stop].strip()
        at = stop
        if line.startswith(end) if end else not line:
            break
    else:
        if end or len(head) == LONGEST_HEADER:
            raise broken_file(
                request.file, "no end of the header", f"a header within {LONGEST_HEADER:,} bytes"
            )
    return head[:at].decode("utf-8", errors="replace"), at


def volume_of(
    request: Request, format: str, block: Block, affine: F64 | None, spacing: Any, notes: list[str]
) -> Volume:
    """Return the volume that a parsed header describes; its sizes are compared with its file."""
    shape = block.size[::-1]
    check_extent(shape, block.stored.itemsize, request.file, request.limits)
    stored = block.path.stat().st_size - block.start
    if block.packing == "none":
        check_stored(block.start + block.skip + block.count, stored + block.start, str(block.path))
        if stored > block.skip + block.count:
            notes.append(
                f"{stored - block.skip - block.count} bytes after the voxels were not read"
            )
    else:
        check_packed(block.skip + block.count, stored, str(block.path), request.limits)
    codes = None
    if affine is not None:
        codes = axis_codes(affine, len(shape))
    parts: tuple[str, ...] = ()
    if block.path != request.path:
        parts = (request.file, str(block.path))
    return Volume(
        file=request.file,
        format=format,
        shape=shape,
        dtype=block.stored.newbyteorder("="),
        reader=partial(read_block, block),
        spacing=spacing,
        affine=affine,
        codes=codes,
        notes=tuple(notes),
        parts=parts,
    )


def read_block(block: Block) -> Array:
    """Return the voxels ``[z, ]y, x``."""
    if block.packing == "gzip":
        raw = read_gzip(block.path, block.start, block.skip, block.count)
    elif block.packing == "zlib":
        raw = read_zlib(block.path, block.start, block.count)
    else:
        raw = read_stored(block.path, block.start + block.skip, block.count)
    array = raw.view(block.stored).reshape(block.size[::-1])
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def beside(request: Request, name: str) -> Path:
    """Return the file of the voxels that a header names; it must be in the same folder."""
    # A path could lead anywhere: only a plain name beside the header is opened.
    if (
        not name
        or Path(name).name != name
        or name in (".", "..")
        or "%" in name
        or " " in name.strip()
    ):
        hint = (
            "lists and patterns of files are not supported: save the voxels in one file beside it"
        )
        raise InputError(
            "the name of one file", rule="volume-format", file=request.file, value=name, hint=hint
        )
    path = require_file(request.path.parent / name)
    if path.resolve().parent != request.path.parent.resolve():
        raise InputError(
            "a file in the folder of its header", rule="outside-root", file=request.file, value=name
        )
    return path


def numbers(
    text: str, count: int, file: str, field: str, *, separator: str | None = None
) -> list[float]:
    """Return the ``count`` numbers of a line of a header, which blanks separate.

    Only vectors have commas: elsewhere 1,5 may be one number or two.
    """
    words = text.split(separator)
    try:
        # Very long digits would take long to parse, and no header needs them.
        if len(words) != count or any(len(word) > LONGEST_NUMBER for word in words):
            raise ValueError
        return [float(word) for word in words]
    except ValueError:
        raise InputError(
            f"{count} numbers", rule="volume-broken", file=file, field=field, value=text
        ) from None


def whole_numbers(text: str, count: int, file: str, field: str) -> tuple[int, ...]:
    """Return the ``count`` whole numbers of a line of a header."""
    values = numbers(text, count, file, field)
    if not all(n.is_integer() for n in values):
        raise InputError(
            f"{count} whole numbers", rule="volume-broken", file=file, field=field, value=text
        )
    return tuple(int(n) for n in values)
