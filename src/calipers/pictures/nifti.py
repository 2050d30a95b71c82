# SPDX-License-Identifier: Apache-2.0
"""Read one slice of a NIfTI volume for display (extra ``volumes``)."""

from __future__ import annotations

import gzip
import math
import struct
from typing import Any, BinaryIO

import numpy as np

from calipers.pictures.pixels import PictureError, Pixels, check_size, window_to_bytes

MOST_VOXELS = 2**31
GZIP_MARK = b"\x1f\x8b"
HEADER_SIZES = (348, 540)  # NIfTI-1, NIfTI-2: the first number of a file
ORDERS = ("<", ">")
START = 176  # bytes that contain, in both versions, the offset of the voxels
MOST_BEFORE = 100_000_000  # bytes before the voxels
MOST_BYTES = 8 << 30  # unpacked


def read_nifti(file: BinaryIO, name: str, slice_at: float | None) -> Pixels:
    """Return a 2D picture, or the slice of a volume through ``slice_at`` (voxels along z).

    Notes
    -----
    The axes of the array are x, y, z, as in the boxes of a cohort. A slice is therefore shown as
    ``data[:, :, z].T``: x to the right, y downwards, whatever the orientation in space. Only that
    slice is read.
    """
    stream, start = _unpacked(file)
    volume = _loaded(stream, start, name)
    shape = tuple(int(n) for n in volume.shape)
    width, height, depth = _extent(shape, int(volume.get_data_dtype().itemsize), name)
    place = _slice(slice_at, depth, name)
    planes = (slice(None), slice(None), place, *[0] * (len(shape) - 3))[: len(shape)]
    values = np.asarray(volume.dataobj[planes]).T
    if values.dtype.kind not in "buif":
        raise PictureError(
            "a number per voxel", rule="picture-format", file=name, value=values.dtype.kind
        )
    array = values if values.dtype == np.uint8 else window_to_bytes(values, name)
    return Pixels(np.ascontiguousarray(array), width, height, depth if len(shape) > 2 else None)


def _unpacked(file: BinaryIO) -> tuple[BinaryIO, bytes]:
    """Return the file, unpacked while it is read if it is packed, and its first bytes."""
    packed = file.read(2) == GZIP_MARK
    file.seek(0)
    stream: Any = gzip.GzipFile(fileobj=file) if packed else file
    start = stream.read(START)
    stream.seek(0)
    return stream, start


def _loaded(stream: BinaryIO, start: bytes, name: str) -> Any:
    """Return the volume with its header read and its voxels not."""
    try:
        import nibabel
    except ImportError:
        hint = "pip install 'calipers[volumes]'"
        raise PictureError(
            "nibabel, which reads NIfTI", rule="missing-extra", file=name, hint=hint
        ) from None
    for order in ORDERS:
        size, *offset = struct.unpack(f"{order}i104xf56xq", start.ljust(START, b"\0"))
        if size in HEADER_SIZES:
            # nibabel would read everything before the voxels into memory.
            if not offset[HEADER_SIZES.index(size)] <= MOST_BEFORE:
                raise PictureError("a short header", rule="picture-large", file=name)
            classes = (nibabel.Nifti1Image, nibabel.Nifti2Image)
            return classes[HEADER_SIZES.index(size)].from_stream(stream)
    raise PictureError("a NIfTI file", rule="picture-format", file=name)


def _extent(shape: tuple[int, ...], each: int, name: str) -> tuple[int, int, int]:
    """Return width, height and depth; further axes must have length one.

    A voxel has ``each`` bytes.
    """
    text = " x ".join(str(n) for n in shape)
    if len(shape) < 2 or any(n != 1 for n in shape[3:]):
        raise PictureError("two or three axes", rule="picture-format", file=name, value=text)
    if math.prod(shape) > min(MOST_VOXELS, MOST_BYTES // each):
        limit = f"at most {MOST_VOXELS:,} voxels and {MOST_BYTES >> 30} GB"
        raise PictureError(limit, rule="picture-large", file=name, value=text)
    check_size(shape[0], shape[1], name)
    return shape[0], shape[1], shape[2] if len(shape) > 2 else 1


def _slice(slice_at: float | None, depth: int, name: str) -> int:
    if slice_at is None and depth == 1:
        return 0
    if slice_at is None:
        raise PictureError(
            "a picture", rule="picture-slice", file=name, value=f"a volume of {depth} slices"
        )
    if not 0 <= slice_at < depth:
        raise PictureError(
            f"a slice from 0 to {depth - 1}", rule="picture-slice", file=name, value=slice_at
        )
    return math.floor(slice_at)
