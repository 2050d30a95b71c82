# SPDX-License-Identifier: Apache-2.0
"""Open PNG, TIFF and BMP files, and JPEG and WebP where losses do no harm.

A `Request` comes in, a `Volume` of one channel goes out, to `calipers.io.volumes.open`; several
pages of a TIFF file are the slices of a volume. The pictures of the report use `picture_size`, and
`format_of`, `check_chunks` and `undo_rotation` to read pictures as they are stored.

The values are those of the file: indices of a palette, 2, 4 and 16 bits unscaled, white as 0 where
the file says so, no rotation by EXIF. A viewer shows something else for each of these, but labels
and maps must stay on one grid. Pillow stretches 2 and 4 bits to 8 and inverts some files; `Coding`
undoes that.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from calipers.arrays import Array
from calipers.errors import InputError
from calipers.io.source import open_regular, require_file
from calipers.io.volumes.tiff_pages import WHITE_IS_ZERO, TiffPage, tiff_pages
from calipers.io.volumes.volume import (
    DEFAULT,
    Limits,
    Request,
    Role,
    Volume,
    VolumeReader,
    broken_file,
    check_extent,
    check_packed,
    guarded,
)

if TYPE_CHECKING:
    from PIL import Image

# The first bytes of a file. TIFF has two byte orders, and BigTIFF (+) a mark of its own.
MARKS = {
    b"\x89PNG\r\n\x1a\n": "png",
    b"\xff\xd8\xff": "jpeg",
    b"BM": "bmp",
    b"II*\0": "tiff",
    b"MM\0*": "tiff",
    b"II+\0": "tiff",
    b"MM\0+": "tiff",
    b"RIFF": "webp",
}
# WebP can be lossless as well; the two kinds are not told apart here.
LOSSY = ("jpeg", "webp")
LOSSY_TIFF = (6, 7, 33003, 33005, 34712, 50001)  # compressions: kinds of JPEG, WebP
# Modes of Pillow with one channel, and how their values are stored.
MODES = {
    "1": np.bool_,
    "L": np.uint8,
    "P": np.uint8,
    "I;16": np.uint16,
    "I;16L": np.uint16,
    "I;16B": np.uint16,
    "I;16N": np.uint16,
    "I": np.int32,
    "F": np.float32,
}
PALETTE = "values are the indices of a palette"
# Tags of EXIF and TIFF.
ORIENTATION, COMPRESSION, SAMPLE_FORMAT, BITS, PHOTOMETRIC = 274, 259, 339, 258, 262


class PictureReader(VolumeReader):
    """A picture, or the pages of a TIFF file."""

    name, title = "picture", "PNG, TIFF, BMP, JPEG, WebP"
    extensions = (".png", ".tiff", ".tif", ".bmp", ".jpeg", ".jpg", ".webp")

    def recognises(self, name: str, head: bytes) -> bool:
        """Recognise the first bytes."""
        return format_of(head) is not None

    def open(self, request: Request) -> Volume:
        """Open the picture."""
        return open_picture(request)


def open_picture(request: Request) -> Volume:
    """Return a picture, or the volume of a TIFF file of several pages.

    Notes
    -----
    Values are those that are stored: indices of a palette, 2, 4 and 16 bits unscaled, nothing
    inverted, no rotation by EXIF.
    Several channels are an error, except for the role ``"image"``, where they become grey. Lossy
    formats are refused for labels.
    """
    file = request.file
    with open_regular(request.path, follow=True) as stream:
        kind = format_of(stream.read(8))
        if kind is None:
            raise InputError("PNG, TIFF, BMP, JPEG or WebP", rule="volume-format", file=file)
        if kind == "png":
            # Before Pillow sees the file: it stops at the last chunk it needs and accepts a broken
            # rest.
            check_chunks(stream, file)
        pages = _pages(stream, kind, request)
        image = _open(stream, kind)
        if kind != "tiff" and getattr(image, "n_frames", 1) > 1:
            raise InputError("a picture", rule="volume-format", file=file, value="an animation")
        lossy = kind in LOSSY or _tag(image, COMPRESSION) in LOSSY_TIFF
        if lossy and request.role == "labels":
            hint = (
                "save labels as PNG or lossless TIFF: lossy formats invent values at edges; if "
                "these are the images, give the folder of their labels"
            )
            raise InputError(
                "labels without compression losses",
                rule="lossy",
                file=file,
                value=kind.upper(),
                hint=hint,
            )
        # The size is checked before a pixel is decoded: a few bytes of PNG can claim gigabytes.
        width, height = stored_size(image)
        shape = (height, width) if pages == 1 else (pages, height, width)
        dtype = _dtype(image, request)
        _check_size(shape, dtype, request.path.stat().st_size, file, request.limits)
        notes = _notes(image, lossy)
        coding = _coding(stream, image, kind, request.role)
    reader = partial(_read, request.path, kind, shape, dtype, coding)
    return Volume(file, kind, shape, dtype, reader, notes=tuple(notes))


def picture_size(path: Path) -> tuple[int, int] | None:
    """Return the stored width and height, from the header alone; None if a file is no picture."""
    file = str(require_file(path))
    with open_regular(path, follow=True) as stream, guarded(file):
        kind = format_of(stream.read(8))
        if kind is None:
            return None
        width, height = stored_size(_open(stream, kind))
        check_extent((height, width), 1, file, DEFAULT)
        return width, height


def format_of(start: bytes) -> str | None:
    """Return the format that the first bytes of a file belong to; None if unknown."""
    return next((kind for mark, kind in MARKS.items() if start.startswith(mark)), None)


def check_chunks(stream: BinaryIO, file: str) -> None:
    """Raise if a PNG file is truncated or a checksum is wrong; Pillow does not check all of it."""
    stream.seek(8)
    while True:
        head = stream.read(8)
        length, kind = int.from_bytes(head[:4], "big"), head[4:]
        if len(head) < 8 or length > 1 << 31:
            raise broken_file(file, "the end of the file", "a whole PNG file")
        checksum, remaining = zlib.crc32(kind), length
        while remaining:
            step = stream.read(min(remaining, 1 << 20))
            if not step:
                raise broken_file(file, "the end of the file", "a whole PNG file")
            checksum, remaining = zlib.crc32(step, checksum), remaining - len(step)
        if stream.read(4) != checksum.to_bytes(4, "big"):
            raise broken_file(file, "another one", "the checksum of the content")
        if kind == b"IEND":
            stream.seek(0)
            return


def undo_rotation(image: Image.Image, orientation: int) -> Image.Image:
    """Return a TIFF picture as it is stored.

    Pillow rotates TIFF files, and only these, when it loads them; ``orientation`` is what they say.
    """
    from PIL.Image import Transpose

    # The inverse of what Pillow does for each orientation; 6 and 8 are inverse to each other.
    undo = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_90,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_270,
    }
    return image.transpose(undo[orientation]) if orientation in undo else image


def orientation_of(image: Any) -> int:
    """Return the orientation that EXIF or TIFF state, 1 if none; no pixels are decoded."""
    if image.format == "PNG" and "exif" not in image.info:
        return 1  # Pillow would decode all pixels to look behind them
    return int(image.getexif().get(ORIENTATION, 1) or 1)


def stored_size(image: Any) -> tuple[int, int]:
    """Return the stored width and height; for TIFF files Pillow reports those after rotation."""
    width, height = image.size
    # Orientations 5 to 8 swap the axes (TIFF 6.0, tag 274).
    if image.format == "TIFF" and orientation_of(image) in range(5, 9):
        return height, width
    return width, height


def _open(stream: BinaryIO, format: str) -> Any:
    """Return the picture with its header read.

    The plug-ins are called directly: our own limits on the size hold, not the check of
    `PIL.Image.open`.
    """
    from PIL import (
        BmpImagePlugin,
        JpegImagePlugin,
        PngImagePlugin,
        TiffImagePlugin,
        WebPImagePlugin,
    )

    stream.seek(0)
    kinds: dict[str, Any] = {
        "png": PngImagePlugin.PngImageFile,
        "tiff": TiffImagePlugin.TiffImageFile,
        "bmp": BmpImagePlugin.BmpImageFile,
        "jpeg": JpegImagePlugin.JpegImageFile,
        "webp": WebPImagePlugin.WebPImageFile,
    }
    return kinds[format](stream)


def open_png(stream: BinaryIO) -> Any:
    """Return a PNG picture with its header read; no pixel is decoded yet."""
    return _open(stream, "png")


def _pages(stream: BinaryIO, kind: str, request: Request) -> int:
    """Return the number of pages, which must be alike; only TIFF files may have several."""
    if kind != "tiff":
        return 1
    pages = tiff_pages(stream, request.path.stat().st_size, request.file)
    first = pages[0]
    for number, page in enumerate(pages):
        if page != first:
            raise InputError(
                f"pages like the first, {_page_text(first)}",
                rule="volume-shape",
                file=request.file,
                value=f"page {number} is {_page_text(page)}",
            )
    return len(pages)


def _page_text(page: TiffPage) -> str:
    return (
        f"{page.width} x {page.height}, {page.samples} x {page.bits} bits, "
        f"compression {page.compression}, interpretation {page.photometric}, format {page.format}"
    )


@dataclass(frozen=True)
class Coding:
    """How Pillow changed the values that a file stores, and for whom they are read."""

    role: Role
    bits: int = 8  # fewer bits were stretched to 8
    inverted: bool = False  # white is 0 in the file

    def stored(self, values: Array) -> Array:
        """Return the values that the file stores."""
        # An image is only shown: there the stretched values are those that a viewer shows.
        if self.role == "image":
            return values
        if self.inverted:
            values = ~values if values.dtype == np.bool_ else 255 - values
        if self.bits in (2, 4):
            values = values // (255 // ((1 << self.bits) - 1))
        return values


def _coding(stream: BinaryIO, image: Any, kind: str, role: Role) -> Coding:
    if kind == "png" and image.mode == "L":
        stream.seek(24)  # the bit depth in the header chunk (PNG, 11.2.2)
        return Coding(role, bits=stream.read(1)[0])
    if kind == "tiff" and image.mode in ("1", "L"):
        bits = int(_tag(image, BITS) or 1)
        return Coding(role, bits, inverted=_tag(image, PHOTOMETRIC) == WHITE_IS_ZERO)
    return Coding(role)


def _tag(image: Any, tag: int) -> Any:
    """Return the value of a TIFF tag, the first one if it has several; None if it is absent."""
    value = getattr(image, "tag_v2", {}).get(tag)
    return value[0] if isinstance(value, tuple) and value else value


def _dtype(image: Any, request: Request) -> np.dtype[Any]:
    # Pillow reads signed bytes as unsigned ones.
    if _tag(image, SAMPLE_FORMAT) == 2 and _tag(image, BITS) == 8:
        raise InputError(
            "unsigned bytes", rule="volume-dtype", file=request.file, hint="save it with 16 bits"
        )
    if _tag(image, BITS) == 64 or (
        _tag(image, BITS) == 32 and _tag(image, SAMPLE_FORMAT) in (None, 1)
    ):
        hint = "save it as npy, or with 16 bits or 32-bit floats"
        raise InputError(
            "at most 16 bits, or 32-bit floats", rule="volume-dtype", file=request.file, hint=hint
        )
    if image.mode in MODES:
        return np.dtype(MODES[image.mode])
    # Images are only shown, so colours may become grey; as labels or scores colours have no order.
    if request.role == "image":
        return np.dtype(np.uint8)
    raise InputError(
        "one channel",
        rule="volume-channels",
        file=request.file,
        value=image.mode,
        hint="save the channel with the values as a separate picture, without alpha",
    )


def _notes(image: Any, lossy: bool) -> list[str]:
    notes = []
    if lossy:
        notes.append("the format may have losses")
    if image.mode == "P":
        notes.append(PALETTE)
    if orientation_of(image) in range(2, 9):
        notes.append("rotation by EXIF ignored")
    return notes


def _check_size(
    shape: tuple[int, ...], dtype: np.dtype[Any], stored: int, file: str, limits: Limits
) -> None:
    check_extent(shape, dtype.itemsize, file, limits)
    pixels = math.prod(shape)
    # Run-length codes and bitmaps in TIFF pack more tightly than deflate, so small files pass
    # unchecked: only a zip bomb is of interest here.
    if pixels * dtype.itemsize > limits.spared:
        check_packed(pixels * dtype.itemsize, stored, file, limits)


def _read(
    path: Path, format: str, shape: tuple[int, ...], dtype: np.dtype[Any], coding: Coding
) -> Array:
    with open_regular(path, follow=True) as stream:
        image = _open(stream, format)
        if len(shape) == 2:
            return _values(image, dtype, coding, str(path))
        volume = np.empty(shape, dtype)
        for page in range(shape[0]):
            image.seek(page)
            values = _values(image, dtype, coding, str(path))
            if values.shape != shape[1:]:
                raise broken_file(str(path), f"page {page} of another size", "pages of one size")
            volume[page] = values
        return volume


def _load(image: Any, file: str) -> None:
    """Decode the pixels; of TIFF pages Pillow has a limit of its own, which is below ours."""
    from PIL import Image

    try:
        image.load()
    except Image.DecompressionBombError:
        width, height = image.size
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise InputError(
            f"at most {most:,} pixels in a page of TIFF",
            rule="too-large",
            file=file,
            value=f"{width} x {height}",
            hint="write the picture as PNG, or as a volume of another format",
        ) from None


def _values(image: Any, dtype: np.dtype[Any], coding: Coding, file: str) -> Array:
    # Read before `load`, which drops the tag of the orientation after it rotated.
    orientation = orientation_of(image)
    _load(image, file)
    if image.format == "TIFF":
        image = undo_rotation(image, orientation)
    if image.mode not in MODES and coding.role == "image":
        image = image.convert("L")
    return coding.stored(np.asarray(image)).astype(dtype, copy=False)
