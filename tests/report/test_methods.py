# SPDX-License-Identifier: Apache-2.0
"""The paragraph on methods is true of the protocol that was used."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

import calipers as cal
from calipers.report.methods import intervals_in_words, methods_section
from evaluated import evaluated_demo, shown
from random_cohorts import random_cohort

QUICK = replace(cal.Protocol.load("overview"), replicates=200)


def words(cohort=None, protocol=QUICK, **choices):
    if cohort is None:
        ev = evaluated_demo(protocol, **choices)
    else:
        ev = cal.evaluate(cohort, protocol, **choices)
    return unescape(methods_section(shown(ev)).split("</ol>")[0])


def test_a_distance_is_a_hit_below_its_threshold():
    near = replace(QUICK.matching, criterion="centre-distance", threshold=20.0, score_cut=0.3)
    protocol = replace(
        QUICK.only(["sensitivity@0.5"]), matching=near, thresholds=(20.0,), score_cut=0.3
    )
    said = words(protocol=protocol)
    assert "at centre-distance <= 20 (" in said
    assert "scores of at least 0.3" in said


def test_thresholds_that_are_averaged_are_named():
    assert "means over 10 thresholds from 0.5 to 0.95" in words()


def test_the_source_of_the_average_precision_follows_its_interpolation():
    assert "Everingham" in words(protocol=replace(cal.Protocol.load("voc2007"), replicates=100))
    assert "Everingham" not in words()


def test_tests_are_cited_only_if_they_were_used():
    assert "Phipson" not in words()  # pages do not permute
    assert "Westfall" in words()
    assert "Westfall" not in words(ci=False)


def test_the_forms_of_intervals_are_described_where_they_are_used():
    """In the paragraph for a paper and in the details beside it, which used to name another one."""
    said = {}
    for preset in ("coco", "tide"):
        protocol = replace(cal.Protocol.load(preset), replicates=100)
        evaluation = evaluated_demo(protocol)
        for text in (words(protocol=protocol), intervals_in_words(evaluation)):
            assert (
                "Where few patients, or nearly all of them, had an error, the interval is Jeffreys'"
                in text
            )
            assert "Clopper" not in text
            said.setdefault(preset, []).append("the mid-p gamma interval" in text)
    assert said == {"coco": [False, False], "tide": [True, True]}


def test_without_intervals_none_are_described():
    assert "No intervals: there is only one patient." in words(
        random_cohort(1, 2, seed=5, models=2, empty_share=0)
    )
    assert "No confidence intervals were computed." in words(ci=False)


def test_strata_and_levels_are_told():
    assert "resampled by patient (n = 80), drawn within each centre" in words(
        protocol=replace(QUICK, strata="centre")
    )
    cohort = cal.demo_cohort()
    rooms = [f"room {k % 8}" for k in range(cohort.n_images)]
    protocol = replace(QUICK, cluster=("room", "patient"))
    assert "resampled by room (n = 8), each with all its patients" in words(
        cohort.with_groups({"room": rooms}), protocol
    )


def test_ignored_references_are_told():
    cohort = random_cohort(30, 3, seed=4, models=2, ignore_share=0.2)
    number = int(cohort.references.ignore.sum())
    assert f"({number} of them ignored" in words(cohort)
    assert "ignored" not in words()


def test_the_ranking_is_told_only_where_it_is_shown():
    assert "ranking the bootstrap replicates" in words()
    assert "ranking the bootstrap replicates" not in words(ci=False)


def test_bands_that_are_made_otherwise_are_told():
    assert "Bands of curves" not in words()
    said = words(protocol=replace(QUICK, interval="percentile"))
    assert "(percentile, seed 0)" in said
    assert "Bands of curves are pointwise bootse-t-logit intervals from 200 replicates." in said
