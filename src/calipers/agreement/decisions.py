# SPDX-License-Identifier: Apache-2.0
"""Criteria as decisions: how well each reproduces ratings, and which of two does it better.

Comes in: the criteria and ratings of `agreement.read`. Goes out: the scores of every decision (a
criterion with a threshold), the area over all thresholds, the best threshold, and differences
between criteria with p values. `agreement.agreement` calls it.

Decisions are compared by how often each agrees with the rating. McNemar's exact test looks at the
ratings that only one of them reproduces and takes them for independent; the test by units swaps the
two criteria in all ratings of a unit together, in every way or in as many random ways as there are
replicates, and stays valid when a patient has several ratings. Areas are compared by the bootstrap
that draws the same units for both: interval and p value come from the same t, with the units of the
rarer kind of rating as for a single area.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.agreement.estimates import (
    RatingCounts,
    Resampling,
    count_groups_with,
    rating_estimates,
)
from calipers.agreement.read import Ratings
from calipers.arrays import F64, I64, Flags
from calipers.errors import UsageError, did_you_mean, spelled
from calipers.kernels.agreement import SCORES, ContingencyCounts, tally
from calipers.kernels.roc import Cuts, Operating
from calipers.results.estimate import Estimate, Row, number
from calipers.statistics.comparison import adjusted, bootstrap_p, permutation_p
from calipers.statistics.intervals import NAN, intervals
from calipers.statistics.support import Support
from calipers.statistics.weights import Units, exact_swaps, swaps

Thresholds = float | Sequence[float] | Mapping[str, float | Sequence[float]] | None

# From any overlap to a strict one; 0 means above 0.
OVERLAPS = (0.0, 0.1, 0.3, 0.5, 0.75)  # looked at if the user names none
MOST_DECISIONS = 1000
EVERY = "*"  # key of thresholds for all criteria that have none of their own

INFINITE = (float("-inf"), float("inf"))

# The scores in the order of the result, with their bounds; the first two are the shares of useful
# predictions that are accepted and of not useful ones that are rejected.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "sensitivity": (0.0, 1.0),
    "specificity": (0.0, 1.0),
    "PPV": (0.0, 1.0),
    "NPV": (0.0, 1.0),
    "accuracy": (0.0, 1.0),
    "balanced-accuracy": (0.0, 1.0),
    "MCC": (-1.0, 1.0),
    "po": (0.0, 1.0),
    "kappa": (-1.0, 1.0),
    "Scott-pi": (-1.0, 1.0),
    "alpha": (-1.0, 1.0),
    "PABAK": (-1.0, 1.0),
    "AC1": (-1.0, 1.0),
    "prevalence-index": (-1.0, 1.0),
    "bias-index": (-1.0, 1.0),
    "positive-agreement": (0.0, 1.0),
    "negative-agreement": (0.0, 1.0),
    "Jaccard": (0.0, 1.0),
    "APJ": (-1.0 / 3.0, 1.0),
}
BY_RATER = ("sensitivity", "specificity", "po", "kappa", "AC1")
# Which rows a proportion is about, and which of them count against it (decision d, rating r).
ABOUT: Mapping[str, Callable[[Flags, Flags], Flags]] = {
    "sensitivity": lambda d, r: np.broadcast_to(r, d.shape),
    "specificity": lambda d, r: np.broadcast_to(~r, d.shape),
    "PPV": lambda d, r: d,
    "NPV": lambda d, r: ~d,
    "positive-agreement": lambda d, r: d | r,
    "Jaccard": lambda d, r: d | r,
    "negative-agreement": lambda d, r: ~d | ~r,
}
SIMPLE = (
    "sensitivity",
    "specificity",
    "PPV",
    "NPV",
    "accuracy",
    "po",
)  # shares of rows that are right
BOTH = (
    "balanced-accuracy",
    "MCC",
    "kappa",
    "Scott-pi",
    "alpha",
    "APJ",
)  # need useful and not useful ones

CORRECTION = "holm"


@dataclass(frozen=True, slots=True)
class Decision:
    """A criterion at a threshold. ``threshold`` is None for a criterion that says yes or no by
    itself.
    """

    criterion: str
    threshold: float | None
    distance: bool = False

    @property
    def group(self) -> dict[str, str]:
        """The group of a row."""
        threshold = "yes" if self.threshold is None else f"{self.threshold:g}"
        return {"criterion": self.criterion, "threshold": threshold}

    def __str__(self) -> str:
        if self.threshold is None:
            return self.criterion
        if self.distance:
            return f"{self.criterion} up to {self.threshold:g}"
        if self.threshold == 0:
            return f"{self.criterion} above 0"
        return f"{self.criterion} at {self.threshold:g}"

    def accepts(self, values: NDArray[np.float64]) -> Flags:
        """Return which values are accepted: ``>=``, strictly above a threshold of 0, ``<=`` for
        distances.
        """
        if self.threshold is None:
            return np.asarray(values == 1)
        if self.distance:
            return np.asarray(values <= self.threshold)
        return np.asarray(values > 0 if self.threshold == 0 else values >= self.threshold)


def decisions_of(ratings: Ratings, thresholds: Thresholds = None) -> list[Decision]:
    """Return the decisions to look at, criterion by criterion, thresholds ascending.

    Notes
    -----
    A criterion of zeros and ones needs no threshold. Distances have no default, because pixels,
    millimetres and fractions have nothing in common; thresholds for all criteria are not meant for
    them where there are overlaps too.
    """
    by_criterion = {}
    for name, numbers in _by_criterion(thresholds).items():
        by_criterion[spelled(name, ratings.criteria)] = numbers
    overlaps = []
    for name in ratings.criteria:
        if name not in ratings.distances and not ratings.yes_no(name):
            overlaps.append(name)
    for name in by_criterion:
        if name != EVERY and name not in ratings.criteria:
            raise UsageError(
                f"thresholds for {name!r}, which is not a criterion; "
                f"{did_you_mean(name, ratings.criteria)}"
            )
    decisions = []
    for name in ratings.criteria:
        distance = name in ratings.distances
        if name in by_criterion:
            numbers = by_criterion[name]
        elif ratings.yes_no(name):
            decisions.append(Decision(name, None))
            continue
        elif distance:
            numbers = [] if overlaps else by_criterion.get(EVERY, [])
        else:
            numbers = by_criterion.get(EVERY, list(OVERLAPS))
        for threshold in sorted(set(numbers)):
            decisions.append(Decision(name, threshold, distance))
    if len(decisions) > MOST_DECISIONS:
        raise UsageError(
            f"at most {MOST_DECISIONS:,} thresholds of all criteria, got {len(decisions):,}; every "
            "one is resampled: choose those that matter"
        )
    return decisions


def _by_criterion(thresholds: Thresholds) -> dict[str, list[float]]:
    """Return the thresholds by criterion; those for all criteria have the key ``EVERY``."""
    if thresholds is None:
        return {}
    entries = thresholds if isinstance(thresholds, Mapping) else {EVERY: thresholds}
    result = {}
    for name, entry in entries.items():
        try:
            numbers: list[float] = np.atleast_1d(np.asarray(entry, np.float64)).tolist()
        except (TypeError, ValueError):
            raise UsageError(f"thresholds are numbers, got {entry!r}") from None
        if not numbers or not all(map(math.isfinite, numbers)):
            raise UsageError(f"thresholds are one or more finite numbers, got {entry!r}")
        result[name] = numbers
    return result


@dataclass(frozen=True)
class RatingView:
    """Ratings as arrays: what every decision accepts, values of criteria, what is useful."""

    decisions: Sequence[Decision]
    accepted: Flags  # (n, C)
    values: Mapping[str, F64]  # continuous criteria, larger is better
    useful: Flags  # (n,)
    image: I64  # (n,) image, or item where images are not known

    @classmethod
    def of(cls, ratings: Ratings, decisions: Sequence[Decision]) -> RatingView:
        """Return the view of all ratings."""
        assert ratings.useful is not None
        accepted = np.zeros((len(ratings), len(decisions)), np.bool_)
        for k, decision in enumerate(decisions):
            accepted[:, k] = decision.accepts(ratings.criteria[decision.criterion])
        values = {}
        for name, column in ratings.criteria.items():
            # Larger is better everywhere from here on.
            values[name] = -column if name in ratings.distances else column
        image = (ratings.image or ratings.item).code
        return cls(decisions, accepted, values, ratings.useful, image)

    def take(self, rows: I64) -> RatingView:
        """Return some rows."""
        values = {name: column[rows] for name, column in self.values.items()}
        return replace(
            self,
            accepted=self.accepted[rows],
            values=values,
            useful=self.useful[rows],
            image=self.image[rows],
        )


@dataclass(frozen=True)
class CriterionMeasures:
    """Everything that depends on weights, for R weightings, C decisions and M criteria."""

    counts: ContingencyCounts  # four (R, C)
    area: F64  # (R, M)
    youden: F64  # (R, M) at the own best cut
    cut: F64  # (R, M) that cut
    youden_back: F64  # (R, M) the same cut on the data as they are

    def score(self, name: str) -> F64:
        """Return (R, C) a score of the decisions."""
        return SCORES[name](*self.counts)


def measure(view: RatingView, blocks: Iterator[NDArray[Any]]) -> CriterionMeasures:
    """Return everything that depends on weights, for all blocks of weights."""
    cuts = [Cuts.of(values) for values in view.values.values()]
    ones = np.ones((1, len(view.useful)), np.int64)
    # Youden's index of every cut on the data as they are: what a cut chosen in a replicate really
    # gains.
    plain = [Operating.under(entry, view.useful, ones).youden()[:, 0] for entry in cuts]
    counts: list[ContingencyCounts] = []
    curves: list[list[tuple[F64, ...]]] = [[] for _ in cuts]
    for block in blocks:
        counts.append(tally(block, view.accepted, view.useful))
        for own, entry, height in zip(curves, cuts, plain):
            own.append(_best_cut(entry, Operating.under(entry, view.useful, block), height))
    all_counts = ContingencyCounts(*(np.concatenate(cells) for cells in zip(*counts)))
    columns = [np.zeros((len(all_counts.n11), len(cuts))) for _ in range(4)]
    for m, own in enumerate(curves):
        for column, parts in zip(columns, zip(*own)):
            column[:, m] = np.concatenate(parts)
    return CriterionMeasures(all_counts, *columns)


def _best_cut(cuts: Cuts, points: Operating, plain: F64) -> tuple[F64, F64, F64, F64]:
    """Return AUROC, the largest Youden index, its cut, and the index of that cut on plain data."""
    best = points.best_youden()
    height = points.youden()[best, np.arange(len(best))]
    undefined = np.isnan(height)
    back = np.where(undefined, np.nan, plain[best])
    cut = np.where(undefined, np.nan, cuts.threshold[best])
    return points.auroc(), height, cut, back


def decision_rows(
    view: RatingView,
    point: CriterionMeasures,
    replicates: CriterionMeasures,
    how: Resampling,
    *,
    model: str,
    names: Sequence[str],
    group: Any = None,
) -> tuple[list[Row], set[str]]:
    """Return a row per decision and score, decisions first, and the flags of their intervals."""
    rows_by_decision: list[list[Row]] = [[] for _ in view.decisions]
    flags = set[str]()
    for name in names:
        counts, support = _rating_counts(view, name), _support(view, how, name)
        score_estimates, new_flags = rating_estimates(
            point.score(name)[0],
            replicates.score(name),
            how,
            counts,
            support=support,
            bounds=BOUNDS[name],
        )
        for k, estimate in enumerate(score_estimates):
            where = {**view.decisions[k].group, **(group or {})}
            rows_by_decision[k].append(
                Row(model, name, f"agreement.{name.lower()}@1", None, where, estimate)
            )
        flags |= new_flags
    return [row for rows in rows_by_decision for row in rows], flags


def criterion_rows(
    view: RatingView,
    point: CriterionMeasures,
    replicates: CriterionMeasures,
    how: Resampling,
    *,
    model: str,
    group: Any = None,
) -> tuple[list[Row], set[str]]:
    """Return AUROC of every criterion, and the flags of the intervals."""
    support, counts = _criterion_support(view, how)
    areas, flags = rating_estimates(point.area[0], replicates.area, how, counts, support=support)
    rows = []
    for name, area in zip(view.values, areas):
        where = {"criterion": name, **(group or {})}
        rows.append(Row(model, "AUROC", "agreement.auroc@1", None, where, area))
    return rows, flags


def threshold_rows(
    view: RatingView,
    point: CriterionMeasures,
    replicates: CriterionMeasures,
    how: Resampling,
    *,
    model: str,
    distances: frozenset[str],
) -> list[Row]:
    """Return the threshold of the largest Youden index, the index, and the index without its
    optimism.

    Notes
    -----
    A threshold chosen on the data looks better on them than elsewhere. The optimism is the mean
    over replicates of the index at the replicate's own best threshold, minus the index of that
    threshold on the data as they are; its interval is that of the replicates, moved by the
    optimism. The interval of the threshold is its spread over replicates.
    """
    support, counts = _criterion_support(view, how)
    is_distance = np.array([name in distances for name in view.values], np.bool_)
    sign = np.where(is_distance, -1.0, 1.0)
    # Optimism of a maximum, estimated by the bootstrap (Efron and Tibshirani 1993, chapter 17).
    rated = np.isfinite(replicates.youden).any(axis=0)
    with np.errstate(invalid="ignore"):
        gap = np.where(rated, np.nansum(replicates.youden - replicates.youden_back, axis=0), np.nan)
        optimism = gap / np.isfinite(replicates.youden).sum(axis=0).clip(1)
    bounds = (-1.0, 1.0)
    corrected, _ = rating_estimates(
        point.youden[0] - optimism,
        replicates.youden - optimism,
        how,
        counts,
        support=support,
        bounds=bounds,
    )
    cut, _ = rating_estimates(
        # Back to the sign of a distance; adding 0 turns -0 into 0.
        point.cut[0] * sign + 0.0,
        replicates.cut * sign + 0.0,
        how,
        counts,
        support=support,
        bounds=INFINITE,
        method="percentile",
    )
    apparent, _ = rating_estimates(
        point.youden[0], replicates.youden, how, counts, support=support, bounds=bounds
    )
    rows = []
    for k, name in enumerate(view.values):
        for metric, estimate in (
            ("Youden-threshold", cut[k]),
            ("Youden", _without_interval(apparent[k])),
            ("Youden-corrected", corrected[k]),
        ):
            rows.append(
                Row(
                    model,
                    metric,
                    f"agreement.{metric.lower()}@1",
                    None,
                    {"criterion": name},
                    estimate,
                )
            )
    return rows


def _without_interval(estimate: Estimate) -> Estimate:
    """Return the value alone: an interval around a value that was chosen to be large would repeat
    its optimism.
    """
    reason = estimate.reason if estimate.value != estimate.value else "not_requested"
    return replace(estimate, low=NAN, high=NAN, method="none", reason=reason)


def _rows_about(view: RatingView, name: str) -> Flags:
    """Return (n, C) the rows that stand behind a score."""
    rule = ABOUT.get(name)
    if rule is None:
        return np.ones_like(view.accepted)
    return rule(view.accepted, view.useful[:, None])


def _rating_counts(view: RatingView, name: str) -> list[RatingCounts]:
    """Return how many images, useful ratings and ratings stand behind a score, per decision."""
    about = _rows_about(view, name)
    images = count_groups_with(view.image, about)
    useful = (about & view.useful[:, None]).sum(axis=0)
    columns = zip(images.tolist(), useful.tolist(), about.sum(axis=0).tolist())
    return list(columns)


def _support(view: RatingView, how: Resampling, name: str) -> list[Support]:
    """Return how many units a score rests on, and in how many of them it errs, per decision."""
    about = _rows_about(view, name)
    positive = how.units_with(about)
    if name in BOTH:
        positive = np.minimum(positive, _n_rarer_kind(view, how))
    # Only shares of rows have units without an error to count.
    if name not in SIMPLE:
        return [Support(how.units.number, n, n) for n in positive.tolist()]
    n_error = how.units_with(about & (view.accepted != view.useful[:, None]))
    pairs = zip(positive.tolist(), n_error.tolist())
    return [Support(how.units.number, n, n, errors) for n, errors in pairs]


def order_support(view: RatingView, how: Resampling) -> Support:
    """Return what an area rests on: the rarer kind of rating limits how well an order is known."""
    n = _n_rarer_kind(view, how)
    return Support(n, n, n)


def _criterion_support(
    view: RatingView, how: Resampling
) -> tuple[list[Support], list[RatingCounts]]:
    rows = np.ones((len(view.useful), 1), np.bool_)
    n_images = int(count_groups_with(view.image, rows)[0])
    counts = (n_images, int(view.useful.sum()), len(view.useful))
    return [order_support(view, how)] * len(view.values), [counts] * len(view.values)


def _n_rarer_kind(view: RatingView, how: Resampling) -> int:
    """Return in how many units the rarer kind of rating occurs."""
    return int(how.units_with(np.stack([view.useful, ~view.useful], axis=1)).min())


@dataclass(frozen=True, slots=True)
class CriterionDifference:
    """The difference of two criteria in one metric: a minus b."""

    metric: str  # accuracy or AUROC
    criterion_a: dict[str, str]  # criterion and threshold
    criterion_b: dict[str, str]
    difference: float
    low: float
    high: float
    method: str
    reason: str | None  # why difference or interval is missing
    only_a: int | None  # ratings that only a reproduces; None for areas
    only_b: int | None
    p_exact: float  # McNemar, ratings taken for independent; NaN for areas
    p: float  # by units
    test: str  # behind p
    p_adjusted: float  # of p, over all comparisons of the result
    correction: str
    unit: str
    n_units: int
    n_ratings: int

    def as_dict(self) -> dict[str, object]:
        """Return the comparison for JSON; NaN is null."""
        fields: dict[str, object] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            fields[name] = number(value) if isinstance(value, float) else value
        return fields


def compare_criteria(
    view: RatingView, point: CriterionMeasures, replicates: CriterionMeasures, how: Resampling
) -> list[CriterionDifference]:
    """Return all comparisons, decisions first, with p values adjusted by Holm."""
    comparisons = [
        *_decision_differences(view, point, replicates, how),
        *_area_differences(view, point, replicates, how),
    ]
    # One family: decisions and areas of a result are corrected together.
    corrected = adjusted(np.array([entry.p for entry in comparisons]), CORRECTION)[0]
    return [replace(entry, p_adjusted=p) for entry, p in zip(comparisons, corrected.tolist())]


def comparable_pairs(decisions: Sequence[Decision]) -> list[tuple[int, int]]:
    """Return the pairs of decisions that are worth comparing.

    Of two criteria, those at equal thresholds; if one of them has a single decision, that one with
    all of the other.
    """
    of: dict[str, list[int]] = {}
    for k, decision in enumerate(decisions):
        of.setdefault(decision.criterion, []).append(k)
    pairs = []
    for first, second in combinations(of.values(), 2):
        alone = 1 in (len(first), len(second))
        for a, b in product(first, second):
            if alone or decisions[a].threshold == decisions[b].threshold:
                pairs.append((a, b))
    return pairs


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Return the two-sided exact p value of McNemar's test; 1 if nothing differs."""
    from scipy.special import bdtr

    n = only_a + only_b
    return 1.0 if n == 0 else min(1.0, 2 * float(bdtr(min(only_a, only_b), n, 0.5)))


