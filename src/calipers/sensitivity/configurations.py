# SPDX-License-Identifier: Apache-2.0
"""The grid of defensible configurations: every combination of choices, each thing counted once.

A choice that has no effect is left out of a configuration: an interpolation without average
precision, a threshold behind a criterion that holds or does not, the average over classes where
there is one. What is then equal is one configuration.

Most choices are options of a metric. One that changes the predictions first, such as non-maximum
suppression, is an entry of `PREPARED`: name -> what makes another cohort of a cohort and a value.
The models are then evaluated once for every such cohort.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from calipers import registry
from calipers.errors import UsageError, did_you_mean
from calipers.fusion import suppressed
from calipers.metrics.contract import MetricPlan
from calipers.metrics.ranking import INTERPOLATIONS
from calipers.metrics.rodeo import SUMMARIES
from calipers.tables import Cohort

Value = float | str
Grid = Mapping[str, Sequence[Value]]

MOST = 20_000
NONE = "none"  # of a score cut, or of suppression
RELATIVE = "centre-distance-relative"
IOUS = (0.1, 0.3, 0.5, 0.75)
USUAL = 0.5
MATCHED = ("criterion", "threshold", "least_area")
COUNTED = (*MATCHED, "assignment", "average", "classes", "score_cut")

# metric -> kind, options of its own, choices of the grid that matter to it
FAMILIES: Mapping[str, tuple[str, Mapping[str, Any], tuple[str, ...]]] = {
    "AP": ("average-precision", {}, (*MATCHED, "interpolation", "classes", "score_cut")),
    "F1": ("f-beta", {"beta": 1}, COUNTED),
    "F2": ("f-beta", {"beta": 2}, COUNTED),
    "sensitivity": ("sensitivity", {}, COUNTED),
    "PPV": ("ppv", {}, COUNTED),
    "FROC": ("froc", {}, (*MATCHED, "classes")),
    "FROC@1": ("froc", {"rates": (1.0,)}, (*MATCHED, "classes")),
    "accuracy": ("accuracy", {}, (*MATCHED, "assignment", "classes", "score_cut")),
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
    "summary": SUMMARIES,
}
FURTHER = ("least_area",)  # choices that no default grid has: what is small depends on the images
WORDS: Mapping[str, tuple[str, ...]] = {
    "metric": tuple(FAMILIES),
    "average": ("pooled", "classes"),
    "interpolation": INTERPOLATIONS,
    "classes": ("within", "ignore"),
    "summary": SUMMARIES,
}
BOXES = DEFAULT["criterion"]
SHAPES = (
    "box-iou",
    "mask-iou",
    "iop",
    "any-overlap",
    "point-in-box",
    "point-in-mask",
)  # of references with masks


def _suppressed(cohort: Cohort, value: Value) -> Cohort:
    """Return the cohort after non-maximum suppression of every model, within classes."""
    if value == NONE:
        return cohort
    models = {
        name: suppressed(predictions, float(value), n_classes=len(cohort.classes))
        for name, predictions in cohort.models.items()
    }
    return replace(cohort, models=models)


PREPARED: dict[str, Callable[[Cohort, Value], Cohort]] = {
    "nms": _suppressed
}  # choices that change the predictions
ALWAYS = {"assignment": "by-score"}  # of metrics that rank by score


@dataclass(frozen=True)
class Configurations:
    """All configurations that differ, and how many combinations they stand for."""

    choices: tuple[str, ...]  # names, in the order of the grid
    each: tuple[Mapping[str, Value], ...]  # only the choices that matter
    n_possible: int

    def __len__(self) -> int:
        return len(self.each)


def default_grid(cohort: Cohort) -> dict[str, Sequence[Value]]:
    """Return the grid that suits a cohort: criteria for masks if it has some, score cuts if scores
    lie in [0, 1].
    """
    scored = [table.score for table in cohort.models.values() if table.scored]
    cuts = bool(scored) and all(
        len(score) == 0 or (score.min() >= 0 and score.max() <= 1) for score in scored
    )
    criteria = BOXES if cohort.references.masks is None else SHAPES
    return {
        **DEFAULT,
        "criterion": criteria,
        "score_cut": DEFAULT["score_cut"] if cuts else (NONE,),
    }


def configurations(grid: Grid, *, n_classes: int = 2) -> Configurations:
    """Return the configurations of a grid, in a cohort of so many classes."""
    check_grid(grid)
    names = tuple(grid)
    found: dict[tuple[tuple[str, Value], ...], Mapping[str, Value]] = {}
    total = math.prod(len(values) for values in grid.values())
    if total > 50 * MOST:
        raise UsageError(f"the grid has {total:,} combinations: leave out some values")
    for values in product(*grid.values()):
        kept = _kept(dict(zip(names, values)), n_classes)
        found.setdefault(tuple(kept.items()), kept)
    if len(found) > MOST:
        raise UsageError(
            f"the grid has {len(found):,} configurations that differ; at most {MOST:,} can be evaluated"
        )
    return Configurations(names, tuple(found.values()), total)


def _kept(given: Mapping[str, Value], n_classes: int) -> dict[str, Value]:
    """Return the choices that have an effect."""
    matter = ("metric", *PREPARED, *FAMILIES[str(given["metric"])][2])
    kept = {name: value for name, value in given.items() if name in matter}
    if "criterion" in kept and registry.resolve("criterion", str(kept["criterion"])).yes_no:
        kept.pop("threshold", None)
    if n_classes < 2:
        kept.pop("classes", None)
    if (
        n_classes < 2 or kept.get("classes") == "ignore"
    ):  # objects are of one class: there is nothing to average
        kept.pop("average", None)
    return kept


def sizes_of(grid: Grid) -> dict[str, tuple[float, float]]:
    """Return the ranges of area of a grid by name, as a protocol has them; 0 needs none."""
    return {
        _size(value): (float(value), math.inf)
        for value in grid.get("least_area", ())
        if float(value) > 0
    }


def _size(least: Value) -> str:
    return f"from {float(least):g}"


def plan_of(configuration: Mapping[str, Value], name: str) -> MetricPlan:
    """Return the metric of a configuration."""
    kind, own, matter = FAMILIES[str(configuration["metric"])]
    options: dict[str, Any] = dict(own)
    if "threshold" in matter and "threshold" not in configuration:
        options["thresholds"] = (USUAL,)  # one is enough where it plays no part
    for choice in matter:
        if choice not in configuration:
            continue
        value = configuration[choice]
        if choice == "threshold":
            options["thresholds"] = (_threshold(configuration, float(value)),)
        elif choice == "score_cut":
            options["score_cut"] = -math.inf if value == NONE else float(value)
        elif choice == "least_area":
            options |= {"size": _size(value)} if float(value) > 0 else {}
        else:
            options[choice] = value
    if "assignment" not in matter and kind != "rodeo":
        options |= ALWAYS
    return MetricPlan(name, kind, options)


def _threshold(configuration: Mapping[str, Value], value: float) -> float:
    """Return the threshold; of a distance, large is lenient: an IoU of 0.5 becomes a distance of
    0.5, 0.1 of 0.9.
    """
    criterion = registry.resolve("criterion", str(configuration.get("criterion", "box-iou")))
    return 1.0 - value if criterion.distance else value


def check_grid(grid: Grid) -> None:
    """Raise for a grid without metrics, for an unknown choice, and for values that a choice cannot
    have.
    """
    if "metric" not in grid:
        raise UsageError(f"a grid names its metrics: metric = one or more of {', '.join(FAMILIES)}")
    for name, values in grid.items():
        known = (*DEFAULT, *FURTHER, *PREPARED)
        if name not in known:
            raise UsageError(f"no choice {name!r} in a grid; {did_you_mean(name, known)}")
        if (
            not isinstance(values, list | tuple)
            or not len(values)
            or len(set(map(_comparable, values))) < len(values)
        ):
            raise UsageError(f"{name}: a list of values that differ, not {values!r}")
        for value in values:
            _check_value(name, value)


def _check_value(name: str, value: Value) -> None:
    if name in WORDS and value not in WORDS[name]:
        raise UsageError(f"no {name} {value!r} in a grid; {did_you_mean(str(value), WORDS[name])}")
    if name in ("criterion", "assignment"):
        registry.check(name, str(value))
    if name == "criterion":
        _check_distance(str(value))
    may_lack = name in ("score_cut", "nms")
    free = may_lack and value == NONE
    if (
        (name == "threshold" or may_lack)
        and not free
        and not (_number(value) and 0 <= float(value) <= 1)
    ):
        raise UsageError(
            f"{name}: a number in [0, 1]{' or none' if may_lack else ''}, not {value!r}"
        )
    if name == "least_area" and not (_number(value) and 0 <= float(value) < math.inf):
        raise UsageError(f"least_area: an area of at least 0, not {value!r}")


def _check_distance(name: str) -> None:
    """Refuse distances in pixels or millimetres: the thresholds of a grid are shares."""
    if registry.resolve("criterion", name).distance and name != RELATIVE:
        raise UsageError(
            f"criterion: {name} is a distance in pixels or millimetres, but thresholds of a grid are shares: "
            f"use {RELATIVE!r}"
        )


def _comparable(value: Value) -> Value:
    return float(value) if _number(value) else str(value)


def _number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
