# SPDX-License-Identifier: Apache-2.0
"""The smallest value of a smooth function of a few variables within bounds, and where a function
crosses zero.

Newton's method on a handful of variables needs no library: loading one takes longer than the
search, and linear algebra with threads of its own is slow on matrices this small.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
ValueAndSlope = Callable[[F64], tuple[float, F64]]

STEPS = 200
HALVINGS = 40
DIFFERENCE = 1e-5
SUFFICIENT = 1e-4  # of the decrease that the slope promises
FLATTEST = 1e-8  # curvature relative to the largest


def minimise(
    function: ValueAndSlope, start: F64, lower: F64, upper: F64, gain: float
) -> tuple[F64, float, bool]:
    """Return the place and the value of a minimum, and whether nothing above ``gain`` was left to
    win there.

    Notes
    -----
    Projected Newton: variables on a bound that the slope presses against stay; the others take the
    Newton step, with the curvature made positive, halved until the value falls enough. The
    curvature comes from differences of slopes.
    """
    at = np.clip(start, lower, upper)
    value, slope = function(at)
    for _ in range(STEPS):
        pressed = ((at <= lower) & (slope >= 0.0)) | ((at >= upper) & (slope <= 0.0))
        free = np.flatnonzero(~pressed)
        if not len(free):
            return at, value, True
        step = np.zeros(len(at))
        step[free] = _newton(function, at, slope, free, upper)
        promised = -float(slope @ step)
        if promised < gain:
            return at, value, True
        step *= min(
            1.0,
            float(
                np.min((4.0 * (1.0 + np.abs(at[free]))) / np.maximum(np.abs(step[free]), 1e-300))
            ),
        )
        length = 1.0
        for _ in range(HALVINGS):
            there = np.clip(at + length * step, lower, upper)
            new, new_slope = function(there)
            if new <= value + SUFFICIENT * float(slope @ (there - at)):
                break
            length /= 2.0
        else:
            return at, value, promised < 1e3 * gain  # the value's own rounding is all that is left
        at, value, slope = there, new, new_slope
    return at, value, False


def _newton(
    function: ValueAndSlope, at: F64, slope: F64, free: NDArray[np.intp], upper: F64
) -> F64:
    """Return the Newton step of the free variables."""
    curvature = np.empty((len(free), len(free)))
    for row, k in enumerate(free):
        moved = at.copy()
        moved[k] += DIFFERENCE * (0.01 + abs(at[k])) * (1.0 if at[k] < upper[k] else -1.0)
        curvature[row] = (function(moved)[1][free] - slope[free]) / (moved[k] - at[k])
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2.0)
    values = np.maximum(np.abs(values), max(FLATTEST * float(np.abs(values).max()), 1e-12))
    return np.asarray(-vectors @ ((vectors.T @ slope[free]) / values))


def crossing(
    function: Callable[[float], float], low: float, high: float, tolerance: float
) -> float:
    """Return where a function, below 0 at one of two places and above at the other, is 0 up to the
    tolerance.

    Notes
    -----
    Regula falsi in the Illinois variant: the value at an end that stays is halved, so that both
    ends move.
    """
    at_low, at_high = function(low), function(high)
    middle = low
    for _ in range(STEPS):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        value = function(middle)
        if abs(value) < tolerance:
            break
        if (value < 0.0) == (at_high < 0.0):
            high, at_high, at_low = middle, value, at_low / 2.0
        else:
            low, at_low, at_high = middle, value, at_high / 2.0
    return middle
