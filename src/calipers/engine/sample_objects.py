# SPDX-License-Identifier: Apache-2.0
"""The objects of one sample: connected components of its labels, and of the voxels that a map
calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged
from calipers.metrics.map_settings import MapSettings
from calipers.tables.instances import measured
from calipers.tables.masks import Masks

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class SampleObjects:
    """Objects of one sample, with the place of each: its centroid, of predictions weighted by the
    scores.
    """

    masks: Masks
    boxes: F64  # (n, 4|6)
    points: F64  # (n, 2|3)
    score: F64  # (n,) 1 for references
    small: int = 0  # objects left out for their size

    def __len__(self) -> int:
        return len(self.masks)


@dataclass(frozen=True)
class Expanded:
    """Every voxel of every object: its index in the sample, and the object it belongs to."""

    index: I64
    owner: I64
    n: int

    def sums(self, flat: NDArray[np.floating]) -> F64:
        """Return (n,) the sum of a map over every object."""
        sums = np.bincount(self.owner, weights=flat[self.index], minlength=self.n)
        return np.asarray(sums.astype(np.float64))  # without objects NumPy counts in whole numbers


def expanded(masks: Masks) -> Expanded:
    """List the voxels of the masks of one sample."""
    return Expanded(
        ragged.spans(masks.start, masks.length), np.repeat(masks.owner, masks.length), len(masks)
    )


def references_of(
    labels: NDArray[np.integer], settings: MapSettings, *, instances: bool
) -> SampleObjects:
    """Return the objects of a label array: its values, or the connected components of what is not
    0.
    """
    if instances:
        masks = Masks.from_labels(labels)
    else:
        masks = Masks.from_components(labels, settings.connectivity)
    return SampleObjects(masks, masks.boxes(), masks.centroids(), np.ones(len(masks)))


def predictions_of(
    scores: NDArray[np.floating], threshold: float, settings: MapSettings
) -> SampleObjects:
    """Return the connected components of the voxels whose score is at least the threshold."""
    masks = Masks.from_components(scores >= threshold, settings.connectivity)
    large = masks.voxels >= settings.least
    small = len(masks) - int(large.sum())
    masks = masks[large] if small else masks
    features = measured(scores, masks)
    score = features.highest if settings.score == "max" else features.mean
    return SampleObjects(masks, features.boxes, features.centroids, score, small)
