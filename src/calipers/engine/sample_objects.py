# SPDX-License-Identifier: Apache-2.0
"""The objects of one sample: connected components of its labels, and of the voxels that a map calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged, runs
from calipers.metrics.map_settings import MapSettings
from calipers.tables.masks import Masks

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class Instances:
    """Objects of one sample, with the place of each: its centroid, of predictions weighted by the scores."""

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
        return np.bincount(self.owner, weights=flat[self.index], minlength=self.n)


def expanded(masks: Masks) -> Expanded:
    """List the voxels of the masks of one sample."""
    return Expanded(ragged.spans(masks.start, masks.length), np.repeat(masks.owner, masks.length), len(masks))


def references_of(labels: NDArray[np.integer], settings: MapSettings, *, instances: bool) -> Instances:
    """Return the objects of a label array: its values, or the connected components of what is not 0."""
    masks = _by_value(labels) if instances else _components(labels != 0, settings.connectivity)
    return Instances(masks, masks.boxes(), masks.centroids(), np.ones(len(masks)))


def predictions_of(scores: NDArray[np.floating], threshold: float, settings: MapSettings) -> Instances:
    """Return the connected components of the voxels whose score is at least the threshold."""
    masks = _components(scores >= threshold, settings.connectivity)
    large = masks.voxels >= settings.least
    small = len(masks) - int(large.sum())
    masks = masks[large] if small else masks
    called = expanded(masks)
    flat = scores.reshape(-1)
    mass = called.sums(flat)
    if settings.score == "max":
        score = np.zeros(len(masks))
        np.maximum.at(score, called.owner, flat[called.index])
    else:
        score = mass / masks.voxels
    return Instances(masks, masks.boxes(), _weighted_centroids(called, masks, flat, mass), score, small)


def _components(called: NDArray[np.bool_], connectivity: str) -> Masks:
    start, length = runs.find(called)
    size = np.array(called.shape[::-1], np.int64)
    return _grouped(start, length, runs.components(start, length, size, connectivity), size)


def _by_value(labels: NDArray[np.integer]) -> Masks:
    start, length, value = runs.of_labels(labels)
    owner = np.unique(value, return_inverse=True)[1]
    return _grouped(start, length, owner, np.array(labels.shape[::-1], np.int64))


def _grouped(start: I64, length: I64, owner: I64, size: I64) -> Masks:
    """Return masks from runs in the order of the voxels, each with its object."""
    n = int(owner.max(initial=-1)) + 1
    order = np.argsort(owner, kind="stable")
    return Masks(ragged.from_owner(owner, n), start[order], length[order], np.tile(size, (n, 1)))


def _weighted_centroids(called: Expanded, masks: Masks, flat: NDArray[np.floating], mass: F64) -> F64:
    """Return (n, d) the mean place of the voxels, each with the weight of its score; voxel centres lie at + 0.5."""
    rest, weight = called.index, flat[called.index].astype(np.float64)
    found = np.zeros((called.n, masks.dimensions))
    sides = masks.size[0] if len(masks) else np.ones(masks.dimensions, np.int64)
    for axis in range(masks.dimensions):
        place = rest % sides[axis] + 0.5
        rest = rest // sides[axis]
        found[:, axis] = np.bincount(called.owner, weights=place * weight, minlength=called.n)
    return found / mass[:, None]
