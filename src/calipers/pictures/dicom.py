# SPDX-License-Identifier: Apache-2.0
"""Read one frame of a DICOM file for display (extra ``dicom``).

Only the elements that describe pixels are read. Nothing of a header is kept, logged or quoted: it
names patients.
"""

from __future__ import annotations

import math
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from calipers.pictures.pixels import (
    U8,
    PictureError,
    Pixels,
    check_size,
    scale_to_bytes,
    window_to_bytes,
)
from calipers.readers.volumes.dicom_files import silent_logs, syntax_of

ELEMENTS = (
    "Rows",
    "Columns",
    "NumberOfFrames",
    "PhotometricInterpretation",
    "RescaleSlope",
    "RescaleIntercept",
    "WindowCenter",
    "WindowWidth",
    "VOILUTFunction",
)
COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
GREYS = ("MONOCHROME1", "MONOCHROME2")


def read_dicom(file: BinaryIO, name: str, slice_at: float | None) -> Pixels:
    """Return a single frame, or the frame ``slice_at`` of several.

    Notes
    -----
    Grey values are rescaled (slope, intercept), then the first window of the file is applied, or
    else percentiles 1 to 99; ``MONOCHROME1`` is inverted. Without ``slice_at`` the first of several
    frames is read, and a note says so.
    """
    try:
        import pydicom  # noqa: F401
    except ImportError:
        hint = "pip install 'calipers[dicom]'"
        raise PictureError(
            "pydicom, which reads DICOM", rule="missing-extra", file=name, hint=hint
        ) from None
    with silent_logs():
        _check_syntax(file, name)
        header = _header(file)
        frames = int(header.get("NumberOfFrames") or 1)
        width, height = int(header.get("Columns") or 0), int(header.get("Rows") or 0)
        check_size(width, height, name)
        kind = str(header.get("PhotometricInterpretation"))
        if kind not in (*GREYS, *COLOURS):
            raise PictureError(
                f"one of {', '.join((*GREYS, *COLOURS))}", rule="picture-format", file=name
            )
        values = _frame(file, _index(slice_at, frames, name))
    array = _grey(values, header, name) if kind in GREYS else _colour(values, name)
    note = "the first of several frames" if frames > 1 and slice_at is None else ""
    volume = frames > 1 or slice_at is not None
    return Pixels(np.ascontiguousarray(array), width, height, frames if volume else None, note)


def _check_syntax(file: BinaryIO, name: str) -> None:
    """Raise unless the pixels can be decoded here."""
    _, ready, syntax = syntax_of(file)
    if not ready:
        hint = (
            "convert it to an uncompressed transfer syntax, "
            "or install a decoder (pip install pylibjpeg[all])"
        )
        raise PictureError(
            "a transfer syntax with a decoder",
            rule="picture-codec",
            file=name,
            value=syntax,
            hint=hint,
        )


def _header(file: BinaryIO) -> Any:
    from pydicom import dcmread

    header = dcmread(file, stop_before_pixels=True, specific_tags=list(ELEMENTS))
    file.seek(0)
    return header


def _frame(file: BinaryIO, index: int) -> NDArray[Any]:
    import warnings

    from PIL import Image
    from pydicom.pixels import pixel_array

    # An encapsulated picture may be larger than the header of the DICOM file claims.
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    return np.asarray(pixel_array(file, index=index))


def _index(slice_at: float | None, frames: int, name: str) -> int:
    if slice_at is None:
        return 0
    if not 0 <= slice_at < frames:
        raise PictureError(
            f"a frame from 0 to {frames - 1}", rule="picture-slice", file=name, value=slice_at
        )
    return math.floor(slice_at)


def _colour(values: NDArray[Any], name: str) -> U8:
    return values if values.dtype == np.uint8 else window_to_bytes(values, name)


def _grey(values: NDArray[Any], header: Any, name: str) -> U8:
    slope = _number(header.get("RescaleSlope"), 1.0)
    intercept = _number(header.get("RescaleIntercept"), 0.0)
    rescaled = values.astype(np.float32) * np.float32(slope or 1.0) + np.float32(intercept)
    centre = _number(header.get("WindowCenter"), math.nan)
    width = _number(header.get("WindowWidth"), math.nan)
    function = str(header.get("VOILUTFunction") or "LINEAR")
    # The functions of a window are defined in DICOM PS3.3, C.11.2.1.
    least_width = 1.0 if function == "LINEAR" else 0.0
    if not (math.isfinite(centre) and width > least_width):
        grey = window_to_bytes(rescaled, name)
    elif function == "SIGMOID":
        with np.errstate(over="ignore"):
            grey = scale_to_bytes(
                1.0 / (1.0 + np.exp(-4.0 * (rescaled - centre) / width)), 0.0, 1.0
            )
    elif function == "LINEAR":
        low, high = centre - 0.5 - (width - 1.0) / 2.0, centre - 0.5 + (width - 1.0) / 2.0
        grey = scale_to_bytes(rescaled, low, high)
    else:
        grey = scale_to_bytes(rescaled, centre - width / 2.0, centre + width / 2.0)
    return 255 - grey if header.PhotometricInterpretation == "MONOCHROME1" else grey


def _number(element: Any, otherwise: float) -> float:
    """Return the first value of an element, or another number if it has none."""
    if element is None:
        return otherwise
    values: list[Any] = [element] if isinstance(element, int | float | str) else list(element)
    try:
        number = float(values[0])
    except (TypeError, ValueError, IndexError):
        return otherwise
    return number if math.isfinite(number) else otherwise
