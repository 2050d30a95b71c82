# SPDX-License-Identifier: Apache-2.0
"""Sweeps: metrics as functions of one or two choices.

A choice of the protocol is swept for the models of a cohort: all its values become metrics of one evaluation, so that
geometry is computed once and every point has its interval. The strength of a corruption is swept for an oracle: every
point is the mean over several runs, with their spread as band.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.evaluate import evaluate
from calipers.kernels.resampling import check_seed
from calipers.oracles import corrupt
from calipers.protocol import MetricPlan, Protocol
from calipers.results.estimate import number
from calipers.sensitivity.choices import Value, changed, check_choice, is_corruption, label_of
from calipers.tables import Cohort

if TYPE_CHECKING:
    import pandas as pd

F64 = NDArray[np.float64]
Progress = Callable[[int, int], None]

SCHEMA = "calipers.sweep/1"
ORACLE = "oracle"
MOST_POINTS = 100_000


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


@dataclass(frozen=True)
class Sweep:
    """Values of metrics over one or two choices, with bands."""

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

    def line(self, metric: str, model: str | None = None) -> tuple[F64, F64, F64]:
        """Return value, low and high of one metric and model along the axes."""
        model = self.models[0] if model is None and len(self.models) == 1 else model
        for what, name, known in (("model", model, self.models), ("metric", metric, self.metrics)):
            if name not in known:
                raise UsageError(f"no {what} {name!r} in this sweep; {did_you_mean(str(name), known)}")
        place = self.models.index(str(model)), self.metrics.index(metric)
        return self.value[place], self.low[place], self.high[place]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per model, metric and point."""
        found = []
        for m, model in enumerate(self.models):
            for k, metric in enumerate(self.metrics):
                for place in np.ndindex(*(len(axis.values) for axis in self.axes)):
                    at = {axis.name: axis.values[i] for axis, i in zip(self.axes, place)}
                    ends = (float(table[(m, k, *place)]) for table in (self.value, self.low, self.high))
                    row = {"model": model, "metric": metric, **at}
                    found.append(row | dict(zip(("value", "low", "high"), map(number, ends))))
        return found

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a pandas frame (extra ``frames``)."""
        from calipers.results.frames import frame

        return frame(self.rows())

    def as_dict(self) -> dict[str, Any]:
        """Return the document ``calipers.sweep/1``."""
        from calipers import __version__

        return {
            "schema": SCHEMA,
            "calipers": __version__,
            "axes": [{"name": axis.name, "label": axis.label, "values": list(axis.values)} for axis in self.axes],
            "models": list(self.models),
            "metrics": list(self.metrics),
            "runs": self.runs,
            "band": self.band,
            "seed": self.seed,
            "protocol": self.protocol,
            "cohort": {"images": self.n_images, "references": self.n_references},
            "rows": self.rows(),
        }


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
        One or two choices with their values: ``{"threshold": [0.1, 0.3, 0.5]}``, ``{"criterion": ["box-iou", "iop"]}``,
        ``{"position-noise.sigma": [0, 0.5, 1]}``. Choices of the protocol are made for all models of the cohort; with
        the strength of a corruption among them, for an oracle that corrupts the references.
    runs
        Of an oracle, each with other random numbers.
    ci
        State intervals of models; those of an oracle are the spread of its runs.
    with_
        Corruptions that the oracle always has, such as ``"position-noise(sigma=0.5)"``; they come last.
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
            raise UsageError("corruptions belong to an oracle: sweep the strength of one, such as position-noise.sigma")
        return _of_models(cohort, plan, axes, ci=ci, seed=seed, progress=progress)
    if runs < 1:
        raise UsageError(f"runs is a number of at least 1, not {runs!r}")
    return _of_oracle(cohort, plan, axes, runs, seed, tuple(with_), progress)


def _axes(over: Mapping[str, Sequence[Value]]) -> tuple[SweepAxis, ...]:
    if not 1 <= len(over) <= 2:
        raise UsageError(f"a sweep has one or two choices, not {len(over)}; multiverse takes more")
    for name, values in over.items():
        check_choice(name, values)
    axes = tuple(SweepAxis(name, tuple(values)) for name, values in over.items())
    if np.prod([len(axis.values) for axis in axes]) > MOST_POINTS:
        raise UsageError(f"at most {MOST_POINTS:,} points")
    return axes


def _points(axes: Sequence[SweepAxis]) -> list[dict[str, Value]]:
    """Return the choices of all points, the last axis fastest."""
    return [dict(zip((axis.name for axis in axes), values)) for values in product(*(axis.values for axis in axes))]


def grid_protocol(protocol: Protocol, points: Sequence[Mapping[str, Value]]) -> tuple[Protocol, list[list[str]]]:
    """Return a protocol with every metric at every point, and their names there: point by metric."""
    plans: list[MetricPlan] = []
    names: list[list[str]] = []
    grown = protocol
    for k, point in enumerate(points):
        here = []
        for plan in protocol.metrics:
            grown, other = changed(grown, plan, point)
            here.append(f"{plan.name} #{k}")
            plans.append(replace(other, name=here[-1]))
        names.append(here)
    return replace(grown, metrics=tuple(plans), headline=(plans[0].name,)), names


def _of_models(
    cohort: Cohort, protocol: Protocol, axes: tuple[SweepAxis, ...], *, ci: bool, seed: int, progress: Progress | None
) -> Sweep:
    if not cohort.models:
        raise UsageError("no model: give predictions, or sweep a corruption such as position-noise.sigma")
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
    band = f"{100 * told['level']:g} % interval over {told['n_units']} units ({told['unit']})" if ci else "none"
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
        steps = [*_steps(settings[s]), *always]
        model = corrupt(alone, steps, seed=seed + run, name=ORACLE)
        evaluation = evaluate(model, grown, ci=False)
        pooled = {row.metric: row.estimate.value for row in evaluation.rows if row.label is None}
        found[run, s] = [[pooled[name] for name in here] for here in names]
        if progress is not None:
            progress(done, len(settings) * runs)
    order = np.moveaxis(found, 3, 0).reshape(n, runs, *(len(axis.values) for axis in (*strength, *others)))
    if [*strength, *others] != list(axes):  # the choice came first
        order = order.swapaxes(2, 3)
    mean = order.mean(axis=1)
    spread = order.std(axis=1, ddof=1) if runs > 1 else np.full(mean.shape, np.nan)
    band = f"mean and standard deviation (n - 1) of {runs} runs" if runs > 1 else "none"
    tables = [mean[None], (mean - spread)[None], (mean + spread)[None]]
    return _result(cohort, protocol, axes, (ORACLE,), tables, (runs, band, seed))


def _steps(setting: Mapping[str, Value]) -> list[str]:
    """Return the corruptions of a point; two parameters of one kind are one corruption."""
    kinds: dict[str, list[str]] = {}
    for name, value in setting.items():
        kind, _, parameter = name.partition(".")
        kinds.setdefault(kind, []).append(f"{parameter}={float(value)!r}")
    return [f"{kind}({', '.join(choices)})" for kind, choices in kinds.items()]


def _result(
    cohort: Cohort,
    protocol: Protocol,
    axes: tuple[SweepAxis, ...],
    models: tuple[str, ...],
    tables: Sequence[F64],
    told: tuple[int, str, int],
) -> Sweep:
    return Sweep(
        axes=axes,
        models=models,
        metrics=tuple(plan.name for plan in protocol.metrics),
        value=tables[0],
        low=tables[1],
        high=tables[2],
        runs=told[0],
        band=told[1],
        protocol=protocol.name,
        n_images=cohort.n_images,
        n_references=int((~cohort.references.ignore).sum()),
        seed=told[2],
    )
