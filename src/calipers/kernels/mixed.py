# SPDX-License-Identifier: Apache-2.0
"""Linear mixed models with nested random intercepts, their profile likelihood, logistic regression.

`calipers.regression` calls `nest` and `fit` for coefficients and variances, `intercepts` for the
predicted group effects, `interval` for the standard deviations, `likeness_interval` for intraclass
correlations, and `fit_logistic` with `sandwich` for yes-or-no outcomes. All take plain arrays.

*The model* is ``y = X b + u_1 + ... + u_L + e``: a row lies in an innermost group (an image), that
in a larger one (a patient), and so on; ``u_l`` has variance ``sigma^2 g_l``, ``e`` has ``sigma^2``.
``sigma`` and ``b`` are known once the relative variances g are, so the likelihood, restricted
(REML) or not (ML), is searched over g only, in O(n p^2).

The covariance matrix V is never formed. Going up one level turns the means of the children, known
to a precision w each, into the mean of their group, known to the sum of the w; the random intercept
of the group then lowers that precision to ``w / (1 + g w)``, which is the Sherman-Morrison formula
for adding ``g`` times a block of ones. What the children scatter around their group's mean is the
group's share of ``A' V^-1 A`` with ``A = [X y]``, and ``log|V|`` is the sum of ``log(1 + g w)``.
All terms are sums of squares: nothing cancels, however large g is. Going down again gives ``Z_l'
V^-1 A`` for every level, hence the gradient and the predicted intercepts.

*Intervals.* The interval of a standard deviation holds the values at which the deviance, minimised
over everything else, lies at most ``rise`` above its minimum. Unlike value plus or minus two
standard errors it respects that 0 is the smallest value, and it is as lopsided as the likelihood
is.

*Search.* Newton's method on a handful of variables needs no library: loading one takes longer than
the search, and linear algebra with threads of its own is slow on matrices this small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64

ValueAndSlope = Callable[[F64], tuple[float, F64]]

# Of the search: Newton steps, halvings of one step, and the relative distance over which slopes are
# compared.
STEPS = 200
HALVINGS = 40
DIFFERENCE = 1e-5
SUFFICIENT = 1e-4  # of the decrease that the slope promises
FLATTEST = 1e-8  # curvature relative to the largest

STARTS = (1.0, 0.15)  # relative standard deviations from which the search begins
LARGEST = 1e9  # relative standard deviation
# Relative standard deviation at which a search starts again that got stuck at 0.
NUDGE = 0.02
GAIN = 1e-10  # of the deviance: what is left to win when the search stops
TINY = 1e-300  # residual sum of squares of a perfect fit: its logarithm stays finite

# of the root of the deviance, which is nearly a straight line in the standard deviation
TOLERANCE = 1e-5
DOUBLINGS = 30  # of a bound, until the deviance is high enough

LOGISTIC_STEPS = 60  # separated data creep by about one logit a step, until STEEPEST
SETTLED = 1e-11  # relative change of the deviance
STEEPEST = 30.0  # logits; beyond it a probability is 0 or 1 to all digits
ALONE = 1e-8  # 1 - leverage of a cluster that alone determines a combination of coefficients


class Nest(NamedTuple):
    """Rows summed up to their innermost groups. Levels come innermost first."""

    n: float  # rows, counted as often as their group is
    basis: F64  # (p, p) upper triangle R of X = Q R: the search works on the orthonormal Q
    offset: F64  # (p,) Q' y, which was taken off the response
    scatter: F64  # (p + 1, p + 1) of [Q y] around the means of the innermost groups
    weight: F64  # (G_1,) rows of each innermost group
    mean: F64  # (G_1, p + 1)
    first: tuple[I64, ...]  # for each level but the innermost: the first child of every group
    parent: tuple[I64, ...]  # for each level but the outermost: the group one level up
    times: tuple[F64, ...]  # how often each group counts

    @property
    def levels(self) -> int:
        """Number of random intercepts."""
        return len(self.times)

    @property
    def p(self) -> int:
        """Number of columns of X."""
        return len(self.basis)


class Step(NamedTuple):
    """One level of the way up."""

    weight: F64  # (G,) precision of the group means, without the level's own variance
    mean: F64  # (G, p + 1)
    shrunk: F64  # (G,) precision with it


class Point(NamedTuple):
    """The likelihood at one g, with ``b`` and the sums in terms of Q."""

    log_det: float  # log |V|
    cross: F64  # (p, p) lower Cholesky factor of Q' V^-1 Q
    beta: F64  # (p,)
    rss: float  # residual sum of squares, weighted by V^-1
    steps: tuple[Step, ...]


class Fit(NamedTuple):
    """The optimum."""

    relative: F64  # (L,) variances divided by that of the residual
    sigma2: float
    beta: F64  # (p,)
    covariance: F64  # (p, p) of beta
    deviance: float  # -2 log likelihood, restricted or not
    gradient: F64  # (L,) of the deviance by the relative variances
    converged: bool


def nest(x: F64, y: F64, levels: Sequence[I64], times: F64 | None = None) -> Nest:
    """Return the sums of rows that are sorted so that the groups of every level stand together.

    Parameters
    ----------
    x, y
        (n, p) of full rank, and (n,).
    levels
        For each level, innermost first, the (n,) ascending number of every row's group, 0, 1, 2,
        ...
    times
        (G_L,) how often each outermost group (without levels: each row) counts, as in a bootstrap;
        None is once.
    """
    # Orthonormal columns and a response without its projection: sums of squares stay small.
    q, basis = np.linalg.qr(x)
    offset = q.T @ y
    table = np.column_stack([q, y - q @ offset])
    if not levels:
        often = np.ones(len(y)) if times is None else times
        scatter = (table * often[:, None]).T @ table
        return Nest(float(often.sum()), basis, offset, scatter, np.zeros(0), table[:0], (), (), ())
    begin = [np.flatnonzero(np.diff(level, prepend=-1)) for level in levels]
    parent = tuple(levels[k + 1][begin[k]] for k in range(len(levels) - 1))
    first = tuple(np.flatnonzero(np.diff(above, prepend=-1)) for above in parent)
    count = [np.ones(len(begin[-1])) if times is None else times.astype(np.float64)]
    for above in reversed(parent):
        count.insert(0, count[0][above])
    weight = np.diff(begin[0], append=len(y)).astype(np.float64)
    mean = np.add.reduceat(table, begin[0]) / weight[:, None]
    away = table - mean[levels[0]]
    scatter = (away * count[0][levels[0], None]).T @ away
    return Nest(
        float(weight @ count[0]), basis, offset, scatter, weight, mean, first, parent, tuple(count)
    )


def fit(tree: Nest, *, reml: bool, start: F64 | None = None) -> Fit | None:
    """Return the optimum over the relative variances, or None where X has no full rank.

    The search runs over relative standard deviations, whose derivative vanishes at 0 whether or not
    0 is best. So a search that ends at 0 is asked for the derivative by the variance, and goes on
    if that points inwards.
    """
    if climb(tree, np.zeros(tree.levels)) is None:
        return None
    # The likelihood may have two optima; the better end counts.
    starts = [np.full(tree.levels, at) for at in STARTS]
    if start is not None:
        starts = [start]
    ends = [(np.zeros(0), True)]
    if tree.levels:
        ends = [_search(tree, begin, reml) for begin in starts]
    theta, converged = min(ends, key=lambda end: _value(tree, end[0], reml))
    return at_optimum(tree, theta**2, reml=reml, converged=converged)


def at_optimum(tree: Nest, relative: F64, *, reml: bool, converged: bool) -> Fit | None:
    """Return coefficients, their covariance and the residual variance at relative variances."""
    point = climb(tree, relative)
    if point is None:
        return None
    sigma2 = point.rss / (tree.n - tree.p if reml else tree.n)
    back = np.linalg.inv(tree.basis)
    return Fit(
        relative=relative,
        sigma2=sigma2,
        beta=back @ (tree.offset + point.beta),
        covariance=sigma2 * back @ _inverse(point.cross) @ back.T,
        deviance=deviance(tree, point, None, reml=reml),
        gradient=gradient(tree, point, None, reml=reml),
        converged=converged,
    )


def intercepts(tree: Nest, relative: F64) -> list[tuple[F64, F64]]:
    """Return for each level, innermost first, the predicted intercepts and their variance divided
    by sigma^2.

    The variance is that given the data and the variances; it leaves out that b was estimated.
    """
    point = climb(tree, relative)
    if point is None:
        return []
    of_levels = []
    for g, (sums, diagonal) in zip(relative.tolist(), descend(tree, point)):
        residuals = sums[:, -1] - sums[:, :-1] @ point.beta
        # Below 0 by rounding alone.
        variance = np.maximum(g - g**2 * diagonal, 0.0)
        of_levels.append((g * residuals, variance))
    return of_levels


def climb(tree: Nest, relative: F64) -> Point | None:
    """Return the likelihood's parts at relative variances, or None where X has no full rank."""
    total, log_det, steps = tree.scatter.copy(), 0.0, []
    weight, mean = tree.weight, tree.mean
    for level in range(tree.levels):
        # The precision of a group mean, before and after its own random intercept.
        spread = 1.0 + relative[level] * weight
        log_det += float(tree.times[level] @ np.log(spread))
        shrunk = weight / spread
        steps.append(Step(weight, mean, shrunk))
        away = mean
        if level + 1 < tree.levels:
            weight = np.add.reduceat(shrunk, tree.first[level])
            mean = np.add.reduceat(shrunk[:, None] * mean, tree.first[level]) / weight[:, None]
            away = away - mean[tree.parent[level]]
        total += (away * (shrunk * tree.times[level])[:, None]).T @ away
    p = tree.p
    try:
        root: F64 = np.linalg.cholesky(total[:p, :p]).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return None
    half = np.linalg.solve(root, total[:p, p])
    return Point(
        log_det,
        root,
        np.linalg.solve(root.T, half),
        max(float(total[p, p] - half @ half), TINY),
        tuple(steps),
    )


