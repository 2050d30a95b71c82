# SPDX-License-Identifier: Apache-2.0
"""Soft instance IoU: overlap of a map of scores with one reference object at a time, without a
threshold.

Every object is judged on its own voxels and the background; the voxels of other objects are left
out. So all that is needed are sums: of the scores in every object, and of the scores over the
background.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Variant = Literal["tversky", "jaccard", "printed"]

EPSILON = 1e-5


class SoftSums(NamedTuple):
    """What soft overlap needs of one sample with K objects."""

    inside: F64  # (K,) sum of the scores in each object
    voxels: I64  # (K,) voxels of each object
    background: float  # sum of the scores outside of all objects


def sums(scores: NDArray[Any], objects: NDArray[Any], n_objects: int) -> SoftSums:
    """Return the sums of a sample; ``objects`` holds 0 for the background and 1 ... n_objects."""
    flat = np.ascontiguousarray(objects).reshape(-1)
    weights = np.ascontiguousarray(scores, np.float64).reshape(-1)
    totals = np.asarray(np.bincount(flat, weights=weights, minlength=n_objects + 1), np.float64)
    voxels = np.bincount(flat, minlength=n_objects + 1)
    return SoftSums(totals[1:], voxels[1:], float(totals[0]))


def per_object(totals: SoftSums, alpha: float, variant: Variant) -> F64:
    """Return (K,) the soft overlap of every object.

    Notes
    -----
    With p the scores and y the object, summed over the object and the background, and e = 1e-5:

    - ``tversky``: ``(sum p y + e) / (alpha sum p + (1 - alpha) sum y + e)``. 1 for a perfect map
      and every alpha; the soft Dice at alpha = .5. A larger alpha punishes scores outside of the
      object more, a smaller one gaps inside.
    - ``jaccard``: ``(TP + e) / (TP + 2 alpha FP + 2 (1 - alpha) FN + e)`` with ``TP = sum p y``,
      ``FP = sum p (1 - y)``, ``FN = sum (1 - p) y``: the soft IoU at alpha = .5.
    - ``printed``: ``alpha sum p y / sum (.5 p + (1 - alpha) y)``, as it stands in the paper;
      ``alpha / (1.5 - alpha)`` for a perfect map. NaN if alpha is 1 and all scores are 0.

    No objects give no values.
    """
    inside, background = totals.inside, totals.background
    everything = inside + background
    if variant == "tversky":
        return np.asarray(
            (inside + EPSILON) / (alpha * everything + (1 - alpha) * totals.voxels + EPSILON)
        )
    if variant == "jaccard":
        gaps = totals.voxels - inside
        return np.asarray(
            (inside + EPSILON)
            / (inside + 2 * alpha * background + 2 * (1 - alpha) * gaps + EPSILON)
        )
    with np.errstate(invalid="ignore"):
        return np.asarray(alpha * inside / (0.5 * everything + (1 - alpha) * totals.voxels))


def per_sample(totals: SoftSums, alpha: float, variant: Variant) -> float:
    """Return the mean over the objects of a sample; ``e / (alpha sum p + e)``, for every variant,
    if it has none.
    """
    if not len(totals.voxels):
        return float(EPSILON / (alpha * totals.background + EPSILON))
    return float(per_object(totals, alpha, variant).mean())
