# SPDX-License-Identifier: Apache-2.0
"""Geometry of aligned box pairs: row k of the first table against row k of the second.

Boxes come as columns, ``(2 d, n)`` with all low corners first (``x0 y0 [z0] x1 y1 [z1]``), because
a gather of contiguous columns is several times faster than one of rows. All results are ``(n,)``
float64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def sides(boxes: F64) -> F64:
    """Return the (d, n) sides."""
    half = len(boxes) // 2
    return boxes[half:] - boxes[:half]


def centres(boxes: F64) -> F64:
    """Return the (d, n) centres."""
    half = len(boxes) // 2
    return (boxes[:half] + boxes[half:]) / 2.0


def intersection(a: F64, b: F64) -> F64:
    """Return the common area (volume); every factor is clamped at 0, so two gaps never make an
    overlap.
    """
    half = len(a) // 2
    common: F64 = np.maximum(np.minimum(a[half], b[half]) - np.maximum(a[0], b[0]), 0.0)
    for k in range(1, half):
        common *= np.maximum(np.minimum(a[half + k], b[half + k]) - np.maximum(a[k], b[k]), 0.0)
    return common


def iou(a: F64, b: F64, extent_a: F64, extent_b: F64) -> F64:
    """Return intersection over union."""
    common = intersection(a, b)
    return np.asarray(common / (extent_a + extent_b - common))


def giou(a: F64, b: F64, extent_a: F64, extent_b: F64) -> F64:
    """Return the generalised IoU: IoU - (enclosing - union) / enclosing."""
    common = intersection(a, b)
    union = extent_a + extent_b - common
    enclosing = np.prod(_enclosing_sides(a, b), axis=0)
    return np.asarray(common / union - (enclosing - union) / enclosing)


def centred_iou(a: F64, b: F64) -> F64:
    """Return the IoU when both centres are put on one place: it compares shapes only."""
    side_a, side_b = sides(a), sides(b)
    common = np.prod(np.minimum(side_a, side_b), axis=0)
    return np.asarray(common / (np.prod(side_a, axis=0) + np.prod(side_b, axis=0) - common))


def complete_iou(a: F64, b: F64, extent_a: F64, extent_b: F64) -> F64:
    """Return the complete IoU: IoU - centre distance^2 / enclosing diagonal^2 - weighted aspect
    term.

    The aspect term compares ``atan(w / h)``; it has no form in 3D, where this is the distance IoU.
    """
    plain = iou(a, b, extent_a, extent_b)
    distance = np.sum((centres(a) - centres(b)) ** 2, axis=0) / np.sum(
        _enclosing_sides(a, b) ** 2, axis=0
    )
    if len(a) != 4:
        return np.asarray(plain - distance)
    side_a, side_b = sides(a), sides(b)
    aspect = (
        4.0 / np.pi**2 * (np.arctan(side_a[0] / side_a[1]) - np.arctan(side_b[0] / side_b[1])) ** 2
    )
    denominator = 1.0 - plain + aspect
    weight = np.divide(aspect, denominator, out=np.zeros_like(aspect), where=denominator > 0)
    return np.asarray(plain - distance - weight * aspect)


def distance(a: F64, b: F64, unit: F64 | float = 1.0) -> F64:
    """Return the distance of points (d, n) after every axis was multiplied by ``unit`` ((d, n) or a
    number).
    """
    return np.asarray(np.sqrt(np.sum(((a - b) * unit) ** 2, axis=0)))


def contains(boxes: F64, points: F64) -> NDArray[np.bool_]:
    """Return whether the points (d, n) lie in the boxes; the border belongs to them."""
    half = len(boxes) // 2
    return np.asarray(((boxes[:half] <= points) & (points <= boxes[half:])).all(axis=0))


def hausdorff_similarity(a: F64, b: F64, size: F64) -> F64:
    """Return 1 - the Hausdorff distance of the boxes put on one centre, in fractions of the image
    ``size`` (d, n).
    """
    excess = (sides(a) - sides(b)) / size / 2.0
    forth = np.sqrt(np.sum(np.maximum(excess, 0.0) ** 2, axis=0))
    back = np.sqrt(np.sum(np.maximum(-excess, 0.0) ** 2, axis=0))
    return np.asarray(1.0 - np.maximum(forth, back))


def _enclosing_sides(a: F64, b: F64) -> F64:
    half = len(a) // 2
    return np.maximum(a[half:], b[half:]) - np.minimum(a[:half], b[:half])
