# SPDX-License-Identifier: Apache-2.0
"""Cells of the coverage table: what is counted per interval, when a cell is inside, and the table.

An experiment makes a `Tally` per number, adds the interval of every simulated data set to it, and
gets a `CoverageCell`. `Effort` says how much is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from calipers.statistics.intervals import FEW_UNITS
from calipers.statistics.weights import Units

# The gate at a nominal 95 %.
LOWEST, HIGHEST = 0.90, 0.995
WIDEST = 1.5  # mean width, in widths of the true sampling interval
NOMINAL = 0.95

# Why cells lie outside: see `CoverageCell.why_outside`.
NOT_POSSIBLE = "few cheap errors, one of which could cost a reference; no honest interval is inside"
WITHIN_ERROR = "within two Monte-Carlo errors of .90"
TOO_OFTEN = "covers more often than it must"
UNEQUAL_COSTS = "few mistakes, each of which may cost anything from half a reference to two"
NEAR_PERFECTION = (
    "near perfection: many data sets have few errors or none, and what varies has few steps"
)
FEW_UNITS_VARY = "few units: their standard errors vary much"
UNEXPLAINED = "not explained"
COSTS_DIFFER = ("dAP/loc", "dAP/cls")  # gains whose errors cost most unequally
LESS_IS_BETTER = ("dAP", "FP/image", "E-AURC", "AURC", "FPR95")
NEARLY_PERFECT = 0.06  # so far from the best value, or less


@dataclass(frozen=True)
class Effort:
    """How much is simulated: data sets with an interval, replicates of each, and further values."""

    simulations: int = 300
    replicates: int = 400
    extra: int = 700  # data sets without interval, for how much the value really varies
    seed: int = 90_000
    images_of_truth: int = 100_000

    def large(self, n_images: int) -> int:
        """Return how many data sets make one that hardly varies."""
        return max(self.images_of_truth // n_images, 1)


@dataclass(frozen=True)
class CoverageCell:
    """How the intervals of one number did in one design."""

    family: str
    metric: str
    design: str
    unit: str
    n_units: int
    truth: float
    simulations: int
    stated: float  # share of the data sets with an interval
    coverage: float  # share of these intervals that hold the truth
    width: float  # mean width of the intervals / width of the true sampling interval
    without: float  # share of the intervals that leave out their own value
    sampling: float = math.nan  # width of the true sampling interval
    least: float = math.nan  # mean width that every honest interval has at least, like `width`

    @property
    def mc_error(self) -> float:
        """The standard error of the coverage that comes from the number of simulations."""
        number = self.simulations * self.stated
        if not number:
            return math.nan
        return math.sqrt(self.coverage * (1 - self.coverage) / number)

    @property
    def holds(self) -> bool:
        """Whether the coverage is inside the gate."""
        return LOWEST <= self.coverage <= HIGHEST

    @property
    def inside(self) -> bool:
        """Whether coverage and width are inside the gate."""
        return self.holds and not self.width > WIDEST

    @property
    def possible(self) -> bool:
        """Whether an honest interval could be inside, as far as is known."""
        return not self.least > WIDEST

    @property
    def why_outside(self) -> str:
        """Why a cell lies outside, as far as is known; empty if it is inside."""
        if self.inside:
            return ""
        if not self.possible:
            return NOT_POSSIBLE
        if self.coverage < LOWEST:
            is_near = self.coverage + 2 * self.mc_error >= LOWEST
            return WITHIN_ERROR if is_near else UNEXPLAINED
        if self.metric.startswith(COSTS_DIFFER):
            return UNEQUAL_COSTS
        # How far from perfect the value is.
        away = self.truth if self.metric.startswith(LESS_IS_BETTER) else 1.0 - self.truth
        if away <= NEARLY_PERFECT:
            return NEAR_PERFECTION
        if self.n_units < FEW_UNITS:
            return FEW_UNITS_VARY
        return TOO_OFTEN if self.coverage > HIGHEST else UNEXPLAINED

    def __str__(self) -> str:
        mark = " " if self.inside else "*"
        return (
            f"{mark} {self.family:<18} {self.metric:<20} {self.design:<40} {self.n_units:>4} "
            f"{self.truth:>7.4f} {self.stated:>6.3f} {self.coverage:>6.3f} +- {self.mc_error:.3f} "
            f"{self.width:>6.2f}"
        ) + ("" if math.isnan(self.least) else f" (least {self.least:.2f})")


@dataclass
class Tally:
    """The values and intervals of one number over simulated data sets."""

    truth: float
    values: list[float] = field(default_factory=list)
    bounds: list[tuple[float, float, float]] = field(default_factory=list)

    def add(self, value: float, low: float, high: float) -> None:
        """Add a value with its interval; NaN bounds if it has none."""
        self.add_value(value)
        self.bounds.append((value, low, high))

    def add_value(self, value: float) -> None:
        """Add a value that has no interval; undefined ones are left out."""
        if not math.isnan(value):
            self.values.append(value)

    def cell(self, family: str, metric: str, design: str, units: Units) -> CoverageCell:
        """Return what the intervals did."""
        value, low, high = np.array(self.bounds, np.float64).T
        stated = ~np.isnan(low)
        value, low, high = value[stated], low[stated], high[stated]
        bottom, top = np.quantile(self.values, [(1 - NOMINAL) / 2, (1 + NOMINAL) / 2])
        coverage, width, without = math.nan, math.nan, math.nan
        if stated.any():
            # A truth of exactly 0 or 1 is known up to rounding only.
            eps = 1e-9
            coverage = float(((low <= self.truth + eps) & (self.truth - eps <= high)).mean())
            without = float(((value < low - eps) | (value > high + eps)).mean())
            width = float((high - low).mean() / (top - bottom)) if top > bottom else math.inf
        return CoverageCell(
            family=family,
            metric=metric,
            design=design,
            unit=units.name,
            n_units=units.number,
            truth=self.truth,
            simulations=len(self.bounds),
            stated=float(stated.mean()),
            coverage=coverage,
            width=width,
            without=without,
            sampling=float(top - bottom),
        )


def by_family(cells: Sequence[CoverageCell]) -> dict[str, tuple[int, int, float, float]]:
    """Return per family: cells, cells inside the gate, lowest and highest coverage."""
    result = {}
    for family in dict.fromkeys(cell.family for cell in cells):
        members = [cell for cell in cells if cell.family == family]
        coverages = [cell.coverage for cell in members]
        n_inside = sum(cell.inside for cell in members)
        result[family] = (len(members), n_inside, min(coverages), max(coverages))
    return result
