# SPDX-License-Identifier: Apache-2.0
"""Intervals from replicates, for many estimates at once.

The default is *bootSE-t*: the standard deviation of the bootstrap replicates, times ``sqrt(K / (K -
1))`` for K units, is taken as the standard error on the metric's own scale (logit for [0, 1], log
for [0, inf)), and a t interval with K - 1 degrees of freedom is laid around the estimate; K - H of
both if units are drawn inside H strata. Nothing is clipped. In simulations with 6 to 150 units it
covered the truth in .92 to .99 of the cases at a nominal .95, where the percentile interval had .77
to .96.

Rules that come first: no interval for fewer than 5 units, or where more than 5 % of the replicates
are undefined. Where errors are few (fewer than 5 units have one, and at most a third of them; or
more than 5 % of the replicates lie on a bound) no spread of replicates can be trusted, and the
form for few errors takes over. For a share it is Jeffreys' interval with an effective number of
trials, ``n = x (1 - x) / s^2`` for the standard error s; for a rate Jeffreys' interval of a Poisson
number with an effective number of events; for a sum of what errors cost the mid-p gamma interval of
such sums, which stands for the t interval as long as errors are not many (`few_errors.MANY_COSTS`);
areas of rankings fall short of 1 by such a sum.
On a bound s is 0, and n is what as many objects in as many units are worth if errors are
alike in a unit to a degree of `ASSUMED_LIKENESS`; from there on n approaches what s says, because
the first errors show little of how errors cluster (`_unknown_clustering`). What independent objects
would vary is known; t stands for z only in what clustering adds to it (`_widened`). The interval
always holds its value.

`statistics.estimates` and `statistics.comparison` call `intervals`; `Interval.around` makes the
`Estimate` that tables and reports show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64
from calipers.errors import UsageError, did_you_mean, real, whole
from calipers.registry import INTERVALS
from calipers.results.estimate import Estimate, PopulatedMean
from calipers.statistics import few_errors, spread
from calipers.statistics.few_errors import (
    MOST_ON_BOUND,
    NO_LONGER_FEW,
    ROUNDING,
    special,
)
from calipers.statistics.student import normal_quantile, t_quantile
from calipers.statistics.support import FEWEST_UNITS, Support, reason_of_none, with_interval

NAN = float("nan")
UNSTATED = ("no_objects", "no_references", "one_unit", "too_few_units", "too_many_undefined")
NOWHERE = (NAN, NAN)
Pair = tuple[float, float]

# Below 5 units there is no interval, below 10 a flag: see the top of this file.
FEW_UNITS = 10
FEWEST_REPLICATES, MOST_REPLICATES = 100, 10_000_000
MOST_UNDEFINED = 0.05  # of the replicates
LEAST_COST = 0.5  # of a whole error, in objects: a miss costs half of one in F1
MOST_WITH_INTERVAL = 0.5  # of the estimates; where more have one, all are computed side by side
BATCHES = 10  # for the Monte-Carlo error of a bound


def check_level(level: float) -> None:
    """Raise for a level that is none."""
    # Next to 0 the level of the other tail rounds to 1, where no quantile is finite.
    if not 0.0 < 1.0 - real("level", level) < 1.0:
        raise UsageError(f"a level lies between 0 and 1, got {level:g}")


def check_replicates(replicates: int) -> None:
    """Raise for so few replicates that a tail has none."""
    if whole("replicates", replicates, 0, MOST_REPLICATES) < FEWEST_REPLICATES:
        raise UsageError(
            f"an interval needs at least {FEWEST_REPLICATES} replicates, got {replicates}"
        )


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval, how it was made, and what must be known about it."""

    low: float
    high: float
    method: str
    bias: float = NAN  # mean of the replicates minus the estimate
    undefined: int = 0  # replicates without a value
    reason: str | None = None  # why there is none: one of results.REASONS
    percentile: tuple[float, float] = NOWHERE  # what papers use, for comparison
    # standard error of either bound that comes from the number of replicates
    mc_error: tuple[float, float] = NOWHERE
    flags: tuple[str, ...] = field(default=())  # see results.estimate.FLAGS
    partial: int = 0  # replicates in which a mean over classes lost one of them
    populated: PopulatedMean | None = None  # of a mean over classes, some of which are rare

    @property
    def testable(self) -> bool:
        """Whether the replicates of a difference allow a test.

        Those that agree have no spread and so no interval, but a sign.
        """
        return self.reason in (None, "constant_input")

    def around(
        self,
        value: float,
        level: float,
        units: tuple[str, int],
        counts: tuple[int, int, int],
        reason: str | None = None,
    ) -> Estimate:
        """Return the estimate of a value with this interval.

        Parameters
        ----------
        units
            What was resampled, and how many of them.
        counts
            Images, references and predictions behind the value.
        reason
            Why the value is missing; that of the interval if it is not.
        """
        # In the order of the fields: their names would cost as much as the object itself.
        return Estimate(
            value,
            self.low,
            self.high,
            level,
            self.method,
            *units,
            *counts,
            self.bias,
            self.undefined,
            reason or self.reason,
            self.percentile,
            self.mc_error,
            self.flags,
            self.partial,
            self.populated,
        )


