# SPDX-License-Identifier: Apache-2.0
"""Sweeps: metrics as functions of one or two choices.

A cohort, names of metrics and one or two choices with their values come in, a `Sweep` comes out:
values with bands, as rows, frame, JSON or figure. ``calipers sweep`` and `calipers.sweep` call
this; terminal, page and notebooks show it.

- A choice of the protocol has the name of its key (``threshold``) and is swept for the models of a
  cohort: all its values become metrics of one evaluation, so that geometry is computed once and
  every point has its interval.
- The strength of a corruption is written ``kind.parameter`` (``position-noise.sigma``) and is swept
  for an oracle: every point is the mean over several runs, and the band is their standard
  deviation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calipers import registry
from calipers.arguments import names_arguments
from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.engine.cost import RunCost, Stopwatch
from calipers.engine.ordered_map import WorkerDied, in_order
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.evaluation.collect import spans
from calipers.evaluation.evaluate import evaluate
from calipers.evaluation.plan import cohort_cost
from calipers.evaluation.protocol import Protocol
from calipers.kernels.resampling import check_seed
from calipers.metrics.base import MetricPlan
from calipers.oracles.corrupt import KINDS, Corruption, check_corruption, corrupt
from calipers.results.document import Document
from calipers.results.estimate import number
from calipers.show.words import (
    intervals_by,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

Value = float | int | str
Change = Callable[[Protocol, MetricPlan, Any], tuple[Protocol, MetricPlan]]

SPREADS = {
    "position-noise": "standard deviation (sides of the box)",
    "aspect-noise": "standard deviation of ln(aspect)",
}
STRENGTHS = {  # parameters of corruptions: what the number means
    "sigma": "standard deviation of ln(side)",
    "noise": "standard deviation of the place (sides of the box)",
    "bias": "distance (sides of the box)",
    "mean": "copies per box, mean",
    "p": "probability",
    "size": "side (share of the image)",
    "share": "side (share of the image)",
}
OWN = ("score_cut",)  # the only choice that also affects a metric with its own matching
# Choices whose values are numbers; the values of all others are words.
NUMBERS = ("threshold", "score_cut", "least_area", "max_dets")

ORACLE = "oracle"
CLAIM = re.compile(r"@[0-9.]+$")  # the threshold in the name of a metric: AP@0.5

AHEAD = 4  # runs per worker that wait or are under way

Progress = Callable[[int, int], None]

MOST_POINTS = 100_000


def _option_change(name: str) -> Change:
    def change(protocol: Protocol, plan: MetricPlan, value: Any) -> tuple[Protocol, MetricPlan]:
        return protocol, replace(plan, options={**plan.options, name: value})

    return change


def _threshold_change(
    protocol: Protocol, plan: MetricPlan, value: Any
) -> tuple[Protocol, MetricPlan]:
    return protocol, replace(plan, options={**plan.options, "thresholds": (float(value),)})


def _least_area_change(
    protocol: Protocol, plan: MetricPlan, value: Any
) -> tuple[Protocol, MetricPlan]:
    """Count only objects of at least this area; smaller ones are ignored, as in COCO."""
    name = f"from {float(value):g}"
    sizes = {**protocol.sizes, name: (float(value), math.inf)}
    return replace(protocol, sizes=sizes), replace(plan, options={**plan.options, "size": name})


def _max_dets_change(
    protocol: Protocol, plan: MetricPlan, value: Any
) -> tuple[Protocol, MetricPlan]:
    if not float(value).is_integer() or value < 1:
        raise UsageError(f"max_dets must be a whole number of at least 1, not {value!r}")
    return protocol, replace(plan, options={**plan.options, "max_dets": int(value)})


# What a choice is in words, and how it changes the plan of a metric or its protocol.
CHOICES: Mapping[str, tuple[str, Change]] = {
    "threshold": ("threshold of the criterion", _threshold_change),
    "score_cut": ("lowest score that counts", _option_change("score_cut")),
    "least_area": ("smallest area that counts (px²)", _least_area_change),
    "max_dets": ("predictions that count, per image and class", _max_dets_change),
    "criterion": ("criterion", _option_change("criterion")),
    "assignment": ("assignment", _option_change("assignment")),
    "interpolation": ("interpolation", _option_change("interpolation")),
    "average": ("average", _option_change("average")),
    "classes": ("classes", _option_change("classes")),
    "ties": ("ties", _option_change("ties")),
}


@dataclass(frozen=True, slots=True)
class SweepAxis:
    """One choice and its values."""

    name: str
    values: tuple[Value, ...]

    @property
    def label(self) -> str:
        """The choice in words."""
        return label_of(self.name)

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers, so that a line may join them."""
        return all(not isinstance(value, str) for value in self.values)


