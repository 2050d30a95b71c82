# SPDX-License-Identifier: Apache-2.0
"""Two checks of a mixed model's intervals: data simulated from the fit, and outermost groups drawn
again.

The parametric bootstrap believes the model and shows what its asymptotics leave out. The cluster
bootstrap believes only that the outermost groups are independent: if its standard errors are much
larger, the model misses something.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.nested import Fit
from calipers.kernels.resampling import generator
from calipers.results.estimate import number
from calipers.statistics import intervals
from calipers.statistics.components import RESIDUAL
from calipers.statistics.mixed_problem import MixedProblem
from calipers.statistics.weights import Units, bootstrap

F64 = NDArray[np.float64]
EVERYWHERE = (float("-inf"), float("inf"))
Kind = Literal["parametric", "cluster"]
START = 0.02  # relative standard deviation: a search that begins at 0 would stay there


@dataclass(frozen=True, slots=True)
class CheckedValue:
    """One coefficient or standard deviation under the bootstrap."""

    name: str
    value: float  # of the fit itself
    se: float
    bias: float  # mean of the replicates minus the value
    low: float
    high: float
    method: str
    reason: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "name": self.name,
            "value": number(self.value),
            "se": number(self.se),
            "bias": number(self.bias),
            "low": number(self.low),
            "high": number(self.high),
            "method": self.method,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class BootstrapCheck:
    """All coefficients and standard deviations under one kind of bootstrap."""

    kind: Kind
    unit: str  # what was drawn
    n_units: int
    replicates: int
    undefined: int  # replicates in which the design had no full rank
    seed: int
    level: float
    coefficients: tuple[CheckedValue, ...]
    components: tuple[CheckedValue, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the check for JSON."""
        return {
            "kind": self.kind,
            "unit": self.unit,
            "n_units": self.n_units,
            "replicates": self.replicates,
            "undefined": self.undefined,
            "seed": self.seed,
            "level": self.level,
            "coefficients": [one.as_dict() for one in self.coefficients],
            "components": [one.as_dict() for one in self.components],
        }


@dataclass(frozen=True, slots=True)
class Draws:
    """How often, from which seed, and at which level."""

    replicates: int
    seed: int
    level: float


def check(
    problem: MixedProblem, fit: Fit, kind: Kind, draws: Draws, *, reml: bool
) -> BootstrapCheck:
    """Refit on bootstrap samples, and return how much every number varies."""
    parametric = kind == "parametric"
    fits = (_simulated if parametric else _redrawn)(problem, fit, draws, reml)
    missing = np.full(problem.x.shape[1] + len(problem.levels) + 1, np.nan)
    replicates = []
    for replicate in fits:
        replicates.append(missing if replicate is None else _numbers(replicate))
    rows = np.stack(replicates)
    point, n_beta = _numbers(fit), problem.x.shape[1]
    n_units = len(problem.levels[0]) if problem.levels else len(problem.y)
    unit = problem.levels[0].name if problem.levels else "row"
    names = [*problem.design.names, *(one.name for one in problem.levels), RESIDUAL]
    values = []
    for k, name in enumerate(names):
        column = rows[:, k]
        # A standard deviation lies on its bound of 0 too often for a t interval; replicates of a
        # simulation are draws from the fitted model, so that their quantiles serve.
        by_quantile = parametric or k >= n_beta
        bounds = _interval(
            point[k],
            column,
            n_units,
            draws.level,
            by_quantile=by_quantile,
            needs_units=not parametric,
        )
        n_defined = np.isfinite(column).sum()
        se = bias = float("nan")
        if n_defined > 1:
            se = float(np.nanstd(column, ddof=1))
        if n_defined:
            bias = float(np.nanmean(column) - point[k])
        values.append(CheckedValue(name, float(point[k]), se, bias, *bounds))
    undefined = int(np.isnan(rows).any(axis=1).sum())
    return BootstrapCheck(
        kind=kind,
        unit=unit,
        n_units=n_units,
        replicates=draws.replicates,
        undefined=undefined,
        seed=draws.seed,
        level=draws.level,
        coefficients=tuple(values[:n_beta]),
        components=tuple(values[n_beta:]),
    )


def _numbers(fit: Fit) -> F64:
    return np.concatenate([fit.beta, np.sqrt(np.append(fit.relative, 1.0) * fit.sigma2)])


def _interval(
    value: float, rows: F64, n_units: int, level: float, *, by_quantile: bool, needs_units: bool
) -> tuple[float, float, str, str | None]:
    if needs_units and n_units < intervals.FEWEST_UNITS:
        return float("nan"), float("nan"), "none", "too_few_units"
    if by_quantile:
        low, high = intervals.quantiles(rows[:, None], level)
        return float(low[0]), float(high[0]), "percentile", None
    estimate = intervals.interval(
        float(value), rows, n_units=n_units, level=level, bounds=EVERYWHERE
    )
    return estimate.low, estimate.high, estimate.method, estimate.reason


def _simulated(problem: MixedProblem, fit: Fit, draws: Draws, reml: bool) -> Iterator[Fit | None]:
    """Yield the fits of responses that are drawn from the fitted model."""
    expected, sigma = problem.x @ fit.beta, float(np.sqrt(fit.sigma2))
    # Starting at the fit itself makes every replicate quick to solve.
    start = np.maximum(np.sqrt(fit.relative), START)
    for b in range(draws.replicates):
        random = generator(draws.seed, b)
        y = expected + sigma * random.standard_normal(len(problem.y))
        for level, g in zip(problem.levels, fit.relative.tolist()):
            y = y + sigma * np.sqrt(g) * random.standard_normal(len(level))[level.code]
        yield replace(problem, y=y).solve(reml=reml, start=start)


def _redrawn(problem: MixedProblem, fit: Fit, draws: Draws, reml: bool) -> Iterator[Fit | None]:
    """Yield the fits in which outermost groups (without any: rows) count as often as they were
    drawn.
    """
    start = np.maximum(np.sqrt(fit.relative), START)
    n = len(problem.levels[0]) if problem.levels else len(problem.y)
    for block in bootstrap(Units.of("group", None, n), draws.replicates, draws.seed):
        for times in block:
            yield problem.solve(reml=reml, start=start, times=times.astype(np.float64))