def descend(tree: Nest, point: Point) -> list[tuple[F64, F64]]:
    """Return for each level, innermost first, ``Z' V^-1 [Q y]`` (G, p + 1) and the diagonal of ``Z'
    V^-1 Z`` (G,).
    """
    levels: list[tuple[F64, F64]] = []
    for level in reversed(range(tree.levels)):
        _, mean, shrunk = point.steps[level]
        if not levels:
            levels.append((shrunk[:, None] * mean, shrunk))
            continue
        above, above_step = tree.parent[level], point.steps[level + 1]
        # How much of its group's mean a child makes up.
        share = shrunk / above_step.weight[above]
        sums = (
            shrunk[:, None] * (mean - above_step.mean[above]) + share[:, None] * levels[0][0][above]
        )
        levels.insert(0, (sums, shrunk - shrunk * share + share**2 * levels[0][1][above]))
    return levels


def deviance(tree: Nest, point: Point, sigma2: float | None, *, reml: bool) -> float:
    """Return -2 log likelihood at a point; without ``sigma2`` at the best one."""
    m = tree.n - tree.p if reml else tree.n
    spent = (
        m + m * np.log(point.rss / m) if sigma2 is None else m * np.log(sigma2) + point.rss / sigma2
    )
    if reml:
        spent += 2.0 * float(
            np.log(np.diag(point.cross)).sum() + np.log(np.abs(np.diag(tree.basis))).sum()
        )
    return float(m * np.log(2.0 * np.pi) + spent + point.log_det)


