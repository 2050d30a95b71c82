# SPDX-License-Identifier: Apache-2.0
"""What shows whether a mixed model fits: residuals, QQ points, predicted intercepts. Data, no
pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.nested import Fit
from calipers.statistics.mixed_problem import MixedProblem

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class GroupEffects:
    """The predicted intercept of every group of a level, shrunk towards 0 as far as its rows are
    few (BLUP).
    """

    name: str
    labels: tuple[str, ...]
    value: F64
    se: F64  # given the variances, and leaving out that the coefficients were estimated
    n_rows: NDArray[np.int64]

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one entry per group for JSON."""
        columns = (self.labels, self.value.tolist(), self.se.tolist(), self.n_rows.tolist())
        return [dict(zip(("group", "value", "se", "n_rows"), entry)) for entry in zip(*columns)]


@dataclass(frozen=True)
class Diagnostics:
    """Values per row, in the order of the rows that were used."""

    fitted: F64  # with the intercepts of the groups
    expected: F64  # without them
    residuals: F64  # response minus fitted
    qq: tuple[
        F64, F64
    ]  # normal quantiles, and the sorted residuals divided by their standard deviation
    effects: Mapping[str, GroupEffects]  # by level

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnostics for JSON."""
        effects = {name: group.as_dicts() for name, group in self.effects.items()}
        return {
            "fitted": self.fitted.tolist(),
            "expected": self.expected.tolist(),
            "residuals": self.residuals.tolist(),
            "qq": {"normal": self.qq[0].tolist(), "residual": self.qq[1].tolist()},
            "effects": effects,
        }


def diagnose(problem: MixedProblem, fit: Fit) -> Diagnostics:
    """Return the diagnostics of a fit."""
    expected = problem.x @ fit.beta
    fitted = expected.copy()
    effects = {}
    for level, (value, variance) in zip(problem.levels, problem.intercepts(fit.relative)):
        fitted = fitted + value[level.code]
        rows = np.bincount(level.code, minlength=len(level))
        effects[level.name] = GroupEffects(
            level.name, level.labels, value, np.sqrt(variance * fit.sigma2), rows
        )
    residuals = problem.y - fitted
    return Diagnostics(
        fitted=problem.restored(fitted),
        expected=problem.restored(expected),
        residuals=problem.restored(residuals),
        qq=qq_points(residuals / np.sqrt(fit.sigma2)),
        effects=effects,
    )


def qq_points(values: F64) -> tuple[F64, F64]:
    """Return the normal quantiles at (k - 1/2) / n and the sorted values: a straight line if they
    are normal.
    """
    from scipy.special import ndtri

    n = len(values)
    return np.asarray(ndtri((np.arange(n) + 0.5) / n)), np.sort(values)
