"""RoDeO against the twin, its options and its edge cases, and the exactness of its pieces."""

from __future__ import annotations

import math

import numpy as np
import pytest

import calipers as cal
from calipers.metrics.rodeo import RodeoRecipe, active_pieces, tally
from cases import KINDS, MODEL, cohort_of, evidence_of, metric_of, references_as_predictions
from kernel_routes import native_by_default
from random_cohorts import random_cohort
from reference.plain import things
from reference.rodeo import Scores, match
from reference.rodeo import rodeo as twin

# `parity/test_routes.py` holds every metric and every strategy to the same bits on both routes.
pytestmark = native_by_default

PARTS = ("total", "localization", "shape", "classification")
# On a coarse grid different pairings can cost exactly the same: which one is taken then depends on
# the last bit.
EQUAL_COSTS = ("integer grid", "grid and ties", "crowded images", "ignored", "volumes on a grid")


def assert_equal_twin(cohort: cal.Cohort, expected: tuple[Scores, list[Scores]], **options) -> None:
    found = cal.rodeo(cohort, MODEL, **options)
    for ours, theirs in zip((found, *found.per_class.values()), (expected[0], *expected[1])):
        for part in PARTS:
            assert getattr(ours, part) == pytest.approx(
                getattr(theirs, part), abs=1e-12, nan_ok=True
            )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in EQUAL_COSTS])
def test_rodeo_equals_the_twin(kind: str) -> None:
    for seed in range(6):
        cohort = cohort_of(kind, seed)
        assert_equal_twin(
            cohort, twin(*things(cohort, MODEL), cohort.n_images, len(cohort.classes))
        )


@pytest.mark.parametrize(
    ("options", "of_twin"),
    [
        ({"class_weight": "image"}, {"weight": "image"}),
        ({"class_weight": 0}, {"weight": 0.0}),
        ({"class_weight": 0.4}, {"weight": 0.4}),
        ({"class_weight": 2.5}, {"weight": 2.5}),
        ({"scale": 0.25}, {"scale": 0.25}),
        ({"epsilon": 1e-6}, {"epsilon": 1e-6}),
        (
            {"weight_matched": 2.0, "weight_missed": 0.5, "weight_extra": 3},
            {"penalties": (2.0, 0.5, 3.0)},
        ),
    ],
)
def test_options_equal_the_twin(options: dict, of_twin: dict) -> None:
    for kind in ("plain", "crowds", "one class", "many classes", "volumes"):
        for seed in range(3):
            cohort = cohort_of(kind, seed)
            expected = twin(*things(cohort, MODEL), cohort.n_images, len(cohort.classes), **of_twin)
            assert_equal_twin(cohort, expected, **options)


@pytest.mark.parametrize(
    "kind", ["plain", "grid and ties", "crowded images", "many classes", "volumes on a grid"]
)
def test_the_active_piece_is_the_direct_assignment_at_any_weight(kind: str) -> None:
    for seed in range(4):
        cohort = cohort_of(kind, seed, n_images=15)
        evidence = RodeoRecipe().collect(cohort, MODEL)
        references, predictions = things(cohort, MODEL)
        references = [r for r in references if not r.ignore]
        for w in (0.0, 1.0, *np.random.default_rng(seed).random(6)):
            active = active_pieces(evidence, np.array([w])).astype(np.int64)
            images = evidence.piece_image[active[0] > 0]
            assert images.tolist() == list(range(cohort.n_images))  # one piece per image
            sums = tally(evidence, active, 1.0, multiclass=False)
            pairs = match(references, predictions, [w] * cohort.n_images)
            assert sums.matched.sum() == len(pairs)
            assert sums.missed.sum() == len(references) - len(pairs)
            assert sums.extra.sum() == len(predictions) - len(pairs)
            if kind not in EQUAL_COSTS:
                assert sums.correct.sum() == sum(r.label == p.label for r, p in pairs)
                expected = twin(
                    references, predictions, cohort.n_images, len(cohort.classes), weight=w
                )
                for label, scores in enumerate(expected[1]):
                    m = sums.matched[0, label]
                    share = m / max(m + sums.missed[0, label] + sums.extra[0, label], 1)
                    if m:
                        assert sums.shape[0, label] / m * share == pytest.approx(
                            scores.shape, abs=1e-12
                        )
                        assert sums.localization[0, label] / m * share == pytest.approx(
                            scores.localization, abs=1e-12
                        )


def test_a_replicate_refits_the_class_weight_and_the_matching() -> None:
    moved = 0
    metric = metric_of("rodeo")
    for seed in range(8):
        cohort = cohort_of("crowded images", seed, n_images=10)
        evidence = evidence_of(metric, cohort)
        weights = np.random.default_rng(seed).integers(0, 4, (5, 10))
        for row, values in zip(weights, metric.value(evidence, weights)):
            again = cohort.take(np.repeat(np.arange(10), row))
            expected = metric.value(
                evidence_of(metric, again), np.ones((1, again.n_images), np.int64)
            )[0]
            np.testing.assert_allclose(values, expected, rtol=0, atol=2e-15)
        moved += len(evidence.start) > evidence.n_images
    assert moved > 4  # the test would be empty if no image had two pieces


