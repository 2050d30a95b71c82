# SPDX-License-Identifier: Apache-2.0
"""Encode pixels as a data: address: shrunk, without metadata, the same bytes every time."""

from __future__ import annotations

import base64
import io
from functools import cache

import numpy as np

from calipers.pictures.pixels import U8, Pixels
from calipers.plots.theme import SHADE
from calipers.results.pictures import Encoded

__all__ = ["SIDE", "Encoded", "encode", "shade", "shrink"]

SIDE = 512
QUALITY = 80
ROUGH = 60  # quality of maps, which are smooth


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