def gradient(tree: Nest, point: Point, sigma2: float | None, *, reml: bool) -> F64:
    """Return the derivative of `deviance` by the relative variances, sigma2 held at its best or at
    the given value.
    """
    scale = sigma2
    if scale is None:
        scale = point.rss / (tree.n - tree.p if reml else tree.n)
    inverse = _inverse(point.cross)
    slope = np.empty(tree.levels)
    for level, (sums, diagonal) in enumerate(descend(tree, point)):
        times, p = tree.times[level], tree.p
        square = (sums * times[:, None]).T @ sums
        residual = (
            square[p, p]
            - 2.0 * square[p, :p] @ point.beta
            + point.beta @ square[:p, :p] @ point.beta
        )
        slope[level] = times @ diagonal - residual / scale
        if reml:
            slope[level] -= (inverse * square[:p, :p]).sum()
    return slope


def _inverse(root: F64) -> F64:
    """Return the inverse of a matrix from its lower Cholesky factor."""
    half = np.linalg.inv(root)
    return np.asarray(half.T @ half)


def _value(tree: Nest, theta: F64, reml: bool) -> float:
    point = climb(tree, theta**2)
    return np.inf if point is None else deviance(tree, point, None, reml=reml)


def _search(tree: Nest, theta: F64, reml: bool) -> tuple[F64, bool]:
    """Return the best relative standard deviations that a search from ``theta`` finds, and whether
    it converged.
    """

    def value_and_slope(theta: F64) -> tuple[float, F64]:
        point = climb(tree, theta**2)
        if point is None:
            return np.inf, np.zeros(len(theta))
        slope = gradient(tree, point, None, reml=reml)
        return deviance(tree, point, None, reml=reml), 2.0 * theta * slope

    lower, upper = np.zeros(tree.levels), np.full(tree.levels, LARGEST)
    converged = False
    for _ in range(tree.levels + 1):
        theta, _, converged = minimise(value_and_slope, theta, lower, upper, GAIN)
        point = climb(tree, theta**2)
        # A standard deviation of 0 has slope 0 in any case: only the slope by the variance tells.
        at_zero = (
            (theta < 1e-6) & (gradient(tree, point, None, reml=reml) < -1e-6)
            if point
            else np.zeros(0, np.bool_)
        )
        if not at_zero.any():
            break
        theta = np.where(at_zero, NUDGE, theta)
    zero = np.where(theta < NUDGE**2, 0.0, theta)  # a search comes near 0 and never quite there
    return (
        zero if _value(tree, zero, reml) <= _value(tree, theta, reml) + GAIN else theta
    ), converged


