# SPDX-License-Identifier: Apache-2.0
"""From numbers to pixels: limits of an axis, and the scale between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.plots.figures import F64, NAN, Axis, finite

I64 = NDArray[np.int64]
HUGE = 1e300  # larger numbers leave no room to subtract
PAD = 0.04  # of the span, between the data and the end of an axis


@dataclass(frozen=True, slots=True)
class PixelScale:
    """A line of pixels that stands for numbers."""

    low: float
    high: float
    start: float  # pixel of `low`
    end: float  # pixel of `high`
    log: bool = False

    def __call__(self, values: Any) -> F64:
        """Return the pixels of numbers; NaN where there is none, as for zero on a logarithmic
        scale.
        """
        numbers = np.asarray(values, np.float64)
        low, high = self.low, self.high
        if self.log:
            numbers = np.log10(np.where(numbers > 0, numbers, NAN))
            low, high = math.log10(low), math.log10(high)
        numbers = np.where(np.isfinite(numbers), np.clip(numbers, -HUGE, HUGE), NAN)
        return np.asarray(
            self.start + (numbers - low) / (high - low) * (self.end - self.start), np.float64
        )

    def at(self, value: float) -> float:
        """Return the pixel of one number."""
        return float(self(value))

    def within(self, value: float) -> float:
        """Return the pixel of one number, or that of the end it lies beyond."""
        return self.at(min(max(value, self.low), self.high))


def limits(axis: Axis, values: Sequence[Any], *, zero: bool = False) -> tuple[float, float] | None:
    """Return the ends of an axis: those it names, else those of the data with a little room.

    None if there are no numbers.

    Parameters
    ----------
    zero : bool
        Bars start at zero: it belongs to the axis.
    """
    numbers = [v for v in finite(values) if abs(v) < HUGE and (v > 0 or not axis.log)]
    if zero and not axis.log and numbers:
        numbers.append(0.0)
    low, high = _usable_end(axis.low, axis.log), _usable_end(axis.high, axis.log)
    if not numbers and (math.isnan(low) or math.isnan(high)):
        return None
    least = min(numbers) if math.isnan(low) else low
    most = max(numbers) if math.isnan(high) else high
    if zero and least == most == 0:
        return 0.0, 1.0
    if least >= most:
        return _around(least, most, axis.log)
    lower, upper = _room(least, most, axis.log)
    if not math.isnan(low):
        lower = low
    if not math.isnan(high):
        upper = high
    return lower, upper


def _usable_end(end: float, log: bool) -> float:
    return end if math.isfinite(end) and abs(end) < HUGE and (end > 0 or not log) else NAN


def _around(least: float, most: float, log: bool) -> tuple[float, float]:
    """Return limits around a single number, also if the ends came in the wrong order."""
    if least > most:
        return most, least
    if log:
        return least / 2, most * 2
    margin = abs(least) * 0.1 or 0.5
    return least - margin, most + margin


def _room(least: float, most: float, log: bool) -> tuple[float, float]:
    if log:
        room = (most / least) ** PAD
        return least / room, most * room
    room = PAD * (most - least)
    # An axis of counts or shares does not go below zero for the sake of room.
    lower = least - room if least < 0 or least > room else 0.0
    upper = most + room if most > 0 or most < -room else 0.0
    return lower, upper
