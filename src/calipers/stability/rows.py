# SPDX-License-Identifier: Apache-2.0
"""The estimates of stability: every score at the chosen threshold, under the other convention, and
over a sweep.
"""

from __future__ import annotations

from calipers.results import Estimate, Row
from calipers.stability.pairs import BagPairs
from calipers.stability.plan import ALL_MODELS, Plan
from calipers.stability.scores import AT_THRESHOLD, NAMES, Asked, cases, conventional, metric_id
from calipers.statistics.estimates import estimates

KENDALL = ("Kendall-b", "Kendall-a")
IDENTICAL = {
    "undefined": "one"
}  # the group of rows in which maps that call everything alike count as 1


def shown(value: float) -> str:
    """Return a number as groups of rows have it: all its digits, no trailing ``.0``."""
    return repr(float(value)).removesuffix(".0")


def names_of(plan: Plan) -> tuple[str, ...]:
    """Return the scores that an analysis has."""
    return tuple(name for name in NAMES if plan.kendall or name not in KENDALL)


def stability_rows(evidence: BagPairs, plan: Plan) -> list[Row]:
    """Return the rows of all models together: scores, the second summary of undefined pairs, the
    sweep.
    """
    names, here = names_of(plan), evidence.at(plan.threshold)
    asked = [Asked(name, here, plan.undefined) for name in names]
    asked += [
        Asked(name, here, "one", tuple(IDENTICAL.items())) for name in names if conventional(name)
    ]
    for threshold in plan.sweep:
        group = (("threshold", shown(threshold)),)
        asked += [
            Asked(name, evidence.at(threshold), plan.undefined, group)
            for name in names
            if name in AT_THRESHOLD
        ]
    groups = list(cases(evidence, plan.references, asked))
    found: dict[Asked, Estimate] = {}
    tables = estimates([case for _, case in groups], plan.units, plan.certainty)
    for (members, _), table in zip(groups, tables):
        found.update(zip(members, table[0]))
    return [
        Row(ALL_MODELS, one.name, metric_id(one.name), None, dict(one.group) or None, found[one])
        for one in asked
    ]
