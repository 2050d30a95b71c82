# SPDX-License-Identifier: Apache-2.0
"""Thresholds of monitors: a number of the user, or a rule on tuning images that are not judged.

An image is rejected if its alarm score is at least the threshold. The rules:

``q95-safe``
    rejects what lies above the 95th percentile of the images on which no alarm is wanted: the
    lowest threshold that rejects at most 5 % of them. With many equal scores it may reject far
    fewer.
``best-f1``, ``youden``
    the attained score with the largest F1, or the largest sensitivity + specificity; the highest of
    equals.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import finite
from calipers.errors import UsageError, did_you_mean
from calipers.kernels.monitoring import Cuts, operating
from calipers.kernels.resampling import generator
from calipers.monitors.alarms import Monitors
from calipers.statistics.weights import Units

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

RULES = ("q95-safe", "best-f1", "youden")
ACCEPTED = 0.95
HALVES = 2**63  # the replicate whose random numbers split the units; no bootstrap comes that far

Rule = float | str | None


@dataclass(frozen=True)
class Threshold:
    """The score from which on a monitor alarms, and how it was chosen."""

    value: float  # on the scale on which high means alarm; NaN: the rule finds none
    rule: str  # "given", "switch" or one of RULES
    n_tuning: int  # images it was chosen on
    own_value: float  # the same on the monitor's own scale

    @property
    def exists(self) -> bool:
        """Whether there is a threshold."""
        return not math.isnan(self.value)

    def rejected(self, alarm: F64) -> Flags:
        """Return which images are rejected."""
        return np.asarray(alarm >= self.value)


@dataclass(frozen=True)
class Split:
    """Which images thresholds are chosen on, and which are judged with them."""

    tuning: Flags
    judged: Flags
    random: bool  # a random split, because no tuning images were given


def rules_of(threshold: Rule | Mapping[str, Rule], monitors: Monitors) -> list[Rule]:
    """Return the rule of every monitor: a number, the name of one, None for no threshold."""
    if isinstance(threshold, Mapping):
        for name in threshold:
            if name not in monitors.names:
                raise UsageError(
                    f"threshold: no monitor {name!r}; {did_you_mean(name, monitors.names)}"
                )
        rules = [threshold.get(name, "q95-safe") for name in monitors.names]
    else:
        rules = [threshold] * len(monitors.names)
    for rule in rules:
        if isinstance(rule, str) and rule not in RULES:
            raise UsageError(
                f"no threshold rule {rule!r}; {did_you_mean(rule, RULES)}, or a number"
            )
        if not isinstance(rule, str) and rule is not None:
            finite("a threshold", rule)
    return rules


def split_of(
    rules: list[Rule], monitors: Monitors, tuning: Flags | None, units: Units, seed: int
) -> Split:
    """Return the images to choose on and the images to judge.

    Without tuning images of the caller, all images are judged if no threshold has to be chosen;
    else the units are split into two random halves.
    """
    n = monitors.alarm.shape[1]
    if tuning is not None:
        return Split(tuning, ~tuning, random=False)
    needs_tuning = any(
        isinstance(rule, str) and not switch for rule, switch in zip(rules, monitors.switches)
    )
    if not needs_tuning:
        return Split(np.zeros(n, np.bool_), np.ones(n, np.bool_), random=False)
    # whole units, so that images of one patient never lie in both halves
    whole = units.outer_code
    order = generator(seed, HALVES).permutation(units.number)
    first = np.zeros(units.number, np.bool_)
    first[order[: units.number // 2]] = True
    return Split(first[whole], ~first[whole], random=True)


def thresholds_of(
    rules: list[Rule], monitors: Monitors, split: Split, positive: Flags
) -> list[Threshold | None]:
    """Return the threshold of every monitor, or None for the rule None."""
    thresholds = []
    for k, rule in enumerate(rules):
        switch, higher = monitors.switches[k], monitors.higher_is_alarm[k]
        thresholds.append(
            _threshold(rule, monitors.alarm[k], split.tuning, positive, switch, higher)
        )
    return thresholds


def _threshold(
    rule: Rule, alarm: F64, tuning: Flags, positive: Flags, switch: bool, higher: bool
) -> Threshold | None:
    if rule is None:
        return None
    sign = 1.0 if higher else -1.0
    if not isinstance(rule, str):
        return Threshold(sign * float(rule), "given", 0, float(rule))
    if switch:  # a monitor that only says yes or no has one threshold: nothing is chosen
        on = 1.0 if higher else 0.0
        return Threshold(sign * on, "switch", 0, on)
    value = choose_threshold(rule, alarm[tuning], positive[tuning])
    return Threshold(value, rule, int(tuning.sum()), sign * value)


def choose_threshold(rule: str, alarm: F64, positive: Flags) -> float:
    """Return the threshold that a rule finds on some images; NaN if they lack the kind it needs."""
    if rule == "q95-safe":
        return above_safe(alarm[~positive])
    if not positive.any() or positive.all():
        return math.nan
    points = operating(alarm, positive, np.ones((1, len(alarm)), np.int64))
    tp, fp = points.tp[:, 0], points.fp[:, 0]
    if rule == "best-f1":
        quality = 2.0 * tp / (tp + fp + points.positives)
    else:
        quality = tp / points.positives - fp / points.others
    return float(Cuts.of(alarm).threshold[int(np.argmax(quality))])


def above_safe(alarm: F64) -> float:
    """Return the lowest threshold that rejects at most 5 % of the images; NaN without images."""
    if not len(alarm):
        return math.nan
    # 1e-9: 0.95 n must not round up to one image more
    n_accepted = max(math.ceil(ACCEPTED * len(alarm) - 1e-9), 1)
    return float(np.nextafter(np.sort(alarm)[n_accepted - 1], np.inf))


def threshold_text(threshold: Threshold | None, others: str = "safe images") -> str:
    """Return a threshold and its rule in words; ``others`` names the images without an alarm."""
    if threshold is None:
        return "no threshold"
    n = threshold.n_tuning
    at = f"threshold {_number(threshold.own_value)}"
    # where low scores mean alarm, the scale is turned round
    side = "above" if threshold.value == threshold.own_value else "below"
    words: dict[str, Any] = {
        "given": f"{at}, as given",
        "switch": "the monitor's own alarm",
        "q95-safe": f"{at}, {side} 95 % of the {others} among {n} tuning images",
        "best-f1": f"{at}, the best F1 on {n} tuning images",
        "youden": f"{at}, the best Youden index on {n} tuning images",
    }
    return str(words[threshold.rule])


def _number(value: float) -> str:
    """Return a threshold for a reader; subnormal numbers, the neighbours of 0, in words."""
    if 0 < abs(value) < sys.float_info.min:
        return "just above 0" if value > 0 else "just below 0"
    return f"{value:.4g}"
