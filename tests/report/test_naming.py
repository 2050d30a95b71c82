# SPDX-License-Identifier: Apache-2.0
"""Names of the page can be read and told apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

import calipers as cal
from calipers.report.context import context_of
from calipers.report.naming import Short, bearable
from calipers.report.page import page

QUICK = replace(cal.Protocol.load("overview"), replicates=100)


def evaluation_of(first, second):
    box = {"boxes": [[0, 0, 10, 10]], "labels": [0]}
    found, nothing = [{**box, "scores": [0.5]}] * 6, [{"boxes": [], "labels": [], "scores": []}] * 6
    cohort = cal.Cohort.from_arrays([box] * 6, {first: found, second: nothing}, classes=(first, "b"))
    return cal.evaluate(cohort, QUICK)


@pytest.mark.parametrize("name", ["", " ", "\u3164", "\ufe0f"])
def test_a_name_that_shows_nothing_is_told_as_such(name):
    ev = bearable(evaluation_of(name, "other"))
    assert ev.models[0].startswith("(no name")
    assert ev.cohort.classes[0] == ev.models[0]
    assert "(no name" in page(context_of(ev, pictures=False))


@pytest.mark.parametrize(
    ("first", "second"),
    [("a\u200b", "a\u200c"), ("a b", "a  b"), ("a", "a "), ("\u00e9", "e\u0301"), ("a", "a\ufe0f")],
)
def test_names_that_look_the_same_are_told_apart(first, second):
    names = Short([first, second])
    shown = [names(name) for name in (first, second)]
    assert any("(" in name for name in shown)
    assert len({name.split("(")[-1] for name in shown}) == 2


def test_usual_names_stay():
    assert not Short(["a", "b", "model 1", "Tumor größer", "病変", "a\u0301"]).changed


def test_long_names_become_short_and_stay_different():
    names = Short(["x" * 300, "x" * 301])
    assert names("x" * 300) != names("x" * 301)
    assert len(names("x" * 300)) < 200
