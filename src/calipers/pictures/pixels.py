# SPDX-License-Identifier: Apache-2.0
"""Pictures for the page: read as eight bits, grey or colour, and written as a data: address.

`read_pixels` takes a picture, a frame of a DICOM file (extra ``dicom``) or a slice of a NIfTI
volume (extra ``volumes``), `encode` shrinks it and leaves no metadata; equal pixels give equal
bytes. Volumes are opened by `calipers.io.volumes`; here values become shades: by the window of the
file, or between the percentiles 1 and 99.

Limits are checked before anything is decoded, and every problem becomes a `PictureError`, so that a
report can be made without the picture. Nothing of a header is kept, logged or quoted: it names
patients. Called by the album of the report and by the page of stability.
"""

from __future__ import annotations

import base64
import io
import math
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import U8
from calipers.errors import InputError, UsageError
from calipers.io.source import open_regular
from calipers.results.files import Encoded
from calipers.show.figures import SHADE

if TYPE_CHECKING:
    from PIL import Image

MOST_PIXELS = 100_000_000  # of one picture or slice
PERCENTILES = (1.0, 99.0)
ENOUGH_PIXELS = 1_000_000  # pixels that are enough for a percentile
AT_ONCE = 500_000  # pixels that are scaled in one step: bounds the memory

# What readers of volumes call a problem, and what it is called here.
RULES = {
    "too-large": "picture-large",
    "volume-broken": "picture-broken",
    "volume-codec": "picture-codec",
}

FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP")  # others are never tried: some start programs
DICOM_MARK = b"DICM"
MARK_AT = 128
ORIENTATION = 274  # tag of EXIF and TIFF
MANY_BITS = ("I", "F")  # first letters of the modes of more than eight bits

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

SIDE = 512
QUALITY = 80
ROUGH = 60  # quality of maps, which are smooth


class PictureError(InputError):
    """A picture that cannot be shown. It never quotes a header: these name patients."""

    @classmethod
    def of(cls, error: InputError) -> PictureError:
        """Return what a reader of volumes refused as a problem of a picture."""
        facts = error.as_dict()
        value = facts.pop("value")
        facts["rule"] = RULES.get(error.rule, "picture-format")
        problem = cls(**facts)
        problem.value = value  # it is printable already
        problem.args = (problem.describe(),)
        return problem


@dataclass(frozen=True, slots=True)
class Pixels:
    """A picture, or one slice of a volume."""

    array: U8  # (height, width) or (height, width, 3)
    width: int  # of the file, whatever size the array has
    height: int
    depth: int | None = None  # slices or frames; None = the file is no volume
    note: str = ""  # what was ignored
    # A map: the array has scores from 0 to 1 in 255 steps, which become colours when encoded.
    scores: bool = False


def read_pixels(path: Path, *, slice_at: float | None = None) -> Pixels:
    """Return a picture as eight bits.

    Parameters
    ----------
    path
        PNG, JPEG, BMP, TIFF, WebP; DICOM (extra ``dicom``); NIfTI (extra ``volumes``). Symbolic
        links are refused.
    slice_at
        Of a volume: the place along z in voxels; voxel k reaches from k to k + 1.

    Notes
    -----
    The size is taken from the header and limited to 100 megapixels; Pillow's own limit, 89
    megapixels unless it was changed, applies too. Rotation by EXIF is ignored, and a note says so:
    boxes are drawn on stored pixels. Of an animation the first frame is read. More than eight bits
    are windowed to their percentiles 1 to 99.
    """
    with open_picture_file(path) as file:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they may quote headers
                return _decode(file, path, slice_at)
        except PictureError:
            raise
        except InputError as error:  # of a reader of volumes, which quotes no header either
            raise PictureError.of(error) from None
        except Exception as error:
            # Decoders raise anything, and their messages may quote a header with the name of a
            # patient: only the type of the exception is kept.
            kind = type(error).__name__
            hint = "open it with another program: it may be truncated or damaged"
            raise PictureError(
                "a whole picture", rule="picture-broken", file=str(path), value=kind, hint=hint
            ) from None


def open_picture_file(path: Path) -> AbstractContextManager[BinaryIO]:
    """Open a regular file; pipes and devices are refused without waiting for them, links are not
    followed.
    """
    return open_regular(path, follow=False, kind=PictureError)


def is_dicom(file: BinaryIO) -> bool:
    """Return whether a file begins as DICOM files do; it is left at its beginning."""
    head = file.read(MARK_AT + len(DICOM_MARK))
    file.seek(0)
    return head[MARK_AT:] == DICOM_MARK


def _decode(file: BinaryIO, path: Path, slice_at: float | None) -> Pixels:
    name = path.name.lower()
    # By its mark and not by its name: files of DICOM often have no extension.
    if is_dicom(file):
        return read_dicom(file, str(path), slice_at)
    if name.endswith((".dcm", ".dicom")):
        raise PictureError(
            f"{DICOM_MARK.decode()} at byte {MARK_AT}", rule="picture-format", file=str(path)
        )
    if name.endswith((".nii", ".nii.gz")):
        return read_nifti(path, slice_at)
    if slice_at is not None:
        hint = "volumes are read from NIfTI files and from DICOM files with several frames"
        raise PictureError(
            "a volume", rule="picture-slice", file=str(path), value="a picture", hint=hint
        )
    return _read_picture(file, str(path))


