# SPDX-License-Identifier: Apache-2.0
"""Read a picture safely as eight bits: one frame or slice, limits checked before decoding.

Every problem becomes a `PictureError`, so that a report can be made without the picture.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from calipers.pictures.pixels import U8, PictureError, Pixels, check_size, window_to_bytes
from calipers.readers.source import open_regular

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["PictureError", "Pixels", "is_dicom", "open_picture_file", "read_pixels"]

FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP")  # others are never tried: some start programs
DICOM_MARK = b"DICM"
MARK_AT = 128
ORIENTATION = 274  # tag of EXIF and TIFF
MANY_BITS = ("I", "F")  # first letters of the modes of more than eight bits


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
    if is_dicom(file):
        from calipers.pictures.dicom import read_dicom

        return read_dicom(file, str(path), slice_at)
    if name.endswith((".dcm", ".dicom")):
        raise PictureError(
            f"{DICOM_MARK.decode()} at byte {MARK_AT}", rule="picture-format", file=str(path)
        )
    if name.endswith((".nii", ".nii.gz")):
        from calipers.pictures.nifti import read_nifti

        return read_nifti(file, str(path), slice_at)
    if slice_at is not None:
        hint = "volumes are read from NIfTI files and from DICOM files with several frames"
        raise PictureError(
            "a volume", rule="picture-slice", file=str(path), value="a picture", hint=hint
        )
    return _read_picture(file, str(path))


def _read_picture(file: BinaryIO, name: str) -> Pixels:
    from PIL import Image, UnidentifiedImageError

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
    if image.format == "TIFF":
        from calipers.readers.volumes.pictures import undo_rotation

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
