# SPDX-License-Identifier: Apache-2.0
"""Words of figures: short names, percentages, and what bands and whiskers are."""

from __future__ import annotations

import math

from calipers.evaluation import Evaluation
from calipers.results import Estimate
from calipers.statistics.weights import plural

LONGEST = 40  # characters of a name in a title


def named(name: str) -> str:
    """Return a name that fits a title."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def percent(share: float) -> str:
    """Return ``84 %``; a tenth more near the ends, where it matters."""
    if share != share:
        return "undefined"
    value = 100 * share
    return f"{value:.1f} %" if 0 < value < 10 or 95 < value < 100 else f"{value:.0f} %"


def at_level(evaluation: Evaluation) -> str:
    """Return what bands and whiskers are; empty if there are none."""
    said = evaluation.statistics
    if said["interval"] is None or not any(math.isfinite(row.estimate.low) for row in evaluation.rows):
        return ""
    return f"{100 * said['level']:g} % intervals over {said['n_units']} {plural(said['unit'])}, each point by itself."


def why(estimate: Estimate) -> str:
    """Return why a value is undefined, in words."""
    return "" if estimate.value == estimate.value else str(estimate.reason).replace("_", " ")
