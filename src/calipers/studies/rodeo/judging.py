# SPDX-License-Identifier: Apache-2.0
"""The numbers of a run, and the rules that turn curves into verdicts.

`study.run` creates a `RodeoRun`; the claims modules read it with the functions of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.sensitivity import Sweep
from calipers.studies.rodeo.examples import Example
from calipers.tables import Cohort

F64 = NDArray[np.float64]

INVARIANT = 0.02  # a score whose range is below this counts as invariant
EXACT = 1e-9  # differences below this are rounding errors
TURN = 0.01  # a rise of the mean over runs below this counts as noise


@dataclass(frozen=True)
class RodeoRun:
    """The numbers of a run: sweeps, examples, and the cohort that was corrupted."""

    sweeps: Mapping[str, Sweep]
    examples: Mapping[str, Example]  # of figure 1
    cohort: Cohort
    seed: int

    def curve(self, figure: str, metric: str, along: int = 0) -> tuple[F64, F64]:
        """Return the strengths of one corruption and the values of a metric.

        In a sweep of two corruptions, the other one is absent (strength 0).
        """
        sweep = self.sweeps[figure]
        values = sweep.line(metric)[0]
        if values.ndim == 2:
            values = values[:, 0] if along == 0 else values[0]
        return np.array(sweep.axes[along].values, np.float64), values

    def grid(self, figure: str, metric: str) -> F64:
        """Return the values of a metric at all points of the grid."""
        return self.sweeps[figure].line(metric)[0]

    def near(self, figure: str, at: float, along: int = 0) -> tuple[int, float]:
        """Return the index of the strength nearest to ``at``, and that strength."""
        values = np.array(self.sweeps[figure].axes[along].values, np.float64)
        k = int(np.abs(values - at).argmin())
        return k, float(values[k])

    def error(self, figure: str, metric: str) -> F64:
        """Return the standard error of the mean over runs."""
        sweep = self.sweeps[figure]
        value, _, high = sweep.line(metric)
        # The band of a sweep is the mean plus and minus one standard deviation.
        return np.asarray((high - value) / np.sqrt(sweep.runs))


def steepest(values: F64) -> float:
    """Return the largest fall between neighbouring grid points."""
    return float(np.max(-np.diff(values), initial=0.0))


def falls(values: F64) -> bool:
    """Return whether a curve ends clearly lower and never rises by more than noise."""
    return bool(values[-1] < values[0] - INVARIANT and np.diff(values).max() < TURN)


def spread(values: F64, axis: int | None = None) -> float:
    """Return the range of the values; with an axis, the largest range along it."""
    return float(np.max(np.ptp(values, axis=axis)))


def half_lost(x: F64, values: F64) -> float:
    """Return the strength at which half of the first value is lost, interpolated linearly.

    NaN if half is never lost, or if the first value is 0.
    """
    below = np.flatnonzero(values <= 0.5 * values[0])
    if not len(below) or values[0] <= 0:
        return float("nan")
    k = int(below[0])
    fraction = (values[k - 1] - 0.5 * values[0]) / (values[k - 1] - values[k])
    return float(x[k - 1] + fraction * (x[k] - x[k - 1]))


def misfit(values: F64, model: F64) -> float:
    """Return the root mean square difference."""
    return float(np.sqrt(np.mean((values - model) ** 2)))


def best_rate(x: F64, values: F64, law: Callable[[F64, float], F64]) -> tuple[float, float]:
    """Return the best rate of a law with one parameter, and its root mean square error."""
    # A grid search is enough: the verdict needs the misfit to about two digits.
    rates = np.geomspace(0.02, 50.0, 4000)
    off = [misfit(values, law(x, float(rate))) for rate in rates]
    k = int(np.argmin(off))
    return float(rates[k]), float(off[k])


def exponential(x: F64, rate: float) -> F64:
    """Return exp(-rate x)."""
    return np.asarray(np.exp(-rate * x))


def hyperbolic(x: F64, rate: float) -> F64:
    """Return 1 / (1 + rate x)."""
    return np.asarray(1.0 / (1.0 + rate * x))


def value_text(value: float) -> str:
    """Return a number with three decimals, small numbers in scientific form, "never" for NaN."""
    if np.isnan(value):
        return "never"
    if abs(value) < EXACT:
        return "0"
    return f"{value:.3f}" if abs(value) >= 0.0005 else f"{value:.1e}"


def values_text(names: Sequence[str], values: Sequence[float]) -> str:
    """Return "AP@0.1 = 0.522, AP@0.3 = 0.151"."""
    return ", ".join(f"{name} = {value_text(value)}" for name, value in zip(names, values))
