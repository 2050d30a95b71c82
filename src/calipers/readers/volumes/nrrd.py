# SPDX-License-Identifier: Apache-2.0
"""Open NRRD files: ``.nrrd``, or ``.nhdr`` with its voxels in a second file; plain or gzip."""

from __future__ import annotations

import re
from typing import Any

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

MARK = b"NRRD"
TYPES = {
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
CODES = {word: code for code, words in TYPES.items() for word in words}
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
    fields = _fields(text, file)
    (axes,) = whole_numbers(_field(fields, "dimension", file), 1, file, "dimension")
    if axes not in (2, 3):
        hint = "one channel or time point per file"
        raise InputError(
            "two or three axes", rule="volume-shape", file=file, value=f"{axes} axes", hint=hint
        )
    size = whole_numbers(_field(fields, "sizes", file), axes, file, "sizes")
    block = _block(request, fields, size, end)
    affine, spacing = _place(fields, axes, file)
    return volume_of(request, "nrrd", block, affine, spacing, [])


def _fields(text: str, file: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines()[1:]:
        name, sign, value = line.partition(":")
        if line.startswith("#") or not sign or value.startswith("="):
            continue
        key = name.strip().lower().replace(" ", "")
        if key in fields:
            raise InputError("a field once", rule="volume-broken", file=file, field=name.strip())
        fields[key] = value.strip()
    return fields


def _field(fields: dict[str, str], name: str, file: str) -> str:
    if name not in fields:
        raise broken_file(file, "none", f"the field {name!r} in the header")
    return fields[name]


def _block(request: Request, fields: dict[str, str], size: tuple[int, ...], end: int) -> Block:
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
        raise broken_file(file, skip, "a byte skip from 0 on")
    return Block(path, start, size, stored, PACKINGS[encoding], skip)


def _place(
    fields: dict[str, str], axes: int, file: str
) -> tuple[F64 | None, tuple[float, ...] | None]:
    """Return the affine in RAS if the space is anatomical, and the spacing if there is one."""
    if "spacedirections" not in fields:
        if "spacings" not in fields:
            return None, None
        spacing = numbers(fields["spacings"], axes, file, "spacings")
        if all(np.isnan(spacing)):
            return None, None
        return None, check_spacing(tuple(spacing), file)
    vectors = VECTOR.findall(fields["spacedirections"])
    if len(vectors) != axes or any(vector.lower() == "none" for vector in vectors):
        hint = "save one channel per file"
        raise InputError("a direction of every axis", rule="volume-shape", file=file, hint=hint)
    space = fields.get("space", "").lower()
    across = 3 if space in SPACES else len(vectors[0].split(","))
    rows = [numbers(vector[1:-1], across, file, "space directions") for vector in vectors]
    steps = np.array(rows)
    if space not in SPACES:
        return None, check_spacing(tuple(np.linalg.norm(steps, axis=1).tolist()), file)
    origin = fields.get("spaceorigin", "(0,0,0)").strip()
    centre = numbers(origin.removeprefix("(").removesuffix(")"), 3, file, "space origin")
    signs = np.array(SPACES[space])
    affine = check_affine(
        affine_of(steps * signs, np.array(centre) * signs, lps=False), file, "space directions"
    )
    return affine, spacing_of(affine, axes)