def none(reason: str, **facts: object) -> Interval:
    """Return the absence of an interval, with its reason."""
    return Interval(NAN, NAN, "none", reason=reason, **facts)  # type: ignore[arg-type]


def interval(
    theta: float,
    replicates: F64,
    *,
    n_units: int,
    level: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    method: str = "bootse-t-logit",
    jackknife: F64 | None = None,
) -> Interval:
    """Return the interval of one estimate; see `intervals`."""
    column = None if jackknife is None else np.asarray(jackknife, np.float64)[:, None]
    return intervals(
        np.array([theta]),
        np.asarray(replicates, np.float64)[:, None],
        [Support(n_units)],
        level=level,
        bounds=bounds,
        method=method,
        jackknife=column,
    )[0]


def intervals(
    theta: F64,
    replicates: F64,
    support: Sequence[Support],
    *,
    level: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    method: str = "bootse-t-logit",
    jackknife: F64 | None = None,
    errors: tuple[F64, F64] | None = None,
    apart: bool = False,
    few_form: bool = True,
) -> list[Interval]:
    """Return the intervals of m estimates.

    Parameters
    ----------
    theta
        (m,) point estimates.
    replicates
        (B, m) bootstrap replicates, NaN where undefined.
    support
        m of them.
    bounds
        Of the metric; they set the scale of the t interval.
    jackknife
        (K, m) estimates without one unit each, for ``bca`` and ``jackknife-t``.
    errors
        Standard errors (m,) of the estimates and (B, m) of the replicates, for ``studentized``.
    apart
        Add up every column in the order in which it is added up alone: the same bits as m calls.
    few_form
        Whether few errors call for a form of their own; on a bound there is nothing else.
    """
    if method not in INTERVALS:
        raise UsageError(f"no interval {method!r}; {did_you_mean(method, INTERVALS)}")
    theta = np.asarray(theta, np.float64)
    stated = with_interval(theta, support)
    # Of thousands of classes most are in too few units: the replicates of those are only counted.
    if jackknife is None and errors is None and len(stated) <= MOST_WITH_INTERVAL * len(theta):
        undefined = np.isnan(replicates).sum(axis=0).tolist()
        result = []
        for k, entry in enumerate(support):
            result.append(
                none(reason_of_none(float(theta[k]), entry) or "", undefined=undefined[k])
            )
        some = intervals(
            theta[stated],
            np.ascontiguousarray(np.take(replicates, stated, axis=1)),
            [support[k] for k in stated.tolist()],
            level=level,
            bounds=bounds,
            method=method,
            apart=apart,
            few_form=few_form,
        )
        for k, one in zip(stated.tolist(), some):
            result[k] = one
        return result
    sample = BootstrapSample.of(theta, replicates, level, bounds, apart=apart)
    limits = sample.bounds_of(method, support, jackknife, errors)
    forms = [_form(sample, k, entry, limits.method, few_form) for k, entry in enumerate(support)]
    few = [k for k, form in enumerate(forms) if form in ("few_errors", "few_costs")]
    of_few: dict[int, tuple[IntervalBounds, int]] = {}
    for counts_events in (False, True):
        columns = [k for k in few if (support[k].event is not None) == counts_events]
        if columns:
            table = few_errors_t(sample.take(np.array(columns)), [support[k] for k in columns])
            of_few |= {k: (table, at) for at, k in enumerate(columns)}
    is_t = limits.method.startswith("bootse-t")
    reached = np.full(len(support), np.nan)
    if few_form and is_t:
        reached = _cautious(sample, support, forms)
    result = []
    for k, (form, entry) in enumerate(zip(forms, support)):
        table, at = of_few.get(k, (limits, k))
        name, bounds_of_k, mc_error = table.entry(at)
        bounds_of_k = _held(bounds_of_k, float(reached[k]), entry)
        result.append(_stated(sample, k, entry, form, (name, bounds_of_k, mc_error)))
    return result


