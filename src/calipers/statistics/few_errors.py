# SPDX-License-Identifier: Apache-2.0
"""Closed forms of intervals where errors are few, and how far a bound may go.

`statistics.intervals` decides that errors are few and says what the bootstrap's standard error is;
here are Jeffreys' interval of a share of so many trials, that of a Poisson number of so many
events, the mid-p gamma interval of a sum of costs, and what is assumed about the clustering of
errors where none shows it.

**More errors never raise the lower bound of a share**, nor lower the upper bound of a rate or a sum
of costs. Errors in further units show that units do not fail as a whole, and an interval that
learns from that would reward them. So no bound is bolder than that of such errors in fewer units or
in none (`ErrorPath`), whichever form either has. As that makes the bound without an error the bound
of many data sets, the clustering that is assumed there has a limit (`largest_effect`). How it was
chosen: `validation.choices_few_errors`, and `validation.choices_gains` for sums of costs.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import ModuleType

import numpy as np

from calipers.arrays import F64, I64, Flags
from calipers.results.estimate import ASSUMED_LIKENESS
from calipers.statistics.student import normal_quantile, t_quantile

# Fewer units in error than this, and no more than this share of them, are few errors.
ENOUGH_ERRORS = 5
MOST_IN_ERROR = 1 / 3
MOST_ON_BOUND = 0.05  # of the replicates
ON_BOUND = -math.log(MOST_ON_BOUND)  # with so many units in error, by chance
# With so many units in error no bound need be held below those of fewer: the t form's own lie
# lower.
NO_LONGER_FEW = 30
# The bound without an error lies at most so many times as far away as the t form's first one.
FURTHEST = 2.0
FURTHEST_OF_GAINS = 1.0
# Sums of costs have the gamma form up to this effective number of errors: the t form knows nothing
# of an error more expensive than those that were seen.
MANY_COSTS = 30.0
STEPS = 20  # towards a quantile; ten give all its digits as a rule
TINY = 1e-300
# of a metric; pycocotools' epsilon makes a perfect average precision a little less than 1
ROUNDING = 1e-12
# SciPy looks up every name of NumPy when it is imported. That imports these two, which it does not
# need, and nobody here does.
UNUSED = ("numpy.f2py", "numpy.testing")


def enough_errors(tried: int) -> int:
    """Return with how many units in error, of those that could be, errors are no longer few."""
    return min(ENOUGH_ERRORS, math.floor(MOST_IN_ERROR * tried) + 1)


def first_of_t(tried: int) -> int:
    """Return with how many units in error the t form takes over."""
    first = enough_errors(tried)
    # Of 5 units, too many replicates draw none of the 2 in error.
    while (1 - first / tried) ** tried > MOST_ON_BOUND:
        first += 1
    return first


@lru_cache(maxsize=1024)
def largest_effect(tried: int, df: int, level: float) -> float:
    """Return with which effect of clustering, t for z included, the bound without an error lies as
    far away as that of the first interval of the t form.

    That has e units in error. Among many objects its bound lies ``e exp(t s / e)`` errors away,
    where s is the standard error of e errors in units of their own; the bound without an error
    lies ``-log(1 - level)`` times the effect away.
    """
    first = first_of_t(tried)
    error = math.sqrt(first * (tried - first) / max(tried - 1, 1))
    away = first * math.exp(t_quantile(df, level) * error / first)
    return away / -math.log(1 - level)


def assumed_effect(
    size: float, tried: int, df: int, level: float, furthest: float = FURTHEST
) -> float:
    """Return by how much units of a size vary more than as many objects, where nothing shows it."""
    # Kish's design effect of units whose objects are alike.
    effect = 1.0 + max(size - 1.0, 0.0) * ASSUMED_LIKENESS
    limit = max(furthest * largest_effect(tried, df, level), 1.0)
    return min(effect, 1.0 + (limit - 1.0) / t_for_z(df, level) ** 2)


def t_for_z(df: int, level: float) -> float:
    """Return by how much the quantile of t is larger than that of the normal distribution."""
    return t_quantile(df, level) / normal_quantile(level)


def trials(variance: F64, error: F64, support: tuple[F64, F64], unknown: F64) -> F64:
    """Return the effective number of trials: what the standard error is worth.

    As far as the clustering of errors is ``unknown`` (1 to 0) it is assumed, which never adds
    trials. ``support`` has the most trials that there can be, objects as a rule, and how many
    they are assumed to be worth where no error shows it, or where all units fared alike.
    """
    most, assumed = support
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.where(error > ROUNDING, np.minimum(variance / error**2, most), assumed)
        # On a bound the variance is 0 although replicates may vary: then all is unknown.
        of_errors = np.where(unknown < 1, (1 - unknown) / worth, 0.0)
        mixed = 1.0 / (of_errors + unknown / assumed)
        return np.asarray(np.where(unknown < 1, np.minimum(mixed, worth), mixed))


def widened(of_one: F64, least: F64, ratio: F64) -> F64:
    """Return the variance of one trial, or the size of one event, as large as t for z makes it.

    ``least`` is what independent objects have; only what clustering adds to it is estimated.
    """
    return np.asarray(least + ratio**2 * np.maximum(of_one - least, 0.0))


def jeffreys(x: F64, n: F64, level: float) -> tuple[F64, F64]:
    """Return Jeffreys' interval of shares x of n trials; it holds x, to the bit.

    Without an error its bound would be too bold. There it is the mid-p bound, with ``p^n = 1 -
    level``, which is the rule of three at 95 %; from there it goes evenly to that of one error.
    """
    low = np.where(x > 0, _lower_share((1 - x) * n, n, level), 0.0)
    high = np.where(x < 1, 1 - _lower_share(x * n, n, level), 1.0)
    return np.clip(low, 0.0, x), np.clip(high, x, 1.0)


def _lower_share(errors: F64, n: F64, level: float) -> F64:
    """Return the lower bound of a share of n trials with so many errors."""
    least_one = np.maximum(errors, 1.0)
    hits = np.maximum(n - least_one, 0.0)
    bound = special().betaincinv(hits + 0.5, least_one + 0.5, (1 - level) / 2)
    faultless = (1 - level) ** (1 / n)
    return np.asarray(np.where(errors < 1, (1 - errors) * faultless + errors * bound, bound))


def event_size(x: F64, error: F64, support: tuple[F64, F64], unknown: F64) -> F64:
    """Return what one event adds to rates x, as their standard errors say: the variance over x.

    As far as clustering is ``unknown`` it is assumed, which never makes events smaller. ``support``
    has the most events that there can be, and what one adds where nothing shows it.
    """
    most, event = support
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.maximum(np.where(x > 0, error**2 / x, event), np.where(x > 0, x / most, 0.0))
        mixed = (1 - unknown) * size + unknown * event
        larger = np.where(np.isnan(event), size, np.maximum(size, mixed))
        return np.asarray(np.where(unknown < 1, larger, mixed))


def poisson(x: F64, size: F64, level: float) -> tuple[F64, F64]:
    """Return Jeffreys' interval of Poisson rates x, to which every event adds its size; it holds x.

    Without an event its bound would be too bold. There it is the mid-p bound, ``-log(1 - level)``
    events, which is the rule of three at 95 %; from there it goes evenly to that of one event.
    """
    gammaincinv, tail = special().gammaincinv, (1 - level) / 2
    number = x / size
    low = np.where(x > 0, gammaincinv(number + 0.5, tail), 0.0)
    high = gammaincinv(np.maximum(number, 1.0) + 0.5, 1 - tail)
    high = np.where(number < 1, (1 - number) * -math.log(1 - level) + number * high, high)
    return np.minimum(size * low, x), np.maximum(size * high, x)


def further_cost(event: F64, effect: F64, unknown: F64) -> F64:
    """Return what one error more is assumed to cost.

    Alone it costs ``event``. How errors of a unit cluster multiplies that by ``effect``, as far as
    the data do not show it.
    """
    return np.asarray(event * (1.0 + (effect - 1.0) * unknown))


def gamma(x: F64, size: F64, further: F64, level: float) -> tuple[F64, F64]:
    """Return intervals of sums x of costs that differ, where one error costs ``size`` on average.

    The mid-p gamma interval (Fay and Kim, Biom J 2017) takes the truth to be gamma distributed,
    half of the time as the sum is and half of the time as it would be with an error more, which
    costs ``further``, because those that were seen may have been cheap by luck. Without an error
    its upper bound is the rule of three, as that of shares and rates.
    """
    x, size, further = np.broadcast_arrays(x, size, further)
    with_one = (x * size + further**2) / (x + further)
    is_some = x > 0
    shapes = np.where(is_some, x / size, 1.0), (x + further) / with_one
    scales = np.where(is_some, size, with_one), with_one
    low = _quantile_of_both((1 - level) / 2, shapes, scales, upper=False)
    high = _quantile_of_both((1 - level) / 2, shapes, scales, upper=True)
    # Without an error one half lies at 0, and the other is an exponential distribution.
    high = np.where(is_some, high, -math.log(1 - level) * with_one)
    return np.where(is_some, np.minimum(low, x), 0.0), np.maximum(high, x)


def _quantile_of_both(
    tail: float, shapes: tuple[F64, F64], scales: tuple[F64, F64], *, upper: bool
) -> F64:
    """Return the quantile that cuts off a tail of an even mixture of two gamma distributions.

    It lies between the quantiles of the two. There the logarithm of the lower tail is nearly
    linear in the logarithm of the value, that of the upper tail in the value itself, so that false
    position (Illinois) gets there in a few steps.
    """
    share_of = special().gammaincc if upper else special().gammainc
    inverse = special().gammainccinv if upper else special().gammaincinv
    to_value, from_value = (np.asarray, np.asarray) if upper else (np.exp, np.log)

    def distance(at: F64) -> F64:
        value = to_value(at)
        parts = [share_of(shape, value / scale) for shape, scale in zip(shapes, scales)]
        return np.asarray(np.log((parts[0] + parts[1]) / (2 * tail)))

    ends = [scale * inverse(shape, tail) for shape, scale in zip(shapes, scales)]
    a, b = (from_value(np.maximum(end, TINY)) for end in ends)
    of_a, of_b = distance(a), distance(b)
    lowest, highest = np.minimum(a, b), np.maximum(a, b)
    for _ in range(STEPS):
        # Who is there stays, so that an entry does not depend on the others.
        there = (np.abs(of_b) < ROUNDING) | (of_a == of_b)
        if there.all():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            at = np.where(there, b, b - of_b * (b - a) / (of_b - of_a))
        at = np.clip(at, lowest, highest)
        of_at = distance(at)
        turned = of_at * of_b <= 0
        # The end that stays twice loses half of its weight, or the other would hardly move.
        a, of_a = np.where(turned, b, a), np.where(turned, of_b, of_a / 2)
        b, of_b = at, of_at
    return np.asarray(to_value(b))


def wilson(k: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion k / n."""
    if n <= 0:
        return math.nan, math.nan
    z2 = normal_quantile(level) ** 2
    centre, half = k + z2 / 2, math.sqrt(z2) * math.sqrt(k * (n - k) / n + z2 / 4)
    # Exact at both ends, where the formula is only so up to rounding.
    low = 0.0 if k == 0 else (centre - half) / (n + z2)
    high = 1.0 if k == n else (centre + half) / (n + z2)
    return low, high


