# SPDX-License-Identifier: Apache-2.0
"""Estimates inside sentences: a value, and in brackets how sure it is or why that is not known."""

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
    return _stated(estimate, percent, " %", faultless)


def as_value(estimate: Estimate, faultless: str) -> str:
    """Return ``0.84 (95 % interval 0.80 to 0.88)``; ``faultless`` as in `as_share`."""
    return _stated(estimate, two_decimals, "", faultless)


def interval_of(estimate: Estimate) -> str:
    """Return ``95 % interval``."""
    return f"{100 * estimate.level:g} % interval"


def reason_of(estimate: Estimate) -> str:
    """Return why a value or its interval is missing, as words."""
    return str(estimate.reason).replace("_", " ")


def _stated(estimate: Estimate, number: Callable[[float], str], sign: str, faultless: str) -> str:
    if estimate.low != estimate.low:
        known = f"no interval: {reason_of(estimate)}"
    elif (
        estimate.method == "clopper-pearson-units"
    ):  # the bounds are shares of units, whatever the value is
        span = f"{percent(estimate.low)} to {percent(estimate.high)}"
        known = f"{faultless.format(span=span, units=plural(estimate.unit))}, at {100 * estimate.level:g} %"
    else:
        known = f"{interval_of(estimate)} {number(estimate.low)} to {number(estimate.high)}{sign}"
    return f"{number(estimate.value)}{sign} ({known})"
