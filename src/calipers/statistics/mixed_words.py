# SPDX-License-Identifier: Apache-2.0
"""Effects in words: one sentence each, for readers who have no use for a table of coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calipers.statistics.coefficients import Coefficient
from calipers.statistics.design import INTERCEPT

MOST_DIGITS = 6


def sentences(response: str, coefficients: Sequence[Coefficient]) -> tuple[str, ...]:
    """Return a sentence for every coefficient but the intercept."""
    return tuple(_sentence(response, one) for one in coefficients if one.term != INTERCEPT)


def digits(se: float) -> int:
    """Return how many decimals a number with this standard error deserves: two digits of the error."""
    if not math.isfinite(se) or se <= 0.0:
        return 3
    return min(max(1 - math.floor(math.log10(se)), 0), MOST_DIGITS)


def percent(level: float) -> str:
    """Return a level as people say it: 95 %."""
    return f"{100 * level:g} %"


def probability(p: float) -> str:
    """Return a p value with as many digits as anybody needs."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def _sentence(response: str, one: Coefficient) -> str:
    n = digits(one.se)
    where = f"({percent(one.level)} interval {one.low:.{n}f} to {one.high:.{n}f}, {probability(one.p)})"
    if math.isnan(one.low):
        where = "(no interval)"
    amount, direction = f"{abs(one.value):.{n}f}", "lower" if one.value < 0 else "higher"
    unclear = one.low <= 0.0 <= one.high
    if one.reference is not None:
        level = one.name.removeprefix(f"{one.term}[").removesuffix("]")
        pair = f"{one.term} {level} than with {one.term} {one.reference}"
        said = f"{response} is {amount} {direction} with {pair} {where}"
    elif one.name == one.term:
        said = f"{response} is {amount} {direction} for every step of 1 in {one.term} {where}"
    else:
        said = f"{one.name} adds {one.value:+.{n}f} to {response} {where}"
    return said + ("; the interval holds 0, so this may be chance." if unclear else ".")