def interval(tree: Nest, best: Fit, which: int, rise: float, *, reml: bool) -> tuple[float, float]:
    """Return the bounds of one standard deviation; ``which`` counts the levels innermost first,
    then the residual.
    """
    total = float(np.sqrt(best.sigma2 * (1.0 + best.relative.sum())))
    of_residual = which == tree.levels
    sd = float(np.sqrt(best.sigma2 * (1.0 if of_residual else best.relative[which])))

    @cache  # the ends of a search are asked for again
    def above(value: float) -> float:
        increase = profile_deviance(tree, best, which, value**2, reml=reml) - best.deviance
        # The root of the deviance is nearly straight in the standard deviation, which suits regula
        # falsi.
        return float(np.sqrt(max(increase, 0.0)) - np.sqrt(rise))

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


def likeness_interval(
    tree: Nest, best: Fit, level: int, rise: float, *, reml: bool
) -> tuple[float, float]:
    """Return the bounds of the intraclass correlation of a level, counted innermost first: the
    share of its variance and of those of all outer levels in the whole.
    """
    total = 1.0 + float(best.relative.sum())
    icc = float(best.relative[level:].sum()) / total

    @cache
    def above(value: float) -> float:
        increase = likeness_deviance(tree, best, level, value, reml=reml) - best.deviance
        return float(np.sqrt(max(increase, 0.0)) - np.sqrt(rise))

    gap = (1.0 - icc) / 2.0
    for _ in range(DOUBLINGS):
        if above(1.0 - gap) > 0.0:
            break
        gap /= 2.0
    else:
        return 0.0, 1.0
    lowest = 0.0 if icc == 0.0 or above(0.0) <= 0.0 else crossing(above, 0.0, icc, TOLERANCE)
    return lowest, crossing(above, icc, 1.0 - gap, TOLERANCE)


