# SPDX-License-Identifier: Apache-2.0
"""From a value and its replicates to an `Estimate`: the step that every table of ratings ends with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.results import Estimate
from calipers.statistics.intervals import NAN, Interval, Support, clopper_pearson, intervals, none
from calipers.statistics.weights import Units, bootstrap

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Resampling:
    """How replicates are made: of which units, how many, from which seed, for which level."""

    units: Units
    replicates: int
    seed: int
    level: float

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield blocks (at most 64, n) of bootstrap weights."""
        return bootstrap(self.units, self.replicates, self.seed)

    def part(self, rows: I64) -> Resampling:
        """Return the resampling of some rows; their units are the ones that occur in them."""
        return Resampling(self.units.take(rows), self.replicates, self.seed, self.level)

    def units_with(self, rows: NDArray[np.bool_]) -> int:
        """Return how many units hold one of these rows."""
        return len(np.unique(self.units.code[rows]))


@dataclass(frozen=True, slots=True)
class Behind:
    """What stands behind an estimate."""

    images: int
    useful: int
    ratings: int


def estimate(
    value: float,
    replicates: F64,
    how: Resampling,
    behind: Behind,
    *,
    support: Support,
    bounds: tuple[float, float] = (0.0, 1.0),
    method: str = "bootse-t-logit",
    missing: str = "single_category",
) -> tuple[Estimate, tuple[str, ...]]:
    """Return the estimate and the flags of its interval.

    ``missing`` is the reason of an undefined value.
    """
    given = _honest(value, support, how.level)
    found = intervals(np.array([value]), replicates[:, None], [given], level=how.level, bounds=bounds, method=method)[0]
    if value != value:
        found = none("no_objects" if not behind.ratings else missing, undefined=found.undefined)
    elif found.method == "clopper-pearson-units" and value == bounds[0] < 0:
        # A share of units says nothing about a score that lies at -1.
        found = none("constant_input", undefined=found.undefined)
    return _as_estimate(value, found, how, behind), found.flags


def _honest(value: float, support: Support, level: float) -> Support:
    """Return the support; the share of error-free units stands in for a value only if its interval holds the value."""
    if support.n_error_free is None or support.n_positive is None:
        return support
    low, high = clopper_pearson(support.n_error_free, support.n_positive, level)
    return support if low <= value <= high else Support(support.n_units, support.n_positive)


def _as_estimate(value: float, found: Interval, how: Resampling, behind: Behind) -> Estimate:
    return Estimate(
        value=float(value),
        low=found.low,
        high=found.high,
        level=how.level,
        method=found.method,
        unit=how.units.name,
        n_units=how.units.number,
        n_images=behind.images,
        n_references=behind.useful,
        n_predictions=behind.ratings,
        bias=found.bias if found.reason is None else NAN,
        undefined=found.undefined,
        reason=found.reason,
    )
