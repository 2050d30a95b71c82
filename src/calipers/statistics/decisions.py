# SPDX-License-Identifier: Apache-2.0
"""Criteria as decisions: which thresholds, and what each accepts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.tables.ratings import Ratings

Flags = NDArray[np.bool_]
Thresholds = float | Sequence[float] | Mapping[str, float | Sequence[float]] | None

OVERLAPS = (0.0, 0.1, 0.3, 0.5, 0.75)  # looked at if the user names none
EVERY = "*"  # key of thresholds for all criteria that have none of their own


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
    by_criterion = _by_criterion(thresholds)
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
            numbers: Sequence[float] = by_criterion[name]
        elif ratings.yes_no(name):
            decisions.append(Decision(name, None))
            continue
        elif distance:
            numbers = () if overlaps else by_criterion.get(EVERY, ())
        else:
            numbers = by_criterion.get(EVERY, OVERLAPS)
        for threshold in sorted(set(numbers)):
            decisions.append(Decision(name, threshold, distance))
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
