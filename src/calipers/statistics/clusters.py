# SPDX-License-Identifier: Apache-2.0
"""Do larger groups than the units explain variance? Patients are drawn, and centres differ.

Patients of one centre resemble each other: the same scanner, the same protocol, the same referrals.
An interval over patients then speaks about other patients of *these* centres and is too narrow for
others: in simulations with centres that differ it held the truth in .81 to .91 of the cases at a
nominal .95. Nothing in the numbers shows it, so it is said in words where it can be seen.

`spread_of` leaves out one group after the other (jackknife) and compares the standard error that
follows with that of the units: if the groups were random sets of units, the square of their ratio
would be a chi-squared over its K - 1 degrees of freedom. A column of few values is a group of this
kind if its name says so (`GROUP_NAMES`): sex or diagnosis are properties of patients, and other
patients have the same ones.

`calipers.evaluation.warnings` and `calipers.monitors.words` call it, once per model or monitor; K
evaluations of one metric, where the bootstrap has 2,000.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.results.estimate import Estimate
from calipers.show.words import digits, plural
from calipers.statistics.estimates import Case, weighed
from calipers.statistics.few_errors import special
from calipers.statistics.support import FEWEST_UNITS
from calipers.statistics.weights import Units, jackknife

GROUP_NAMES = ("centre", "center", "site", "hospital", "clinic", "institution")
FEWEST_GROUPS = 3
MOST_GROUPS = 200  # more than that is no small number of evaluations
FALSE_NOTES = 0.05  # of data sets whose groups are random sets of units


@dataclass(frozen=True, slots=True)
class GroupSpread:
    """How much a value varies over groups, compared with the units that were drawn."""

    column: str
    n_groups: int
    ratio: float  # of the standard error over groups to that over units
    p: float  # of such a ratio if groups were random sets of units


def group_columns(groups: Mapping[str, NDArray[Any]], units: Units) -> list[str]:
    """Return the columns whose groups could have been the units and are not.

    None if the units lie in parents already: then somebody has thought about it.
    """
    if units.parent is not None or units.name.lower() in GROUP_NAMES:
        return []
    names = []
    for name, column in groups.items():
        n_groups = len(np.unique(np.asarray(column).astype(str)))
        fits = FEWEST_GROUPS <= n_groups <= min(MOST_GROUPS, units.number // 2)
        if name.lower() in GROUP_NAMES and fits:
            names.append(name)
    return names


def spread_of(
    case: Case, k: int, estimate: Estimate, column: str, values: NDArray[Any]
) -> GroupSpread | None:
    """Return how the k-th name of a metric varies over the groups of a column; None if the estimate
    has no interval to compare with.
    """
    low, high = estimate.percentile
    z = float(special().ndtri((1.0 + estimate.level) / 2.0))
    error = (high - low) / (2.0 * z)
    if math.isnan(error) or error <= 0.0:
        return None
    outer = Units.of(column, np.asarray(values).astype(str), len(values))
    without = weighed([case], jackknife(outer))[0][0][:, 0, k]
    without = without[~np.isnan(without)]
    n = len(without)
    if n < FEWEST_GROUPS:
        return None
    variance = (n - 1) / n * float(((without - without.mean()) ** 2).sum())
    statistic = (n - 1) * variance / error**2
    p = float(special().chdtrc(n - 1, statistic))
    return GroupSpread(column, outer.number, math.sqrt(variance) / error, p)


def note_on_groups(spreads: Sequence[GroupSpread | None], units: Units) -> str | None:
    """Return the note on the group that explains most; None if none is shown to explain any."""
    candidates = [one for one in spreads if one is not None]
    if not candidates:
        return None
    first = min(candidates, key=lambda one: one.p)
    # The smallest of several p values is judged as one of several.
    if first.p * len(candidates) >= FALSE_NOTES or first.ratio <= 1.0:
        return None
    groups, unit_names = plural(first.column), plural(units.name)
    advice = f"--cluster {first.column},{units.name} gives intervals for other {groups}"
    if first.n_groups < FEWEST_UNITS:
        advice = f"{first.n_groups} {groups} are too few to generalise to others"
    subject = unit_names[:1].upper() + unit_names[1:]
    return (
        f"{subject} were resampled, but results differ between {groups}: the standard error over "
        f"{first.n_groups} {groups} is {digits(first.ratio, 2)} times that over {unit_names}. The "
        f"intervals hold for other {unit_names} of these {groups}; {advice}."
    )
