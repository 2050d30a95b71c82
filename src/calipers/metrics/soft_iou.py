# SPDX-License-Identifier: Apache-2.0
"""Soft instance IoU of one sample: how well a map covers each object and nothing else, without a threshold."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.kernels import softness
from calipers.kernels.softness import Sums, Variant

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


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
        Of the same shape: a whole number per object and 0 for the background, or a mask whose connected components
        (neighbours across corners included) are the objects.
    alpha
        Weight of scores outside of an object against gaps inside of it, in [0, 1].
    variant
        ``tversky`` (the soft Dice at alpha = .5), ``jaccard`` (the soft IoU at alpha = .5) or ``printed`` (the formula
        as it stands in the paper, which is not 1 for a perfect prediction).
    instances
        Whether ``labels`` numbers objects (True) or is a mask (False). By default truth values, and numbers that are
        only 0 and 1, are a mask.

    Notes
    -----
    For object k, with y its voxels and p the scores, both summed over its voxels and the background (other objects are
    left out), and e = 1e-5: ``(sum p y + e) / (alpha sum p + (1 - alpha) sum y + e)``; the other variants are in
    `calipers.kernels.softness`. A sample without objects scores ``e / (alpha sum p + e)``: 1 for an empty map, near 0
    otherwise.

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
    """Return the soft instance IoU of every object, in the order of their numbers; see `soft_instance_iou`.

    A sample without objects gives no values.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([[1, 1, 0, 0], [0, 0, 0, 2]])
    >>> soft_instance_ious(labels == 1, labels).round(4).tolist()
    [1.0, 0.0]
    """
    return softness.per_object(_sums(prediction, labels, alpha, variant, instances), alpha, variant)


def _sums(prediction: ArrayLike, labels: ArrayLike, alpha: float, variant: str, instances: bool | None) -> Sums:
    """Check everything that came in, and sum up."""
    if variant not in get_args(Variant):
        raise UsageError(f"no soft IoU {variant!r}; {did_you_mean(variant, get_args(Variant))}")
    if not 0 <= alpha <= 1:
        raise UsageError(f"alpha lies in [0, 1], not {alpha!r}")
    scores, numbers = _scores(np.asarray(prediction)), _numbers(np.asarray(labels))
    if scores.shape != numbers.shape:
        shapes = f"{scores.shape} and {numbers.shape}"
        raise InputError(
            "a prediction and labels of one shape", rule="shape-mismatch", value=shapes, hint="nothing is resized"
        )
    objects, n = _objects(numbers, instances)
    return softness.sums(scores, objects, n)


def _scores(array: NDArray[Any]) -> NDArray[Any]:
    """Return a map of scores, or say what is wrong with it."""
    if array.dtype.kind not in "fbiu":
        raise InputError("scores that are real numbers", rule="type", field="prediction", value=str(array.dtype))
    if array.ndim not in (2, 3):
        raise InputError("a map with 2 or 3 axes", rule="map-shape", field="prediction", value=array.shape)
    finite = np.isfinite(array)
    if not finite.all():
        n, first = np.count_nonzero(~finite), _place(~finite)
        raise InputError(
            "finite scores", rule="non-finite", field="prediction", location=str(first), value=f"{n} NaN or infinite"
        )
    outside = (array < 0) | (array > 1)
    if outside.any():
        first = _place(outside)
        hint = "normalise the map on purpose, for all samples alike"
        raise InputError(
            "scores in [0, 1]",
            rule="range",
            field="prediction",
            location=str(first),
            value=array[first].item(),
            hint=hint,
        )
    return array


def _numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return labels, or say what is wrong with them."""
    if array.dtype.kind not in "biu":
        hint = "convert them with .astype(int) if all are whole"
        raise InputError(
            "labels that are whole numbers or truth values",
            rule="type",
            field="labels",
            value=str(array.dtype),
            hint=hint,
        )
    if array.size and array.min() < 0:
        first = _place(array < 0)
        raise InputError(
            "labels of 0 or more", rule="range", field="labels", location=str(first), value=array[first].item()
        )
    return array


def _objects(labels: NDArray[Any], instances: bool | None) -> tuple[I64, int]:
    """Return the objects numbered 1 ... n, in the order of their labels, and n."""
    is_mask = not instances if instances is not None else labels.dtype == np.bool_ or labels.max(initial=0) <= 1
    if is_mask:
        return _components(labels != 0)
    names, numbers = np.unique(labels, return_inverse=True)
    shift = 0 if len(names) and names[0] == 0 else 1  # without background the first object would become it
    return numbers.reshape(labels.shape) + shift, len(names) - 1 + shift


def _components(mask: NDArray[np.bool_]) -> tuple[I64, int]:
    """Return the connected components of a mask, numbered 1 ... n, and n; neighbours across corners are connected."""
    from scipy.ndimage import label

    found, n = label(mask, np.ones((3,) * mask.ndim))
    return found.astype(np.int64), int(n)


def _place(flags: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return where the first one is."""
    return tuple(int(k) for k in np.unravel_index(int(np.argmax(flags)), flags.shape))