@dataclass(frozen=True, repr=False, eq=False)
class Sweep(Document):
    """Values of metrics over one or two choices, with bands.

    ``figure()`` shows the first metric, or all metrics of an oracle over one number;
    ``figure("AP@0.5")`` shows one metric. One choice shows all models; ``model`` says which, where
    only one can be shown. See `calipers.sensitivity.figures.sweep_figure`.
    """

    SCHEMA = "calipers.sweep/1"
    FIGURES = "calipers.sensitivity.figures:sweep_catalogue"
    TABLES = "calipers.sensitivity.tables:sweep_tables"
    FOLDER = "calipers.sensitivity.page:write_sweep"
    NOTEBOOK = "calipers.sensitivity.page:of_sweep"

    axes: tuple[SweepAxis, ...]
    models: tuple[str, ...]
    metrics: tuple[str, ...]
    value: F64  # (models, metrics, points of axis 0[, points of axis 1])
    low: F64  # of the same shape; NaN without a band
    high: F64
    runs: int  # of an oracle; 1 if nothing was random
    band: str  # what low and high are
    protocol: str
    n_images: int
    n_references: int
    seed: int
    lower: tuple[str, ...] = ()  # metrics of which less is better
    bounded: tuple[str, ...] = ()  # metrics that lie between 0 and 1

    @property
    def of_oracle(self) -> bool:
        """Whether the strength of a corruption was swept."""
        return any(is_corruption(axis.name) for axis in self.axes)

    def metric_label(self, metric: str) -> str:
        """Return the name of a metric, without a threshold that the sweep replaces.

        AP@0.5 swept over thresholds is called AP.
        """
        if any(axis.name == "threshold" for axis in self.axes):
            return CLAIM.sub("", metric)
        return metric

    def line(self, metric: str, model: str | None = None) -> tuple[F64, F64, F64]:
        """Return value, low and high of one metric and model along the axes."""
        if model is None and len(self.models) == 1:
            model = self.models[0]
        for what, name, names in (("model", model, self.models), ("metric", metric, self.metrics)):
            if name not in names:
                raise UsageError(
                    f"no {what} {name!r} in this sweep; {did_you_mean(str(name), names)}"
                )
        place = self.models.index(str(model)), self.metrics.index(metric)
        return self.value[place], self.low[place], self.high[place]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per model, metric and point."""
        rows = []
        lengths = [len(axis.values) for axis in self.axes]
        for m, k, *point in np.ndindex(len(self.models), len(self.metrics), *lengths):
            place = (m, k, *point)
            row: dict[str, Any] = {"model": self.models[m], "metric": self.metrics[k]}
            for axis, i in zip(self.axes, point):
                row[axis.name] = axis.values[i]
            row["value"] = number(float(self.value[place]))
            row["low"] = number(float(self.low[place]))
            row["high"] = number(float(self.high[place]))
            rows.append(row)
        return rows

    def _content(self) -> dict[str, Any]:
        return {
            "axes": [
                {"name": axis.name, "label": axis.label, "values": list(axis.values)}
                for axis in self.axes
            ],
            "models": list(self.models),
            "metrics": list(self.metrics),
            "runs": self.runs,
            "band": self.band,
            "seed": self.seed,
            "protocol": self.protocol,
            "cohort": {"images": self.n_images, "references": self.n_references},
            "rows": self.rows(),
        }


@names_arguments
def sweep(
    cohort: Cohort,
    metrics: str | Sequence[str],
    over: Mapping[str, Sequence[Value]],
    *,
    protocol: str | Path | Protocol = "overview",
    runs: int = 5,
    seed: int = 0,
    ci: bool = True,
    with_: Sequence[str] = (),
    jobs: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Return metrics as a function of one or two choices.

    Parameters
    ----------
    metrics
        Names of metrics of the protocol.
    over
        One or two choices with their values: ``{"threshold": [0.1, 0.3, 0.5]}``, ``{"criterion":
        ["box-iou", "iop"]}``, ``{"position-noise.sigma": [0, 0.5, 1]}``. Choices of the protocol
        are swept for all models of the cohort. If one choice is the strength of a corruption, the
        sweep is that of an oracle, which predicts the corrupted references.
    runs
        Number of runs of an oracle, each with different random numbers.
    ci
        Compute confidence intervals of models; the band of an oracle is the spread of its runs.
    with_
        Corruptions that the oracle always has, such as ``"position-noise(sigma=0.5)"``; they are
        applied last.
    jobs
        Number of threads: for blocks of images, or for runs of an oracle. The result does not
        depend on it.
    executor
        Any `concurrent.futures.Executor` for that work instead, such as that of a Dask client.
    progress
        Called with (points done, points in total).

    Examples
    --------
    >>> import calipers as cal
    >>> noise = {"position-noise.sigma": [0, 0.5]}
    >>> result = cal.sweep(cal.demo_cohort(), "RoDeO/loc", noise, protocol="rodeo")
    >>> result.value[0, 0].round(1).tolist()
    [1.0, 0.7]
    """
    plan, axes = _checked(metrics, over, protocol, seed)
    how = {"jobs": jobs, "executor": executor, "progress": progress}
    if not any(is_corruption(axis.name) for axis in axes):
        if with_:
            raise UsageError(
                "corruptions belong to an oracle: sweep the strength of one, "
                "such as position-noise.sigma"
            )
        return _of_models(cohort, plan, axes, ci=ci, seed=seed, how=how)
    check_runs(runs, seed)
    return _of_oracle(_divided(cohort, plan, axes, runs, seed, tuple(with_)), how)


