# SPDX-License-Identifier: Apache-2.0
"""The objects of a score map: connected components, each with its mask, box, place and scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged, runs
from calipers.tables.masks import Masks

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Instances:
    """The objects of one map, in the order of their first voxels."""

    masks: Masks
    boxes: F64  # (n, 4|6) half-open
    highest: F64  # (n,) largest value of the map on the object
    mean: F64  # (n,) its mean there
    centroids: F64  # (n, 2|3) mean of voxel centres x, y[, z], weighted by the map

    def __len__(self) -> int:
        return len(self.masks)


def instances_of(values: NDArray[Any], positive: NDArray[np.bool_], connectivity: str) -> Instances:
    """Return the connected components of the positive voxels, measured on the map."""
    return measured(values, Masks.from_components(positive, connectivity))


def measured(values: NDArray[Any], masks: Masks) -> Instances:
    """Return the objects of one map whose masks are known; no mask gives empty columns.

    The centroid is ``sum(v c) / sum(v)`` over the values v and centres c of the voxels of an
    object; where a value is negative or their sum is 0, it is the mean of the centres.
    """
    flat = values.reshape(-1)
    size = np.array(values.shape[::-1], np.int64)
    total, centroids = runs.weighted_centroids(flat, masks.start, masks.length, masks.offsets, size)
    highest, negative = _extremes(flat, masks)
    plain = (total <= 0) | negative
    if plain.any():
        centroids[plain] = masks.centroids()[plain]
    return Instances(masks, masks.boxes(), highest, total / masks.voxels, centroids)


def _extremes(flat: NDArray[Any], masks: Masks) -> tuple[F64, NDArray[np.bool_]]:
    """Return (n,) the largest value of every object, and whether one of its values is negative."""
    negative = np.zeros(len(masks), np.bool_)
    if not len(masks):
        return np.zeros(0), negative
    scores = flat[ragged.spans(masks.start, masks.length)]
    starts = ragged.from_counts(masks.length)[masks.offsets[:-1]]
    if scores.min() < 0:
        negative = np.minimum.reduceat(scores, starts) < 0
    return np.maximum.reduceat(scores, starts).astype(np.float64), negative
