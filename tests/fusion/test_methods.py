"""The methods on arrays: examples worked out by hand, invariances, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calipers as cal

pytestmark = pytest.mark.usefixtures("kernel_route")

METHODS = (cal.nms, cal.soft_nms, cal.non_maximum_weighted, cal.weighted_boxes_fusion)
BOX = [10.0, 10.0, 30.0, 40.0]


def fused(scores: list[list[float]], **options: Any) -> list[float]:
    """Fuse the same box, from each model as often as it has scores."""
    boxes = [[BOX] * len(own) for own in scores]
    labels = [[0] * len(own) for own in scores]
    return cal.weighted_boxes_fusion(boxes, scores, labels, **options)[1].round(12).tolist()


def random_members(seed: int, dimensions: int = 2) -> tuple[list[Any], list[Any], list[Any]]:
    random = np.random.default_rng(seed)
    boxes, scores, labels = [], [], []
    for n in (6, 0, 9):
        low = random.random((n, dimensions)) * 10
        boxes.append(np.concatenate([low, low + 1 + random.random((n, dimensions)) * 8], axis=1))
        scores.append(random.random(n))
        labels.append(random.integers(0, 2, n) * 7 - 3)
    return boxes, scores, labels


def test_six_members_of_the_recipe_give_the_score_of_the_definition() -> None:
    scores = [[0.02], [0.5], [0.6], [0.7], [0.019], [0.9]]
    assert fused(scores, skip_threshold=0.02) == [round((0.02 + 0.5 + 0.6 + 0.7 + 0.9) / 6, 12)]
    assert fused(scores, skip_threshold=0.02)[0] == pytest.approx(0.45333, abs=5e-6)


@pytest.mark.parametrize(
    ("confidence", "score"),
    [
        # Weights 1, 2, 1; the third model is absent. Weighted scores: .8 and 1.2.
        ("avg", (0.8 + 1.2) / 2 * 2 / 4),
        ("max", 1.2 / 2),
        ("box_and_model_avg", (0.8 + 1.2) / 3 * 3 / 4),
        ("absent_model_aware_avg", (0.8 + 1.2) / (3 + 1)),
    ],
)
def test_the_four_confidences_by_hand(confidence: str, score: float) -> None:
    scores: list[list[float]] = [[0.8], [0.6], []]
    assert fused(scores, weights=[1, 2, 1], confidence=confidence) == [round(score, 12)]


def test_two_boxes_of_one_model_count_as_models_do_unless_they_may_overflow() -> None:
    assert fused([[0.9, 0.9, 0.9], []]) == [0.9]
    assert fused([[0.9, 0.9, 0.9], []], overflow=True) == [1.35]
    assert fused([[1.0, 1.0], []], weights=[3, 1]) == [1.0]


def test_the_fused_box_is_the_mean_weighted_by_score() -> None:
    boxes = [[[0, 0, 10, 10]], [[0, 0, 10, 8]]]
    answer = cal.weighted_boxes_fusion(boxes, [[0.9], [0.3]], [[0], [0]])
    np.testing.assert_allclose(answer[0], [[0, 0, 10, (0.9 * 10 + 0.3 * 8) / 1.2]])


def test_non_maximum_weighted_by_hand() -> None:
    boxes = [[[0, 0, 10, 10]], [[0, 0, 10, 8]]]
    answer = cal.non_maximum_weighted(boxes, [[0.9], [0.3]], [[0], [0]])
    weight = 0.3 * 0.8
    np.testing.assert_allclose(answer[0][0, 3], (0.9 * 10 + weight * 8) / (0.9 + weight))
    assert answer[1].tolist() == [0.9]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_unit_of_boxes_and_the_place_of_the_image_do_not_matter(
    method: Any, dimensions: int
) -> None:
    boxes, scores, labels = random_members(1, dimensions)
    plain = method(boxes, scores, labels)
    moved = method([own * 64 + 1024 for own in boxes], scores, labels)
    np.testing.assert_allclose(moved[0], plain[0] * 64 + 1024, rtol=1e-12)
    np.testing.assert_allclose(moved[1], plain[1], rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_labels_are_given_back_and_never_meet(method: Any) -> None:
    boxes, scores, labels = random_members(2)
    together = method(boxes, scores, labels)
    assert set(together[2].tolist()) <= {-3, 4}
    for label in (-3, 4):
        rows = [own == label for own in labels]
        alone = method(
            [own[k] for own, k in zip(boxes, rows)],
            [own[k] for own, k in zip(scores, rows)],
            [own[k] for own, k in zip(labels, rows)],
        )
        of_label = together[2] == label
        np.testing.assert_array_equal(together[0][of_label], alone[0])
        np.testing.assert_array_equal(together[1][of_label], alone[1])


@pytest.mark.parametrize("method", METHODS)
def test_nothing_gives_nothing_and_inputs_are_left_alone(method: Any) -> None:
    boxes, scores, labels = method([[], []], [[], []], [[], []])
    assert (boxes.shape, scores.shape, labels.shape) == ((0, 4), (0,), (0,))
    lists = random_members(3)
    before = [[own.copy() for own in arrays] for arrays in lists]
    method(*lists)
    for arrays, copies in zip(lists, before):
        for own, copy in zip(arrays, copies):
            np.testing.assert_array_equal(own, copy)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("boxes", "scores", "labels", "words"),
    [
        ([[BOX]], [[1.2]], [[0]], r"scores\[0\]\[0\].*\[0, 1\]"),
        ([[BOX]], [[float("nan")]], [[0]], r"scores\[0\]\[0\]"),
        ([[[3, 3, 1, 4]]], [[0.5]], [[0]], "smaller coordinates first"),
        ([[[3, 3, np.inf, 4]]], [[0.5]], [[0]], "finite corners"),
        ([[[1, 2, 3]]], [[0.5]], [[0]], r"\(n, 4\)"),
        ([[BOX]], [[0.5, 0.5]], [[0]], "one per box"),
        ([[BOX]], [[0.5]], [[0.5]], "whole numbers"),
        ([[BOX]], [[0.5]], [[np.inf]], "whole numbers"),
        ([[BOX], [[*BOX, 50, 50]]], [[0.5], [0.5]], [[0], [0]], "4 coordinates"),
        ([["a"]], [[0.5]], [[0]], "numbers"),
    ],
)
def test_bad_arrays_are_refused(
    method: Any, boxes: Any, scores: Any, labels: Any, words: str
) -> None:
    with pytest.raises(cal.InputError, match=words):
        method(boxes, scores, labels)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": [1, 2]}, "one weight per model"),
        ({"weights": [0]}, "not all 0"),
        ({"weights": [-1]}, "are 0 or more"),
        ({"iou_threshold": 1.5}, r"lies in \[0, 1\]"),
        ({"confidence": "mean"}, "no confidence"),
        ({"overflow": "no"}, "True or False"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(cal.UsageError, match=words):
        cal.weighted_boxes_fusion([[BOX]], [[0.5]], [[0]], **options)


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(cal.UsageError, match="one array per model"):
        cal.nms([[BOX]], [[0.5], [0.5]], [[0]])
