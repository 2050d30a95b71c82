# SPDX-License-Identifier: Apache-2.0
"""How well criteria reproduce ratings: scores of every decision, the area over all thresholds, the
best threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import roc
from calipers.kernels.contingency import SCORES, ContingencyCounts, tally
from calipers.results import Estimate, Row
from calipers.statistics.decisions import Decision
from calipers.statistics.intervals import NAN, Support
from calipers.statistics.resampled import RatingCounts, Resampling, count_groups_with, estimates
from calipers.tables.ratings import Ratings

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
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
    ranks = [roc.score_order(values, view.useful) for values in view.values.values()]
    ones = np.ones((1, len(view.useful)), np.int64)
    plain = [roc.youden(roc.points(entry, ones))[0] for entry in ranks]
    counts: list[ContingencyCounts] = []
    curves: list[list[tuple[F64, ...]]] = [[] for _ in ranks]
    for block in blocks:
        counts.append(tally(block, view.accepted, view.useful))
        for own, entry, height in zip(curves, ranks, plain):
            own.append(_curve(entry, height, block))
    all_counts = ContingencyCounts(*(np.concatenate(cells) for cells in zip(*counts)))
    columns = [np.zeros((len(all_counts.n11), len(ranks))) for _ in range(4)]
    for m, own in enumerate(curves):
        for column, parts in zip(columns, zip(*own)):
            column[:, m] = np.concatenate(parts)
    return CriterionMeasures(all_counts, *columns)


def _curve(ranks: roc.ScoreOrder, plain: F64, weights: NDArray[Any]) -> tuple[F64, F64, F64, F64]:
    """Return AUROC, the largest Youden index, its cut, and the index of that cut on plain data."""
    points = roc.points(ranks, weights)
    best = roc.best_cut(points)
    height = roc.youden(points)[np.arange(len(best)), best]
    undefined = np.isnan(height)
    back = np.where(undefined, np.nan, plain[best])
    cut = np.where(undefined, np.nan, ranks.values[best])
    return roc.area(points), height, cut, back


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
        score_estimates, new_flags = estimates(
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
    areas, flags = estimates(point.area[0], replicates.area, how, counts, support=support)
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
    corrected, _ = estimates(
        point.youden[0] - optimism,
        replicates.youden - optimism,
        how,
        counts,
        support=support,
        bounds=bounds,
    )
    cut, _ = estimates(
        point.cut[0] * sign + 0.0,
        replicates.cut * sign + 0.0,
        how,
        counts,
        support=support,
        bounds=INFINITE,
        method="percentile",
    )
    apparent, _ = estimates(
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
    return [RatingCounts(*entry) for entry in columns]


def _support(view: RatingView, how: Resampling, name: str) -> list[Support]:
    """Return how many units a score rests on, and in how many of them it errs, per decision."""
    about = _rows_about(view, name)
    positive = how.units_with(about)
    if name in BOTH:
        positive = np.minimum(positive, _rarer(view, how))
    if name not in SIMPLE:
        return [Support(how.units.number, n, n) for n in positive.tolist()]
    n_error = how.units_with(about & (view.accepted != view.useful[:, None]))
    pairs = zip(positive.tolist(), n_error.tolist())
    return [Support(how.units.number, n, n, errors) for n, errors in pairs]


def order_support(view: RatingView, how: Resampling) -> Support:
    """Return what an area rests on: the rarer kind of rating limits how well an order is known."""
    n = _rarer(view, how)
    return Support(n, n, n)


def _criterion_support(
    view: RatingView, how: Resampling
) -> tuple[list[Support], list[RatingCounts]]:
    rows = np.ones((len(view.useful), 1), np.bool_)
    counts = RatingCounts(
        int(count_groups_with(view.image, rows)[0]), int(view.useful.sum()), len(view.useful)
    )
    return [order_support(view, how)] * len(view.values), [counts] * len(view.values)


def _rarer(view: RatingView, how: Resampling) -> int:
    """Return in how many units the rarer kind of rating occurs."""
    return int(how.units_with(np.stack([view.useful, ~view.useful], axis=1)).min())
