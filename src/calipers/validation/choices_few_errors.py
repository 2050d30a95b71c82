# SPDX-License-Identifier: Apache-2.0
"""How the interval for few errors was chosen: candidates, compared on simulated shares and rates.

Units of equal size have hits or events; chances or rates of units have one of three distributions.
Their bootstrap standard error has a closed form, so that thousands of data sets of a kind cost
nothing. Each candidate states an interval as `statistics.intervals` does, with parts of its own:

``likeness``
    the intraclass correlation of errors that is assumed where none shows it;
``adds``
    t stands for z only in what clustering adds to the variance of independent objects, else in all
    of it;
``most``
    the most that units are assumed to vary more than as many objects, in multiples of
    `largest_effect`: with more, the bound without an error would be lower than that of the t form,
    which takes over as soon as errors are no longer few;
``envelope``
    no lower bound of a share (upper bound of a rate) is above (below) one of the bounds of such
    errors in fewer units, so that errors never raise (lower) it. When the choice was made, the path
    was that of single errors, and ended with the first interval of the t form; what confirmed it is
    measured with the path of now (`few_errors.ErrorPath`), also where every unit is in error, which
    has been left out since;
``exact``
    rates have the exact Poisson interval (Garwood 1936), else Jeffreys'.

How the last choice is made, written before it was measured. Candidates: ".25, t in what is added",
which is the rule so far and lets bounds rise, and those with an envelope. The one with the largest
mean share of kinds inside (mean over the three sets of `CHOOSING`) is taken among those with an
envelope which, in every set, have at least as many kinds covered in .90 or more as the rule so far,
less one point in a hundred, and at most five points fewer kinds inside. If there is none, the rule
so far stays. The sets of `CONFIRMING`, with kinds, distribution and seeds of their own, are
measured once, afterwards, and choose nothing.

``python -m calipers.validation.choices_few_errors`` prints both; docs/explanation/intervals.md has
the tables. Kinds and seeds are not those of `calipers.validation.experiments`, nor of earlier
choices.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calipers.arrays import F64, I64
from calipers.statistics import few_errors as closed
from calipers.statistics.few_errors import (
    ENOUGH_ERRORS,
    MOST_IN_ERROR,
    MOST_ON_BOUND,
    NO_LONGER_FEW,
    ErrorPath,
    enough_errors,
    special,
)
from calipers.statistics.intervals import MetricScale
from calipers.statistics.student import normal_quantile, t_quantile
from calipers.validation.cells import HIGHEST, LOWEST, NOMINAL, WIDEST

DATA_SETS, FURTHER = 1500, 20_000  # with an interval, and for the true sampling interval
TAIL = (1 - NOMINAL) / 2


# Of the chances or rates of units: beta or gamma; a few bad units; normal on a scale of their own.
Distribution = Literal["smooth", "two kinds", "normal"]


@dataclass(frozen=True)
class FewErrorsRule:
    """One candidate."""

    name: str
    likeness: float
    adds: bool
    most: float = math.inf
    envelope: bool = False
    exact: bool = False


@dataclass(frozen=True)
class ErrorKind:
    """Shares or rates of one kind."""

    mean: float  # share of hits, or events per image
    units: int
    size: int  # objects or images of a unit
    spread: float  # intraclass correlation of hits, or squared variation of rates over units
    distribution: Distribution


SO_FAR = ".25, t in what is added"
SHARE_RULES = (
    FewErrorsRule("before", 0.3, adds=False),
    FewErrorsRule(SO_FAR, 0.25, adds=True),
    FewErrorsRule("no limit, envelope", 0.25, adds=True, envelope=True),
    FewErrorsRule("limit x 2, envelope", 0.25, adds=True, most=2.0, envelope=True),
    FewErrorsRule("limit x 1.5, envelope", 0.25, adds=True, most=1.5, envelope=True),
    FewErrorsRule("limit x 1.25, envelope", 0.25, adds=True, most=1.25, envelope=True),
    FewErrorsRule("limit, envelope", 0.25, adds=True, most=1.0, envelope=True),
    FewErrorsRule("limit x .9, envelope", 0.25, adds=True, most=0.9, envelope=True),
)
CHOSEN = SHARE_RULES[3]
RATE_RULES = (
    FewErrorsRule("before", 0.3, adds=False, exact=True),
    *SHARE_RULES[1:],
)


def shares(kind: ErrorKind, number: int, rng: np.random.Generator) -> I64:
    """Return (number, units) hits."""
    p, icc, shape = kind.mean, kind.spread, (number, kind.units)
    if icc == 0:
        chance = np.full(shape, p)
    elif kind.distribution == "normal":
        # The latent normals of two objects of a unit correlate by the spread.
        own = special().ndtri(p) + math.sqrt(icc) * rng.standard_normal(shape)
        chance = special().ndtr(own / math.sqrt(1 - icc))
    elif kind.distribution == "two kinds":
        # Good units err by .3 of the mean; the others as often as the correlation needs.
        high, variance = 1 - (1 - p) * 0.3, icc * p * (1 - p)
        low = p - variance / (high - p)
        if low < 0:
            low, high = 0.0, min(p + variance / p, 1.0)
        chance = np.where(rng.random(shape) < (high - p) / (high - low), low, high)
    else:
        strength = 1 / icc - 1
        chance = rng.beta(p * strength, (1 - p) * strength, shape)
    return np.asarray(rng.binomial(kind.size, chance))


def rates(kind: ErrorKind, number: int, rng: np.random.Generator) -> I64:
    """Return (number, units) events."""
    shape = (number, kind.units)
    factor = np.ones(shape)
    if kind.spread and kind.distribution == "normal":
        width = math.sqrt(math.log(1 + kind.spread))
        factor = np.exp(width * rng.standard_normal(shape) - width**2 / 2)
    elif kind.spread and kind.distribution == "two kinds":
        hard = 0.15
        high = 1 + math.sqrt(kind.spread * (1 - hard) / hard)
        low = max((1 - hard * high) / (1 - hard), 0.0)
        factor = np.where(rng.random(shape) < hard, high, low) / (hard * high + (1 - hard) * low)
    elif kind.spread:
        factor = rng.gamma(1 / kind.spread, kind.spread, shape)
    return np.asarray(rng.poisson(kind.mean * kind.size * factor))


def share_bounds(hits: I64, kind: ErrorKind, rule: FewErrorsRule) -> tuple[F64, F64]:
    """Return the bounds of every data set."""
    units, size = kind.units, kind.size
    n = float(units * size)
    x = hits.sum(axis=1) / n
    n_error = (hits < size).sum(axis=1)
    error = np.sqrt(((hits / size - x[:, None]) ** 2).sum(axis=1) / (units * (units - 1.0)))
    t = t_quantile(units - 1, NOMINAL)
    ratio = t / normal_quantile(NOMINAL)
    few = (n_error < ENOUGH_ERRORS) & (n_error <= MOST_IN_ERROR * units)
    # The share of replicates that draw no unit in error.
    on_bound = np.where(n_error < units, (1 - n_error / units) ** units, 0.0)
    with np.errstate(divide="ignore"):
        number = -np.log(on_bound)
    enough = np.where(few, enough_errors(units), -math.log(MOST_ON_BOUND))
    number = np.where(few, np.minimum(number, n_error), number)
    is_bound = (x == 0) | (x == 1)
    unknown = np.maximum(1 - np.where(is_bound, 0.0, number) / enough, 0.0)
    effect = assumed_effect(kind, rule)
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.where(error > 1e-12, np.minimum(x * (1 - x) / error**2, n), n / effect)
        mixed = 1 / (np.where(unknown < 1, (1 - unknown) / worth, 0.0) + unknown * effect / n)
        trials = np.where(unknown < 1, np.minimum(mixed, worth), mixed)
        t_low, t_high = MetricScale(0.0, 1.0).around(x, t * error)
    least = 1 / n if rule.adds else 0.0
    low, high = closed.jeffreys(x, 1 / (least + ratio**2 * (1 / trials - least)), NOMINAL)
    special_form = few | (on_bound > MOST_ON_BOUND) | is_bound | (error <= 1e-12)
    low, high = np.where(special_form, low, t_low), np.where(special_form, high, t_high)
    if rule.envelope:
        path = _path((1 - x, error), n_error, units)
        limit = path.lowest_share(np.full(len(x), n), np.full(len(x), n / effect))
        low = np.where(n_error < min(NO_LONGER_FEW, units), np.minimum(low, limit), low)
    return low, high


def rate_bounds(events: I64, kind: ErrorKind, rule: FewErrorsRule) -> tuple[F64, F64]:
    """Return the bounds of every data set."""
    units, size = kind.units, kind.size
    n = float(units * size)
    total = events.sum(axis=1)
    x = total / n
    n_error = (events > 0).sum(axis=1)
    error = np.sqrt(((events / size - x[:, None]) ** 2).sum(axis=1) / (units * (units - 1.0)))
    t = t_quantile(units - 1, NOMINAL)
    ratio = t / normal_quantile(NOMINAL)
    few = ((n_error < ENOUGH_ERRORS) & (n_error <= MOST_IN_ERROR * units)) | (total == 0)
    unknown = np.maximum(1 - n_error / enough_errors(units), 0.0)
    event = np.full(len(x), assumed_effect(kind, rule) / n)
    most = np.maximum(total, units).astype(np.float64)
    one = closed.event_size(x, error, (most, event), unknown)
    least = 1 / n if rule.adds else 0.0
    one = least + ratio**2 * np.maximum(one - least, 0.0)
    low, high = closed.poisson(x, one, NOMINAL)
    if rule.exact:
        inverse = special().gammaincinv
        low = np.where(x > 0, one * inverse(np.maximum(x / one, 1e-300), TAIL), 0.0)
        high = one * inverse(x / one + 1, 1 - TAIL)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.exp(t * error / x)
        low, high = np.where(few, low, x / step), np.where(few, high, x * step)
    if rule.envelope:
        path = _path((x, error), n_error, units)
        limit = path.highest_rate(np.full(len(x), 1 / n), event)
        high = np.where(n_error < min(NO_LONGER_FEW, units), np.maximum(high, limit), high)
    return low, high


def assumed_effect(kind: ErrorKind, rule: FewErrorsRule) -> float:
    """Return by how much units are assumed to vary more than as many objects."""
    effect = 1 + (kind.size - 1) * rule.likeness
    if math.isinf(rule.most):
        return effect
    ratio = t_quantile(kind.units - 1, NOMINAL) / normal_quantile(NOMINAL)
    limit = rule.most * closed.largest_effect(kind.units, kind.units - 1, NOMINAL)
    return min(effect, 1 + max(limit - 1, 0.0) / ratio**2)


def _path(total: tuple[F64, F64], n_error: I64, units: int) -> ErrorPath:
    """Return the path of every data set from no unit in error to its own."""
    tried = np.full(len(n_error), units)
    return ErrorPath.of(total, np.minimum(n_error, NO_LONGER_FEW), (tried, tried - 1), NOMINAL)


Grid = tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...], tuple[float, ...]]


def kinds_of(grid: Grid, *distributions: Distribution) -> list[ErrorKind]:
    """Return all combinations of means, units, sizes, spreads and distributions."""
    return [ErrorKind(*entry) for entry in itertools.product(*grid, distributions)]


CHOOSING = (
    (
        "shares",
        kinds_of(
            (
                (0.92, 0.95, 0.965, 0.985),
                (5, 8, 12, 18, 25, 40),
                (1, 3, 5, 8, 12),
                (0.0, 0.05, 0.1, 0.2, 0.35, 0.6),
            ),
            "smooth",
            "two kinds",
        ),
        300,
        1601,
    ),
    (
        "shares",
        kinds_of(
            (
                (0.92, 0.94, 0.96, 0.975, 0.99),
                (5, 7, 9, 12, 18),
                (18, 25, 40, 60, 80),
                (0.0, 0.01, 0.03, 0.08, 0.15, 0.3),
            ),
            "smooth",
            "two kinds",
        ),
        300,
        1602,
    ),
    (
        "rates",
        kinds_of(
            (
                (0.01, 0.02, 0.04, 0.07, 0.12),
                (5, 8, 12, 18, 25, 40),
                (1, 3, 5, 8, 12, 25, 50),
                (0.0, 0.1, 0.3, 0.6, 1.2),
            ),
            "smooth",
            "two kinds",
        ),
        300,
        1603,
    ),
)
CONFIRMING = (
    (
        "shares",
        kinds_of(
            (
                (0.925, 0.955, 0.972, 0.988),
                (6, 9, 11, 14, 22, 45),
                (1, 2, 4, 7, 9, 14),
                (0.0, 0.04, 0.12, 0.25, 0.4, 0.6),
            ),
            "normal",
            "two kinds",
        ),
        300,
        1611,
    ),
    (
        "shares",
        kinds_of(
            (
                (0.91, 0.93, 0.955, 0.98, 0.988),
                (6, 8, 11, 13, 16, 24),
                (16, 22, 35, 45, 70),
                (0.0, 0.02, 0.06, 0.12, 0.25, 0.4),
            ),
            "normal",
            "two kinds",
        ),
        300,
        1612,
    ),
    (
        "rates",
        kinds_of(
            (
                (0.012, 0.025, 0.06, 0.09, 0.13),
                (6, 9, 11, 14, 22, 45),
                (2, 4, 7, 14, 22, 35),
                (0.0, 0.2, 0.5, 1.0),
            ),
            "normal",
            "two kinds",
        ),
        300,
        1613,
    ),
)


def compare(what: str, kinds: list[ErrorKind], number: int, seed: int) -> Iterator[str]:
    """Yield a line per candidate: how many of some random kinds are inside, and how wide."""
    rng = np.random.default_rng(seed)
    rules = SHARE_RULES if what == "shares" else RATE_RULES
    results: dict[str, list[tuple[float, float]]] = {rule.name: [] for rule in rules}
    for at in rng.permutation(len(kinds)).tolist():
        kind = kinds[at]
        draw, bounds = (shares, share_bounds) if what == "shares" else (rates, rate_bounds)
        values = draw(kind, FURTHER, rng).sum(axis=1) / (kind.units * kind.size)
        # Rates of which most data sets have no event at all have no sampling interval to speak of.
        if what == "rates" and (values == 0).mean() > 0.7:
            continue
        bottom, top = np.quantile(values, [TAIL, 1 - TAIL])
        truth = kind.mean
        if kind.distribution == "two kinds":
            truth = float(values.mean())
        data = draw(kind, DATA_SETS, rng)
        for rule in rules:
            low, high = bounds(data, kind, rule)
            coverage = float(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean())
            width = math.inf
            if top > bottom:
                width = float((high - low).mean() / (top - bottom))
            results[rule.name].append((coverage, width))
        if len(results[rules[0].name]) == number:
            break
    yield f"{what}, {len(results[rules[0].name])} kinds, seed {seed}"
    for name, pairs in results.items():
        coverage, width = np.array(pairs).T
        inside = (coverage >= LOWEST) & (coverage <= HIGHEST) & (width <= WIDEST)
        yield (
            f"  {name:<28} inside {inside.mean():.3f}, covered in at least .90: "
            f"{(coverage >= LOWEST).mean():.3f}, lowest {coverage.min():.3f}, median width "
            f"{np.median(width):.2f}"
        )


if __name__ == "__main__":
    for arguments in (*CHOOSING, *CONFIRMING):
        for line in compare(*arguments):
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
