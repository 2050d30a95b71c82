# SPDX-License-Identifier: Apache-2.0
"""How many digits of a number are shown."""

from __future__ import annotations

import math

SMALL, LARGE = 10, 100


def shown(value: float) -> str:
    """Return a number for a reader: 0.123, 1.234, 12.3, 123; a count of two or more as it is; empty if undefined."""
    if math.isnan(value):
        return ""
    if abs(value) >= LARGE or (abs(value) > 1 and value == round(value)):
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < SMALL else f"{value:.1f}"
