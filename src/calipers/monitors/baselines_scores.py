# SPDX-License-Identifier: Apache-2.0
"""Alarms from the scores and the number of predictions."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.tables import Predictions

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Empty = Literal["alarm", "calm"]


def max_score(predictions: Predictions, empty: Empty) -> F64:
    """Return 1 - the highest score of every image.

    Notes
    -----
    An image without predictions gets 1, as if its highest score were 0, or 0 if it is ``calm``.
    Where scores leave [0, 1] it gets 1 more than the highest, or 1 less than the lowest alarm of
    the others.
    """
    highest = np.full(predictions.n_images, -np.inf)
    np.maximum.at(highest, predictions.image, predictions.score)
    return fill_empty(1.0 - highest, predictions, empty, unit=_is_unit(predictions))


def mean_score(predictions: Predictions, empty: Empty) -> F64:
    """Return 1 - the mean score of every image; images without predictions as in `max_score`."""
    return fill_empty(
        1.0 - _means(predictions, predictions.score), predictions, empty, unit=_is_unit(predictions)
    )


def score_entropy(predictions: Predictions, empty: Empty) -> F64:
    """Return the mean over the predictions of ``-s log2 s - (1 - s) log2 (1 - s)``, in bits; 0 log2
    0 is 0.

    Notes
    -----
    An image without predictions gets 1, nothing is known of it, or 0 if it is ``calm``.
    """
    if not _is_unit(predictions):
        raise UsageError("score-entropy needs scores between 0 and 1: these are raw scores")
    score = predictions.score
    with np.errstate(divide="ignore", invalid="ignore"):
        yes = np.where(score > 0.0, -score * np.log2(score), 0.0)
        rest = 1.0 - score
        no = np.where(rest > 0.0, -rest * np.log2(rest), 0.0)
    return fill_empty(_means(predictions, yes + no), predictions, empty, unit=True)


def count(predictions: Predictions, fit_counts: I64 | None) -> F64:
    """Return the number of predictions, or its distance from the median of ``fit_counts``."""
    numbers = np.diff(predictions.offsets).astype(np.float64)
    return numbers if fit_counts is None else np.abs(numbers - np.median(fit_counts))


def fill_empty(alarm: F64, predictions: Predictions, empty: Empty, *, unit: bool) -> F64:
    """Return alarms in which images without predictions have the highest or the lowest one.

    Notes
    -----
    With ``unit`` these are 1 and 0. Else they are 1 more than the highest and 1 less than the
    lowest alarm of the other images, and 0 if there are none.
    """
    if empty not in ("alarm", "calm"):
        raise UsageError(f"no empty {empty!r}; {did_you_mean(empty, ('alarm', 'calm'))}")
    # without predictions there is no maximum or mean: the alarm is replaced
    vacant = np.diff(predictions.offsets) == 0
    if unit:
        value = 1.0 if empty == "alarm" else 0.0
    elif vacant.all():
        value = 0.0
    else:
        value = float(
            alarm[~vacant].max() + 1.0 if empty == "alarm" else alarm[~vacant].min() - 1.0
        )
    return np.where(vacant, value, alarm)


def _means(predictions: Predictions, values: F64) -> F64:
    total = np.bincount(predictions.image, values, predictions.n_images)
    return np.asarray(total / np.maximum(np.diff(predictions.offsets), 1))


def _is_unit(predictions: Predictions) -> bool:
    return bool(((predictions.score >= 0.0) & (predictions.score <= 1.0)).all())
