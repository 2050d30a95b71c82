# SPDX-License-Identifier: Apache-2.0
"""How many digits of a number are displayed."""

from __future__ import annotations

import math

SMALL, LARGE = 10, 100


def short_number(value: float) -> str:
    """Return a number for a reader: 0.123, 1.234, 12.3, 123; a count of two or more without
    decimals; empty if undefined.
    """
    if math.isnan(value):
        return ""
    if abs(value) >= LARGE or (abs(value) > 1 and value == round(value)):
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < SMALL else f"{value:.1f}"


def percent(share: float) -> str:
    """Return a share in percent, without the sign: 0, 0.2, 57, 99.8, 100.

    Only nothing is 0, and only all is 100: rounding never turns "almost" into "all".
    """
    whole = 100 * share
    if 0 < whole < 0.05:
        return "under 0.1"
    if 99.95 <= whole < 100:
        return "over 99.9"
    if 0 < whole < 1 or 99 < whole < 100:
        return f"{whole:.1f}"
    return f"{whole:.0f}"


def two_decimals(value: float) -> str:
    """Return a number with two decimals; what rounds to zero has no sign."""
    return f"{round(value, 2) + 0.0:.2f}"
