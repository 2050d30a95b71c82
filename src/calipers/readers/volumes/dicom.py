# SPDX-License-Identifier: Apache-2.0
"""Open one DICOM file: an image, several frames, or a segmentation (extra ``dicom``).

`open_dicom` is called by `opening.open_volume`; `dicom_series` uses the functions that read single
elements of a header.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calipers.errors import InputError
from calipers.readers.source import open_regular
from calipers.readers.volumes.dicom_files import header_of, numbers_of, silent_logs
from calipers.readers.volumes.dicom_stack import SlicePlace, stack_slices
from calipers.readers.volumes.limits import check_extent, check_packed, check_stored
from calipers.readers.volumes.orientation import axis_codes, check_spacing, spacing_of
from calipers.readers.volumes.volume import F64, Array, Request, Volume

SEGMENTATION = "1.2.840.10008.5.1.4.1.1.66.4"
LABEL_MAP = "1.2.840.10008.5.1.4.1.1.66.7"
GREYS = ("MONOCHROME1", "MONOCHROME2")
MOST_FRAMES = 65_536


def open_dicom(request: Request) -> Volume:
    """Return an image, or the volume of a file with several frames.

    Notes
    -----
    Values are rescaled by slope and intercept, and ``MONOCHROME1`` is not inverted. Frames that
    have positions are sorted by them and must be evenly spaced. Frames without positions stay in
    the order of the file, and the volume has no orientation.
    """
    header, compressed = header_of(request)
    if str(header.get("SOPClassUID")) in (SEGMENTATION, LABEL_MAP):
        from calipers.readers.volumes.dicom_segments import open_segments

        return open_segments(request)
    frames = frames_of(header, request.file)
    plane = plane_of(header, request)
    shape = plane if frames == 1 else (frames, *plane)
    check_pixels(header, shape, compressed, request)
    order, affine, spacing = _place(header, frames, request.file)
    slope, inter = rescaling_of(header, request.file)
    stored = stored_dtype(header, request.file)
    dtype = stored
    if (slope, inter) != (1.0, 0.0):
        dtype = np.dtype(np.float64)
    codes = None
    notes: tuple[str, ...] = ()
    if affine is not None:
        codes = axis_codes(affine, len(shape))
    elif frames > 1:
        notes = ("frames are in the order of the file: it has no positions",)
    return Volume(
        file=request.file,
        format="dicom",
        shape=shape,
        dtype=dtype,
        reader=partial(_read, request.path, stored, (slope, inter), order),
        spacing=spacing,
        affine=affine,
        codes=codes,
        notes=notes,
    )


def frames_of(header: Any, file: str) -> int:
    """Return the number of frames."""
    frames = int(header.get("NumberOfFrames") or 1)
    if not 1 <= frames <= MOST_FRAMES:
        raise InputError(f"1 to {MOST_FRAMES} frames", rule="too-large", file=file, value=frames)
    return frames


def plane_of(header: Any, request: Request) -> tuple[int, int]:
    """Return the rows and columns of a picture of one channel; only images may have several."""
    if int(header.get("SamplesPerPixel") or 1) != 1 and request.role != "image":
        raise InputError("one channel", rule="volume-channels", file=request.file, value="colours")
    if str(header.get("PhotometricInterpretation")) not in GREYS and request.role != "image":
        raise InputError("shades of grey", rule="volume-channels", file=request.file)
    return int(header.get("Rows") or 0), int(header.get("Columns") or 0)


def stored_dtype(header: Any, file: str) -> np.dtype[Any]:
    """Return how a pixel is stored."""
    bits = int(header.get("BitsAllocated") or 0)
    signed = int(header.get("PixelRepresentation") or 0)
    if bits not in (8, 16, 32) or signed not in (0, 1):
        raise InputError(
            "pixels of 8, 16 or 32 bits", rule="volume-dtype", file=file, value=f"{bits} bits"
        )
    kind = "i" if signed else "u"
    return np.dtype(f"{kind}{bits // 8}")


def check_pixels(header: Any, shape: tuple[int, ...], compressed: bool, request: Request) -> None:
    """Raise for a picture that is too large, or larger than its file."""
    each = stored_dtype(header, request.file).itemsize * int(header.get("SamplesPerPixel") or 1)
    check_extent(shape, each, request.file, request.limits)
    needed, stored = math.prod(shape) * each, request.path.stat().st_size
    if not compressed:
        check_stored(needed, stored, request.file)
    elif needed > request.limits.spared:
        check_packed(needed, stored, request.file, request.limits)


def rescaling_of(header: Any, file: str) -> tuple[float, float]:
    """Return slope and intercept."""
    slope, inter = header.get("RescaleSlope"), header.get("RescaleIntercept")
    if slope is None and inter is None:
        return 1.0, 0.0
    slopes = numbers_of(1.0 if slope is None else slope, 1)
    intercepts = numbers_of(0.0 if inter is None else inter, 1)
    if slopes is None or intercepts is None or slopes[0] == 0.0:
        raise InputError(
            "a rescaling by finite numbers", rule="non-finite", file=file, field="RescaleSlope"
        )
    return slopes[0], intercepts[0]


def slice_of(header: Any, name: str, *groups: Any) -> SlicePlace | None:
    """Return the place of a picture, from the functional groups of its frame or else from its own
    elements; None if unknown.
    """

    def element_of(sequence: str, element: str, count: int) -> tuple[float, ...] | None:
        for group in groups:
            for item in group.get(sequence) or ():
                if (values := numbers_of(item.get(element), count)) is not None:
                    return values
        return numbers_of(header.get(element), count)

    position = element_of("PlanePositionSequence", "ImagePositionPatient", 3)
    orientation = element_of("PlaneOrientationSequence", "ImageOrientationPatient", 6)
    spacing = element_of("PixelMeasuresSequence", "PixelSpacing", 2)
    if position is None or orientation is None or spacing is None or min(spacing) <= 0:
        return None
    return SlicePlace(name, position, orientation, spacing)


def read_pixels(path: Path, stored: np.dtype[Any]) -> Array:
    """Return all pixels of a file as they are stored; colours become grey."""
    import warnings

    from PIL import Image
    from pydicom.pixels import pixel_array

    # An encapsulated picture may be larger than the header of the DICOM file claims.
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    with open_regular(path, follow=True) as file, silent_logs():
        array = np.asarray(pixel_array(file))
    if array.ndim > 2 and array.shape[-1] == 3 and array.dtype == np.uint8:
        array = array.mean(axis=-1)
    return array.astype(stored, copy=False)


def _place(
    header: Any, frames: int, file: str
) -> tuple[list[int] | None, F64 | None, tuple[float, ...] | None]:
    """Return the order of the frames, the affine and the spacing, as far as they are known."""
    common = tuple(header.get("SharedFunctionalGroupsSequence") or ())
    each = tuple(header.get("PerFrameFunctionalGroupsSequence") or ())
    if each and len(each) != frames:
        raise InputError(
            f"a place of each of {frames} frames", rule="dicom-series", file=file, value=len(each)
        )
    if frames == 1 or each:
        slices = []
        for k in range(frames):
            groups = (*each[k : k + 1], *common)
            place = slice_of(header, f"frame {k + 1}", *groups)
            if place is not None:
                slices.append(place)
        if len(slices) == frames:
            order, affine = stack_slices(slices, file)
            if frames == 1:
                return None, affine, spacing_of(affine, 2)
            return order, affine, spacing_of(affine, 3)
    plane = numbers_of(header.get("PixelSpacing"), 2)
    between = numbers_of(header.get("SpacingBetweenSlices"), 1)
    if plane is None or (frames > 1 and between is None):
        return None, None, None
    depth = () if frames == 1 or between is None else (abs(between[0]),)
    return None, None, check_spacing((plane[1], plane[0], *depth), file)


def _read(
    path: Path, stored: np.dtype[Any], rescaling: tuple[float, float], order: list[int] | None
) -> Array:
    array = read_pixels(path, stored)
    if order is not None and order != list(range(len(order))):
        array = array[order]
    return rescale(array, rescaling)


def rescale(array: Array, rescaling: tuple[float, float]) -> Array:
    """Return values times slope plus intercept; unchanged if these are one and zero."""
    if rescaling == (1.0, 0.0):
        return array
    values = array.astype(np.float64)
    values *= rescaling[0]
    values += rescaling[1]
    return values
