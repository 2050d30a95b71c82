# SPDX-License-Identifier: Apache-2.0
"""Estimates inside sentences: a value, and in brackets its interval or why it has none."""

from __future__ import annotations

from collections.abc import Callable

from calipers.results import Estimate
from calipers.results.digits import percent, two_decimals
from calipers.statistics.weights import plural


def as_share(estimate: Estimate, faultless: str) -> str:
    """Return ``84 % (95 % interval 80 to 88 %)``.

    Parameters
    ----------
    estimate
        A share with a value; whoever may have none says so before.
    faultless
        What the bound on units without an error says (clopper-pearson-units), such as
        ``"{span} % of {units} are without a fault"``.
    """
    return _estimate_text(estimate, percent, " %", faultless)


def as_value(estimate: Estimate, faultless: str) -> str:
    """Return ``0.84 (95 % interval 0.80 to 0.88)``; ``faultless`` as in `as_share`."""
    return _estimate_text(estimate, two_decimals, "", faultless)


def interval_of(estimate: Estimate) -> str:
    """Return ``95 % interval``."""
    return f"{100 * estimate.level:g} % interval"


def reason_of(estimate: Estimate) -> str:
    """Return why a value or its interval is missing, as words."""
    return str(estimate.reason).replace("_", " ")


def _estimate_text(
    estimate: Estimate, number: Callable[[float], str], sign: str, faultless: str
) -> str:
    """Return the value with its interval, bound or reason in brackets."""
    if estimate.low != estimate.low:
        certainty = f"no interval: {reason_of(estimate)}"
    elif estimate.method == "clopper-pearson-units":
        # The bounds are shares of units, whatever the value is.
        span = f"{percent(estimate.low)} to {percent(estimate.high)}"
        bound = faultless.format(span=span, units=plural(estimate.unit))
        certainty = f"{bound}, at {100 * estimate.level:g} %"
    else:
        bounds = f"{number(estimate.low)} to {number(estimate.high)}{sign}"
        certainty = f"{interval_of(estimate)} {bounds}"
    return f"{number(estimate.value)}{sign} ({certainty})"
