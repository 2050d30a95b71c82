# SPDX-License-Identifier: Apache-2.0
"""Ticks of an axis: round numbers, and how they are written. `svg` draws them."""

from __future__ import annotations

import math

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MANTISSAS = ((1, 2, 5), (1, 3), (1,))  # of ticks on a logarithmic axis, from many to few
MINUS = "\N{MINUS SIGN}"
NARROW_SPACE = "\N{NARROW NO-BREAK SPACE}"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def ticks(low: float, high: float, log: bool = False, most: int = 6) -> tuple[float, ...]:
    """Return round numbers from ``low`` to ``high``, at most ``most``; none if an end is not
    finite.

    Examples
    --------
    >>> ticks(0.0, 1.0)
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    >>> ticks(0.1, 100.0, log=True)
    (0.1, 1.0, 10.0, 100.0)
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return ()
    low, high = min(low, high), max(low, high)
    if low == high:
        return (low,)
    if not math.isfinite(high - low):
        return (low, high)
    if log and low > 0:
        values = _logarithmic(low, high, max(most, 2))
        if len(values) >= 2:
            return values
    return _linear(low, high, max(most, 2))


def tick_text(value: float) -> str:
    """Return the text of a number on an axis.

    Examples
    --------
    >>> tick_text(0.125), tick_text(12.0), tick_text(3e-7)
    ('0.125', '12', '3×10⁻⁷')
    """
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    sign = MINUS if value < 0 else ""
    size = abs(value)
    if 1e-4 <= size < 1e6:
        digits = f"{size:.6f}" if size < 1 else f"{size:.6g}"
        if "." in digits:
            digits = digits.rstrip("0").rstrip(".")
        return sign + _group_digits(digits)
    mantissa, exponent = f"{size:.3e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    power = "10" + str(int(exponent)).translate(RAISED)
    return sign + (power if mantissa == "1" else f"{mantissa}×{power}")


def _group_digits(plain: str) -> str:
    whole, point, rest = plain.partition(".")
    if len(whole) < 5:  # four digits are read at a glance
        return plain
    return f"{int(whole):,}".replace(",", NARROW_SPACE) + point + rest


def _linear(low: float, high: float, most: int) -> tuple[float, ...]:
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for step in (power * factor for factor in (*STEPS, 20.0, 50.0)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            # Twelve digits: 3 * 0.1 is 0.3 again.
            return tuple(float(f"{k * step:.12g}") + 0.0 for k in range(first, last + 1))
    return (low, high)


def _logarithmic(low: float, high: float, most: int) -> tuple[float, ...]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for mantissas in MANTISSAS:
        values = [float(f"{m}e{e}") for e in range(first, last + 1) for m in mantissas]
        inside = _inside(low, high, values)
        if len(inside) <= most:
            return inside
    step = -(-len(inside) // most)
    return inside[::step]


def _inside(low: float, high: float, values: list[float]) -> tuple[float, ...]:
    slack = 1e-9
    return tuple(v for v in values if low * (1 - slack) <= v <= high * (1 + slack))
