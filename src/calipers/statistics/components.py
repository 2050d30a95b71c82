# SPDX-License-Identifier: Apache-2.0
"""Variance components: how much groups differ, and how alike rows of one group are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calipers.kernels import nested_profile
from calipers.kernels.nested import Fit
from calipers.results.estimate import number
from calipers.statistics.mixed_problem import MixedProblem

NAN = float("nan")
RESIDUAL = "residual"


@dataclass(frozen=True, slots=True)
class Component:
    """The standard deviation between the groups of one level, or of the residual.

    ``share`` is the part of the whole variance. ``icc`` is the correlation of two rows that lie in
    one such group: for nested groups the shares of this level and of all outer ones together.
    """

    name: str
    sd: float
    low: float
    high: float
    level: float
    method: str  # profile | none
    share: float
    icc: float | None  # None for the residual
    n_groups: int  # rows for the residual
    reason: str | None = None

    @property
    def variance(self) -> float:
        """The square of the standard deviation."""
        return self.sd**2

    def as_dict(self) -> dict[str, Any]:
        """Return the component for JSON."""
        return {
            "name": self.name,
            "sd": number(self.sd),
            "low": number(self.low),
            "high": number(self.high),
            "level": self.level,
            "method": self.method,
            "variance": number(self.variance),
            "share": number(self.share),
            "icc": self.icc,
            "n_groups": self.n_groups,
            "reason": self.reason,
        }


def components(
    problem: MixedProblem, fit: Fit, *, level: float, reml: bool
) -> tuple[Component, ...]:
    """Return the components, outermost first, with profile-likelihood intervals where groups are
    nested.
    """
    names = [(one.name, len(one)) for one in problem.levels] + [(RESIDUAL, len(problem.y))]
    # The kernel works with variances relative to that of the residual.
    variances = np.append(fit.relative, 1.0) * fit.sigma2
    shares = variances / variances.sum()
    # Rows of one inner group also share all groups around it, so nested shares add up.
    likeness = shares[:-1] if problem.crossed else np.cumsum(shares[:-1])
    icc = [*likeness.tolist(), None]
    bounds = _bounds(problem, fit, level, reml)
    method, reason = ("none", "not_requested") if problem.crossed else ("profile", None)
    rows = []
    for k, (name, n) in enumerate(names):
        component = Component(
            name=name,
            sd=float(np.sqrt(variances[k])),
            low=bounds[k][0],
            high=bounds[k][1],
            level=level,
            method=method,
            share=float(shares[k]),
            icc=icc[k],
            n_groups=n,
            reason=reason,
        )
        rows.append(component)
    return tuple(rows)


def _bounds(problem: MixedProblem, fit: Fit, level: float, reml: bool) -> list[tuple[float, float]]:
    from scipy.special import chdtri

    n = len(problem.levels)
    if problem.crossed:
        return [(NAN, NAN)] * (n + 1)
    tree, rise = problem.tree(), float(chdtri(1, 1 - level))
    inward = fit._replace(relative=fit.relative[::-1])
    places = [*reversed(range(n)), n]  # the kernel counts from the innermost level
    return [nested_profile.interval(tree, inward, place, rise, reml=reml) for place in places]
