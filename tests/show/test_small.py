# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import calipers as cal
from calipers.results.estimate import Estimate
from evaluated import evaluated_demo

QUICK = replace(cal.Protocol.load("overview"), replicates=200)
NAN = float("nan")


@pytest.fixture(scope="module")
def evaluation():
    return evaluated_demo(QUICK)


def words(shown):
    """Return what a notebook shows, without its style."""
    bare = re.sub(r"<style>.*?</style>", "", shown, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", bare).split())


def test_an_estimate_shows_value_interval_and_n(evaluation):
    e = evaluation["mislabels", "RoDeO"]
    said = words(e._repr_html_())
    assert said == (
        f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}] 95 % confidence interval, "
        "resampled by patient (n = 80); n = 120 images, 189 references"
    )


def test_an_undefined_estimate_says_why():
    e = Estimate(NAN, NAN, NAN, 0.95, "none", "image", 3, 3, 0, 2, NAN, 0, "no_references")
    assert words(e._repr_html_()) == "undefined: no references n = 3 images, 0 references"


def test_a_value_without_interval_says_why():
    e = Estimate(0.5, NAN, NAN, 0.95, "none", "patient", 3, 3, 4, 2, NAN, 0, "too_few_units")
    assert words(e._repr_html_()) == "0.500 too few patients n = 3 images, 4 references"


def test_a_comparison_is_a_row_per_difference(evaluation):
    found = evaluation.compare("mislabels", "overpredicts", metrics=["AP@0.5", "RoDeO"])
    shown = found._repr_html_()
    assert shown.count("<tr") == 3
    said = words(shown)
    assert "p values are corrected for 2 tests (max-t), intervals are not." in said
    assert "metric mislabels overpredicts difference p (max-t) verdict" in said
    assert re.search(
        r"AP@0\.5 0\.\d{3} 0\.\d{3} -0\.\d{3} \[-0\.\d{3}, -0\.\d{3}\] .{5,12} overpredicts better",
        said,
    )


def test_names_are_text_and_the_style_reaches_nothing_else():
    box = {"boxes": [[0, 0, 9, 9]], "labels": [0]}
    models = {name: [{**box, "scores": [0.5]}] * 6 for name in ("<img src=x>", "b")}
    ev = cal.evaluate(cal.Cohort.from_arrays([box] * 6, models, classes=("<b>",)), QUICK)
    for shown in (ev._repr_html_(), ev.compare(metrics=["AP@0.5"])._repr_html_()):
        tags = set()
        parser = HTMLParser()
        parser.handle_starttag = lambda tag, attrs, seen=tags: seen.add(tag)
        parser.feed(shown)
        assert not tags & {"img", "b", "script"}
        style = re.search(r"<style>(.*?)</style>", shown, re.DOTALL)[1]
        plain = re.sub(r"@media[^{]*\{", "", style)
        selectors = [
            part.strip() for rule in re.findall(r"([^{}]+)\{", plain) for part in rule.split(",")
        ]
        assert all(part.startswith(".calipers") for part in selectors)
