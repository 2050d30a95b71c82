# SPDX-License-Identifier: Apache-2.0
"""Resample a map to the size of its image by linear interpolation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def resample(values: F64, shape: Sequence[int]) -> F64:
    """Return a map on a grid of another shape: bilinear in 2D, trilinear in 3D.

    Parameters
    ----------
    values
        ``[z, ]y, x``.
    shape
        Of the result, axis by axis.

    Notes
    -----
    Both grids cover the same extent and their *outer edges* coincide, not the centres of their
    corner pixels: pixel i of n new ones lies at ``(i + 0.5) * m / n - 0.5`` on the old grid of m
    pixels. Elsewhere this is called ``align_corners=False``. Places before the first or after the
    last old centre take the value of that pixel.

    A shorter axis is read at the same places, without smoothing. An axis of equal length stays as
    it is, to the last bit, and so does a constant map.
    """
    for axis, length in enumerate(shape):
        if values.shape[axis] != length:
            values = _along(values, axis, length)
    return values


def _along(values: F64, axis: int, length: int) -> F64:
    old = values.shape[axis]
    place = np.clip((np.arange(length) + 0.5) * old / length - 0.5, 0.0, old - 1.0)
    before = place.astype(np.int64)
    after = np.minimum(before + 1, old - 1)
    shape = [1] * values.ndim
    shape[axis] = -1
    share = (place - before).reshape(shape)
    start = np.take(values, before, axis)
    # In place: start + share * (end - start), which leaves a constant map as it is to the last bit.
    result: F64 = np.take(values, after, axis)
    result -= start
    result *= share
    result += start
    return result