def clopper_pearson(k: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a proportion k / n."""
    if n <= 0:
        return math.nan, math.nan
    betaincinv, tail = special().betaincinv, (1 - level) / 2
    low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n else float(betaincinv(k + 1, n - k, 1 - tail))
    return low, high


@dataclass(frozen=True, slots=True)
class ErrorPath:
    """Data sets like some at hand, with errors in none of their units, in one, in two...

    Row by row one more unit is in error, up to as many as are; each costs what units in error cost
    at hand on average. The methods return the most cautious bound of every column.
    """

    errors: F64  # (r, m) units in error
    cost: F64  # (m,) of one unit in error
    error: F64  # (r, m) standard error
    tried: F64  # (m,) units that could be in error
    few: Flags  # (r, m) errors are few ...
    on_bound: Flags  # (r, m) ... or too many replicates without one
    unknown: F64  # (r, m) how far the clustering of errors is unknown
    ratio: F64  # (m,) t for z
    level: float

    @classmethod
    def of(
        cls,
        total: tuple[F64, F64],
        n_error: I64,
        units: tuple[I64, I64],
        level: float,
    ) -> ErrorPath:
        """Return the path to errors in ``n_error`` units.

        Parameters
        ----------
        total
            What the errors cost in all, and its standard error: of units with more and fewer
            objects it is less than the errors alone would have, and so it is along the path.
        units
            Units that could be in error, and degrees of freedom.
        """
        tried, df = units
        most = min(int(n_error.max(initial=0)), NO_LONGER_FEW)
        errors = np.minimum(np.arange(most + 1.0)[:, None], n_error)
        cost = total[0] / np.maximum(n_error, 1)
        varying = np.maximum(tried - errors, 0.0) / np.maximum(tried - 1, 1)
        enough = np.array([enough_errors(number) for number in tried.tolist()])
        few = errors < enough
        with np.errstate(divide="ignore"):
            rarity = -tried * np.log(np.maximum(1 - errors / tried, 0.0))
        number = np.where(few, np.minimum(rarity, errors), rarity) / np.where(few, enough, ON_BOUND)
        unknown = np.maximum(1 - number, 0.0)
        ratio = np.array([t_for_z(freedom, level) for freedom in df.tolist()])
        error = cost * np.sqrt(errors * varying)
        # Where all units are in error nothing varies; what they vary by is as if one were not.
        last = np.minimum(n_error, tried - 1.0)
        of_last = cost * np.sqrt(last * (tried - last) / np.maximum(tried - 1, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            regular = np.where(of_last > 0, np.minimum(total[1] / of_last, 1.0), 1.0)
        error = error * regular
        on_bound = few | (rarity < ON_BOUND)
        return cls(
            errors, cost, error, tried.astype(np.float64), few, on_bound, unknown, ratio, level
        )

    def lowest_share(self, most: F64, assumed: F64) -> F64:
        """Return the lower bound of shares of so many objects, worth what is assumed."""
        x = 1 - self.errors * self.cost
        of_x = trials(x * (1 - x), self.error, (most, assumed), self.unknown)
        of_x = 1.0 / widened(1.0 / of_x, 1.0 / most, self.ratio)
        low = self._t_odds(x, -1.0)
        few = self.on_bound
        low[few] = jeffreys(x[few], of_x[few], self.level)[0]
        return np.asarray(low.min(axis=0))

    def highest_rate(self, event: F64, assumed: F64) -> F64:
        """Return the upper bound of rates, to which a lone event adds so much."""
        x = self.errors * self.cost
        size = event_size(x, self.error, (self.tried, assumed), self.unknown)
        size = np.broadcast_to(widened(size, event, self.ratio), x.shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            high = x * np.exp(self._t * self.error / x)
        high[self.few] = poisson(x[self.few], size[self.few], self.level)[1]
        return np.asarray(high.max(axis=0))

    def highest_gain(self, event: F64, effect: F64, least: F64) -> F64:
        """Return the upper bound of sums of costs; a lone error is assumed to cost ``event``, and
        clustering to multiply that by ``effect``. Up to ``least`` the size of an error is known.
        """
        x = self.errors * self.cost
        size = event_size(x, self.error, (self.tried, event * effect), self.unknown)
        size = widened(size, np.minimum(size, least), self.ratio)
        high = self._t_odds(x, 1.0)
        further = further_cost(event, effect, self.unknown)
        few = self.on_bound | (x**2 < MANY_COSTS * self.error**2)
        high[few] = gamma(x[few], size[few], further[few], self.level)[1]
        return np.asarray(np.minimum(high, 1.0).max(axis=0))

    @property
    def _t(self) -> F64:
        return self.ratio * normal_quantile(self.level)

    def _t_odds(self, x: F64, sign: float) -> F64:
        """Return the bounds of the t form on the logit scale."""
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.exp(sign * self._t * self.error / (x * (1 - x)))
            odds = x / (1 - x) * step
            return np.asarray(odds / (1 + odds))


def special() -> ModuleType:
    """Return ``scipy.special``, imported late: it takes 0.04 s, and more than twice that if it
    brings the modules of `UNUSED` along.
    """
    if "scipy.special" not in sys.modules:
        for name in UNUSED:
            _postpone(name)
    return import_module("scipy.special")


def _postpone(name: str) -> None:
    """Have a module of NumPy imported when something in it is used, not when it is looked up."""
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    # As an import does; without the attribute NumPy would import the module after all.
    setattr(np, name.removeprefix("numpy."), module)