@dataclass(frozen=True, slots=True)
class IntervalBounds:
    """Bounds of m intervals of one method."""

    method: str
    low: F64
    high: F64
    mc_low: F64
    mc_high: F64

    def entry(self, k: int) -> tuple[str, Pair, Pair]:
        """Return method, bounds and their Monte-Carlo errors of one interval."""
        bounds = float(self.low[k]), float(self.high[k])
        return self.method, bounds, (float(self.mc_low[k]), float(self.mc_high[k]))


@dataclass(frozen=True, slots=True)
class BootstrapSample:
    """Estimates and their replicates, with what all methods need of them."""

    theta: F64  # (m,)
    replicates: F64  # (B, m)
    level: float
    bounds: tuple[float, float]
    undefined: NDArray[np.int64]  # (m,)
    sd: F64  # (m,) standard deviation of the replicates
    bias: F64  # (m,)
    percentile: IntervalBounds
    apart: bool = False

    @classmethod
    def of(
        cls,
        theta: F64,
        replicates: F64,
        level: float,
        bounds: tuple[float, float],
        *,
        apart: bool = False,
    ) -> BootstrapSample:
        """Return the sample with its spread, bias and percentile interval."""
        if apart:  # NumPy adds up what lies together pairwise, as in a single column
            replicates = np.asfortranarray(replicates)
        missing = np.isnan(replicates)
        undefined = missing.sum(axis=0)
        mean, sd = spread.moments(replicates, missing)
        percentile = _limits(
            "percentile", replicates, lambda rows: spread.quantiles(rows, level), apart=apart
        )
        bias = mean - theta
        return cls(theta, replicates, level, bounds, undefined, sd, bias, percentile, apart)

    def take(self, columns: NDArray[np.int64]) -> BootstrapSample:
        """Return the sample of some estimates."""
        order: Literal["C", "F"] = "F" if self.apart else "C"
        p = self.percentile
        percentile = IntervalBounds(
            p.method, p.low[columns], p.high[columns], p.mc_low[columns], p.mc_high[columns]
        )
        return BootstrapSample(
            self.theta[columns],
            np.asarray(self.replicates[:, columns], order=order),
            self.level,
            self.bounds,
            self.undefined[columns],
            self.sd[columns],
            self.bias[columns],
            percentile,
            self.apart,
        )

    def bounds_of(
        self,
        method: str,
        support: Sequence[Support],
        jackknife: F64 | None,
        errors: tuple[F64, F64] | None,
    ) -> IntervalBounds:
        """Return the bounds of one method for all estimates."""
        n_units = np.array([entry.n_units for entry in support])
        if method == "percentile":
            return self.percentile
        if method == "basic":
            p = self.percentile
            return IntervalBounds(
                "basic", 2 * self.theta - p.high, 2 * self.theta - p.low, p.mc_high, p.mc_low
            )
        if method in ("bca", "jackknife-t"):
            if jackknife is None:
                raise UsageError(f"the interval {method!r} needs the jackknife")
            make = bca if method == "bca" else jackknife_t
            return make(self, jackknife, n_units)
        if method == "studentized":
            if errors is None:
                raise UsageError(
                    "studentized intervals need a standard error: "
                    "only metrics that are ratios have one"
                )
            return studentized(self, *errors)
        freedom = np.array([entry.df for entry in support])
        hidden = np.array([entry.hidden for entry in support])
        reach = np.array([entry.reach for entry in support])
        return boot_se_t(self, n_units, freedom, hidden, reach)


