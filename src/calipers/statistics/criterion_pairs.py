# SPDX-License-Identifier: Apache-2.0
"""Two criteria on the same ratings: which one reproduces them better, and could that be chance?

Decisions are compared by how often each agrees with the rating. McNemar's exact test looks at the
ratings that only one of them reproduces and takes them for independent; the test by units swaps the
two criteria in all ratings of a unit together, in every way or in as many random ways as there are
replicates, and stays valid when a patient has several ratings. Areas are compared by the bootstrap
that draws the same units for both: interval and p value come from the same t, with the units of the
rarer kind of rating as for a single area.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from calipers.results.estimate import number
from calipers.statistics.comparison import bootstrap_p, permutation_p
from calipers.statistics.corrections import adjusted
from calipers.statistics.criterion_scores import (
    INFINITE,
    CriterionMeasures,
    RatingView,
    order_support,
)
from calipers.statistics.decisions import Decision
from calipers.statistics.intervals import NAN, Support, intervals
from calipers.statistics.resampled import Resampling
from calipers.statistics.weights import Units, exact_swaps, swaps

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

CORRECTION = "holm"


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
    p_method: str
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
    comparisons = [*_decisions(view, point, replicates, how), *_areas(view, point, replicates, how)]
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


def _decisions(
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
        only = [int((right[:, i[k]] > right[:, j[k]]).sum()) for i, j in ((a, b), (b, a))]
        yield CriterionDifference(
            metric="accuracy",
            criterion_a=view.decisions[a[k]].group,
            criterion_b=view.decisions[b[k]].group,
            difference=float(difference[0, k]),
            low=interval.low,
            high=interval.high,
            method=interval.method,
            reason=interval.reason,
            only_a=only[0],
            only_b=only[1],
            p_exact=mcnemar_exact(*only),
            p=float(p[k]),
            p_method=method,
            p_adjusted=NAN,
            correction=CORRECTION,
            unit=how.units.name,
            n_units=how.units.number,
            n_ratings=len(view.useful),
        )


def _areas(
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
        if not interval.reason:
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
            p_method="bootstrap",
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
