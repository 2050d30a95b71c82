"""Thresholds: chosen on tuning images by attainable scores, one for both paradigms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calipers.monitors.labels import (
    Threshold,
    above_safe,
    choose_threshold,
    monitors_of,
    rules_of,
    split_of,
    threshold_text,
    thresholds_of,
)
from calipers.statistics.weights import Units
from seeds import looped


@pytest.mark.parametrize("n", [1, 7, 19, 20, 21, 100, 1000])
def test_at_most_five_percent_of_the_safe_images_are_rejected_and_no_more_could_be(n: int) -> None:
    safe = np.random.default_rng(n).permutation(n).astype(float)
    threshold = above_safe(safe)
    rejected = int((safe >= threshold).sum())
    assert rejected == n // 20
    assert (rejected + 1) / n > 0.05


def test_ties_are_rejected_together_or_not_at_all() -> None:
    safe = np.array([0.0] * 80 + [1.0] * 20)
    assert (safe >= above_safe(safe)).sum() == 0
    assert (np.array([1.1]) >= above_safe(safe)).all()


def test_no_safe_image_gives_no_threshold() -> None:
    assert math.isnan(above_safe(np.zeros(0)))
    assert math.isnan(choose_threshold("best-f1", np.arange(3.0), np.zeros(3, np.bool_)))
    assert math.isnan(choose_threshold("youden", np.arange(3.0), np.ones(3, np.bool_)))


@looped("seed", range(20))
def test_the_best_of_all_attained_scores_is_taken(seed: int) -> None:
    rng = np.random.default_rng(seed)
    alarm, wanted = rng.integers(0, 8, 40).astype(float), rng.random(40) < 0.4
    wanted[:2] = True, False

    def f1(threshold: float) -> float:
        rejected = alarm >= threshold
        return 2 * (rejected & wanted).sum() / (rejected.sum() + wanted.sum())

    def youden(threshold: float) -> float:
        rejected = alarm >= threshold
        return float(rejected[wanted].mean() - rejected[~wanted].mean())

    for rule, value in (("best-f1", f1), ("youden", youden)):
        found = choose_threshold(rule, alarm, wanted)
        assert found in alarm
        assert value(found) == pytest.approx(max(value(one) for one in set(alarm.tolist())))


def test_a_monitor_that_says_yes_or_no_needs_no_tuning() -> None:
    monitors = monitors_of({"flag": [True, False, True]}, ["a", "b", "c"], None, True)
    split = split_of(["q95-safe"], monitors, None, Units.of("image", None, 3), 0)
    assert split.judged.all()
    assert not split.random
    (threshold,) = thresholds_of(["q95-safe"], monitors, split, np.array([True, False, False]))
    assert threshold is not None
    assert threshold.rule == "switch"
    assert threshold.rejected(monitors.alarm[0]).tolist() == [True, False, True]


def test_a_switch_that_is_on_where_all_is_well_is_turned() -> None:
    monitors = monitors_of([1, 0, 1], ["a", "b", "c"], None, False)
    split = split_of(["q95-safe"], monitors, None, Units.of("image", None, 3), 0)
    (threshold,) = thresholds_of(["q95-safe"], monitors, split, np.array([False, True, False]))
    assert threshold is not None
    assert threshold.rejected(monitors.alarm[0]).tolist() == [False, True, False]


def test_rules_may_differ_between_monitors() -> None:
    monitors = monitors_of(
        {"a": [0.1, 0.2], "b": [0.3, 0.4], "c": [0.3, 0.1]}, ["x", "y"], None, True
    )
    assert rules_of({"a": 0.5, "b": None}, monitors) == [0.5, None, "q95-safe"]


def test_the_halves_come_from_the_seed() -> None:
    monitors = monitors_of(np.linspace(0.1, 0.9, 50), [str(k) for k in range(50)], None, True)
    units = Units.of("image", None, 50)
    one, same, other = (split_of(["youden"], monitors, None, units, seed) for seed in (1, 1, 2))
    assert one.tuning.tolist() == same.tuning.tolist()
    assert one.tuning.tolist() != other.tuning.tolist()
    assert one.tuning.sum() == 25


@pytest.mark.parametrize(
    ("threshold", "said"),
    [
        (None, "no threshold"),
        (Threshold(-0.5, "given", 0, 0.5), "threshold 0.5, as given"),
        (Threshold(1.0, "switch", 0, 1.0), "the monitor's own alarm"),
        (Threshold(0.7, "q95-safe", 55, 0.7), "among 55 tuning images"),
        (Threshold(0.7, "best-f1", 55, 0.7), "best F1"),
    ],
)
def test_a_threshold_says_where_it_comes_from(threshold: Threshold | None, said: str) -> None:
    assert said in threshold_text(threshold)


def test_words_follow_the_direction_and_no_neighbour_of_zero_is_printed() -> None:
    assert "threshold 0.5, above 95 %" in threshold_text(Threshold(0.5, "q95-safe", 20, 0.5))
    assert "threshold 0.5, below 95 %" in threshold_text(Threshold(-0.5, "q95-safe", 20, 0.5))
    tiny = math.nextafter(0, 1)
    assert "threshold just below 0, below 95 %" in threshold_text(
        Threshold(tiny, "q95-safe", 20, -tiny)
    )
    assert threshold_text(Threshold(0.0, "given", 0, 0.0)) == "threshold 0, as given"
