# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.protocol import Protocol
from calipers.metrics.base import MetricPlan
from calipers.report.context import context_of
from calipers.report.verdict import verdict
from evaluated import evaluated_demo

QUICK = replace(Protocol.load("overview"), replicates=200)


def said_of(evaluation):
    context = context_of(evaluation, pictures=False)
    return verdict(context.evaluation, context.at_one, context.duel, context.comparison)


def cohort_of(shares, n=40):
    """Return a cohort in which every model finds the given share of the images' single object."""
    random = np.random.default_rng(0)
    box = [[10.0, 10.0, 30.0, 30.0]]
    references = [{"boxes": box, "labels": [0]} for _ in range(n)]
    models = {}
    for model, share in shares.items():
        found = random.permutation(n) < round(share * n)
        entry = {"boxes": box, "labels": [0], "scores": [0.9]}
        nothing = {"boxes": [], "labels": [], "scores": []}
        models[model] = [entry if hit else nothing for hit in found]
    return cal.Cohort.from_arrays(references, models, classes=("lesion",))


def test_a_clear_lead_is_stated_with_its_interval():
    found = said_of(cal.evaluate(cohort_of({"A": 0.4, "B": 0.9}), QUICK))
    assert found.first.startswith(
        "At one false alarm per image, B finds 50.0 percentage points more of the references than "
        "A (95 % CI "
    )
    assert "B finds 90 % of the 40 references (95 % CI" in found.further[0]


def test_a_lead_that_chance_explains_is_not_claimed():
    found = said_of(cal.evaluate(cohort_of({"A": 0.475, "B": 0.5}), QUICK))
    assert found.first.startswith(
        "No model is shown to find more: at one false alarm per image, B finds 2.5 percentage"
    )
    assert "chance could explain it" in found.first


def test_equal_models_are_called_equal():
    cohort = cohort_of({"A": 0.5})
    cohort = replace(cohort, models={"A": cohort.models["A"], "B": cohort.models["A"]})
    found = said_of(cal.evaluate(cohort, QUICK))
    assert found.first.startswith(
        "A and B find equally many references at one false alarm per image; "
        "no interval: all bootstrap samples agree."
    )
    assert "The models do not differ in any headline metric." in found.further


def test_one_model_is_described():
    found = said_of(cal.evaluate(cohort_of({"ours": 0.8}), QUICK))
    assert found.first.startswith(
        "At one false alarm per image, ours finds 80 % of the 40 references (95 % CI"
    )
    assert found.further[0].startswith("AP@0.5 0.8")


def test_without_intervals_nothing_is_called_more_than_chance():
    found = said_of(cal.evaluate(cohort_of({"A": 0.4, "B": 0.9}), QUICK, ci=False))
    assert found.first == (
        "At one false alarm per image, B finds 90 % of the 40 references, the largest share on "
        "these images; the difference was not tested."
    )
    assert any("the difference was not tested" in sentence for sentence in found.further)
    assert not any("chance" in sentence for sentence in (found.first, *found.further))


def test_a_few_images_give_no_interval_and_the_reason():
    found = said_of(cal.evaluate(cohort_of({"A": 0.5, "B": 1.0}, n=4), QUICK))
    assert "the difference was not tested (no interval: too few images)" in found.first


def test_models_without_scores_are_judged_by_the_headline():
    cohort = cohort_of({"A": 0.4, "B": 0.9})
    models = {
        name: replace(predictions, scored=False) for name, predictions in cohort.models.items()
    }
    found = said_of(cal.evaluate(replace(cohort, models=models), QUICK))
    assert "false alarm" not in found.first
    assert found.first.startswith("B leads in")


def test_nothing_to_find():
    images = [{"boxes": [], "labels": []}] * 6
    nothing = [{"boxes": [], "labels": [], "scores": []}] * 6
    cohort = cal.Cohort.from_arrays(images, nothing, classes=("a",))
    found = said_of(cal.evaluate(cohort, QUICK))
    assert found.first.startswith("No image has a reference, so there is nothing to find.")
    assert found.further == ("model raises no false alarm, in 6 images.",)


def test_the_demo_says_which_leads_are_more_than_chance():
    found = said_of(evaluated_demo("overview"))
    assert found.first.startswith(
        "At one false alarm per image, overpredicts finds 38.1 percentage points more of the "
        "references than mislabels (95 % CI "
    )
    assert "overpredicts leads in AP@0.5 and FROC by more than chance can explain." in found.further


