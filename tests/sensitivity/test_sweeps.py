"""Sweeps: every point is what a separate evaluation says, and an oracle is the mean of its runs."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import calipers as cal
from random_cohorts import random_cohort

LEVELS = (0.1, 0.5, 0.75)
OVERVIEW = replace(cal.Protocol.load("overview"), replicates=200)


@pytest.fixture(scope="module")
def cohort() -> cal.Cohort:
    return random_cohort(40, 3, seed=3, models=2)


def alone(cohort: cal.Cohort, metric: str, **options: object) -> dict[str, float]:
    """Return one metric of every model with other options, evaluated by itself."""
    (plan,) = OVERVIEW.only([metric]).metrics
    # A metric with another threshold than its name says would be refused.
    name = f"{plan.kind}-alone"
    plan = replace(plan, name=name, options={**plan.options, **options})
    protocol = replace(OVERVIEW, metrics=(plan,), headline=(name,))
    found = cal.evaluate(cohort, protocol, ci=False)
    return {model: found.get(name, model=model).value for model in cohort.models}


@pytest.mark.parametrize("metric", ["AP@0.5", "sensitivity@0.5", "F1@0.5", "FP/image@0.5", "FROC"])
def test_a_sweep_over_thresholds_is_one_evaluation_per_threshold(
    cohort: cal.Cohort, metric: str
) -> None:
    found = cal.sweep(cohort, metric, {"threshold": LEVELS}, protocol=OVERVIEW, ci=False)
    for k, level in enumerate(LEVELS):
        expected = alone(cohort, metric, thresholds=(level,))
        for model in cohort.models:
            assert found.line(metric, model)[0][k] == expected[model]


@pytest.mark.parametrize(
    ("name", "values", "option"),
    [
        ("criterion", ("box-iou", "iop", "any-overlap"), "criterion"),
        ("assignment", ("by-score", "by-overlap", "optimal"), "assignment"),
        ("score_cut", (0.2, 0.6), "score_cut"),
        ("max_dets", (1, 5), "max_dets"),
        ("classes", ("within", "ignore"), "classes"),
        ("average", ("pooled", "classes"), "average"),
    ],
)
def test_other_choices_alike(cohort: cal.Cohort, name: str, values: tuple, option: str) -> None:
    found = cal.sweep(cohort, "F1@0.5", {name: values}, protocol=OVERVIEW, ci=False)
    for k, value in enumerate(values):
        expected = alone(cohort, "F1@0.5", **{option: value})
        assert [found.value[m, 0, k] for m in range(2)] == list(expected.values())


def test_the_least_area_ignores_what_is_smaller(cohort: cal.Cohort) -> None:
    found = cal.sweep(cohort, "AP@0.5", {"least_area": [0, 2500]}, protocol=OVERVIEW, ci=False)
    plain = cal.average_precision(cohort, model="model-1", area=(2500, np.inf), ties="coco")
    assert found.value[0, 0, 1] == pytest.approx(plain, abs=1e-12)
    assert found.value[0, 0, 0] == alone(cohort, "AP@0.5")["model-1"]


def test_two_choices_form_a_table(cohort: cal.Cohort) -> None:
    over = {"criterion": ("iop", "box-iou"), "threshold": LEVELS}
    found = cal.sweep(cohort, ["F1@0.5", "AP@0.5"], over, protocol=OVERVIEW, ci=False)
    assert found.value.shape == (2, 2, 2, 3)
    for (i, criterion), (j, level) in product(enumerate(over["criterion"]), enumerate(LEVELS)):
        expected = alone(cohort, "F1@0.5", criterion=criterion, thresholds=(level,))
        assert found.line("F1@0.5", "model-2")[0][i, j] == expected["model-2"]


def test_bands_are_the_intervals_of_an_evaluation(cohort: cal.Cohort) -> None:
    found = cal.sweep(cohort, "F1@0.5", {"threshold": [0.3, 0.5]}, protocol=OVERVIEW, seed=7)
    expected = cal.evaluate(cohort, OVERVIEW.only(["F1@0.5"]), seed=7)
    value, low, high = found.line("F1@0.5", "model-1")
    estimate = expected.get("F1@0.5", model="model-1")
    assert (value[1], low[1], high[1]) == (estimate.value, estimate.low, estimate.high)
    assert found.band.startswith("95 % confidence intervals, resampled by patient (n = ")
    none = cal.sweep(cohort, "F1@0.5", {"threshold": [0.5]}, protocol=OVERVIEW, ci=False)
    assert (none.band, np.isnan(none.low).all()) == ("none", True)


def runs_by_hand(
    cohort: cal.Cohort, metric: str, steps: list[str], runs: int, seed: int
) -> list[float]:
    bare = replace(cohort, models={})
    made = [cal.corrupt(bare, steps, seed=seed + run, name="o") for run in range(runs)]
    return [cal.evaluate(one, OVERVIEW.only([metric]), ci=False)[metric].value for one in made]


def test_an_oracle_is_the_mean_of_its_runs_and_their_standard_deviation(cohort: cal.Cohort) -> None:
    sigmas = [0, 0.5]
    found = cal.sweep(
        cohort, "RoDeO/loc", {"position-noise.sigma": sigmas}, protocol=OVERVIEW, runs=3, seed=11
    )
    assert found.models == ("oracle",)
    assert found.of_oracle
    for k, sigma in enumerate(sigmas):
        each = runs_by_hand(cohort, "RoDeO/loc", [f"position-noise(sigma={sigma})"], 3, 11)
        value, low, high = (table[k] for table in found.line("RoDeO/loc"))
        assert value == pytest.approx(np.mean(each), abs=1e-15)
        assert (high - low) / 2 == pytest.approx(np.std(each, ddof=1), abs=1e-12)
    assert "3 runs" in found.band


def test_one_run_has_no_band(cohort: cal.Cohort) -> None:
    found = cal.sweep(cohort, "RoDeO", {"shape-noise.sigma": [0.5]}, protocol=OVERVIEW, runs=1)
    assert (found.band, np.isnan(found.low).all()) == ("none", True)


def test_corruptions_follow_each_other_and_what_is_always_there_comes_last(
    cohort: cal.Cohort,
) -> None:
    over = {"class-confusion.p": [0.0, 0.5], "shape-noise.sigma": [0.2]}
    found = cal.sweep(
        cohort, "RoDeO", over, protocol=OVERVIEW, runs=2, with_=["position-noise(sigma=0.5)"]
    )
    steps = ["class-confusion(p=0.5)", "shape-noise(sigma=0.2)", "position-noise(sigma=0.5)"]
    assert found.value[0, 0, 1, 0] == pytest.approx(
        np.mean(runs_by_hand(cohort, "RoDeO", steps, 2, 0))
    )


def test_two_strengths_of_one_corruption_are_one_corruption(cohort: cal.Cohort) -> None:
    over = {"random-boxes.p": [0.3], "random-boxes.size": [0.1, 0.4]}
    found = cal.sweep(cohort, "RoDeO", over, protocol=OVERVIEW, runs=2)
    expected = np.mean(runs_by_hand(cohort, "RoDeO", ["random-boxes(p=0.3, size=0.4)"], 2, 0))
    assert found.value[0, 0, 0, 1] == pytest.approx(expected)


@pytest.mark.parametrize("choice_first", [False, True])
def test_a_choice_beside_a_strength_keeps_the_order_of_the_axes(
    cohort: cal.Cohort, choice_first: bool
) -> None:
    strength, choice = {"position-noise.sigma": [0.1, 0.3, 0.6]}, {"threshold": [0.3, 0.7]}
    over = {**choice, **strength} if choice_first else {**strength, **choice}
    found = cal.sweep(cohort, "F1@0.5", over, protocol=OVERVIEW, runs=2)
    table = found.value[0, 0] if choice_first else found.value[0, 0].T
    assert table.shape == (2, 3)
    for i, sigma in enumerate(strength["position-noise.sigma"]):
        one = cal.sweep(
            cohort, "F1@0.5", {**choice, "position-noise.sigma": [sigma]}, protocol=OVERVIEW, runs=2
        )
        np.testing.assert_array_equal(table[:, i], one.value[0, 0, :, 0])


def test_rows_and_document_hold_every_point(cohort: cal.Cohort) -> None:
    over = {"threshold": np.array([0.3, 0.5]), "max_dets": np.array([1, 10])}
    found = cal.sweep(cohort, "F1@0.5", over, protocol=OVERVIEW, ci=False)
    rows = found.rows()
    assert len(rows) == 2 * 1 * 2 * 2
    assert rows[1] == {
        "model": "model-1",
        "metric": "F1@0.5",
        "threshold": 0.3,
        "max_dets": 10,
        "value": found.value[0, 0, 0, 1],
        "low": None,
        "high": None,
    }
    document = json.loads(found.to_json())
    assert document["schema"] == "calipers.sweep/1"
    assert document["axes"][1] == {
        "name": "max_dets",
        "label": "predictions that count, per image and class",
        "values": [1, 10],
    }
    assert document["rows"] == rows
    assert list(found.to_frame().columns) == list(rows[0])


def test_a_name_loses_a_threshold_that_does_not_hold(cohort: cal.Cohort) -> None:
    over_thresholds = cal.sweep(cohort, "F1@0.5", {"threshold": [0.3]}, protocol=OVERVIEW, ci=False)
    assert over_thresholds.metric_label("F1@0.5") == "F1"
    over_cuts = cal.sweep(cohort, "F1@0.5", {"score_cut": [0.3]}, protocol=OVERVIEW, ci=False)
    assert over_cuts.metric_label("F1@0.5") == "F1@0.5"


def test_it_is_known_which_metrics_are_better_when_low(cohort: cal.Cohort) -> None:
    found = cal.sweep(
        cohort, ["F1@0.5", "FP/image@0.5"], {"threshold": [0.3]}, protocol=OVERVIEW, ci=False
    )
    assert (found.lower, found.bounded) == (("FP/image@0.5",), ("F1@0.5",))


def test_progress_counts_the_runs(cohort: cal.Cohort) -> None:
    seen: list[tuple[int, int]] = []
    over = {"size-noise.sigma": [0, 1, 2]}
    cal.sweep(
        cohort, "RoDeO", over, protocol=OVERVIEW, runs=2, progress=lambda *at: seen.append(at)
    )
    assert seen == [(k, 6) for k in range(1, 7)]


@pytest.mark.parametrize(
    ("over", "metric", "told"),
    [
        ({}, "AP@0.5", "one or two choices, not 0"),
        (
            {"threshold": [0.5], "criterion": ["iop"], "ties": ["coco"]},
            "AP@0.5",
            "multiverse takes more",
        ),
        ({"treshold": [0.5]}, "AP@0.5", "did you mean 'threshold'"),
        ({"threshold": []}, "AP@0.5", "needs a list of values"),
        ({"threshold": "0.5"}, "AP@0.5", "needs a list of values"),
        ({"threshold": [0.5, 0.5]}, "AP@0.5", "different values"),
        ({"threshold": ["half"]}, "AP@0.5", "are numbers, not 'half'"),
        ({"threshold": [float("nan")]}, "AP@0.5", "are numbers, not nan"),
        ({"threshold": [50]}, "AP@0.5", "write 0.5 for 50 %"),
        ({"criterion": [0.5]}, "AP@0.5", "are words, not 0.5"),
        ({"criterion": ["box-io"]}, "AP@0.5", "did you mean 'box-iou'"),
        ({"max_dets": [1.5]}, "AP@0.5", "whole number of at least 1"),
        ({"threshold": [0.5]}, "RoDeO", "its own matching"),
        ({"interpolation": ["voc11"]}, "F1@0.5", "has no option 'interpolation'"),
        ({"position-noise.sgima": [1]}, "RoDeO", "did you mean 'sigma'"),
        ({"position-nose.sigma": [1]}, "RoDeO", "did you mean 'position-noise"),
        ({"position-noise.sigma": [0, -1]}, "RoDeO", "from 0 to 20, not -1"),
        ({"class-underprediction.noise": [0.5]}, "RoDeO", "needs p"),
        ({"threshold": [0.5]}, "AP@0,5", r"did you mean 'AP@0\.5'"),
        (
            {"threshold": np.linspace(0, 1, 400), "score_cut": np.linspace(0, 1, 400)},
            "AP@0.5",
            "at most 100,000",
        ),
    ],
)
def test_bad_choices_are_told(cohort: cal.Cohort, over: dict, metric: str, told: str) -> None:
    with pytest.raises(cal.UsageError, match=told):
        cal.sweep(cohort, metric, over, protocol=OVERVIEW)


def test_other_bad_calls_are_told(cohort: cal.Cohort) -> None:
    with pytest.raises(cal.UsageError, match="no model"):
        cal.sweep(replace(cohort, models={}), "AP@0.5", {"threshold": [0.5]})
    with pytest.raises(cal.UsageError, match="belong to an oracle"):
        cal.sweep(cohort, "AP@0.5", {"threshold": [0.5]}, with_=["position-noise(sigma=1)"])
    for runs in (0, 1.5):
        with pytest.raises(cal.UsageError, match="whole number"):
            cal.sweep(cohort, "RoDeO", {"size-noise.sigma": [1]}, runs=runs)
    found = cal.sweep(cohort, "AP@0.5", {"threshold": [0.5]}, protocol=OVERVIEW, ci=False)
    with pytest.raises(cal.UsageError, match="no model None"):
        found.line("AP@0.5")
