# SPDX-License-Identifier: Apache-2.0
"""Profile likelihood of the standard deviations of a nested mixed model.

The interval of a standard deviation holds the values at which the deviance, minimised over everything else, lies at
most ``rise`` above its minimum. Unlike value plus or minus two standard errors it respects that 0 is the smallest
value, and it is as lopsided as the likelihood is.
"""

from __future__ import annotations

import numpy as np

from calipers.kernels.nested import F64, LARGEST, NUDGE, Fit, Nest, climb, deviance, gradient

FARTHEST = 1e3  # times the total standard deviation
PRECISION = 1e-5


def interval(tree: Nest, best: Fit, which: int, rise: float, *, reml: bool) -> tuple[float, float]:
    """Return the bounds of one standard deviation; ``which`` counts the levels innermost first, then the residual."""
    from scipy.optimize import brentq

    total = float(np.sqrt(best.sigma2 * (1.0 + best.relative.sum())))
    sd = float(np.sqrt(best.sigma2 * (best.relative[which] if which < tree.levels else 1.0)))

    def above(value: float) -> float:
        return held(tree, best, which, value**2, reml=reml) - best.deviance - rise

    smallest = 0.0 if which < tree.levels else 1e-6 * total
    low, high = smallest, max(2.0 * sd, 0.1 * total)
    if sd > smallest and above(smallest) > 0.0:
        low = float(brentq(above, smallest, sd, xtol=PRECISION * total))
    while above(high) < 0.0:
        high *= 2.0
        if high > FARTHEST * total:
            return low, float("inf")
    return low, float(brentq(above, sd, high, xtol=PRECISION * total))


def held(tree: Nest, best: Fit, which: int, variance: float, *, reml: bool) -> float:
    """Return the smallest deviance if one variance has a given value."""
    from scipy.optimize import minimize

    of_residual = which == tree.levels
    others = np.delete(np.arange(tree.levels), [] if of_residual else [which])
    m = tree.n - tree.p if reml else tree.n

    def value_and_slope(at: F64) -> tuple[float, F64]:
        """``at``: logarithm of the residual variance, unless that is held, and the other relative deviations."""
        sigma2 = variance if of_residual else float(np.exp(at[0]))
        theta, relative = (at if of_residual else at[1:]), np.zeros(tree.levels)
        relative[others] = theta**2
        if not of_residual:
            relative[which] = variance / sigma2
        point = climb(tree, relative)
        if point is None:
            return np.inf, np.zeros(len(at))
        slope = gradient(tree, point, sigma2, reml=reml)
        inner = 2.0 * theta * slope[others]
        if not of_residual:
            inner = np.append(m - point.rss / sigma2 - relative[which] * slope[which], inner)
        return deviance(tree, point, sigma2, reml=reml), inner

    start = np.maximum(np.sqrt(best.relative[others]), NUDGE)
    bounds: list[tuple[float | None, float | None]] = [(0.0, LARGEST)] * len(others)
    if not of_residual:
        start, bounds = np.append(np.log(best.sigma2), start), [(None, None), *bounds]
    if not len(start):
        return value_and_slope(start)[0]
    options = {"ftol": 1e-11, "gtol": 1e-6, "maxiter": 200}
    found = minimize(value_and_slope, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return float(found.fun)
