"""The page of monitors and their section in a report: what is said, what is hidden, and names that
bite.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import calipers as cal
from calipers.errors import UsageError
from calipers.monitors.page import (
    embarrassing,
    methods,
    monitors_page,
    monitors_with_display_names,
    verdict,
)
from calipers.monitors.scope import Scope
from calipers.monitors.tables import SHARES
from calipers.synthetic.runways import runway_cohort


@pytest.fixture(scope="module")
def made():
    return runway_cohort(80, seed=5)


@pytest.fixture(scope="module")
def found(made):
    scope = cal.scope_scores(made.cohort)
    return cal.evaluate_monitor(
        made.alarms, scope, 0.5, made.columns["ood"], threshold=1.0, replicates=200
    )


@pytest.fixture(scope="module")
def evaluation(made):
    return cal.evaluate(made.cohort, "oms", ci=False)


def test_the_report_tells_of_monitors_only_when_asked(evaluation, found, tmp_path):
    plain = evaluation.report(tmp_path / "plain.html", pictures=False).read_text()
    assert 'id="monitor"' not in plain
    page = evaluation.report(tmp_path / "page.html", pictures=False, monitor=found).read_text()
    assert '<section id="monitor"' in page
    assert 'id="fig-monitor-risk"' in page
    assert "failure-predictor: unsafe and accepted" in page


def test_ids_are_unique_in_both_pages(evaluation, found, made, tmp_path):
    page = evaluation.report(tmp_path / "page.html", monitor=found).read_text()
    own = found.save(tmp_path / "own", cohort=made.cohort).read_text()
    for content in (page, own):
        ids = re.findall(r'\sid="([^"]+)"', content)
        assert len(ids) == len(set(ids))


def test_a_redacted_report_names_no_image(evaluation, found, tmp_path):
    page = evaluation.report(tmp_path / "page.html", redact=True, monitor=found).read_text()
    assert '<section id="monitor"' in page
    assert "images/000" not in page


def test_monitors_of_another_model_or_of_other_images_are_refused(evaluation, found, tmp_path):
    other = replace(found, scope=replace(found.scope, model="detectr"))
    with pytest.raises(UsageError, match="did you mean 'detector'"):
        evaluation.report(tmp_path / "page.html", monitor=other)
    strange = replace(found, scope=replace(found.scope, images=("x", *found.scope.images[1:])))
    with pytest.raises(UsageError, match="watch 1 images that are not evaluated here, such as 'x'"):
        evaluation.report(tmp_path / "page.html", monitor=strange)


def test_sentences_in_tables_of_the_page_are_not_cut(found):
    whole = monitors_page(found)
    for words in SHARES.values():
        assert f">{words}</th>" in whole


def test_embarrassing_images_are_the_most_confident_errors(found):
    accepted, rejected = embarrassing(found)[:2]
    alarm = found.basis.monitors.alarm[found.monitors.index("failure-predictor")]
    unsafe = found.scope.score < 0.5
    wrong = np.flatnonzero(unsafe & (alarm < 1.0))
    assert accepted.title == "failure-predictor: unsafe and accepted"
    assert accepted.images.tolist() == wrong[np.argsort(alarm[wrong])].tolist()
    assert (
        accepted.why
        == f"{len(wrong)} of {unsafe.sum()} images that are unsafe, lowest alarms first."
    )
    calm = np.flatnonzero(~unsafe & (alarm >= 1.0))
    assert rejected.images.tolist() == calm[np.argsort(-alarm[calm])].tolist()


def test_only_images_that_are_judged_are_shown(made):
    scope = cal.scope_scores(made.cohort)
    found = cal.evaluate_monitor(made.alarms, scope, 0.5, threshold="youden", ci=False)
    assert found.split.random
    for group in embarrassing(found):
        assert found.basis.judged[group.images].all()


def test_the_verdict_is_on_the_best_monitor_and_says_no_to_chance(made, found):
    first, further = verdict(found)
    assert first.startswith("Of 100 unsafe images failure-predictor lets ")
    assert any(
        said.startswith("failure-predictor has the highest AUROC under OMS labels")
        for said in further
    )
    alone = cal.evaluate_monitor(
        {"random": made.alarms["random"]},
        cal.scope_scores(made.cohort),
        0.5,
        threshold=1.0,
        replicates=200,
    )
    assert verdict(alone)[0].startswith("No. random gives an image that is unsafe a higher alarm")


def test_without_any_unsafe_image_the_page_says_so(made):
    found = cal.evaluate_monitor(
        made.alarms, cal.scope_scores(made.cohort), 0.0, threshold=1.0, ci=False
    )
    page = monitors_page(found)
    assert "results are undefined, no alarm is wanted on any image" in page


def test_names_that_bite_are_escaped_and_long_ones_cut(made, tmp_path):
    scope = cal.scope_scores(made.cohort)
    names = ("<script>alert(1)</script>", "long " * 100, "a", "a\u200b")
    alarms = {
        name: np.asarray(values)
        for name, values in zip(names, [*made.alarms.values(), np.arange(80.0)])
    }
    found = cal.evaluate_monitor(alarms, scope, 0.5, made.columns["ood"], threshold=1.0, ci=False)
    shown = monitors_with_display_names(found)
    assert len(set(shown.monitors)) == 4
    assert max(map(len, shown.monitors)) < 200
    assert [row.estimate.value for row in shown.rows] == pytest.approx(
        [row.estimate.value for row in found.rows], nan_ok=True
    )
    page = found.save(tmp_path / "out", cohort=made.cohort).read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "long " * 60 not in page
    with pytest.raises(cal.InputError):
        found.save(tmp_path / "out")


def test_methods_state_scope_labels_thresholds_and_intervals(found):
    said = methods(found)
    assert "box-iou at 0.5 (assignment by-overlap)" in said
    assert "an alarm wanted, if s < 0.5" in said
    assert "random: threshold 1, as given" in said
    assert "200 bootstrap replicates, resampled by image (n = 80, seed 0)" in said
    labels = Scope.from_labels([0, 1, 1, 0], [0, 1, 0, 0])
    simple = methods(cal.evaluate_monitor([0.1, 0.2, 0.9, 0.3], labels, threshold=0.5, ci=False))
    assert "is safe if the label that model predicts is the true one" in simple
    assert "No OOD labels were given" in simple


def test_a_notebook_shows_sentences_and_both_paradigms(found):
    shown = found._repr_html_()
    assert "AUROC, OMS labels" in shown
    assert "AUROC, OOD labels" in shown
    assert "failure-predictor" in shown
