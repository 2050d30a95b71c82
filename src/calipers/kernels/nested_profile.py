# SPDX-License-Identifier: Apache-2.0
"""Profile likelihood of the standard deviations of a nested mixed model.

The interval of a standard deviation holds the values at which the deviance, minimised over
everything else, lies at most ``rise`` above its minimum. Unlike value plus or minus two standard
errors it respects that 0 is the smallest value, and it is as lopsided as the likelihood is.
"""

from __future__ import annotations

import numpy as np

from calipers.kernels.descent import crossing, minimise
from calipers.kernels.nested import F64, GAIN, LARGEST, NUDGE, Fit, Nest, climb, deviance, gradient

# of the root of the deviance, which is nearly a straight line in the standard deviation
TOLERANCE = 1e-5
DOUBLINGS = 30


def interval(tree: Nest, best: Fit, which: int, rise: float, *, reml: bool) -> tuple[float, float]:
    """Return the bounds of one standard deviation; ``which`` counts the levels innermost first,
    then the residual.
    """
    total = float(np.sqrt(best.sigma2 * (1.0 + best.relative.sum())))
    of_residual = which == tree.levels
    sd = float(np.sqrt(best.sigma2 * (1.0 if of_residual else best.relative[which])))

    def above(value: float) -> float:
        climbed = profile_deviance(tree, best, which, value**2, reml=reml) - best.deviance
        return float(np.sqrt(max(climbed, 0.0)) - np.sqrt(rise))

    low = sd / 2.0 if of_residual else 0.0  # a residual variance of 0 has no likelihood
    high = max(2.0 * sd, 0.1 * total)
    for _ in range(DOUBLINGS):
        if not of_residual or above(low) > 0.0:
            break
        low /= 2.0
    for _ in range(DOUBLINGS):
        if above(high) > 0.0:
            break
        high *= 2.0
    else:
        return low, float("inf")
    lowest = 0.0 if sd == 0.0 or above(low) <= 0.0 else crossing(above, low, sd, TOLERANCE)
    return lowest, crossing(above, sd, high, TOLERANCE)


def profile_deviance(tree: Nest, best: Fit, which: int, variance: float, *, reml: bool) -> float:
    """Return the smallest deviance if one variance has a given value."""
    of_residual = which == tree.levels
    others = np.delete(np.arange(tree.levels), [] if of_residual else [which])
    m = tree.n - tree.p if reml else tree.n

    def value_and_slope(at: F64) -> tuple[float, F64]:
        """``at``: logarithm of the residual variance, unless that is held, and the other relative
        deviations.
        """
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
    lower, upper = np.zeros(len(others)), np.full(len(others), LARGEST)
    if not of_residual:
        start = np.append(np.log(best.sigma2), start)
        lower, upper = np.append(-np.inf, lower), np.append(np.inf, upper)
    if not len(start):
        return value_and_slope(start)[0]
    return minimise(value_and_slope, start, lower, upper, GAIN)[1]
