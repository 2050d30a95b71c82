# SPDX-License-Identifier: Apache-2.0
"""Two monitors on the same images, or one monitor under both paradigms: differences under weights
that both share.
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
DRAWN = 2000  # replicates, where none were asked for
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
class Drawn:
    """A quantity of one monitor: its value, its replicates, and what stands behind it."""

    label: str
    value: float
    replicates: F64  # (B,)
    counts: tuple[int, int, int]
    bounds: tuple[float, float]
    id: str
    reason: str


def drawn(
    families: Sequence[tuple[str, Family, int, bool]], units: Units, certainty: Certainty
) -> list[Drawn]:
    """Return quantities under the same weights, for (label, family, column, flipped)."""
    families = [
        (label, family.narrowed(column), 0, flip) for label, family, column, flip in families
    ]
    if units.number >= FEWEST_UNITS:
        how = replace(certainty, replicates=certainty.replicates or DRAWN)
        tables = replicates([family.case for _, family, _, _ in families], units, how)
    else:
        tables = [np.full((1, 1, len(family.columns)), np.nan) for _, family, _, _ in families]
    ones = np.ones((1, len(units.code)), np.int64)
    found = []
    for (label, family, column, flip), sample in zip(families, tables):
        metric, evidence = family.case
        value = float(metric.value(evidence, ones)[0, 0, column])
        counts = metric.counts(evidence, ones[0])[0, column].tolist()
        reason = (
            metric.reasons(evidence).get((0, column), "no_objects") if math.isnan(value) else ""
        )
        seen = sample[:, 0, column]
        of = (1.0 - value, 1.0 - seen) if flip else (value, seen)
        facts = metric.facts
        found.append(
            Drawn(label, *of, (counts[0], counts[1], counts[2]), facts.bounds, facts.id, reason)
        )
    return found


def differences(
    pairs: Sequence[tuple[Drawn, Drawn]],
    metric: str,
    units: Units,
    level: float,
    correction: str = "holm",
) -> list[Difference]:
    """Return the differences of pairs, tested by the bootstrap and corrected as one family."""
    if not pairs:
        return []
    d = np.array([a.value - b.value for a, b in pairs])
    judged = judge(
        d, np.stack([a.replicates - b.replicates for a, b in pairs], axis=1), None, units, level
    )
    corrected, family = adjusted(judged.p, correction)
    higher = metric not in LOWER_IS_BETTER
    rows = []
    for k, (a, b) in enumerate(pairs):
        p = float(corrected[k])
        better = "a_better" if bool(d[k] > 0) == higher else "b_better"
        verdict = (
            "undefined" if math.isnan(p) else better if p < 1.0 - level else "no_difference_shown"
        )
        row = Difference(
            metric=metric,
            metric_id=a.id,
            label=None,
            model_a=a.label,
            model_b=b.label,
            value_a=a.value,
            value_b=b.value,
            estimate=_estimate(float(d[k]), judged.intervals[k], (a, b), units, level),
            p=float(judged.p[k]),
            p_adjusted=p,
            p_share=float(judged.p_share[k]),
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
    d: float, interval: Interval, pair: tuple[Drawn, Drawn], units: Units, level: float
) -> Estimate:
    a, b = pair
    reason = (a.reason or b.reason) if math.isnan(d) else None
    return interval.around(d, level, (units.name, units.number), a.counts, reason)