def boot_se_t(
    sample: BootstrapSample,
    n_units: NDArray[np.int64],
    freedom: NDArray[np.int64] | None = None,
    hidden: F64 | float = 0.0,
    reach: F64 | float = 0.0,
) -> IntervalBounds:
    """Return the t interval with the bootstrap's standard error, on the scale of the metric.

    Draws inside a stratum of n units vary by ``(n - 1) / n`` too little, over H strata by about
    ``(K - H) / K``. ``hidden`` is variance that the replicates do not show. Of a biased estimate,
    the interval reaches further to where the truth then lies: ``reach`` times the bootstrap's bias.
    """
    scale = MetricScale.of(sample.bounds)
    df = np.maximum(n_units - 1 if freedom is None else freedom, 1)
    t = _t(df, sample.level)
    factor = np.sqrt(n_units / df) * t

    def limits(mean: F64, sd: F64) -> tuple[F64, F64]:
        half = np.hypot(factor * sd, t * np.sqrt(hidden))
        bias = np.where(reach > 0, reach * (mean - sample.theta), 0.0)
        below, above = half + np.maximum(bias, 0.0), half + np.maximum(-bias, 0.0)
        return scale.around(sample.theta, below)[0], scale.around(sample.theta, above)[1]

    return _limits_of_moments(scale.method, sample, limits)


def few_errors_t(sample: BootstrapSample, support: Sequence[Support]) -> IntervalBounds:
    """Return the form for few errors: Jeffreys' interval of shares and rates, gamma of costs.

    All count as many trials or events as the standard error is worth, fewer if few units are in
    error; see the top of this file.
    """
    n_units = np.array([entry.n_units for entry in support])
    df = np.maximum(np.array([entry.df for entry in support]), 1)
    hidden = np.array([entry.hidden for entry in support])
    tried = np.array([float(entry.tried) for entry in support])
    trials = np.array([np.inf if e.n_trials is None else e.n_trials for e in support])
    most = np.maximum(trials, tried)
    single = np.array([NAN if entry.event is None else entry.event for entry in support])
    unknown = _unknown_clustering(sample, support)
    ratio = _t(df, sample.level) / normal_quantile(sample.level)
    low_bound, high_bound = sample.bounds
    is_rate = math.isinf(high_bound)
    # A rate, or a sum of costs that ends at a bound.
    counts_events = is_rate or not np.isnan(single).any()
    width = 1.0 if counts_events else high_bound - low_bound
    short = np.array([entry.shortfall for entry in support])
    equal = np.array([entry.equal_costs for entry in support])
    x = np.where(short, high_bound - sample.theta, sample.theta - low_bound) / width
    effects = np.array([assumed_effect_of(entry, sample.level) for entry in support])
    events = single * effects
    assumed = np.where(np.isinf(most), tried, most / effects)
    reach = np.array([entry.few_reach for entry in support])

    def limits(mean: F64, sd: F64) -> tuple[F64, F64]:
        error = np.hypot(np.sqrt(n_units / df) * sd, np.sqrt(hidden)) / width
        if counts_events:
            size = few_errors.event_size(x, error, (most, events), unknown)
            if is_rate:
                return few_errors.poisson(x, few_errors.widened(size, single, ratio), sample.level)
            # Where costs differ, nothing is known about their variance.
            least = np.minimum(size, np.where(equal, single, 0.0))
            size = few_errors.widened(size, least, ratio)
            further = few_errors.further_cost(single, effects, unknown)
            low, high = few_errors.gamma(x, size, further, sample.level)
            bias = reach * np.where(short, -1.0, 1.0) * (mean - sample.theta)
            low = np.maximum(low - np.maximum(bias, 0.0), 0.0)
            high = np.minimum(high + np.maximum(-bias, 0.0), high_bound - low_bound)
            ends = np.where(short, high_bound - high, low_bound + low)
            return ends, np.where(short, high_bound - low, low_bound + high)
        of_x = few_errors.trials(x * (1 - x), error, (most, assumed), unknown)
        of_x = 1.0 / few_errors.widened(1.0 / of_x, 1.0 / most, ratio)
        low, high = few_errors.jeffreys(x, of_x, sample.level)
        return low_bound + width * low, low_bound + width * high

    method = "gamma-t" if counts_events else "jeffreys-t"
    method = "poisson-t" if is_rate else method
    return _limits_of_moments(method, sample, limits)


