# SPDX-License-Identifier: Apache-2.0
"""`Volume`: the header of an image or volume on disk. Voxels are read on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError
from calipers.readers.source import hash_file
from calipers.readers.volumes.limits import DEFAULT, Limits, shape_text
from calipers.readers.volumes.streams import guarded

F64 = NDArray[np.float64]
Array = NDArray[Any]
Role = Literal["labels", "map", "image"]


@dataclass(frozen=True, slots=True)
class Request:
    """A file to open, and how to open it."""

    path: Path
    role: Role = "map"
    member: str | None = None  # of an archive
    segment: int | None = None  # of a DICOM segmentation
    limits: Limits = DEFAULT

    @property
    def file(self) -> str:
        """The path as messages show it."""
        return str(self.path)


@dataclass(frozen=True, eq=False)
class Volume:
    """An image or volume whose header was read, but not its voxels.

    The affine takes the index ``x, y, z`` of a voxel to the place of its centre in mm: right,
    anterior and superior are positive. ``codes`` are the directions of the axes x, y[, z]. Both are
    None if the file does not have them.
    """

    file: str
    format: str
    shape: tuple[int, ...]  # [z, ]y, x
    dtype: np.dtype[Any]  # of what `read` gives
    reader: Callable[[], Array] = field(repr=False)
    spacing: tuple[float, ...] | None = None  # mm along x, y[, z]
    affine: F64 | None = field(default=None, repr=False)
    codes: str | None = None
    notes: tuple[str, ...] = ()
    parts: tuple[str, ...] = field(default=(), repr=False)  # files of a series; empty = one file

    @property
    def dimensions(self) -> int:
        """2 or 3; 4 only where the limits allow it."""
        return len(self.shape)

    @property
    def size(self) -> tuple[int, ...]:
        """Width, height[, depth]."""
        return self.shape[::-1]

    def read(self) -> Array:
        """Return the voxels as an array ``[z, ]y, x`` in C order, with the slope and intercept of
        the header applied.

        Nothing is cached: a second call reads the file again.
        """
        with guarded(self.file):
            array = self.reader()
        if array.shape != self.shape:
            expected = f"voxels of the shape in the header, {shape_text(self.shape)}"
            raise InputError(
                expected, rule="volume-broken", file=self.file, value=shape_text(array.shape)
            )
        return np.ascontiguousarray(array)

    @cached_property
    def sha256(self) -> str:
        """The hash of the file; of a series, the hash of the hashes of its files in the order of
        the slices.
        """
        if not self.parts:
            return hash_file(Path(self.file))
        hashes = "".join(hash_file(Path(part)) for part in self.parts)
        return hashlib.sha256(hashes.encode()).hexdigest()

    @cached_property
    def bytes(self) -> int:
        """The size on disk."""
        return sum(Path(part).stat().st_size for part in self.parts or (self.file,))