@pytest.mark.parametrize("seed", range(3))
def test_the_lead_and_the_comparison_agree(seed):
    ev = cal.evaluate(cal.demo_cohort(seed), QUICK)
    context = context_of(ev, pictures=False)
    row = min(context.duel.rows, key=lambda row: row.estimate.value)
    assert (
        f"{100 * row.estimate.value:.1f} percentage points"
        in verdict(ev, context.at_one, context.duel, None).first
    )


def test_a_model_without_a_value_is_not_called_equal():
    ev = cal.evaluate(cohort_of({"A": 0.5, "B": 0.0}), QUICK.only(["PPV@0.5"]))
    assert np.isnan(ev.get("PPV@0.5", model="B").value)
    found = said_of(ev)
    assert "Only A has a value of PPV@0.5." in found.further
    assert not any("do not differ" in sentence for sentence in found.further)


def test_a_model_without_a_value_does_not_make_a_clear_lead_doubtful():
    ev = cal.evaluate(
        cohort_of({"A": 0.5, "B": 0.0, "C": 1.0}), QUICK.only(["PPV@0.5", "sensitivity@0.5"])
    )
    assert "C leads in sensitivity@0.5 by more than chance can explain." in said_of(ev).further


def test_models_that_share_a_first_place_are_named_together():
    cohort = cohort_of({"A": 0.8, "C": 0.3})
    models = {"A": cohort.models["A"], "B": cohort.models["A"], "C": cohort.models["C"]}
    found = said_of(cal.evaluate(replace(cohort, models=models), QUICK))
    assert any(sentence.startswith("A and B share the best AP@0.5") for sentence in found.further)
    assert not any("chance" in sentence for sentence in found.further)


def test_a_lead_below_a_tenth_of_a_point_is_not_zero():
    found = said_of(cal.evaluate(cohort_of({"A": 0.5, "B": 0.5004}, n=2500), QUICK))
    assert "B finds less than 0.1 percentage points more of the references than A" in found.first


def test_an_interval_beyond_zero_that_fails_the_test_is_explained_by_its_p_value():
    found = said_of(cal.evaluate(cohort_of({"A": 0.2, "B": 1.0}, n=5), QUICK))
    assert found.first.endswith(
        "to 100.0), but the test is not significant (p = 0.38, max-t over 6)."
    )


def test_both_ends_of_an_interval_have_the_same_digits():
    found = said_of(evaluated_demo(QUICK))
    low, high = re.search(r"95 % CI ([\d.]+) to ([\d.]+) %\)", found.further[0]).groups()
    assert ("." in low) == ("." in high)


def test_of_many_models_a_lead_over_rivals_that_were_not_met_is_not_judged():
    names = [f"m{k}" for k in range(5)]
    ev = cal.evaluate(
        cohort_of(dict(zip(names, (0.9, 0.5, 0.4, 0.3, 0.1)))), QUICK.only(["AP@0.5"])
    )
    context = context_of(ev, pictures=False)
    assert len(context.comparison.rows) == 10
    met = replace(
        context.comparison, rows=tuple(r for r in context.comparison.rows if r.model_b != "m4")
    )
    found = verdict(ev, context.at_one, context.duel, met)
    assert any(
        s.startswith("m0 has the best") and s.endswith("the difference was not tested.")
        for s in found.further
    )
    assert not any("chance could explain" in sentence for sentence in found.further)


def test_it_says_what_counts_as_found():
    assert said_of(evaluated_demo(replace(Protocol.load("rodeo"), replicates=200))).further[-1] == (
        "A reference counts as found if the area it shares with a predicted box is at least 10 % "
        "of the area both cover together (box-iou >= 0.1)."
    )


def test_what_a_model_raises_uncut_is_told_where_it_is_more_than_one_alarm():
    found = said_of(evaluated_demo("overview"))
    alarms = (
        "With all its predictions, overpredicts raises 4.8 false alarms per image (95 % CI "
        "4.2 to 5.3)."
    )
    assert found.further[1] == alarms
    quiet = said_of(cal.evaluate(cohort_of({"A": 0.4, "B": 0.9}), QUICK))
    assert not any("With all its predictions" in sentence for sentence in quiet.further)


def test_an_endpoint_that_is_no_metric_of_the_protocol_is_said_to_be_added():
    added = "The sensitivity at one false alarm per image is not a metric of the protocol"
    cohort = cohort_of({"A": 0.4, "B": 0.9})
    assert any(
        sentence.startswith(added) for sentence in said_of(cal.evaluate(cohort, QUICK)).further
    )
    plan = MetricPlan("FROC@1", "froc", {"rates": (1.0,), "thresholds": (0.5,)})
    own = replace(QUICK, metrics=(*QUICK.metrics, plan))
    found = said_of(cal.evaluate(cohort, own))
    assert not any(sentence.startswith(added) for sentence in found.further)
