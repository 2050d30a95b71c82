# SPDX-License-Identifier: Apache-2.0
"""Two models on the same images: differences under shared weights, p values, adjustment.

`calipers.evaluation` calls `bootstrapped` and `traded` for replicates, `judge` for intervals and p
values, and `adjusted` or `max_t` for many tests at once; `show.comparison_tables` has the
sentences. With ``theta`` a metric, A and B two models and ``d = theta_A - theta_B``:

bootstrap (the default)
    Units are drawn, and both models are judged on what was drawn. The replicates of d give its
    standard error, ``sqrt(K / (K - 1)) SD(d*)``, which up to 200 units is replaced by the
    jackknife's, or mixed with it (`standard_error`). From it the interval and the p value of one t
    come, with degrees of freedom as the units have them that the models differ in
    (`effective_freedom`): the interval leaves 0 out exactly if p < 1 - level, unless the units are
    so few that no p value is (see below). The share of replicates on the other side of 0, ``2
    min(P(d* <= 0), P(d* >= 0))``, is given beside it. It rejects a true null too often with few
    units: in .135, .087, .075 and .072 of 400 simulations with 6, 10, 20 and 50 units for AP.
permutation (on request)
    If it made no difference which model is which, the models could trade their predictions on any
    unit. One image is then two, that of A and that of B, of which one has weight 1 and the other 0:
    a trade exchanges the weights. ``p = (1 + number of |d| at least as large as the observed one) /
    (1 + replicates)``; with at most 16 units all 2^K trades are made, and p is their exact share.
    Few units in which the models differ give few different values of d, and p is then far above
    what it could be: in `benchmarks/comparison_errors.py` it rejects a true null in .000 to .019 of
    the cases for sensitivity, and misses differences that the t finds.

Trading under a ranking metric mixes the scores of two models in one list. Its null is then that the
models are interchangeable, scores included, not that their metric is equal: such metrics have
``Facts.swap = False``, and a comparison that trades them says so.

No p value here is below ``2 / 2^K``: K units that all favour one model are no rarer than that by
chance. With 5 units that is .0625: at a level of .95 the interval may leave 0 out, and p is still
not below .05.

*Many tests.* ``holm`` bounds the probability of one or more false claims in the whole family;
``max-t`` bounds the same probability but knows from the shared replicates how much the tests depend
on each other (see `max_t`); ``bh`` (Benjamini and Hochberg) bounds the expected share of false ones
among the claims, for exploration; ``none`` adjusts nothing. A test without a p value is no member
of the family: it stays NaN and the family shrinks, which the size that is returned tells.

*Wilcoxon's signed-rank test*, one-sided, under whole-number weights: weight 2 is the same as
listing a case twice. Differences of 0 are left out. Without equal differences and with at most 50
of them the p value is exact; else it is that of the normal distribution, with the variance
corrected for ties and without a continuity correction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, Flags
from calipers.engine.ordered_map import in_order
from calipers.errors import UsageError, did_you_mean
from calipers.metrics.base import Evidence, Metric
from calipers.results.comparison import smallest_p
from calipers.statistics.estimates import AHEAD, weighed
from calipers.statistics.few_errors import special
from calipers.statistics.intervals import MOST_UNDEFINED, Interval, intervals, none
from calipers.statistics.support import FEWEST_UNITS, Support
from calipers.statistics.weights import (
    BLOCK,
    Units,
    Weights,
    bootstrap,
    exact_swaps,
    jackknife,
    swaps,
)

Evidences = Mapping[Hashable, Evidence]  # by the key of the recipe
Progress = Callable[[], None]  # called after every block of weights

BOOTSTRAP, PERMUTATION = "bootstrap", "permutation"
TESTS = (BOOTSTRAP, PERMUTATION)
EPS = 1e-12  # sums in another order: a trade of everything gives -d up to rounding
ANYTHING = (-math.inf, math.inf)  # bounds of a difference: no scale but its own

MAX_T = "max-t"
CORRECTIONS = (MAX_T, "holm", "bh", "none")

MOST_EXACT = 50  # differences of a signed-rank test; beyond, the normal distribution is close

# Units from which on the replicates tell how tests depend on each other: 30 tests of equal models
# made a false claim in .063 of the simulations with 20 units, and in more with fewer.
JOINT_UNITS = 20
MOST_LEFT_OUT = 200  # units up to which each is left out once: a tenth of the replicates
MOST_EFFECTS = 1 << 22  # effects of units on values that are held at once
PAIRINGS = 4  # of every replicate with replicates that stand for its standard errors


@dataclass(frozen=True, slots=True)
class DifferenceTests:
    """Intervals and p values of m differences."""

    intervals: list[Interval]  # a missing p value has its reason here too
    p: F64  # (m,) NaN without a test
    p_share: F64  # (m,) from the share of bootstrap replicates on the other side of 0
    trades_undefined: NDArray[np.int64]  # (m,) permutations without a value
    steps: F64  # (m,) differences in standard errors; NaN without replicates
    freedom: F64  # (m,) degrees of freedom of each


def bootstrapped(
    metrics: Sequence[Metric[Any]],
    evidence: Sequence[Evidences],
    units: Units,
    replicates: int,
    seed: int,
    *,
    rows: int = 1,
    progress: Progress = lambda: None,
    workers: int = 1,
) -> list[list[F64]]:
    """Return, per model and metric, (B, rows, names): values under bootstrap weights that all of
    them share.

    Parameters
    ----------
    evidence
        Of every model.
    rows
        How many rows of the values are kept: 1 is the pooled one, classes follow.
    workers
        Threads; the values do not depend on it.
    """
    blocks = bootstrap(units, replicates, seed)
    return _values_under(blocks, metrics, evidence, rows, progress, workers)


def left_out(
    metrics: Sequence[Metric[Any]],
    evidence: Sequence[Evidences],
    units: Units,
    *,
    rows: int = 1,
    workers: int = 1,
) -> list[list[F64]] | None:
    """Return, per model and metric, (K, rows, names): values without one unit each.

    None with more than `MOST_LEFT_OUT` units: the standard error of the bootstrap is then good
    enough, and so many values would cost too much.
    """
    if not FEWEST_UNITS <= units.number <= MOST_LEFT_OUT:
        return None
    return _values_under(jackknife(units), metrics, evidence, rows, lambda: None, workers)


def _values_under(
    blocks: Iterable[Weights],
    metrics: Sequence[Metric[Any]],
    evidence: Sequence[Evidences],
    rows: int,
    progress: Progress,
    workers: int,
) -> list[list[F64]]:
    """Return, per model and metric, the values (R, rows, names) under blocks of weights."""

    def first_rows(metric: Metric[Any], table: Evidence, weights: Weights) -> tuple[F64, ...]:
        return (metric.value(table, weights)[:, :rows],)

    cases = []
    for tables in evidence:
        cases += [(metric, tables[metric.recipe.key]) for metric in metrics]
    values = [parts[0] for parts in weighed(cases, blocks, progress, first_rows, workers)]
    n = len(metrics)
    return [values[k * n : (k + 1) * n] for k in range(len(evidence))]


def traded(
    metrics: Sequence[Metric[Any]],
    a: Evidences,
    b: Evidences,
    units: Units,
    replicates: int,
    seed: int,
    *,
    rows: int = 1,
    progress: Progress = lambda: None,
    workers: int = 1,
) -> list[F64]:
    """Return, per metric, (trades, rows, names): differences after trades of units; ``workers`` are
    threads.
    """
    keys = dict.fromkeys(metric.recipe.key for metric in metrics)
    both = {key: type(a[key]).concat([a[key], b[key]]) for key in keys}
    exact = exact_swaps(units)

    def differences_after(trades: Weights) -> list[F64]:
        one = np.concatenate((trades ^ 1, trades), axis=1)
        other = np.concatenate((trades, trades ^ 1), axis=1)
        block = []
        for metric in metrics:
            evidence = both[metric.recipe.key]
            values = metric.value(evidence, one)[:, :rows]
            if not exact:
                values = values - metric.value(evidence, other)[:, :rows]
            block.append(values)
        return block

    parts: list[list[F64]] = [[] for _ in metrics]
    trials = swaps(units, replicates, seed)
    for block in in_order(differences_after, trials, workers=workers, ahead=AHEAD * workers):
        for k, values in enumerate(block):
            parts[k].append(values)
        progress()
    differences = [np.concatenate(blocks) for blocks in parts]
    if not exact:
        return differences
    # Among all trades the opposite of the r-th is the r-th from the end: every set of weights is
    # needed only once.
    return [values - values[::-1] for values in differences]


def judge(
    d: F64,
    replicates: F64,
    trades: F64 | None,
    units: Units,
    level: float,
    *,
    span: float = math.inf,
    seed: int | None = None,
    left_out: F64 | None = None,
    in_steps: Flags | None = None,
) -> DifferenceTests:
    """Return intervals and p values of differences (m,).

    Parameters
    ----------
    replicates
        (B, m) differences under bootstrap weights; not looked at with fewer than 5 units.
    trades
        (T, m) differences after trades: the p value is that of the permutation. None: that of the
        bootstrap.
    span
        The largest difference that there can be: 1 for shares. No bound lies beyond it.
    seed
        Of the draws of the replicates: the degrees of freedom are then effective ones
        (`effective_freedom`); else those of the units.
    left_out
        (K, m) differences without one unit each, where there are not too many units: the standard
        error then knows the jackknife (`standard_error`).
    in_steps
        Which of the m metrics move in steps (``Facts.rough``); none if left out.
    """
    n = units.number
    steps = np.full(len(d), np.nan)
    freedom = np.full(len(d), float(units.freedom))
    if n < FEWEST_UNITS:
        reason = "one_unit" if n == 1 else "too_few_units"
        interval_list = [none(reason) for _ in d]
        p_share = p = np.full(len(d), np.nan)
    else:
        support = [Support(n, freedom=units.freedom)] * len(d)
        error = standard_error(d, replicates, units, left_out, in_steps)
        if seed is not None:
            freedom = effective_freedom(replicates, error, units, seed)
        reach = error * -special().stdtrit(freedom, (1.0 - level) / 2.0)
        interval_list = []
        # What the rule of all intervals says of replicates; the bounds are those of the test.
        for k, one in enumerate(intervals(d, replicates, support, level=level, bounds=ANYTHING)):
            interval_list.append(_within(_reaching(one, float(d[k]), float(reach[k])), span))
        steps = _steps(d, error)
        # No bootstrap p value without replicates to trust. Those that agree have no spread, but a
        # sign: the smallest p value of so many units, or 1 if there is no difference.
        is_tested = np.array([interval.testable for interval in interval_list])
        tested = _two_sided(steps, freedom, n)
        p, p_share = np.where(is_tested, [tested, share_p(replicates, n)], np.nan)
    n_undefined = np.zeros(len(d), np.int64)
    if trades is not None:
        n_undefined = np.isnan(trades).sum(axis=0)
        enough = n_undefined <= MOST_UNDEFINED * len(trades)
        p = np.where(enough, permutation_p(d, trades, exact=exact_swaps(units)), np.nan)
        for k in np.flatnonzero(~enough).tolist():
            if interval_list[k].testable:
                interval_list[k] = replace(interval_list[k], reason="too_many_undefined")
    return DifferenceTests(interval_list, p, p_share, n_undefined, steps, freedom)


def _reaching(interval: Interval, d: float, reach: float) -> Interval:
    """Return an interval of a difference that reaches so far on both sides."""
    if math.isnan(interval.low) or not reach > 0.0:
        return interval
    # The number of replicates moves both bounds in proportion to their distance.
    share = 2.0 * reach / (interval.high - interval.low)
    mc_error = interval.mc_error[0] * share, interval.mc_error[1] * share
    return replace(interval, low=d - reach, high=d + reach, mc_error=mc_error)


def _within(interval: Interval, span: float) -> Interval:
    """Return an interval of a difference without what no difference can be."""
    if math.isinf(span) or math.isnan(interval.low):
        return interval
    return replace(interval, low=max(interval.low, -span), high=min(interval.high, span))


def against_margin(low: float, high: float, margin: float, *, higher_is_better: bool) -> str:
    """Return what the interval of a - b shows about a margin.

    One of ``results.comparison.MARGIN_VERDICTS``.
    """
    if not higher_is_better:
        low, high = -high, -low
    # A model holds its own if the whole interval excludes a loss of the margin or more.
    a_holds, b_holds = low > -margin, high < margin  # false for NaN
    if a_holds and b_holds:
        return "equivalent"
    if low > margin:
        return "a_superior"
    if high < -margin:
        return "b_superior"
    if a_holds:
        return "a_not_inferior"
    return "b_not_inferior" if b_holds else "not_shown"


def n_blocks(test: str, units: Units, replicates: int) -> int:
    """Return how many blocks of weights a test goes through."""
    rows = 2**units.number if test == "permutation" and exact_swaps(units) else replicates
    return math.ceil(rows / BLOCK)


def bootstrap_p(d: F64, replicates: F64, n_units: int, freedom: int | None = None) -> F64:
    """Return two-sided p values (m,) of differences (m,) with bootstrap replicates (B, m); NaN
    below 2 units.

    ``freedom`` is ``n_units - 1`` if left out; every stratum takes one.
    """
    df = n_units - 1 if freedom is None else freedom
    steps = _steps(d, _error(d, replicates, n_units, df))
    return _two_sided(steps, np.full(len(d), float(max(df, 1))), n_units)


def _two_sided(steps: F64, freedom: F64, n_units: int) -> F64:
    tail = special().stdtr(np.maximum(freedom, 1.0), -np.abs(steps))
    return np.asarray(np.clip(2.0 * tail, smallest_p(n_units), 1.0))


def superiority_p(d: F64, replicates: F64, n_units: int, freedom: int | None = None) -> F64:
    """Return one-sided p values (m,) of differences (m,): small if the first model is larger; see
    `bootstrap_p`.
    """
    df = n_units - 1 if freedom is None else freedom
    return np.clip(_tail(d, replicates, n_units, df), smallest_p(n_units) / 2.0, 1.0)


@dataclass(frozen=True)
class SharedDraws:
    """What the replicates of some models have in common, for the tests of their differences."""

    units: Units
    seed: int
    left_out: F64 | None = None  # (K, models) values without one unit each
    in_steps: bool = False  # the metric moves in steps

    def superiority_p(self, d: F64, replicates: F64, left_out: F64 | None) -> F64:
        """Return one-sided p values, half of those that `judge` gives if the sign is right."""
        in_steps = np.full(len(d), self.in_steps)
        error = standard_error(d, replicates, self.units, left_out, in_steps)
        freedom = effective_freedom(replicates, error, self.units, self.seed)
        p = np.asarray(special().stdtr(freedom, -_steps(d, error)))
        return np.asarray(np.clip(p, smallest_p(self.units.number) / 2.0, 1.0))


def share_p(replicates: F64, n_units: int) -> F64:
    """Return twice the smaller share of the replicates (B, m) on either side of 0, with 1 added to
    all counts.
    """
    defined = (~np.isnan(replicates)).sum(axis=0)
    below, above = (replicates <= 0.0).sum(axis=0), (replicates >= 0.0).sum(axis=0)
    # The observed sample counts as one replicate: no p value is 0 (Davison and Hinkley 1997).
    p = 2.0 * (1.0 + np.minimum(below, above)) / (1.0 + defined)
    return np.where(defined > 0, np.clip(p, smallest_p(n_units), 1.0), np.nan)


def _tail(d: F64, replicates: F64, n_units: int, freedom: int) -> F64:
    """Return P(t > d / error); if all replicates agree, 0 above no difference and 1/2 at none."""
    steps = _steps(d, _error(d, replicates, n_units, freedom))
    return np.asarray(special().stdtr(float(max(freedom, 1)), -steps))


def _steps(d: F64, error: F64) -> F64:
    """Return d in standard errors; if all replicates agree, 0 or an infinity of its sign."""
    with np.errstate(invalid="ignore", divide="ignore"):
        steps = np.where(error == 0.0, np.sign(d) * np.inf, d / error)
        return np.where((error == 0.0) & (d == 0.0), 0.0, steps)


def _error(d: F64, replicates: F64, n_units: int, freedom: int) -> F64:
    """Return the standard error of d: the SD of its replicates, without a bias by few units."""
    if freedom <= 0:
        return np.nan * d
    defined = ~np.isnan(replicates)
    n = defined.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Relative to d, so that replicates that agree have an error of exactly 0.
        base = np.where(defined, replicates - d, 0.0)
        centred = np.where(defined, base - base.sum(axis=0) / n, 0.0)
        return np.asarray(np.sqrt((centred**2).sum(axis=0) / (n - 1) * n_units / freedom))


# Several tests at once, from replicates that they share: the distribution of the largest t.


def max_t(
    d: F64,
    replicates: F64,
    n_units: int,
    freedom: int | None = None,
    *,
    greater: bool = False,
) -> F64:
    """Return p values (m,) of differences (m,), adjusted for all of them: step-down max-t.

    Parameters
    ----------
    d
        Differences from what the null says, such as of two models, or of an AUROC and 0.5.
    replicates
        (B, m) under bootstrap weights that all of them share; NaN where a value is undefined.
    n_units, freedom
        As in `bootstrap_p`.
    greater
        Test whether d is larger than 0, not whether it differs: the best of several.

    Notes
    -----
    The adjusted p value of a test is the probability, if no test of the family has a difference,
    that the largest t of all tests is as large as the observed one. The ranks of the replicates
    tell how the tests depend on each other: as normal scores they stand for the joint normal
    distribution. Every test has a standard error of its own, and these depend on each other too: as
    many other replicates as there are degrees of freedom stand for the data from which they are
    estimated (`_joint_t`). One chi-square for all tests, as in Hothorn et al., has standard errors
    that err together; with it, 30 tests of 20 patients claimed too much in .077 of the data sets.
    Each test alone has the t of its own p value: a single test is not adjusted, and no test is
    adjusted by more than Holm does. Fewer than `JOINT_UNITS` units say too little about the
    dependence: they are adjusted as Holm does. Tests are rejected from the largest t on, and those
    rejected leave the maximum (Westfall and Young). Columns that are NaN are no members and stay
    NaN.

    References
    ----------
    Westfall and Young, Resampling-based multiple testing, 1993; Hothorn, Bretz and Westfall,
    Simultaneous inference in general parametric models, Biometrical Journal 2008.
    """
    df = n_units - 1 if freedom is None else freedom
    alone = superiority_p if greater else bootstrap_p
    p = alone(d, replicates, n_units, df)
    steps = _steps(d, _error(d, replicates, n_units, df))
    return step_down(p, steps, lambda k: replicates[:, k], df, greater=greater)


def step_down(
    p: F64,
    steps: F64,
    replicates_of: Callable[[int], F64],
    freedom: int,
    *,
    greater: bool = False,
    effective: F64 | None = None,
) -> F64:
    """Return adjusted p values of tests whose replicates are asked for one by one; see `max_t`.

    ``effective`` are the degrees of freedom of every test, if they are not ``freedom``.
    """
    sizes = steps if greater else np.abs(steps)
    members = np.flatnonzero(~np.isnan(p))
    order = members[np.argsort(sizes[members], kind="stable")]
    result = np.full(len(p), np.nan)
    largest: F64 | None = None
    # From the smallest t on, so that the maximum over the tests that are left grows by one a time.
    for n_left, k in enumerate(order.tolist(), start=1):
        own = freedom if effective is None else int(effective[k])
        t = _joint_t(normal_scores(replicates_of(k)), freedom, own)
        if not greater:
            t = np.abs(t)
        largest = t if largest is None else np.maximum(largest, t)
        # Holm's bound holds whatever the dependence, and however small p is.
        result[k] = n_left * float(p[k])
        if freedom + 1 >= JOINT_UNITS:
            n = largest.shape[1]
            # B replicates cannot show less than 1 / B.
            share = (1.0 + n * float((largest >= sizes[k]).mean())) / (1.0 + n)
            result[k] = max(float(p[k]), min(float(result[k]), share))
    # A test is rejected only if all with a larger t are.
    falling = order[::-1]
    result[falling] = np.maximum.accumulate(result[falling])
    return np.asarray(np.minimum(result, 1.0))


def simultaneous(
    d: F64, replicates: F64, n_units: int, level: float, freedom: int | None = None
) -> tuple[F64, F64]:
    """Return lower and upper bounds (m,) that hold for all differences together at a level.

    ``d -+ c error``, where c is the quantile of the largest absolute t: see `max_t`. NaN where a
    difference has no replicates.
    """
    df = n_units - 1 if freedom is None else freedom
    # Between the quantile of a single difference and that of Bonferroni.
    tail = (1.0 - level) / 2.0
    low = -float(special().stdtrit(float(df), tail))
    high = -float(special().stdtrit(float(df), tail / max(1, len(d))))
    if df + 1 >= JOINT_UNITS:
        largest = np.zeros((PAIRINGS, len(replicates)))
        for k in range(len(d)):
            largest = np.maximum(largest, np.abs(_joint_t(normal_scores(replicates[:, k]), df, df)))
        # The largest t that `max_t` does not reject.
        n = len(replicates)
        share = max(((1.0 - level) * (1.0 + n) - 1.0) / n, 0.0)
        at = max(math.ceil(share * largest.size), 1)
        critical = float(np.sort(largest, axis=None)[-at])
        high = min(max(critical, low), high)
    reach = high * _error(d, replicates, n_units, df)
    return d - reach, d + reach


def normal_scores(replicates: F64) -> F64:
    """Return replicates (B,) as the normal deviates of their mid-ranks, with an SD of 1.

    0 where undefined, or if all agree.
    """
    scores = np.zeros(len(replicates))
    defined = ~np.isnan(replicates)
    values, at, numbers = np.unique(replicates[defined], return_inverse=True, return_counts=True)
    if len(values) < 2:
        return scores
    ranks = np.cumsum(numbers) - numbers / 2.0
    deviates = np.asarray(special().ndtri(ranks / numbers.sum()))[at]
    scores[defined] = deviates / math.sqrt(float((deviates**2).mean()))
    return scores


def _joint_t(scores: F64, stride: int, freedom: int) -> F64:
    """Return (PAIRINGS, B) draws of the t of a test from its normal scores (B,).

    A draw is the score of one replicate over the root mean square of ``freedom`` others, which
    begin ``stride`` replicates further on in every pairing: the same for all tests. These are
    the same replicates for all tests of a family, so that standard errors of tests that depend on
    each other do so too, by the square of the correlation.
    """
    n = len(scores)
    length = max(min(freedom, n - 1), 1)
    squares = np.tile(scores**2, 2)
    sums = np.concatenate([[0.0], np.cumsum(squares)])
    # Undefined replicates have a score of 0 and no part in the mean.
    n_defined = max(int(np.count_nonzero(scores)), 1)
    error = np.sqrt((sums[length : length + n] - sums[:n]) / length * (n / n_defined))
    draws = []
    for pairing in range(PAIRINGS):
        beside = np.roll(error, -(1 + pairing * stride))
        draws.append(np.divide(scores, beside, out=np.zeros(n), where=beside > 0.0))
    return np.array(draws)


def standard_error(
    d: F64,
    replicates: F64,
    units: Units,
    left_out: F64 | None = None,
    in_steps: Flags | None = None,
) -> F64:
    """Return the standard errors of differences (m,).

    Of the jackknife: that of the bootstrap is 5 % too small for AP of 60 units. Where a unit cannot
    be left out, all replicates agree, or there are too many units, that of the bootstrap. Of a
    metric that moves in steps, such as AP at fixed recalls, one unit makes a step or none, which
    the jackknife takes for spread: its error is the root mean square of both (chosen by
    `validation.choices_steps`).
    """
    error = _error(d, replicates, units.number, units.freedom)
    if left_out is None:
        return error
    # Inside a stratum of n units each speaks for (n - 1) / n; without strata there is one of all.
    in_strata = units.parent is not None and not units.nested
    stratum = units.parent if in_strata else np.zeros(units.number, np.int64)
    assert stratum is not None
    squares = np.zeros(len(d))
    for code in np.unique(stratum):
        inside = left_out[stratum == code]
        n = len(inside)
        squares += ((inside - inside.mean(axis=0)) ** 2).sum(axis=0) * (n - 1) / n
    keeps = np.isnan(squares) | (squares == 0.0) | (error == 0.0)
    if in_steps is not None:
        squares = np.where(in_steps, (squares + error**2) / 2.0, squares)
    return np.where(keeps, error, np.sqrt(squares))


def effective_freedom(replicates: F64, error: F64, units: Units, seed: int) -> F64:
    """Return the degrees of freedom (m,) of standard errors (m,), at most those of the units.

    ``seed`` is that of the draws of the replicates (B, m).
    """
    if not len(replicates):
        return np.full(len(error), float(units.freedom))
    parts = []
    columns = max(MOST_EFFECTS // units.number, 1)
    for start in range(0, len(error), columns):
        part = slice(start, start + columns)
        effects = unit_effects(replicates[:, part], units, seed)
        parts.append(freedom_of(effects, error[part], units))
    return np.concatenate(parts)


def freedom_of(effects: F64, error: F64, units: Units) -> F64:
    """Return the degrees of freedom (m,) of standard errors (m,), from effects of units (K, m).

    A variance that rests on few of K units is less certain than that of K normal numbers: its own
    relative variance is ``excess kurtosis / K + 2 / (K - 1)`` (Satterthwaite 1946). Effects from
    replicates have nearly normal noise, which adds nothing to a fourth cumulant; the variance is
    that of the standard error, without noise.
    """
    k, most = units.number, float(max(units.freedom, 1))
    cumulant = (effects**4).mean(axis=0) - 3.0 * (effects**2).mean(axis=0) ** 2
    variance = error**2 * k
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.where(variance > 0.0, cumulant / variance**2, 0.0)
    return np.clip(2.0 / (np.maximum(excess, 0.0) / k + 2.0 / most), 1.0, most)


def unit_effects(replicates: F64, units: Units, seed: int) -> F64:
    """Return (K, m): what every unit does to values, from their replicates (B, m).

    The covariance of the replicates with how often a unit was drawn (infinitesimal jackknife, Efron
    2014): it asks for no further values.
    """
    defined = ~np.isnan(replicates)
    numbers = np.maximum(defined.sum(axis=0), 1)
    mean = np.where(defined, replicates, 0.0).sum(axis=0) / numbers
    # Undefined replicates tell nothing.
    centred = np.where(defined, replicates - mean, 0.0)
    # All images of a unit have its weight.
    first = np.unique(units.outer_code, return_index=True)[1]
    total = np.zeros((len(first), replicates.shape[1]))
    at = 0
    for weights in bootstrap(units, len(replicates), seed):
        counts = weights[:, first].astype(np.float64)
        total += counts.T @ centred[at : at + len(counts)]
        at += len(counts)
    return np.asarray(total * (len(first) / numbers))


def permutation_p(d: F64, trades: F64, *, exact: bool) -> F64:
    """Return two-sided p values (m,) of differences (m,) among those after trades (B, m)."""
    defined = (~np.isnan(trades)).sum(axis=0)
    # Ties with the observed difference count as reached, also if rounding separates them.
    reached = (np.abs(trades) >= np.abs(d) - EPS * np.maximum(1.0, np.abs(d))).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = reached / defined if exact else (1.0 + reached) / (1.0 + defined)
    return np.where(np.isnan(d) | (defined == 0), np.nan, p)


def least_p(test: str, units: Units, replicates: int) -> float:
    """Return the smallest p value that a test can give; replicates only matter if the trades are
    random.
    """
    random = test == "permutation" and not exact_swaps(units)
    return 1.0 / (1.0 + replicates) if random else smallest_p(units.number)


def alone(metric: Metric[Any], evidence: Evidence, units: Units, *, rows: int = 1) -> F64:
    """Return (n_drawn, rows, names): the metric on every drawn unit alone, NaN where it is
    undefined there.
    """
    # Blocks of units, each on its own images only: the cost stays linear in the images.
    order = np.argsort(units.code, kind="stable")
    ends = np.cumsum(np.bincount(units.code, minlength=units.n_drawn))
    parts = []
    for first, last in _spans(units.n_drawn):
        start = ends[first - 1] if first else 0
        images = order[start : ends[last - 1]]
        mine: Weights = units.code[images][None, :] == np.arange(first, last)[:, None]
        parts.append(metric.value(evidence.take(images), mine.astype(np.uint8))[:, :rows])
    return np.concatenate(parts)


def _spans(n: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + BLOCK, n)) for first in range(0, n, BLOCK))


def adjusted(p: F64, correction: str = "holm") -> tuple[F64, int]:
    """Return the adjusted p values, in the order given, and how many tests the family has.

    Examples
    --------
    >>> import numpy as np
    >>> from calipers.statistics.comparison import adjusted
    >>> values, family = adjusted(np.array([0.01, 0.04, np.nan, 0.03]))
    >>> values.tolist(), family
    ([0.03, 0.06, nan, 0.06], 3)
    """
    if correction not in CORRECTIONS or correction == MAX_T:  # p values alone are not enough
        choices = [name for name in CORRECTIONS if name != MAX_T]
        raise UsageError(f"no correction {correction!r}; {did_you_mean(correction, choices)}")
    result = np.array(p, np.float64)
    # A test without a p value was not made: it is no member of the family.
    members = np.flatnonzero(~np.isnan(result))
    m = len(members)
    order = members[np.argsort(result[members], kind="stable")]
    rising = result[order]
    if correction == "holm":
        rising = np.maximum.accumulate((m - np.arange(m)) * rising)
    elif correction == "bh":
        rising = np.minimum.accumulate((m / np.arange(1, m + 1) * rising)[::-1])[::-1]
    result[order] = np.minimum(rising, 1.0)
    return result, m


def signed_rank_p(differences: F64, weights: NDArray[Any]) -> F64:
    """Return (R, 2): p values for "larger than 0" and for "smaller than 0" of differences (n,)
    under weights (R, n).

    1 for both where no difference is left.
    """
    nonzero = np.flatnonzero(differences != 0.0)
    size = np.abs(differences[nonzero])
    order = nonzero[np.argsort(size, kind="stable")]
    if not len(order):
        return np.ones((len(weights), 2))
    weight = np.asarray(weights)[:, order].astype(np.float64)
    # Equal differences share their mid-rank; weights are repetitions of a case.
    starts = np.flatnonzero(np.diff(np.abs(differences[order]), prepend=-1.0))
    tied = np.add.reduceat(weight, starts, axis=1)
    rank = np.cumsum(tied, axis=1) - tied + (tied + 1.0) / 2.0
    positive = np.add.reduceat(weight * (differences[order] > 0.0), starts, axis=1)
    total, n = (positive * rank).sum(axis=1), tied.sum(axis=1)
    variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - (tied**3 - tied).sum(axis=1) / 48.0
    z = np.divide(
        total - n * (n + 1.0) / 4.0, np.sqrt(variance), out=np.zeros(len(n)), where=variance > 0
    )
    ndtr = special().ndtr
    result = np.where((n > 0)[:, None], np.stack([ndtr(-z), ndtr(z)], axis=1), 1.0)
    for r in np.flatnonzero((tied.max(axis=1) <= 1.0) & (n > 0) & (n <= MOST_EXACT)):
        upper = _upper_tail(int(n[r]))
        reached, top = round(total[r]), len(upper) - 1
        result[r] = upper[reached], upper[top - reached]
    return result


@lru_cache(maxsize=MOST_EXACT)
def _upper_tail(n: int) -> F64:
    """Return P(sum of the ranks that got a plus >= s) for s = 0 ... n (n + 1) / 2 when signs are
    thrown at random.
    """
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, n + 1):
        ways[rank:] = ways[rank:] + ways[:-rank]
    return np.asarray(np.cumsum(ways[::-1])[::-1] / 2.0**n)
