# SPDX-License-Identifier: Apache-2.0
"""The ranking of monitors: which lead, and which is first under which labels and at which tau."""

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


def leading(result: MonitorEvaluation, most: int = MOST_LINES) -> tuple[str, ...]:
    """Return the best monitors by AUROC, the best first.

    It is AUROC under OMS labels, or its mean over tau if no tau was given. Without OMS labels it is
    AUROC under OOD labels: finding failures is what a monitor is for, so OMS labels come first.
    """
    if OMS in result.paradigms or not result.taus:
        paradigm = result.paradigms[0]
        value = {name: result.get("AUROC", name, paradigm).value for name in result.monitors}
    else:
        table = np.nan_to_num(result.sweep("AUROC").value, nan=0.0)
        value = {name: float(row.mean()) for name, row in zip(result.monitors, table)}
    for name in result.monitors:
        if math.isnan(value[name]):
            value[name] = -math.inf
    order = sorted(result.monitors, key=lambda name: -value[name])
    return tuple(order[:most])


def ranking(result: MonitorEvaluation, metric: str = "AUROC") -> HeatMap:
    """Return rank and value of every monitor under both kinds of labels and at some taus."""
    orders = result.ranking(metric).orders
    heads = [one for one in orders if one.tau is None]
    orders_at_taus = [one for one in orders if one.tau is not None and one.defined]
    columns = heads + [
        orders_at_taus[k] for k in spaced_indices(len(orders_at_taus), MOST_TAUS).tolist()
    ]
    names = leading(result, len(result.monitors))
    values = np.empty((len(names), len(columns)))
    words = []
    for r, name in enumerate(names):
        values[r] = [one.values[name] for one in columns]
        words.append(tuple(_place(one, name) for one in columns))
    label = metric
    if metric in LOWER_IS_BETTER:  # dark cells are good ones
        values, label = 1.0 - values, f"1 - {metric}"
    note = f"Each cell: rank, and {metric}. Headlines first, then tau. {_kendall(result, metric)}"
    return HeatMap(
        _ranking_title(result, metric),
        Axis("labels", names=tuple(_column(result, one) for one in columns)),
        Axis("monitor", names=names),
        values,
        label,
        low=0.0,
        high=1.0,
        words=tuple(words),
        note=note.strip(),
    )


def _place(order: Any, name: str) -> str:
    value = order.values[name]
    if math.isnan(value):
        return "–"
    rank = order.ranks.get(name)
    return f"{value:.2f}" if rank is None else f"{rank}. ({value:.2f})"


def _column(result: MonitorEvaluation, order: Any) -> str:
    if order.tau is not None:
        return f"tau {order.tau:.3g}"
    if order.paradigm == OOD:
        return "OOD"
    return "OMS" if result.tau is None or result.scope.binary else f"OMS at {result.tau:g}"


def _ranking_title(result: MonitorEvaluation, metric: str) -> str:
    table = result.ranking(metric)
    oms, ood = table.order(OMS), table.order(OOD)
    if oms is not None and ood is not None and oms.winners and ood.winners:
        first = join_names(set(oms.winners))
        if set(oms.winners) == set(ood.winners):
            return f"OMS and OOD labels agree on the best monitor: {first}"
        other = join_names(set(ood.winners))
        return f"OOD labels favour {other}, but {first} finds the failures best"
    if table.swept:
        wins = table.wins
        best = max(wins, key=lambda name: wins[name])
        return f"{short_name(best)} is first at {wins[best]} of {len(table.swept)} values of tau"
    one = oms or ood
    if one is None or not one.winners:
        return "No order can be stated"
    return f"{join_names(set(one.winners))} is first"


def _kendall(result: MonitorEvaluation, metric: str) -> str:
    value = result.ranking(metric).agreement
    if math.isnan(value):
        return ""
    return f"Kendall's tau between the OMS and the OOD order: {value:.2f}."


def join_names(names: set[str]) -> str:
    """Return the names of monitors that share a place."""
    return " and ".join(short_name(name) for name in sorted(names))


def spaced_indices(n: int, most: int) -> I64:
    """Return at most so many of n indices, the first and the last among them."""
    if n <= most:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, most).round().astype(np.int64))
