# SPDX-License-Identifier: Apache-2.0
"""Words of figures: short names, percentages, what a hit is, and what bands and whiskers are."""

from __future__ import annotations

import math

from calipers import registry
from calipers.evaluation import Evaluation
from calipers.matches import View
from calipers.results import Estimate
from calipers.statistics.weights import plural

LONGEST = 40  # characters of a name in a title
TAIL = 15  # of them from its end: versions and folds stand there


def short_name(name: str, longest: int = LONGEST, tail: int = TAIL) -> str:
    """Return a name that fits a title; of a long one its beginning and its end, where names of one
    family differ.
    """
    return name if len(name) <= longest else f"{name[: longest - tail - 1]}…{name[-tail:]}"


def percent(share: float) -> str:
    """Return ``84 %``; a tenth more near the ends, where it matters. Only none is 0 %, and only all
    is 100 %.
    """
    if share != share:
        return "undefined"
    value = 100 * share
    if 0 < value < 0.05:
        return "less than 0.1 %"
    if 99.95 <= value < 100:
        return "more than 99.9 %"
    return f"{value:.1f} %" if near_an_end(share) else f"{value:.0f} %"


def near_an_end(share: float) -> bool:
    """Return whether a tenth of a percent matters."""
    return 0 < share < 0.1 or 0.95 < share < 1


def hit_rule(view: View) -> str:
    """Return when a prediction is a hit, such as ``box-iou >= 0.5`` or ``centre-distance <= 10``."""
    criterion = registry.resolve("criterion", view.criterion)
    if criterion.yes_no:
        return view.criterion
    sign = (
        ("<" if view.strict else "<=")
        if criterion.distance
        else ">"
        if view.strict or not view.threshold
        else ">="
    )
    return f"{view.criterion} {sign} {view.threshold:g}"


def at_level(evaluation: Evaluation) -> str:
    """Return what bands and whiskers are; empty if there are none."""
    settings = evaluation.statistics
    if not has_intervals(evaluation):
        return ""
    return f"{100 * settings['level']:g} % intervals over {settings['n_units']} {plural(settings['unit'])}, each point by itself."


def has_intervals(evaluation: Evaluation) -> bool:
    """Return whether any number has an interval: they may be off, or the units too few."""
    requested = evaluation.statistics["interval"] is not None
    return requested and any(math.isfinite(row.estimate.low) for row in evaluation.rows)


def why(estimate: Estimate) -> str:
    """Return why a value is undefined, in words."""
    return "" if estimate.value == estimate.value else str(estimate.reason).replace("_", " ")
