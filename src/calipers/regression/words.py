# SPDX-License-Identifier: Apache-2.0
"""Sentences on the effects of a mixed model, one each, and how its numbers are written.

In come the coefficients of a fit, out go sentences and texts; the models and their tables call
these functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from calipers.regression.design import INTERCEPT
from calipers.regression.model import Coefficient
from calipers.show.words import (
    ci_text,
    p_text,
)

MOST_DIGITS = 6
SPELT = {"iou": "IoU"}


def sentences(response: str, coefficients: Sequence[Coefficient]) -> tuple[str, ...]:
    """Return a sentence for every coefficient but the intercept."""
    name, n = SPELT.get(response, response), digits(coefficients)
    return tuple(_sentence(name, one, n) for one in coefficients if one.term != INTERCEPT)


def digits(coefficients: Sequence[Coefficient]) -> int:
    """Return how many decimals a table needs: two digits of the largest standard error."""
    errors = [one.se for one in coefficients if math.isfinite(one.se) and one.se > 0.0]
    if not errors:
        return 3
    return min(max(1 - math.floor(math.log10(max(errors))), 0), MOST_DIGITS)


def _sentence(response: str, one: Coefficient, n: int) -> str:
    """Return the sentence on one coefficient."""
    where = "(no interval)"
    if not math.isnan(one.low):
        interval = ci_text(one.level, f"{one.low:.{n}f} to {one.high:.{n}f}")
        where = f"({interval}, {p_text(one.p)})"
    amount = f"{abs(one.value):.{n}f}"
    direction = "lower" if one.value < 0 else "higher"
    if one.reference is not None:
        level = one.name.removeprefix(f"{one.term}[").removesuffix("]")
        pair = f"{one.term} {level} than with {one.term} {one.reference}"
        text = f"{response} is {amount} {direction} with {pair} {where}"
    elif one.name == one.term:
        text = f"{response} is {amount} {direction} for every step of 1 in {one.term} {where}"
    else:
        text = f"{one.name} adds {one.value:+.{n}f} to {response} {where}"
    if one.low <= 0.0 <= one.high:
        return f"{text}; the interval contains 0, so this may be chance."
    return f"{text}."
