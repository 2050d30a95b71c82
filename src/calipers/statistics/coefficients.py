# SPDX-License-Identifier: Apache-2.0
"""Coefficients of a regression, with standard error, interval and p."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.results.estimate import number
from calipers.statistics.design import Effect

F64 = NDArray[np.float64]
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Coefficient:
    """How much the response changes with one column of the design, all others held.

    The interval is ``value -+ q * se`` with q of the t distribution with ``df`` degrees of freedom,
    or of the normal distribution if ``df`` is infinite. ``p`` is two-sided, for a value of 0.
    """

    name: str
    term: str
    reference: str | None  # level that a category is compared with
    value: float
    se: float
    low: float
    high: float
    level: float
    method: str  # wald-t | wald-z | sandwich-t | none
    df: float
    p: float
    unit: str  # what stands behind the interval: a group, or "row"
    n_units: int
    n_rows: int
    reason: str | None = None  # why a number is missing: one of results.REASONS

    def as_dict(self) -> dict[str, Any]:
        """Return the coefficient for JSON; null for undefined, and for the infinite df of a normal
        distribution.
        """
        return {
            "name": self.name,
            "term": self.term,
            "reference": self.reference,
            "value": number(self.value),
            "se": number(self.se),
            "low": number(self.low),
            "high": number(self.high),
            "level": self.level,
            "method": self.method,
            "df": number(self.df),
            "p": number(self.p),
            "unit": self.unit,
            "n_units": self.n_units,
            "n_rows": self.n_rows,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class CoefficientSupport:
    """What the standard error of one coefficient rests on."""

    method: str
    df: float
    unit: str
    n_units: int
    reason: str | None = None  # why there is no interval


def quantile(level: float, df: float) -> float:
    """Return the two-sided quantile of the t distribution, or of the normal one for infinite
    ``df``.
    """
    from scipy.special import ndtri, stdtrit

    return float(ndtri((1 + level) / 2) if math.isinf(df) else stdtrit(df, (1 + level) / 2))


def two_sided(statistic: float, df: float) -> float:
    """Return the probability of a value at least that far from 0."""
    from scipy.special import ndtr, stdtr

    return float(2.0 * (ndtr(-abs(statistic)) if math.isinf(df) else stdtr(df, -abs(statistic))))


def coefficients(
    effects: Sequence[Effect],
    values: F64,
    covariance: F64,
    supports: Sequence[CoefficientSupport],
    *,
    level: float,
    n_rows: int,
) -> tuple[Coefficient, ...]:
    """Return the coefficients of all effects; a value that is NaN stays without interval."""
    rows = []
    # Rounding can leave a variance of zero slightly below it.
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0)).tolist()
    for effect, value, se, support in zip(effects, values.tolist(), errors, supports):
        method, half, p = support.method, NAN, NAN
        if support.reason is not None:
            method, se = "none", NAN
        else:
            half = quantile(level, support.df) * se
            if se != 0.0:
                p = two_sided(value / se, support.df)
        rows.append(
            Coefficient(
                name=effect.name,
                term=effect.term,
                reference=effect.reference,
                value=value,
                se=se,
                low=value - half,
                high=value + half,
                level=level,
                method=method,
                df=support.df,
                p=p,
                unit=support.unit,
                n_units=support.n_units,
                n_rows=n_rows,
                reason=support.reason,
            )
        )
    return tuple(rows)
