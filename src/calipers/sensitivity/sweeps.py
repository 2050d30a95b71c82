# SPDX-License-Identifier: Apache-2.0
"""Sweeps: metrics as functions of one or two choices.

A choice of the protocol is swept for the models of a cohort: all its values become metrics of one
evaluation, so that geometry is computed once and every point has its interval. The strength of a
corruption is swept for an oracle: every point is the mean over several runs, with their spread as
band.
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
from calipers.sensitivity.choices import Value, changed, check_choice, is_corruption, steps_of
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
        are made for all models of the cohort; with the strength of a corruption among them, for an
        oracle that corrupts the references.
    runs
        Of an oracle, each with other random numbers.
    ci
        State intervals of models; those of an oracle are the spread of its runs.
    with_
        Corruptions that the oracle always has, such as ``"position-noise(sigma=0.5)"``; they come
        last.
    progress
        Called with (points done, points in all).

    Examples
    --------
    >>> import calipers as cal
    >>> found = cal.sweep(cal.demo_cohort(), "RoDeO/loc", {"position-noise.sigma": [0, 0.5]}, protocol="rodeo")
    >>> found.value[0, 0].round(1).tolist()
    [1.0, 0.7]
    """
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    plan = Protocol.load(protocol).only(names)
    axes = _axes(over)
    check_seed(seed)
    if not any(is_corruption(axis.name) for axis in axes):
        if with_:
            raise UsageError(
                "corruptions belong to an oracle: sweep the strength of one, such as position-noise.sigma"
            )
        return _of_models(cohort, plan, axes, ci=ci, seed=seed, progress=progress)
    if runs < 1 or runs != int(runs):
        raise UsageError(f"runs is a whole number from 1, not {runs!r}")
    check_seed(seed + runs - 1)
    return _of_oracle(cohort, plan, axes, runs, seed, tuple(with_), progress)


def _axes(over: Mapping[str, Sequence[Value]]) -> tuple[SweepAxis, ...]:
    if not 1 <= len(over) <= 2:
        raise UsageError(f"a sweep has one or two choices, not {len(over)}; multiverse takes more")
    for name, values in over.items():
        check_choice(name, values)
    axes = tuple(
        SweepAxis(name, tuple(_plain(value) for value in values)) for name, values in over.items()
    )
    total = math.prod(len(axis.values) for axis in axes)
    if total > MOST_POINTS:
        raise UsageError(f"at most {MOST_POINTS:,} points, not {total:,}")
    for point in _points([axis for axis in axes if is_corruption(axis.name)]):
        steps_of(point)  # raises for what a corruption cannot be
    return axes


def _plain(value: Value) -> Value:
    """Return a number of NumPy as one of Python, which JSON knows."""
    return value.item() if isinstance(value, np.generic) else value


def _points(axes: Sequence[SweepAxis]) -> list[dict[str, Value]]:
    """Return the choices of all points, the last axis fastest."""
    return [
        dict(zip((axis.name for axis in axes), values))
        for values in product(*(axis.values for axis in axes))
    ]


def grid_protocol(
    protocol: Protocol, points: Sequence[Mapping[str, Value]]
) -> tuple[Protocol, list[list[str]]]:
    """Return a protocol with every metric at every point, and their names there: point by metric."""
    plans: list[MetricPlan] = []
    names: list[list[str]] = []
    grown = protocol
    for point in points:
        here, at = [], ", ".join(f"{name}={value}" for name, value in point.items())
        for plan in protocol.metrics:
            grown, other = changed(grown, plan, point)
            here.append(f"{plan.name} ({at})")  # a name that errors can show
            plans.append(replace(other, name=here[-1]))
        names.append(here)
    return replace(grown, metrics=tuple(plans), headline=(plans[0].name,)), names


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
    grown, names = grid_protocol(protocol, _points(axes))
    evaluation = evaluate(cohort, grown, seed=seed, ci=ci, progress=progress)
    pooled = {(row.model, row.metric): row.estimate for row in evaluation.rows if row.label is None}
    shape = (len(cohort.models), len(protocol.metrics), *(len(axis.values) for axis in axes))
    tables = []
    for end in ("value", "low", "high"):
        table = [
            [[getattr(pooled[model, here[k]], end) for here in names] for k in range(shape[1])]
            for model in cohort.models
        ]
        tables.append(np.array(table, np.float64).reshape(shape))
    told = evaluation.statistics
    band = f"{100 * told['level']:g} % interval over {told['n_units']} {plural(told['unit'])}"
    band = band if np.isfinite(tables[1]).any() else "none"
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
    strength = [axis for axis in axes if is_corruption(axis.name)]
    others = [axis for axis in axes if not is_corruption(axis.name)]
    grown, names = grid_protocol(protocol, _points(others))
    alone = replace(cohort, models={})
    settings, n = _points(strength), len(protocol.metrics)
    found = np.empty((runs, len(settings), len(names), n))
    for done, (s, run) in enumerate(product(range(len(settings)), range(runs)), start=1):
        steps = [*(str(step) for step in steps_of(settings[s])), *always]
        model = corrupt(alone, steps, seed=seed + run, name=ORACLE)
        evaluation = evaluate(model, grown, ci=False)
        pooled = {row.metric: row.estimate.value for row in evaluation.rows if row.label is None}
        found[run, s] = [[pooled[name] for name in here] for here in names]
        if progress is not None:
            progress(done, len(settings) * runs)
    order = np.moveaxis(found, 3, 0).reshape(
        n, runs, *(len(axis.values) for axis in (*strength, *others))
    )
    if [*strength, *others] != list(axes):  # the choice came first
        order = order.swapaxes(2, 3)
    mean = order.mean(axis=1)
    spread = order.std(axis=1, ddof=1) if runs > 1 else np.full(mean.shape, np.nan)
    band = (
        f"one standard deviation (n - 1) of {runs} runs to both sides of their mean"
        if runs > 1
        else "none"
    )
    tables = [mean[None], (mean - spread)[None], (mean + spread)[None]]
    return _result(cohort, protocol, axes, (ORACLE,), tables, (runs, band, seed))


def _result(
    cohort: Cohort,
    protocol: Protocol,
    axes: tuple[SweepAxis, ...],
    models: tuple[str, ...],
    tables: Sequence[F64],
    told: tuple[int, str, int],
) -> Sweep:
    names, facts = (
        tuple(plan.name for plan in protocol.metrics),
        [metric.facts for metric in protocol.compile()],
    )
    return Sweep(
        axes=axes,
        models=models,
        metrics=names,
        value=tables[0],
        low=tables[1],
        high=tables[2],
        runs=told[0],
        band=told[1],
        protocol=protocol.name,
        n_images=cohort.n_images,
        n_references=int((~cohort.references.ignore).sum()),
        seed=told[2],
        lower=tuple(name for name in names if name in lower_is_better(protocol)),
        bounded=tuple(name for fact in facts if fact.bounds == (0.0, 1.0) for name in fact.names),
    )
