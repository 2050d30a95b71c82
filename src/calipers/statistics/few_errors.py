# SPDX-License-Identifier: Apache-2.0
"""Closed forms of intervals where errors are few, and how far a bound may go.

`statistics.intervals` decides that errors are few and says what the bootstrap's standard error is;
here are Jeffreys' interval of a share of so many trials, that of a Poisson number of so many
events, the gamma interval of a sum of costs, and what is assumed about the clustering of errors
where none shows it.

**More errors never raise the lower bound of a share**, nor lower the upper bound of a rate. Errors
in units of their own show that units do not fail as a whole, and an interval that learns from that
would reward them. So no bound is above that of fewer errors, each in a unit of its own
(`lowest_shares`, `highest_rates`), whatever form has the data at hand. As that makes the bound
without an error the bound of many data sets, the clustering that is assumed there has a limit
(`largest_effect`). How it was chosen: `calipers.validation.choices_few_errors`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import import_module
from types import ModuleType

import numpy as np

from calipers.arrays import F64
from calipers.results.estimate import ASSUMED_LIKENESS
from calipers.statistics.student import normal_quantile, t_quantile

# Fewer units in error than this, and no more than this share of them, are few errors.
ENOUGH_ERRORS = 5
MOST_IN_ERROR = 1 / 3
MOST_ON_BOUND = 0.05  # of the replicates
# With so many units in error no bound need be held below those of fewer: the t form's own lie
# lower.
NO_LONGER_FEW = 30
# The bound without an error lies at most so many times as far away as the t form's first one.
FURTHEST = 2.0
# of a metric; pycocotools' epsilon makes a perfect average precision a little less than 1
ROUNDING = 1e-12


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


def assumed_effect(size: float, tried: int, df: int, level: float) -> float:
    """Return by how much units of a size vary more than as many objects, where nothing shows it."""
    # Kish's design effect of units whose objects are alike.
    effect = 1.0 + max(size - 1.0, 0.0) * ASSUMED_LIKENESS
    limit = max(FURTHEST * largest_effect(tried, df, level), 1.0)
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


def gamma(x: F64, size: F64, event: F64, level: float) -> tuple[F64, F64]:
    """Return intervals of sums x of costs that differ, where one error costs ``size`` on average.

    The gamma interval of Fay and Feuer (Stat Med 1997): the upper bound is that with an error more,
    which costs ``event``, because the few that were seen may have been cheap by luck.
    """
    gammaincinv, tail = special().gammaincinv, (1 - level) / 2
    low = np.where(x > 0, gammaincinv(np.where(x > 0, x / size, 1.0), tail), 0.0)
    with_one = (x * size + event**2) / (x + event)
    high = with_one * gammaincinv((x + event) / with_one, 1 - tail)
    return np.minimum(size * low, x), np.maximum(high, x)


@lru_cache(maxsize=4096)
def lowest_shares(n: float, tried: int, df: int, level: float) -> tuple[float, ...]:
    """Return the lowest bound of a share of n objects with at most 0, 1, 2... errors.

    Each error is that of one object in a unit of its own: no data with as many units in error show
    less, and none may have a higher bound.
    """
    errors, error = _alone(tried)
    x, error = 1 - errors / n, error / n
    most = np.full(len(x), max(n, tried))
    effect = assumed_effect(n / tried, tried, df, level)
    support = most, most / effect
    of_x = trials(x * (1 - x), error, support, _unknown_alone(errors, tried))
    of_x = 1.0 / widened(1.0 / of_x, 1.0 / most, np.full(len(x), t_for_z(df, level)))
    low = jeffreys(x, of_x, level)[0]
    is_t = errors >= first_of_t(tried)
    room = x[is_t] * (1 - x[is_t])
    odds = x[is_t] / (1 - x[is_t]) / np.exp(t_quantile(df, level) * error[is_t] / room)
    low[is_t] = odds / (1 + odds)
    return tuple(np.minimum.accumulate(low).tolist())


@lru_cache(maxsize=4096)
def highest_rates(
    event: float, size: float, tried: int, df: int, level: float
) -> tuple[float, ...]:
    """Return the highest bound of a rate with at most 0, 1, 2... events, each in its own unit.

    An event adds ``event`` to the rate, and units have so many images (``size``).
    """
    events, error = _alone(tried)
    x, error = events * event, error * event
    assumed = np.full(len(x), event * assumed_effect(size, tried, df, level))
    most = np.full(len(x), float(tried))
    of_one = event_size(x, error, (most, assumed), _unknown_alone(events, tried))
    of_one = widened(of_one, np.full(len(x), event), np.full(len(x), t_for_z(df, level)))
    high = poisson(x, of_one, level)[1]
    is_t = events >= enough_errors(tried)
    high[is_t] = x[is_t] * np.exp(t_quantile(df, level) * error[is_t] / x[is_t])
    return tuple(np.maximum.accumulate(high).tolist())


def _alone(tried: int) -> tuple[F64, F64]:
    """Return numbers of errors in units of their own, and the standard errors of these numbers."""
    errors = np.arange(float(min(NO_LONGER_FEW, tried)))
    return errors, np.sqrt(errors * (tried - errors) / max(tried - 1, 1))


def _unknown_alone(errors: F64, tried: int) -> F64:
    """Return how far the clustering of errors is unknown that lie in units of their own."""
    drawn = -tried * np.log(1 - errors / tried)
    few = errors < enough_errors(tried)
    number = np.where(few, np.minimum(drawn, errors), drawn)
    enough = np.where(few, enough_errors(tried), -math.log(MOST_ON_BOUND))
    return np.asarray(np.maximum(1 - number / enough, 0.0))


def special() -> ModuleType:
    """Return ``scipy.special``, imported late: it takes a tenth of a second."""
    return import_module("scipy.special")
