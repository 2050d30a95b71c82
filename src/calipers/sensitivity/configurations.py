# SPDX-License-Identifier: Apache-2.0
"""The grid of defensible configurations: every combination of choices, without duplicates.

A choice that has no effect is dropped from a configuration: the interpolation if the metric is not
average precision, the threshold if the criterion is yes or no, the average over classes if there is
only one class. Combinations that are then equal are one configuration.

Most choices are options of a metric. A choice that changes the predictions first, such as
non-maximum suppression, is an entry of `PREPARED`: a function from a cohort and a value to another
cohort. The models are then evaluated once per such cohort. `calipers.sensitivity.multiverse` calls
`configurations` and turns each one into a metric with `plan_of`.
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
NONE = "none"  # no score cut, or no suppression
RELATIVE = "centre-distance-relative"
IOUS = (0.1, 0.3, 0.5, 0.75)
USUAL = 0.5
MATCHED = ("criterion", "threshold", "least_area")
COUNTED = (*MATCHED, "assignment", "average", "classes", "score_cut")

# metric -> kind, its own options, the choices of the grid that affect it
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
FURTHER = ("least_area",)  # not in the default grid: what counts as small depends on the images
WORDS: Mapping[str, tuple[str, ...]] = {
    "metric": tuple(FAMILIES),
    "average": ("pooled", "classes"),
    "interpolation": INTERPOLATIONS,
    "classes": ("within", "ignore"),
    "summary": SUMMARIES,
}
BOXES = DEFAULT["criterion"]
# Criteria for references with masks.
SHAPES = ("box-iou", "mask-iou", "iop", "any-overlap", "point-in-box", "point-in-mask")


def _suppressed(cohort: Cohort, value: Value) -> Cohort:
    """Return the cohort after non-maximum suppression of every model, within classes."""
    if value == NONE:
        return cohort
    models = {
        name: suppressed(predictions, float(value), n_classes=len(cohort.classes))
        for name, predictions in cohort.models.items()
    }
    return replace(cohort, models=models)


# Choices that change the predictions before anything is matched.
PREPARED: dict[str, Callable[[Cohort, Value], Cohort]] = {"nms": _suppressed}
ALWAYS = {"assignment": "by-score"}  # for metrics that rank by score


@dataclass(frozen=True)
class Configurations:
    """All different configurations, and the number of combinations they stand for."""

    choices: tuple[str, ...]  # names, in the order of the grid
    each: tuple[Mapping[str, Value], ...]  # only the choices that have an effect
    n_possible: int

    def __len__(self) -> int:
        return len(self.each)


def default_grid(cohort: Cohort) -> dict[str, Sequence[Value]]:
    """Return the grid that suits a cohort.

    It has criteria for masks if the references have masks, and score cuts if all scores lie in
    [0, 1].
    """
    criteria = BOXES if cohort.references.masks is None else SHAPES
    cuts = DEFAULT["score_cut"] if _scores_are_shares(cohort) else (NONE,)
    return {**DEFAULT, "criterion": criteria, "score_cut": cuts}


def _scores_are_shares(cohort: Cohort) -> bool:
    """Return whether some model has scores, and no score lies outside [0, 1]."""
    scores = [table.score for table in cohort.models.values() if table.scored]
    for score in scores:
        if len(score) and not (score.min() >= 0 and score.max() <= 1):
            return False
    return bool(scores)


def configurations(grid: Grid, *, n_classes: int = 2) -> Configurations:
    """Return the different configurations of a grid, for a cohort with so many classes."""
    check_grid(grid)
    names = tuple(grid)
    total = math.prod(len(values) for values in grid.values())
    if total > 50 * MOST:
        raise UsageError(f"the grid has {total:,} combinations: leave out some values")
    different: dict[tuple[tuple[str, Value], ...], Mapping[str, Value]] = {}
    for values in product(*grid.values()):
        configuration = _effective_choices(dict(zip(names, values)), n_classes)
        different.setdefault(tuple(configuration.items()), configuration)
    if len(different) > MOST:
        raise UsageError(
            f"the grid has {len(different):,} configurations that differ; "
            f"at most {MOST:,} can be evaluated"
        )
    return Configurations(names, tuple(different.values()), total)


def _effective_choices(combination: Mapping[str, Value], n_classes: int) -> dict[str, Value]:
    """Return the choices of a combination that have an effect."""
    relevant = ("metric", *PREPARED, *FAMILIES[str(combination["metric"])][2])
    choices = {name: value for name, value in combination.items() if name in relevant}
    if "criterion" in choices and registry.resolve("criterion", str(choices["criterion"])).yes_no:
        choices.pop("threshold", None)
    if n_classes < 2:
        choices.pop("classes", None)
    # If all objects count as one class, there is nothing to average.
    if n_classes < 2 or choices.get("classes") == "ignore":
        choices.pop("average", None)
    return choices


def sizes_of(grid: Grid) -> dict[str, tuple[float, float]]:
    """Return the area ranges of a grid by name, as a protocol declares them; 0 needs none."""
    areas = [float(value) for value in grid.get("least_area", ())]
    return {_size(area): (area, math.inf) for area in areas if area > 0}


def _size(least: Value) -> str:
    return f"from {float(least):g}"


def plan_of(configuration: Mapping[str, Value], name: str) -> MetricPlan:
    """Return the metric of a configuration."""
    kind, own, relevant = FAMILIES[str(configuration["metric"])]
    options: dict[str, Any] = dict(own)
    if "threshold" in relevant and "threshold" not in configuration:
        options["thresholds"] = (USUAL,)  # a yes-or-no criterion ignores it, but one is required
    for choice in relevant:
        if choice not in configuration:
            continue
        value = configuration[choice]
        if choice == "threshold":
            options["thresholds"] = (_threshold(configuration, float(value)),)
        elif choice == "score_cut":
            options["score_cut"] = -math.inf if value == NONE else float(value)
        elif choice == "least_area":
            if float(value) > 0:
                options["size"] = _size(value)
        else:
            options[choice] = value
    if "assignment" not in relevant and kind != "rodeo":
        options |= ALWAYS
    return MetricPlan(name, kind, options)


def _threshold(configuration: Mapping[str, Value], value: float) -> float:
    """Return the threshold of a configuration, for overlaps and for distances.

    A large overlap is strict, a large distance lenient: an IoU of 0.1 becomes a relative distance
    of 0.9.
    """
    criterion = registry.resolve("criterion", str(configuration.get("criterion", "box-iou")))
    return 1.0 - value if criterion.distance else value


def check_grid(grid: Grid) -> None:
    """Raise for a grid without metrics, an unknown choice, or values that a choice cannot have."""
    if "metric" not in grid:
        raise UsageError(f"a grid needs metrics: add metric = one or more of {', '.join(FAMILIES)}")
    choices = (*DEFAULT, *FURTHER, *PREPARED)
    for name, values in grid.items():
        if name not in choices:
            raise UsageError(f"no choice {name!r} in a grid; {did_you_mean(name, choices)}")
        if not isinstance(values, list | tuple) or not _all_different(values):
            raise UsageError(f"{name}: expected a list of values that differ, not {values!r}")
        for value in values:
            _check_value(name, value)


def _all_different(values: Sequence[Value]) -> bool:
    """Return whether there are values, and no two of them are equal."""
    return 0 < len(values) == len(set(map(_comparable, values)))


def _check_value(name: str, value: Value) -> None:
    if name in WORDS and value not in WORDS[name]:
        raise UsageError(f"no {name} {value!r} in a grid; {did_you_mean(str(value), WORDS[name])}")
    if name in ("criterion", "assignment"):
        registry.check(name, str(value))
    if name == "criterion":
        _check_distance(str(value))
    if name == "threshold" and not _is_share(value):
        raise UsageError(f"threshold: expected a number in [0, 1], not {value!r}")
    if name in ("score_cut", "nms") and value != NONE and not _is_share(value):
        raise UsageError(f"{name}: expected a number in [0, 1] or none, not {value!r}")
    if name == "least_area" and not (_is_number(value) and 0 <= float(value) < math.inf):
        raise UsageError(f"least_area: expected an area of at least 0, not {value!r}")


def _check_distance(name: str) -> None:
    """Refuse distances in pixels or millimetres: the thresholds of a grid are shares."""
    if registry.resolve("criterion", name).distance and name != RELATIVE:
        raise UsageError(
            f"criterion: {name} is a distance in pixels or millimetres, "
            f"but thresholds of a grid are shares: use {RELATIVE!r}"
        )


def _comparable(value: Value) -> Value:
    return float(value) if _is_number(value) else str(value)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_share(value: Value) -> bool:
    return _is_number(value) and 0 <= float(value) <= 1
