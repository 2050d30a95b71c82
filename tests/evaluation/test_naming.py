# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace

import pytest

import calipers as cal
from calipers.evaluation.rename import with_display_names
from calipers.report.context import context_of
from calipers.report.page import page
from calipers.show.words import Short
from evaluated import evaluated_demo

LONG = "n" * 1_000_000
QUICK = replace(cal.Protocol.load("overview"), replicates=200)


def named(suffix):
    """Return an evaluation in which class, model, image, patient and a column have long names."""
    name = LONG + suffix
    images = [
        {"boxes": [[0, 0, 9, 9]], "labels": [0], "image_id": f"{name}{k}", name: f"{k % 3}"}
        for k in range(6)
    ]
    found = [
        {"boxes": [[0, 0, 9, 9]], "labels": [0], "scores": [0.5], "image_id": f"{name}{k}"}
        for k in range(6)
    ]
    cohort = cal.Cohort.from_arrays(
        images, {name: found, "short": found}, classes=(name, LONG + "other")
    )
    return cal.evaluate(cohort, replace(QUICK, cluster=name), by=[name])


def test_long_names_are_shortened_everywhere_and_stay_apart():
    shown = with_display_names(named("!"))
    names = [
        *shown.models,
        *shown.cohort.classes,
        *shown.cohort.images.ids,
        *shown.cohort.images.groups,
    ]
    assert max(map(len, names)) < 200
    assert len(set(shown.cohort.images.ids)) == 6
    assert len(set(shown.cohort.classes)) == 2
    assert all(len(row.model) < 200 and len(row.label or "") < 200 for row in shown.rows)
    assert shown.groupings[0].summaries[0].model in shown.models


def test_the_numbers_stay_and_the_evaluation_goes_on_working():
    evaluation = named("!")
    shown = with_display_names(evaluation)
    for now, before in zip(shown.rows, evaluation.rows, strict=True):
        assert replace(now.estimate, unit="") == replace(before.estimate, unit="") or math.isnan(
            now.estimate.value
        )
    assert shown.compare(metrics=["AP@0.5"]).n_units == 3
    assert shown.statistics["unit"].startswith("n" * 120 + "…")


def test_short_names_are_left_alone():
    evaluation = evaluated_demo(QUICK, ci=False)
    assert with_display_names(evaluation) is evaluation


def test_a_page_of_long_names_stays_small(tmp_path):
    path = named("!").report(tmp_path / "page.html")
    assert path.stat().st_size < 400_000


def evaluation_of(first, second):
    box = {"boxes": [[0, 0, 10, 10]], "labels": [0]}
    found, nothing = [{**box, "scores": [0.5]}] * 6, [{"boxes": [], "labels": [], "scores": []}] * 6
    cohort = cal.Cohort.from_arrays(
        [box] * 6, {first: found, second: nothing}, classes=(first, "b")
    )
    return cal.evaluate(cohort, QUICK)


@pytest.mark.parametrize("name", ["", " ", "\u3164", "\ufe0f"])
def test_a_name_that_shows_nothing_is_told_as_such(name):
    ev = with_display_names(evaluation_of(name, "other"))
    assert ev.models[0].startswith("(no name")
    assert ev.cohort.classes[0] == ev.models[0]
    assert "(no name" in page(context_of(ev, pictures=False))


@pytest.mark.parametrize(
    ("first", "second"),
    [("a\u200b", "a\u200c"), ("a b", "a  b"), ("a", "a "), ("\u00e9", "e\u0301"), ("a", "a\ufe0f")],
)
def test_names_that_look_the_same_are_told_apart(first, second):
    names = Short([first, second])
    shown = [names.name(name) for name in (first, second)]
    assert any("(" in name for name in shown)
    assert len({name.split("(")[-1] for name in shown}) == 2


def test_usual_names_stay():
    assert not Short(["a", "b", "model 1", "Tumor größer", "病変", "a\u0301"]).changed


def test_long_names_become_short_and_stay_different():
    names = Short(["x" * 300, "x" * 301])
    assert names.name("x" * 300) != names.name("x" * 301)
    assert len(names.name("x" * 300)) < 200
