# SPDX-License-Identifier: Apache-2.0
"""How the interval for few errors was chosen: candidates, compared on simulated shares and rates.

Units of equal size have hits (beta-binomial, or units of two kinds) or events (gamma-Poisson, or
units of two kinds). Their bootstrap standard error has a closed form, so that thousands of data
sets of a kind cost nothing. Each candidate states an interval as `statistics.intervals` does, with
parts of its own:

``likeness``
    the intraclass correlation of errors that is assumed where none shows it;
``adds``
    t stands for z only in what clustering adds to the variance of independent objects, else in all
    of it;
``ceiling``
    no lower bound of a share is above that without an error: among ``few`` errors, or
    ``everywhere``;
``exact``
    rates have the exact Poisson interval (Garwood 1936), else Jeffreys'.

``python -m calipers.validation.choices_few_errors`` prints the kinds and seeds that confirmed the
choice; docs/explanation/intervals.md has the tables. Kinds and seeds are not those of
`calipers.validation.experiments`.
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
from calipers.statistics import intervals as making
from calipers.statistics.intervals import ENOUGH_ERRORS, MOST_IN_ERROR, MOST_ON_BOUND, special
from calipers.statistics.student import normal_quantile, t_quantile
from calipers.validation.cells import HIGHEST, LOWEST, NOMINAL, WIDEST

DATA_SETS, FURTHER = 1500, 20_000  # with an interval, and for the true sampling interval
TAIL = (1 - NOMINAL) / 2


@dataclass(frozen=True)
class FewErrorsRule:
    """One candidate."""

    name: str
    likeness: float
    adds: bool
    ceiling: Literal["", "few", "everywhere"] = ""
    exact: bool = False


@dataclass(frozen=True)
class ErrorKind:
    """Shares or rates of one kind."""

    mean: float  # share of hits, or events per image
    units: int
    size: int  # objects or images of a unit
    spread: float  # intraclass correlation of hits, or squared variation of rates over units
    two_kinds: bool  # of units, else a continuous distribution


SHARE_RULES = (
    FewErrorsRule("before", 0.3, adds=False),
    FewErrorsRule(".3, t in what is added", 0.3, adds=True),
    FewErrorsRule(".25, t in what is added", 0.25, adds=True),
    FewErrorsRule(".25, ceiling among few", 0.25, adds=True, ceiling="few"),
    FewErrorsRule(".25, ceiling everywhere", 0.25, adds=True, ceiling="everywhere"),
)
RATE_RULES = (
    FewErrorsRule("before", 0.3, adds=False, exact=True),
    FewErrorsRule("exact, t in what is added", 0.3, adds=True, exact=True),
    FewErrorsRule("Jeffreys, .3", 0.3, adds=True),
    FewErrorsRule("Jeffreys, .25", 0.25, adds=True),
)


def shares(kind: ErrorKind, number: int, rng: np.random.Generator) -> I64:
    """Return (number, units) hits."""
    p, icc, shape = kind.mean, kind.spread, (number, kind.units)
    if icc == 0:
        chance = np.full(shape, p)
    elif kind.two_kinds:
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
    if kind.spread and kind.two_kinds:
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
    enough = np.where(few, _enough(units), -math.log(MOST_ON_BOUND))
    number = np.where(few, np.minimum(number, n_error), number)
    is_bound = (x == 0) | (x == 1)
    unknown = np.maximum(1 - np.where(is_bound, 0.0, number) / enough, 0.0)
    effect = 1 + (size - 1) * rule.likeness
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.where(error > 1e-12, np.minimum(x * (1 - x) / error**2, n), units)
        mixed = 1 / (np.where(unknown < 1, (1 - unknown) / worth, 0.0) + unknown * effect / n)
        trials = np.where(unknown < 1, np.minimum(mixed, worth), mixed)
        t_low, t_high = making.MetricScale(0.0, 1.0).around(x, t * error)
    least = 1 / n if rule.adds else 0.0
    low, high = making._jeffreys(x, 1 / (least + ratio**2 * (1 / trials - least)), NOMINAL)
    faultless = (1 - NOMINAL) ** (least + ratio**2 * (effect / n - least))
    if rule.ceiling:
        low = np.where(x < 1, np.minimum(low, faultless), low)
    if rule.ceiling == "everywhere":
        t_low = np.minimum(t_low, faultless)
    special_form = few | (on_bound > MOST_ON_BOUND) | is_bound | (error <= 1e-12)
    return np.where(special_form, low, t_low), np.where(special_form, high, t_high)


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
    unknown = np.maximum(1 - n_error / _enough(units), 0.0)
    event = np.full(len(x), (1 + (size - 1) * rule.likeness) / n)
    most = np.maximum(total, units).astype(np.float64)
    one = making._event_size(x, error, (most, event), unknown)
    least = 1 / n if rule.adds else 0.0
    one = least + ratio**2 * np.maximum(one - least, 0.0)
    low, high = making._poisson(x, one, NOMINAL)
    if rule.exact:
        inverse = special().gammaincinv
        low = np.where(x > 0, one * inverse(np.maximum(x / one, 1e-300), TAIL), 0.0)
        high = one * inverse(x / one + 1, 1 - TAIL)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.exp(t * error / x)
        return np.where(few, low, x / step), np.where(few, high, x * step)


def _enough(units: int) -> int:
    """Return from how many units in error on errors are no longer few."""
    return min(ENOUGH_ERRORS, math.floor(MOST_IN_ERROR * units) + 1)


def kinds_of(
    grid: tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...], tuple[float, ...]],
) -> list[ErrorKind]:
    """Return all combinations of means, units, sizes and spreads, of both distributions."""
    return [ErrorKind(*entry) for entry in itertools.product(*grid, (False, True))]


SHARES = kinds_of(
    (
        (0.91, 0.94, 0.96, 0.975, 0.98),
        (7, 10, 15, 20, 30, 50),
        (1, 2, 4, 6, 10, 15),
        (0.0, 0.03, 0.08, 0.15, 0.25, 0.4, 0.7),
    )
)
LARGE_UNITS = kinds_of(
    ((0.9, 0.95, 0.97, 0.985), (6, 8, 10, 15, 20), (20, 30, 50, 100), (0.0, 0.02, 0.05, 0.1, 0.2))
)
RATES = kinds_of(
    (
        (0.015, 0.03, 0.05, 0.1, 0.15),
        (7, 10, 15, 20, 30, 50),
        (1, 2, 4, 6, 10, 15),
        (0.0, 0.15, 0.4, 0.8, 1.5),
    )
)


def compare(
    what: Literal["shares", "rates"], kinds: list[ErrorKind], number: int, seed: int
) -> Iterator[str]:
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
        if kind.two_kinds:
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
    for arguments in (("shares", SHARES, 600, 34), ("rates", RATES, 400, 42)):
        for line in compare(*arguments):
            sys.stdout.write(f"{line}\n")
    for line in compare("shares", LARGE_UNITS, 400, 36):
        sys.stdout.write(f"{line}\n")
