# SPDX-License-Identifier: Apache-2.0
"""The soft IoU of instances: how well a map covers each object and nothing else.

`SoftInstanceIou` is the metric on maps, whose evidence is `calipers.data.maps.Maps`;
`soft_instance_iou` and `soft_instance_ious` take arrays. Formulas: `kernels.voxel_ranking`.
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.arguments import names_arguments
from calipers.arrays import F64, I64, host_array
from calipers.data.maps import Maps
from calipers.data.masks import Masks
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.volumes.values import as_labels, as_map
from calipers.kernels import runs, voxel_ranking
from calipers.kernels.resampling import exact_product
from calipers.kernels.voxel_ranking import SoftSums, Variant
from calipers.metrics.base import REVISITING, Facts
from calipers.metrics.maps import MapMetric, Measure, ratio_of_sums


class SoftInstanceIou(MapMetric):
    """The soft IoU of every reference object with the map around it, averaged per sample, then over
    samples.

    On an object and the background, other objects left out: ``(sum p y + e) / (a sum p + (1 - a)
    sum y + e)``. A sample without objects has ``e / (a sum p + e)``: 1 if nothing is called. See
    `calipers.kernels.voxel_ranking`.

    With e = 1e-5 that is near 0 for any map that is not exactly 0. ``empty = "graded"`` takes the
    mean volume of an object of the data set instead, for samples without objects alone: a map whose
    scores add up to one object has 1 / (1 + a) there.
    """

    quantity = "softIoU"
    own_options = ("level", "alpha", "variant", "empty")
    levels = ("sample",)
    facts = Facts(
        id="soft-instance-iou@1",
        short={"softIoU": {}},
        per_class=False,
        swap=False,
        word="soft instance IoU",
        meaning=(
            "For every reference, without a threshold: the sum of scores inside it, over the mean "
            "of its size and of the sum of scores on it and the background; then the mean per "
            "image. At alpha 0.5 this is a soft Dice, so the soft Jaccard stands beside it. Faint "
            "scores all over the background lower it. An image without references has 1 if every "
            "score is 0, and less with every score."
        ),
        citations=(REVISITING,),
        page="explanation/maps.md#soft-instance-iou",
    )

    def _column(self, evidence: Maps, measure: Measure, weights: I64) -> F64:
        if not measure.is_graded:
            return super()._column(evidence, measure, weights)
        values = self._graded_values(evidence, measure)
        return ratio_of_sums(
            exact_product(weights, np.stack([values, np.ones(len(values))], axis=1))
        )

    def _judged(self, evidence: Maps, measure: Measure) -> tuple[NDArray[np.bool_], ...]:
        if not measure.is_graded:
            return super()._judged(evidence, measure)
        values = self._graded_values(evidence, measure)
        every = np.ones(len(values), np.bool_)
        return every, every, values < 1

    def _graded_values(self, evidence: Maps, measure: Measure) -> F64:
        """Return (n,) the value of every sample; without any object in the data set e is 1e-5."""
        scores, volumes = evidence.sums[measure.empty_key].T
        n_objects = evidence.references.sum()
        mean = volumes.sum() / n_objects if n_objects else voxel_ranking.EPSILON
        graded = mean / (measure.alpha * scores + mean)
        return np.where(evidence.references > 0, evidence.sums[measure.key][:, 0], graded)


@names_arguments
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
    e)``; the other variants are in `calipers.kernels.voxel_ranking`. A sample without objects
    scores ``e / (alpha sum p + e)``: 1 for an empty map, near 0 otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([[1, 1, 0, 0], [0, 0, 0, 2]])
    >>> round(soft_instance_iou(labels > 0, labels), 6)
    1.0
    >>> round(soft_instance_iou(labels == 1, labels), 4)  # one of two objects is missed
    0.5
    """
    return voxel_ranking.per_sample(
        _sums(prediction, labels, alpha, variant, instances), alpha, variant
    )


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
    return voxel_ranking.per_object(
        _sums(prediction, labels, alpha, variant, instances), alpha, variant
    )


def _sums(
    prediction: ArrayLike, labels: ArrayLike, alpha: float, variant: str, instances: bool | None
) -> SoftSums:
    """Check everything that came in, and sum up."""
    if variant not in get_args(Variant):
        raise UsageError(f"no soft IoU {variant!r}; {did_you_mean(variant, get_args(Variant))}")
    if not 0 <= alpha <= 1:
        raise UsageError(f"alpha lies in [0, 1], not {alpha!r}")
    scores, numbers = _as_array(prediction, "prediction"), _as_array(labels, "labels")
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
    return voxel_ranking.sums(as_map(scores, file="prediction"), objects, len(masks))


def _as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return host_array(values)
    except ValueError as error:
        raise InputError("an array", rule="type", field=name, value=str(error)) from None


def _objects(labels: NDArray[Any], instances: bool | None) -> Masks:
    """Return the objects in the order of their labels, or of their first voxels if the labels are a
    mask.
    """
    # Only 0 and 1: components of a mask, unless the caller says that 1 is one object.
    is_mask = not instances if instances is not None else labels.max(initial=0) <= 1
    return Masks.from_components(labels) if is_mask else Masks.from_labels(labels)
