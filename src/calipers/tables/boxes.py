# SPDX-License-Identifier: Apache-2.0
"""Box formats: what users deliver, and the one form in which Calipers holds boxes.

Held form: corners ``x0 y0 x1 y1`` (3D: ``x0 y0 z0 x1 y1 z1``), pixels, half-open, no "+1".
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

BoxFormat = Literal[
    "xyxy",
    "xywh",
    "cxcywh",
    "xyxy-normalised",
    "xywh-normalised",
    "cxcywh-normalised",
    "xyxy-inclusive",
]
BOX_FORMATS: tuple[str, ...] = get_args(BoxFormat)


def to_corners(boxes: F64, box_format: str, sizes: F64 | None = None) -> tuple[F64, F64]:
    """Convert delivered boxes to corners.

    Parameters
    ----------
    boxes
        (n, 4) or (n, 6); in 3D the order is all first coordinates, then all second ones (``x y z w
        h d``).
    box_format
        One of `BOX_FORMATS`. ``xyxy-inclusive`` is 1-based with both ends inside, as in VOC XML.
    sizes
        (n, 2|3) image size of each box, for the normalised formats.

    Returns
    -------
    corners, extent
        (n, 4|6) corners and the (n,) area (volume) of each box, from the sides as delivered: `(x +
        w) - x` is not always `w` in floating point, and size cuts such as 32 x 32 sit exactly on
        that edge.
    """
    boxes = np.asarray(boxes, np.float64)
    if box_format.endswith("-normalised"):
        assert sizes is not None  # the callers check; here only for the type
        boxes = boxes * np.concatenate([sizes, sizes], axis=1)
    layout = box_format.split("-")[0]
    first, second = np.split(boxes, 2, axis=1)
    if layout == "xyxy":
        low = first - 1.0 if box_format == "xyxy-inclusive" else first
        return np.concatenate([low, second], axis=1), np.prod(second - low, axis=1)
    low = first if layout == "xywh" else first - second / 2.0
    return np.concatenate([low, low + second], axis=1), np.prod(second, axis=1)


def from_corners(corners: F64, box_format: str, sizes: F64 | None = None) -> F64:
    """Convert corners to a delivered format: the inverse of `to_corners`, for writers."""
    low, high = np.split(np.asarray(corners, np.float64), 2, axis=1)
    layout = box_format.split("-")[0]
    if layout == "xyxy":
        boxes = np.concatenate([low + 1.0 if box_format == "xyxy-inclusive" else low, high], axis=1)
    elif layout == "xywh":
        boxes = np.concatenate([low, high - low], axis=1)
    else:
        boxes = np.concatenate([(low + high) / 2.0, high - low], axis=1)
    if box_format.endswith("-normalised"):
        assert sizes is not None
        boxes = boxes / np.concatenate([sizes, sizes], axis=1)
    return boxes


def box_extent(corners: F64) -> F64:
    """Return the (n,) area, in 3D the volume, of corner boxes."""
    low, high = np.split(corners, 2, axis=1)
    return np.asarray(np.prod(high - low, axis=1))
