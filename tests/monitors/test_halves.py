"""Repeated random halves, monitors that know nothing, and FPR95 of few wanted images."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calipers as cal
from calipers.monitors.estimates import ChanceTest
from calipers.monitors.labels import random_half
from calipers.monitors.page import monitors_page
from calipers.monitors.scope import Scope
from calipers.monitors.tables import halves_table, tables
from calipers.statistics.weights import Units


def alarms_of(seed: int, n: int = 150, separation: float = 1.2) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([20_268, seed])
    fails = random.random(n) < 0.25
    return separation * fails + random.standard_normal(n), fails


def test_the_mean_over_halves_hardly_depends_on_the_seed() -> None:
    """One half moves the sensitivity by a quarter from seed to seed on these images."""
    alarm, fails = alarms_of(0)
    firsts, means = [], []
    for seed in range(16):
        found = cal.evaluate_monitor(alarm, ~fails, seed=seed, ci=False)
        firsts.append(found.get("sensitivity").value)
        means.append(found.over_halves("sensitivity").mean)
    assert max(firsts) - min(firsts) > 0.25
    assert max(means) - min(means) < 0.08


def test_halves_are_those_of_single_evaluations_by_hand() -> None:
    alarm, fails = alarms_of(1)
    found = cal.evaluate_monitor(alarm, ~fails, seed=3, ci=False, halves=5)
    units = Units.of("image", None, len(alarm))
    values, thresholds = [], []
    for k in range(5):
        split = random_half(units, 3, k)
        by_hand = cal.evaluate_monitor(alarm, ~fails, tuning=split.tuning, ci=False)
        values.append(by_hand.get("sensitivity").value)
        thresholds.append(by_hand.thresholds["monitor"].value)
        assert by_hand.halves == ()
    one = found.over_halves("sensitivity")
    assert (one.n_halves, one.n_undefined) == (5, 0)
    assert one.mean == pytest.approx(np.mean(values))
    assert one.sd == pytest.approx(np.std(values, ddof=1))
    assert (one.low, one.high) == tuple(pytest.approx(v) for v in np.quantile(values, (0.05, 0.95)))
    # The first half is the one of the rows.
    assert found.get("sensitivity").value == values[0]
    assert found.over_halves("threshold").mean == pytest.approx(np.mean(thresholds))
    flipped, plain = found.over_halves("FPR"), found.over_halves("specificity")
    assert flipped.mean == pytest.approx(1 - plain.mean)


def test_patients_stay_together_in_every_half() -> None:
    units = Units.of("patient", np.arange(60) // 4, 60)
    halves = {random_half(units, 0, k).tuning.tobytes() for k in range(20)}
    assert len(halves) == 20
    for k in range(20):
        tuning = random_half(units, 0, k).tuning.reshape(15, 4)
        assert (tuning == tuning[:, :1]).all()
        assert tuning[:, 0].sum() == 7


def test_json_tables_and_warnings_state_the_halves() -> None:
    alarm, fails = alarms_of(2)
    found = cal.evaluate_monitor({"m": alarm}, ~fails, ood=np.arange(150) % 3 == 0, replicates=100)
    document = json.loads(found.to_json())
    entries = {(one["paradigm"], one["metric"]): one for one in document["halves"]}
    assert entries["oms", "sensitivity"]["n_halves"] == 50
    assert {"oms", "ood"} == {paradigm for paradigm, _ in entries}
    table = halves_table(found)
    assert table.title == "At thresholds that 50 random halves choose"
    assert len(table.rows) == 14
    assert any(one.name == "table-halves" for one in tables(found))
    assert any(
        "m: its sensitivity at the threshold depends on the half" in one for one in found.warnings
    )
    assert "At thresholds that 50 random halves choose" in monitors_page(found)
    given = cal.evaluate_monitor({"m": alarm}, ~fails, threshold=1.0, ci=False)
    assert given.halves == ()
    assert not halves_table(given).rows


@pytest.mark.parametrize("halves", [0, -1, 1.5, True, "50", 10**9])
def test_a_number_of_halves_that_is_none_is_refused(halves: object) -> None:
    with pytest.raises(cal.UsageError, match="halves"):
        cal.evaluate_monitor([0.1, 0.9], [1, 0], halves=halves)


def useless_monitors(n_sets: int) -> Iterator[dict[str, ChanceTest]]:
    """Yield what is said of ten monitors that know nothing, on some data sets."""
    random = np.random.default_rng(20_269)
    for _ in range(n_sets):
        fails = np.arange(80) < 30
        alarms = {f"m{k}": random.standard_normal(80) for k in range(10)}
        yield cal.evaluate_monitor(alarms, ~fails, threshold=None, replicates=100).chance_tests()


def test_ten_monitors_are_one_family_and_each_pays_for_the_others() -> None:
    for tests in useless_monitors(2):
        for one in tests.values():
            assert one.family == 10
            assert one.p < one.p_adjusted <= min(1.0, 10 * one.p)


@pytest.mark.slow  # a rate needs forty data sets; that the correction is made is seen on two
def test_the_best_of_ten_useless_monitors_is_not_better_than_chance() -> None:
    """Each by itself, one of them was called better in a fifth of the data sets, or worse."""
    alone, family = 0, 0
    for tests in useless_monitors(40):
        alone += any(one.p < 0.05 for one in tests.values())
        family += any(one.p_adjusted < 0.05 for one in tests.values())
    assert alone / 40 > 0.2
    assert family / 40 < 0.12


def test_words_tell_luck_among_many_from_being_better() -> None:
    fails = np.arange(80) < 30
    for seed in range(100):
        random = np.random.default_rng([5, seed])
        alarms = {f"m{k}": random.standard_normal(80) for k in range(10)}
        found = cal.evaluate_monitor(alarms, ~fails, threshold=None, replicates=150)
        lucky = [name for name in alarms if found.get("AUROC", name).low > 0.5]
        if lucky:
            break
    said = next(one for one in found.sentences() if one.startswith(lucky[0]))
    assert "as one of 10 monitors it is not shown" in said
    assert "that is better than chance" not in said
    by_itself = cal.evaluate_monitor(
        {lucky[0]: alarms[lucky[0]]}, ~fails, threshold=None, replicates=150
    )
    assert by_itself.sentences()[0].endswith("that is better than chance.")


def test_a_constant_monitor_and_few_units_have_no_luck() -> None:
    alarm, fails = alarms_of(4)
    both = {"m": alarm, "none": np.zeros(150)}
    tests = cal.evaluate_monitor(both, ~fails, threshold=None, replicates=100).chance_tests()
    assert tests["none"].p_adjusted == 1.0
    assert tests["m"].p_adjusted < 0.05
    few = cal.evaluate_monitor([0.1, 0.2, 0.9, 0.8], [1, 1, 0, 0], threshold=None)
    assert math.isnan(few.chance_tests()["monitor"].p_adjusted)
    json.loads(few.to_json())


@pytest.mark.parametrize(("n", "has"), [(99, False), (100, True)])
def test_fpr95_has_no_interval_below_a_hundred_wanted_images(n: int, has: bool) -> None:
    """On 20 to 40 wanted images its interval held the truth in .78 to .92 of the cases."""
    random = np.random.default_rng(6)
    fails = np.arange(300) < n
    alarms = {"a": 2 * fails + random.standard_normal(300), "b": random.standard_normal(300)}
    found = cal.evaluate_monitor(alarms, ~fails, threshold=None, replicates=100)
    for metric in ("FPR95", "TNR95"):
        one = found.get(metric, "a")
        assert (not math.isnan(one.low)) == has
        assert one.reason == (None if has else "too_few_positives")
        assert not math.isnan(one.value)
    assert not math.isnan(found.get("AUROC", "a").low)
    d = found.compare("a", "b", "FPR95")
    assert (not math.isnan(d.p)) == has
    assert d.estimate.reason == (None if has else "too_few_positives")
    assert any("FPR95 has no interval below 100" in one for one in found.warnings) != has


def test_centres_in_which_a_monitor_differs_are_told() -> None:
    random = np.random.default_rng(7)
    centre, fails = np.arange(400) % 8, random.random(400) < 0.4
    alarm = (2.0 * (centre % 2) - 0.5) * fails + random.standard_normal(400)
    groups = {"centre": centre.astype(str), "patient": np.arange(400).astype(str)}
    scope = replace(Scope.from_values(~fails), groups=groups)
    found = cal.evaluate_monitor(alarm, scope, threshold=None, replicates=200)
    assert any(
        one.startswith("patients were resampled, but results differ between centres")
        for one in found.warnings
    )
    calm = cal.evaluate_monitor(random.standard_normal(400), scope, threshold=None, replicates=200)
    assert not any("were resampled, but results differ" in one for one in calm.warnings)


@pytest.mark.parametrize("unit", [1e300, 1e308, 2.0**-1040])
def test_scores_near_the_ends_of_all_numbers(unit: float, tmp_path: Path) -> None:
    alarms, scope = alarms_of(3)
    alarms = np.clip(np.round(alarms, 3), -1, 1)
    plain = cal.evaluate_monitor(alarms, scope, tau=0.5, threshold="youden", ci=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cal.evaluate_monitor(alarms * unit, scope, tau=0.5, threshold="youden", ci=False)
        found.report(tmp_path / "page.html")
    assert found.get("AUROC").value == plain.get("AUROC").value
    for of_unit, of_one in zip(found.halves, plain.halves):
        factor = unit if of_one.metric == "threshold" else 1.0
        assert of_unit.mean == pytest.approx(of_one.mean * factor, rel=1e-6, nan_ok=True)
        assert of_unit.sd == pytest.approx(
            of_one.sd * factor, rel=1e-6, abs=1e-12 * factor, nan_ok=True
        )
