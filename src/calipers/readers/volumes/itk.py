# SPDX-License-Identifier: Apache-2.0
"""Read what NRRD and MetaImage share: a text header, then voxels with x fastest, plain or
compressed, and places in LPS or RAS.

We parse both formats ourselves: no small library reads both, and a large one would allocate
whatever size a header claims.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calipers.errors import InputError
from calipers.readers.source import open_regular, require_file
from calipers.readers.volumes.limits import check_extent, check_packed, check_stored
from calipers.readers.volumes.orientation import axis_codes
from calipers.readers.volumes.streams import broken_file, read_gzip, read_stored, read_zlib
from calipers.readers.volumes.volume import F64, Array, Request, Volume

LONGEST_HEADER = 1 << 20  # bytes
LONGEST_NUMBER = 40  # characters


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
                f"{stored - block.skip - block.count} bytes behind the voxels were not read"
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


def numbers(text: str, count: int, file: str, field: str) -> list[float]:
    """Return the ``count`` numbers of a line of a header."""
    words = text.replace(",", " ").split()
    try:
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
