# SPDX-License-Identifier: Apache-2.0
"""The order of monitors: who leads, and who is first under which labels and at which tau."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.pairs import LOWER_IS_BETTER
from calipers.monitors.result import MonitorEvaluation
from calipers.plots.figures import Axis, HeatMap
from calipers.plots.words import short_name

I64 = NDArray[np.int64]

MOST_LINES = 5  # monitors in one figure of curves
MOST_TAUS = 8  # columns of the ranking


def leading(found: MonitorEvaluation, most: int = MOST_LINES) -> tuple[str, ...]:
    """Return the best monitors by AUROC, the best first.

    It is AUROC under OMS labels; its mean over tau if there is no headline; under OOD labels only
    if there is nothing else, because finding failures is what a monitor is for.
    """
    if OMS in found.paradigms or not found.taus:
        value = {
            name: found.get("AUROC", name, found.paradigms[0]).value for name in found.monitors
        }
    else:
        table = found.sweep("AUROC").value
        value = {
            name: float(np.nan_to_num(row, nan=0.0).mean())
            for name, row in zip(found.monitors, table)
        }
    order = sorted(
        found.monitors, key=lambda name: -value[name] if not math.isnan(value[name]) else math.inf
    )
    return tuple(order[:most])


def ranking(found: MonitorEvaluation, metric: str = "AUROC") -> HeatMap:
    """Return the rank and value of every monitor under both kinds of labels and at some values of
    tau.
    """
    orders = found.ranking(metric).orders
    heads = [one for one in orders if one.tau is None]
    swept = [one for one in orders if one.tau is not None and one.defined]
    swept = [swept[k] for k in spaced_indices(len(swept), MOST_TAUS).tolist()]
    shown = [*heads, *swept]
    names = leading(found, len(found.monitors))
    values = np.array([[one.values[name] for one in shown] for name in names], np.float64)
    words = tuple(tuple(_place(one, name) for one in shown) for name in names)
    columns = tuple(_column(found, one) for one in shown)
    note = f"Each cell: rank, and {metric}. Headlines first, then tau. {_kendall(found, metric)}"
    shape = values.reshape(len(names), len(shown))
    good = metric not in LOWER_IS_BETTER
    return HeatMap(
        _ranking_title(found, metric),
        Axis("labels", names=columns),
        Axis("monitor", names=names),
        shape if good else 1.0 - shape,
        metric if good else f"1 - {metric}",
        low=0.0,
        high=1.0,
        words=words,
        note=note.strip(),
    )


def _place(order: Any, name: str) -> str:
    value = order.values[name]
    if math.isnan(value):
        return "–"
    rank = order.ranks.get(name)
    return f"{value:.2f}" if rank is None else f"{rank}. ({value:.2f})"


def _column(found: MonitorEvaluation, order: Any) -> str:
    if order.tau is not None:
        return f"tau {order.tau:.3g}"
    if order.paradigm == OOD:
        return "OOD"
    return "OMS" if found.tau is None or found.scope.binary else f"OMS at {found.tau:g}"


def _ranking_title(found: MonitorEvaluation, metric: str) -> str:
    table = found.ranking(metric)
    oms, ood = table.order(OMS), table.order(OOD)
    if oms is not None and ood is not None and oms.winners and ood.winners:
        same = set(oms.winners) == set(ood.winners)
        first = join_names(set(oms.winners))
        return (
            f"OMS and OOD labels agree on the best monitor: {first}"
            if same
            else (
                f"Whoever chooses by OOD labels takes {join_names(set(ood.winners))}; the failures are found by {first}"
            )
        )
    if table.swept:
        wins = table.wins
        best = max(wins, key=lambda name: wins[name])
        return f"{short_name(best)} is first at {wins[best]} of {len(table.swept)} values of tau"
    one = oms or ood
    return (
        f"{join_names(set(one.winners))} is first"
        if one is not None and one.winners
        else "No order can be stated"
    )


def _kendall(found: MonitorEvaluation, metric: str) -> str:
    value = found.ranking(metric).agreement
    return (
        ""
        if math.isnan(value)
        else f"Kendall's tau between the OMS and the OOD order: {value:.2f}."
    )


def join_names(names: set[str]) -> str:
    """Return the names of monitors that share a place."""
    return " and ".join(short_name(name) for name in sorted(names))


def spaced_indices(n: int, most: int) -> I64:
    """Return at most so many of n indices, the first and the last among them."""
    if n <= most:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, most).round().astype(np.int64))
