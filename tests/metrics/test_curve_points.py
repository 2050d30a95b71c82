# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.kernels import curves
from calipers.matching.matches import COUNTED
from calipers.metrics.ranking import FrocCurve, PrecisionCurve
from evaluated import evaluated_demo
from random_cohorts import random_cohort

RATES = (0.125, 0.5, 1.0, 4.0)
RECALLS = tuple(k / 100 for k in range(101))


@pytest.fixture(scope="module")
def evaluation():
    return evaluated_demo("overview", ci=False)


def ones(matches):
    return np.ones((1, matches.n_images), np.int64)


def test_the_mean_of_the_precision_curve_is_the_average_precision(evaluation):
    for model in evaluation.models:
        matches = evaluation.matches(model)
        curve = PrecisionCurve.of(matches.views[0], RECALLS, evaluation.protocol.ties)
        found = curve.value(matches, ones(matches))
        assert found.shape == (1, 1, 101)
        assert found.mean() == pytest.approx(evaluation[model, "AP@0.5"].value, abs=1e-12)


def test_a_point_of_the_froc_curve_is_the_froc_at_that_rate(evaluation):
    head = 'schema = "calipers.protocol/1"\nextends = "overview"\n'
    toml = head + '[[metric]]\nname = "FROC@1"\nkind = "froc"\nthresholds = 0.5\nrates = [1.0]\n'
    single = cal.evaluate(evaluation.cohort, cal.Protocol.from_toml(toml), ci=False)
    for model in evaluation.models:
        matches = evaluation.matches(model)
        found = FrocCurve.of(matches.views[0], RATES).value(matches, ones(matches))
        assert found.shape == (1, 1, 4)
        assert found[0, 0, 2] == single[model, "FROC@1"].value


def test_curves_never_fall_or_rise_the_wrong_way(evaluation):
    matches = evaluation.matches("overpredicts")
    froc = FrocCurve.of(matches.views[0], RATES).value(matches, ones(matches))[0, 0]
    precision = PrecisionCurve.of(matches.views[0], RECALLS).value(matches, ones(matches))[0, 0]
    assert (np.diff(froc) >= 0).all()
    assert (np.diff(precision) <= 1e-12).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_weight_of_two_is_an_image_listed_twice(seed):
    cohort = random_cohort(n_images=12, n_classes=3, seed=seed)
    evaluation = cal.evaluate(cohort, "overview", ci=False)
    weight = np.random.default_rng(seed).integers(0, 3, cohort.n_images)
    rows = np.repeat(np.arange(cohort.n_images), weight)
    for model in evaluation.models:
        matches = evaluation.matches(model)
        listed = matches.take(rows)
        for curve in (
            FrocCurve.of(matches.views[0], RATES),
            PrecisionCurve.of(matches.views[0], RECALLS),
        ):
            by_weight = curve.value(matches, weight[None])
            np.testing.assert_allclose(
                by_weight, curve.value(listed, ones(listed)), rtol=0, atol=1e-12
            )


def test_without_references_every_point_is_undefined_and_says_why():
    images = [{"boxes": [], "labels": []}] * 3
    found = [{"boxes": [[0, 0, 5, 5]], "labels": [0], "scores": [0.5]}] * 3
    evaluation = cal.evaluate(
        cal.Cohort.from_arrays(images, found, classes=("a",)), "overview", ci=False
    )
    matches = evaluation.matches("model")
    for curve in (
        FrocCurve.of(matches.views[0], RATES),
        PrecisionCurve.of(matches.views[0], RECALLS),
    ):
        assert np.isnan(curve.value(matches, ones(matches))).all()
        assert curve.reasons(matches)[0, 0] == "no_references"


@pytest.mark.usefixtures("kernel_route")
@pytest.mark.parametrize(
    "recalls",
    [np.array(RECALLS), np.linspace(0, 1, 101), np.linspace(0, 1, 11), np.array([0.3, 0.31, 0.9])],
    ids=["quotients", "linspace", "voc11", "uneven"],
)
@pytest.mark.parametrize("levels", [None, 8])
def test_the_precision_under_weights_is_that_of_every_single_point(levels, recalls):
    cohort = random_cohort(40, 3, seed=2, tie_levels=levels, ignore_share=0.2)
    matches = cal.evaluate(cohort, "overview", ci=False).matches("model-1")
    weights = np.random.default_rng(0).multinomial(40, np.ones(40) / 40, size=20)
    index, limit = matches.index(matches.views[0]), matches.views[0].max_dets
    problem = matches.curves([index], weights, limit, blocks=True)
    positives = matches.reference_totals(weights)[:, index, COUNTED]
    needed = curves.needed_hits(positives, recalls)
    fate = problem.table.fates[index][problem.ranked.order]
    slow = curves.precision_at(
        curves.curve(fate, problem.ranked, problem.ordered_weights()), needed
    )
    values = curves.precisions(problem, positives, recalls)
    # A class without references has no recall, and its precision is never looked at.
    present = positives > 0
    assert np.array_equal(values[present], slow[present])
