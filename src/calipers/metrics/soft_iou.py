# SPDX-License-Identifier: Apache-2.0
"""Soft instance IoU of one sample: how well a map covers each object and nothing else, without a
threshold.
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.kernels import runs, softness
from calipers.kernels.softness import SoftSums, Variant
from calipers.readers.volumes.values import as_labels, as_map
from calipers.tables.masks import Masks

F64 = NDArray[np.float64]


def soft_instance_iou(
    prediction: ArrayLike,
    labels: ArrayLike,
    alpha: float = 0.5,
    variant: Variant = "tversky",
    *,
    instances: bool | None = None,
) -> float:
    """Return the soft instance IoU of one sample, the mean over its objects.

    Parameters
    ----------
    prediction
        Scores in [0, 1], two- or three-dimensional.
    labels
        Of the same shape: a whole number per object and 0 for the background, or a mask whose
        connected components (neighbours across corners included) are the objects.
    alpha
        Weight of scores outside of an object against gaps inside of it, in [0, 1].
    variant
        ``tversky`` (the soft Dice at alpha = .5), ``jaccard`` (the soft IoU at alpha = .5) or
        ``printed`` (the formula as it stands in the paper, which is not 1 for a perfect
        prediction).
    instances
        Whether ``labels`` numbers objects (True) or is a mask (False). By default truth values, and
        numbers that are only 0 and 1, are a mask.

    Notes
    -----
    For object k, with y its voxels and p the scores, both summed over its voxels and the background
    (other objects are left out), and e = 1e-5: ``(sum p y + e) / (alpha sum p + (1 - alpha) sum y +
    e)``; the other variants are in `calipers.kernels.softness`. A sample without objects scores ``e
    / (alpha sum p + e)``: 1 for an empty map, near 0 otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([[1, 1, 0, 0], [0, 0, 0, 2]])
    >>> round(soft_instance_iou(labels > 0, labels), 6)
    1.0
    >>> round(soft_instance_iou(labels == 1, labels), 4)  # one of two objects is missed
    0.5
    """
    return softness.per_sample(_sums(prediction, labels, alpha, variant, instances), alpha, variant)


def soft_instance_ious(
    prediction: ArrayLike,
    labels: ArrayLike,
    alpha: float = 0.5,
    variant: Variant = "tversky",
    *,
    instances: bool | None = None,
) -> F64:
    """Return the soft instance IoU of every object, in the order of their numbers; see
    `soft_instance_iou`.

    A sample without objects gives no values.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([[1, 1, 0, 0], [0, 0, 0, 2]])
    >>> soft_instance_ious(labels == 1, labels).round(4).tolist()
    [1.0, 0.0]
    """
    return softness.per_object(_sums(prediction, labels, alpha, variant, instances), alpha, variant)


def _sums(
    prediction: ArrayLike, labels: ArrayLike, alpha: float, variant: str, instances: bool | None
) -> SoftSums:
    """Check everything that came in, and sum up."""
    if variant not in get_args(Variant):
        raise UsageError(f"no soft IoU {variant!r}; {did_you_mean(variant, get_args(Variant))}")
    if not 0 <= alpha <= 1:
        raise UsageError(f"alpha lies in [0, 1], not {alpha!r}")
    scores, numbers = np.asarray(prediction), np.asarray(labels)
    if scores.ndim not in (2, 3):
        raise InputError(
            "a map with 2 or 3 axes", rule="map-shape", field="prediction", value=scores.shape
        )
    if scores.shape != numbers.shape:
        shapes = f"{scores.shape} and {numbers.shape}"
        raise InputError(
            "a prediction and labels of one shape",
            rule="shape-mismatch",
            value=shapes,
            hint="nothing is resized",
        )
    masks = _objects(as_labels(numbers, "instances", file="labels"), instances)
    objects = runs.fill(masks.start, masks.length, masks.owner + 1, scores.shape)
    return softness.sums(as_map(scores, file="prediction"), objects, len(masks))


def _objects(labels: NDArray[Any], instances: bool | None) -> Masks:
    """Return the objects in the order of their labels, or of their first voxels if the labels are a
    mask.
    """
    is_mask = not instances if instances is not None else labels.max(initial=0) <= 1
    return Masks.from_components(labels) if is_mask else Masks.from_labels(labels)
