"""NMS, soft-NMS, non-maximum weighted and weighted boxes fusion equal those of ensemble-boxes
1.0.9, where that is right.

Boxes are normalised, because ensemble-boxes clips everything else, and scores differ, because it
breaks ties at random. Tolerance: 1e-6, as it averages in float32. What it gets wrong has tests of
its own: soft-NMS returns the scores from before the decay, several boxes of a heavy model give
scores above 1, and boxes in pixels are clipped until nothing is left of them.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import numpy as np
import pytest

import calipers as cal
from fusion_peer import load_ensemble_boxes
from kernel_routes import native_by_default
from seeds import looped

# The peer takes most of the time, and `kernels/test_fusion.py` holds both routes to the same bits.
pytestmark = native_by_default

peer = load_ensemble_boxes()
Lists = tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]
TOLERANCE = 1e-6
SEEDS = range(100)


def members(seed: int, dimensions: int = 2, n_models: int = 4) -> Lists:
    """Return boxes, scores and labels of models that saw the same objects."""
    random = np.random.default_rng(seed)
    low = random.random((8, dimensions)) * 0.6
    objects = np.concatenate([low, low + 0.1 + random.random((8, dimensions)) * 0.25], axis=1)
    boxes, scores, labels = [], [], []
    for _ in range(n_models):
        n = int(random.integers(0, 14))
        own = objects[random.integers(0, 8, n)] + random.normal(0, 0.02, (n, 2 * dimensions))
        own = np.clip(own, 0, 1)
        half = own.shape[1] // 2
        own[:, half:] = np.maximum(own[:, half:], own[:, :half] + 0.01).clip(0, 1)
        boxes.append(own)
        scores.append(random.random(n))
        labels.append(random.integers(0, 2, n))
    return boxes, scores, labels


def copies(lists: Lists) -> Lists:
    """Return lists that the peer may write to."""
    return tuple([array.copy() for array in arrays] for arrays in lists)  # type: ignore[return-value]


def answer_of_peer(function: Any, lists: Lists, **options: Any) -> tuple[np.ndarray, ...]:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return tuple(function(*copies(lists), **options))


def assert_equal(ours: tuple[np.ndarray, ...], theirs: tuple[np.ndarray, ...]) -> None:
    """Compare answers as sets of boxes: the order of scores cut off at 1 means nothing."""
    assert len(ours[1]) == len(theirs[1])
    orders = [np.lexsort((answer[0][:, 2], answer[0][:, 0])) for answer in (ours, theirs)]
    for own, other in zip(ours[:2], theirs[:2]):
        np.testing.assert_allclose(own[orders[0]], other[orders[1]], atol=TOLERANCE, rtol=0)
    np.testing.assert_array_equal(ours[2][orders[0]], theirs[2][orders[1]])
    assert (np.diff(ours[1]) <= 0).all()


@looped("seed", SEEDS)
def test_nms(seed: int) -> None:
    lists = members(seed)
    if sum(map(len, lists[0])):
        assert_equal(
            cal.nms(*lists, iou_threshold=0.4), answer_of_peer(peer.nms, lists, iou_thr=0.4)
        )


@looped("seed", range(20))
def test_nms_with_weights_up_to_the_scale_of_scores(seed: int) -> None:
    """We divide by the largest weight, they by the sum: with equal weights ours are the scores."""
    lists, weights = members(seed), [1.0, 3.0, 2.0, 0.5]
    boxes, scores, labels = answer_of_peer(peer.nms, lists, iou_thr=0.4, weights=weights)
    ours = cal.nms(*lists, iou_threshold=0.4, weights=weights)
    assert_equal(ours, (boxes, scores * sum(weights) / max(weights), labels))


@looped("seed", SEEDS)
@pytest.mark.parametrize(
    "confidence", ["avg", "max", "box_and_model_avg", "absent_model_aware_avg"]
)
def test_weighted_boxes_fusion(seed: int, confidence: Any) -> None:
    lists, weights = members(seed), [1.0, 3.0, 2.0, 0.5] if seed % 2 else None
    boxes, scores, labels = answer_of_peer(
        peer.weighted_boxes_fusion,
        lists,
        weights=weights,
        iou_thr=0.5,
        skip_box_thr=0.1,
        conf_type=confidence,
    )
    ours = cal.weighted_boxes_fusion(
        *lists, weights=weights, skip_threshold=0.1, confidence=confidence
    )
    assert_equal(ours, (boxes, np.minimum(scores, 1.0), labels))


@looped("seed", SEEDS)
def test_weighted_boxes_fusion_that_may_overflow(seed: int) -> None:
    lists, weights = members(seed), [1.0, 3.0, 2.0, 0.5]
    theirs = answer_of_peer(
        peer.weighted_boxes_fusion, lists, weights=weights, iou_thr=0.5, allows_overflow=True
    )
    assert_equal(cal.weighted_boxes_fusion(*lists, weights=weights, overflow=True), theirs)


@looped("seed", SEEDS)
def test_weighted_boxes_fusion_of_volumes(seed: int) -> None:
    """With equal weights; with others its 3D form counts boxes up to the sum of weights, its 2D
    form up to the number of models.
    """
    lists = members(seed, dimensions=3)
    theirs = answer_of_peer(peer.weighted_boxes_fusion_3d, lists, iou_thr=0.3, skip_box_thr=0.1)
    ours = cal.weighted_boxes_fusion(*lists, iou_threshold=0.3, skip_threshold=0.1)
    if len(theirs[1]) or len(ours[1]):
        assert_equal(ours, theirs)


@looped("seed", SEEDS)
def test_non_maximum_weighted(seed: int) -> None:
    lists, weights = members(seed), [1.0, 3.0, 2.0, 0.5] if seed % 2 else None
    theirs = answer_of_peer(
        peer.non_maximum_weighted, lists, weights=weights, iou_thr=0.4, skip_box_thr=0.1
    )
    assert_equal(
        cal.non_maximum_weighted(*lists, weights=weights, iou_threshold=0.4, skip_threshold=0.1),
        theirs,
    )


@pytest.mark.parametrize(("method", "code"), [("linear", 1), ("gaussian", 2)])
@looped("seed", SEEDS)
def test_soft_nms_keeps_the_same_boxes(seed: int, method: Any, code: int) -> None:
    """And it gives their scores from before the decay, so only ours say who suffered."""
    lists = members(seed)
    if not sum(map(len, lists[0])):
        return
    theirs = answer_of_peer(peer.soft_nms, lists, method=code, iou_thr=0.3, sigma=0.1, thresh=0.2)
    ours = cal.soft_nms(*lists, method=method, iou_threshold=0.3, sigma=0.1, skip_threshold=0.2)
    by_place = np.lexsort(ours[0].T), np.lexsort(theirs[0].T)
    np.testing.assert_allclose(ours[0][by_place[0]], theirs[0][by_place[1]], atol=TOLERANCE, rtol=0)
    assert (ours[1][by_place[0]] <= theirs[1][by_place[1]] + TOLERANCE).all()


def test_its_soft_nms_returns_scores_that_did_not_decay() -> None:
    lists: Lists = (
        [np.array([[0.1, 0.1, 0.5, 0.5]]), np.array([[0.1, 0.1, 0.5, 0.48]])],
        [np.array([0.9]), np.array([0.8])],
        [np.array([0]), np.array([0])],
    )
    assert answer_of_peer(peer.soft_nms, lists, method=2)[1].tolist() == [0.9, 0.8]
    scores = cal.soft_nms(*lists)[1]
    assert scores[0] == 0.9
    np.testing.assert_allclose(scores[1], 0.8 * np.exp(-(0.95**2) / 0.5))


def test_several_boxes_of_a_heavy_model_lift_its_scores_above_1() -> None:
    box = np.array([[0.1, 0.1, 0.5, 0.5]] * 2)
    lists: Lists = ([box, box[:0]], [np.array([0.9, 0.9]), np.zeros(0)], [np.zeros(2), np.zeros(0)])
    theirs = answer_of_peer(peer.weighted_boxes_fusion, lists, weights=[3.0, 1.0])
    np.testing.assert_allclose(theirs[1], 1.35, rtol=1e-6)
    assert cal.weighted_boxes_fusion(*lists, weights=[3.0, 1.0])[1].tolist() == [1.0]


def test_boxes_in_pixels_are_fused_where_it_clips_them_away() -> None:
    pixels = [np.array([[20.0, 20, 60, 60]]), np.array([[22.0, 20, 60, 60]])]
    lists: Lists = (pixels, [np.array([0.9]), np.array([0.7])], [np.zeros(1), np.zeros(1)])
    assert len(answer_of_peer(peer.weighted_boxes_fusion, lists)[0]) == 0
    fused = cal.weighted_boxes_fusion(*lists)[0]
    normalised = cal.weighted_boxes_fusion([own / 100 for own in pixels], *lists[1:])[0]
    np.testing.assert_allclose(fused, normalised * 100, rtol=1e-12)
