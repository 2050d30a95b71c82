# SPDX-License-Identifier: Apache-2.0
"""Baseline monitors that need only the predictions or the pictures, to compare others with.

In comes a cohort; out goes one number per image, high for an alarm. Called by
`calipers.baseline` and the ``monitor`` command.
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
from calipers.tables import Cohort, Objects, Predictions

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Fit = Cohort | NDArray[Any] | Literal["all"] | None

BASELINES: Mapping[str, str] = {
    "max-score": "1 - the highest score of the predictions",
    "mean-score": "1 - the mean score of the predictions",
    "count": "the number of predictions; with fit images, how far it is from their median",
    "score-entropy": "the mean binary entropy of the scores, in bits",
    "box-likelihood": "how unusual size, shape and place of the predicted boxes are, compared with "
    "those of the fit images",
    "image-mahalanobis": "the Mahalanobis distance of simple features of the picture from those of "
    "the fit images",
    "image-knn": "the distance of simple features of the picture to the k-th nearest fit image",
}
NEEDS_FIT = frozenset({"box-likelihood", "image-mahalanobis", "image-knn"})
NEEDS_PICTURES = frozenset({"image-mahalanobis", "image-knn"})


@dataclass(frozen=True)
class FitImages:
    """The images that a baseline is fitted on."""

    cohort: Cohort
    rows: I64  # images of `cohort`
    same_cohort: bool  # whether these are images of the cohort that is judged


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
        The model whose predictions are used; may be left out if there is one model, or if the
        baseline uses pictures only.
    images
        The pictures: a folder, id -> array or file, one array or file per image, or `Features`.
    fit
        Images on which ``box-likelihood`` and the ``image-`` baselines are fitted: flags or indices
        into the cohort, or another cohort. ``"all"`` fits on the images that are judged; report it
        if you do so. The alarms of fit images are returned too, but they are optimistic: leave
        these images out when you judge the monitor.
    fit_pictures
        The pictures of a fit cohort, as ``images``.
    score_cut
        Predictions with a lower score are left out; None uses all.
    empty
        The alarm of an image without predictions, in the baselines that use predictions except
        ``count``: the highest alarm or the lowest (``"calm"``).
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
            f"a baseline takes a cohort, not {type(cohort).__name__}: make one with calipers.read"
        )
    one_of("empty", empty, ("alarm", "calm"))
    one_of("source", source, ("references", "predictions"))
    one_of("over", over, ("worst", "mean"))
    score_cut = None if score_cut is None else real("score_cut", score_cut)
    fit_images = _fit_images(name, cohort, fit)
    if name in NEEDS_PICTURES:
        assert fit_images is not None
        return _of_pictures(name, (cohort, images), (fit_images, fit_pictures), neighbours)
    predictions = _cut(cohort, model, score_cut)
    if name == "count":
        if fit_images is None:
            return count(predictions, None)
        counts = np.diff(_cut(fit_images.cohort, model, score_cut).offsets)
        return count(predictions, counts[fit_images.rows])
    if name == "box-likelihood":
        assert fit_images is not None
        objects: Objects = fit_images.cohort.references
        if source == "predictions":
            objects = _cut(fit_images.cohort, model, score_cut)
        examples = (objects.take(fit_images.rows), fit_images.cohort.images.size[fit_images.rows])
        return box_likelihood((predictions, cohort.images.size), examples, over=over, empty=empty)
    by_score = {"max-score": max_score, "mean-score": mean_score, "score-entropy": score_entropy}
    return by_score[name](predictions, empty)


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
                f"{name} must be fitted on images: pass fit=flags, indices or a cohort; "
                "fit='all' fits it on the images that it judges"
            )
        return None
    if isinstance(fit, Cohort):
        return FitImages(fit, np.arange(fit.n_images), same_cohort=False)
    if isinstance(fit, str):
        one_of("fit", fit, ("all",))
        return FitImages(cohort, np.arange(cohort.n_images), same_cohort=True)
    rows = _rows(array_of(fit, "fit"), cohort.n_images)
    if not len(rows):
        raise UsageError("no image to fit the baseline on: fit selects none")
    return FitImages(cohort, rows, same_cohort=True)


def _rows(fit: NDArray[Any], n: int) -> I64:
    """Return the images behind flags or indices, each once."""
    if fit.dtype == np.bool_ and fit.shape == (n,):
        return np.flatnonzero(fit)
    if fit.ndim == 1 and fit.dtype.kind in "iu" and ((fit >= 0) & (fit < n)).all():
        return np.unique(fit).astype(np.int64)
    if not fit.size:
        return np.zeros(0, np.int64)
    raise UsageError(
        f"fit is one flag per image ({n}), or indices from 0 to {n - 1}; "
        f"got {fit.dtype} {fit.shape}"
    )


def _of_pictures(
    name: str,
    judged: tuple[Cohort, Pictures | None],
    fit_images: tuple[FitImages, Pictures | None],
    neighbours: int,
) -> F64:
    cohort, images = judged
    if images is None:
        raise UsageError(f"{name} needs the pictures: pass images=folder, arrays or features")
    features = picture_features(cohort, images)
    fit, pictures = fit_images
    if fit.same_cohort:
        examples: Features = features.take(fit.rows)
    elif pictures is None:
        raise UsageError(
            f"{name} is fitted on another cohort: pass its pictures, "
            "fit_pictures=folder, arrays or features"
        )
    else:
        examples = picture_features(fit.cohort, pictures)
    if examples.names != features.names:
        raise UsageError(
            f"the fit images have other features: {examples.names} and {features.names}"
        )
    if len(examples.values) < 2:
        raise UsageError(f"{name} is fitted on at least 2 images, got {len(examples.values)}")
    if name == "image-mahalanobis":
        return mahalanobis(features.values, examples.values)
    whole("neighbours", neighbours, 1, 2**31)
    fit_row = np.full(cohort.n_images, -1, np.int64)  # an image is not its own neighbour
    if fit.same_cohort:
        fit_row[fit.rows] = np.arange(len(fit.rows))
    return nearest(features.values, examples.values, neighbours, fit_row)
