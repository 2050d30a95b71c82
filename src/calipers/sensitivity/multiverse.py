# SPDX-License-Identifier: Apache-2.0
"""The multiverse: evaluate all models under every defensible configuration.

In comes a cohort and a grid of choices; out comes a `Multiverse`, which knows the ranks of the
models under every configuration and which choices move them. ``calipers multiverse`` and
`calipers.multiverse` call this. The idea is the multiverse analysis of Steegen et al. (2016):
report all reasonable analyses instead of one.

The grid has every combination of choices, without duplicates (`configurations`). A choice that has
no effect is dropped from a configuration: the interpolation if the metric is not average precision,
the threshold if the criterion is yes or no, the average over classes if there is only one class.
Combinations that are then equal are one configuration. Most choices are options of a metric
(`plan_of`). A choice that changes the predictions first, such as non-maximum suppression, is an
entry of `PREPARED`: a function from a cohort and a value to another cohort; the models are then
evaluated once per such cohort.

A grid may come from TOML (`load_grid`): ``[grid]`` has a list of values per choice, ``[base]`` the
configuration that the others are compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.arguments import names_arguments
from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.engine.cost import RunCost, Stopwatch
from calipers.engine.ordered_map import threads_here
from calipers.errors import InputError, UsageError, did_you_mean, spelled
from calipers.evaluation.collect import spans
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.plan import cohort_cost
from calipers.evaluation.protocol import Protocol
from calipers.evaluation.result import Evaluation
from calipers.kernels.resampling import check_seed
from calipers.matching.suppress import suppressed
from calipers.metrics.base import MetricPlan
from calipers.metrics.ranking import INTERPOLATIONS
from calipers.metrics.rodeo import SUMMARIES
from calipers.results.toml import parse_toml, read_toml
from calipers.sensitivity.result import Multiverse, Robustness, replicate_values, robustness

if TYPE_CHECKING:
    from concurrent.futures import Executor

Value = float | str
Grid = Mapping[str, Sequence[Value]]

# Configurations that can be evaluated, with time and memory of one machine.
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
    "average": ("pooled", "classes"),
    "interpolation": INTERPOLATIONS,
    "classes": ("within", "ignore"),
    "summary": SUMMARIES,
}
BOXES = DEFAULT["criterion"]
# Criteria for references with masks.
SHAPES = ("box-iou", "mask-iou", "iop", "any-overlap", "point-in-box", "point-in-mask")

ALWAYS = {"assignment": "by-score"}  # for metrics that rank by score

SCHEMA = "calipers.grid/1"
TOP = ("schema", "grid", "base")

Progress = Callable[[int, int], None]

MOST_REPLICATES = 10_000
DIGITS = 12  # decimals of values: models that differ only in the last bits are tied


def _suppress_predictions(cohort: Cohort, value: Value) -> Cohort:
    """Return the cohort after non-maximum suppression of every model, within classes."""
    if value == NONE:
        return cohort
    models = {
        name: suppressed(predictions, float(value), n_classes=len(cohort.classes))
        for name, predictions in cohort.models.items()
    }
    return replace(cohort, models=models)


# Choices that change the predictions before anything is matched.
PREPARED: dict[str, Callable[[Cohort, Value], Cohort]] = {"nms": _suppress_predictions}


@names_arguments
def multiverse(
    cohort: Cohort,
    grid: Grid | str | Path | None = None,
    *,
    base: Mapping[str, Any] | None = None,
    replicates: int = 0,
    seed: int = 0,
    jobs: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Multiverse:
    """Evaluate all models under a grid of configurations.

    Parameters
    ----------
    cohort
        With two models or more.
    grid
        Choice -> its values, or the path of a TOML file. By default the grid that suits the cohort
        (`calipers.sensitivity.multiverse.default_grid`). Choices that the grid does not name
        keep their default values; a choice with one value is fixed.
    base
        The configuration that the others are compared with: the values of some choices. All other
        choices have the first value of the grid, or 0.5 for the threshold if the grid has it.
    replicates
        Number of bootstrap samples of patients (of images if patients are unknown), for intervals
        of the shares of configurations won and of Kendall's W; 0 for no intervals.
    seed
        Seed of the bootstrap.
    jobs
        Number of threads; the result does not depend on it.
    executor
        Any `concurrent.futures.Executor` for blocks of images instead, such as that of a Dask
        client.
    progress
        Called with (blocks done, blocks in total), first while matching, then while resampling.

    Notes
    -----
    Values are compared only within a configuration, so the grid may mix metrics of different
    scales. Configurations in which a model has no value are left out and counted. Combinations that
    cannot differ are one configuration. Values are rounded to 12 decimals, so that rounding errors
    do not decide a rank.

    Examples
    --------
    >>> import calipers as cal
    >>> result = cal.multiverse(cal.demo_cohort())
    >>> len(result.each), result.winner
    (479, 'overpredicts')
    """
    check_seed(seed)
    if len(cohort.models) < 2:
        raise UsageError("a multiverse compares models: give predictions of two or more")
    if not 0 <= replicates <= MOST_REPLICATES:
        raise UsageError(
            f"replicates must be a number from 0 to {MOST_REPLICATES:,}, got {replicates}"
        )
    choices, base = _read_grid(grid, base)
    full_grid = {**default_grid(cohort), **choices}
    grid_points = configurations(full_grid, n_classes=len(cohort.classes))
    _check_base(full_grid, base)
    how = {"jobs": jobs, "executor": executor, "progress": progress}
    parts = list(_parts(cohort, grid_points, full_grid, how))
    # Before ranks are taken, so that models which differ in the last bits are tied.
    values = _gather([(part.rows, part.values()) for part in parts]).round(DIGITS)
    # A rank needs the values of all models, so a configuration counts only if all have one.
    complete = np.asarray(~np.isnan(values).any(axis=1))
    if not complete.any():
        raise UsageError("no configuration has a value for every model")
    each = tuple(one for one, defined in zip(grid_points.each, complete) if defined)
    result = Multiverse(
        models=tuple(cohort.models),
        choices=grid_points.choices,
        each=each,
        values=values[complete],
        base=_base_index(each, full_grid, base),
        n_possible=grid_points.n_possible,
        n_undefined=int((~complete).sum()),
        n_images=cohort.n_images,
        n_references=int((~cohort.references.ignore).sum()),
    )
    # Replicates are drawn on this machine, whatever the executor is.
    workers = threads_here(jobs, executor)
    bounds = _robustness(result, parts, complete, replicates, seed, workers, progress)
    return replace(result, robustness=bounds)


def multiverse_cost(
    cohort: Cohort,
    grid: Grid | str | Path | None,
    base: Mapping[str, Any] | None,
    replicates: int,
) -> RunCost:
    """Return what a multiverse takes, from one on the first images."""

    def trial(images: Cohort, replicates: int, watch: Stopwatch) -> None:
        multiverse(images, grid, base=base, replicates=replicates, progress=watch)

    n_blocks = len(spans(cohort.n_images)) * len(cohort.models)
    return cohort_cost(cohort, trial, work="multiverse", n_blocks=n_blocks, replicates=replicates)


def _read_grid(
    grid: Grid | str | Path | None, base: Mapping[str, Any] | None
) -> tuple[dict[str, Sequence[Value]], dict[str, Any]]:
    """Return the grid as lists, and the base; a base argument replaces that of a file."""
    if grid is None:
        return {}, dict(base or {})
    if isinstance(grid, str | Path):
        choices, file_base = load_grid(grid)
        if base is None:
            return dict(choices), file_base
        return dict(choices), dict(base)
    lists: dict[str, Sequence[Value]] = {}
    for name, values in grid.items():
        tolist = getattr(values, "tolist", None)  # arrays and series of any library have it
        lists[name] = values if tolist is None else tolist()
    return lists, dict(base or {})


@dataclass(frozen=True)
class _Part:
    """The configurations that see the same predictions, evaluated together."""

    rows: list[int]  # indices of the configurations
    names: list[str]  # of their metrics
    evaluation: Evaluation

    def values(self) -> F64:
        """Return (configurations, models) pooled values."""
        pooled = {
            (row.metric, row.model): row.estimate.value
            for row in self.evaluation.rows
            if row.label is None
        }
        models = self.evaluation.models
        values = [pooled[name, model] for name in self.names for model in models]
        return np.array(values).reshape(len(self.names), len(models))


def _parts(
    cohort: Cohort, grid_points: Configurations, grid: Grid, how: Mapping[str, Any]
) -> Iterator[_Part]:
    """Yield one evaluation per set of predictions, with all configurations that see them.

    Configurations that share their predictions also share geometry and matching, so evaluating
    them together computes both once.
    """
    rows_of: dict[tuple[tuple[str, Value], ...], list[int]] = {}
    for k, one in enumerate(grid_points.each):
        preparation = tuple((name, one[name]) for name in PREPARED if name in one)
        rows_of.setdefault(preparation, []).append(k)
    plain = Protocol.load("overview")
    for preparation, rows in rows_of.items():
        changed_cohort = cohort
        for name, value in preparation:
            changed_cohort = PREPARED[name](changed_cohort, value)
        names = [f"configuration {k}" for k in rows]
        plans = tuple(plan_of(grid_points.each[k], name) for k, name in zip(rows, names))
        protocol = replace(
            plain, metrics=plans, headline=(names[0],), name="multiverse", sizes=sizes_of(grid)
        )
        evaluation = evaluate(changed_cohort, protocol, ci=False, **how)
        yield _Part(rows, names, evaluation)


def _gather(parts: Sequence[tuple[list[int], F64]]) -> F64:
    """Return (..., configurations, models) of all parts, in the order of the configurations."""
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    return np.asarray(np.concatenate([values for _, values in parts], axis=-2)[..., order, :])


def _robustness(
    result: Multiverse,
    parts: Sequence[_Part],
    complete: NDArray[Any],
    replicates: int,
    seed: int,
    jobs: int,
    progress: Progress | None,
) -> Robustness | None:
    """Return the intervals of a multiverse; None without replicates, or with too few units."""
    if not replicates:
        return None
    tables = []
    for part in parts:
        values = replicate_values(
            part.evaluation, part.names, replicates, seed, progress, workers=jobs
        )
        if values is None:
            return None
        tables.append((part.rows, values))
    units = parts[0].evaluation.units
    best, second = (result.models.index(model) for model in result.best_two)
    values = _gather(tables)[:, complete].round(DIGITS)
    pair = best, second
    point = result.values
    return robustness(point, values, pair, seed=seed, unit=units.name, n_units=units.number)


def _check_base(grid: Grid, base: Mapping[str, Any]) -> None:
    for name, value in base.items():
        if name not in grid:
            raise UsageError(
                f"the base has {name!r}, which is not a choice of the grid; "
                f"{did_you_mean(name, grid)}"
            )
        # Arrays and frames are no value of a grid, and cannot be compared with one.
        is_value = isinstance(value, str | bool | int | float | np.generic | Sequence)
        if not is_value or value not in grid[name]:
            values = ", ".join(map(str, grid[name]))
            raise UsageError(f"the base has {name} = {value!r}, which is not in the grid: {values}")


def _base_index(each: Sequence[Mapping[str, Any]], grid: Grid, base: Mapping[str, Any]) -> int:
    """Return which configuration agrees with the base, and best with the defaults elsewhere."""
    defaults = {name: values[0] for name, values in grid.items()}
    if USUAL in grid.get("threshold", ()):
        defaults["threshold"] = USUAL
    # Named choices decide, the defaults choose among the configurations that agree with them.
    defaults |= base
    candidates = [k for k, one in enumerate(each) if _n_equal(one, base) == len(base)]
    if not candidates:
        choices = ", ".join(f"{name} = {value}" for name, value in base.items())
        raise UsageError(
            f"no configuration has {choices}: one of these has no effect beside the others, "
            "or a model has no value there"
        )
    return max(candidates, key=lambda k: _n_equal(each[k], defaults))


def _n_equal(configuration: Mapping[str, Any], choices: Mapping[str, Any]) -> int:
    """Return how many of the choices a configuration makes."""
    return sum(configuration.get(name) == value for name, value in choices.items())


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
    # Many combinations are equal, so that far more of them than configurations are allowed.
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
    relevant = ("metric", *PREPARED, *_family(str(combination["metric"])).choices)
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
    return {_size_name(area): (area, math.inf) for area in areas if area > 0}


def _size_name(least: Value) -> str:
    return f"from {float(least):g}"


def plan_of(configuration: Mapping[str, Value], name: str) -> MetricPlan:
    """Return the metric of a configuration."""
    family = _family(str(configuration["metric"]))
    kind, relevant = family.kind, family.choices
    options: dict[str, Any] = dict(family.options)
    if family.threshold is not None:
        options["thresholds"] = (_threshold(configuration, family.threshold),)
    elif "threshold" in relevant and "threshold" not in configuration:
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
                options["size"] = _size_name(value)
        else:
            options[choice] = value
    # Metrics that rank by score fix the assignment; RoDeO has a matching of its own.
    if "assignment" not in relevant and kind != "rodeo":
        options |= ALWAYS
    return MetricPlan(name, kind, options)


class _Family(NamedTuple):
    """The kind of a metric, its own options, and the choices of the grid that affect it."""

    kind: str
    options: Mapping[str, Any]
    choices: tuple[str, ...]
    threshold: float | None = None  # that the name of the metric fixes


def _family(name: str) -> _Family:
    """Return what a metric is, by its name, such as ``AP`` or, with a threshold of its own,
    ``AP@0.4``.
    """
    if name in FAMILIES:
        return _Family(*FAMILIES[name])
    base, sign, text = name.partition("@")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if base == "FROC" and 0 < number < math.inf:
        return _Family(FAMILIES[base][0], {"rates": (number,)}, FAMILIES[base][2])
    if sign and base in FAMILIES and base != "FROC" and 0 < number <= 1:
        kind, options, choices = FAMILIES[base]
        if "threshold" in choices:
            rest = tuple(choice for choice in choices if choice != "threshold")
            return _Family(kind, options, rest, number)
    raise UsageError(
        f"no metric {name!r} in a grid; {did_you_mean(base, FAMILIES)}, or one of them with its "
        "own threshold, such as AP@0.4 or F1@0.5"
    )


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
            raise UsageError(f"{name}: expected a list of different values, not {values!r}")
        for value in values:
            _check_value(name, value)


def _all_different(values: Sequence[Value]) -> bool:
    """Return whether there are values, and no two of them are equal."""
    return 0 < len(values) == len(set(map(_comparable, values)))


def _check_value(name: str, value: Value) -> None:
    if name == "metric":
        _family(str(value))
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
    if registry.resolve("criterion", name).distance and spelled(name, [RELATIVE]) != RELATIVE:
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


def load_grid(file: str | Path) -> tuple[dict[str, list[Value]], dict[str, Value]]:
    """Return the grid and the base of a TOML file.

    Choices that the file does not name keep their default values.
    """
    name = str(file)
    document = parse_toml(read_toml(file), name)
    _check_document(document, name)
    return dict(document.get("grid", {})), dict(document.get("base", {}))


def _check_document(document: Mapping[str, Any], file: str) -> None:
    for key in document:
        if key not in TOP:
            # The usual slip: a choice at the top level instead of in its table.
            hint = f"write {key} under [grid]" if key in DEFAULT else did_you_mean(key, TOP)
            raise InputError(
                f"one of {', '.join(TOP)}", rule="unknown-key", file=file, field=key, hint=hint
            )
    if document.get("schema") != SCHEMA:
        raise InputError(
            f'schema = "{SCHEMA}"',
            rule="schema",
            file=file,
            field="schema",
            value=document.get("schema"),
        )
    for key in ("grid", "base"):
        if not isinstance(document.get(key, {}), dict):
            raise InputError("a table", rule="type", file=file, location=key, value=document[key])
    try:
        check_grid({**DEFAULT, **document.get("grid", {})})
    except UsageError as error:
        raise InputError(
            "a grid", rule="grid", file=file, location="grid", value=str(error)
        ) from None
