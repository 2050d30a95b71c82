# SPDX-License-Identifier: Apache-2.0
"""Open DICOM segmentations as label volumes, with highdicom (extra ``dicom``)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calipers.errors import InputError, UsageError
from calipers.readers.volumes.dicom_files import silent_logs
from calipers.readers.volumes.limits import check_extent
from calipers.readers.volumes.orientation import affine_of, axis_codes, check_affine, spacing_of
from calipers.readers.volumes.volume import F64, Array, Request, Volume

WHOLE = np.dtype(np.uint16)
PART = np.dtype(np.float32)


def open_segments(request: Request) -> Volume:
    """Return the label volume of a segmentation, or one of its segments.

    Notes
    -----
    Without ``segment`` each voxel holds the number of its segment; overlapping and fractional
    segments are errors then. With ``segment`` a voxel is 1 inside and 0 outside, or the fraction.
    Segmentations often leave out empty slices: the volume then begins with the first stored slice
    and ends with the last.
    """
    with silent_logs("highdicom"):
        image = _segmentation(request.path)
        numbers = [int(n) for n in image.segment_numbers]
        if request.segment is not None and request.segment not in numbers:
            expected = f"one of the segments {numbers[:20]}"
            raise InputError(
                expected, rule="volume-member", file=request.file, value=request.segment
            )
        fractional = str(image.segmentation_type.value) == "FRACTIONAL"
        if fractional and request.segment is None:
            hint = f"say which segment: {numbers[:20]}"
            raise InputError(
                "whole segments",
                rule="volume-member",
                file=request.file,
                value="fractions",
                hint=hint,
            )
        if max(numbers, default=0) > np.iinfo(WHOLE).max:
            raise InputError(
                "numbers of segments below 65,536", rule="too-large", file=request.file
            )
        geometry = image.get_volume_geometry()
    if geometry is None:
        expected = "frames of one orientation at even distances"
        raise InputError(
            expected,
            rule="dicom-series",
            file=request.file,
            hint="export the segmentation as NIfTI",
        )
    shape = tuple(int(n) for n in geometry.spatial_shape)
    dtype = PART if fractional else WHOLE
    check_extent(shape, dtype.itemsize, request.file, request.limits)
    flipped, affine = _ras_affine(np.asarray(geometry.affine), shape[0])
    affine = check_affine(affine, request.file)
    reader = partial(_read, request.path, request.segment, dtype, flipped)
    note = f"{len(numbers)} segments; slices without a segment may be missing"
    return Volume(
        file=request.file,
        format="dicom-seg",
        shape=shape,
        dtype=dtype,
        reader=reader,
        spacing=spacing_of(affine, 3),
        affine=affine,
        codes=axis_codes(affine),
        notes=(note,),
    )


def _segmentation(path: Path) -> Any:
    try:
        import highdicom
    except ImportError:
        raise UsageError(
            f'{path}: DICOM segmentations need highdicom: pip install "calipers[dicom]"'
        ) from None
    return highdicom.seg.segread(path, lazy_frame_retrieval=True)


def _ras_affine(affine: F64, depth: int) -> tuple[bool, F64]:
    """Return whether slices are to be reversed, and the affine for the index x, y, z in RAS.

    The affine of highdicom is for z, y, x in LPS, and its slices may run against their normal;
    those of a series run along it.
    """
    x, y, z, origin = affine[:3, 2], affine[:3, 1], affine[:3, 0], affine[:3, 3]
    flipped = bool(np.cross(x, y) @ z < 0)
    if flipped:
        origin, z = origin + (depth - 1) * z, -z
    return flipped, affine_of([x, y, z], origin, lps=True)


def _read(path: Path, segment: int | None, dtype: np.dtype[Any], flipped: bool) -> Array:
    voxels = _voxels(path, segment, dtype)
    return voxels[::-1] if flipped else voxels


def _voxels(path: Path, segment: int | None, dtype: np.dtype[Any]) -> Array:
    with silent_logs("highdicom"):
        image = _segmentation(path)
        if segment is not None:
            volume = image.get_volume(segment_numbers=[segment], dtype=dtype)
            return np.asarray(volume.array)[..., 0]
        try:
            return np.asarray(image.get_volume(combine_segments=True, dtype=dtype).array)
        except RuntimeError:
            hint = f"read them one by one: segment={int(image.segment_numbers[0])} and so on"
            raise InputError(
                "segments that do not overlap", rule="volume-member", file=str(path), hint=hint
            ) from None