def likeness_deviance(tree: Nest, best: Fit, level: int, icc: float, *, reml: bool) -> float:
    """Return the smallest deviance if the intraclass correlation of a level has a given value."""
    ratio, n_outer = icc / (1.0 - icc), tree.levels - level

    def value_and_slope(at: F64) -> tuple[float, F64]:
        """``at``: relative deviations of the inner levels, then how the outer levels share their
        variance: which part of what is left each of them takes, and the outermost the rest.
        """
        inner, parts = at[:level], at[level:]
        spread = ratio * (1.0 + float((inner**2).sum()))
        fractions, slopes = _split(parts)
        relative = np.concatenate([inner**2, spread * fractions])
        point = climb(tree, relative)
        if point is None:
            return np.inf, np.zeros(len(at))
        slope = gradient(tree, point, None, reml=reml)
        # An inner variance moves the outer ones too: their ratio to it is held.
        along = ratio * float(slope[level:] @ fractions)
        steps = np.concatenate(
            [2.0 * inner * (slope[:level] + along), spread * slopes @ slope[level:]]
        )
        return deviance(tree, point, None, reml=reml), steps

    outer, left = best.relative[level:], float(best.relative[level:].sum())
    start = list(np.maximum(np.sqrt(best.relative[:level]), NUDGE))
    for variance in outer[:-1].tolist():
        start.append(variance / left if left > 0.0 else 0.5)
        left -= variance
    if not start:
        return value_and_slope(np.zeros(0))[0]
    lower = np.zeros(len(start))
    upper = np.append(np.full(level, LARGEST), np.ones(n_outer - 1))
    return minimise(value_and_slope, np.array(start), lower, upper, GAIN)[1]


def _split(parts: F64) -> tuple[F64, F64]:
    """Return the (m,) shares of a whole of which each takes its part of what is left, the last one
    all of it; and their (m - 1, m) derivatives by the parts.
    """
    takes = np.append(parts, 1.0)
    left = np.append(1.0, np.cumprod(1.0 - parts))
    slopes = np.zeros((len(parts), len(takes)))
    for k in range(len(parts)):
        slopes[k, k] = left[k]
        # What the part k takes more, all that come after it lose in proportion.
        rest = np.append(1.0, np.cumprod(1.0 - parts[k + 1 :]))
        slopes[k, k + 1 :] = -left[k] * rest * takes[k + 1 :]
    return takes * left, slopes


class LogisticFit(NamedTuple):
    """The optimum."""

    beta: F64  # (p,) log odds
    bread: F64  # (p, p) inverse information: the covariance if rows were independent
    probability: F64  # (n,)
    deviance: float
    converged: bool


