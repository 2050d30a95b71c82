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
from calipers.statistics.resampled import Behind, Resampling, estimates, holding
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
class View:
    """Ratings as the scores see them."""

    decisions: Sequence[Decision]
    accepted: Flags  # (n, C)
    values: Mapping[str, F64]  # continuous criteria, larger is better
    useful: Flags  # (n,)
    image: I64  # (n,) image, or item where images are not known

    @classmethod
    def of(cls, ratings: Ratings, decisions: Sequence[Decision]) -> View:
        """Return the view of all ratings."""
        assert ratings.useful is not None
        columns = [decision.accepts(ratings.criteria[decision.criterion]) for decision in decisions]
        accepted = np.stack(columns, axis=1) if columns else np.zeros((len(ratings), 0), np.bool_)
        values = {
            name: -values if name in ratings.distances else values
            for name, values in ratings.criteria.items()
        }
        return cls(
            decisions, accepted, values, ratings.useful, (ratings.image or ratings.item).code
        )

    def take(self, rows: I64) -> View:
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
class Measured:
    """Everything that depends on weights, for R weightings, C decisions and M criteria."""

    counts: ContingencyCounts  # four (R, C)
    area: F64  # (R, M)
    youden: F64  # (R, M) at the own best cut
    cut: F64  # (R, M) that cut
    youden_back: F64  # (R, M) the same cut on the data as they are

    def score(self, name: str) -> F64:
        """Return (R, C) a score of the decisions."""
        return SCORES[name](*self.counts)


def measure(view: View, blocks: Iterator[NDArray[Any]]) -> Measured:
    """Return what blocks of weights make of the ratings."""
    ranks = [roc.score_order(values, view.useful) for values in view.values.values()]
    ones = np.ones((1, len(view.useful)), np.int64)
    plain = [roc.youden(roc.points(entry, ones))[0] for entry in ranks]
    counts, curves = [], []
    for block in blocks:
        counts.append(tally(block, view.accepted, view.useful))
        curves.append([_curve(entry, height, block) for entry, height in zip(ranks, plain)])
    whole = ContingencyCounts(*(np.concatenate(cells) for cells in zip(*counts)))
    empty = np.zeros((len(whole.n11), 0))
    columns = [
        np.stack(
            [np.concatenate([block[m][k] for block in curves]) for m in range(len(ranks))], axis=1
        )
        if ranks
        else empty
        for k in range(4)
    ]
    return Measured(whole, *columns)


def _curve(ranks: roc.ScoreOrder, plain: F64, weights: NDArray[Any]) -> tuple[F64, F64, F64, F64]:
    found = roc.points(ranks, weights)
    best = roc.best_cut(found)
    height = roc.youden(found)[np.arange(len(best)), best]
    undefined = np.isnan(height)
    back, cut = (
        np.where(undefined, np.nan, plain[best]),
        np.where(undefined, np.nan, ranks.values[best]),
    )
    return roc.area(found), height, cut, back


def decision_rows(
    view: View,
    point: Measured,
    drawn: Measured,
    how: Resampling,
    *,
    model: str,
    names: Sequence[str],
    group: Any = None,
) -> tuple[list[Row], set[str]]:
    """Return a row per decision and score, decisions first, and the flags of their intervals."""
    found: list[list[Row]] = [[] for _ in view.decisions]
    flags = set[str]()
    for name in names:
        behind, support = _behind(view, name), _support(view, how, name)
        made, said = estimates(
            point.score(name)[0],
            drawn.score(name),
            how,
            behind,
            support=support,
            bounds=BOUNDS[name],
        )
        for k, estimate in enumerate(made):
            where = {**view.decisions[k].group, **(group or {})}
            found[k].append(Row(model, name, f"agreement.{name.lower()}@1", None, where, estimate))
        flags |= said
    return [row for rows in found for row in rows], flags