def _cautious(sample: BootstrapSample, support: Sequence[Support], forms: list[str]) -> F64:
    """Return how far intervals reach at least: the bounds of such errors in fewer units.

    Errors never raise the lower bound of a share, nor lower the upper bound of a rate or a sum of
    costs: see `statistics.few_errors`. NaN where there is no such bound.
    """
    limits = np.full(len(support), np.nan)
    theta = sample.theta.tolist()
    columns = []
    for k, (form, entry) in enumerate(zip(forms, support)):
        if entry.n_error is None or form not in ("few_errors", "few_costs", "method"):
            continue
        few = entry.n_error < NO_LONGER_FEW and entry.tried >= FEWEST_UNITS
        if few and _has_whole_errors(entry, theta[k]):
            columns.append(k)
    if sample.bounds not in ((0.0, 1.0), (0.0, math.inf)):
        return limits
    for counts_events in (False, True):
        of_kind = [k for k in columns if (support[k].event is not None) == counts_events]
        if of_kind:
            limits[of_kind] = _of_fewer_errors(sample, support, of_kind)
    return limits


def _of_fewer_errors(
    sample: BootstrapSample, support: Sequence[Support], columns: list[int]
) -> F64:
    """Return the most cautious bound of such errors in fewer units."""
    entries = [support[k] for k in columns]
    short = np.array([entry.shortfall for entry in entries])
    x = np.where(short, 1 - sample.theta[columns], sample.theta[columns])
    tried = np.array([entry.tried for entry in entries])
    freedom = np.array([max(entry.df, 1) for entry in entries])
    n_error = np.minimum(np.array([entry.n_error for entry in entries], np.int64), tried)
    effects = np.array([assumed_effect_of(entry, sample.level) for entry in entries])
    event = np.array([NAN if entry.event is None else entry.event for entry in entries])
    n_units = np.array([entry.n_units for entry in entries])
    own = np.sqrt(n_units / freedom) * sample.sd[columns]
    own = np.hypot(own, np.sqrt(np.array([entry.hidden for entry in entries])))
    of_units = tried, freedom
    if np.isnan(event).any():
        path = few_errors.ErrorPath.of((1 - x, own), n_error, of_units, sample.level)
        most = np.maximum(np.array([entry.n_trials for entry in entries], np.float64), tried)
        return path.lowest_share(most, most / effects)
    path = few_errors.ErrorPath.of((x, own), n_error, of_units, sample.level)
    if math.isinf(sample.bounds[1]):
        return path.highest_rate(event, event * effects)
    least = np.where([entry.equal_costs for entry in entries], event, 0.0)
    highest = path.highest_gain(event, effects, least)
    return np.asarray(np.where(short, 1 - highest, highest))


def _has_whole_errors(support: Support, theta: float) -> bool:
    """Return whether a value falls short by errors that some units have and others have not.

    Many small ones in every unit, such as those of voxels or of false alarms with low scores, are
    no few errors.
    """
    n_error = support.n_error or 0
    if not n_error:
        return support.event is not None or support.n_trials is not None
    if n_error >= support.tried:
        return False
    if support.event is not None:
        cost = 1 - theta if support.shortfall else theta
        return cost / support.event >= LEAST_COST * n_error
    if support.n_trials is None or theta < 0.5:
        return False
    return (1 - theta) * max(support.n_trials, support.tried) >= LEAST_COST * n_error


