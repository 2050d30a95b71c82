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
TAIL = 15  # of them from its end


def short_name(name: str, longest: int = LONGEST, tail: int = TAIL) -> str:
    """Return a name that fits a title; a long one loses its middle.

    Names of one family differ at their ends: versions and folds stand there.
    """
    if len(name) <= longest:
        return name
    return f"{name[: longest - tail - 1]}…{name[-tail:]}"


def percent(share: float) -> str:
    """Return ``84 %``, with a decimal near both ends; only 0 is 0 %, and only 1 is 100 %."""
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
    """Return when a prediction is a hit: ``box-iou >= 0.5``, ``centre-distance <= 10``."""
    criterion = registry.resolve("criterion", view.criterion)
    if criterion.yes_no:
        return view.criterion
    if criterion.distance:
        sign = "<" if view.strict else "<="
    else:
        # Every pair has an overlap of at least 0, so a threshold of 0 means above 0.
        sign = ">" if view.strict or not view.threshold else ">="
    return f"{view.criterion} {sign} {view.threshold:g}"


def at_level(evaluation: Evaluation) -> str:
    """Return what bands and whiskers are; empty if there are none."""
    if not has_intervals(evaluation):
        return ""
    settings = evaluation.statistics
    units = f"{settings['n_units']} {plural(settings['unit'])}"
    return f"Pointwise {100 * settings['level']:g} % intervals over {units}."


def has_intervals(evaluation: Evaluation) -> bool:
    """Return whether any number has an interval: they may be off, or the units too few."""
    requested = evaluation.statistics["interval"] is not None
    return requested and any(math.isfinite(row.estimate.low) for row in evaluation.rows)


def why(estimate: Estimate) -> str:
    """Return why a value is undefined, in words; empty if it is defined."""
    if not math.isnan(estimate.value):
        return ""
    return str(estimate.reason).replace("_", " ")
