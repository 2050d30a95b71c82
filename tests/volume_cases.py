"""Volumes made on the spot, and how a file is refused."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.errors import InputError
from calipers.io.volumes.open import open_volume

OBLIQUE = np.array(
    [[0.0, 0.3, 2.0, 10.0], [1.5, 0.0, 0.0, -20.0], [0.0, -3.0, 0.2, 5.0], [0.0, 0.0, 0.0, 1.0]]
)


def labels(shape: tuple[int, ...] = (4, 5, 6), kind: Any = np.uint8) -> np.ndarray:
    """A block of ones off the centre: no flip or transposition leaves it where it is."""
    found = np.zeros(shape, kind)
    found[tuple(slice(1, 2 + k) for k in range(len(shape)))] = 1
    return found


def noise(shape: tuple[int, ...] = (4, 5, 6), kind: Any = np.float32, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(kind).kind == "f":
        return rng.random(shape).astype(kind)
    return rng.integers(0, np.iinfo(kind).max, shape, dtype=kind)


def refused(path: Path, **options: Any) -> InputError:
    """Return the error with which a file is refused, when it is opened or when it is read."""
    with pytest.raises(InputError) as caught:
        open_volume(path, **options).read()
    assert caught.value.file == str(path)
    return caught.value


def nrrd(path: Path, content: bytes = bytes(24), **fields: Any) -> Path:
    """Write a header by hand; None leaves a field out."""
    head = {"type": "uchar", "dimension": 3, "sizes": "4 3 2", "encoding": "raw", **fields}
    lines = "".join(
        f"{name.replace('_', ' ')}: {value}\n" for name, value in head.items() if value is not None
    )
    path.write_bytes(b"NRRD0004\n# a comment\n" + lines.encode() + b"\n" + content)
    return path


def metaimage(path: Path, content: bytes = bytes(24), **fields: Any) -> Path:
    head = {
        "ObjectType": "Image",
        "NDims": 3,
        "BinaryData": True,
        "DimSize": "4 3 2",
        "ElementType": "MET_UCHAR",
    }
    head |= {**fields, "ElementDataFile": fields.get("ElementDataFile", "LOCAL")}
    lines = "".join(f"{name} = {value}\n" for name, value in head.items() if value is not None)
    path.write_bytes(lines.encode() + content)
    return path


def npy_header(text: str, version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode("latin1")


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
