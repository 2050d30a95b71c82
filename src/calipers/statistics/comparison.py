# SPDX-License-Identifier: Apache-2.0
"""Two models on the same images: the difference of a metric under weights that both models share.

With ``theta`` a metric, A and B two models and ``d = theta_A - theta_B``:

bootstrap
    Units are drawn, and both models are judged on what was drawn. The replicates of d give its
    standard error, ``sqrt(K / (K - 1)) SD(d*)``, from which the t interval of `intervals` and the p
    value of the same t with K - 1 degrees of freedom come: the interval leaves 0 out exactly if p <
    1 - level, unless the units are so few that no p value is (see the end). The share of replicates
    on the other side of 0, ``2 min(P(d* <= 0), P(d* >= 0))``, is given beside it. It rejects a true
    null too often with few units: in .135, .087, .075 and .072 of 400 simulations with 6, 10, 20
    and 50 units for AP, the t in .050, .065, .070 and .065, at a nominal .05.
permutation
    If it made no difference which model is which, the models could trade their predictions on any
    unit. One image is then two, that of A and that of B, of which one has weight 1 and the other 0:
    a trade exchanges the weights. ``p = (1 + number of |d| at least as large as the observed one) /
    (1 + replicates)``; with at most 16 units all 2^K trades are made, and p is their exact share.

Trading under a ranking metric mixes the scores of two models in one list. Its null is then that the
models are interchangeable, scores included, not that their metric is equal: such metrics have
``Facts.swap = False`` and are tested by the bootstrap unless asked otherwise.

No p value here is below ``2 / 2^K``: K units that all favour one model are no rarer than that by
chance. With 5 units that is .0625: at a level of .95 the interval may leave 0 out, and p is still
not below .05.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.metrics.contract import Evidence, Metric
from calipers.statistics.intervals import (
    FEWEST_UNITS,
    MOST_UNDEFINED,
    Interval,
    Support,
    intervals,
    none,
)
from calipers.statistics.weights import BLOCK, Units, Weights, bootstrap, exact_swaps, swaps

F64 = NDArray[np.float64]
Evidences = Mapping[Hashable, Evidence]  # by the key of the recipe
Progress = Callable[[], None]  # called after every block of weights

TESTS = ("bootstrap", "permutation")
EPS = 1e-12  # sums in another order: a trade of everything gives -d up to rounding
ANYTHING = (-math.inf, math.inf)  # bounds of a difference: no scale but its own


@dataclass(frozen=True, slots=True)
class DifferenceTests:
    """Intervals and p values of m differences."""

    intervals: list[Interval]  # a missing p value has its reason here too
    p: F64  # (m,) NaN without a test
    p_share: F64  # (m,) from the share of bootstrap replicates on the other side of 0
    trades_undefined: NDArray[np.int64]  # (m,) permutations without a value


def bootstrapped(
    metrics: Sequence[Metric[Any]],
    evidence: Sequence[Evidences],
    units: Units,
    replicates: int,
    seed: int,
    *,
    rows: int = 1,
    progress: Progress | None = None,
) -> list[list[F64]]:
    """Return, per model and metric, (B, rows, names): values under bootstrap weights that all of
    them share.

    Parameters
    ----------
    evidence
        Of every model.
    rows
        How many rows of the values are kept: 1 is the pooled one, classes follow.
    """
    values: list[list[F64]] = []
    parts: dict[tuple[int, int], list[F64]] = {}
    for weights in bootstrap(units, replicates, seed):
        for model, tables in enumerate(evidence):
            for k, metric in enumerate(metrics):
                block = metric.value(tables[metric.recipe.key], weights)[:, :rows]
                parts.setdefault((model, k), []).append(block)
        if progress is not None:
            progress()
    for model in range(len(evidence)):
        values.append([np.concatenate(parts[model, k]) for k in range(len(metrics))])
    return values


def traded(
    metrics: Sequence[Metric[Any]],
    a: Evidences,
    b: Evidences,
    units: Units,
    replicates: int,
    seed: int,
    *,
    rows: int = 1,
    progress: Progress | None = None,
) -> list[F64]:
    """Return, per metric, (trades, rows, names): differences after trades of units."""
    keys = dict.fromkeys(metric.recipe.key for metric in metrics)
    both = {key: type(a[key]).concat([a[key], b[key]]) for key in keys}
    exact = exact_swaps(units)
    parts: list[list[F64]] = [[] for _ in metrics]
    for trades in swaps(units, replicates, seed):
        one = np.concatenate((trades ^ 1, trades), axis=1)
        other = np.concatenate((trades, trades ^ 1), axis=1)
        for k, metric in enumerate(metrics):
            evidence = both[metric.recipe.key]
            values = metric.value(evidence, one)[:, :rows]
            if not exact:
                values = values - metric.value(evidence, other)[:, :rows]
            parts[k].append(values)
        if progress is not None:
            progress()
    differences = [np.concatenate(blocks) for blocks in parts]
    if not exact:
        return differences
    # Among all trades the opposite of the r-th is the r-th from the end: every set of weights is
    # needed only once.
    return [values - values[::-1] for values in differences]


def judge(
    d: F64, replicates: F64, trades: F64 | None, units: Units, level: float
) -> DifferenceTests:
    """Return intervals and p values of differences (m,).

    Parameters
    ----------
    replicates
        (B, m) differences under bootstrap weights; not looked at with fewer than 5 units.
    trades
        (T, m) differences after trades: the p value is that of the permutation. None: that of the
        bootstrap.
    """
    n = units.number
    if n < FEWEST_UNITS:
        reason = "one_unit" if n == 1 else "too_few_units"
        interval_list = [none(reason) for _ in d]
        p_share = p = np.full(len(d), np.nan)
    else:
        support = [Support(n, freedom=units.freedom)] * len(d)
        interval_list = intervals(d, replicates, support, level=level, bounds=ANYTHING)
        has_interval = np.array([interval.reason is None for interval in interval_list])
        tested = bootstrap_p(d, replicates, n, units.freedom)
        p, p_share = np.where(has_interval, [tested, share_p(replicates, n)], np.nan)
    n_undefined = np.zeros(len(d), np.int64)
    if trades is not None:
        n_undefined = np.isnan(trades).sum(axis=0)
        enough = n_undefined <= MOST_UNDEFINED * len(trades)
        p = np.where(enough, permutation_p(d, trades, exact=exact_swaps(units)), np.nan)
        for k in np.flatnonzero(~enough).tolist():
            if not interval_list[k].reason:
                interval_list[k] = replace(interval_list[k], reason="too_many_undefined")
    return DifferenceTests(interval_list, p, p_share, n_undefined)


def against_margin(low: float, high: float, margin: float, *, higher_is_better: bool) -> str:
    """Return what the interval of a - b shows about a margin.

    One of ``results.difference.MARGIN_VERDICTS``.
    """
    if not higher_is_better:
        low, high = -high, -low
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
    return np.clip(2.0 * _tail(np.abs(d), replicates, n_units, df), smallest_p(n_units), 1.0)


def superiority_p(d: F64, replicates: F64, n_units: int, freedom: int | None = None) -> F64:
    """Return one-sided p values (m,) of differences (m,): small if the first model is larger; see
    `bootstrap_p`.
    """
    df = n_units - 1 if freedom is None else freedom
    return np.clip(_tail(d, replicates, n_units, df), smallest_p(n_units) / 2.0, 1.0)


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
    from scipy.special import stdtr

    defined = ~np.isnan(replicates)
    n = defined.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Relative to d, so that replicates that agree have an error of exactly 0.
        base = np.where(defined, replicates - d, 0.0)
        centred = np.where(defined, base - base.sum(axis=0) / n, 0.0)
        error = np.nan * d
        if freedom > 0:
            error = np.sqrt((centred**2).sum(axis=0) / (n - 1) * n_units / freedom)
        steps = np.where(error == 0.0, np.sign(d) * np.inf, d / error)
        steps = np.where((error == 0.0) & (d == 0.0), 0.0, steps)
        return np.asarray(stdtr(float(max(freedom, 1)), -steps))


def permutation_p(d: F64, trades: F64, *, exact: bool) -> F64:
    """Return two-sided p values (m,) of differences (m,) among those after trades (B, m)."""
    defined = (~np.isnan(trades)).sum(axis=0)
    # Ties with the observed difference count as reached, also if rounding separates them.
    reached = (np.abs(trades) >= np.abs(d) - EPS * np.maximum(1.0, np.abs(d))).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = reached / defined if exact else (1.0 + reached) / (1.0 + defined)
    return np.where(np.isnan(d) | (defined == 0), np.nan, p)


def smallest_p(n_units: int) -> float:
    """Return the smallest two-sided p value that K units can give: all of them favour the same
    model.
    """
    return min(1.0, 2.0 ** (1 - n_units))


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