def fit_logistic(x: F64, y: F64) -> LogisticFit:
    """Return the maximum-likelihood fit of ``P(y = 1) = 1 / (1 + exp(-x b))``; x (n, p) has full
    rank.

    Where the data are separated, coefficients run away: the search stops where probabilities are 0
    or 1 to nearly all digits, and the bread of those coefficients is huge.
    """
    q, r = np.linalg.qr(x)
    beta, deviance, converged = np.zeros(x.shape[1]), np.inf, False
    for _ in range(LOGISTIC_STEPS):
        # Separated data would drive the logits to infinity.
        eta = np.clip(q @ beta, -STEEPEST, STEEPEST)
        p = 1.0 / (1.0 + np.exp(-eta))
        before, deviance = (
            deviance,
            float(2.0 * np.logaddexp(0.0, np.where(y > 0.5, -eta, eta)).sum()),
        )
        if abs(before - deviance) <= SETTLED * (1.0 + deviance):
            converged = True
            break
        weight = p * (1.0 - p)
        beta = beta + np.linalg.solve((q * weight[:, None]).T @ q, q.T @ (y - p))
    back = np.linalg.inv(r)
    information = (q * (p * (1.0 - p))[:, None]).T @ q
    return LogisticFit(
        back @ beta, back @ np.linalg.inv(information) @ back.T, p, deviance, converged
    )


class Sandwich(NamedTuple):
    """The covariance of coefficients by cluster, and the parts that its degrees of freedom need."""

    covariance: F64  # (p, p)
    root: F64  # (p, p) the symmetric root L of the bread
    leverage: F64  # (G, p) eigenvalues of L A L with the information A of a cluster, up to 1
    directions: F64  # (G, p, p) their eigenvectors
    power: float

    def freedom(self, contrast: F64) -> float:
        """Return the degrees of freedom of a combination of coefficients; NaN if a single cluster
        decides a part of it, so that nothing shows how clusters differ there.

        Notes
        -----
        Bell and McCaffrey (2002): those of the chi-squared distribution with the mean and variance
        that the estimated variance has if rows are independent. Few clusters, clusters of unequal
        size and a column that differs in few of them all lower it.
        """
        lengths = np.einsum("gij,i->gj", self.directions, self.root @ contrast)
        sole = lengths[self.leverage > 1.0 - ALONE]
        total = float(((self.root @ contrast) ** 2).sum())
        if (sole**2).max(initial=0.0) > ALONE * total:
            return float("nan")
        weight = _against_leverage(self.leverage, self.power)
        own = ((weight**2 * self.leverage) * lengths**2).sum(axis=1)
        shared = np.einsum("gij,gj->gi", self.directions, weight * self.leverage * lengths)
        overlap = (shared**2).sum(axis=1)
        # Trace and squared norm of diag(own) - shared shared', which is (G, G) and never formed.
        trace = float((own - overlap).sum())
        square = float((own**2 - 2.0 * own * overlap).sum() + ((shared.T @ shared) ** 2).sum())
        return trace**2 / square if trace > 0.0 < square else float("nan")


def sandwich(
    x: F64, residual: F64, weight: F64, bread: F64, code: I64, power: float = 0.5
) -> Sandwich:
    """Return the covariance of the coefficients if only rows of different clusters are independent.

    Parameters
    ----------
    weight
        (n,) variances ``p (1 - p)`` of the rows.
    power
        How far residuals are enlarged for what their own cluster took of them: 0 not at all (Liang
        and Zeger 1986), 1/2 so that the covariance is unbiased if rows are independent (CR2,
        Kauermann and Carroll 2001), 1 as if each cluster had been left out (Mancl and DeRouen
        2001).

    Notes
    -----
    ``bread (sum_g s_g s_g') bread`` with ``s_g = (I - A_g B)^-power X_g' r_g``, A_g the information
    of cluster g and B the bread. The residuals of a cluster with a large share of the information
    are too small, because the fit went after them: with few clusters the plain form is too small
    for columns that are constant within clusters.
    """
    order = np.argsort(code, kind="stable")
    first = np.flatnonzero(np.diff(code[order], prepend=-1))
    rows, weights = x[order], weight[order]
    scores = np.add.reduceat(rows * residual[order][:, None], first)
    information = np.empty((len(first), x.shape[1], x.shape[1]))
    for k in range(x.shape[1]):
        information[:, k] = np.add.reduceat(rows * (weights * rows[:, k])[:, None], first)
    values, vectors = np.linalg.eigh(bread)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    leverage, directions = np.linalg.eigh(root @ information @ root)
    leverage = np.clip(leverage, 0.0, 1.0)
    # In terms of L s the enlargement is symmetric: (I - L A L)^-power.
    along = np.einsum("gij,gi->gj", directions, scores @ root)
    enlarged = np.einsum("gij,gj->gi", directions, _against_leverage(leverage, power) * along)
    covariance = root @ (enlarged.T @ enlarged) @ root
    return Sandwich(covariance, root, leverage, directions, power)


