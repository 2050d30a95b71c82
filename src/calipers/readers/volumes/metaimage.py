# SPDX-License-Identifier: Apache-2.0
"""Open MetaImage files: ``.mha``, or ``.mhd`` with its voxels in a second file; plain or zlib."""

from __future__ import annotations

import numpy as np

from calipers.errors import InputError
from calipers.readers.volumes.itk import (
    Block,
    beside,
    numbers,
    text_header,
    volume_of,
    whole_numbers,
)
from calipers.readers.volumes.orientation import affine_of, check_affine, check_spacing, spacing_of
from calipers.readers.volumes.streams import broken_file
from calipers.readers.volumes.volume import F64, Request, Volume

LAST = b"ElementDataFile"
TYPES = {
    "MET_CHAR": "i1",
    "MET_UCHAR": "u1",
    "MET_SHORT": "i2",
    "MET_USHORT": "u2",
    "MET_INT": "i4",
    "MET_UINT": "u4",
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


def open_metaimage(request: Request) -> Volume:
    """Return the volume of a MetaImage file.

    Notes
    -----
    Places are in LPS and are converted to RAS. A row of the matrix is the direction of an axis. A
    picture without third axis has a spacing and no orientation.
    """
    file = request.file
    text, end = text_header(request, LAST)
    fields = _fields(text, file)
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
    block = _block(request, fields, size, end)
    affine, spacing = _place(fields, axes, file)
    return volume_of(request, "metaimage", block, affine, spacing, [])


def _fields(text: str, file: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, sign, value = line.partition("=")
        if not sign:
            raise InputError("lines of the form 'key = value'", rule="volume-format", file=file)
        if name.strip() in fields:
            raise InputError("a field once", rule="volume-broken", file=file, field=name.strip())
        fields[name.strip()] = value.strip()
    return fields


def _field(fields: dict[str, str], name: str, file: str) -> str:
    if name not in fields:
        raise broken_file(file, "none", f"the field {name!r} in the header")
    return fields[name]


def _flag(fields: dict[str, str], names: tuple[str, ...], otherwise: bool, file: str) -> bool:
    for name in names:
        if name in fields:
            if fields[name].lower() not in FLAGS:
                raise InputError(
                    "True or False", rule="volume-broken", file=file, field=name, value=fields[name]
                )
            return FLAGS[fields[name].lower()]
    return otherwise


def _block(request: Request, fields: dict[str, str], size: tuple[int, ...], end: int) -> Block:
    file = request.file
    kind = _field(fields, "ElementType", file)
    if kind not in TYPES:
        raise InputError("a number per voxel", rule="volume-dtype", file=file, value=kind)
    if not _flag(fields, ("BinaryData",), False, file):
        hint = "save it with BinaryData = True"
        raise InputError(
            "binary voxels", rule="volume-format", file=file, field="BinaryData", hint=hint
        )
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


def _place(
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
    place = next((name for name in ORIGINS if name in fields), None)
    origin = [0.0, 0.0, 0.0] if place is None else numbers(fields[place], 3, file, place)
    affine = check_affine(
        affine_of(rows * np.array(spacing)[:, None], origin, lps=True), file, matrix
    )
    return affine, spacing_of(affine, axes)
