"""Monitors against both kinds of labels: what is stated, on which images,
and where nothing can be.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.monitors.result import MonitorEvaluation
from calipers.monitors.scope import Scope
from reference import monitors as slow

N = 400


def study(seed: int = 0, n: int = N) -> tuple[dict[str, np.ndarray], Scope, np.ndarray]:
    """A failure predictor, a shift detector and noise; failures and shifts overlap in part."""
    rng = np.random.default_rng(seed)
    ood = rng.random(n) < 0.3
    score = np.clip(np.round(rng.normal(0.8 - 0.2 * ood, 0.25), 1), 0, 1)
    alarms = {
        "failure": -score + rng.normal(0, 0.2, n),
        "shift": ood + rng.normal(0, 0.4, n),
        "noise": rng.normal(size=n),
    }
    return alarms, Scope.from_values(score), ood


@pytest.fixture(scope="module")
def found() -> MonitorEvaluation:
    alarms, scope, ood = study()
    return cal.evaluate_monitor(alarms, scope, 0.6, ood, replicates=300)


def test_all_quantities_are_stated_under_both_paradigms(found: MonitorEvaluation) -> None:
    names = {
        "AUROC",
        "AUPR",
        "AUPR-in",
        "FPR95",
        "TNR95",
        "best-F1",
        "sensitivity",
        "FPR",
        "precision",
        "F1",
        "MCC",
    }
    names |= {
        "g-mean",
        "Youden",
        "AURC",
        "E-AURC",
        "AUGRC",
        "SG",
        "RH",
        "AC",
        "coverage",
        "rejected",
    }
    for paradigm in ("oms", "ood"):
        for monitor in found.monitors:
            for name in names:
                e = found.get(name, monitor, paradigm)
                assert not math.isnan(e.value)
                assert e.low <= e.value <= e.high
    assert found.get("AURC/graded", "failure").n_images == N


def test_a_row_is_stated_once(found: MonitorEvaluation) -> None:
    keys = Counter((row.model, row.metric, tuple((row.group or {}).items())) for row in found.rows)
    assert set(keys.values()) == {1}


def test_numbers_without_a_threshold_are_of_all_images() -> None:
    alarms, scope, ood = study()
    found = cal.evaluate_monitor(alarms, scope, 0.6, ood, ci=False)
    unsafe = scope.unsafe(0.6).tolist()
    for name, alarm in alarms.items():
        assert found.get("AUROC", name).value == pytest.approx(slow.auroc(alarm.tolist(), unsafe))
        assert found.get("AUPR", name, "ood").value == pytest.approx(
            slow.aupr(alarm.tolist(), ood.tolist())
        )
        assert found.get("FPR95", name).value == pytest.approx(
            slow.fpr_at_tpr(alarm.tolist(), unsafe)
        )
    assert found.get("AUROC", "noise").n_references == sum(unsafe)
    assert found.get("AUROC", "noise").reason == "not_requested"


def test_without_tuning_images_thresholds_come_from_one_half_and_numbers_from_the_other() -> None:
    alarms, scope, _ = study()
    found = cal.evaluate_monitor(alarms, scope, 0.6, ci=False)
    judged = found.basis.judged
    assert judged.sum() == N / 2
    assert found.split.random
    assert (found.split.tuning ^ judged).all()
    safe = found.split.tuning & ~scope.unsafe(0.6)
    threshold = found.thresholds["failure"]
    assert threshold is not None
    assert (alarms["failure"][safe] >= threshold.value).mean() <= 0.05
    rejected = alarms["failure"][judged] >= threshold.value
    unsafe = scope.unsafe(0.6)[judged]
    assert found.get("sensitivity", "failure").value == pytest.approx(rejected[unsafe].mean())
    assert found.get("FPR", "failure").value == pytest.approx(rejected[~unsafe].mean())
    assert found.get("sensitivity", "failure").n_images == N / 2
    assert any("random half" in said for said in found.warnings)


def test_named_tuning_images_are_stated_nowhere() -> None:
    alarms, scope, ood = study()
    tuning = np.arange(N) < 150
    found = cal.evaluate_monitor(alarms, scope, 0.6, ood, tuning=tuning, ci=False)
    other = cal.evaluate_monitor(
        {name: alarm[150:] for name, alarm in alarms.items()},
        Scope.from_values(scope.score[150:]),
        0.6,
        ood[150:],
        threshold={
            name: threshold.value for name, threshold in found.thresholds.items() if threshold
        },
        ci=False,
    )
    assert found.n_images == N - 150
    for metric in ("AUROC", "AURC", "MCC", "RH", "rejected"):
        assert found.get(metric, "failure").value == other.get(metric, "failure").value
    assert not any("random half" in said for said in found.warnings)


def test_whole_patients_lie_in_one_half() -> None:
    alarms, scope, _ = study()
    patient = np.arange(N) // 8
    grouped = Scope.from_values(scope.score, groups={"patient": patient})
    found = cal.evaluate_monitor(alarms["failure"], grouped, 0.6, ci=False)
    assert not set(patient[found.split.tuning]) & set(patient[found.split.judged])
    assert found.get("AUROC").unit == "patient"


def test_gain_and_rest_are_the_hazard_without_the_monitor(found: MonitorEvaluation) -> None:
    alarms, scope, _ = study()
    judged = found.basis.judged
    base = scope.unsafe(0.6)[judged].mean()
    for name in found.monitors:
        assert found.get("SG", name).value + found.get("RH", name).value == pytest.approx(
            base, abs=1e-12
        )
    rng = np.random.default_rng(2)
    severity, fallback = rng.random(N) * 3, rng.random(N) * 0.2
    graded = cal.evaluate_monitor(
        alarms, scope, 0.6, threshold=0.0, severity=severity, fallback_hazard=fallback, ci=False
    )
    hazard = (severity * scope.unsafe(0.6)).mean()
    for name in graded.monitors:
        assert graded.get("SG", name).value + graded.get("RH", name).value == pytest.approx(
            hazard, abs=1e-12
        )


def test_hazards_by_hand() -> None:
    scope, alarm = [0, 0, 1, 1, 1], [1, 0, 1, 0, 0]
    found = cal.evaluate_monitor(alarm, scope, ci=False)
    assert [found.get(name).value for name in ("SG", "RH", "AC")] == pytest.approx([0.2, 0.2, 0.2])
    found = cal.evaluate_monitor(
        alarm,
        scope,
        hazard=[3, 2, 0, 1, 0],
        reward=[0, 0, 1, 1, 2],
        fallback_hazard=0.5,
        fallback_reward=0.1,
        ci=False,
    )
    assert found.get("RH").value == pytest.approx((0.5 + 2 + 0.5 + 1 + 0) / 5)
    assert found.get("SG").value == pytest.approx((3 - 0.5 + 0 - 0.5) / 5)
    assert found.get("AC").value == pytest.approx((-0.1 + 0.9) / 5)


def test_a_fall_back_that_is_worse_than_the_model_makes_the_gain_negative() -> None:
    found = cal.evaluate_monitor([1, 0, 1, 0, 0], [0, 0, 1, 1, 1], fallback_hazard=2.0, ci=False)
    assert found.get("SG").value < 0


def test_a_perfect_monitor_and_one_that_knows_nothing() -> None:
    scope = np.arange(200) % 4 > 0
    found = cal.evaluate_monitor(
        {"perfect": ~scope, "constant": np.full(200, 0.3), "inverse": scope}, scope, replicates=200
    )
    values = {
        name: found.get(name, "perfect").value
        for name in ("AUROC", "AUPR", "FPR95", "E-AURC", "MCC", "RH", "AC")
    }
    expected = {
        "AUROC": 1.0,
        "AUPR": 1.0,
        "FPR95": 0.0,
        "E-AURC": 0.0,
        "MCC": 1.0,
        "RH": 0.0,
        "AC": 0.0,
    }
    assert values == pytest.approx(expected, abs=1e-12)
    # Failures that cost nothing do not show what one costs that the monitor misses.
    excess = found.get("E-AURC", "perfect")
    assert excess.low == 0.0 < excess.high < 0.1
    assert excess.method == "gamma-t"
    assert found.get("AUROC", "constant").value == 0.5
    assert found.get("FPR95", "constant").value == 1.0
    assert found.get("AURC", "constant").value == pytest.approx(0.25)
    assert found.get("AUROC", "inverse").value == 0.0
    said = " ".join(found.warnings)
    assert "constant gives the same score to all 200 images" in said
    assert "inverse: AUROC is 0.000" in said
    assert "higher_is_alarm=False" in said


@pytest.mark.parametrize(("safe", "reason"), [(True, "no_positives"), (False, "single_category")])
def test_one_kind_of_images_leaves_everything_undefined_with_a_reason(
    safe: bool, reason: str
) -> None:
    found = cal.evaluate_monitor(np.arange(20.0), np.full(20, safe), threshold=10.0, replicates=200)
    for name in (
        "AUROC",
        "AUPR",
        "AUPR-in",
        "FPR95",
        "best-F1",
        "AURC",
        "E-AURC",
        "AUGRC",
        "MCC",
        "SG",
        "RH",
        "AC",
    ):
        e = found.get(name)
        assert math.isnan(e.value)
        assert e.reason == reason
    assert found.get("coverage").value == 0.5
    assert any("are undefined" in said for said in found.warnings)
    assert json.loads(found.to_json())["rows"][1]["value"] is None


def test_constant_ood_labels_are_warned_of() -> None:
    alarms, scope, _ = study()
    found = cal.evaluate_monitor(alarms["noise"], scope, 0.6, np.zeros(N), ci=False)
    assert math.isnan(found.get("AUROC", paradigm="ood").value)
    assert any("no image is out of distribution" in said for said in found.warnings)
    assert "are undefined" in " ".join(found.sentences())


def test_without_a_tau_only_the_sweep_is_stated() -> None:
    alarms, scope, ood = study()
    found = cal.evaluate_monitor(alarms, scope, ood=ood, ci=False)
    assert found.tau is None
    assert found.paradigms == ("ood",)
    assert len(found.taus) == len(np.unique(scope.score)) - 1
    with pytest.raises(cal.UsageError, match="depends on tau"):
        found.get("AUROC", "noise")
    unsafe = scope.unsafe(found.taus[2]).tolist()
    e = found.get("AUROC", "shift", tau=found.taus[2])
    assert e.value == pytest.approx(slow.auroc(alarms["shift"].tolist(), unsafe))
    assert found.get("prevalence", "shift", tau=found.taus[2]).value == pytest.approx(
        np.mean(unsafe)
    )
    assert any("no tau was given" in said for said in found.warnings)
    assert any("No tau was given" in said for said in found.sentences())


def test_several_taus_are_swept_and_none_is_the_headline() -> None:
    alarms, scope, _ = study()
    found = cal.evaluate_monitor(alarms, scope, [0.7, 0.5, 0.7], ci=False)
    assert found.taus == (0.5, 0.7)
    assert {(row.group or {}).get("tau") for row in found.rows} == {
        "0.5",
        "0.7",
        None,
    }  # graded risk knows no tau
    table = found.sweep("FPR95")
    assert table.value.shape == (3, 2)
    np.testing.assert_allclose(table.prevalence, scope.prevalence([0.5, 0.7]))


def test_a_scope_of_0_and_1_needs_no_tau() -> None:
    found = cal.evaluate_monitor([0.1, 0.9, 0.4], [True, False, True], ci=False)
    assert found.get("AUROC").value == 1.0
    assert found.taus == ()


def test_a_constant_scope_without_tau_has_nothing_to_say() -> None:
    with pytest.raises(cal.InputError, match="constant-scope"):
        cal.evaluate_monitor([0.1, 0.2], [0.7, 0.7])


def test_low_scores_may_mean_alarm() -> None:
    alarms, scope, _ = study()
    up = cal.evaluate_monitor(alarms["failure"], scope, 0.6, threshold=-0.5, ci=False)
    down = cal.evaluate_monitor(
        -alarms["failure"], scope, 0.6, higher_is_alarm=False, threshold=0.5, ci=False
    )
    for metric in ("AUROC", "AURC", "MCC", "RH"):
        assert up.get(metric).value == down.get(metric).value
    threshold = down.thresholds["monitor"]
    assert threshold is not None
    assert threshold.own_value == 0.5


def test_intervals_come_from_the_same_seed_and_speak_for_units(found: MonitorEvaluation) -> None:
    alarms, scope, ood = study()
    again = cal.evaluate_monitor(alarms, scope, 0.6, ood, replicates=300)
    assert [row.as_dict() for row in again.rows] == [row.as_dict() for row in found.rows]
    e = found.get("AUROC", "failure")
    assert (e.unit, e.n_units, e.method) == ("image", N, "bootse-t-logit")
    assert e.low < slow.auroc(alarms["failure"].tolist(), scope.unsafe(0.6).tolist()) < e.high


def test_the_order_of_images_does_not_matter() -> None:
    alarms, scope, ood = study()
    mixed = np.random.default_rng(5).permutation(N)
    named = Scope.from_values(scope.score, [f"i{k}" for k in range(N)])
    straight = cal.evaluate_monitor(alarms, named, 0.6, ood, threshold=0.1, ci=False)
    turned = cal.evaluate_monitor(
        {name: alarm[mixed] for name, alarm in alarms.items()},
        named,
        0.6,
        ood[mixed],
        threshold=0.1,
        images=[f"i{k}" for k in mixed],
        ci=False,
    )
    assert [row.as_dict() for row in straight.rows] == [row.as_dict() for row in turned.rows]


def test_few_units_give_no_interval() -> None:
    found = cal.evaluate_monitor([0.1, 0.9, 0.4, 0.2], [True, False, True, False], threshold=0.5)
    assert found.get("AUROC").reason == "too_few_units"
    assert any("too few for intervals" in said for said in found.warnings)


@pytest.mark.parametrize(
    ("alarms", "options", "rule"),
    [
        ([0.1, np.nan, 0.3], {}, "non-finite"),
        ([0.1, np.inf, 0.3], {}, "non-finite"),
        ([0.1, 0.2], {}, "length"),
        (["a", "b", "c"], {}, "type"),
        ([0.1, 0.2, 0.3], {"ood": [0, 1]}, "length"),
        ([0.1, 0.2, 0.3], {"ood": [0, 1, 2]}, "flag"),
        ([0.1, 0.2, 0.3], {"ood": ["a", "b", "c"]}, "type"),
        ([0.1, 0.2, 0.3], {"images": ["a", "b", "d"]}, "missing-image"),
        ([0.1, 0.2, 0.3, 0.4], {"images": ["a", "b", "c", "d"]}, "unknown-image"),
        ([0.1, 0.2, 0.3], {"images": ["a", "b", "b"]}, "dup-image"),
        ([0.1, 0.2, 0.3], {"hazard": [1, -1, 0]}, "range"),
        ([0.1, 0.2, 0.3], {"severity": [1, 2]}, "type"),
        ([0.1, 0.2, 0.3], {"fallback_hazard": np.nan}, "range"),
    ],
)
def test_bad_input_is_an_error_that_says_where(
    alarms: Any, options: dict[str, Any], rule: str
) -> None:
    scope = Scope.from_values([1, 0, 1], ["a", "b", "c"])
    with pytest.raises(cal.InputError) as caught:
        cal.evaluate_monitor(alarms, scope, ci=False, **options)
    assert caught.value.rule == rule


def test_a_broken_score_names_its_image() -> None:
    scope = Scope.from_values([1, 0, 1], ["a", "b", "c"])
    with pytest.raises(cal.InputError, match=r"image 'b' \(knn\)"):
        cal.evaluate_monitor({"knn": [0.1, np.nan, 0.3]}, scope)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"threshold": "q99"}, "q95-safe"),
        ({"threshold": float("nan")}, "finite"),
        ({"threshold": {"m": 1.0}}, "no monitor 'm'"),
        ({"higher_is_alarm": {"m": True}}, "no monitor 'm'"),
        ({"tuning": [1, 1, 1]}, "all of the 3 images"),
        ({"tuning": [0, 0, 0]}, "none of the 3 images"),
        ({"tau": []}, "no tau"),
        ({"tau": float("nan")}, "finite"),
        ({"cluster": "centre"}, "centre"),
        ({"level": 1.5}, "level"),
        ({"replicates": 3}, "replicates"),
        ({"seed": -1}, "seed"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(cal.UsageError, match=said):
        cal.evaluate_monitor([0.1, 0.2, 0.3], [1, 0, 1], **options)


def test_no_monitor_is_refused() -> None:
    with pytest.raises(cal.UsageError, match="no monitor"):
        cal.evaluate_monitor({}, [1, 0, 1])


def test_unknown_names_are_answered_with_the_nearest(found: MonitorEvaluation) -> None:
    with pytest.raises(cal.UsageError, match="did you mean 'AUROC'"):
        found.get("AUROCS", "noise")
    with pytest.raises(cal.UsageError, match="did you mean 'noise'"):
        found.get("AUROC", "nois")
    with pytest.raises(cal.UsageError, match="several monitors"):
        found.get("AUROC")
    with pytest.raises(cal.UsageError, match="did you mean 'oms'"):
        found.get("AUROC", "noise", "om")
    with pytest.raises(cal.UsageError, match="the sweep has"):
        found.get("AUROC", "noise", tau=0.123)


def test_the_document_holds_everything(found: MonitorEvaluation) -> None:
    document = json.loads(found.to_json())
    assert document["schema"] == "calipers.monitor/1"
    assert document["tau"] == 0.6
    assert len(document["rows"]) == len(found.rows)
    assert document["thresholds"]["failure"]["rule"] == "q95-safe"
    assert {row["metric"] for row in document["comparisons"]} == {"AUROC"}
    assert len(document["comparisons"]) == 6
    assert (
        sum(
            cell["images"] for cell in document["tables"]["disagreement"] if cell["monitor"] is None
        )
        == N
    )


def test_a_folder_gets_page_document_rows_and_images(
    found: MonitorEvaluation, tmp_path: Path
) -> None:
    assert found.save(tmp_path / "out") == tmp_path / "out" / "monitor.html"
    tables = {file.name for file in (tmp_path / "out").iterdir() if file.suffix != ".svg"}
    assert tables == {"images.csv", "monitor.csv", "monitor.html", "monitor.json"}
    images = (tmp_path / "out" / "images.csv").read_text(encoding="utf-8").splitlines()
    assert len(images) == N + 1
    assert "rejected failure" in images[0]
    with pytest.raises(cal.InputError):
        found.save(tmp_path / "out")
    found.save(tmp_path / "out", force=True)


def test_rows_become_a_frame(found: MonitorEvaluation) -> None:
    pytest.importorskip("pandas")
    assert len(found.to_frame()) == len(found.rows)


class Table:
    """What a file of alarms gives."""

    def __init__(self, alarms: dict[str, np.ndarray], ood: np.ndarray, patient: np.ndarray) -> None:
        self.names, self.values = tuple(alarms), np.stack(list(alarms.values()))
        self.ood, self.tuning, self.groups = ood, np.arange(N) < 100, {"patient": patient}


def test_a_table_of_alarms_brings_labels_tuning_images_and_groups() -> None:
    alarms, scope, ood = study()
    found = cal.evaluate_monitor(Table(alarms, ood, np.arange(N) // 4), scope, 0.6, ci=False)
    assert found.monitors == ("failure", "shift", "noise")
    assert found.paradigms == ("oms", "ood")
    assert found.n_images == N - 100
    assert found.get("AUROC", "noise").unit == "patient"