def sweep_cost(
    cohort: Cohort,
    metrics: str | Sequence[str],
    over: Mapping[str, Sequence[Value]],
    *,
    protocol: str | Path | Protocol = "overview",
    runs: int = 5,
    seed: int = 0,
    ci: bool = True,
    with_: Sequence[str] = (),
) -> RunCost:
    """Return what a sweep takes, from one on the first images."""
    plan = Protocol.load(protocol)
    is_oracle = any(is_corruption(name) for name in over)

    def trial(images: Cohort, replicates: int, watch: Stopwatch) -> None:
        sweep(
            images,
            metrics,
            over,
            protocol=replace(plan, replicates=max(replicates, 1)),
            runs=runs,
            seed=seed,
            ci=replicates > 0,
            with_=with_,
            progress=watch,
        )

    n_blocks = len(spans(cohort.n_images)) * len(cohort.models)
    replicates = plan.replicates if ci else 0
    if is_oracle:  # its runs are all there is
        strengths = [axis for axis in _axes(over) if is_corruption(axis.name)]
        n_blocks, replicates = len(_points(strengths)) * runs, 0
    return cohort_cost(cohort, trial, work="sweep", n_blocks=n_blocks, replicates=replicates)


def _axes(over: Mapping[str, Sequence[Value]]) -> tuple[SweepAxis, ...]:
    if not 1 <= len(over) <= 2:
        raise UsageError(f"a sweep has one or two choices, not {len(over)}; multiverse takes more")
    for name, values in over.items():
        check_choice(name, values)
    axes: list[SweepAxis] = []
    for name, values in over.items():
        axes.append(SweepAxis(name, tuple(_python_value(value) for value in values)))
    total = math.prod(len(axis.values) for axis in axes)
    if total > MOST_POINTS:
        raise UsageError(f"a sweep has at most {MOST_POINTS:,} points, not {total:,}")
    for point in _points([axis for axis in axes if is_corruption(axis.name)]):
        steps_of(point)  # raises for values that a corruption cannot have
    return tuple(axes)


