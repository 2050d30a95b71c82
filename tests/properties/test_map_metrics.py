"""What every metric on maps must obey, as the others do in `test_metrics`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.data.maps import Maps
from calipers.metrics.base import Metric
from calipers.results.estimate import REASONS
from map_cases import map_protocol, random_samples
from properties.suite import MAP_CASES, Case
from seeds import looped

every_metric = looped("case", MAP_CASES)
LAST_BITS = 1e-14
SEEDS = (0, 1, 2, 3)


def metric_of(case: Case) -> Metric[Any]:
    (metric,) = map_protocol({"m": {"kind": case.kind, **case.options}}).compile()
    return metric


@cache
def cohort_of(seed: int, steps: int = 16, kind: str = "random") -> cal.Cohort:
    """What is left of random samples, measured in every way of the suite."""
    samples = random_samples(seed, 12, steps=steps)
    for k, sample in enumerate(samples):
        if kind == "perfect":
            sample["maps"] = {"model": (sample["labels"] > 0).astype(float)}
        elif kind == "healthy":
            sample["labels"] = np.zeros_like(sample["labels"])
        elif (kind == "full" and k) or kind == "all full":
            sample["labels"] = np.ones_like(sample["labels"])
        elif kind == "silent":
            sample["maps"] = {"model": np.zeros(sample["labels"].shape)}
    metrics = {f"m{k}": {"kind": case.kind, **case.options} for k, case in enumerate(MAP_CASES)}
    return cal.evaluate_maps(samples, map_protocol(metrics, batch=4), ci=False).cohort


def evidence_of(case: Case, cohort: cal.Cohort) -> Maps:
    found: Maps = metric_of(case).recipe.collect(cohort, "model")
    return found


def value_of(case: Case, evidence: Maps, weights: Any = None) -> float:
    weights = np.ones(evidence.n_images, np.int64) if weights is None else np.asarray(weights)
    return float(metric_of(case).value(evidence, weights[None, :])[0, 0, 0])


def near(value: float) -> Any:
    return pytest.approx(value, abs=LAST_BITS, rel=0, nan_ok=True)


@every_metric
def test_the_order_of_images_does_not_matter(case: Case) -> None:
    for seed in SEEDS:
        evidence = evidence_of(case, cohort_of(seed)).take(np.arange(11))
        order = np.random.default_rng(seed).permutation(11)
        assert value_of(case, evidence.take(order)) == near(value_of(case, evidence))


@every_metric
def test_parts_join_to_the_whole_bit_by_bit(case: Case) -> None:
    for seed in SEEDS:
        cohort = cohort_of(seed, steps=0)
        whole = evidence_of(case, cohort)
        joined = Maps.concat(
            [evidence_of(case, cohort.span(a, b)) for a, b in ((0, 5), (5, 5), (5, 6), (6, 12))]
        )
        for weights in (
            np.ones((1, 12), np.int64),
            np.random.default_rng(seed).integers(0, 3, (4, 12)),
        ):
            np.testing.assert_array_equal(
                metric_of(case).value(joined, weights), metric_of(case).value(whole, weights)
            )


@every_metric
def test_a_weight_is_a_duplication(case: Case) -> None:
    for seed in SEEDS:
        evidence = evidence_of(case, cohort_of(seed, steps=0))
        weights = np.random.default_rng([seed, 5]).integers(0, 4, 12)
        again = evidence.take(np.repeat(np.arange(12), weights))
        assert value_of(case, evidence, weights) == near(value_of(case, again))


@every_metric
def test_a_weight_of_zero_removes_the_image(case: Case) -> None:
    for seed in SEEDS:
        evidence = evidence_of(case, cohort_of(seed, steps=0))
        weights = (np.arange(12) % 3 > 0).astype(np.int64)
        assert value_of(case, evidence, weights) == near(
            value_of(case, evidence.take(np.flatnonzero(weights)))
        )


@every_metric
def test_replicates_are_single_values_up_to_their_wider_bins(case: Case) -> None:
    """The scores of these maps have a bin each, wide or not."""
    metric = metric_of(case)
    for seed in SEEDS:
        evidence = evidence_of(case, cohort_of(seed))
        weights = np.random.default_rng([seed, 9]).integers(0, 4, (7, 12))
        weights[3] = 0
        together = metric.value(evidence, weights)
        assert together.shape == (7, 1, 1)
        for row, found in zip(weights, together):
            assert found[0, 0] == pytest.approx(
                metric.value(evidence, row[None])[0, 0, 0], abs=1e-9, nan_ok=True
            )
        assert np.isnan(together[3]).all()


@every_metric
def test_replicates_of_any_scores_are_near(case: Case) -> None:
    metric = metric_of(case)
    for seed in SEEDS:
        evidence = evidence_of(case, cohort_of(seed, steps=0))
        weights = np.random.default_rng([seed, 10]).integers(1, 4, (7, 12))
        for row, found in zip(weights, metric.value(evidence, weights)):
            assert found[0, 0] == pytest.approx(
                metric.value(evidence, row[None])[0, 0, 0], abs=0.03, nan_ok=True
            )


@every_metric
def test_weights_in_bytes_are_weights(case: Case) -> None:
    metric = metric_of(case)
    evidence = evidence_of(case, cohort_of(4))
    weights = np.random.default_rng(14).integers(0, 256, (65, 12))
    weights[:, :2] = 255
    expected = metric.value(evidence, weights)
    for order in ("C", "F"):
        found = metric.value(evidence, np.array(weights, np.uint8, order=order))  # type: ignore[arg-type, call-overload]
        np.testing.assert_array_equal(found, expected)


@every_metric
def test_values_stay_within_the_bounds(case: Case) -> None:
    metric = metric_of(case)
    low, high = metric.facts.bounds
    for seed in range(8):
        for steps in (0, 3):
            evidence = evidence_of(case, cohort_of(seed, steps))
            weights = np.random.default_rng([seed, 8]).integers(0, 4, (6, 12))
            values = np.append(metric.value(evidence, weights), value_of(case, evidence))
            values = values[~np.isnan(values)]
            assert (values >= low).all()
            assert (values <= high).all()


@every_metric
def test_perfect_maps_are_perfect(case: Case) -> None:
    for seed in SEEDS:
        evidence = evidence_of(case, cohort_of(seed, kind="perfect"))
        with_objects = evidence.take(np.flatnonzero(evidence.references))
        assert value_of(case, with_objects) == pytest.approx(case.perfect, abs=1e-9)


@every_metric
@pytest.mark.parametrize("kind", ["healthy", "full", "all full", "silent", "random", "perfect"])
def test_reasons_are_given_exactly_where_values_are_undefined(case: Case, kind: str) -> None:
    metric = metric_of(case)
    for seed in SEEDS:
        for images in (np.arange(12), np.arange(1), np.arange(0)):
            evidence = evidence_of(case, cohort_of(seed, kind=kind).take(images))
            value = metric.value(evidence, np.ones((1, len(images)), np.int64))[0]
            reasons = metric.reasons(evidence)
            assert {(row, name) for row, name in np.argwhere(np.isnan(value)).tolist()} == set(
                reasons
            )
            assert set(reasons.values()) <= set(REASONS)
            if kind == "healthy" and len(images):
                assert np.isnan(value).all() == (not case.of_images)
            if kind == "silent" and len(images) == 12:
                assert not np.isnan(value).any()


@every_metric
def test_counts_say_what_stands_behind_a_value(case: Case) -> None:
    metric, cohort = metric_of(case), cohort_of(5)
    evidence = evidence_of(case, cohort)
    weights = np.random.default_rng(12).integers(0, 3, 12)
    found = metric.counts(evidence, weights)
    assert found.shape == (1, 1, 3)
    references, predictions = (
        np.diff(table.offsets) for table in (cohort.references, cohort.models["model"])
    )
    assert found[0, 0].tolist() == [weights.sum(), weights @ references, weights @ predictions]


@every_metric
def test_units_behind_a_value(case: Case) -> None:
    metric = metric_of(case)
    for seed in SEEDS:
        evidence = evidence_of(case, cohort_of(seed))
        needed, tried, wrong = metric.support(evidence, np.arange(12), 12)[0, 0]
        assert wrong <= tried <= 12
        assert needed <= 12
        assert needed > 0 or np.isnan(value_of(case, evidence))
        together = metric.support(evidence, np.zeros(12, np.int64), 1)[0, 0]
        np.testing.assert_array_equal(together, np.array([needed, tried, wrong]) > 0)
