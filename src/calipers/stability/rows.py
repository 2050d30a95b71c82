# SPDX-License-Identifier: Apache-2.0
"""The rows of a stability analysis: every score at the main threshold, under the other convention
for undefined pairs, and over the sweep of thresholds. Called by `stability`.
"""

from __future__ import annotations

from calipers.results import Estimate, Row
from calipers.stability.pairs import BagPairs
from calipers.stability.plan import ALL_MODELS, StabilityPlan
from calipers.stability.scores import (
    AT_THRESHOLD,
    NAMES,
    ScoreRequest,
    cases,
    conventional,
    metric_id,
)
from calipers.statistics.estimates import estimates

KENDALL = ("Kendall-b", "Kendall-a")
# the group of rows in which maps that call everything alike count as 1
IDENTICAL = {"undefined": "one"}


def group_text(value: float | str) -> str:
    """Return a value as groups of rows have it: numbers with all digits, no trailing ``.0``."""
    return value if isinstance(value, str) else repr(float(value)).removesuffix(".0")


def names_of(plan: StabilityPlan) -> tuple[str, ...]:
    """Return the scores that an analysis has."""
    return tuple(name for name in NAMES if plan.kendall or name not in KENDALL)


def stability_rows(evidence: BagPairs, plan: StabilityPlan) -> list[Row]:
    """Return the rows of all models together: scores, the second summary of undefined pairs, the
    sweep.
    """
    names, here = names_of(plan), evidence.at(plan.threshold)
    requests = [ScoreRequest(name, here, plan.undefined) for name in names]
    for name in names:
        if conventional(name):
            requests.append(ScoreRequest(name, here, "one", tuple(IDENTICAL.items())))
    for threshold in plan.sweep:
        index, group = evidence.at(threshold), (("threshold", group_text(threshold)),)
        for name in names:
            if name in AT_THRESHOLD:
                requests.append(ScoreRequest(name, index, plan.undefined, group))
    groups = list(cases(evidence, plan.references, requests))
    by_request: dict[ScoreRequest, Estimate] = {}
    tables = estimates([case for _, case in groups], plan.units, plan.certainty)
    for (members, _), table in zip(groups, tables):
        by_request.update(zip(members, table[0]))
    rows = []
    for request in requests:
        name, group_of = request.name, dict(request.group) or None
        rows.append(Row(ALL_MODELS, name, metric_id(name), None, group_of, by_request[request]))
    return rows
