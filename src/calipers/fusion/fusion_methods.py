# SPDX-License-Identifier: Apache-2.0
"""The methods of fusion on the boxes of one image: lists with one array per model come in, three
arrays go out.

`nms`, `soft_nms`, `non_maximum_weighted` and `weighted_boxes_fusion` are public. They check their
arguments, make a `BoxPool` of the boxes of every model and call a kernel of
`calipers.kernels.boxes`; `calipers.fusion.fuse` does the same with all images of a cohort.

Boxes are corners, ``x0 y0 x1 y1`` or ``x0 y0 z0 x1 y1 z1``, in pixels, millimetres or fractions of
the image: nothing is clipped. Scores lie in [0, 1]. Labels are whole numbers; boxes of different
labels never meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from calipers.arguments import names_arguments
from calipers.arrays import F64, I64, Array, Flags, host_array
from calipers.data.objects import LARGEST, box_extent, row_all, row_any
from calipers.errors import InputError, UsageError, finite, flag, one_of, real, several
from calipers.kernels import boxes as kernels
from calipers.kernels import ragged
from calipers.kernels.boxes import BoxPool

Confidence = Literal["avg", "max", "box_and_model_avg", "absent_model_aware_avg"]
Decay = Literal["gaussian", "linear"]
CONFIDENCES: tuple[str, ...] = get_args(Confidence)
DECAYS: tuple[str, ...] = get_args(Decay)
LARGEST_LABEL = 2**53  # up to which a float holds every whole number
ARGUMENTS = ("boxes", "scores", "labels")
Fused = tuple[F64, F64, I64]


def shares_of(weights: F64) -> F64:
    """Return the weights of models over the largest of them: suppression compares scores."""
    return np.asarray(weights / weights.max())


def softly_suppressed(
    pools: Sequence[BoxPool],
    weights: F64,
    method: str,
    threshold: float,
    sigma: float,
    skip_threshold: float,
) -> BoxPool:
    """Return the boxes with the scores of soft-NMS, without those that fell to the threshold."""
    pool, model = kernels.together(pools)
    pool = replace(pool, score=pool.score * shares_of(weights)[model])
    score = kernels.decayed_scores(pool, threshold, sigma if method == "gaussian" else None)
    return replace(pool, score=score).keep(score > skip_threshold)


@names_arguments
def nms(
    boxes: Sequence[ArrayLike],
    scores: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    *,
    weights: Sequence[float] | None = None,
    iou_threshold: float = 0.5,
) -> Fused:
    """Remove every box that overlaps a better one of the same label too much.

    Parameters
    ----------
    boxes
        A list with one (n, 4) or (n, 6) array of corners per model, all on one image.
    scores
        A list with one (n,) array per model, in [0, 1].
    labels
        A list with one (n,) array of whole numbers per model.
    weights
        One number per model: scores are multiplied by it over the largest. Default: all equal.
    iou_threshold
        A box is removed if its IoU with a better one that stays is above it.

    Returns
    -------
    boxes, scores, labels
        What remains, best score first.

    Examples
    --------
    >>> import calipers as cal
    >>> boxes = [[[0, 0, 10, 10], [50, 50, 60, 60]], [[1, 0, 10, 10]]]
    >>> cal.nms(boxes, [[0.9, 0.3], [0.8]], [[0, 0], [0]])[1].tolist()
    [0.9, 0.3]
    """
    pools, names = _pools(boxes, scores, labels)
    shares = shares_of(checked_weights(weights, len(pools)))
    survivors = kernels.suppressed(pools, shares, _share("iou_threshold", iou_threshold))
    return _answer(survivors, names)


@names_arguments
def soft_nms(
    boxes: Sequence[ArrayLike],
    scores: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    *,
    weights: Sequence[float] | None = None,
    method: Decay = "gaussian",
    iou_threshold: float = 0.5,
    sigma: float = 0.5,
    skip_threshold: float = 0.001,
) -> Fused:
    """Lower the score of every box that overlaps a better one of the same label.

    Boxes, scores, labels and weights are those of `nms`.

    Parameters
    ----------
    method
        ``"gaussian"``: times ``exp(-IoU^2 / sigma)``. ``"linear"``: times ``1 - IoU`` where the IoU
        is above ``iou_threshold``.
    skip_threshold
        Boxes whose score falls to it, or below, are removed.

    Returns
    -------
    boxes, scores, labels
        With the lowered scores, best first.

    Examples
    --------
    >>> import calipers as cal
    >>> boxes = [[[0, 0, 10, 10]], [[0, 0, 10, 5]]]
    >>> cal.soft_nms(boxes, [[0.9], [0.8]], [[0], [0]], method="linear", iou_threshold=0.4)[1]
    array([0.9, 0.4])
    """
    pools, names = _pools(boxes, scores, labels)
    if not finite("sigma", sigma) > 0:
        raise UsageError(f"sigma is a number above 0, not {sigma!r}")
    lowered = softly_suppressed(
        pools,
        checked_weights(weights, len(pools)),
        one_of("method", method, DECAYS),
        _share("iou_threshold", iou_threshold),
        float(sigma),
        _share("skip_threshold", skip_threshold),
    )
    return _answer(lowered, names)


@names_arguments
def non_maximum_weighted(
    boxes: Sequence[ArrayLike],
    scores: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    *,
    weights: Sequence[float] | None = None,
    iou_threshold: float = 0.5,
    skip_threshold: float = 0.0,
) -> Fused:
    """Average every box with those that non-maximum suppression would remove for it.

    Boxes, scores, labels and weights are those of `nms`. The weight of a box in the average is its
    score times its IoU with the best box of the cluster, whose score the cluster gets.

    Parameters
    ----------
    iou_threshold
        A box joins the cluster whose best box it overlaps most, if that IoU is above it.
    skip_threshold
        Boxes with a score below it are left out.

    Notes
    -----
    H. Zhou et al., CAD: Scale Invariant Framework for Real-Time Object Detection, ICCV workshops
    2017.

    Examples
    --------
    >>> import calipers as cal
    >>> boxes = [[[0, 0, 10, 10]], [[0, 0, 10, 10]]]
    >>> cal.non_maximum_weighted(boxes, [[0.9], [0.8]], [[0], [0]])[1].tolist()
    [0.9]
    """
    pools, names = _pools(boxes, scores, labels)
    merged = kernels.merged_about_best(
        pools,
        shares_of(checked_weights(weights, len(pools))),
        _share("iou_threshold", iou_threshold),
        _share("skip_threshold", skip_threshold),
    )
    return _answer(merged, names)


@names_arguments
def weighted_boxes_fusion(
    boxes: Sequence[ArrayLike],
    scores: Sequence[ArrayLike],
    labels: Sequence[ArrayLike],
    *,
    weights: Sequence[float] | None = None,
    iou_threshold: float = 0.5,
    skip_threshold: float = 0.0,
    confidence: Confidence = "avg",
    overflow: bool = False,
) -> Fused:
    """Average the boxes of several models on one image, weighted by their scores.

    Boxes, scores and labels are those of `nms`.

    Parameters
    ----------
    weights
        One number per model, by which its scores are multiplied. Default: all 1.
    iou_threshold
        A box joins the cluster whose running average it overlaps most, if that IoU is above it.
    skip_threshold
        Boxes with a score below it are left out.
    confidence
        ``"avg"``: mean weighted score of a cluster times its boxes, counted up to the number of
        models, over the sum of weights. ``"max"``: best weighted score over the largest weight.
        ``"box_and_model_avg"`` and ``"absent_model_aware_avg"``: weighted means that also say how
        much of the weight has found the object.
    overflow
        With ``"avg"``: count every box of a cluster, also several of one model. Scores can then be
        above 1; otherwise they never are.

    Notes
    -----
    R. Solovyev, W. Wang, T. Gabruseva, Weighted boxes fusion: Ensembling boxes from different
    object detection models, Image and Vision Computing 2021. A cluster of one box is that box, and
    a cluster whose scores are all 0 stays where its first box is.

    Examples
    --------
    Six models give the same box; the fifth is below the threshold, yet it counts as a model:

    >>> import calipers as cal
    >>> scores = [[0.02], [0.5], [0.6], [0.7], [0.019], [0.9]]
    >>> answer = cal.weighted_boxes_fusion(
    ...     [[[10, 10, 30, 40]]] * 6, scores, [[0]] * 6, skip_threshold=0.02
    ... )
    >>> answer[0].round(9).tolist(), round(float(answer[1][0]), 5)
    ([[10.0, 10.0, 30.0, 40.0]], 0.45333)
    """
    pools, names = _pools(boxes, scores, labels)
    fused = kernels.fused(
        pools,
        checked_weights(weights, len(pools)),
        _share("iou_threshold", iou_threshold),
        _share("skip_threshold", skip_threshold),
        one_of("confidence", confidence, CONFIDENCES),
        flag("overflow", overflow),
    )
    return _answer(fused, names)


def checked_weights(weights: Sequence[float] | None, n_models: int) -> F64:
    """Return one weight per model: finite, none negative, and not all 0."""
    if weights is None:
        return np.ones(n_models)
    numbers = [finite("a weight", weight) for weight in several("weights", weights)]
    if len(numbers) != n_models:
        raise UsageError(f"one weight per model: {n_models} are needed, got {len(numbers)}")
    if min(numbers, default=1.0) < 0 or max(numbers, default=1.0) <= 0:
        raise UsageError(f"weights are 0 or more, and not all 0, got {numbers}")
    return np.array(numbers)


def _share(name: str, value: Any) -> float:
    number = real(name, value)
    if not 0 <= number <= 1:
        raise UsageError(f"{name} lies in [0, 1], got {value!r}")
    return number


def _pools(boxes: Any, scores: Any, labels: Any) -> tuple[list[BoxPool], I64]:
    """Return the checked boxes of every model on one image, and the labels behind their codes."""
    columns = [several(name, value) for name, value in zip(ARGUMENTS, (boxes, scores, labels))]
    n_models = len(columns[0])
    if n_models == 0 or any(len(column) != n_models for column in columns):
        raise UsageError(
            "boxes, scores and labels are lists with one array per model, of the same length, at "
            f"least 1; got {', '.join(str(len(column)) for column in columns)}"
        )
    models = [_model(k, *entries) for k, entries in enumerate(zip(*columns))]
    widths = {corners.shape[1] for corners, _, _ in models if len(corners)}
    if len(widths) > 1:
        raise InputError(
            "boxes of all models with 4 coordinates, or of all with 6",
            rule="box-shape",
            location="boxes",
            value=sorted(widths),
        )
    width = widths.pop() if widths else 4
    offsets = ragged.from_counts(np.array([len(score) for _, score, _ in models]))
    corners = np.concatenate([own.reshape(-1, width) for own, _, _ in models])
    score = np.concatenate([own for _, own, _ in models])
    label = np.concatenate([own for _, _, own in models])
    # Once for all models: calls of NumPy take longer than the work on a few boxes.
    _check_values(corners, score, label, offsets)
    names, places = np.unique(label.astype(np.int64), return_inverse=True)
    codes, extent = places.astype(np.int32), box_extent(corners)
    pools = []
    for first, last in pairwise(offsets.tolist()):
        own = slice(first, last)
        pools.append(
            BoxPool(
                np.array([0, last - first]),
                codes[own],
                corners[own],
                extent[own],
                score[own],
            )
        )
    return pools, names


def _answer(pool: BoxPool, names: I64) -> Fused:
    """Return boxes, scores and labels from the best score on."""
    ordered = kernels.best_first(pool)
    return ordered.boxes, ordered.score, names[ordered.label]


def _model(k: int, boxes: Any, scores: Any, labels: Any) -> tuple[F64, F64, F64]:
    """Return the arrays of one model; their shapes fit each other."""
    score = _column(f"scores[{k}]", scores)
    label = _column(f"labels[{k}]", labels)
    corners = _numbers(f"boxes[{k}]", boxes)
    if corners.size == 0:
        corners = np.zeros((0, 4))
    if corners.ndim != 2 or corners.shape[1] not in (4, 6):
        raise InputError(
            "(n, 4) or (n, 6) corners",
            rule="box-shape",
            location=f"boxes[{k}]",
            value=corners.shape,
        )
    for name, column in (("scores", score), ("labels", label)):
        if len(column) != len(corners):
            raise InputError(
                f"{len(corners)} entries, one per box",
                rule="length",
                location=f"{name}[{k}]",
                value=len(column),
            )
    return corners, score, label


def _check_values(corners: F64, score: F64, label: F64, offsets: I64) -> None:
    """Raise unless the arrays of all models, one below the other, hold what can be fused."""
    half = corners.shape[1] // 2
    not_finite = ~row_all(np.abs(corners) <= LARGEST[half])
    _refuse_rows("boxes", corners, not_finite, offsets, ("finite corners", "non-finite"))
    inverted = row_any(corners[:, half:] < corners[:, :half])
    rule = ("corners with the smaller coordinates first", "neg-size")
    _refuse_rows("boxes", corners, inverted, offsets, rule)
    no_score = ~((score >= 0) & (score <= 1))
    _refuse_rows("scores", score, no_score, offsets, ("scores in [0, 1]", "score-range"))
    no_label = ~(np.abs(label) <= LARGEST_LABEL) | (label != np.floor(label))
    _refuse_rows("labels", label, no_label, offsets, ("whole numbers", "label-range"))


def _refuse_rows(
    name: str, values: Array, wrong: Flags, offsets: I64, rule: tuple[str, str]
) -> None:
    """Raise if a row is wrong; the error names the first one, by its model and its place there."""
    if not wrong.any():
        return
    row = int(np.flatnonzero(wrong)[0])
    model = int(np.searchsorted(offsets, row, side="right")) - 1
    start, stop = int(offsets[model]), int(offsets[model + 1])
    raise InputError(
        rule[0],
        rule=rule[1],
        location=f"{name}[{model}][{row - start}]",
        value=values[row].tolist(),
        hint=f"{int(wrong[start:stop].sum())} of {stop - start} entries",
    )


def _column(location: str, values: Any) -> F64:
    column = _numbers(location, values)
    if column.ndim != 1:
        raise InputError("one number per box", rule="length", location=location, value=column.shape)
    return column


def _numbers(location: str, values: Any) -> F64:
    try:
        return host_array(values, np.float64)
    except ValueError as error:
        raise InputError("numbers", rule="type", location=location, value=str(error)) from None