def swapped_gains(gain: I64, replicates: int, seed: int) -> F64:
    """Return (ways, P): the gains after the two criteria were swapped on units.

    Parameters
    ----------
    gain
        (K, P) per unit, how many ratings more the first criterion reproduces.
    """
    units = Units.of("unit", None, len(gain))
    signed = [(1 - 2 * block.astype(np.int64)) @ gain for block in swaps(units, replicates, seed)]
    return np.concatenate(signed).astype(np.float64)


def _decision_differences(
    view: RatingView, point: CriterionMeasures, replicates: CriterionMeasures, how: Resampling
) -> Iterator[CriterionDifference]:
    pairs = comparable_pairs(view.decisions)
    if not pairs or not len(view.useful):
        return
    a, b = np.array(pairs).T
    # Under the null hypothesis the two criteria are interchangeable on every unit.
    right = (view.accepted == view.useful[:, None]).astype(np.int64)
    gain = np.zeros((how.units.number, len(pairs)), np.int64)
    np.add.at(gain, how.units.code, right[:, a] - right[:, b])
    exact = exact_swaps(how.units)
    p = permutation_p(gain.sum(axis=0), swapped_gains(gain, how.replicates, how.seed), exact=exact)
    po, po_replicates = point.score("po"), replicates.score("po")
    difference = po[:, a] - po[:, b]
    difference_replicates = po_replicates[:, a] - po_replicates[:, b]
    interval_list = intervals(
        difference[0],
        difference_replicates,
        [Support(how.units.number)] * len(pairs),
        level=how.level,
        bounds=INFINITE,
    )
    method = "all swaps of units" if exact else "random swaps of units"
    for k, interval in enumerate(interval_list):
        of_a, of_b = right[:, a[k]], right[:, b[k]]
        only_a, only_b = int((of_a > of_b).sum()), int((of_b > of_a).sum())
        yield CriterionDifference(
            metric="accuracy",
            criterion_a=view.decisions[a[k]].group,
            criterion_b=view.decisions[b[k]].group,
            difference=float(difference[0, k]),
            low=interval.low,
            high=interval.high,
            method=interval.method,
            reason=interval.reason,
            only_a=only_a,
            only_b=only_b,
            p_exact=mcnemar_exact(only_a, only_b),
            p=float(p[k]),
            test=method,
            p_adjusted=NAN,
            correction=CORRECTION,
            unit=how.units.name,
            n_units=how.units.number,
            n_ratings=len(view.useful),
        )


