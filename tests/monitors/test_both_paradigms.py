"""OMS and OOD side by side: tables of disagreement, paired differences, orders of monitors,
curves, words.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import calipers as cal
from calipers.monitors.estimates import table
from calipers.monitors.result import MonitorEvaluation, MonitorRanking, Order, best_shares
from calipers.monitors.scope import Scope

N = 600


@pytest.fixture(scope="module")
def found() -> MonitorEvaluation:
    """Shifts that do no harm, failures in distribution:
    a shift detector and a failure predictor.
    """
    rng = np.random.default_rng(1)
    ood, fails = np.arange(N) % 3 == 0, rng.random(N) < 0.3
    alarms = {
        "failures": fails + rng.normal(0, 0.5, N),
        "shifts": ood + rng.normal(0, 0.5, N),
    }
    score = np.where(fails, 0.2, 1.0) - 0.1 * (rng.random(N) < 0.5)
    return cal.evaluate_monitor(
        alarms, Scope.from_values(score, model="detector"), 0.5, ood, replicates=300
    )


def labels(found: MonitorEvaluation) -> tuple[np.ndarray, np.ndarray]:
    oms, ood = (one.positive for one in found.basis.labels if not one.swept)
    return oms, ood


def test_the_table_of_labels_counts_every_image_once(found: MonitorEvaluation) -> None:
    unsafe, ood = labels(found)
    assert found.disagreement is not None
    assert found.disagreement.labels.sum() == N
    assert found.disagreement.labels[1, 0] == (ood & ~unsafe).sum()
    assert found.disagreement.labels[0, 1] == (~ood & unsafe).sum()


def test_the_tables_of_monitors_count_the_judged_images(found: MonitorEvaluation) -> None:
    unsafe, ood = labels(found)
    judged = found.basis.judged
    assert found.disagreement is not None
    for k, name in enumerate(found.monitors):
        threshold = found.thresholds[name]
        assert threshold is not None
        rejected = found.basis.monitors.alarm[k] >= threshold.value
        counts = found.disagreement.alarms[name]
        assert counts.sum() == judged.sum()
        assert counts[1, 0, 1] == (ood & ~unsafe & rejected & judged).sum()
        share = found.disagreement.rejected(name, ood=True, unsafe=False)
        assert share.value == pytest.approx(counts[1, 0, 1] / counts[1, 0].sum())
        assert share.n_images == counts[1, 0].sum()


def test_shares_of_labels_have_intervals(found: MonitorEvaluation) -> None:
    unsafe, ood = labels(found)
    assert found.disagreement is not None
    expected = {
        "OOD-safe": (~unsafe)[ood].mean(),
        "ID-unsafe": unsafe[~ood].mean(),
        "unsafe-ID": (~ood)[unsafe].mean(),
        "safe-OOD": ood[~unsafe].mean(),
        "labels-agree": (ood == unsafe).mean(),
    }
    for name, value in expected.items():
        e = found.disagreement.share(name)
        assert e.value == pytest.approx(value)
        assert e.low < e.value < e.high
    with pytest.raises(cal.UsageError, match="did you mean 'OOD-safe'"):
        found.disagreement.share("OOD-save")
    with pytest.raises(cal.UsageError, match="failures"):
        found.disagreement.rejected("failure", ood=True, unsafe=True)


def test_cells_are_written_one_by_one(found: MonitorEvaluation) -> None:
    cells = found.counts["disagreement"]
    assert len(cells) == 4 + 2 * 8
    assert sum(cell["share"] for cell in cells if cell["monitor"] == "shifts") == pytest.approx(1.0)


def test_a_table_has_an_axis_for_each_flag() -> None:
    yes, no = np.array([True, True, False]), np.array([False, False, False])
    assert table(yes, no).tolist() == [[1, 0], [2, 0]]


def test_without_ood_labels_there_is_no_table() -> None:
    found = cal.evaluate_monitor([0.1, 0.9, 0.3], [1, 0, 1], ci=False)
    assert found.disagreement is None
    assert found.counts == {"disagreement": []}
    assert found.paradigm_gaps == {}


def test_monitors_are_compared_on_the_same_draws(found: MonitorEvaluation) -> None:
    d = found.compare("failures", "shifts")
    assert d.estimate.value == pytest.approx(
        found.get("AUROC", "failures").value - found.get("AUROC", "shifts").value
    )
    assert d.verdict == "a_better"
    assert found.compare("failures", "shifts", paradigm="ood").verdict == "b_better"
    lower = found.compare("failures", "shifts", "FPR95")
    assert lower.estimate.value < 0
    assert lower.verdict == "a_better"
    assert "lower is better" in lower.sentence


def test_a_monitor_does_not_differ_from_itself(found: MonitorEvaluation) -> None:
    for metric in ("AUROC", "FPR95", "MCC", "RH", "E-AURC"):
        d = found.compare("failures", "failures", metric)
        assert d.estimate.value == 0.0
        assert d.verdict == "no_difference_shown"


def test_a_comparison_at_a_threshold_is_of_the_judged_images(found: MonitorEvaluation) -> None:
    d = found.compare("failures", "shifts", "sensitivity")
    assert d.estimate.n_images == found.basis.judged.sum()
    assert d.estimate.n_units == found.basis.judged.sum()


def test_a_monitor_without_threshold_does_not_keep_the_others_from_being_compared() -> None:
    rng = np.random.default_rng(4)
    fails = rng.random(80) < 0.4
    alarms = {name: fails + rng.normal(0, 1, 80) for name in "abc"}
    rules = {"a": 0.5, "b": None, "c": 0.6}
    found = cal.evaluate_monitor(alarms, ~fails, threshold=rules, replicates=100)
    d = found.compare("a", "c", "sensitivity")
    assert d.estimate.value == pytest.approx(
        found.get("sensitivity", "a").value - found.get("sensitivity", "c").value
    )
    alone = cal.evaluate_monitor(
        {k: alarms[k] for k in "ac"}, ~fails, threshold={"a": 0.5, "c": 0.6}, replicates=100
    )
    assert alone.compare("a", "c", "sensitivity").estimate == d.estimate
    with pytest.raises(
        cal.UsageError, match="sensitivity of b has no row for oms: no such labels, or no threshold"
    ):
        found.compare("a", "b", "sensitivity")
    with pytest.raises(cal.UsageError, match="sensitivity of b"):
        found.compare_all("sensitivity")


def test_a_comparison_at_a_tau_of_the_sweep(found: MonitorEvaluation) -> None:
    tau = found.taus[0]
    d = found.compare("failures", "shifts", tau=tau)
    assert d.value_a == found.get("AUROC", "failures", tau=tau).value


def test_what_is_not_stated_cannot_be_compared(found: MonitorEvaluation) -> None:
    with pytest.raises(cal.UsageError, match="no quantity"):
        found.compare("failures", "shifts", "AUC")


def test_the_paradigms_disagree_on_the_best_monitor(found: MonitorEvaluation) -> None:
    ranking = found.ranking("AUROC")
    oms, ood = ranking.order("oms"), ranking.order("ood")
    assert oms is not None
    assert ood is not None
    assert (oms.winners, ood.winners) == (("failures",), ("shifts",))
    assert ranking.agreement == -1.0
    assert oms.wins["failures"] > 0.99
    assert len(ranking.swept) == len(found.taus)
    assert ranking.wins["failures"] >= 2
    assert found.ranking("FPR95").order("oms") is not None
    assert found.ranking("MCC").swept == ()
    with pytest.raises(cal.UsageError, match="no quantity"):
        found.ranking("AUC")


def test_equal_monitors_share_the_first_place() -> None:
    level = Order("oms", None, {"a": 0.5, "b": 0.5, "c": 0.4}, True, {})
    assert level.ranks == {"a": 1, "b": 1, "c": 3}
    assert level.winners == ("a", "b")
    low = Order("oms", None, {"a": 0.5, "b": 0.1}, False, {})
    assert low.winners == ("b",)
    unknown = Order("ood", None, {"a": math.nan, "b": 0.1}, True, {})
    assert (unknown.ranks, unknown.winners) == ({}, ())
    assert math.isnan(MonitorRanking("AUROC", (low, unknown)).agreement)


def test_shares_of_the_best_part_ties() -> None:
    drawn = np.array([[0.5, 0.5], [0.6, 0.4], [np.nan, 0.1]])
    assert best_shares(["a", "b"], drawn, True) == {"a": 0.75, "b": 0.25}
    assert best_shares(["a", "b"], drawn[2:], True) == {}


def test_curves_end_where_they_must(found: MonitorEvaluation) -> None:
    curves = found.curves("failures")
    assert (curves.tpr[0], curves.fpr[0], curves.tpr[-1], curves.fpr[-1]) == (0, 0, 1, 1)
    assert np.trapezoid(curves.tpr, curves.fpr) == pytest.approx(
        found.get("AUROC", "failures").value
    )
    assert curves.coverage[-1] == 1.0
    assert curves.risk[-1] == pytest.approx(curves.prevalence)
    assert (curves.risk >= curves.best_risk - 1e-12).all()
    assert curves.risk.mean() == pytest.approx(
        found.get("AURC", "failures").value
    )  # no ties: every k is a point


def test_curves_of_one_kind_of_images_are_empty() -> None:
    found = cal.evaluate_monitor(np.arange(6.0), np.ones(6), threshold=None, ci=False)
    assert len(found.curves().tpr) == 0


def test_the_words_answer_the_question(found: MonitorEvaluation) -> None:
    said = found.sentences()
    mean = next(one for one in said if one.startswith("Of 100 unsafe images failures lets"))
    over = found.over_halves("sensitivity", "failures")
    assert f"lets {100 * (1 - over.mean):.0f} through on average over 50 random halves" in mean
    span = f"{100 * (1 - over.high):.0f} to {100 * (1 - over.low):.0f} in nine of ten halves"
    assert span in mean
    first = "In the first half, of 100 unsafe images failures lets"
    lets = next(one for one in said if one.startswith(first))
    missed = 100 * (1 - found.get("sensitivity", "failures").value)
    assert f"lets {missed:.0f} through (95 % CI" in lets
    assert f"{found.get('sensitivity', 'failures').n_references} unsafe images" in lets
    assert found.get("AUROC", "shifts").low < 0.5 < found.get("AUROC", "shifts").high
    chance = {one.split()[0]: one for one in said if "chance" in one}
    assert set(chance) == {"failures", "shifts"}
    assert chance["failures"].endswith("pairs (182 unsafe, 418 safe): that is better than chance.")
    assert chance["shifts"].endswith(
        "pairs (182 unsafe, 418 safe): it is not shown to be better than chance."
    )
    assert any("Under OOD labels shifts looks better than under OMS labels" in one for one in said)
    assert any("Under OOD labels failures looks worse than under OMS labels" in one for one in said)
    assert any("OOD labels are not shown to predict" in one for one in said)
    assert any("choosing by OOD labels would choose another monitor" in one for one in said)
    assert any(
        "failures is better than every other monitor (all pairs tested)" in one for one in said
    )


def test_without_intervals_the_words_claim_nothing() -> None:
    rng = np.random.default_rng(3)
    fails = rng.random(100) < 0.4
    found = cal.evaluate_monitor(
        fails + rng.normal(0, 1, 100), ~fails, ood=rng.random(100) < 0.5, ci=False
    )
    said = " ".join(found.sentences())
    assert "no interval shows how certain that is" in said
    assert "better than chance" not in said
    assert any("not requested" in one for one in found.warnings)


def test_heavy_ties_and_idle_thresholds_are_warned_of() -> None:
    rng = np.random.default_rng(3)
    fails = rng.random(100) < 0.4
    found = cal.evaluate_monitor(
        {"count": rng.integers(0, 4, 100)}, ~fails, threshold=9.0, ci=False
    )
    said = " ".join(found.warnings)
    assert "share their score with another one (4 different scores)" in said
    assert "its threshold rejects none of 100 images" in said


def test_tuning_images_of_one_kind_choose_nothing() -> None:
    found = cal.evaluate_monitor(
        np.linspace(0.01, 0.9, 40),
        np.arange(40) < 30,
        tuning=np.arange(40) < 20,
        threshold="youden",
        ci=False,
    )
    assert math.isnan(found.get("MCC").value)
    assert found.get("MCC").reason == "single_category"
    assert any("no threshold can be chosen" in one for one in found.warnings)
    assert any("At its threshold, results of" in one for one in found.sentences())
