# SPDX-License-Identifier: Apache-2.0
"""Numbers at a threshold over many random halves: what a single random half leaves to chance.

Without tuning images of the caller a threshold is chosen on a random half of the units and judged
on the other one. Another half gives another threshold and other numbers: on 100 to 200 images the
sensitivity of one monitor moved by .3 to .7 from one seed to the next. So the split is repeated,
and mean and spread over the halves are stated beside the numbers of the first one, which alone has
decisions per image, tables of counts and intervals.

`evaluate_monitor` calls `repeat_halves`; words, tables and the page read the `HalvesSummary` of a
quantity from `MonitorEvaluation.halves`. The spread is that of the choice of the halves of *these*
images. It is no confidence interval: other images are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calipers.arrays import F64, Flags
from calipers.engine.ordered_map import in_order
from calipers.monitors.estimates import FLIPPED, Stakes, decided_families
from calipers.monitors.labels import Labelling, Monitors, Rule, Split, random_half, thresholds_of
from calipers.results.estimate import number
from calipers.statistics.weights import Units

DEFAULT_HALVES = 50
# The middle nine of ten halves: the extremes of 50 would grow with the number of halves.
OUTER = (0.05, 0.95)
THRESHOLD = "threshold"  # on the monitor's own scale, beside the quantities at it

Key = tuple[str, str, str]  # monitor, paradigm, quantity
Progress = Callable[[int, int], None]  # (halves done, halves in all)


@dataclass(frozen=True, slots=True)
class HalvesSummary:
    """One quantity of a monitor at a threshold, over random halves of the same images."""

    monitor: str
    paradigm: str
    metric: str
    mean: float
    sd: float
    low: float  # nine of ten halves lie between low and high
    high: float
    n_halves: int  # with a value
    n_undefined: int

    def as_dict(self) -> dict[str, Any]:
        """Return the summary for JSON."""
        return {
            "monitor": self.monitor,
            "paradigm": self.paradigm,
            "metric": self.metric,
            "mean": number(self.mean),
            "sd": number(self.sd),
            "low": number(self.low),
            "high": number(self.high),
            "n_halves": self.n_halves,
            "n_undefined": self.n_undefined,
        }


@dataclass(frozen=True)
class HalvesInput:
    """What thresholds are chosen by and judged on."""

    monitors: Monitors
    labels: Sequence[Labelling]
    rules: list[Rule]
    positive: Flags  # (n,) the labels that thresholds are chosen by
    units: Units
    stakes: Stakes


def repeat_halves(
    inputs: HalvesInput,
    seed: int,
    halves: int,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> tuple[HalvesSummary, ...]:
    """Return every quantity at a threshold over random halves, the first of which is that of the
    rows.
    """
    values: dict[Key, list[float]] = {}

    def at_half(k: int) -> dict[Key, float]:
        return _at_thresholds(inputs, random_half(inputs.units, seed, k))

    for n_done, of_half in enumerate(in_order(at_half, range(halves), workers=workers), start=1):
        for key, value in of_half.items():
            values.setdefault(key, []).append(value)
        if progress is not None:
            progress(n_done, halves)
    return tuple(_summary(key, np.array(column)) for key, column in values.items())


def _at_thresholds(inputs: HalvesInput, split: Split) -> dict[Key, float]:
    """Return the quantities of one half, with the thresholds that the other half chose."""
    monitors, judged = inputs.monitors, split.judged
    thresholds = thresholds_of(inputs.rules, monitors, split, inputs.positive)
    headlines = [one.take(judged) for one in inputs.labels if not one.swept]
    part = replace(monitors, alarm=monitors.alarm[:, judged])
    ones = np.ones((1, int(judged.sum())), np.int64)
    values: dict[Key, float] = {}
    for name, threshold in zip(monitors.names, thresholds):
        if threshold is not None and headlines:
            values[name, headlines[0].paradigm, THRESHOLD] = threshold.own_value
    for family in decided_families(part, headlines, thresholds, inputs.stakes.take(judged)):
        numbers = family.metric.value(family.evidence, ones)[0, 0].tolist()
        for (name, group), value in zip(family.columns, numbers):
            values[family.model, group["paradigm"], name] = value
            if name in FLIPPED:
                values[family.model, group["paradigm"], FLIPPED[name]] = 1.0 - value
    return values


def _summary(key: Key, column: F64) -> HalvesSummary:
    defined = column[~np.isnan(column)]
    if not len(defined):
        nothing = float("nan")
        return HalvesSummary(*key, nothing, nothing, nothing, nothing, 0, len(column))
    # A power of two changes no digit, and neither sums nor squares of thresholds run over.
    power = int(np.frexp(np.abs(defined).max())[1])
    parts = np.ldexp(defined, -power)
    sd = parts.std(ddof=1) if len(parts) > 1 else np.nan
    with np.errstate(over="ignore"):
        numbers = np.ldexp([parts.mean(), sd, *np.quantile(parts, OUTER)], power)
    mean, sd, low, high = numbers.tolist()
    return HalvesSummary(*key, mean, sd, low, high, len(defined), len(column) - len(defined))
