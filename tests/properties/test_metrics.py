"""What every metric must obey. A metric that is not in the table of the suite fails the suite."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calipers import registry
from calipers.data.cohort import Cohort
from calipers.data.objects import empty_predictions
from calipers.results.estimate import REASONS
from cases import KINDS, MODEL, cohort_of, evidence_of, references_as_predictions, values_of
from kernel_routes import native_by_default
from properties.suite import CASES, MAP_CASES, Case
from random_cohorts import random_cohort
from seeds import looped

# `parity/test_routes.py` holds evidence and values of every case of the suite, on every kind of
# cohort, to the same bits on both routes: what holds on one route then holds on the other.
pytestmark = native_by_default

# One test a property; what failed names its case. Tests of their own were a tenth of all tests.
every_metric = looped("case", CASES)
SETS = ("plain", "crowds", "ignored", "one class", "many classes", "mostly empty", "volumes")
LAST_BITS = 3e-16
BOTH_KINDS_OF_IMAGES = (
    "case-auroc",
    "picai-score",
    "weighted-sum",
)  # need images without any object, rarer than without a class


def test_the_suite_covers_the_registry_exactly() -> None:
    assert {case.kind for case in [*CASES, *MAP_CASES]} == set(registry.METRICS)


def assert_near(found: np.ndarray, expected: np.ndarray, tolerance: float = 1e-13) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


@every_metric
def test_facts_say_whether_the_pooled_value_is_the_mean_over_classes(case: Case) -> None:
    metric = case.metric()
    values = values_of(metric, cohort_of("plain", seed=21, n_images=40))[:, 0]
    is_mean = abs(np.nanmean(values[1:]) - values[0]) < 1e-12
    assert is_mean == (metric.facts.names[0] in metric.facts.class_means)


@every_metric
def test_the_order_of_images_does_not_matter(case: Case) -> None:
    metric = case.metric()
    for kind in SETS:
        cohort = cohort_of(kind, seed=1)
        order = np.random.default_rng(1).permutation(cohort.n_images)
        assert_near(values_of(metric, cohort.take(order)), values_of(metric, cohort))


@every_metric
def test_the_order_of_classes_does_not_matter(case: Case) -> None:
    metric = case.metric()
    for kind in SETS:
        cohort = cohort_of(kind, seed=2)
        new = np.random.default_rng(2).permutation(len(cohort.classes)).astype(np.int32)
        said = cohort.predictions(MODEL)
        relabelled = replace(
            cohort,
            references=replace(cohort.references, label=new[cohort.references.label]),
            models={MODEL: replace(said, label=new[said.label])},
        )
        rows = np.concatenate([[0], 1 + new])
        assert_near(values_of(metric, relabelled)[rows], values_of(metric, cohort))


@every_metric
def test_parts_join_to_the_whole_bit_by_bit(case: Case) -> None:
    metric = case.metric()
    for kind in SETS:
        cohort = cohort_of(kind, seed=3)
        whole = evidence_of(metric, cohort)
        parts = [
            evidence_of(metric, cohort.span(a, b)) for a, b in ((0, 5), (5, 5), (5, 6), (6, 12))
        ]
        joined = type(whole).concat(parts)
        assert joined.n_images == whole.n_images == 12
        weights = np.random.default_rng(3).integers(0, 3, (4, 12))
        np.testing.assert_array_equal(metric.value(joined, weights), metric.value(whole, weights))


@every_metric
def test_taken_evidence_is_that_of_the_taken_images(case: Case) -> None:
    metric = case.metric()
    for kind in SETS:
        cohort = cohort_of(kind, seed=4)
        chosen = np.array([9, 2, 3, 11])
        taken = evidence_of(metric, cohort).take(chosen)
        weights = np.array([[1, 1, 1, 1], [0, 2, 1, 3]])
        expected = metric.value(evidence_of(metric, cohort.take(chosen)), weights)
        np.testing.assert_array_equal(metric.value(taken, weights), expected)


@every_metric
def test_a_weight_is_a_duplication(case: Case) -> None:
    metric = case.metric()
    for kind in SETS:
        cohort = cohort_of(kind, seed=5)
        weights = np.random.default_rng(5).integers(0, 4, cohort.n_images)
        again = cohort.take(np.repeat(np.arange(cohort.n_images), weights))
        assert_near(values_of(metric, cohort, weights), values_of(metric, again), LAST_BITS)


@looped("case", [case for case in CASES if case.matching.get("ties") != "coco"])
def test_a_weight_is_a_duplication_where_equal_scores_are_one_point(case: Case) -> None:
    metric = case.metric()
    cohort = cohort_of("tied scores", seed=5)
    weights = np.full(cohort.n_images, 1)
    weights[4] = 2
    again = cohort.take(np.repeat(np.arange(cohort.n_images), weights))
    assert_near(values_of(metric, cohort, weights), values_of(metric, again), LAST_BITS)


@every_metric
def test_a_weight_of_zero_removes_the_image(case: Case) -> None:
    metric = case.metric()
    for kind in SETS:
        cohort = cohort_of(kind, seed=6)
        weights = np.arange(cohort.n_images) % 3 > 0
        found = values_of(metric, cohort, weights.astype(np.int64))
        assert_near(found, values_of(metric, cohort.take(weights)), LAST_BITS)


@looped("case", [case for case in CASES if case.scale_free])
def test_the_unit_of_length_does_not_matter(case: Case) -> None:
    metric = case.metric()
    for kind in SETS:
        cohort = cohort_of(kind, seed=7)
        change = 2.0**cohort.dimensions

        def doubled(table, change=change):
            scaled = {
                "boxes": table.boxes * 2,
                "extent": table.extent * change,
                "area": table.area * change,
            }
            return replace(table, **scaled)

        twice = replace(
            cohort,
            images=replace(cohort.images, size=cohort.images.size * 2),
            references=doubled(cohort.references),
            models={MODEL: doubled(cohort.predictions(MODEL))},
        )
        assert_near(values_of(metric, twice), values_of(metric, cohort))


@every_metric
def test_values_stay_within_the_bounds(case: Case) -> None:
    metric = case.metric()
    low, high = metric.facts.bounds
    for kind in KINDS:
        cohort = cohort_of(kind, seed=8)
        weights = np.random.default_rng(8).integers(0, 4, (6, cohort.n_images))
        values = metric.value(evidence_of(metric, cohort), weights)
        values = values[~np.isnan(values)]
        assert (values >= low).all()
        assert (values <= high).all()


@every_metric
def test_replicates_in_one_call_are_those_of_single_calls(case: Case) -> None:
    metric = case.metric()
    for kind in SETS:
        cohort = cohort_of(kind, seed=9)
        evidence = evidence_of(metric, cohort)
        weights = np.random.default_rng(9).integers(0, 4, (7, cohort.n_images))
        weights[2] = 1
        weights[3] = 0
        together = metric.value(evidence, weights)
        assert together.shape == (7, 1 + len(cohort.classes), len(metric.facts.names))
        single = [metric.value(evidence, row[None])[0] for row in weights]
        np.testing.assert_array_equal(together, single)
        none_left = together[3][:, 0]
        assert case.kind == "count" or np.isnan(none_left).all()


@every_metric
def test_references_as_predictions_are_perfect(case: Case) -> None:
    metric = case.metric()
    for kind in SETS:
        values = values_of(metric, references_as_predictions(cohort_of(kind, seed=10)))
        if not np.isnan(case.perfect):
            assert_near(values[~np.isnan(values)], case.perfect, 1e-12)
        single = kind == "one class" and case.options.get("part") == "classification"
        assert single or not np.isnan(values[0, 0])


def empty_cohorts() -> dict[str, Cohort]:
    cohort = random_cohort(8, 3, seed=11, models=1)
    silent = cohort.with_predictions(MODEL, empty_predictions(8))
    nothing_there = replace(
        cohort, references=cohort.references.keep(np.zeros(len(cohort.references), bool))
    )
    ignored = replace(cohort.references, ignore=np.ones(len(cohort.references), bool))
    return {
        "no predictions": silent,
        "no references": nothing_there,
        "nothing": nothing_there.with_predictions(MODEL, empty_predictions(8)),
        "all ignored": replace(cohort, references=ignored),
        "no images": cohort.take([]),
        "volumes, no predictions": random_cohort(4, 2, seed=1, dimensions=3).with_predictions(
            MODEL, empty_predictions(4, 3)
        ),
    }


@every_metric
@pytest.mark.parametrize("trouble", empty_cohorts())
def test_empty_cases_are_numbers_or_undefined_for_a_reason(case: Case, trouble: str) -> None:
    metric = case.metric()
    cohort = empty_cohorts()[trouble]
    evidence = evidence_of(metric, cohort)
    values = metric.value(evidence, np.ones((1, cohort.n_images), np.int64))[0]
    assert values.shape == (1 + len(cohort.classes), 1)
    undefined = {(int(row), int(name)) for row, name in np.argwhere(np.isnan(values))}
    assert undefined == set(metric.reasons(evidence))
    if trouble == "nothing" and not case.of_images:
        assert np.isnan(values).all()
    if trouble == "no predictions" and case.kind in (
        "average-precision",
        "average-recall",
        "froc",
        "sensitivity",
    ):
        assert values[0, 0] == 0.0


@every_metric
def test_reasons_are_given_exactly_where_values_are_undefined(case: Case) -> None:
    metric = case.metric()
    for kind in KINDS:
        for seed in range(3):
            cohort = cohort_of(kind, seed, n_images=4)
            evidence = evidence_of(metric, cohort)
            values = metric.value(evidence, np.ones((1, 4), np.int64))[0]
            reasons = metric.reasons(evidence)
            assert {(row, name) for row, name in np.argwhere(np.isnan(values)).tolist()} == set(
                reasons
            )
            assert set(reasons.values()) <= set(REASONS)


@every_metric
def test_counts_say_what_stands_behind_a_value(case: Case) -> None:
    metric = case.metric()
    cohort = cohort_of("ignored", seed=12)
    evidence = evidence_of(metric, cohort)
    weights = np.random.default_rng(12).integers(0, 3, cohort.n_images)
    found = metric.counts(evidence, weights)
    assert found.shape == (1 + len(cohort.classes), 1, 3)
    assert (found[:, :, 0] == weights.sum()).all()
    np.testing.assert_array_equal(found[0, :, 1:], found[1:, :, 1:].sum(axis=0))
    again = cohort.take(np.repeat(np.arange(cohort.n_images), weights))
    ones = np.ones(again.n_images, np.int64)
    np.testing.assert_array_equal(found, metric.counts(evidence_of(metric, again), ones))
    if not case.options.get("size"):
        counted = cohort.references.keep(~cohort.references.ignore)
        assert found[0, 0, 1] == weights[counted.image].sum()


@looped("case", [case for case in CASES if case.kind != "rodeo"])
def test_without_classes_all_objects_are_of_one(case: Case) -> None:
    metric = replace(case, matching={**case.matching, "classes": "ignore"}).metric()
    assert not metric.facts.per_class
    for kind in SETS:
        cohort = cohort_of(kind, seed=13)
        said = cohort.predictions(MODEL)
        alike = replace(
            cohort,
            classes=("any",),
            references=replace(cohort.references, label=np.zeros_like(cohort.references.label)),
            models={MODEL: replace(said, label=np.zeros_like(said.label))},
        )
        np.testing.assert_array_equal(values_of(metric, cohort), values_of(case.metric(), alike))


@every_metric
def test_weights_in_bytes_are_weights(case: Case) -> None:
    """The bootstrap hands over bytes, replicates side by side in memory; sums of them must not run
    over.
    """
    metric = case.metric()
    for kind in SETS:
        cohort = cohort_of(kind, seed=14)
        evidence = evidence_of(metric, cohort)
        weights = np.random.default_rng(14).integers(0, 256, (65, cohort.n_images))
        weights[:, :2] = 255
        expected = metric.value(evidence, weights)
        for order in ("C", "F"):
            np.testing.assert_array_equal(
                metric.value(evidence, np.array(weights, np.uint8, order=order)), expected
            )


@every_metric
def test_units_behind_a_value(case: Case) -> None:
    metric = case.metric()
    for kind in SETS:
        cohort = cohort_of(kind, seed=15)
        evidence, n = evidence_of(metric, cohort), cohort.n_images
        needed, tried, wrong = np.moveaxis(metric.support(evidence, np.arange(n), n), 2, 0)
        assert needed.shape == (1 + len(cohort.classes), 1)
        assert (wrong <= tried).all()
        assert (np.maximum(needed, tried) <= n).all()
        if case.kind not in BOTH_KINDS_OF_IMAGES:
            assert (needed[0] >= needed[1:].max(axis=0)).all()
        value = metric.value(evidence, np.ones((1, n), np.int64))[0]
        undefined = np.isnan(value) & ~(
            (len(cohort.classes) == 1) & (case.options.get("part") == "classification")
        )
        assert (
            undefined <= ((needed == 0) | (case.kind == "rodeo"))
        ).all()  # a rodeo class may be said of others only
        together = metric.support(evidence, np.zeros(n, np.int64), 1)
        np.testing.assert_array_equal(together, np.stack([needed, tried, wrong], axis=2) > 0)


# Where the best value depends on the cohort, a limit cuts off what is right.
@looped("case", [case for case in CASES if not np.isnan(case.perfect)])
def test_nothing_is_wrong_with_references_as_predictions(case: Case) -> None:
    metric = case.metric()
    for kind in SETS:
        cohort = references_as_predictions(cohort_of(kind, seed=16))
        found = metric.support(
            evidence_of(metric, cohort), np.arange(cohort.n_images), cohort.n_images
        )
        assert not found[:, :, 2].any(), kind
