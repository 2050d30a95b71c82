# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.catalogue import FIGURES
from calipers.show.figures import Curves, Forest, HeatMap
from calipers.synthetic.volumes import demo_samples
from evaluated import evaluated_demo

OF_MAPS = ("voxel-roc", "voxel-pr", "soft-sizes", "levels")
OF_ERRORS = ("error-gains", "error-counts")
QUICK = replace(cal.Protocol.load("overview"), replicates=200)


@pytest.fixture(scope="module")
def evaluation():
    return evaluated_demo(QUICK, by=["centre", "size"])


@pytest.fixture(scope="module")
def maps():
    return cal.evaluate_maps(list(demo_samples(8, 2, 32)), "anomaly")


@pytest.fixture(scope="module")
def mistakes():
    return evaluated_demo("tide")


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_a_finding_axes_and_numbers(evaluation, maps, mistakes, name):
    of_errors = mistakes if name in OF_ERRORS else evaluation
    found = (maps if name in OF_MAPS else of_errors).figure(name)
    assert len(found.title) > 10
    assert "nan" not in found.title.lower()
    table = found.table()
    assert len(table.rows) > 1
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_an_unknown_figure_names_the_nearest(evaluation):
    with pytest.raises(cal.UsageError, match="did you mean 'froc'"):
        evaluation.figure("frok")


def test_froc_goes_through_the_estimates(evaluation):
    found = evaluation.figure("froc", models=["overpredicts"])
    assert isinstance(found, Curves)
    (line,) = found.lines
    assert line.slot == 1  # the colour of the model in all figures, whoever else is shown
    np.testing.assert_allclose(
        line.y[list(line.marks)].mean(), evaluation["overpredicts", "FROC"].value, atol=1e-12
    )
    assert (line.low <= line.y).all()
    assert (line.y <= line.high).all()


def test_the_title_of_froc_says_who_finds_how_much(evaluation):
    said = evaluation.figure("froc").title
    assert said.startswith("At one false alarm per image, overpredicts finds 95 %")


def test_without_intervals_there_is_no_band():
    found = evaluated_demo("overview", ci=False).figure("froc")
    assert np.isnan(found.lines[0].low).all()
    assert "intervals" not in found.note


def test_classes_start_with_all_of_them_and_count_references(evaluation):
    found = evaluation.figure("classes", metric="AP@0.5")
    assert isinstance(found, Forest)
    assert found.rows[0].strong
    assert found.rows[0].n == "189"
    assert sum(int(row.n) for row in found.rows[1:]) == 189
    assert found.rows[0].marks[1].value == evaluation["overpredicts", "AP@0.5"].value


def test_many_models_become_a_heat_map():
    one = cal.demo_cohort()
    models = {f"m{k}": one.models["mislabels"] for k in range(6)}
    from dataclasses import replace

    ev = cal.evaluate(replace(one, models=models), "overview", ci=False)
    found = ev.figure("classes", metric="RoDeO")
    assert isinstance(found, HeatMap)
    assert found.values.shape == (5, 6)


def test_groups_are_those_that_were_asked_for(evaluation):
    found = evaluation.figure("groups", by="size", metric="AP@0.5")
    assert [row.name for row in found.rows] == ["all images", "small", "medium", "large"]
    with pytest.raises(cal.UsageError, match="no grouping 'age'"):
        evaluation.figure("groups", by="age")
    with pytest.raises(cal.UsageError, match="has no groups"):
        evaluated_demo("overview", ci=False).figure("groups")


def test_fates_add_up(evaluation):
    found = evaluation.figure("fates")
    assert found.heights.shape == (3, 4)
    assert (found.heights[:, 0] + found.heights[:, 1] == 189).all()


def test_scores_of_hits_and_wrong_predictions_are_all_there(evaluation):
    found = evaluation.figure("scores", model="misses-small")
    assert found.counts.sum() == len(evaluation.cohort.models["misses-small"])


def test_the_threshold_curve_goes_through_the_average_precision(evaluation):
    found = evaluation.figure("thresholds")
    for line in found.lines:
        at = int(np.flatnonzero(np.isclose(line.x, 0.5))[0])
        assert line.y[at] == pytest.approx(evaluation[line.name, "AP@0.5"].value, abs=1e-12)
        assert (np.diff(line.y) <= 1e-12).all()
    assert (
        found.title
        == "The order of the models by AP depends on the threshold: it changes at 0.85 and 0.95"
    )


def test_a_criterion_without_shares_has_no_threshold_curve():
    head = 'schema = "calipers.protocol/1"\nextends = "overview"\n'
    toml = head + '[matching]\ncriterion = "centre-distance"\nthresholds = 20\n'
    ev = evaluated_demo(cal.Protocol.from_toml(toml), ci=False)
    for name in ("thresholds", "overlaps"):
        with pytest.raises(cal.UsageError, match="between 0 and 1"):
            ev.figure(name)
    assert ev.figure("froc").note.startswith("Hits at centre-distance")


def test_differences_are_around_zero(evaluation):
    found = evaluation.figure("differences", metrics=["AP@0.5"])
    assert found.reference == 0.0
    assert found.x.low == -found.x.high
    assert [row.name for row in found.rows] == ["AP@0.5"]
    assert found.series[0] == "mislabels − overpredicts"
    assert len(found.series) == 3


def test_the_blob_plot_shares_sum_to_one(evaluation):
    found = evaluation.figure("ranking", metric="AP@0.5")
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
    assert found.models[0] == "overpredicts"


def test_nothing_to_show_is_said():
    images = [{"boxes": [], "labels": []}] * 6
    nothing = [{"boxes": [], "labels": [], "scores": []}] * 6
    ev = cal.evaluate(cal.Cohort.from_arrays(images, nothing, classes=("a", "b")), "overview")
    assert ev.figure("froc").title == "There is nothing to find: no references"
    assert ev.figure("pr").title == "There is nothing to find: no references"
    assert ev.figure("overlaps").title == "There are no hits"
    assert all(
        math.isnan(mark.value) and mark.reason
        for row in ev.figure("headline").rows
        for mark in row.marks
    )


def test_the_title_of_the_headline_says_what_is_shown(evaluation):
    assert evaluation.figure("headline").title == (
        "AP@0.5 is 0.95 (overpredicts), 0.67 (misses-small), 0.34 (mislabels)"
    )
    one = cal.demo_cohort()
    from dataclasses import replace

    alone = cal.evaluate(replace(one, models={"a": one.models["mislabels"]}), "overview", ci=False)
    assert alone.figure("headline").title == "From 0.34 (AP@0.5) to 0.96 (RoDeO/loc)"
