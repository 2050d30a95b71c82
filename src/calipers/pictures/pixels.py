# SPDX-License-Identifier: Apache-2.0
"""Pixels for display: eight bits, grey or colour; and limits that are checked before decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError

U8 = NDArray[np.uint8]
MOST_PIXELS = 100_000_000  # of one picture or slice
PERCENTILES = (1.0, 99.0)
SAMPLED = 1_000_000  # pixels that are enough for a percentile
AT_ONCE = 500_000  # pixels that are scaled in one step: bounds the memory


class PictureError(InputError):
    """A picture that cannot be shown. It never quotes a header: these name patients."""


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


def check_size(width: int, height: int, file: str) -> None:
    """Raise for an empty or too large picture; call it before decoding."""
    if width < 1 or height < 1:
        raise PictureError(
            "a picture with pixels", rule="picture-broken", file=file, value=f"{width} x {height}"
        )
    if width * height > MOST_PIXELS:
        limit = f"at most {MOST_PIXELS // 1_000_000} megapixels"
        raise PictureError(limit, rule="picture-large", file=file, value=f"{width} x {height}")


def window_to_bytes(values: NDArray[Any], file: str) -> U8:
    """Return numbers as eight bits, black at their 1st and white at their 99th percentile.

    If these are equal, as for a small bright spot on black, the minimum and maximum are used. NaN
    is black, and so is a picture of one value.
    """
    flat = values.ravel()
    sample = flat[:: max(1, flat.size // SAMPLED)].astype(np.float64)
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
