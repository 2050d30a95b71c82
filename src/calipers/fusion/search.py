# SPDX-License-Identifier: Apache-2.0
"""The search over the parameters of a recipe: what is searched, in which order, and its journal.

`parameters_of` lists what may change: the ranges that a recipe declares, or sensible ones if it
declares none. A point of the search is a tuple with one value per parameter, and `recipe_at` is the
recipe there. `climb` goes from the recipe's own values: each parameter in turn takes the best value
of its range while all others stay, until a round changes nothing. A value replaces another one only
if it is better, so that ties leave the recipe as it was. The way depends on the values alone: no
random numbers, and the same result on every machine that computes the same values.

`Journal` keeps every value that was computed in a file, so that a search that was killed goes on
where it ended, with the same bits. `calipers.fusion.tune` is the caller.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from calipers.errors import InputError
from calipers.fusion.calibrate import CalibrationMethod
from calipers.fusion.fusion_methods import CONFIDENCES
from calipers.fusion.recipe import FusionRecipe, RecipeStep
from calipers.results.estimate import number
from calipers.results.files import small_text, write_atomically

Point = tuple[Any, ...]  # one value per parameter

# What is searched of a recipe that declares no ranges.
DEFAULT_RANGES: Mapping[str, tuple[Any, ...]] = {
    "iou_threshold": (0.3, 0.4, 0.5, 0.6, 0.7),
    "skip_threshold": (0.0, 0.01, 0.02, 0.05, 0.1),
    "confidence": CONFIDENCES,
    "sigma": (0.1, 0.3, 0.5, 0.7),
    "factor": (0.94, 0.96, 0.98, 1.0, 1.02),
    "score_above": (0.0, 0.2, 0.4, 0.6),
    "least": (0.0, 0.05, 0.1, 0.2),
}
LARGEST_JOURNAL = 256 << 20  # bytes
DEFAULT_WEIGHTS = (0.5, 1.0, 2.0)
UNUSED = {"gaussian": "iou_threshold", "linear": "sigma"}  # options that a decay does not look at


@dataclass(frozen=True)
class Parameter:
    """Something that a search may change."""

    step: int | None  # place of the step; None: the weight of a member
    option: str  # of the step, or the name of the member
    kind: str  # of the step
    start: Any  # the value of the recipe
    values: tuple[Any, ...]  # the range; the recipe's own value is always in it

    @property
    def name(self) -> str:
        """``weighted-boxes-fusion (step 2): iou_threshold``, or ``weight of a``."""
        if self.step is None:
            return f"weight of {self.option}"
        return f"{self.kind} (step {self.step + 1}): {self.option}"


def parameters_of(
    recipe: FusionRecipe, members: Sequence[str]
) -> tuple[FusionRecipe, list[Parameter]]:
    """Return what is searched, and the recipe that the places of the parameters are about.

    A recipe without ranges of its own gets the default ones, and a calibration of the scores of
    every member in front of its steps, which is off at first.
    """
    declared = bool(recipe.weight_range) or any(step.ranges for step in recipe.steps)
    if not declared:
        recipe = _with_default_ranges(recipe)
    parameters = []
    for k, step in enumerate(recipe.steps):
        for option, values in step.ranges.items():
            start = step.options[option]
            parameters.append(Parameter(k, option, step.kind, start, _with_start(values, start)))
    # The weight of a single member changes nothing.
    if recipe.weight_range and len(members) > 1:
        for member in members:
            start = recipe.weights.get(member, 1.0)
            values = _with_start(recipe.weight_range, start)
            parameters.append(Parameter(None, member, "", start, values))
    return recipe, parameters


def _with_default_ranges(recipe: FusionRecipe) -> FusionRecipe:
    steps = [_with_default_range(step) for step in recipe.steps]
    if not any(step.kind == "calibrate" for step in steps):
        options = {"method": "none", "iou_threshold": 0.5, "curves": {}}
        steps.insert(0, _with_default_range(RecipeStep("calibrate", options)))
    return replace(recipe, steps=tuple(steps), weight_range=DEFAULT_WEIGHTS)


def _with_default_range(step: RecipeStep) -> RecipeStep:
    if step.kind == "calibrate":
        return replace(step, ranges={"method": get_args(CalibrationMethod)})
    names = [name for name in step.options if name in DEFAULT_RANGES]
    unused = UNUSED.get(step.options.get("method", ""))
    return replace(step, ranges={name: DEFAULT_RANGES[name] for name in names if name != unused})


def _with_start(values: tuple[Any, ...], start: Any) -> tuple[Any, ...]:
    return values if start in values else (start, *values)


def recipe_at(recipe: FusionRecipe, parameters: Sequence[Parameter], point: Point) -> FusionRecipe:
    """Return the recipe with the values of a point; ranges and fitted curves are gone."""
    steps = []
    for step in recipe.steps:
        plain = replace(step, ranges={})
        steps.append(plain.with_options(curves={}) if step.kind == "calibrate" else plain)
    weights = dict(recipe.weights)
    for parameter, value in zip(parameters, point):
        if parameter.step is None:
            weights[parameter.option] = value
        else:
            steps[parameter.step] = steps[parameter.step].with_options(**{parameter.option: value})
    if all(weight == 1.0 for weight in weights.values()):
        weights = {}
    return replace(recipe, steps=tuple(steps), weights=weights, weight_range=())


def most_trials(parameters: Sequence[Parameter], rounds: int) -> int:
    """Return how many values `climb` asks for at most."""
    return 1 + rounds * sum(len(parameter.values) - 1 for parameter in parameters)


def climb(
    parameters: Sequence[Parameter],
    values_of: Callable[[Sequence[Point]], Iterable[float]],
    *,
    rounds: int,
    lower: bool,
) -> Point:
    """Return the best point on the way from the start; ``lower`` if less is better.

    ``values_of`` is asked for all values of a parameter at once, so that they can be computed side
    by side; the others stay as they were before it.
    """

    def is_better(value: float, other: float) -> bool:
        if math.isnan(value) or math.isnan(other):
            return math.isnan(other) and not math.isnan(value)
        return value < other if lower else value > other

    point = tuple(parameter.start for parameter in parameters)
    (best,) = values_of([point])
    for _ in range(rounds):
        before = point
        for k, parameter in enumerate(parameters):
            trials = []
            for candidate in parameter.values:
                if candidate != point[k]:
                    trials.append((*point[:k], candidate, *point[k + 1 :]))
            for trial, value in zip(trials, values_of(trials)):
                if is_better(value, best):
                    point, best = trial, value
        if point == before:
            break
    return point


class Journal:
    """The values that a search has computed, in memory and, with a path, in a file.

    The first line of the file says what was searched on which data; every other line is a value
    with a check sum. A line that a kill left unfinished, or that was changed, is computed again.
    Another search must not go on with these values, so a file with another first line is refused.
    """

    def __init__(self, path: Path | None, header: Mapping[str, Any]) -> None:
        self.path = path
        self.values: dict[str, float] = {}
        self._begin = json.dumps({"schema": "calipers.tuning-journal/1", **header}) + "\n"
        if path is not None and os.path.exists(path):  # unlike Path.exists, of any name
            self._read(path, header)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def add(self, key: str, value: float) -> None:
        """Keep a value."""
        self.values[key] = value
        if self.path is None:
            return
        if not os.path.exists(self.path):
            write_atomically(self.path, self._begin)
        entry = {"trial": key, "value": number(value)}
        line = json.dumps({**entry, "check": _check_sum(entry)}) + "\n"
        try:
            # Unbuffered, so that a line is in the file as soon as its value is known.
            with open(self.path, "ab", buffering=0) as file:
                file.write(line.encode("utf-8"))
        except OSError as error:
            raise InputError(
                "a journal that can be written",
                rule="not-writable",
                file=str(self.path),
                value=error.strerror,
            ) from None

    def _read(self, path: Path, header: Mapping[str, Any]) -> None:
        text = small_text(path, "the journal of a search", LARGEST_JOURNAL)
        lines = text.split("\n")
        complete, rest = lines[:-1], lines[-1]  # a whole line ends with a line break
        first = _parsed(complete[0]) if complete else None
        if first is None:
            raise InputError(
                "the journal of a search",
                rule="resume-mismatch",
                file=str(path),
                hint="remove the file, or choose another output",
            )
        for key, value in header.items():
            if first.get(key) != value:
                raise InputError(
                    f"a journal of the same search: {key} = {value!r}",
                    rule="resume-mismatch",
                    file=str(path),
                    field=key,
                    value=first.get(key),
                    hint="repeat the command that was interrupted, or remove the file to begin "
                    "again",
                )
        for line in complete[1:]:
            entry = _parsed(line) or {}
            is_sound = entry.pop("check", None) == _check_sum(entry)
            trial, value = entry.get("trial"), entry.get("value")
            if is_sound and isinstance(trial, str) and isinstance(value, float | None):
                self.values[trial] = math.nan if value is None else value
        if rest:
            os.truncate(path, path.stat().st_size - len(rest.encode()))


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _check_sum(entry: Mapping[str, Any]) -> str:
    text = json.dumps(entry, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