def box_cohort(real: list, said: list, n_classes: int = 2, dimensions: int = 2) -> cal.Cohort:
    def record(rows: list) -> dict:
        return {"boxes": [row[:-1] for row in rows], "labels": [row[-1] for row in rows]}

    predictions = [{**record(rows), "scores": [1.0] * len(rows)} for rows in said]
    classes = [f"c{k}" for k in range(n_classes)]
    return cal.Cohort.from_arrays(
        [record(rows) for rows in real], {MODEL: predictions}, classes=classes
    )


A, B = [0, 0, 10, 10, 0], [50, 50, 60, 60, 1]


@pytest.mark.parametrize(("real", "said"), [([[A]], [[]]), ([[]], [[A]]), ([[A], []], [[], [A]])])
def test_boxes_on_one_side_only_give_zero(real: list, said: list) -> None:
    found = cal.rodeo(box_cohort(real, said))
    for result in (found, found.per_class["c0"]):
        assert [getattr(result, part) for part in PARTS] == [0.0] * 4
    assert math.isnan(found.per_class["c1"].total)  # nobody has this class


def test_no_box_anywhere_is_undefined() -> None:
    found = cal.rodeo(box_cohort([[], []], [[], []]))
    assert all(math.isnan(getattr(found, part)) for part in PARTS)


def test_one_declared_class_has_no_classification() -> None:
    found = cal.rodeo(box_cohort([[A]], [[[5, 0, 15, 10, 0]]], n_classes=1))
    assert math.isnan(found.classification)
    assert found.localization == pytest.approx(2**-0.25)
    assert found.shape == 1.0
    assert found.total == pytest.approx(2 / (2**0.25 + 1))


def test_a_class_that_is_wrong_everywhere_makes_the_total_zero() -> None:
    found = cal.rodeo(box_cohort([[A]], [[[0, 0, 10, 10, 1]]]))
    assert (found.total, found.localization, found.shape, found.classification) == (
        0.0,
        1.0,
        1.0,
        0.0,
    )


@pytest.mark.parametrize(
    ("summary", "expected"),
    [("harmonic", 3 / (4 + 2 + 1)), ("arithmetic", 7 / 12), ("minimum", 0.25)],
)
def test_summaries(summary: str, expected: float) -> None:
    # loc 1/4 (distance sqrt 2), shape 1/2, cls 1
    cohort = box_cohort([[A, B]], [[[10, 10, 20, 20, 0], [60, 60, 70, 70, 1]]])
    halved = box_cohort([[A, B]], [[[10, 12.5, 20, 17.5, 0], [60, 62.5, 70, 67.5, 1]]])
    assert cal.rodeo(cohort).localization == pytest.approx(0.25)
    found = cal.rodeo(halved, summary=summary)
    assert (found.localization, found.shape, found.classification) == pytest.approx(
        (0.25, 0.5, 1.0)
    )
    assert found.total == pytest.approx(expected)


def test_scale_is_the_distance_at_which_one_half_is_reached() -> None:
    for scale in (0.5, 1.0, 2.0):
        cohort = box_cohort([[A]], [[[10 * scale, 0, 10 * scale + 10, 10, 0]]])
        assert cal.rodeo(cohort, scale=scale).localization == pytest.approx(0.5)


def test_volumes_have_a_third_axis() -> None:
    cohort = box_cohort([[[0, 0, 0, 10, 10, 10, 0]]], [[[0, 0, 5, 10, 10, 10, 0]]])
    found = cal.rodeo(cohort)
    assert found.shape == pytest.approx(0.5)
    assert found.localization == pytest.approx(2 ** -(0.25**2))


def test_perfect_with_epsilon_is_above_one_and_without_is_one() -> None:
    cohort = references_as_predictions(random_cohort(5, 2, seed=0))
    assert cal.rodeo(cohort).total == 1.0
    assert cal.rodeo(cohort, epsilon=1e-6).total == pytest.approx(1.000001, abs=1e-12)


def test_score_cut_removes_predictions() -> None:
    cohort = random_cohort(10, 2, seed=0)
    said = cohort.predictions(MODEL)
    cut = cohort.with_predictions(MODEL, said.keep(said.score >= 0.5))
    assert cal.rodeo(cohort, score_cut=0.5) == cal.rodeo(cut)


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0},
        {"scale": "wide"},
        {"weight_matched": 0},
        {"weight_missed": -1},
        {"epsilon": float("nan")},
        {"multiclass": "no"},
        {"summary": "mean"},
        {"class_weight": "images"},
        {"class_weight": -0.5},
        {"class_weight": float("inf")},
        {"class_weight": True},
        {"part": "total"},
        {"scales": 1},
    ],
)
def test_impossible_options_are_refused(options: dict) -> None:
    with pytest.raises(cal.UsageError):
        cal.rodeo(random_cohort(3, 2, seed=0), **options)