def _held(bounds: Pair, limit: float, support: Support) -> Pair:
    """Return the bounds, at least as far as a limit on the side of more errors."""
    low, high = bounds
    if math.isnan(limit):
        return bounds
    falls_short = support.event is None or support.shortfall
    return (min(low, limit), high) if falls_short else (low, max(high, limit))


def assumed_effect_of(support: Support, level: float) -> float:
    """Return by how much units are assumed to vary more than as many objects or images."""
    size = support.size
    if support.event is None:
        most = support.tried if support.n_trials is None else support.n_trials
        size = most / support.tried
    of_units = max(support.tried, FEWEST_UNITS), max(support.df, 1)
    return few_errors.assumed_effect(size, *of_units, level, support.furthest)


def _unknown_clustering(sample: BootstrapSample, support: Sequence[Support]) -> F64:
    """Return 1 without units in error, falling evenly to 0 where errors are no longer few."""
    on_bound = _on_bound(sample.replicates, sample.bounds).mean(axis=0)
    # A replicate draws none of e units with the chance exp(-e).
    with np.errstate(divide="ignore"):
        number = -np.log(on_bound)
    enough = np.full(len(number), -math.log(MOST_ON_BOUND))
    for k, entry in enumerate(support):
        if entry.few_errors and entry.n_error is not None:
            number[k] = min(number[k], entry.n_error)
            enough[k] = few_errors.enough_errors(entry.tried)
    number[_on_bound(sample.theta, sample.bounds)] = 0.0
    return np.asarray(np.maximum(1.0 - number / enough, 0.0))


def bca(sample: BootstrapSample, jackknife: F64, n_units: NDArray[np.int64]) -> IntervalBounds:
    """Return the bias-corrected and accelerated bootstrap interval; NaN where all replicates are on
    one side.
    """
    ndtr, ndtri = special().ndtr, special().ndtri
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = spread.means(jackknife) - jackknife
        acceleration = np.nansum(centred**3, axis=0) / (6.0 * np.nansum(centred**2, axis=0) ** 1.5)
        z_low, z_high = ndtri(np.array([(1 - sample.level) / 2, (1 + sample.level) / 2])).tolist()

        def limits(rows: F64) -> tuple[F64, F64]:
            n_defined = (~np.isnan(rows)).sum(axis=-2)
            # Ties with the estimate count half, or steps of the metric would pass for bias.
            below = (rows < sample.theta).sum(axis=-2) + 0.5 * (rows == sample.theta).sum(axis=-2)
            shift = ndtri(below / n_defined)
            ordered = np.sort(rows, axis=-2)

            bounds = []
            for z in (z_low, z_high):
                share = ndtr(shift + (shift + z) / (1 - acceleration * (shift + z)))
                exists = np.isfinite(share)
                quantile = spread.quantile(ordered, n_defined, np.where(exists, share, 0.0))
                bounds.append(np.where(exists, quantile, np.nan))
            return bounds[0], bounds[1]

        return _limits("bca", sample.replicates, limits, apart=sample.apart)


def jackknife_t(
    sample: BootstrapSample, jackknife: F64, n_units: NDArray[np.int64]
) -> IntervalBounds:
    """Return the t interval with the jackknife's standard error; only for smooth metrics, not for
    101-point AP.
    """
    centred = jackknife - spread.means(jackknife)
    error = np.sqrt((n_units - 1) / n_units * np.nansum(centred**2, axis=0))
    half = _t(np.maximum(n_units - 1, 1), sample.level) * error
    exact = np.zeros(len(half))
    return IntervalBounds("jackknife-t", sample.theta - half, sample.theta + half, exact, exact)


