# SPDX-License-Identifier: Apache-2.0
"""Monitors that need nothing but the predictions or the pictures, to start with and to compare
with.

All of them give one number per image; higher is an alarm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import one_of, real, whole
from calipers.errors import UsageError
from calipers.monitors.alarms import array_of
from calipers.monitors.baselines_boxes import Over, Source, box_likelihood
from calipers.monitors.baselines_distances import mahalanobis, nearest
from calipers.monitors.baselines_pictures import Features, Pictures, picture_features
from calipers.monitors.baselines_scores import Empty, count, max_score, mean_score, score_entropy
from calipers.tables import Cohort, Predictions

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Fit = Cohort | NDArray[Any] | Literal["all"] | None

BASELINES: Mapping[str, str] = {
    "max-score": "1 - the highest score of the predictions",
    "mean-score": "1 - the mean score of the predictions",
    "count": "the number of predictions; with fit images, how far it is from their median",
    "score-entropy": "the mean binary entropy of the scores, in bits",
    "box-likelihood": "how unusual size, shape and place of the predicted boxes are, given those of the fit images",
    "image-mahalanobis": "the distance of simple features of the picture from those of the fit images, by their spread",
    "image-knn": "the distance of simple features of the picture to the k-th nearest fit image",
}
NEEDS_FIT = frozenset({"box-likelihood", "image-mahalanobis", "image-knn"})
NEEDS_PICTURES = frozenset({"image-mahalanobis", "image-knn"})


@dataclass(frozen=True)
class FitImages:
    """What a baseline is fitted on."""

    cohort: Cohort
    rows: I64  # images of `cohort`
    own: bool  # whether these are images of the cohort that is judged


def baseline(
    name: str,
    cohort: Cohort,
    model: str | None = None,
    images: Pictures | None = None,
    fit: Fit = None,
    *,
    fit_pictures: Pictures | None = None,
    score_cut: float | None = None,
    empty: Empty = "alarm",
    source: Source = "references",
    over: Over = "worst",
    neighbours: int = 5,
) -> F64:
    """Return one alarm per image of a cohort; higher = alarm.

    Parameters
    ----------
    name
        A key of `BASELINES`.
    model
        Whose predictions; may be left out if there is one model, or if the baseline looks at
        pictures only.
    images
        The pictures: a folder, id -> array or file, one array or file per image, or `Features`.
    fit
        Images on which ``box-likelihood`` and the ``image-`` baselines are fitted: flags or indices
        into the cohort, or another cohort. ``"all"`` takes the images that are judged, which must
        be said. The alarms of fit images are returned too, but they flatter: leave these images out
        when you judge the monitor.
    fit_pictures
        The pictures of a fit cohort, as ``images``.
    score_cut
        Predictions with a score below it are not looked at; None: all are.
    empty
        What an image without predictions gets from the baselines that look at predictions, `count`
        excepted: the highest alarm or the lowest (``"calm"``).
    source
        ``box-likelihood``: whether it is fitted on the references or on the predictions of the fit
        images.
    over
        ``box-likelihood``: the ``"worst"`` box counts, or their ``"mean"``.
    neighbours
        ``image-knn``: which neighbour.

    Examples
    --------
    >>> import calipers as cal
    >>> from calipers.monitors.baselines import baseline
    >>> cohort = cal.demo_cohort()
    >>> alarm = baseline("max-score", cohort, "mislabels")
    >>> alarm.shape, bool((alarm >= 0).all() and (alarm <= 1).all())
    ((120,), True)
    """
    one_of("baseline", name, BASELINES)
    if not isinstance(cohort, Cohort):
        raise UsageError(
            f"a baseline looks at a cohort, not at {type(cohort).__name__}: make one with read"
        )
    one_of("empty", empty, ("alarm", "calm"))
    one_of("source", source, ("references", "predictions"))
    one_of("over", over, ("worst", "mean"))
    score_cut = None if score_cut is None else real("score_cut", score_cut)
    fitted = _fit_images(name, cohort, fit)
    if name in NEEDS_PICTURES:
        assert fitted is not None
        return _of_pictures(name, (cohort, images), (fitted, fit_pictures), neighbours)
    predictions = _cut(cohort, model, score_cut)
    if name == "count":
        expected = (
            None
            if fitted is None
            else np.diff(_cut(fitted.cohort, model, score_cut).offsets)[fitted.rows]
        )
        return count(predictions, expected)
    if name == "box-likelihood":
        assert fitted is not None
        known = (
            fitted.cohort.references
            if source == "references"
            else _cut(fitted.cohort, model, score_cut)
        )
        given = (known.take(fitted.rows), fitted.cohort.images.size[fitted.rows])
        return box_likelihood((predictions, cohort.images.size), given, over=over, empty=empty)
    simple = {"max-score": max_score, "mean-score": mean_score, "score-entropy": score_entropy}[
        name
    ]
    return simple(predictions, empty)


def _cut(cohort: Cohort, model: str | None, score_cut: float | None) -> Predictions:
    """Return the predictions of a model, from a score on if one is given."""
    if model is None:
        if len(cohort.models) != 1:
            raise UsageError(
                f"name the model: the cohort has {len(cohort.models)} ({', '.join(cohort.models)})"
            )
        model = next(iter(cohort.models))
    predictions = cohort.predictions(model)
    return predictions if score_cut is None else predictions.keep(predictions.score >= score_cut)


def _fit_images(name: str, cohort: Cohort, fit: Fit) -> FitImages | None:
    if fit is None:
        if name in NEEDS_FIT:
            raise UsageError(
                f"{name} is fitted on images of its own: pass fit=flags, indices or a cohort; "
                "fit='all' fits it on the images that it judges"
            )
        return None
    if isinstance(fit, Cohort):
        return FitImages(fit, np.arange(fit.n_images), own=False)
    if isinstance(fit, str):
        one_of("fit", fit, ("all",))
        return FitImages(cohort, np.arange(cohort.n_images), own=True)
    rows = _rows(array_of(fit, "fit"), cohort.n_images)
    if not len(rows):
        raise UsageError("no image to fit a baseline on: fit chooses none")
    return FitImages(cohort, rows, own=True)


def _rows(fit: NDArray[Any], n: int) -> I64:
    """Return the images behind flags or indices, each once."""
    if fit.dtype == np.bool_ and fit.shape == (n,):
        return np.flatnonzero(fit)
    if fit.ndim == 1 and fit.dtype.kind in "iu" and ((fit >= 0) & (fit < n)).all():
        return np.unique(fit).astype(np.int64)
    if not fit.size:
        return np.zeros(0, np.int64)
    raise UsageError(
        f"fit is one flag per image ({n}), or indices from 0 to {n - 1}; got {fit.dtype} {fit.shape}"
    )


def _of_pictures(
    name: str,
    judged: tuple[Cohort, Pictures | None],
    fitted: tuple[FitImages, Pictures | None],
    neighbours: int,
) -> F64:
    cohort, images = judged
    if images is None:
        raise UsageError(f"{name} looks at the pictures: pass images=folder, arrays or features")
    features = picture_features(cohort, images)
    fit, pictures = fitted
    if fit.own:
        known: Features = features.take(fit.rows)
    elif pictures is None:
        raise UsageError(
            f"{name} is fitted on another cohort: pass fit_pictures=folder, arrays or features of it"
        )
    else:
        known = picture_features(fit.cohort, pictures)
    if known.names != features.names:
        raise UsageError(f"the fit images have other features: {known.names} and {features.names}")
    if len(known.values) < 2:
        raise UsageError(f"{name} is fitted on at least 2 images, got {len(known.values)}")
    if name == "image-mahalanobis":
        return mahalanobis(features.values, known.values)
    whole("neighbours", neighbours, 1, 2**31)
    own = np.full(cohort.n_images, -1, np.int64)
    if fit.own:
        own[fit.rows] = np.arange(len(fit.rows))
    return nearest(features.values, known.values, neighbours, own)