def _area_differences(
    view: RatingView, point: CriterionMeasures, replicates: CriterionMeasures, how: Resampling
) -> Iterator[CriterionDifference]:
    support = order_support(view, how)  # that of a single area
    for (i, first), (j, second) in combinations(enumerate(view.values), 2):
        difference = point.area[:, i] - point.area[:, j]
        difference_replicates = (replicates.area[:, i] - replicates.area[:, j])[:, None]
        interval = intervals(
            difference, difference_replicates, [support], level=how.level, bounds=INFINITE
        )[0]
        p = NAN
        if interval.testable:
            p = float(bootstrap_p(difference, difference_replicates, support.n_units)[0])
        yield CriterionDifference(
            metric="AUROC",
            criterion_a={"criterion": first},
            criterion_b={"criterion": second},
            difference=float(difference[0]),
            low=interval.low,
            high=interval.high,
            method=interval.method,
            reason=_why_no_area(float(difference[0]), interval.reason, how),
            only_a=None,
            only_b=None,
            p_exact=NAN,
            p=p,
            test="bootstrap",
            p_adjusted=NAN,
            correction=CORRECTION,
            unit=how.units.name,
            n_units=how.units.number,
            n_ratings=len(view.useful),
        )


def _why_no_area(difference: float, reason: str | None, how: Resampling) -> str | None:
    """Return the reason of a missing difference or interval in terms of ratings: no kind of them
    may be missing.
    """
    if difference != difference:
        return "single_category"
    return "too_few_units" if reason == "one_unit" and how.units.number > 1 else reason
