# SPDX-License-Identifier: Apache-2.0
"""The order of monitors under OMS labels, under OOD labels and under every tau, and whether these
orders agree. Made by `MonitorEvaluation.ranking`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.monitors.labellings import OMS, OOD
from calipers.results.estimate import number
from calipers.statistics.ranks import kendall_tau_b

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Order:
    """How monitors are ranked under one labelling."""

    paradigm: str
    tau: float | None  # None: the headline
    values: Mapping[str, float]
    higher_is_better: bool
    # share of bootstrap replicates in which a monitor is best; empty without replicates
    wins: Mapping[str, float]

    @property
    def defined(self) -> bool:
        """Whether all monitors have a value."""
        return not any(np.isnan(value) for value in self.values.values())

    @property
    def ranks(self) -> dict[str, int]:
        """Monitor -> rank, 1 is best; equal values share the better one. Empty if a monitor has no
        value.
        """
        if not self.defined:
            return {}
        ranks = {}
        for name, value in self.values.items():
            n_better = sum(self._better(other, value) for other in self.values.values())
            ranks[name] = 1 + n_better
        return ranks

    @property
    def winners(self) -> tuple[str, ...]:
        """The best monitor, or all that share the first place."""
        return tuple(name for name, rank in self.ranks.items() if rank == 1)

    def _better(self, one: float, other: float) -> bool:
        return one > other if self.higher_is_better else one < other

    def as_dict(self) -> dict[str, Any]:
        """Return the order for JSON."""
        return {
            "paradigm": self.paradigm,
            "tau": self.tau,
            "values": {name: number(value) for name, value in self.values.items()},
            "ranks": self.ranks,
            "winners": list(self.winners),
            "wins": dict(self.wins),
        }


@dataclass(frozen=True)
class MonitorRanking:
    """The orders of monitors by one quantity."""

    metric: str
    orders: tuple[Order, ...]

    def order(self, paradigm: str, tau: float | None = None) -> Order | None:
        """Return the order under one labelling, if there is one."""
        return next(
            (one for one in self.orders if (one.paradigm, one.tau) == (paradigm, tau)), None
        )

    @property
    def swept(self) -> tuple[Order, ...]:
        """The orders of the sweep over tau in which all monitors have a value."""
        return tuple(one for one in self.orders if one.tau is not None and one.defined)

    def kendall(self, one: Order | None, other: Order | None) -> float:
        """Return Kendall's tau-b between two orders; NaN if one is missing, or all monitors are
        level in one.
        """
        if one is None or other is None or not (one.defined and other.defined):
            return float("nan")
        first = np.array([one.values[name] for name in one.values])
        second = np.array([other.values[name] for name in one.values])
        sign = 1.0 if one.higher_is_better == other.higher_is_better else -1.0
        return float(kendall_tau_b(sign * first, second[None])[0])

    @property
    def agreement(self) -> float:
        """Kendall's tau-b between the order under OMS labels and that under OOD labels."""
        return self.kendall(self.order(OMS), self.order(OOD))

    @property
    def wins(self) -> dict[str, int]:
        """Monitor -> at how many values of tau it is best, alone or with others."""
        names = self.orders[0].values if self.orders else ()
        counts = dict.fromkeys(names, 0)
        for order in self.swept:
            for name in order.winners:
                counts[name] += 1
        return counts

    def as_dict(self) -> dict[str, Any]:
        """Return the ranking for JSON."""
        return {
            "metric": self.metric,
            "kendall_oms_ood": number(self.agreement),
            "wins_over_tau": self.wins,
            "n_tau": len(self.swept),
            "orders": [one.as_dict() for one in self.orders],
        }


def best_shares(names: Sequence[str], replicates: F64, higher_is_better: bool) -> dict[str, float]:
    """Return the share of replicates (B, M) in which every monitor is best; ties are shared
    equally, undefined replicates left out.
    """
    rows = replicates[~np.isnan(replicates).any(axis=1)]
    if not len(rows):
        return {}
    values = rows if higher_is_better else -rows
    best = values == values.max(axis=1, keepdims=True)
    shares = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    return dict(zip(names, shares.tolist()))
