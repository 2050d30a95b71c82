# SPDX-License-Identifier: Apache-2.0
"""Interval, p value and verdict of a difference never contradict each other, and no title claims
what was not tested.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import calipers as cal
from calipers.errors import UsageError
from calipers.evaluation.catalogue import FIGURES
from calipers.report.context import context_of
from calipers.report.sections import comparison_section
from calipers.show.comparison_tables import ranking_table
from calipers.statistics.comparison import smallest_p
from calipers.synthetic.volumes import demo_samples
from evaluated import evaluated_demo
from random_cohorts import random_cohort
from seeds import batches
from superlatives import SUPERLATIVE

OVERVIEW = replace(cal.Protocol.load("overview"), replicates=200)
# Titles of tested claims: differences carry a test, and the size of objects is tested where
# "localised worse" is said.
TESTED = ("differences", "soft-sizes")


@cache
def evaluated(n_images, seed):
    """Evaluate two models without intervals, once for all corrections."""
    cohort = random_cohort(n_images, 2, seed=seed, models=2, empty_share=0.2)
    if seed % 2:  # a second model of another quality
        first, second = list(cohort.models)
        worse = cal.corrupt(cohort, "position-noise", sigma=0.3 * (seed % 5), seed=seed, name="c")
        cohort = replace(cohort, models={first: cohort.models[first], second: worse.models["c"]})
    return cal.evaluate(cohort, replace(OVERVIEW, cluster="image"), ci=False)


def rows_of(n_images, seed, **options):
    return evaluated(n_images, seed).compare(metrics=["all"], **options).rows


@pytest.mark.parametrize("correction", ["none", "max-t", "holm"])
@pytest.mark.parametrize("seeds", batches(30, default=12))
def test_interval_and_verdict_never_contradict_each_other(correction, seeds):
    claims = 0
    for seed in seeds:
        n_images = (6, 8, 12, 25)[seed % 4]
        for row in rows_of(n_images, seed, correction=correction):
            e = row.estimate
            if np.isnan(e.low):
                # Replicates that agree have no spread, but a sign, and so a test.
                assert (row.verdict == "undefined") == (e.reason != "constant_input")
                continue
            without_zero = e.low > 0.0 or e.high < 0.0
            assert without_zero == (row.p < 0.05), (seed, row.sentence)
            assert e.low <= e.value <= e.high
            if row.verdict in ("a_better", "b_better"):
                claims += 1
                assert without_zero, row.sentence
            elif without_zero and row.p < 0.05:
                # The interval is that of one difference; the verdict is that of the whole family.
                assert row.p_adjusted > row.p, row.sentence
                assert correction != "none"
                assert f"over {row.family}" in row.sentence
    assert claims > 5


def test_five_units_are_the_only_exception_and_the_sentence_says_why():
    seen = 0
    for seed in range(40):
        for row in rows_of(5, seed, correction="none"):
            e = row.estimate
            if e.low > 0.0 or e.high < 0.0:
                seen += 1
                assert row.p >= smallest_p(5)
                assert row.verdict == "no_difference_shown"
                assert "the smallest that 5 images can give" in row.sentence
                assert "no p value can be below 0.0625, even where the interval" in row.sentence
    assert seen


def test_no_bound_of_a_difference_of_shares_lies_beyond_what_shares_can_differ():
    for seed in range(10):
        for row in rows_of(5, seed):
            if row.metric.startswith(("AP", "F", "sens", "PPV", "RoDeO")) and "/" not in row.metric:
                assert not row.estimate.low < -1.0
                assert not row.estimate.high > 1.0


def many(n_models, seed=3):
    cohort = random_cohort(30, 2, seed=seed, models=n_models)
    return cal.evaluate(cohort, OVERVIEW)


def test_of_many_models_the_leader_is_shown_and_all_pairs_are_counted():
    evaluation = many(6)
    page = context_of(evaluation, pictures=False)
    leader = evaluation.models_by_value[0]
    n_tests = 15 * (len(evaluation.headline) + 1)
    assert page.comparison.family == page.duel.family == n_tests - _untested(evaluation)
    section = comparison_section(page)
    shown = page.comparison.of_model(leader)
    assert len(shown.rows) == 5 * len(evaluation.headline)
    assert {row.model_a for row in shown.rows} == {leader}
    assert shown.rows[0].sentence in section
    assert shown.rows[0].sentence != page.comparison.rows[-1].sentence
    assert page.comparison.rows[-1].sentence not in section
    assert "is shown against the others" in section
    assert "together with those at one false alarm per image" in section


def _untested(evaluation):
    return evaluation.compare(metrics=evaluation.headline).untested


def test_tests_of_the_page_are_one_family():
    page = context_of(many(3), pictures=False)
    alone = page.evaluation.compare(metrics=page.evaluation.headline)
    assert page.comparison.family == page.duel.family > alone.family
    for joint, row in zip(page.comparison.rows, alone.rows):
        assert joint.p == row.p
        assert joint.p_adjusted >= row.p_adjusted - 1e-12 or np.isnan(row.p)


def test_max_t_needs_the_bootstrap():
    evaluation = many(2)
    assert {r.correction for r in evaluation.compare(test="permutation").rows} == {"holm"}
    assert {r.correction for r in evaluation.compare().rows} == {"max-t"}
    with pytest.raises(UsageError, match="max-t is a correction of bootstrap tests"):
        evaluation.compare(test="permutation", correction="max-t")


def evaluations():
    """Yield evaluations of one and more models, of boxes, error types and maps."""
    for n_models in (1, 2, 3, 6):
        yield cal.evaluate(random_cohort(24, 3, seed=n_models, models=n_models), OVERVIEW)
    tide = replace(cal.Protocol.load("tide"), replicates=100)
    yield cal.evaluate(random_cohort(20, 3, seed=9, models=3), tide)
    yield evaluated_demo(OVERVIEW, by=["centre", "size"])
    yield cal.evaluate_maps(list(demo_samples(8, 2, 32)), "anomaly")
    yield cal.evaluate(random_cohort(8, 2, seed=0, models=2, empty_share=1.0), OVERVIEW)


def test_no_title_names_an_untested_leader_or_worst_group():
    n_titles = 0
    for evaluation in evaluations():
        for name in FIGURES:
            try:
                title = evaluation.figure(name).title
            except (UsageError, StopIteration):
                continue  # not of this protocol
            n_titles += 1
            if name not in TESTED:
                assert not SUPERLATIVE.search(_without_names(title, evaluation)), (name, title)
    assert n_titles > 60


def _without_names(title, evaluation):
    """Return a title without names from the data; "the 25 classes with most references" is a rule
    of what is drawn and no finding.
    """
    for name in (*evaluation.models, *evaluation.cohort.classes, *evaluation.metrics):
        title = title.replace(name, "")
    return re.sub(r"The (first )?\d+ (classes with most references )?of \d+( groups)?:", "", title)


def test_a_ranking_says_that_its_share_is_no_probability():
    evaluation = many(3)
    ranking = evaluation.rank()
    assert "not a probability of being better" in ranking.sentence()
    assert "not probabilities of being better" in evaluation.figure("ranking").note
    (note,) = ranking_table(ranking).notes
    assert "not probabilities of being better" in note
