# SPDX-License-Identifier: Apache-2.0
"""The grid of defensible configurations: every combination of choices, each thing counted once.

A choice that has no effect is left out of a configuration: an interpolation without average precision, a threshold
behind a criterion that holds or does not. What is then equal is one configuration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from calipers import registry
from calipers.errors import UsageError, did_you_mean
from calipers.metrics.contract import MetricPlan

Value = float | str
Grid = Mapping[str, Sequence[Value]]

MOST = 20_000
NONE = "none"  # of a score cut
IOUS = (0.1, 0.3, 0.5, 0.75)
DISTANCE = 0.5  # of the sides of the reference: within its ellipse

# metric -> kind, options of its own, choices of the grid that matter to it
FAMILIES: Mapping[str, tuple[str, Mapping[str, Any], tuple[str, ...]]] = {
    "AP": ("average-precision", {}, ("criterion", "threshold", "interpolation", "classes", "score_cut")),
    "F1": ("f-beta", {"beta": 1}, ("criterion", "threshold", "assignment", "average", "classes", "score_cut")),
    "F2": ("f-beta", {"beta": 2}, ("criterion", "threshold", "assignment", "average", "classes", "score_cut")),
    "sensitivity": ("sensitivity", {}, ("criterion", "threshold", "assignment", "average", "classes", "score_cut")),
    "PPV": ("ppv", {}, ("criterion", "threshold", "assignment", "average", "classes", "score_cut")),
    "FROC": ("froc", {}, ("criterion", "threshold", "classes")),
    "FROC@1": ("froc", {"rates": (1.0,)}, ("criterion", "threshold", "classes")),
    "accuracy": ("accuracy", {}, ("criterion", "threshold", "assignment", "classes", "score_cut")),
    "RoDeO": ("rodeo", {"part": "total"}, ("summary", "score_cut")),
}

DEFAULT: Grid = {
    "metric": ("AP", "F1", "FROC@1", "RoDeO"),
    "criterion": ("box-iou", "iop", "any-overlap", "point-in-box"),
    "threshold": IOUS,
    "assignment": ("by-score", "by-overlap", "optimal"),
    "average": ("pooled", "classes"),
    "interpolation": ("coco101", "voc11", "every-point"),
    "classes": ("within", "ignore"),
    "score_cut": (NONE, 0.3, 0.5),
    "summary": ("harmonic", "arithmetic", "minimum"),
}
ALWAYS = {"assignment": "by-score"}  # of metrics that rank by score


@dataclass(frozen=True)
class Configurations:
    """All configurations that differ, and how many combinations they stand for."""

    choices: tuple[str, ...]  # names, in the order of the grid
    each: tuple[Mapping[str, Value], ...]  # only the choices that matter
    n_possible: int

    def __len__(self) -> int:
        return len(self.each)


def configurations(grid: Grid) -> Configurations:
    """Return the configurations of a grid."""
    _check(grid)
    names = tuple(grid)
    found: dict[tuple[tuple[str, Value], ...], Mapping[str, Value]] = {}
    total = math.prod(len(values) for values in grid.values())
    if total > 50 * MOST:
        raise UsageError(f"the grid has {total:,} combinations: leave out some values")
    for values in product(*grid.values()):
        kept = _kept(dict(zip(names, values)))
        found.setdefault(tuple(kept.items()), kept)
    if len(found) > MOST:
        raise UsageError(f"the grid has {len(found):,} configurations that differ; at most {MOST:,} can be evaluated")
    return Configurations(names, tuple(found.values()), total)


def _kept(given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the choices that have an effect."""
    matter = FAMILIES[str(given["metric"])][2]
    kept = {name: value for name, value in given.items() if name == "metric" or name in matter}
    if "criterion" in kept and registry.resolve("criterion", str(kept["criterion"])).yes_no:
        kept.pop("threshold", None)
    if kept.get("classes") == "ignore":  # all objects are of one class: there is nothing to average
        kept.pop("average", None)
    return kept


def plan_of(configuration: Mapping[str, Value], name: str) -> MetricPlan:
    """Return the metric of a configuration."""
    kind, own, matter = FAMILIES[str(configuration["metric"])]
    options: dict[str, Any] = dict(own)
    for choice in matter:
        if choice not in configuration:
            continue
        value = configuration[choice]
        if choice == "threshold":
            options["thresholds"] = (_threshold(configuration, float(value)),)
        elif choice == "score_cut":
            options["score_cut"] = -math.inf if value == NONE else float(value)
        else:
            options[choice] = value
    if "assignment" not in matter and kind != "rodeo":
        options |= ALWAYS
    return MetricPlan(name, kind, options)


def _threshold(configuration: Mapping[str, Value], value: float) -> float:
    """Return the threshold; of a distance, large is lenient: an IoU of 0.5 becomes a distance of 0.5, 0.1 of 0.9."""
    criterion = registry.resolve("criterion", str(configuration.get("criterion", "box-iou")))
    return 1.0 - value if criterion.distance else value


def _check(grid: Grid) -> None:
    if "metric" not in grid:
        raise UsageError(f"a grid names its metrics: metric = one or more of {', '.join(FAMILIES)}")
    for name, values in grid.items():
        if name not in DEFAULT:
            raise UsageError(f"no choice {name!r} in a grid; {did_you_mean(name, DEFAULT)}")
        if isinstance(values, str) or not len(values) or len(set(values)) < len(values):
            raise UsageError(f"{name}: a list of values that differ, not {values!r}")
        for value in values:
            _check_value(name, value)


def _check_value(name: str, value: Value) -> None:
    if name in ("criterion", "assignment"):
        registry.check(name, str(value))
        return
    if name == "metric" and value not in FAMILIES:
        raise UsageError(f"no metric {value!r} in a grid; {did_you_mean(str(value), FAMILIES)}")
    free = name == "score_cut" and value == NONE
    if name in ("threshold", "score_cut") and not free and not (_number(value) and 0 <= float(value) <= 1):
        raise UsageError(f"{name}: a number in [0, 1], not {value!r}")
    known = {"average": ("pooled", "classes"), "classes": ("within", "ignore")}.get(name)
    if known is not None and value not in known:
        raise UsageError(f"{name} is one of {', '.join(known)}, not {value!r}")


def _number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