def criterion_rows(
    view: View, point: Measured, drawn: Measured, how: Resampling, *, model: str, group: Any = None
) -> tuple[list[Row], set[str]]:
    """Return AUROC of every criterion, and the flags of the intervals."""
    support, behind = _criterion_support(view, how)
    made, flags = estimates(point.area[0], drawn.area, how, behind, support=support)
    groups = [{"criterion": name, **(group or {})} for name in view.values]
    return [
        Row(model, "AUROC", "agreement.auroc@1", None, at, one) for at, one in zip(groups, made)
    ], flags


def threshold_rows(
    view: View,
    point: Measured,
    drawn: Measured,
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
    support, behind = _criterion_support(view, how)
    sign = np.array([-1.0 if name in distances else 1.0 for name in view.values])
    rated = np.isfinite(drawn.youden).any(axis=0)
    with np.errstate(invalid="ignore"):
        gap = np.where(rated, np.nansum(drawn.youden - drawn.youden_back, axis=0), np.nan)
        optimism = gap / np.isfinite(drawn.youden).sum(axis=0).clip(1)
    bounds = (-1.0, 1.0)
    corrected, _ = estimates(
        point.youden[0] - optimism,
        drawn.youden - optimism,
        how,
        behind,
        support=support,
        bounds=bounds,
    )
    cut, _ = estimates(
        point.cut[0] * sign + 0.0,
        drawn.cut * sign + 0.0,
        how,
        behind,
        support=support,
        bounds=INFINITE,
        method="percentile",
    )
    apparent, _ = estimates(
        point.youden[0], drawn.youden, how, behind, support=support, bounds=bounds
    )
    found = []
    for k, name in enumerate(view.values):
        for metric, estimate in (
            ("Youden-threshold", cut[k]),
            ("Youden", _without_interval(apparent[k])),
            ("Youden-corrected", corrected[k]),
        ):
            found.append(
                Row(
                    model,
                    metric,
                    f"agreement.{metric.lower()}@1",
                    None,
                    {"criterion": name},
                    estimate,
                )
            )
    return found


def _without_interval(estimate: Estimate) -> Estimate:
    """Return the value alone: an interval around a value that was chosen to be large would repeat
    its optimism.
    """
    reason = estimate.reason if estimate.value != estimate.value else "not_requested"
    return replace(estimate, low=NAN, high=NAN, method="none", reason=reason)


def _rows_about(view: View, name: str) -> Flags:
    """Return (n, C) the rows that stand behind a score."""
    rule = ABOUT.get(name)
    return (
        np.ones_like(view.accepted) if rule is None else rule(view.accepted, view.useful[:, None])
    )


def _behind(view: View, name: str) -> list[Behind]:
    about = _rows_about(view, name)
    images = holding(view.image, about)
    useful = (about & view.useful[:, None]).sum(axis=0)
    return [
        Behind(*entry)
        for entry in zip(images.tolist(), useful.tolist(), about.sum(axis=0).tolist())
    ]


def _support(view: View, how: Resampling, name: str) -> list[Support]:
    about = _rows_about(view, name)
    positive = how.units_with(about)
    if name in BOTH:
        positive = np.minimum(positive, _rarer(view, how))
    if name not in SIMPLE:
        return [Support(how.units.number, n, n) for n in positive.tolist()]
    wrong = how.units_with(about & (view.accepted != view.useful[:, None]))
    return [
        Support(how.units.number, n, n, bad) for n, bad in zip(positive.tolist(), wrong.tolist())
    ]


def order_support(view: View, how: Resampling) -> Support:
    """Return what an area rests on: the rarer kind of rating decides how much is known of an order."""
    n = _rarer(view, how)
    return Support(n, n, n)


def _criterion_support(view: View, how: Resampling) -> tuple[list[Support], list[Behind]]:
    rows = np.ones((len(view.useful), 1), np.bool_)
    behind = Behind(int(holding(view.image, rows)[0]), int(view.useful.sum()), len(view.useful))
    return [order_support(view, how)] * len(view.values), [behind] * len(view.values)


def _rarer(view: View, how: Resampling) -> int:
    """Return in how many units the rarer kind of rating occurs."""
    return int(how.units_with(np.stack([view.useful, ~view.useful], axis=1)).min())
