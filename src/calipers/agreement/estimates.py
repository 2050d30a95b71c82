# SPDX-License-Identifier: Apache-2.0
"""How sure numbers about ratings are: what is resampled, and which intervals they get.

`decisions` and `raters` call `rating_estimates` with point values (m,) and replicates (B, m). It
takes the one road from replicates to estimates, and names reasons in terms of ratings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64
from calipers.results.estimate import Estimate
from calipers.statistics.estimates import Column, Progress, column_estimates
from calipers.statistics.intervals import NAN, Interval, none
from calipers.statistics.support import Support
from calipers.statistics.weights import Units, bootstrap

RatingCounts = tuple[int, int, int]  # images, useful ratings and ratings behind an estimate


@dataclass(frozen=True, slots=True)
class Resampling:
    """How replicates are drawn: units, number, seed, and level of the intervals."""

    units: Units
    replicates: int
    seed: int
    level: float
    progress: Progress | None = None  # called with (replicates done, replicates in all)

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield blocks (at most 64, n) of bootstrap weights; one that was used is done."""
        n_done = 0
        for block in bootstrap(self.units, self.replicates, self.seed):
            yield block
            n_done += len(block)
            if self.progress is not None:
                self.progress(n_done, self.replicates)

    def part(self, rows: I64) -> Resampling:
        """Return the resampling of some rows; their units are the ones that occur in them."""
        return replace(self, units=self.units.take(rows))

    def units_with(self, rows: NDArray[np.bool_]) -> I64:
        """Return (C,) how many units hold one of the rows that each column of ``rows`` (n, C)
        marks.
        """
        return count_groups_with(self.units.code, rows)


def count_groups_with(code: I64, rows: NDArray[np.bool_]) -> I64:
    """Return (C,) how many of the groups in ``code`` (n,) hold one of the rows that each column
    marks.
    """
    occupied = np.zeros((int(code.max(initial=-1)) + 1, rows.shape[1]), np.bool_)
    # Written and not added: a group counts once, however many of its rows are marked.
    at, column = np.nonzero(rows)
    occupied[code[at], column] = True
    return np.asarray(occupied.sum(axis=0), np.int64)


def rating_estimates(
    values: F64,
    replicates: F64,
    how: Resampling,
    counts: Sequence[RatingCounts],
    *,
    support: Sequence[Support],
    bounds: tuple[float, float] = (0.0, 1.0),
    method: str = "bootse-t-logit",
) -> tuple[list[Estimate], set[str]]:
    """Return m estimates and the flags of their intervals.

    Parameters
    ----------
    values
        (m,) point estimates.
    replicates
        (B, m).
    counts, support
        m of each.
    """

    def amend(row: int, interval: Interval) -> Interval:
        value = float(values[row])
        # Reasons are named in terms of ratings here, not of objects.
        if value != value:
            missing = "single_category" if counts[row][2] else "no_objects"
            return none(missing, undefined=interval.undefined)
        if interval.reason == "one_unit" and how.units.number > 1:
            interval = replace(interval, reason="too_few_units")
        return interval if interval.reason is None else replace(interval, bias=NAN)

    # Shares have units in error. Other scores end at 1 by themselves: over 20 to 40 patients with 4
    # to 6 % errors the t interval covered kappa, AC1, MCC and balanced accuracy in .94 to .98 of
    # 500 simulations although many replicates lay at 1.
    are_shares = all(entry.n_error is not None for entry in support)
    column = Column(
        values, replicates, counts, support, bounds=bounds, method=method, few_form=are_shares
    )
    result = column_estimates(column, how.units, how.level, amend)
    flags: set[str] = set()
    for estimate in result:
        flags |= set(estimate.flags)
    return result, flags
