# SPDX-License-Identifier: Apache-2.0
"""Paired differences: two monitors on the same images, or one monitor under both paradigms.

Both sides of a pair are resampled with the same bootstrap weights. Called by
`MonitorEvaluation.compare` and `paradigm_gaps`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calipers.monitors.estimating import Family
from calipers.results import Estimate
from calipers.results.difference import Difference
from calipers.statistics.comparison import judge
from calipers.statistics.corrections import adjusted
from calipers.statistics.estimates import Certainty, replicates
from calipers.statistics.intervals import FEWEST_UNITS, Interval
from calipers.statistics.weights import Units
from calipers.statistics.wording import Manner, describe

F64 = NDArray[np.float64]
Group = Mapping[str, str]

NAN = float("nan")
DEFAULT_REPLICATES = 2000  # for the test, if the evaluation has no intervals
LOWER_IS_BETTER = (
    "FPR95",
    "FPR",
    "AURC",
    "E-AURC",
    "AUGRC",
    "AURC/graded",
    "E-AURC/graded",
    "RH",
    "AC",
    "rejected",
)


@dataclass(frozen=True)
class MonitorReplicates:
    """A quantity of one monitor: its value, its replicates, and the numbers of images behind it."""

    label: str
    value: float
    replicates: F64  # (B,)
    counts: tuple[int, int, int]
    bounds: tuple[float, float]
    id: str
    reason: str


def draw_replicates(
    quantities: Sequence[tuple[str, Family, int, bool]], units: Units, certainty: Certainty
) -> list[MonitorReplicates]:
    """Return quantities under the same weights, for (label, family, column, flipped)."""
    families = [family.narrowed(column) for _, family, column, _ in quantities]
    if units.number >= FEWEST_UNITS:
        how = replace(certainty, replicates=certainty.replicates or DEFAULT_REPLICATES)
        tables = replicates([family.case for family in families], units, how)
    else:
        tables = [np.full((1, 1, 1), np.nan)] * len(families)
    ones = np.ones((1, len(units.code)), np.int64)
    results = []
    for (label, _, _, flip), family, table in zip(quantities, families, tables):
        metric, evidence = family.case
        value = float(metric.value(evidence, ones)[0, 0, 0])
        counts = metric.counts(evidence, ones[0])[0, 0].tolist()
        reason = ""
        if math.isnan(value):
            reason = metric.reasons(evidence).get((0, 0), "no_objects")
        sample = table[:, 0, 0]
        if flip:
            value, sample = 1.0 - value, 1.0 - sample
        results.append(
            MonitorReplicates(
                label=label,
                value=value,
                replicates=sample,
                counts=(counts[0], counts[1], counts[2]),
                bounds=metric.facts.bounds,
                id=metric.facts.id,
                reason=reason,
            )
        )
    return results


def differences(
    pairs: Sequence[tuple[MonitorReplicates, MonitorReplicates]],
    metric: str,
    units: Units,
    level: float,
    correction: str = "holm",
) -> list[Difference]:
    """Return the differences of pairs, tested by the bootstrap and corrected as one family."""
    if not pairs:
        return []
    d = np.array([a.value - b.value for a, b in pairs])
    replicates_of_d = np.stack([a.replicates - b.replicates for a, b in pairs], axis=1)
    tests = judge(d, replicates_of_d, None, units, level)
    p_adjusted, family = adjusted(tests.p, correction)
    higher = metric not in LOWER_IS_BETTER
    rows = []
    for k, (a, b) in enumerate(pairs):
        p = float(p_adjusted[k])
        verdict = "no_difference_shown"
        if math.isnan(p):
            verdict = "undefined"
        elif p < 1.0 - level:
            verdict = "a_better" if bool(d[k] > 0) == higher else "b_better"
        row = Difference(
            metric=metric,
            metric_id=a.id,
            label=None,
            model_a=a.label,
            model_b=b.label,
            value_a=a.value,
            value_b=b.value,
            estimate=_estimate(float(d[k]), tests.intervals[k], (a, b), units, level),
            p=float(tests.p[k]),
            p_adjusted=p,
            p_share=float(tests.p_share[k]),
            test="bootstrap",
            correction=correction,
            family=family,
            verdict=verdict,
            margin=None,
            margin_verdict=None,
            trades_undefined=0,
            sentence="",
        )
        rows.append(replace(row, sentence=describe(row, Manner.of(a.bounds, higher))))
    return rows


def _estimate(
    d: float,
    interval: Interval,
    pair: tuple[MonitorReplicates, MonitorReplicates],
    units: Units,
    level: float,
) -> Estimate:
    a, b = pair
    reason = (a.reason or b.reason) if math.isnan(d) else None
    return interval.around(d, level, (units.name, units.number), a.counts, reason)
