# SPDX-License-Identifier: Apache-2.0
"""Pixels as a data: address: shrunk, without metadata, the same bytes every time."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np

from calipers.pictures.pixels import U8, Pixels

SIDE = 512
QUALITY = 80


@dataclass(frozen=True, slots=True)
class Encoded:
    """A picture as text that a page can hold."""

    data: str  # data:image/webp;base64,...
    width: int  # of what is encoded
    height: int
    bytes: int  # length of the text, which is ASCII


def shrunk(array: U8, side: int) -> U8:
    """Return an array whose longer side is at most ``side``; never enlarged."""
    from PIL import Image

    height, width = array.shape[:2]
    longest = max(width, height)
    if longest <= side:
        return array
    size = (max(1, round(width * side / longest)), max(1, round(height * side / longest)))
    return np.asarray(Image.fromarray(array).resize(size, Image.Resampling.LANCZOS))


def encode(pixels: Pixels, *, side: int = SIDE) -> Encoded:
    """Return a picture, shrunk to ``side`` pixels, as WebP, or as JPEG where Pillow was built without WebP.

    A new image is made from bare pixels, so nothing but pixels can reach the file; grey stays grey.
    """
    from PIL import Image, features

    array = shrunk(pixels.array, side)
    image, written = Image.fromarray(array), io.BytesIO()
    if features.check("webp"):
        kind = "webp"
        image.save(written, "WEBP", quality=QUALITY, method=4)
    else:
        kind = "jpeg"
        image.save(written, "JPEG", quality=QUALITY, optimize=True)
    data = f"data:image/{kind};base64,{base64.b64encode(written.getvalue()).decode('ascii')}"
    return Encoded(data, *image.size, len(data))
