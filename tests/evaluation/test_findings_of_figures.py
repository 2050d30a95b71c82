# SPDX-License-Identifier: Apache-2.0
"""Titles and notes of figures claim nothing that the numbers do not say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.evaluation.figures import differences, hit_rule
from calipers.evaluation.figures_errors import _orders_in_words
from calipers.show.figures import HeatMap, Line
from calipers.show.words import percent_text, short_name
from evaluated import evaluated_demo
from random_cohorts import random_cohort

QUICK = replace(cal.Protocol.load("overview"), replicates=200)
LEVELS = (0.1, 0.5, 0.9)


def line(name, *y):
    unknown = np.full(len(y), np.nan)
    return Line(name, np.array(LEVELS), np.array(y, np.float64), unknown, unknown)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [line("A", 0.9, 0.5, 0), line("B", 0.9, 0.6, 0)],
            "The order of the models by AP is the same at every threshold",
        ),
        (
            [line("A", 0.8, 0.5, 0.1), line("B", 0.9, 0.6, 0.2)],
            "The order of the models by AP is the same at every threshold",
        ),
        (
            [line("A", 0.9, 0.5, 0.1), line("B", 0.9, 0.5, 0.1)],
            "The models have the same AP at every threshold",
        ),
        (
            [line("A", 0.9, 0.5, 0.1), line("B", 0.8, 0.6, 0.05)],
            "The order of the models by AP depends on the threshold: it changes at 0.5 and 0.9",
        ),
        ([line("A", 0, 0, 0)], "From a threshold of 0.1 to 0.9 the AP stays at 0.00"),
    ],
)
def test_the_order_over_thresholds(lines, said):
    assert _orders_in_words(LEVELS, lines) == said


@pytest.mark.parametrize("preset", ["voc2007", "voc2012", "overview"])
def test_the_curve_over_thresholds_runs_through_the_average_precision(preset):
    ev = evaluated_demo(replace(cal.Protocol.load(preset), replicates=100))
    found = ev.figure("thresholds")
    for drawn in found.lines:
        at = np.flatnonzero(np.isclose(drawn.x, 0.5))[0]
        assert drawn.y[at] == ev.get("AP@0.5", model=drawn.name).value


def test_a_figure_of_some_differences_counts_them_all():
    found = cal.evaluate(random_cohort(20, 2, seed=0, models=4), QUICK).compare()
    figure = differences(found, most=5)
    assert len(figure.rows) == 5
    assert f"of {len(found.rows)} differences" in figure.title
    assert f"corrected for {found.family} (max-t)" in figure.note
    assert "The first 5 of 36 differences." in figure.note


def test_differences_that_could_not_be_tested_are_not_counted_as_chance():
    found = cal.evaluate(
        random_cohort(4, 2, seed=0, models=2, empty_share=0), replace(QUICK, cluster="image")
    ).compare()
    figure = differences(found)
    assert found.untested
    assert f"of {len(found.rows) - found.untested} tested differences" in figure.title
    assert figure.note.startswith("No intervals")


def test_a_heat_map_says_how_many_classes_it_shows_and_has_no_intervals():
    found = cal.evaluate(random_cohort(20, 30, seed=0, models=5), QUICK).figure("classes")
    assert isinstance(found, HeatMap)
    assert len(found.values) == 26
    assert found.note == "The 25 classes with most references of 30."
    assert found.title.startswith("The 25 classes with most references of 30: ")


def test_a_title_gives_the_range_over_classes_and_names_no_worst_one():
    references = [{"boxes": [[0, 0, 9, 9]], "labels": [k % 3]} for k in range(12)]
    found = [{"boxes": [[0, 0, 9, 9]], "labels": [0], "scores": [0.5]} for _ in references]
    ev = cal.evaluate(
        cal.Cohort.from_arrays(references, {"m": found}, classes=("a", "b", "c")), QUICK
    )
    assert (
        ev.figure("classes", metric="sensitivity@0.5").title
        == "sensitivity@0.5 ranges from 0.00 to 1.00 for m"
    )


def test_one_group_does_not_vary_nor_stay():
    cohort = random_cohort(12, 2, seed=0).with_groups({"site": ["S"] * 12})
    assert cal.evaluate(cohort, QUICK, by="site").figure("groups").title == "AP@0.5"


def test_a_hit_is_told_as_its_criterion_decides():
    view = QUICK.matching
    assert hit_rule(view) == "box-iou >= 0.5"
    assert hit_rule(replace(view, strict=True)) == "box-iou > 0.5"
    assert hit_rule(replace(view, threshold=0.0)) == "box-iou > 0"
    assert (
        hit_rule(replace(view, criterion="centre-distance", threshold=10.0))
        == "centre-distance <= 10"
    )
    assert hit_rule(replace(view, criterion="point-in-box")) == "point-in-box"


def test_only_all_is_all_and_only_none_is_none():
    assert [percent_text(share) for share in (0.0, 0.0004, 0.5, 0.9996, 1.0)] == [
        "0 %",
        "under 0.1 %",
        "50 %",
        "over 99.9 %",
        "100 %",
    ]


def test_long_names_of_one_family_stay_apart():
    first, second = (f"{'faster-rcnn-' * 6}fold-{k}" for k in (1, 2))
    assert short_name(first) != short_name(second)
    assert len(short_name(first)) == 40
