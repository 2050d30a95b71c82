# SPDX-License-Identifier: Apache-2.0
"""`instances_from_map`: the objects of a score map, with masks, boxes, scores and centroids."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.heatmaps.checks import as_map
from calipers.heatmaps.components import CONNECTIVITIES, bounds, components, maxima, sizes, sums
from calipers.kernels import ragged
from calipers.tables.masks import Masks

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


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


def instances_from_map(values: Any, threshold: float = 0.5, connectivity: str = "full") -> Instances:
    """Split what lies at or above a threshold into connected objects.

    Parameters
    ----------
    values
        A map ``[z, ]y, x``, taken as it is: neither resampled nor scaled.
    threshold
        Voxels at or above it belong to an object; for 0, above it.
    connectivity
        ``"full"``, ``"edges"`` or ``"faces"``, as in `boxes_from_heatmaps`.

    Notes
    -----
    The centre of voxel x is ``x + 0.5``. The centroid is ``sum(s c) / sum(s)`` over the voxels of the object, with
    scores s and centres c; if a score is negative or their sum is 0, it is the mean of the centres. A map without a
    voxel at the threshold gives no object: all columns are empty.

    Examples
    --------
    >>> import numpy as np
    >>> from calipers.heatmaps import instances_from_map
    >>> found = instances_from_map(np.array([[0.0, 0.6, 0.9], [0.7, 0.0, 0.0]]), connectivity="faces")
    >>> found.boxes.tolist(), found.highest.tolist()
    ([[1.0, 0.0, 3.0, 1.0], [0.0, 1.0, 1.0, 2.0]], [0.9, 0.7])
    >>> found.centroids.round(3).tolist()
    [[2.1, 0.5], [0.5, 1.5]]
    """
    if connectivity not in CONNECTIVITIES:
        raise UsageError(f"no connectivity {connectivity!r}; {did_you_mean(connectivity, CONNECTIVITIES)}")
    if not math.isfinite(threshold):
        raise UsageError(f"{threshold!r} is no threshold: it has to be finite")
    scores = as_map(values, "<arrays>").astype(np.float64)
    if scores.ndim not in (2, 3):
        hint = "one map at a time, without an axis for classes"
        raise InputError("a map of 2 or 3 axes", rule="map-shape", value=scores.shape, hint=hint)
    mask = scores > 0 if threshold == 0 else scores >= threshold
    labels, n = components(mask, connectivity)
    return Instances(
        masks=_masks(labels, n),
        boxes=bounds(labels),
        highest=maxima(labels, scores, n),
        mean=sums(labels, scores, n) / sizes(labels, n),
        centroids=_centroids(labels, scores, n),
    )


def _centroids(labels: NDArray[np.int32], scores: F64, n: int) -> F64:
    inside = np.nonzero(labels)
    owner, weight = labels[inside].astype(np.int64) - 1, scores[inside]
    total = np.bincount(owner, weight, n)
    plain = (total <= 0) | (np.bincount(owner, weight < 0, n) > 0)
    weight = np.where(plain[owner], 1.0, weight)
    total = np.bincount(owner, weight, n)
    columns = [np.bincount(owner, weight * (place + 0.5), n) / total for place in reversed(inside)]
    return np.stack(columns, axis=1).reshape(n, labels.ndim)


def _masks(labels: NDArray[np.int32], n: int) -> Masks:
    """Return the run-length masks of the labels 1..n."""
    width = labels.shape[-1]
    rows = labels.reshape(-1, width)
    edge = np.zeros((len(rows), 1), labels.dtype)
    changes = np.diff(rows, axis=1, prepend=edge, append=edge) != 0
    row, place = np.nonzero(changes)
    value = np.concatenate([rows, edge], axis=1)[row, place]  # of the run that begins here, 0 where one only ends
    begins = np.flatnonzero(value)
    length = place[begins + 1] - place[begins]
    start, owner = row[begins] * width + place[begins], value[begins].astype(np.int64) - 1
    order = np.argsort(owner, kind="stable")
    size = np.tile(np.array(labels.shape[::-1], np.int64), (n, 1))
    return Masks(ragged.from_owner(owner[order], n), start[order], length[order], size)