def _against_leverage(leverage: F64, power: float) -> F64:
    """Return ``(1 - leverage)^-power``; 0 where a cluster alone determines a direction, so that its
    residual says nothing there.
    """
    rest = 1.0 - leverage
    return np.where(rest > ALONE, np.maximum(rest, ALONE) ** -power, 0.0)


def minimise(
    function: ValueAndSlope, start: F64, lower: F64, upper: F64, gain: float
) -> tuple[F64, float, bool]:
    """Return the place and the value of a minimum, and whether nothing above ``gain`` was left to
    win there.

    Notes
    -----
    Projected Newton: variables on a bound that the slope presses against stay; the others take the
    Newton step, with the curvature made positive, halved until the value falls enough. The
    curvature comes from differences of slopes.
    """
    at = np.clip(start, lower, upper)
    value, slope = function(at)
    for _ in range(STEPS):
        at_bound = ((at <= lower) & (slope >= 0.0)) | ((at >= upper) & (slope <= 0.0))
        free = np.flatnonzero(~at_bound)
        if not len(free):
            return at, value, True
        step = np.zeros(len(at))
        step[free] = _newton(function, at, slope, free, upper)
        decrease = -float(slope @ step)
        if decrease < gain:
            return at, value, True
        # No step moves a variable by more than four times its own size: far out the model is no
        # parabola.
        step *= min(
            1.0,
            float(
                np.min((4.0 * (1.0 + np.abs(at[free]))) / np.maximum(np.abs(step[free]), 1e-300))
            ),
        )
        length = 1.0
        for _ in range(HALVINGS):
            there = np.clip(at + length * step, lower, upper)
            new, new_slope = function(there)
            if new <= value + SUFFICIENT * float(slope @ (there - at)):
                break
            length /= 2.0
        else:
            return at, value, decrease < 1e3 * gain  # the value's own rounding is all that is left
        at, value, slope = there, new, new_slope
    return at, value, False


def _newton(
    function: ValueAndSlope, at: F64, slope: F64, free: NDArray[np.intp], upper: F64
) -> F64:
    """Return the Newton step of the free variables."""
    curvature = np.empty((len(free), len(free)))
    for row, k in enumerate(free):
        moved = at.copy()
        moved[k] += DIFFERENCE * (0.01 + abs(at[k])) * (1.0 if at[k] < upper[k] else -1.0)
        curvature[row] = (function(moved)[1][free] - slope[free]) / (moved[k] - at[k])
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2.0)
    # Absolute values make a saddle a descent; the floor keeps a flat direction from an endless
    # step.
    values = np.maximum(np.abs(values), max(FLATTEST * float(np.abs(values).max()), 1e-12))
    return np.asarray(-vectors @ ((vectors.T @ slope[free]) / values))


def crossing(
    function: Callable[[float], float], low: float, high: float, tolerance: float
) -> float:
    """Return where a function, below 0 at one of two places and above at the other, is 0 up to the
    tolerance.

    Notes
    -----
    Regula falsi in the Illinois variant: the value at an end that stays is halved, so that both
    ends move.
    """
    at_low, at_high = function(low), function(high)
    middle = low
    for _ in range(STEPS):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        value = function(middle)
        if abs(value) < tolerance:
            break
        if (value < 0.0) == (at_high < 0.0):
            high, at_high, at_low = middle, value, at_low / 2.0
        else:
            low, at_low, at_high = middle, value, at_high / 2.0
    return middle
