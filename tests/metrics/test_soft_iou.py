"""Soft instance IoU of arrays: objects, masks, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.data.maps import Sample
from calipers.errors import InputError, UsageError
from calipers.evaluation.protocol import Protocol
from calipers.maps.evaluate import evaluate_maps
from calipers.metrics.soft_iou import soft_instance_iou, soft_instance_ious
from reference import voxels as slow

LABELS = np.array([[1, 1, 0, 0], [0, 0, 0, 3], [0, 0, 3, 3]])


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
def test_a_perfect_prediction_scores_one(alpha: float) -> None:
    assert soft_instance_iou(LABELS > 0, LABELS, alpha) == pytest.approx(1.0, abs=1e-12)
    assert soft_instance_iou(LABELS > 0, LABELS, alpha, "jaccard") == pytest.approx(1.0, abs=1e-12)
    assert soft_instance_iou(LABELS > 0, LABELS, alpha, "printed") == pytest.approx(
        alpha / (1.5 - alpha), abs=1e-12
    )


def test_every_object_is_judged_on_itself_and_the_background() -> None:
    scores = np.where(LABELS == 1, 0.5, np.where(LABELS == 3, 1.0, 0.25))  # 7 voxels of background
    found = soft_instance_ious(scores, LABELS)
    expected = [slow.soft_iou(scores, LABELS, k, 0.5, "tversky") for k in (1, 3)]
    assert found == pytest.approx(expected, abs=1e-15)
    assert found[1] == pytest.approx(
        (3 + 1e-5) / (0.5 * (3 + 7 * 0.25) + 0.5 * 3 + 1e-5), abs=1e-15
    )
    assert soft_instance_iou(scores, LABELS) == pytest.approx(np.mean(expected), abs=1e-15)


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int64])
def test_a_mask_is_split_into_components_across_corners(kind: type) -> None:
    mask = np.zeros((4, 5), kind)
    mask[0, 0] = mask[1, 1] = mask[3, 4] = 1
    assert len(soft_instance_ious(mask, mask)) == 2
    volume = np.zeros((3, 3, 3), kind)
    volume[0, 0, 0] = volume[1, 1, 1] = 1
    assert len(soft_instance_ious(volume, volume)) == 1


def test_the_caller_may_say_what_the_numbers_are() -> None:
    mask = np.array([[1, 0, 1]])
    assert len(soft_instance_ious(mask, mask)) == 2
    assert len(soft_instance_ious(mask, mask, instances=True)) == 1
    assert len(soft_instance_ious(LABELS > 0, LABELS, instances=False)) == 2
    touching = np.array([[1, 2, 2]])
    assert len(soft_instance_ious(touching > 0, touching)) == 2
    assert len(soft_instance_ious(touching > 0, touching, instances=False)) == 1


def test_numbers_of_objects_may_be_whole_floats() -> None:
    scores = np.random.default_rng(0).random(LABELS.shape)
    assert (
        soft_instance_ious(scores, LABELS.astype(float)).tolist()
        == soft_instance_ious(scores, LABELS).tolist()
    )


def test_labels_without_background() -> None:
    labels = np.array([[2, 2], [5, 5]])
    assert soft_instance_ious(np.array([[1.0, 1.0], [0.5, 0.0]]), labels).round(3).tolist() == [
        1.0,
        0.4,
    ]


def test_a_sample_without_objects() -> None:
    empty = np.zeros((3, 3), np.uint8)
    assert soft_instance_iou(np.zeros((3, 3)), empty) == 1.0
    assert soft_instance_iou(np.ones((3, 3)), empty) == pytest.approx(
        1e-5 / (4.5 + 1e-5), rel=1e-12
    )
    assert soft_instance_ious(np.ones((3, 3)), empty).tolist() == []


@given(st.integers(0, 10**6), st.permutations([0, 1, 2]), st.integers(0, 2))
def test_axes_flips_and_names_change_nothing(seed: int, order: list[int], axis: int) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = rng.random((3, 4, 5)), rng.choice([0, 0, 2, 7], (3, 4, 5))
    expected = pytest.approx(soft_instance_iou(scores, labels, 0.3), abs=1e-12)
    turned = [np.flip(array.transpose(order), axis) for array in (scores, labels)]
    assert soft_instance_iou(turned[0], turned[1], 0.3) == expected
    assert (
        soft_instance_iou(scores, np.choose(np.searchsorted([0, 2, 7], labels), [0, 9, 4]), 0.3)
        == expected
    )


@pytest.mark.parametrize(
    ("prediction", "labels", "rule", "said"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2), int), "shape-mismatch", r"\(2, 3\) and \(3, 2\)"),
        (np.zeros((1, 2, 3)), np.zeros((2, 3), int), "shape-mismatch", "one shape"),
        (np.zeros(4), np.zeros(4, int), "map-shape", "2 or 3 axes"),
        (
            np.array([[0.0, np.nan], [np.inf, 0.0]]),
            np.zeros((2, 2), int),
            "non-finite",
            r"\[0, 1\].*2 of 4 NaN",
        ),
        (
            np.array([[0.0, 0.5], [1.5, 0.0]]),
            np.zeros((2, 2), int),
            "score-range",
            "prediction: .*got '0 to 1.5'",
        ),
        (np.array([[0.0, -0.5]]), np.zeros((1, 2), int), "score-range", "got '-0.5 to 0'"),
        (np.array([["a"]]), np.zeros((1, 1), int), "volume-dtype", "prediction: expected a number"),
        (
            np.zeros((1, 2)),
            np.array([[0.0, 0.5]]),
            "mask-values",
            "labels: expected whole numbers, got '0.5'",
        ),
        (np.zeros((1, 2)), np.array([[0, -3]]), "mask-values", "labels: .*got '-3, 0'"),
        (np.zeros((1, 1), complex), np.zeros((1, 1), int), "volume-dtype", "complex"),
    ],
)
def test_what_is_refused(prediction: np.ndarray, labels: np.ndarray, rule: str, said: str) -> None:
    for function in (soft_instance_iou, soft_instance_ious):
        with pytest.raises(InputError, match=said) as caught:
            function(prediction, labels)
        assert caught.value.rule == rule


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"variant": "jacard"}, "did you mean 'jaccard'"),
        ({"alpha": 1.1}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
    ],
)
def test_options_that_do_not_exist(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        soft_instance_iou(np.zeros((2, 2)), np.zeros((2, 2), int), **options)


def graded_protocol() -> Protocol:
    blocks = []
    for name, more in (("strict", ""), ("graded", 'empty = "graded"'), ("a", 'empty = "graded"')):
        alpha = "alpha = 0.2" if name == "a" else ""
        blocks.append(f'[[metric]]\nname = "{name}"\nkind = "soft-instance-iou"\n{more}\n{alpha}')
    head = 'schema = "calipers.protocol/1"\nname = "soft"\nsource = "a test"\n'
    return Protocol.from_toml(head + "\n".join(blocks))


def test_samples_without_objects_can_be_graded_against_the_mean_object() -> None:
    """Objects of 4 and 6 voxels: e is 5 voxels in samples without any, and 1e-5 elsewhere."""
    labels = np.zeros((8, 8), np.uint8)
    labels[1:3, 1:3] = labels[5:8, 5:7] = 1
    called = np.where(labels, 0.5, 0).astype(np.float32)
    faint = np.zeros((8, 8), np.float32)
    faint[0, :4] = 0.25
    empty = np.zeros_like(faint)
    samples = [
        Sample("with", labels, {"m": called}),
        Sample("faint", np.zeros_like(labels), {"m": faint}),
        Sample("empty", np.zeros_like(labels), {"m": empty}),
    ]
    found = evaluate_maps(samples, graded_protocol(), ci=False)
    own = soft_instance_iou(called, labels)
    assert float(found["graded"]) == pytest.approx((own + 5 / (5 + 0.5 * 1) + 1) / 3, abs=1e-12)
    assert float(found["strict"]) == pytest.approx((own + 1e-5 / (0.5 + 1e-5) + 1) / 3, abs=1e-12)
    lenient = soft_instance_iou(called, labels, 0.2)
    assert float(found["a"]) == pytest.approx((lenient + 5 / (5 + 0.2) + 1) / 3, abs=1e-12)


def test_without_any_object_graded_is_strict() -> None:
    labels, faint = np.zeros((4, 4), np.uint8), np.full((4, 4), 0.1, np.float32)
    found = evaluate_maps([Sample("one", labels, {"m": faint})], graded_protocol(), ci=False)
    assert float(found["graded"]) == float(found["strict"])


def test_another_word_for_empty_is_refused() -> None:
    text = graded_protocol().to_toml().replace("graded", "soft", 2)
    with pytest.raises(UsageError, match="empty is one of strict, graded"):
        evaluate_maps([], Protocol.from_toml(text.replace('name = "soft"', 'name = "graded"')))
