# SPDX-License-Identifier: Apache-2.0
"""From a metric and its evidence to estimates: value at weights 1, replicates, interval.

`evaluation.collect.estimated_rows` calls `estimates` with (metric, evidence) pairs and gets a table
of `Estimate` per pair: class row by name of the metric. Figures, monitors and stability call it
too.

There is one road from replicates to estimates, `column_estimates`: the values of one number in
several rows, their replicates, and what they rest on become intervals and then estimates. Whoever
has rules of his own (shares, ratings) amends the intervals on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64
from calipers.engine.ordered_map import in_order
from calipers.errors import UsageError
from calipers.metrics.base import Facts, Metric, OwnTrials
from calipers.results.estimate import Estimate, PopulatedMean
from calipers.statistics import intervals as making
from calipers.statistics import spread
from calipers.statistics.few_errors import (
    FURTHEST,
    FURTHEST_OF_GAINS,
    ROUNDING,
    clopper_pearson,
    wilson,
)
from calipers.statistics.intervals import Interval
from calipers.statistics.support import FEWEST_UNITS, Support
from calipers.statistics.weights import BLOCK, Units, Weights, bootstrap, jackknife

Progress = Callable[[int, int], None]
Case = tuple[Metric[Any], Any]  # a metric and its evidence

# Intervals of shares, which count objects as if they were independent.
RATIO_METHODS = ("wilson", "clopper-pearson")
WITH_JACKKNIFE = ("bca", "jackknife-t")
PRIOR_REFERENCES = 2.0  # by which the value of a class is drawn towards the mean over classes
AHEAD = 2  # blocks of weights per thread that are drawn before they are needed
IMAGES, REFERENCES, PREDICTIONS = range(3)  # in the counts of a metric
TRIALS = {"images": IMAGES, "references": REFERENCES, "predictions": PREDICTIONS}
WITHOUT_MORE = ("bootse-t-logit", "percentile", "basic")  # need nothing but the replicates


@dataclass(frozen=True, slots=True)
class Certainty:
    """Level, method, replicates and seed of intervals."""

    level: float = 0.95
    method: str = "bootse-t-logit"
    replicates: int = 2000  # 0 = no intervals
    seed: int = 0


def estimates(
    cases: Sequence[Case],
    units: Units,
    certainty: Certainty,
    progress: Progress | None = None,
    workers: int = 1,
) -> list[list[list[Estimate]]]:
    """Return the estimates of several metrics on the same images: case -> class row -> name.

    All cases see the same weights, which are made once. ``workers`` threads resample; the estimates
    do not depend on it.
    """
    plain = np.ones((1, len(units.code)), np.int64)
    values = [metric.value(evidence, plain)[0] for metric, evidence in cases]
    _check_certainty(certainty, units)
    reason = _no_interval(certainty, units)
    samples: Sequence[F64 | None] = [None] * len(cases)
    if reason is None:
        samples = replicates(cases, units, certainty, progress, workers)
    tables = []
    for case, value, sample in zip(cases, values, samples):
        columns = list(_columns(case, value, sample, units, certainty))
        if not case[0].facts.per_class and certainty.method in WITHOUT_MORE:
            # A curve has many names and one row: all points go together.
            column, amend = _side_by_side(columns)
            tables.append([column_estimates(column, units, certainty.level, amend, reason)])
            continue
        lists = []
        for column, amend in columns:
            lists.append(column_estimates(column, units, certainty.level, amend, reason))
        tables.append([list(row) for row in zip(*lists)])
    return tables


@dataclass(frozen=True, slots=True)
class Column:
    """One number in m rows, such as the classes, and what its estimates rest on."""

    values: F64  # (m,)
    replicates: F64 | None  # (B, m); None: there are no intervals
    counts: Sequence[tuple[int, int, int]]  # images, references and predictions
    support: Sequence[Support] = ()
    reasons: Sequence[str | None] = ()  # why values are missing; nobody says: the interval knows
    bounds: tuple[float, float] = (0.0, 1.0)
    method: str = "bootse-t-logit"
    jackknife: F64 | None = None
    errors: tuple[F64, F64] | None = None
    apart: bool = False  # the rows are numbers of their own: see `intervals`
    few_form: bool = True  # few errors call for a form of their own: see `intervals`


Amend = Callable[[int, Interval], Interval]  # row, interval -> the interval that is stated


def column_estimates(
    column: Column,
    units: Units,
    level: float,
    amend: Amend = lambda row, interval: interval,
    reason: str | None = None,
) -> list[Estimate]:
    """Return the estimates of a column: the road from replicates to every `Estimate`.

    Parameters
    ----------
    amend
        Changes an interval before it is stated.
    reason
        Why there are no intervals at all.
    """
    # As of a criterion that decides nothing yet, because nobody chose its thresholds.
    if not len(column.values):
        return []
    if column.replicates is None:
        column_intervals = [making.none(reason or "not_requested")] * len(column.values)
    else:
        column_intervals = making.intervals(
            column.values,
            column.replicates,
            column.support,
            level=level,
            bounds=column.bounds,
            method=column.method,
            jackknife=column.jackknife,
            errors=column.errors,
            apart=column.apart,
            few_form=column.few_form,
        )
        column_intervals = [amend(row, one) for row, one in enumerate(column_intervals)]
    numbers = column.values.tolist()
    missing = column.reasons or [None] * len(numbers)
    stated = []
    for number, interval, counts, why in zip(numbers, column_intervals, column.counts, missing):
        stated.append(interval.around(number, level, (units.name, units.number), counts, why))
    return stated


def _no_interval(certainty: Certainty, units: Units) -> str | None:
    """Return why no estimate can have an interval, or None."""
    if not certainty.replicates:
        return "not_requested"
    if units.number >= FEWEST_UNITS:
        return None
    return "one_unit" if units.number == 1 else "too_few_units"


def _check_certainty(certainty: Certainty, units: Units) -> None:
    """Raise if no interval can be computed with these settings."""
    making.check_level(certainty.level)
    if certainty.replicates:
        making.check_replicates(certainty.replicates)
    if units.n_strata > 1 and certainty.method in (*WITH_JACKKNIFE, "studentized"):
        raise UsageError(
            f"the interval {certainty.method!r} does not support strata; use bootse-t-logit or "
            "percentile"
        )


def replicates(
    cases: Sequence[Case],
    units: Units,
    certainty: Certainty,
    progress: Progress | None = None,
    workers: int = 1,
) -> list[F64]:
    """Return (B, 1 + n_classes, n_names) bootstrap replicates of every case, all under the same
    weights.
    """
    blocks = bootstrap(units, certainty.replicates, certainty.seed)
    total = -(-certainty.replicates // BLOCK)
    after_block = block_counter(progress, total)
    return [parts[0] for parts in weighed(cases, blocks, after_block, _values, workers)]


def weighed(
    cases: Sequence[Case],
    blocks: Iterable[Weights],
    after_block: Callable[[], None] = lambda: None,
    measure: Callable[[Metric[Any], Any, Weights], tuple[F64, ...]] | None = None,
    workers: int = 1,
) -> list[list[F64]]:
    """Return, for every case, the parts that ``measure`` returns, over all blocks of weights."""
    measure = measure or _values

    def measured(weights: Weights) -> list[tuple[F64, ...]]:
        return [measure(metric, evidence, weights) for metric, evidence in cases]

    parts_of_cases: list[list[tuple[F64, ...]]] = [[] for _ in cases]
    # Blocks outside, cases inside: weights are made once, and the last block stays in caches.
    for block in in_order(measured, blocks, workers=workers, ahead=AHEAD * workers):
        for parts, values in zip(parts_of_cases, block):
            parts.append(values)
        after_block()
    tables = []
    for k, parts in enumerate(parts_of_cases):
        tables.append([np.concatenate(column) for column in zip(*parts)])
        # What is joined is in memory once, not twice until all cases are.
        parts_of_cases[k] = []
    return tables


def _values(metric: Metric[Any], evidence: Any, weights: Weights) -> tuple[F64, ...]:
    return (metric.value(evidence, weights),)


def block_counter(progress: Progress | None, total: int) -> Callable[[], None]:
    """Return a function that reports one more block of ``total`` every time it is called."""
    number = count(1)

    def after_block() -> None:
        if progress is not None:
            progress(next(number), total)

    return after_block


def _columns(
    case: Case, value: F64, sample: F64 | None, units: Units, certainty: Certainty
) -> Iterator[tuple[Column, Amend]]:
    """Yield the columns of one case, a column per name with a row per class, and how its intervals
    are amended.
    """
    metric, evidence = case
    n_rows = value.shape[0] if metric.facts.per_class else 1
    counts = metric.counts(evidence, np.ones(evidence.n_images, np.int64)).tolist()
    reasons = metric.reasons(evidence) if np.isnan(value).any() else {}
    support, trials, without, errors = None, [], None, None
    if sample is not None:
        trials = _trials(case, counts)
        support = metric.support(evidence, units.outer_code, units.number)
        if certainty.method in WITH_JACKKNIFE:
            without = _jackknife_values(case, units, n_rows)
        if certainty.method == "studentized":
            errors = _standard_errors(case, units, certainty, n_rows)
    undefined = np.isnan(value[:n_rows]).T.tolist()
    for k in range(len(metric.facts.names)):
        missing: list[str | None] = [None] * n_rows
        if any(undefined[k]):
            for row in range(n_rows):
                if undefined[k][row]:
                    missing[row] = reasons.get((row, k), "no_objects")
        objects = [tuple(of_names[k]) for of_names in counts[:n_rows]]
        column = Column(value[:n_rows, k], None, objects, (), missing)
        if sample is None or support is None:
            yield column, lambda row, interval: interval
            continue
        supports = _supports(case, k, value[:n_rows, k], (counts, trials, support), units)
        classes = None
        if metric.facts.names[k] in metric.facts.class_means and len(value) > 1:
            numbers = np.array([counts[row][k][REFERENCES] for row in range(len(value))])
            classes = ClassSample(
                metric.facts, k, value[:, k], sample[:, :, k], support[:, k, 0], numbers
            )
            pooled = supports[0]
            supports[0] = classes.support(pooled)
        own = None if errors is None else errors[k]
        method = certainty.method
        # A metric that is no ratio has no standard error of its own.
        if method == "studentized" and own is None:
            method = "bootse-t-logit"
        column = replace(
            column,
            replicates=sample[:, :n_rows, k],
            support=supports,
            bounds=metric.facts.bounds_of(k),
            few_form=metric.facts.names[k] not in metric.facts.graded,
            method=method,
            jackknife=None if without is None else without[:, :, k],
            errors=own,
        )
        populated = None
        if classes is not None:
            populated = classes.populated_mean(pooled, certainty.level)
        yield column, _amendment(case, value, sample, k, certainty, populated)


def _supports(
    case: Case, k: int, value: F64, tables: tuple[Any, Any, NDArray[np.int64]], units: Units
) -> list[Support]:
    """Return what every row of the k-th name rests on.

    ``tables`` has the objects, the trials and the units behind it, as `Metric.counts`, `_trials`
    and `Metric.support` return them.
    """
    facts, (counts, trials, support) = case[0].facts, tables
    supports = []
    for row, number in enumerate(value.tolist()):
        n_positive, n_tried, n_error = support[row, k].tolist()
        n_trials, event, size = trials[row][k], None, 1.0
        if facts.bounds_of(k)[1] == np.inf and facts.counts_events:
            # A rate is per image, a count of all images.
            n_images = counts[row][k][IMAGES]
            per = 1 if facts.per_image else n_images
            n_trials = number * n_images / per
            event, size = per / n_images, n_images / units.number
        elif facts.names[k] in facts.error_costs and n_trials:
            # Costs are in references, and errors of a unit with several are likely to be alike.
            size = max(n_trials / max(n_tried, 1), 1.0)
            of = counts[row][k][IMAGES] if facts.costs_of_images else n_trials
            event = facts.error_costs[facts.names[k]] / of
        short = facts.names[k] in facts.shortfalls
        is_gain = facts.names[k] in facts.error_costs and not short
        supports.append(
            Support(
                units.number,
                n_positive,
                n_tried,
                n_error,
                units.freedom,
                n_trials=n_trials,
                event=event,
                size=size,
                shortfall=short,
                equal_costs=facts.names[k] in facts.equal_costs,
                furthest=FURTHEST_OF_GAINS if is_gain else FURTHEST,
                reach=facts.bias_reach.get(facts.names[k], 0.0),
                few_reach=facts.few_bias_reach.get(facts.names[k], 0.0),
            )
        )
    return supports


def _trials(case: Case, counts: list[Any]) -> list[list[float]]:
    """Return (rows, names) the numbers of images or objects that shares are of."""
    metric, evidence = case
    if metric.facts.trials == "own":
        own = cast("OwnTrials[Any]", metric).trials(evidence)
        return list(np.asarray(own, np.float64).tolist())
    numbers = np.asarray(counts, np.float64)[:, :, TRIALS[metric.facts.trials]]
    return list(numbers.tolist())


@dataclass(frozen=True, slots=True)
class ClassSample:
    """The classes behind one mean over classes, with their replicates; entry 0 is the mean."""

    facts: Facts
    k: int
    value: F64  # (1 + n_classes,)
    sample: F64  # (B, 1 + n_classes)
    n_units: NDArray[np.int64]  # (1 + n_classes,) with references
    n_references: NDArray[np.int64]  # (1 + n_classes,)

    def defined(self) -> NDArray[np.int64]:
        """Return the rows of the classes that have a value."""
        return np.flatnonzero(~np.isnan(self.value[1:])) + 1

    @property
    def name(self) -> str:
        """The name of the number."""
        return self.facts.names[self.k]

    def support(self, pooled: Support, rows: NDArray[np.int64] | None = None) -> Support:
        """Return what the mean over some classes rests on, from what all objects rest on."""
        rows = self.defined() if rows is None else rows
        if len(rows) < 2:
            return pooled
        reach = max(pooled.reach, self.facts.mean_bias_reach.get(self.name, 0.0))
        support = replace(pooled, hidden=self.hidden_variance(rows), reach=reach)
        if pooled.event is None or not self._is_gain_with_rare_class(rows):
            return support
        # An error in a rare class costs more of the mean than one in a common class. The mean cost
        # is that of one reference of all, its square that of one of the C^2 / sum(1 / n).
        n = np.maximum(self.n_references[rows], 1)
        harmonic = len(rows) ** 2 / (1.0 / n).sum()
        trials = float(np.sqrt(self.n_references[0] * harmonic))
        return replace(support, n_trials=trials, event=self.facts.error_costs[self.name] / trials)

    def _is_gain_with_rare_class(self, rows: NDArray[np.int64]) -> bool:
        """Return whether the number is a sum of costs, and a class has references in few units."""
        name, has_rare = self.name, bool((self.n_units[rows] < FEWEST_UNITS).any())
        return has_rare and name in self.facts.error_costs and name not in self.facts.shortfalls

    def hidden_variance(self, rows: NDArray[np.int64] | None = None) -> float:
        """Return the variance of the mean over some classes that its replicates do not show.

        The replicates of a class that m units have vary by ``(m - 1) / m`` too little, not by
        ``(K - 1) / K`` as a mean over many units does; and a class whose few references all fared
        alike does not vary at all. So every class has at least the variance of a share of its
        references, at its value drawn towards the mean as if by `PRIOR_REFERENCES` more. AP varies
        by less than a share: of that a class has at least the part that the classes in at least 5
        units have, and at most all of it. Gains of AP have the variance of a share if a class is in
        fewer, else none of this. How that was chosen: `validation.choices` and
        `validation.choices_classes`.
        """
        rows = self.defined() if rows is None else rows
        if len(rows) < 2:
            return 0.0
        n_units, n = np.maximum(self.n_units[rows], 1), np.maximum(self.n_references[rows], 1)
        variance = np.nan_to_num(spread.variances(self.sample[:, rows]))
        least = variance * n_units / np.maximum(n_units - 1, 1)
        is_less = self.name in self.facts.less_than_share
        if self.facts.share_of_references or self._is_gain_with_rare_class(rows):
            pooled = n + PRIOR_REFERENCES
            share = (n * self.value[rows] + PRIOR_REFERENCES * self.value[0]) / pooled
            of_share = share * (1 - share) / n
            common = n_units >= FEWEST_UNITS
            total = float(of_share[common].sum())
            part = 1.0
            if is_less and total > 0:
                part = min(float(least[common].sum()) / total, 1.0)
            least = np.maximum(least, part * of_share)
        hidden = float(np.maximum(least - variance, 0.0).sum() / len(rows) ** 2)
        # Classes that do not vary have a variance by rounding.
        return hidden if hidden > ROUNDING**2 else 0.0

    def populated_mean(self, pooled: Support, level: float) -> PopulatedMean | None:
        """Return the mean over the classes with references in at least 5 units.

        None if there are no rare classes, or only such.
        """
        rows = self.defined()
        common = rows[self.n_units[rows] >= FEWEST_UNITS]
        if len(common) in (0, len(rows)):
            return None
        sample = self.sample[:, common]
        is_defined = ~np.isnan(sample)
        with np.errstate(invalid="ignore", divide="ignore"):
            replicates_of_mean = np.where(is_defined, sample, 0.0).sum(axis=1)
            replicates_of_mean = replicates_of_mean / is_defined.sum(axis=1)
        mean = float(self.value[common].mean())
        (interval,) = making.intervals(
            np.array([mean]),
            replicates_of_mean[:, None],
            [self.support(pooled, common)],
            level=level,
            bounds=self.facts.bounds_of(self.k),
        )
        classes = tuple((common - 1).tolist())
        return PopulatedMean(mean, interval.low, interval.high, classes, len(rows) - len(common))


def _side_by_side(columns: Sequence[tuple[Column, Amend]]) -> tuple[Column, Amend]:
    """Return the columns of one row each as the rows of one column."""
    entries = [column for column, _ in columns]
    samples = [column.replicates for column in entries if column.replicates is not None]
    joined = replace(
        entries[0],
        values=np.concatenate([column.values for column in entries]),
        replicates=np.concatenate(samples, axis=1) if samples else None,
        counts=[column.counts[0] for column in entries],
        support=[support for column in entries for support in column.support],
        reasons=[column.reasons[0] for column in entries],
        apart=True,
    )
    return joined, lambda row, interval: columns[row][1](0, interval)


def _amendment(
    case: Case,
    value: F64,
    sample: F64,
    k: int,
    certainty: Certainty,
    populated: PopulatedMean | None,
) -> Amend:
    """Return how the intervals of the k-th name are amended: shares of objects, and flags."""
    facts = case[0].facts
    name = facts.names[k]
    as_share = certainty.method in RATIO_METHODS and facts.proportion
    rough = certainty.method in WITH_JACKKNIFE and name in facts.rough
    # Replicates that lose a class average over fewer classes: the value may jump.
    partial = 0
    if name in facts.class_means:
        partial = _partial(value[1:, k], sample[:, 1:, k])

    def amend(row: int, interval: Interval) -> Interval:
        if as_share:
            interval = _as_proportion(interval, case, value, row, k, certainty)
        if rough:
            interval = _with_flag(interval, "rough_metric")
        # Only the pooled value is a mean over classes.
        if row > 0:
            return interval
        interval = replace(interval, partial=partial, populated=populated)
        if populated is not None:
            interval = _with_flag(interval, "rare_classes")
        if partial > making.MOST_UNDEFINED * len(sample):
            interval = _with_flag(interval, "classes_left_out")
        return interval

    return amend


def _with_flag(interval: Interval, flag: str) -> Interval:
    return (
        interval if interval.method == "none" else replace(interval, flags=(*interval.flags, flag))
    )


def _partial(value: F64, sample: F64) -> int:
    """Return in how many replicates (B, n_classes) a mean over classes (n_classes,) loses one of
    them.

    A single class cannot be left out of its mean: without it the replicate is undefined.
    """
    defined = ~np.isnan(value)
    return int(np.isnan(sample[:, defined]).any(axis=1).sum()) if defined.sum() > 1 else 0


def _as_proportion(
    interval: Interval, case: Case, value: F64, row: int, k: int, certainty: Certainty
) -> Interval:
    """Return the interval of a share of objects as if each were drawn by itself.

    They are not: the interval has the flag ``independent_objects``.
    """
    metric, evidence = case
    n = metric.proportion_of(evidence)[row][k]  # type: ignore[attr-defined]
    if n is None or interval.reason is not None:
        return interval
    make = wilson if certainty.method == "wilson" else clopper_pearson
    low, high = make(round(float(value[row, k]) * n), n, certainty.level)
    # The other flags describe the bootstrap interval, which is not shown.
    few = [flag for flag in interval.flags if flag == "few_units"]
    return Interval(
        low,
        high,
        certainty.method,
        interval.bias,
        interval.undefined,
        None,
        interval.percentile,
        flags=(*few, "independent_objects"),
    )


def _jackknife_values(case: Case, units: Units, n_rows: int) -> F64:
    return weighed([case], jackknife(units))[0][0][:, :n_rows]


def _standard_errors(
    case: Case, units: Units, certainty: Certainty, n_rows: int
) -> list[tuple[F64, F64] | None] | None:
    """Return the standard errors of the estimates and of their replicates, for the names that are
    ratios.
    """
    metric, evidence = case
    if units.nested or not hasattr(metric, "ratio_parts"):
        return None
    first = np.unique(units.code, return_index=True)[1]  # images of a unit share their weight
    errors: list[tuple[F64, F64] | None] = []
    for k in range(len(metric.facts.names)):
        parts = metric.ratio_parts(evidence, units.code, units.number, k)
        if parts is None:
            errors.append(None)
            continue
        top, bottom = (table[:, :n_rows] for table in parts)
        blocks = bootstrap(units, certainty.replicates, certainty.seed)
        of_blocks = [_ratio_error(top, bottom, block[:, first]) for block in blocks]
        of_value = _ratio_error(top, bottom, np.ones((1, units.number), np.int64))
        errors.append((of_value[0], np.concatenate(of_blocks)))
    return errors


def _ratio_error(top: F64, bottom: F64, weights: Weights) -> F64:
    """Return (R, rows): the linearised standard error of a ratio of sums over units, (K, rows)
    each.
    """
    w = weights.astype(np.float64)
    number = w.sum(axis=1)[:, None]
    a, b = w @ top, w @ bottom
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = a / b
        # The sum over units of (top - ratio * bottom)^2, expanded so that it is products with
        # weights.
        square = w @ top**2 - 2 * ratio * (w @ (top * bottom)) + ratio**2 * (w @ bottom**2)
        return np.asarray(np.sqrt(np.maximum(square, 0.0) * number / (number - 1)) / b)


def rows_of(table: list[list[Estimate]]) -> Iterator[tuple[int, int, Estimate]]:
    """Yield (class row, name, estimate), all classes of a name together, pooled first."""
    for k in range(len(table[0]) if table else 0):
        for row, line in enumerate(table):
            yield row, k, line[k]