def _read_picture(file: BinaryIO, name: str) -> Pixels:
    from PIL import Image, UnidentifiedImageError

    # Pillow warns from its limit on and raises from twice its limit on: both are too large here.
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    try:
        image: Image.Image = Image.open(file, formats=FORMATS)
    except UnidentifiedImageError:
        formats = "PNG, JPEG, BMP, TIFF, WebP, DICOM or NIfTI"
        raise PictureError(formats, rule="picture-format", file=name) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        hint = "shrink it, or leave it out"
        raise PictureError(
            "a picture of a usual size", rule="picture-large", file=name, hint=hint
        ) from None
    check_size(*image.size, name)
    notes = []
    if getattr(image, "n_frames", 1) > 1:
        notes.append("the first of several frames")
    orientation = int(image.getexif().get(ORIENTATION, 1) or 1)
    if orientation in range(2, 9):
        notes.append("rotation by EXIF ignored")
    image.load()
    # Pillow turns TIFF files by their orientation while it loads them; boxes are drawn on stored
    # pixels.
    if image.format == "TIFF":
        from calipers.io.volumes.pictures import undo_rotation

        image = undo_rotation(image, orientation)
    return Pixels(_eight_bits(image, name), *image.size, note="; ".join(notes))


def _eight_bits(image: Image.Image, name: str) -> U8:
    """Return (height, width) or (height, width, 3); what is transparent is black."""
    if image.mode.startswith(MANY_BITS):
        return window_to_bytes(np.asarray(image), name)
    if image.mode in ("1", "L"):
        return np.asarray(image.convert("L"))
    if image.mode in ("LA", "La", "RGBA", "RGBa", "PA") or "transparency" in image.info:
        colour = image.convert("RGBA")
        opaque = colour.convert("RGB")
        opaque.paste((0, 0, 0), mask=colour.getchannel("A").point([255 - k for k in range(256)]))
        return _grey_if_it_is(np.asarray(opaque))
    return _grey_if_it_is(np.asarray(image.convert("RGB")))


def _grey_if_it_is(array: U8) -> U8:
    """Return one channel if all three are equal."""
    grey = array[..., 0]
    return grey if (array[..., 1] == grey).all() and (array[..., 2] == grey).all() else array


def check_size(width: int, height: int, file: str) -> None:
    """Raise for an empty or too large picture; call it before decoding."""
    if width < 1 or height < 1:
        raise PictureError(
            "a picture with pixels", rule="picture-broken", file=file, value=f"{width} x {height}"
        )
    if width * height > MOST_PIXELS:
        limit = f"at most {MOST_PIXELS // 1_000_000} megapixels"
        raise PictureError(limit, rule="picture-large", file=file, value=f"{width} x {height}")


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
    # Late, as all readers of volumes: most pages show no picture that needs them.
    from calipers.io.volumes.dicom import decode, silent_logs
    from calipers.io.volumes.dicom_syntax import require_decoder

    with silent_logs():
        # First: a missing decoder is for the user to install, and not a broken file.
        require_decoder(file, name)
        header = _header(file)
        frames = int(header.get("NumberOfFrames") or 1)
        width, height = int(header.get("Columns") or 0), int(header.get("Rows") or 0)
        check_size(width, height, name)
        kind = str(header.get("PhotometricInterpretation"))
        if kind not in (*GREYS, *COLOURS):
            raise PictureError(
                f"one of {', '.join((*GREYS, *COLOURS))}", rule="picture-format", file=name
            )
        values = decode(file, _frame_index(slice_at, frames, name))
    array = _grey_bytes(values, header, name) if kind in GREYS else _colour_bytes(values, name)
    note = "the first of several frames" if frames > 1 and slice_at is None else ""
    volume = frames > 1 or slice_at is not None
    return Pixels(np.ascontiguousarray(array), width, height, frames if volume else None, note)


def _header(file: BinaryIO) -> Any:
    from pydicom import dcmread

    header = dcmread(file, stop_before_pixels=True, specific_tags=list(ELEMENTS))
    file.seek(0)
    return header


def _frame_index(slice_at: float | None, frames: int, name: str) -> int:
    if slice_at is None:
        return 0
    if not 0 <= slice_at < frames:
        raise PictureError(
            f"a frame from 0 to {frames - 1}", rule="picture-slice", file=name, value=slice_at
        )
    return math.floor(slice_at)


def _colour_bytes(values: NDArray[Any], name: str) -> U8:
    return values if values.dtype == np.uint8 else window_to_bytes(values, name)


def _grey_bytes(values: NDArray[Any], header: Any, name: str) -> U8:
    slope = _number(header.get("RescaleSlope"), 1.0)
    intercept = _number(header.get("RescaleIntercept"), 0.0)
    # A slope of 0 would make all pixels equal: it is read as no slope.
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


