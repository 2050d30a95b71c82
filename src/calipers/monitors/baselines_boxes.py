# SPDX-License-Identifier: Apache-2.0
"""How usual the predicted boxes are: their size, shape and place under a normal distribution."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.monitors.baselines_distances import Normal
from calipers.monitors.baselines_scores import Empty, fill_empty
from calipers.tables import Objects, Predictions

F64 = NDArray[np.float64]
Source = Literal["references", "predictions"]
Over = Literal["worst", "mean"]


def box_likelihood(
    judged: tuple[Predictions, F64],
    examples: tuple[Objects, F64],
    *,
    over: Over = "worst",
    empty: Empty = "alarm",
) -> F64:
    """Return how unlikely the predicted boxes of every image are.

    Parameters
    ----------
    judged
        Predictions, and the (n_images, 2|3) sizes of their images.
    examples
        Objects of the fit images, and the sizes of these images.

    Notes
    -----
    A box is described by the log of its size (the d-th root of its area or volume), the logs of its
    aspects (width / height, in 3D also width / depth) and its centre; in fractions of the image if
    the sizes of all images are known, else in pixels. A normal distribution with a shrunken
    covariance (`Normal`) is fitted to the example boxes of all classes. The alarm of an image is
    minus the log density of its most unlikely box (``worst``) or the mean of that over its boxes.
    An image without predictions gets 1 more than the highest alarm of the others, or 1 less than
    the lowest (`fill_empty`).
    """
    if over not in ("worst", "mean"):
        raise UsageError(f"no over {over!r}; {did_you_mean(over, ('worst', 'mean'))}")
    predictions, sizes = judged
    objects, fit_sizes = examples
    if len(objects) < 2:
        raise UsageError(
            f"box-likelihood is fitted on at least 2 boxes, the fit images have {len(objects)}"
        )
    have_sizes = bool(np.isfinite(sizes).all() and np.isfinite(fit_sizes).all())
    normal = Normal.fitted(box_features(objects, fit_sizes if have_sizes else None))
    surprise = -normal.log_density(box_features(predictions, sizes if have_sizes else None))
    owner, n = predictions.image, predictions.n_images
    if over == "worst":
        alarm = np.full(n, -np.inf)
        np.maximum.at(alarm, owner, surprise)
    else:
        alarm = np.bincount(owner, surprise, n) / np.maximum(np.diff(predictions.offsets), 1)
    return fill_empty(alarm, predictions, empty, unit=False)


def box_features(objects: Objects, sizes: F64 | None) -> F64:
    """Return the (n, 2 d) features of boxes: log size, d - 1 log aspects, centre."""
    low, high = np.split(objects.boxes, 2, axis=1)
    scale = np.ones_like(low) if sizes is None else sizes[objects.image]
    sides = np.log((high - low) / scale)
    centre = (low + high) / 2.0 / scale
    return np.hstack([sides.mean(axis=1, keepdims=True), sides[:, :1] - sides[:, 1:], centre])
