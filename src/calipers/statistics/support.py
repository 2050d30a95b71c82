# SPDX-License-Identifier: Apache-2.0
"""What an estimate rests on besides its replicates, and whether that is enough for an interval.

`statistics.estimates` and the other makers of estimates state it; `statistics.intervals` asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64
from calipers.statistics import few_errors
from calipers.statistics.few_errors import ENOUGH_ERRORS, MOST_IN_ERROR

# Below 5 units there is no interval: see the top of `statistics.intervals`.
FEWEST_UNITS = 5


@dataclass(frozen=True, slots=True)
class Support:
    """What an estimate rests on, besides its replicates."""

    n_units: int
    # units without which there is no value, such as those with references; None = all
    n_positive: int | None = None
    n_tried: int | None = None  # units in which something could go wrong; None = all
    n_error: int | None = None  # units in which something did; None = unknown
    # degrees of freedom; None = n_units - 1, fewer if units are drawn inside strata
    freedom: int | None = None
    # objects that a share is of, or events that a rate counts: there is no more to learn from
    n_trials: float | None = None
    # what a lone event adds, or costs at most; None: the value counts no events
    event: float | None = None
    size: float = 1.0  # objects or images of a unit, events among which are likely to be alike
    shortfall: bool = False  # the value falls short of the highest by what events cost
    equal_costs: bool = (
        False  # all events cost the same: t stands for z in what clustering adds only
    )
    # how many times further than the first bound of the t form the clustering of events that none
    # shows may move the bound
    furthest: float = few_errors.FURTHEST
    # variance that the replicates do not show, as where rare classes enter a mean
    hidden: float = 0.0
    reach: float = 0.0  # how far the t interval reaches beyond the bootstrap's bias ...
    few_reach: float = 0.0  # ... and the form for few errors

    @property
    def df(self) -> int:
        """The degrees of freedom."""
        return self.n_units - 1 if self.freedom is None else self.freedom

    @property
    def tried(self) -> int:
        """Units in which something could go wrong."""
        return self.n_units if self.n_tried is None else self.n_tried

    @property
    def few_errors(self) -> bool:
        """Whether errors are the exception, and too few to show how they vary."""
        if self.n_error is None or self.n_error >= ENOUGH_ERRORS:
            return False
        return self.n_error <= MOST_IN_ERROR * self.tried


def reason_of_none(theta: float, support: Support) -> str | None:
    """Return why an estimate has no interval, whatever its replicates are; None if it may have."""
    if theta != theta:
        return "no_objects"
    positive = support.n_units if support.n_positive is None else support.n_positive
    if positive == 0:  # a score of false alarms alone
        return "no_references"
    if min(support.df + 1, positive) < FEWEST_UNITS:  # strata fix one unit each
        return "one_unit" if support.n_units == 1 else "too_few_units"
    return None


def with_interval(theta: F64, support: Sequence[Support]) -> NDArray[np.int64]:
    """Return the estimates that may have an interval, or two of them: sums over a single column are
    added up in another order.
    """
    reasons = [reason_of_none(value, entry) for value, entry in zip(theta.tolist(), support)]
    stated = [k for k, reason in enumerate(reasons) if reason is None]
    others = [k for k, reason in enumerate(reasons) if reason is not None]
    return np.array(sorted(stated + others[: max(0, 2 - len(stated))]), np.int64)