def read_nifti(path: Path, slice_at: float | None) -> Pixels:
    """Return a 2D picture, or the slice of a volume through ``slice_at`` (voxels along z).

    Notes
    -----
    The axes of the array are x, y, z, as in the boxes of a cohort. A slice is therefore shown with
    x to the right and y downwards, whatever the orientation in space. Only that slice is read.
    """
    from calipers.io.volumes.nifti import open_planes
    from calipers.io.volumes.volume import Limits, Request

    name = str(path)
    try:
        shape, read_plane = open_planes(Request(path, "image", limits=Limits(pixels=MOST_PIXELS)))
        depth = shape[0] if len(shape) > 2 else 1
        values = read_plane(_slice_index(slice_at, depth, name))
    except UsageError:
        hint = "pip install 'calipers[volumes]'"
        raise PictureError(
            "nibabel, which reads NIfTI", rule="missing-extra", file=name, hint=hint
        ) from None
    array = values if values.dtype == np.uint8 else window_to_bytes(values, name)
    height, width = values.shape
    return Pixels(np.ascontiguousarray(array), width, height, depth if len(shape) > 2 else None)


def _slice_index(slice_at: float | None, depth: int, name: str) -> int:
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


def window_to_bytes(values: NDArray[Any], file: str) -> U8:
    """Return numbers as eight bits, black at their 1st and white at their 99th percentile.

    If these are equal, as for a small bright spot on black, the minimum and maximum are used. NaN
    is black, and so is a picture of one value.
    """
    flat = values.ravel()
    # A regular sample: percentiles of millions of pixels need a sort, and a million is enough.
    sample = flat[:: max(1, flat.size // ENOUGH_PIXELS)].astype(np.float64)
    sample = sample[np.isfinite(sample)]
    if not len(sample):
        raise PictureError(
            "pixels that are numbers", rule="picture-broken", file=file, value="none"
        )
    low, high = np.percentile(sample, PERCENTILES).tolist()
    if low == high:
        finite = flat[np.isfinite(flat)]
        low, high = float(finite.min()), float(finite.max())
    return scale_to_bytes(values, low, high)


def scale_to_bytes(values: NDArray[Any], low: float, high: float) -> U8:
    """Return numbers as eight bits: ``low`` and below black, ``high`` and above white; all black if
    they are equal.
    """
    levels = np.zeros(values.shape, np.uint8)
    if not high > low:
        return levels
    # Single precision wherever it holds all values: half the memory.
    exact: type[np.floating[Any]] = np.float64
    if np.can_cast(values.dtype, np.float32):
        exact = np.float32
    rows = max(1, AT_ONCE // max(1, values[:1].size))
    with np.errstate(all="ignore"):
        for start in range(0, len(values), rows):
            part = values[start : start + rows].astype(exact)
            part *= 0.5  # computed with halves, because the range itself may overflow
            part -= exact(low * 0.5)
            part *= exact(255.0 / (high * 0.5 - low * 0.5))
            np.clip(part, 0.0, 255.0, out=part)
            part += 0.5
            levels[start : start + rows] = np.nan_to_num(part, copy=False, nan=0.0)
    return levels


def shrink(array: U8, side: int) -> U8:
    """Return an array whose longer side is at most ``side``; never enlarged."""
    from PIL import Image

    height, width = array.shape[:2]
    longest = max(width, height)
    if longest <= side:
        return array
    size = (max(1, round(width * side / longest)), max(1, round(height * side / longest)))
    return np.asarray(Image.fromarray(array).resize(size, Image.Resampling.LANCZOS))


def encode(pixels: Pixels, *, side: int = SIDE) -> Encoded:
    """Return a picture, shrunk to ``side`` pixels, as WebP, or as JPEG if Pillow lacks WebP.

    A new image is made from bare pixels, so no metadata can reach the file; grey stays grey. Maps
    are coloured here, transparent where scores are low, and PNG if Pillow lacks WebP.
    """
    from PIL import Image, features

    array = shrink(pixels.array, side)
    array = shade(array) if pixels.scores else array
    image, buffer = Image.fromarray(array), io.BytesIO()
    if features.check("webp"):
        kind = "webp"
        image.save(buffer, "WEBP", quality=ROUGH if pixels.scores else QUALITY, method=4)
    elif pixels.scores:
        kind = "png"
        image.save(buffer, "PNG", optimize=True)
    else:
        kind = "jpeg"
        image.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    data = f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
    return Encoded(data, *image.size, len(data))


def shade(levels: U8) -> U8:
    """Return (h, w, 4) the colours of scores that are given in 255 steps: red, green, blue,
    opacity.
    """
    return _ramp()[levels]


@cache
def _ramp() -> U8:
    at, *channels = (np.array(column, np.float64) for column in zip(*SHADE))
    channels[-1] = channels[-1] * 255.0
    steps = np.arange(256) / 255.0
    ramps = [np.interp(steps, at, channel) + 0.5 for channel in channels]
    return np.stack(ramps, axis=1).astype(np.uint8)