def _python_value(value: Value) -> Value:
    """Return a NumPy number as a Python number, which JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value


def _points(axes: Sequence[SweepAxis]) -> list[dict[str, Value]]:
    """Return the choices of all points, the last axis fastest."""
    names = [axis.name for axis in axes]
    values_of_axes = [axis.values for axis in axes]
    return [dict(zip(names, values)) for values in product(*values_of_axes)]


def grid_protocol(
    protocol: Protocol, points: Sequence[Mapping[str, Value]]
) -> tuple[Protocol, list[list[str]]]:
    """Return a protocol with every metric at every point, and their names: point by metric."""
    plans: list[MetricPlan] = []
    names: list[list[str]] = []
    protocol_of_all = protocol
    for point in points:
        place = ", ".join(f"{name}={value}" for name, value in point.items())
        names_here = []
        for plan in protocol.metrics:
            # Areas are declared in the protocol, so that it grows from point to point.
            protocol_of_all, plan_here = apply_choices(protocol_of_all, plan, point)
            name = f"{plan.name} ({place})"  # errors print it, so it says where it belongs
            names_here.append(name)
            plans.append(replace(plan_here, name=name))
        names.append(names_here)
    return replace(protocol_of_all, metrics=tuple(plans), headline=(plans[0].name,)), names


def _of_models(
    cohort: Cohort,
    protocol: Protocol,
    axes: tuple[SweepAxis, ...],
    *,
    ci: bool,
    seed: int,
    how: Mapping[str, Any],
) -> Sweep:
    if not cohort.models:
        raise UsageError(
            "no model: give predictions, or sweep a corruption such as position-noise.sigma"
        )
    all_points, names = grid_protocol(protocol, _points(axes))
    evaluation = evaluate(cohort, all_points, seed=seed, ci=ci, **how)
    pooled = {(row.model, row.metric): row.estimate for row in evaluation.rows if row.label is None}
    shape = (len(cohort.models), len(protocol.metrics), *(len(axis.values) for axis in axes))
    tables = [np.empty((*shape[:2], len(names))) for _ in range(3)]
    for m, model in enumerate(cohort.models):
        for point, names_here in enumerate(names):
            for k, name in enumerate(names_here):
                estimate = pooled[model, name]
                ends = (estimate.value, estimate.low, estimate.high)
                for table, end in zip(tables, ends):
                    table[m, k, point] = end
    tables = [table.reshape(shape) for table in tables]
    band = "none"
    if np.isfinite(tables[1]).any():
        settings = evaluation.statistics
        band = intervals_by(settings["level"], settings["unit"], settings["n_units"])
    return _result(cohort, protocol, axes, tuple(cohort.models), tables, (1, band, seed))


@dataclass(frozen=True)
class OracleRun:
    """What an oracle is worth at one strength in one run; workers in other processes receive it."""

    references: Cohort
    protocol: Protocol  # all metrics at all points of the other choices
    names: list[list[str]]  # point by metric
    always: tuple[str, ...]
    seed: int

    @classmethod
    def of(
        cls,
        cohort: Cohort,
        protocol: Protocol,
        points: Sequence[Mapping[str, Value]],
        always: tuple[str, ...],
        seed: int,
    ) -> OracleRun:
        """Return the oracle of a cohort; predictions of its models play no part."""
        all_points, names = grid_protocol(protocol, points)
        return cls(replace(cohort, models={}), all_points, names, always, seed)

    def __call__(self, item: tuple[Mapping[str, Value], int]) -> F64:
        """Return (points, metrics) of one run at one strength."""
        setting, run = item
        steps = [*map(str, steps_of(setting)), *self.always]
        # The same seed at every strength: neighbouring points share their random numbers, and
        # curves are smooth.
        oracle = corrupt(self.references, steps, seed=self.seed + run, name=ORACLE)
        evaluation = evaluate(oracle, self.protocol, ci=False)
        pooled = {row.metric: row.estimate.value for row in evaluation.rows if row.label is None}
        values = np.empty((len(self.names), len(self.names[0])))
        for point, names_here in enumerate(self.names):
            values[point] = [pooled[name] for name in names_here]
        return values


@dataclass(frozen=True)
class OracleSweep:
    """A sweep of an oracle, divided into runs that do not depend on each other."""

    oracle: OracleRun
    items: tuple[tuple[Mapping[str, Value], int], ...]  # strengths and run
    compose: Callable[[Sequence[F64]], Sweep]  # of what the oracle returns for the items


def oracle_sweep(
    cohort: Cohort,
    metrics: str | Sequence[str],
    over: Mapping[str, Sequence[Value]],
    *,
    protocol: str | Path | Protocol = "overview",
    runs: int = 5,
    seed: int = 0,
    with_: Sequence[str] = (),
) -> OracleSweep:
    """Return the runs of a sweep of an oracle, for callers that do them with other work; the
    parameters are those of `sweep`.
    """
    plan, axes = _checked(metrics, over, protocol, seed)
    check_runs(runs, seed)
    return _divided(cohort, plan, axes, runs, seed, tuple(with_))


def _checked(
    metrics: str | Sequence[str],
    over: Mapping[str, Sequence[Value]],
    protocol: str | Path | Protocol,
    seed: int,
) -> tuple[Protocol, tuple[SweepAxis, ...]]:
    """Return the protocol with these metrics, and the axes; raise for what cannot be swept."""
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if not names:
        raise UsageError("metrics names at least one metric of the protocol")
    plan = Protocol.load(protocol).only(names)
    axes = _axes(over)
    check_seed(seed)
    return plan, axes


def check_runs(runs: int, seed: int) -> None:
    """Raise unless an oracle can have so many runs."""
    if runs < 1 or runs != int(runs):
        raise UsageError(f"runs must be a whole number of at least 1, not {runs!r}")
    # Runs have the seeds from `seed` on: the last one must be valid, too.
    check_seed(seed + runs - 1)


def _divided(
    cohort: Cohort,
    protocol: Protocol,
    axes: tuple[SweepAxis, ...],
    runs: int,
    seed: int,
    always: tuple[str, ...],
) -> OracleSweep:
    """Return the runs of an oracle at all strengths, and what makes a sweep of them: the mean over
    runs, and mean - SD to mean + SD (n - 1) of the runs.
    """
    strengths = [axis for axis in axes if is_corruption(axis.name)]
    others = [axis for axis in axes if not is_corruption(axis.name)]
    oracle = OracleRun.of(cohort, protocol, _points(others), always, seed)
    settings, n = _points(strengths), len(protocol.metrics)
    places = list(product(range(len(settings)), range(runs)))

    def compose(results: Sequence[F64]) -> Sweep:
        values = np.empty((runs, len(settings), *np.shape(oracle.names)))
        for (s, run), of_run in zip(places, results, strict=True):
            values[run, s] = of_run
        lengths = [len(axis.values) for axis in (*strengths, *others)]
        values = np.moveaxis(values, 3, 0).reshape(n, runs, *lengths)
        # Strengths come first here; the caller may have named the other choice first.
        if [*strengths, *others] != list(axes):
            values = values.swapaxes(2, 3)
        mean = values.mean(axis=1)
        if runs > 1:
            sd = values.std(axis=1, ddof=1)
            band = f"one standard deviation (n - 1) of {runs} runs to both sides of their mean"
        else:
            sd = np.full(mean.shape, np.nan)
            band = "none"
        tables = [mean[None], (mean - sd)[None], (mean + sd)[None]]
        return _result(cohort, protocol, axes, (ORACLE,), tables, (runs, band, seed))

    return OracleSweep(oracle, tuple((settings[s], run) for s, run in places), compose)


def _of_oracle(divided: OracleSweep, how: Mapping[str, Any]) -> Sweep:
    """Do all runs of an oracle, and return the sweep."""
    jobs, progress, items = how["jobs"], how["progress"], divided.items
    values: list[F64] = []
    results = in_order(
        divided.oracle, items, workers=jobs, executor=how["executor"], ahead=AHEAD * jobs
    )
    try:
        for of_run in results:
            values.append(of_run)
            if progress is not None:
                progress(len(values), len(items))
    except WorkerDied as error:
        setting, run = items[error.item]
        strength = ", ".join(f"{name}={value:g}" for name, value in setting.items())
        raise InputError(
            "references that can be corrupted and matched",
            rule="worker-died",
            location=f"run {run + 1} at {strength}",
            value=error.how,
            hint="the memory of a worker may be too small for all images: try fewer --jobs",
        ) from None
    return divided.compose(values)


def _result(
    cohort: Cohort,
    protocol: Protocol,
    axes: tuple[SweepAxis, ...],
    models: tuple[str, ...],
    tables: Sequence[F64],
    settings: tuple[int, str, int],
) -> Sweep:
    """Return the result; settings are the runs, what the band is, and the seed."""
    names = tuple(plan.name for plan in protocol.metrics)
    shares = [metric.facts for metric in protocol.compile() if metric.facts.bounds == (0.0, 1.0)]
    runs, band, seed = settings
    return Sweep(
        axes=axes,
        models=models,
        metrics=names,
        value=tables[0],
        low=tables[1],
        high=tables[2],
        runs=runs,
        band=band,
        protocol=protocol.name,
        n_images=cohort.n_images,
        n_references=int((~cohort.references.ignore).sum()),
        seed=seed,
        lower=tuple(name for name in names if name in protocol.lower_is_better),
        bounded=tuple(name for facts in shares for name in facts.names),
    )


def check_choice(name: str, values: Sequence[Value]) -> None:
    """Raise for an unknown choice, or for values that it cannot have.

    The range of a corruption's parameter is checked by `steps_of`.
    """
    if isinstance(values, str) or not len(values):
        raise UsageError(f"{name} needs a list of values, not {values!r}")
    if len(set(values)) < len(values):
        raise UsageError(f"{name} needs different values, got {list(values)!r}")
    kind, sign, _ = name.partition(".")
    if name not in CHOICES and not (sign and kind in KINDS):
        known_names = [*CHOICES, *(f"{kind}.<parameter>" for kind in KINDS)]
        raise UsageError(f"no choice {name!r} to sweep; {did_you_mean(name, known_names)}")
    numeric = name in NUMBERS or is_corruption(name)
    for value in values:
        # bool is a number in Python, but True is no threshold.
        if numeric and (isinstance(value, str | bool) or not math.isfinite(value)):
            raise UsageError(f"the values of {name} are numbers, not {value!r}")
        if not numeric and not isinstance(value, str):
            raise UsageError(f"the values of {name} are words, not {value!r}")
        if name in ("criterion", "assignment"):
            registry.check(name, str(value))


def steps_of(choices: Mapping[str, Value]) -> list[Corruption]:
    """Return the corruptions of ``{"position-noise.sigma": 0.5}``.

    Two parameters of the same kind make one corruption.
    """
    parameters_of: dict[str, dict[str, float]] = {}
    for name, value in choices.items():
        kind, _, parameter = name.partition(".")
        parameters_of.setdefault(kind, {})[parameter] = float(value)
    return [check_corruption(kind, parameters, KINDS) for kind, parameters in parameters_of.items()]


def is_corruption(name: str) -> bool:
    """Return whether a choice is the strength of a corruption."""
    return name not in CHOICES


def label_of(name: str) -> str:
    """Return a choice in words, with its unit."""
    if name in CHOICES:
        return CHOICES[name][0]
    kind, _, parameter = name.partition(".")
    meaning = STRENGTHS[parameter]
    if parameter == "sigma" and kind in SPREADS:
        meaning = SPREADS[kind]
    return f"{kind.replace('-', ' ')}, {meaning}"


def apply_choices(
    protocol: Protocol, plan: MetricPlan, choices: Mapping[str, Value]
) -> tuple[Protocol, MetricPlan]:
    """Return the protocol and the plan of a metric with these choices made."""
    for name, value in choices.items():
        if registry.own_matching(plan.kind) and name not in OWN:
            raise UsageError(f"{plan.name} has its own matching, on which {name!r} has no effect")
        protocol, plan = CHOICES[name][1](protocol, plan, value)
    criterion = registry.resolve(
        "criterion", plan.options.get("criterion", protocol.matching.criterion)
    )
    # Distances may have any threshold; an overlap is a share.
    if "threshold" in choices and not criterion.distance:
        threshold = float(choices["threshold"])
        if not 0 <= threshold <= 1:
            raise UsageError(
                f"overlaps lie in [0, 1]: {choices['threshold']} is out of range; "
                "write 0.5 for 50 %"
            )
    return protocol, plan
