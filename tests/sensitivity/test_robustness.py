"""Intervals of the shares: replicates are those of an evaluation, and shares are computed again in
each.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.errors import UsageError
from calipers.sensitivity.result import replicate_values, robustness, span
from calipers.statistics.weights import bootstrap, units_of
from cases import cohort_of

GRID = {
    "metric": ["AP", "F1", "RoDeO"],
    "criterion": ["box-iou"],
    "assignment": ["by-score"],
    "average": ["pooled", "classes"],
    "interpolation": ["voc11"],
}


def without_patients(cohort):
    return replace(cohort, images=replace(cohort.images, groups={}))


def test_replicates_are_the_values_of_the_drawn_images():
    cohort = without_patients(cohort_of("plain", seed=3, models=2, n_images=8))
    evaluation = cal.evaluate(cohort, "overview", ci=False)
    found = replicate_values(evaluation, evaluation.metrics, 4, seed=11)
    units = units_of(cohort.images.groups, cohort.n_images)
    (weights,) = bootstrap(units, 4, 11)
    for b, drawn in enumerate(weights):
        for metric in evaluation.protocol.compile():
            for m, model in enumerate(evaluation.models):
                value = metric.value(
                    evaluation.evidence[model, metric.recipe.key], drawn[None].astype(np.int64)
                )[0, 0]
                columns = [evaluation.metrics.index(name) for name in metric.facts.names]
                assert np.array_equal(found[b, columns, m], value, equal_nan=True)


def test_shares_are_computed_anew_in_every_replicate():
    # two configurations, two models; model 0 wins both, one, none of them
    values = np.array([[[2.0, 1], [2, 1]], [[2, 1], [1, 2]], [[1, 2], [1, 2]]])
    found = robustness(values[0], values, (0, 1), seed=0, unit="image", n_units=9)
    assert found.wins[0] == pytest.approx((0.025, 1.0))
    assert found.leads == pytest.approx((0.5, 0.5))
    assert found.difference.shape == (2, 2)
    assert found.difference[0] == pytest.approx([-0.9, 1.0])


def test_configurations_without_a_value_leave_a_replicate():
    values = np.array([[[2.0, 1], [np.nan, 1]], [[2, 1], [1, 2]]])
    found = robustness(values[1], values, (0, 1), seed=0, unit="image", n_units=9)
    assert found.wins[0] == pytest.approx((0.5, 0.9875))


def test_an_interval_needs_half_of_the_replicates():
    low, high = span(np.array([1.0, 2.0, np.nan, np.nan]), 1.5)
    assert 1 <= low < high <= 2
    assert np.isnan(span(np.array([1.0, 2.0, np.nan, np.nan, np.nan]), 1.5)).all()
    # all samples agree, which is no interval
    assert np.isnan(span(np.array([1.0, 1.0]), 1.0)).all()


def test_no_interval_leaves_out_its_value():
    sample = np.random.default_rng(0).random(200)
    assert span(sample, 1.5)[1] == 1.5
    assert span(sample, -0.5)[0] == -0.5
    assert span(sample, 0.5) == span(sample, float("nan"))


def test_the_shares_lie_around_those_of_all_images_and_repeat_with_the_seed():
    cohort = without_patients(cohort_of("plain", seed=9, models=2, n_images=30))
    found = cal.multiverse(cohort, GRID, replicates=60, seed=1)
    assert found.robustness.as_dict(found.models) == cal.multiverse(
        cohort, GRID, replicates=60, seed=1
    ).robustness.as_dict(found.models)
    assert sum(found.robustness.leads) == pytest.approx(1)
    for low, high in found.robustness.wins:
        assert 0 <= low <= high <= 1
    assert found.robustness.unit == "image"
    assert found.robustness.n_units == 30
    assert "resampled by image (n = 30)" in found.sentences()[-1]
    assert f"{found.robustness.replicates} bootstrap samples" in found.sentences()[-1]


def test_patients_are_drawn_where_they_are_known():
    found = cal.multiverse(cal.demo_cohort(), {**GRID, "metric": ["AP"]}, replicates=10)
    assert (found.robustness.unit, found.robustness.n_units) == ("patient", 80)


def test_with_too_few_units_there_is_no_interval():
    cohort = cohort_of("plain", seed=9, models=2, n_images=12)
    groups = {"patient": np.array(["a", "b"] * 6)}
    few = replace(cohort, images=replace(cohort.images, groups=groups))
    assert cal.multiverse(few, GRID, replicates=10).robustness is None


@pytest.mark.parametrize("replicates", [-1, 10_001])
def test_a_senseless_number_of_replicates_is_refused(replicates):
    with pytest.raises(UsageError, match="replicates must be a number"):
        cal.multiverse(cohort_of("plain", seed=2, models=2), GRID, replicates=replicates)
