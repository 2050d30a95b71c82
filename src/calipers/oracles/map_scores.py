# SPDX-License-Identifier: Apache-2.0
"""Corruptions of the scores of a map: noise, blur, shift."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.oracles.map_objects import Marked, Random
from calipers.synthetic.discs import soft_map

T = TypeVar("T", np.int32, np.float32)


def noise(marked: Marked, random: Random, *, sigma: float) -> Marked:
    """Add normal noise to every score, then cut to [0, 1]."""
    normal = random.standard_normal(marked.scores.shape, np.float32)
    return Marked(marked.objects, np.clip(marked.scores + np.float32(sigma) * normal, 0.0, 1.0))


def blur(marked: Marked, random: Random, *, sigma: float) -> Marked:
    """Blur with a Gaussian of that standard deviation in voxels, cut at three of them.

    Beyond its edges the image goes on as it is there.
    """
    return Marked(marked.objects, soft_map(marked.scores, blur=sigma))


def shift(
    marked: Marked,
    random: Random,
    *,
    x: float = 0,
    y: float = 0,
    z: float = 0,
    distance: float = 0.0,
) -> Marked:
    """Move all by whole voxels along the axes, or by a distance into a random direction, rounded to
    whole voxels.

    What leaves the image is lost; what comes in scores 0.
    """
    d = marked.scores.ndim
    if d == 2 and z:
        raise UsageError("shift: there is no z in two dimensions")
    direction = random.standard_normal(d)
    step = np.rint(distance * direction / np.linalg.norm(direction)) if distance else np.zeros(d)
    step = (step + np.array([z, y, x][3 - d :])).astype(np.int64)  # along [z, ]y, x
    return Marked(_moved(marked.objects, step), _moved(marked.scores, step))


def empty_samples(marked: Marked, random: Random, *, n: float) -> Marked:
    """Add n samples without objects, of the shapes of the first ones. A sample itself stays as it
    is.
    """
    return marked


def _moved(array: NDArray[T], step: NDArray[np.int64]) -> NDArray[T]:
    result = np.zeros_like(array)
    to = tuple(slice(max(0, k), max(0, n + min(0, k))) for k, n in zip(step.tolist(), array.shape))
    back = tuple(
        slice(max(0, -k), max(0, n - max(0, k))) for k, n in zip(step.tolist(), array.shape)
    )
    result[to] = array[back]
    return result