def studentized(sample: BootstrapSample, error: F64, errors: F64) -> IntervalBounds:
    """Return the bootstrap-t interval: quantiles of (replicate - estimate) / standard error of the
    replicate.
    """

    def limits(rows: F64) -> tuple[F64, F64]:
        values, own = rows[..., : len(error)], rows[..., len(error) :]
        with np.errstate(invalid="ignore", divide="ignore"):
            steps = np.where(own > 0, (values - sample.theta) / own, np.nan)
        low, high = spread.quantiles(steps, sample.level)
        return sample.theta - high * error, sample.theta - low * error

    both = np.concatenate([sample.replicates, errors], axis=1)
    return _limits("studentized", both, limits, apart=sample.apart)


@dataclass(frozen=True, slots=True)
class MetricScale:
    """The scale on which a metric's error is symmetric: logit between two bounds, log above or
    below one, else its own.
    """

    low: float
    high: float

    @classmethod
    def of(cls, bounds: tuple[float, float]) -> MetricScale:
        """Return the scale of a metric with these bounds."""
        return cls(*bounds)

    @property
    def method(self) -> str:
        """The name of the t interval on this scale; atanh is the logit between -1 and 1."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            return "bootse-t-atanh" if (self.low, self.high) == (-1.0, 1.0) else "bootse-t-logit"
        one_bound = math.isfinite(self.low) or math.isfinite(self.high)
        return "bootse-t-log" if one_bound else "bootse-t"

    def around(self, theta: F64, half: F64) -> tuple[F64, F64]:
        """Return theta -+ half, taken on this scale to first order; NaN on a bound, where the scale
        ends.
        """
        if not math.isfinite(self.low):
            if not math.isfinite(self.high):
                return theta - half, theta + half
            mirrored = MetricScale(-self.high, math.inf).around(-theta, half)
            return -mirrored[1], -mirrored[0]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if not math.isfinite(self.high):
                x = theta - self.low
                step = np.exp(half / x)
                return self.low + x / step, self.low + x * step
            width = self.high - self.low
            x = (theta - self.low) / width
            odds, step = x / (1 - x), np.exp(half / (width * x * (1 - x)))
            low, high = odds / step, odds * step
            top = np.where(np.isinf(high), 1.0, high / (1 + high))
            return self.low + width * low / (1 + low), self.low + width * top


def _form(sample: BootstrapSample, k: int, support: Support, method: str, few_form: bool) -> str:
    """Return which interval an estimate gets: a reason why there is none, "few_errors",
    "few_costs" (of a sum of costs whose errors are not many) or "method".
    """
    theta = float(sample.theta[k])
    reason = reason_of_none(theta, support)
    if reason is not None:
        return reason
    if sample.undefined[k] > MOST_UNDEFINED * len(sample.replicates):
        return "too_many_undefined"
    bounded = math.isfinite(sample.bounds[0])
    if bounded and _on_bound(theta, sample.bounds):
        # Without a unit of events nothing is known about a value of 0 that has no upper bound.
        no_scale = math.isinf(sample.bounds[1]) and support.event is None
        return "constant_input" if no_scale else "few_errors"
    if sample.sd[k] <= ROUNDING * max(1.0, abs(theta)) and not support.hidden:
        # Replicates that agree have no spread; the units still count as trials of a share.
        countable = bounded and (math.isfinite(sample.bounds[1]) or support.event is not None)
        return "few_errors" if countable else "constant_input"
    if bounded and few_form and support.few_errors:
        return "few_errors"
    # A t interval assumes a smooth distribution; with many replicates on a bound it is not.
    column = sample.replicates[:, k]
    t_interval = method.startswith("bootse-t") and sample.bounds == (0.0, 1.0)
    if few_form and t_interval and _on_bound(column, sample.bounds).mean() > MOST_ON_BOUND:
        return "few_errors"
    if few_form and t_interval and support.event is not None:
        variance = support.n_units / max(support.df, 1) * float(sample.sd[k]) ** 2 + support.hidden
        cost = sample.bounds[1] - theta if support.shortfall else theta
        if cost**2 < few_errors.MANY_COSTS * variance:
            return "few_costs"
    return "method"


def _stated(
    sample: BootstrapSample,
    k: int,
    support: Support,
    form: str,
    limits: tuple[str, Pair, Pair],
) -> Interval:
    """Return the interval of one estimate, with its cautions."""
    theta, undefined = float(sample.theta[k]), int(sample.undefined[k])
    method, (low, high), mc_error = limits
    if form in UNSTATED:
        return none(form, undefined=undefined)
    flags: tuple[str, ...] = ("few_units",) if support.df + 1 < FEW_UNITS else ()
    facts: dict[str, Any] = {"bias": float(sample.bias[k]), "undefined": undefined}
    # An interval of width 0 would claim certainty.
    beside = float(sample.percentile.low[k]), float(sample.percentile.high[k])
    if beside[0] < beside[1]:
        facts["percentile"] = beside
    identical = sample.sd[k] <= ROUNDING * max(1.0, abs(theta))
    if identical and not _on_bound(theta, sample.bounds):
        flags = (*flags, "identical_units")
    elif form == "few_errors":
        flags = (*flags, "few_errors")
    if form == "constant_input" or not low < high:
        return none("constant_input", flags=flags, **facts)
    return Interval(low, high, method, mc_error=mc_error, flags=flags, **facts)


def _on_bound(values: F64 | float, bounds: Sequence[float]) -> NDArray[np.bool_]:
    """Return which values are one of the bounds, but for rounding."""
    with np.errstate(invalid="ignore"):
        away = np.abs(np.subtract.outer(np.asarray(values), np.asarray(bounds)))
        return np.asarray((away <= ROUNDING).any(axis=-1))


def _limits(
    method: str, rows: F64, make: Callable[[F64], tuple[F64, F64]], *, apart: bool
) -> IntervalBounds:
    """Return the bounds from all replicates, and their Monte-Carlo error from ten batches.

    ``make`` takes (..., B, m) replicates and returns (..., m) bounds.
    """
    bounds = [make(stack) for stack in _all_and_batches(rows)]
    lows = np.concatenate([low for low, _ in bounds])
    highs = np.concatenate([high for _, high in bounds])
    return _with_mc_error(method, lows, highs, apart=apart)


def _limits_of_moments(
    method: str, sample: BootstrapSample, make: Callable[[F64, F64], tuple[F64, F64]]
) -> IntervalBounds:
    """Return bounds that depend on mean and spread of the replicates alone, with their error.

    All batches go through the closed form at once: quantiles of gamma and beta distributions cost
    more than the moments.
    """
    stacks = _all_and_batches(sample.replicates)
    moments = [spread.moments(stack, np.isnan(stack)) for stack in stacks]
    mean = np.concatenate([mean for mean, _ in moments])
    sd = np.concatenate([sd for _, sd in moments])
    return _with_mc_error(method, *make(mean, sd), apart=sample.apart)


def _all_and_batches(rows: F64) -> list[F64]:
    """Return all replicates as one batch, then ten parts of them if there are enough."""
    if len(rows) < 2 * BATCHES:
        return [rows[None]]
    return [rows[None], *spread.batches(rows, BATCHES)]


def _with_mc_error(method: str, low: F64, high: F64, *, apart: bool) -> IntervalBounds:
    """Return the bounds of all replicates, the first row, with the error that the batches show."""
    if len(low) == 1:
        unknown = np.full(low.shape[1], np.nan)
        return IntervalBounds(method, low[0], high[0], unknown, unknown)
    # Batch means: the spread of the bounds over batches, scaled to the whole set of replicates.
    order: Literal["C", "F"] = "F" if apart else "C"
    root = math.sqrt(BATCHES)
    with np.errstate(invalid="ignore"):
        mc_low = np.asarray(low[1:], order=order).std(axis=0, ddof=1) / root
        mc_high = np.asarray(high[1:], order=order).std(axis=0, ddof=1) / root
    return IntervalBounds(method, low[0], high[0], mc_low, mc_high)


def _t(freedom: NDArray[np.int64], level: float) -> F64:
    return np.array([t_quantile(df, level) for df in freedom.tolist()])
