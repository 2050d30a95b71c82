# SPDX-License-Identifier: Apache-2.0
"""Pictures of the study: outlines of objects by their fate, over the image and the map."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import outlines
from calipers.pictures.encoding import encode
from calipers.pictures.pixels import Pixels
from calipers.plots.figures import BoxMark, Overlay, Ring

Array = NDArray[Any]
Flags = NDArray[np.bool_]

LARGER = 6  # pixels per voxel; enlarged here because browsers blur when they enlarge
THRESHOLD = 0.5


def picture(
    title: str, labels: Array, scores: Array, image: Array | None = None, note: str = ""
) -> Overlay:
    """Return one slice: references found or missed, false alarms, and the map as a shade.

    A reference is found if any of its voxels has a score of at least 0.5; a component of such
    voxels that touches no reference is a false alarm.
    """
    positive, references = scores >= THRESHOLD, labels > 0
    marks = []
    for part in _parts(references):
        fate = "reference" if (positive & part).any() else "missed"
        marks.append(_mark(fate, part))
    for part in _parts(positive):
        if not (part & references).any():
            marks.append(_mark("false alarm", part))
    height, width = labels.shape
    background = np.zeros(labels.shape) if image is None else image
    return Overlay(
        title,
        (float(width), float(height)),
        tuple(marks),
        picture=_encode(background, scores=False),
        shade=_encode(scores, scores=True),
        note=note,
    )


def _parts(mask: Flags) -> list[Flags]:
    from scipy import ndimage

    components, n = ndimage.label(mask, np.ones((3, 3)))
    return [np.asarray(components == number) for number in range(1, n + 1)]


def _mark(fate: str, mask: Flags) -> BoxMark:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box = (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
    points, offsets = outlines.rings(mask)
    corners = [(x, y) for x, y in points.astype(float).tolist()]
    rings: list[Ring] = []
    for start, end in pairwise(offsets.tolist()):
        rings.append(tuple(corners[start:end]))
    return BoxMark(fate, box, "object", outline=tuple(rings))


def _encode(values: Array, *, scores: bool) -> str:
    # Scores and grey values are both in [0, 1].
    array = np.round(255.0 * np.clip(values, 0.0, 1.0)).astype(np.uint8)
    array = array.repeat(LARGER, axis=0).repeat(LARGER, axis=1)
    height, width = array.shape
    return encode(Pixels(array, width, height, scores=scores)).data
