# SPDX-License-Identifier: Apache-2.0
"""Sweeps: metrics as functions of one or two choices.

A choice of the protocol is swept for the models of a cohort: all its values become metrics of one
evaluation, so that geometry is computed once and every point has its interval. The strength of a
corruption is swept for an oracle: every point is the mean over several runs, and the band is their
standard deviation. ``calipers sweep`` and `calipers.sweep` call this; a `Sweep` comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.evaluate import evaluate
from calipers.findings import lower_is_better
from calipers.kernels.resampling import check_seed
from calipers.oracles import corrupt
from calipers.protocol import MetricPlan, Protocol
from calipers.sensitivity.choices import (
    Value,
    apply_choices,
    check_choice,
    is_corruption,
    steps_of,
)
from calipers.sensitivity.swept import ORACLE, Sweep, SweepAxis
from calipers.statistics.weights import plural
from calipers.tables import Cohort

F64 = NDArray[np.float64]
Progress = Callable[[int, int], None]

MOST_POINTS = 100_000


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
        Number of runs of an oracle, each with other random numbers.
    ci
        Compute confidence intervals of models; the band of an oracle is the spread of its runs.
    with_
        Corruptions that the oracle always has, such as ``"position-noise(sigma=0.5)"``; they are
        applied last.
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
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    plan = Protocol.load(protocol).only(names)
    axes = _axes(over)
    check_seed(seed)
    if not any(is_corruption(axis.name) for axis in axes):
        if with_:
            raise UsageError(
                "corruptions belong to an oracle: sweep the strength of one, "
                "such as position-noise.sigma"
            )
        return _of_models(cohort, plan, axes, ci=ci, seed=seed, progress=progress)
    if runs < 1 or runs != int(runs):
        raise UsageError(f"runs must be a whole number from 1, not {runs!r}")
    check_seed(seed + runs - 1)
    return _of_oracle(cohort, plan, axes, runs, seed, tuple(with_), progress)


def _axes(over: Mapping[str, Sequence[Value]]) -> tuple[SweepAxis, ...]:
    if not 1 <= len(over) <= 2:
        raise UsageError(f"a sweep has one or two choices, not {len(over)}; multiverse takes more")
    for name, values in over.items():
        check_choice(name, values)
    axes: list[SweepAxis] = []
    for name, values in over.items():
        axes.append(SweepAxis(name, tuple(_plain(value) for value in values)))
    total = math.prod(len(axis.values) for axis in axes)
    if total > MOST_POINTS:
        raise UsageError(f"a sweep has at most {MOST_POINTS:,} points, not {total:,}")
    for point in _points([axis for axis in axes if is_corruption(axis.name)]):
        steps_of(point)  # raises for values that a corruption cannot have
    return tuple(axes)


def _plain(value: Value) -> Value:
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
    progress: Progress | None,
) -> Sweep:
    if not cohort.models:
        raise UsageError(
            "no model: give predictions, or sweep a corruption such as position-noise.sigma"
        )
    all_points, names = grid_protocol(protocol, _points(axes))
    evaluation = evaluate(cohort, all_points, seed=seed, ci=ci, progress=progress)
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
        units = f"{settings['n_units']} {plural(settings['unit'])}"
        band = f"{100 * settings['level']:g} % interval over {units}"
    return _result(cohort, protocol, axes, tuple(cohort.models), tables, (1, band, seed))


def _of_oracle(
    cohort: Cohort,
    protocol: Protocol,
    axes: tuple[SweepAxis, ...],
    runs: int,
    seed: int,
    always: tuple[str, ...],
    progress: Progress | None,
) -> Sweep:
    """Return the mean over runs, and mean - SD to mean + SD (n - 1) of the runs."""
    strengths = [axis for axis in axes if is_corruption(axis.name)]
    others = [axis for axis in axes if not is_corruption(axis.name)]
    all_points, names = grid_protocol(protocol, _points(others))
    references = replace(cohort, models={})
    settings, n = _points(strengths), len(protocol.metrics)
    values = np.empty((runs, len(settings), len(names), n))
    for count, (s, run) in enumerate(product(range(len(settings)), range(runs)), start=1):
        steps = [*map(str, steps_of(settings[s])), *always]
        oracle = corrupt(references, steps, seed=seed + run, name=ORACLE)
        evaluation = evaluate(oracle, all_points, ci=False)
        pooled = {row.metric: row.estimate.value for row in evaluation.rows if row.label is None}
        for point, names_here in enumerate(names):
            values[run, s, point] = [pooled[name] for name in names_here]
        if progress is not None:
            progress(count, len(settings) * runs)
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
        lower=tuple(name for name in names if name in lower_is_better(protocol)),
        bounded=tuple(name for facts in shares for name in facts.names),
    )
