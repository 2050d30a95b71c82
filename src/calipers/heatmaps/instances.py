# SPDX-License-Identifier: Apache-2.0
"""`instances_from_map`: split a score map into objects with masks, boxes, scores and centroids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.heatmaps.checks import as_map
from calipers.heatmaps.settings import CONNECTIVITIES
from calipers.tables.instances import Instances, instances_of

__all__ = ["Instances", "instances_from_map"]


def instances_from_map(
    values: Any, threshold: float = 0.5, connectivity: str = "full"
) -> Instances:
    """Split what lies at or above a threshold into connected objects.

    Parameters
    ----------
    values
        A map ``[z, ]y, x``; it is neither resampled nor scaled.
    threshold
        Voxels at or above it belong to an object; for 0, above it.
    connectivity
        ``"full"``, ``"edges"`` or ``"faces"``, as in `boxes_from_heatmaps`.

    Notes
    -----
    The centre of voxel x is ``x + 0.5``. The centroid is ``sum(s c) / sum(s)`` over the voxels of
    the object, with scores s and centres c; if a score is negative or their sum is 0, it is the
    mean of the centres. A map without a voxel at the threshold gives no object: all columns are
    empty.

    Examples
    --------
    >>> import numpy as np
    >>> from calipers.heatmaps import instances_from_map
    >>> scores = np.array([[0.0, 0.6, 0.9], [0.7, 0.0, 0.0]])
    >>> instances = instances_from_map(scores, connectivity="faces")
    >>> instances.boxes.tolist(), instances.highest.tolist()
    ([[1.0, 0.0, 3.0, 1.0], [0.0, 1.0, 1.0, 2.0]], [0.9, 0.7])
    >>> instances.centroids.round(3).tolist()
    [[2.1, 0.5], [0.5, 1.5]]
    """
    if connectivity not in CONNECTIVITIES:
        raise UsageError(
            f"no connectivity {connectivity!r}; {did_you_mean(connectivity, CONNECTIVITIES)}"
        )
    if not math.isfinite(threshold):
        raise UsageError(f"{threshold!r} is no threshold: it must be finite")
    scores = as_map(values, "<arrays>").astype(np.float64)
    if scores.ndim not in (2, 3):
        hint = "one map at a time, without an axis for classes"
        raise InputError("a map of 2 or 3 axes", rule="map-shape", value=scores.shape, hint=hint)
    mask = scores > 0 if threshold == 0 else scores >= threshold
    return instances_of(scores, mask, connectivity)
