# SPDX-License-Identifier: Apache-2.0
"""All values that scores of two binary maps can take, by counting.

Every 2x2 table (n00, n01, n10, n11) of up to N instances is built, where n10 counts the instances
that only the first model calls positive. The module also has the moves of one instance between
cells, and the lines of figure 9 (appendix C).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calipers.statistics.contingency import agreement_scores

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

MOST, QUICK_MOST = 24, 12  # instances of the largest tables
SCORES = ("PJ", "PO", "APO", "HAPJ", "APJ", "AJ")
ROUNDING = 1e-12
# What can happen to one instance: (n00, n01, n10, n11) after, less before.
MOVES: Mapping[str, tuple[int, int, int, int]] = {
    "an instance that both call is added": (0, 0, 0, 1),
    "an instance that neither calls is added": (1, 0, 0, 0),
    "only one called it, now both do": (0, 0, -1, 1),
    "neither called it, now both do": (-1, 0, 0, 1),
    "only one called it, now neither does": (1, 0, -1, 0),
}
ADDED, ADDED_NEGATIVE, JOINED, TURNED, DROPPED = MOVES
START, STEP, STEPS = 50, 5, 10
# Figure 9: what one step of 5 instances does to (n00, n01, n10, n11).
LINES: Mapping[str, tuple[int, int, int, int]] = {
    "blue": (0, 0, -1, 1),
    "green": (-1, 0, 0, 1),
    "black dotted": (0, -1, 1, 0),
    "red dotted": (-1, 0, 1, 0),
}


def tables_of(n: int) -> F64:
    """Return (T, 4): every (n00, n01, n10, n11) with the sum n."""
    # n00, n01 and n10 run over all values; n11 is what remains of n.
    grid = np.stack(np.meshgrid(*[np.arange(n + 1)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    cells = grid[grid.sum(axis=1) <= n]
    return np.column_stack([cells, n - cells.sum(axis=1)]).astype(np.float64)


def score_values(tables: F64, name: str) -> F64:
    """Return (T,): a score of every table."""
    return np.atleast_1d(np.asarray(agreement_scores(*tables.T)[name], np.float64))


@dataclass(frozen=True)
class Extreme:
    """The lowest or highest value of a score for one N, and every table that has it."""

    value: float
    tables: F64  # (m, 4)


@dataclass(frozen=True, slots=True)
class MoveEffect:
    """The effect of a move on a score, over all tables in which the move is possible and the score
    is defined before and after it.
    """

    n: int
    rises: int
    stays: int
    falls: int
    worst: float  # the largest fall
    example: tuple[int, int, int, int]  # the table before it

    @property
    def monotone(self) -> bool:
        """Whether the score never falls."""
        return self.falls == 0


@dataclass(frozen=True)
class Counting:
    """All 2x2 tables of 1 to ``most`` instances."""

    most: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of instances."""
        return tuple(range(1, self.most + 1))

    @cached_property
    def by_size(self) -> dict[int, F64]:
        """N -> (T, 4): the tables of N instances."""
        return {n: tables_of(n) for n in self.sizes}

    @cached_property
    def tables(self) -> F64:
        """(T, 4): the tables of all sizes."""
        return np.concatenate(list(self.by_size.values()))

    def value(self, name: str) -> F64:
        """Return a score of all tables."""
        return score_values(self.tables, name)

    def extreme(self, name: str, n: int, *, low: bool) -> Extreme:
        """Return the lowest or the highest value among tables of ``n`` instances."""
        values = score_values(self.by_size[n], name)
        if np.isnan(values).all():
            return Extreme(float("nan"), np.empty((0, 4)))
        end = float(np.nanmin(values) if low else np.nanmax(values))
        with np.errstate(invalid="ignore"):
            return Extreme(end, self.by_size[n][np.abs(values - end) < ROUNDING])

    def move_effect(self, name: str, move: str) -> MoveEffect:
        """Return the effect of a move on a score."""
        step = np.array(MOVES[move], np.float64)
        before = self.tables[(self.tables + step >= 0).all(axis=1)]
        change = score_values(before + step, name) - score_values(before, name)
        defined = ~np.isnan(change)
        before, change = before[defined], change[defined]
        worst = int(np.argmin(change)) if len(change) else 0
        rises, falls = int((change > ROUNDING).sum()), int((change < -ROUNDING).sum())
        n00, n01, n10, n11 = (int(count) for count in before[worst])
        stays = len(change) - rises - falls
        return MoveEffect(
            len(change), rises, stays, falls, max(0.0, -float(change[worst])), (n00, n01, n10, n11)
        )


def lines(name: str = "APJ") -> dict[str, F64]:
    """Return the lines of figure 9: a score after 0, 1, ..., 10 steps."""
    steps = STEP * np.arange(STEPS + 1, dtype=np.float64)[:, None]
    return {
        line: score_values(START + steps * np.array(change, np.float64), name)
        for line, change in LINES.items()
    }


def last_step(line: str) -> tuple[int, int, int, int]:
    """Return (n00, n01, n10, n11) at the end of a line of figure 9."""
    n00, n01, n10, n11 = (START + STEP * STEPS * change for change in LINES[line])
    return n00, n01, n10, n11
