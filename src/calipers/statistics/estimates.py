# SPDX-License-Identifier: Apache-2.0
"""From a metric and its evidence to estimates: the value at weights 1, its replicates, its
interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.metrics.contract import Metric
from calipers.results import Estimate
from calipers.statistics import intervals as making
from calipers.statistics.intervals import Interval, Support
from calipers.statistics.weights import BLOCK, Units, Weights, bootstrap, jackknife

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Progress = Callable[[int, int], None]
Case = tuple[Metric[Any], Any]  # a metric and its evidence

NAN = float("nan")
RATIO_METHODS = ("wilson", "clopper-pearson")
WITH_JACKKNIFE = ("bca", "jackknife-t")


@dataclass(frozen=True, slots=True)
class Certainty:
    """How sure one wants to be, and how that is found out."""

    level: float = 0.95
    method: str = "bootse-t-logit"
    replicates: int = 2000  # 0 = no intervals
    seed: int = 0


def estimates(
    cases: Sequence[Case], units: Units, certainty: Certainty, progress: Progress | None = None
) -> list[list[list[Estimate]]]:
    """Return the estimates of several metrics on the same images: case -> class row -> name.

    All cases see the same weights, which are made once.
    """
    plain = np.ones((1, len(units.code)), np.int64)
    values = [metric.value(evidence, plain)[0] for metric, evidence in cases]
    _check(certainty, units)
    if not certainty.replicates or units.number < making.FEWEST_UNITS:
        reason = (
            "not_requested"
            if not certainty.replicates
            else "one_unit"
            if units.number == 1
            else "too_few_units"
        )
        nothing = making.none(reason)
        return [
            _stated(case, v, units, certainty, lambda row, k: nothing)
            for case, v in zip(cases, values)
        ]
    drawn = replicates(cases, units, certainty, progress)
    found = []
    for case, value, sample in zip(cases, values, drawn):
        of_case = _intervals(case, value, sample, units, certainty)
        found.append(
            _stated(case, value, units, certainty, lambda row, k, known=of_case: known[row][k])
        )  # type: ignore[misc]
    return found


def _check(certainty: Certainty, units: Units) -> None:
    """Raise for what no interval can be made of."""
    making.check_level(certainty.level)
    if certainty.replicates:
        making.check_replicates(certainty.replicates)
    if units.n_strata > 1 and certainty.method in (*WITH_JACKKNIFE, "studentized"):
        raise UsageError(
            f"the interval {certainty.method!r} knows no strata; use bootse-t-logit or percentile"
        )


def replicates(
    cases: Sequence[Case], units: Units, certainty: Certainty, progress: Progress | None = None
) -> list[F64]:
    """Return (B, 1 + n_classes, n_names) bootstrap replicates of every case, all under the same
    weights.
    """
    blocks = bootstrap(units, certainty.replicates, certainty.seed)
    total = -(-certainty.replicates // BLOCK)
    return [parts[0] for parts in weighed(cases, blocks, _told(progress, total), _whole)]


def weighed(
    cases: Sequence[Case],
    blocks: Iterable[Weights],
    done: Callable[[], None] = lambda: None,
    look: Callable[[Metric[Any], Any, Weights], tuple[F64, ...]] | None = None,
) -> list[list[F64]]:
    """Return, for every case, what ``look`` sees of it under all blocks of weights, put together."""
    look = look or _whole
    seen: list[list[tuple[F64, ...]]] = [[] for _ in cases]
    for weights in blocks:
        for parts, (metric, evidence) in zip(seen, cases):
            parts.append(look(metric, evidence, weights))
        done()
    return [[np.concatenate(column) for column in zip(*parts)] for parts in seen]


def _whole(metric: Metric[Any], evidence: Any, weights: Weights) -> tuple[F64, ...]:
    return (metric.value(evidence, weights),)


def _told(progress: Progress | None, total: int) -> Callable[[], None]:
    number = count(1)
    return lambda: progress(next(number), total) if progress is not None else None


def _intervals(
    case: Case, value: F64, sample: F64, units: Units, certainty: Certainty
) -> list[list[Interval]]:
    """Return the intervals of one case, class row by name."""
    metric, evidence = case
    support = metric.support(evidence, units.whole, units.number)
    n_rows = value.shape[0] if metric.facts.per_class else 1
    table = []
    without = _jackknifed(case, units, n_rows) if certainty.method in WITH_JACKKNIFE else None
    errors = (
        _standard_errors(case, units, certainty, n_rows)
        if certainty.method == "studentized"
        else None
    )
    for k, name in enumerate(metric.facts.names):
        own = errors[k] if errors is not None else None
        method = (
            "bootse-t-logit"
            if certainty.method == "studentized" and own is None
            else certainty.method
        )
        found = making.intervals(
            value[:n_rows, k],
            sample[:, :n_rows, k],
            [
                Support(units.number, a, b, c, units.freedom)
                for a, b, c in support[:n_rows, k].tolist()
            ],
            level=certainty.level,
            bounds=metric.facts.bounds,
            method=method,
            jackknife=None if without is None else without[:, :, k],
            errors=own,
        )
        if certainty.method in RATIO_METHODS and metric.facts.proportion:
            found = [
                _of_proportion(entry, case, value, row, k, certainty)
                for row, entry in enumerate(found)
            ]
        if without is not None and name in metric.facts.rough:
            found = [_flagged(entry, "rough_metric") for entry in found]
        partial = (
            _partial(value[1:, k], sample[:, 1:, k]) if name in metric.facts.class_means else 0
        )
        found[0] = replace(found[0], partial=partial)
        if partial > making.MOST_UNDEFINED * len(sample):
            found[0] = _flagged(found[0], "classes_left_out")
        table.append(found)
    return [list(row) for row in zip(*table)]


def _flagged(found: Interval, flag: str) -> Interval:
    return found if found.method == "none" else replace(found, flags=(*found.flags, flag))


def _partial(value: F64, sample: F64) -> int:
    """Return in how many replicates (B, n_classes) a mean over classes (n_classes,) loses one of
    them.

    A single class cannot be left out of its mean: without it the replicate is undefined.
    """
    known = ~np.isnan(value)
    return int(np.isnan(sample[:, known]).any(axis=1).sum()) if known.sum() > 1 else 0


def _of_proportion(
    found: Interval, case: Case, value: F64, row: int, k: int, certainty: Certainty
) -> Interval:
    """Return the interval of a share of objects, as if each were drawn by itself; flagged, because
    they are not.
    """
    metric, evidence = case
    n = metric.proportion_of(evidence)[row][k]  # type: ignore[attr-defined]
    if n is None or found.reason is not None:
        return found
    make = making.wilson if certainty.method == "wilson" else making.clopper_pearson
    low, high = make(round(float(value[row, k]) * n), n, certainty.level)
    few = [
        flag for flag in found.flags if flag == "few_units"
    ]  # the others are of an interval that is not shown
    flags = (*few, "independent_objects")
    return Interval(
        low,
        high,
        certainty.method,
        found.bias,
        found.undefined,
        None,
        found.percentile,
        flags=flags,
    )


def _jackknifed(case: Case, units: Units, n_rows: int) -> F64:
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
    found: list[tuple[F64, F64] | None] = []
    for k in range(len(metric.facts.names)):
        parts = metric.ratio_parts(evidence, units.code, units.number, k)
        if parts is None:
            found.append(None)
            continue
        top, bottom = (table[:, :n_rows] for table in parts)
        blocks = bootstrap(units, certainty.replicates, certainty.seed)
        of_replicates = np.concatenate(
            [_ratio_error(top, bottom, block[:, first]) for block in blocks]
        )
        of_value = _ratio_error(top, bottom, np.ones((1, units.number), np.int64))
        found.append((of_value[0], of_replicates))
    return found


def _ratio_error(top: F64, bottom: F64, weights: Weights) -> F64:
    """Return (R, rows): the linearised standard error of a ratio of sums over units, (K, rows)
    each.
    """
    w = weights.astype(np.float64)
    number = w.sum(axis=1)[:, None]
    a, b = w @ top, w @ bottom
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = a / b
        square = w @ top**2 - 2 * ratio * (w @ (top * bottom)) + ratio**2 * (w @ bottom**2)
        return np.asarray(np.sqrt(np.maximum(square, 0.0) * number / (number - 1)) / b)


def _stated(
    case: Case,
    value: F64,
    units: Units,
    certainty: Certainty,
    interval_of: Callable[[int, int], Interval],
) -> list[list[Estimate]]:
    """Return the estimates of one case: class row by name."""
    metric, evidence = case
    counts = metric.counts(evidence, np.ones(evidence.n_images, np.int64)).tolist()
    reasons = metric.reasons(evidence) if np.isnan(value).any() else {}
    numbers = value.tolist()

    def one(row: int, k: int) -> Estimate:
        number, counted = numbers[row][k], counts[row][k]
        reason = reasons.get((row, k), "no_objects") if number != number else None
        return interval_of(row, k).around(
            number, certainty.level, (units.name, units.number), tuple(counted), reason
        )

    n_rows = len(numbers) if metric.facts.per_class else 1
    return [[one(row, k) for k in range(len(metric.facts.names))] for row in range(n_rows)]


def rows_of(table: list[list[Estimate]]) -> Iterator[tuple[int, int, Estimate]]:
    """Yield (class row, name, estimate), all classes of a name together, pooled first."""
    for k in range(len(table[0]) if table else 0):
        for row, line in enumerate(table):
            yield row, k, line[k]
