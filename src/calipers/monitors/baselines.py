# SPDX-License-Identifier: Apache-2.0
"""Baseline monitors that need only the predictions or the pictures, to compare others with.

In comes a cohort; out goes one number per image, high for an alarm (`baseline`). Users call it as
`calipers.baseline`, and the ``monitor`` command by name (`BASELINES`):

- alarms from the scores and the number of predictions: `max_score`, `mean_score`, `score_entropy`,
  `count`;
- how usual the predicted boxes are, their size, shape and place under a normal distribution:
  `box_likelihood`;
- how far simple features of the picture (brightness, contrast, sharpness, histogram, colour) are
  from those of the fit images: `mahalanobis` and `nearest`, on `picture_features`.

The covariance of features is shrunk after Ledoit and Wolf (2004); see `Normal`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Array
from calipers.data.cohort import Cohort
from calipers.data.objects import Objects, Predictions
from calipers.engine.ordered_map import WorkerDied, in_order
from calipers.errors import InputError, UsageError, did_you_mean, one_of, real, shown, whole
from calipers.io.source import list_files
from calipers.matching.deadly_images import deadly_image
from calipers.monitors.scope import array_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

# the least scale of a feature: one that is constant on the fit images still counts where it differs
FINEST = 1e-3
LEAST_SHRINKAGE = 1e-3  # keeps the covariance of features that depend on each other invertible
AT_ONCE = 1 << 22  # distances that are held together

HINT = "its file may be damaged, or the memory too small: try fewer --jobs; --lenient sets it aside"
AHEAD = 4  # pictures per worker that wait or are under way

Picture = Array | str | PathLike[str]
Progress = Callable[[int, int], None]  # (pictures done, pictures in all)
# Of the grey values; the outer ones spare the extremes, which are noise.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BINS = 64
FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP")
# pixels; larger pictures are reduced, which costs less and makes sharpness comparable
LARGEST_SIDE = 512
LEAST_ENERGY = 1e-8  # of gradients: the log of a picture of one value is finite
NAMES = (
    "mean",
    "sd",
    *(f"q{round(100 * share)}" for share in QUANTILES),
    "log-gradient",
    "log-laplacian",
    "entropy",
    "red",
    "blue",
)

Empty = Literal["alarm", "calm"]

Source = Literal["references", "predictions"]
Over = Literal["worst", "mean"]

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
# `count` may be fitted, but need not.
NEEDS_FIT = frozenset({"box-likelihood", "image-mahalanobis", "image-knn"})
NEEDS_PICTURES = frozenset({"image-mahalanobis", "image-knn"})


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


@dataclass(frozen=True)
class FitImages:
    """The images that a baseline is fitted on."""

    cohort: Cohort
    rows: I64  # images of `cohort`
    same_cohort: bool  # whether these are images of the cohort that is judged


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


def max_score(predictions: Predictions, empty: Empty) -> F64:
    """Return 1 - the highest score of every image.

    Notes
    -----
    An image without predictions gets 1, as if its highest score were 0, or 0 if it is ``calm``.
    Where scores leave [0, 1] it gets 1 more than the highest, or 1 less than the lowest alarm of
    the others.
    """
    # Scores may be negative if they are raw, so the maximum starts below all of them.
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
    # Logs make size and shape additive, and closer to normal than lengths are.
    sides = np.log((high - low) / scale)
    centre = (low + high) / 2.0 / scale
    return np.hstack([sides.mean(axis=1, keepdims=True), sides[:, :1] - sides[:, 1:], centre])


@dataclass(frozen=True)
class Normal:
    """A normal distribution with a shrunken covariance.

    Notes
    -----
    Features are centred and divided by their standard deviations (ddof 0) on the fit rows, at least
    by 0.001. Their covariance S (ddof 0) is drawn towards ``m I``, m the mean of its diagonal, with
    the weight of Ledoit and Wolf (2004), at least 0.001; where m is 0 it is I. So it can always be
    inverted.
    """

    mean: F64  # (d,)
    scale: F64  # (d,)
    root: F64  # (d, d) lower triangle; root @ root.T is the covariance of scaled features

    @classmethod
    def fitted(cls, rows: F64) -> Normal:
        """Return the distribution of (n, d) rows, n at least 1."""
        mean, scale = rows.mean(axis=0), scale_of(rows)
        scaled = (rows - mean) / scale
        covariance = scaled.T @ scaled / len(rows)
        level = float(np.trace(covariance)) / len(covariance)
        weight = shrinkage_of(scaled)
        # Constant features have no variance: the identity keeps the matrix invertible.
        target = np.eye(len(covariance)) * (level if level > 0.0 else 1.0)
        return cls(mean, scale, np.linalg.cholesky((1.0 - weight) * covariance + weight * target))

    def distances(self, rows: F64) -> F64:
        """Return the (n,) Mahalanobis distances of rows from the mean."""
        return np.asarray(np.sqrt((self._white(rows) ** 2).sum(axis=0)))

    def log_density(self, rows: F64) -> F64:
        """Return the (n,) natural logs of the density of rows, in the units of the features."""
        volume = np.log(np.diag(self.root)).sum() + np.log(self.scale).sum()
        constant = 0.5 * len(self.mean) * np.log(2.0 * np.pi)
        return np.asarray(-0.5 * (self._white(rows) ** 2).sum(axis=0) - volume - constant)

    def _white(self, rows: F64) -> F64:
        from scipy.linalg import solve_triangular

        return np.asarray(
            solve_triangular(self.root, ((rows - self.mean) / self.scale).T, lower=True)
        )


def scale_of(rows: F64) -> F64:
    """Return the (d,) standard deviations (ddof 0) of features, at least 0.001."""
    return np.asarray(np.maximum(rows.std(axis=0), FINEST))


def shrinkage_of(centred: F64) -> float:
    """Return the weight of Ledoit and Wolf (2004) for (n, d) centred rows, between 0.001 and 1; 1
    for one row.
    """
    n, d = centred.shape
    if n < 2:
        return 1.0
    covariance = centred.T @ centred / n
    level = np.trace(covariance) / d
    spread = float(((covariance - level * np.eye(d)) ** 2).sum())
    if spread <= 0.0:
        return 1.0
    # Mean squared distance of x x' from S, over n.
    noise = float(((centred**2).sum(axis=1) ** 2).mean() - (covariance**2).sum()) / n
    return float(np.clip(noise / spread, LEAST_SHRINKAGE, 1.0))


def mahalanobis(rows: F64, fit: F64) -> F64:
    """Return the (n,) Mahalanobis distances of rows from the fit rows."""
    return Normal.fitted(fit).distances(rows)


def nearest(rows: F64, fit: F64, neighbours: int, fit_row: I64) -> F64:
    """Return the (n,) Euclidean distances of scaled rows to their k-th nearest fit row.

    Parameters
    ----------
    fit_row
        (n,) the fit row of the same image, -1 = none: an image is not its own neighbour.

    Notes
    -----
    Features are divided by `scale_of` the fit rows. If there are fewer than k neighbours the
    farthest counts. At least two fit rows are needed.
    """
    from scipy.spatial.distance import cdist

    scale = scale_of(fit)
    rows, fit = rows / scale, fit / scale
    distances = np.empty(len(rows))
    step = max(1, AT_ONCE // len(fit))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        table = np.asarray(cdist(rows[part], fit))
        mine = np.flatnonzero(fit_row[part] >= 0)
        # A fit image would else be its own nearest neighbour, at distance 0.
        table[mine, fit_row[part][mine]] = np.inf
        others = len(fit) - (fit_row[part] >= 0)
        kth = np.minimum(neighbours, others) - 1
        # Only the k-th is needed: a partition is cheaper than a sort.
        distances[part] = np.partition(table, np.unique(kth), axis=1)[np.arange(len(table)), kth]
    return distances


@dataclass(frozen=True, eq=False)
class Features:
    """Numbers that describe every image: those of `picture_features`, or your own, such as
    embeddings.
    """

    names: tuple[str, ...]
    values: F64  # (n, d), finite

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.names) or not self.names:
            raise UsageError(
                f"features are a row per image, a column per name; got shape {self.values.shape}"
            )
        if not np.isfinite(self.values).all():
            row = int(np.flatnonzero(~np.isfinite(self.values).all(axis=1))[0])
            raise InputError("finite features", rule="non-finite", location=f"features[{row}]")

    def take(self, rows: I64) -> Features:
        """Return the features of some images."""
        return Features(self.names, self.values[rows])


Pictures = str | PathLike[str] | Mapping[str, Picture] | Sequence[Picture] | Array | Features


def picture_features(
    cohort: Cohort,
    images: Pictures,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Features:
    """Return the features of the picture of every image of a cohort.

    Parameters
    ----------
    images
        A folder, in which a picture is found by ``file_name`` or id, as a path, a name, or a name
        without extension; id -> array or file; or one array or file per image. `Features` are
        returned as they are.
    jobs
        Threads that decode pictures; the features do not depend on it.
    executor
        Where they are decoded instead: `calipers.engine.processes.Processes`, or the executor of a
        cluster; ``jobs`` then says how many it works on at a time.
    progress
        Called with (pictures done, pictures in all).

    Raises
    ------
    InputError
        An image without a picture, with several, or with pixels that are no numbers; the message
        names it.

    Notes
    -----
    Whole numbers are divided by the largest of their type. A picture with a side of more than 512
    pixels is reduced to the means of blocks of k pixels along every axis, k the least whole number
    that brings its longest side to 512 or below; what is left over at the far edges is left out.
    Grey is the mean of the channels. ``log-gradient`` is the log of the mean squared difference of
    neighbours, summed over the axes; ``log-laplacian`` the log of the variance of the sum of second
    differences; both with 1e-8 added. ``entropy`` is that of a histogram of 64 bins, in bits,
    between 0 and 1 if all values lie there, else between the lowest and the highest. ``red`` and
    ``blue`` are the means of these channels minus that of grey, 0 for grey pictures. A picture of
    one value has entropy and ``sd`` 0.
    """
    if isinstance(images, Features):
        if len(images.values) != cohort.n_images:
            raise UsageError(
                f"features of {len(images.values)} images, the cohort has {cohort.n_images}"
            )
        return images
    rows = []
    tasks = _pictures(cohort, images)
    try:
        for row in in_order(_features, tasks, workers=jobs, executor=executor, ahead=AHEAD * jobs):
            rows.append(row)
            if progress is not None:
                progress(len(rows), cohort.n_images)
    except WorkerDied as error:
        image = cohort.images.ids[error.item]
        raise deadly_image("a picture that can be read", image, error.how, HINT) from None
    return Features(NAMES, np.array(rows, np.float64).reshape(-1, len(NAMES)))


def sampled_features(cohort: Cohort, images: Pictures, n: int) -> tuple[Features, float]:
    """Return features of n pictures, repeated for all images, and the time of the processor that
    all pictures would take: for the plan of a run.
    """
    tasks = list(_pictures(cohort, images))
    tried = np.unique(np.linspace(0, len(tasks) - 1, n).astype(np.int64)).tolist()
    _features(tasks[tried[0]])  # the first one loads modules
    start = time.process_time()
    rows = np.array([_features(tasks[k]) for k in tried])
    seconds = (time.process_time() - start) * len(tasks) / len(tried)
    return Features(NAMES, rows[np.arange(len(tasks)) % len(tried)]), seconds


def _features(task: tuple[str, Picture]) -> F64:
    name, picture = task
    return features_of(picture, name)


def features_of(picture: Picture, name: str = "picture") -> F64:
    """Return the features of one picture: ``(y, x)``, ``(y, x, 3)`` in colour, or a volume ``(z, y,
    x)``.
    """
    array = _opened(picture) if isinstance(picture, str | PathLike) else np.asarray(picture)
    file = fspath(picture) if isinstance(picture, str | PathLike) else "<arrays>"
    if array.dtype.kind not in "biuf" or array.ndim not in (2, 3) or not array.size:
        value = f"{array.dtype} of shape {array.shape}"
        raise InputError(
            "a picture of numbers", rule="picture-format", file=file, field=name, value=value
        )
    coloured = array.ndim == 3 and array.shape[-1] == 3
    values = _scaled(array, array.ndim - int(coloured))
    if not np.isfinite(values).all():
        raise InputError("pixels that are finite", rule="non-finite", file=file, field=name)
    grey = values.mean(axis=2) if coloured else values
    channels = values.mean(axis=(0, 1))[[0, 2]] - grey.mean() if coloured else np.zeros(2)
    sharpness = np.log(np.array([_gradient(grey), float(_laplacian(grey).var())]) + LEAST_ENERGY)
    spread = [grey.mean(), grey.std(), *np.quantile(grey, QUANTILES)]
    return np.concatenate([spread, sharpness, [_entropy(grey)], channels])


def _scaled(array: Array, axes: int) -> F64:
    """Return a picture in floats, whole numbers divided by the largest of their type, reduced if it
    is large.
    """
    unit = float(np.iinfo(array.dtype).max) if array.dtype.kind in "iu" else 1.0
    step = -(-max(array.shape[:axes]) // LARGEST_SIDE)
    if step > 1:
        # Whole numbers are added up exactly, so that the means do not depend on the order.
        exact = np.int64 if array.dtype.kind in "biu" else np.float64
        for axis in range(axes):
            across = min(step, array.shape[axis])
            n = array.shape[axis] // across
            whole = array[(slice(None),) * axis + (slice(n * across),)]
            blocks = whole.reshape(*whole.shape[:axis], n, across, *whole.shape[axis + 1 :])
            array = blocks.sum(axis=axis + 1, dtype=exact)
            unit *= across
    return array.astype(np.float64) / unit


def _gradient(grey: F64) -> float:
    steps = [np.diff(grey, axis=axis) for axis in range(grey.ndim)]
    return float(sum((step**2).mean() for step in steps if step.size))


def _laplacian(grey: F64) -> F64:
    """Return the sum of second differences; the picture goes on beyond its edges as it is there."""
    padded = np.pad(grey, 1, mode="edge")
    inner = tuple(slice(1, -1) for _ in range(grey.ndim))
    total = np.zeros(grey.shape)
    for axis in range(grey.ndim):
        total += (np.roll(padded, 1, axis) + np.roll(padded, -1, axis))[inner] - 2.0 * grey
    return total


def _entropy(grey: F64) -> float:
    low, high = float(grey.min()), float(grey.max())
    within = (0.0, 1.0) if low >= 0.0 and high <= 1.0 else (low, high)
    share = np.histogram(grey, BINS, within)[0] / grey.size
    share = share[share > 0]
    return float(-(share * np.log2(share)).sum())


def _opened(path: str | PathLike[str]) -> Array:
    """Return the pixels of a file; of pictures in colour all three channels."""
    from calipers.io.volumes.open import open_volume
    from calipers.io.volumes.volume import guarded

    volume = open_volume(path, role="image")  # the limits hold before anything is decoded
    if volume.format.upper() not in FORMATS or volume.dimensions != 2:
        return volume.read()
    from PIL import Image

    with guarded(volume.file), Image.open(Path(path), formats=FORMATS) as image:
        if image.mode in ("RGB", "RGBA", "P", "CMYK", "YCbCr"):
            return np.asarray(image.convert("RGB"))
    return volume.read()


def _pictures(cohort: Cohort, images: Any) -> Iterator[tuple[str, Picture]]:
    """Yield the id and the picture of every image."""
    ids = cohort.images.ids
    if isinstance(images, str | PathLike):
        yield from zip(ids, _picture_files(cohort, Path(fspath(images))))
    elif isinstance(images, Mapping):
        for name in ids:
            if name not in images:
                hint = did_you_mean(name, list(map(str, images))[:1000])[:300]
                raise InputError(
                    "a picture of every image", rule="no-picture", value=name, hint=hint
                )
            yield name, images[name]
    else:
        if not hasattr(images, "__len__") or getattr(images, "shape", None) == ():
            raise UsageError(f"pictures are a folder, arrays or files, not {shown(images)}")
        if len(images) != len(ids):
            raise UsageError(
                f"one picture per image: {len(images)} pictures, the cohort has {len(ids)} images"
            )
        yield from ((name, images[k]) for k, name in enumerate(ids))


def _picture_files(cohort: Cohort, folder: Path) -> Iterator[str]:
    """Yield the file of every image; raise where a name fits several files."""
    files = list_files(folder, holds="pictures").files
    file_names = cohort.images.groups.get("file_name")
    by_base, by_stem = _unique(files, _base), _unique(files, _stem)
    for k, image in enumerate(cohort.images.ids):
        names = [image]
        if file_names is not None and file_names[k]:
            names.insert(0, str(file_names[k]))
        # In this order: the whole path, then the name, then the name without its extension.
        keys: list[tuple[Mapping[str, str], str]] = []
        for name in names:
            base = _base(name)
            keys += [(files, name), (by_base, base), (by_stem, base)]
        path = next((table[key] for table, key in keys if table.get(key)), None)
        if path is None:
            hint = "a file is found by the column file_name or by the id"
            if any(key in table for table, key in keys):
                hint = "its name fits several files"
            raise InputError(
                "a picture of every image",
                rule="no-picture",
                file=str(folder),
                value=image,
                hint=hint,
            )
        yield path


def _base(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]


def _stem(name: str) -> str:
    from calipers.io.volumes.open import stem_of

    base = _base(name)
    return stem_of(base) or base


def _unique(files: Mapping[str, str], key: Any) -> dict[str, str]:
    """Return name -> file, and an empty text where a name stands for several."""
    times = Counter(map(key, files))
    table = {}
    for name, path in files.items():
        short = key(name)
        table[short] = path if times[short] == 1 else ""
    return table
