# SPDX-License-Identifier: Apache-2.0
"""Figures of a multiverse: ranks, the specification curve, which choices move the ranking, and the
winners at every level.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.plots.figures import (
    Axis,
    Blob,
    Curves,
    Figure,
    Forest,
    ForestRow,
    HeatMap,
    Line,
    Mark,
)
from calipers.plots.words import percent, short_name
from calipers.sensitivity import Multiverse
from calipers.sensitivity.multiverse_result import NOTICED
from calipers.sensitivity.wording import choice_name, choice_text, configuration_text

F64 = NDArray[np.float64]

SPAN = (0.025, 0.975)  # quantiles of the ranks
MATTERS = 0.01  # a choice that explains a smaller share of the variance is not named
TIES = "Tied models share a configuration."


def ranks(result: Multiverse) -> Blob:
    """Return how often every model had every rank over all configurations."""
    order = np.argsort(result.ranks.mean(axis=0), kind="stable").tolist()
    first = max(result.wins, key=lambda model: result.wins[model])
    low, high = np.quantile(result.ranks, SPAN, axis=0).tolist()
    share, n = percent(result.wins[first]), len(result.each)
    return Blob(
        f"{short_name(first)} wins most often, in {share} of {n} configurations",
        tuple(result.models[m] for m in order),
        _shares(result.values)[order],
        tuple(np.median(result.ranks, axis=0)[order].tolist()),
        tuple((low[m], high[m]) for m in order),
        slots=tuple(order),
        of="configurations",
        note=f"Lines span 95 % of the configurations. {_counts(result)}",
    )


def _shares(values: F64) -> F64:
    """Return (models, ranks) shares of configurations.

    Each of t tied models has each of their t ranks 1 / t times.
    """
    n, m = values.shape
    above = (values[:, None, :] > values[:, :, None]).sum(axis=2)
    equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    rank = np.arange(m)
    here = (rank >= above[:, :, None]) & (rank < (above + equal)[:, :, None])
    return np.asarray((here / equal[:, :, None]).sum(axis=0) / n)


def curve(result: Multiverse) -> Curves:
    """Return the specification curve: best minus second of the base, sorted."""
    best, second = result.best_two
    of_best = result.values[:, result.models.index(best)]
    difference = of_best - result.values[:, result.models.index(second)]
    order = np.argsort(difference, kind="stable")
    x = np.arange(1, len(order) + 1, dtype=np.float64)
    low, high = None, None
    if result.robustness is not None:
        low, high = result.robustness.difference[order].T
    name = f"{short_name(best)} − {short_name(second)}"
    base = int(np.flatnonzero(order == result.base)[0])
    lines = (
        Line("no difference", x[[0, -1]], np.zeros(2), slot=1),
        Line(name, x, difference[order], low, high, slot=0, marks=(base,)),
    )
    share = percent(float((difference > 0).mean()))
    note = (
        f"The marker is the base: {configuration_text(result.each[result.base])}. {_band(result)}"
    )
    return Curves(
        f"{short_name(best)} is better than {short_name(second)} in {share} of "
        f"{len(order)} configurations",
        Axis("configurations, from lowest to highest difference", 1.0, max(2.0, float(len(order)))),
        Axis("difference of the metric"),
        lines,
        levels=tuple(np.quantile(x, np.linspace(0, 1, 11)).tolist()),
        note=note.strip(),
    )


def _band(result: Multiverse) -> str:
    robust = result.robustness
    if robust is None:
        return ""
    return (
        "The band is the pointwise 95 % percentile interval of the difference, "
        f"resampled by {robust.unit} (n = {robust.n_units})."
    )


def choices(result: Multiverse) -> Forest:
    """Return how much of the variance of the winner's rank every choice explains by itself."""
    shares = result.explained
    winner = short_name(result.winner)
    top = [name for name, share in shares.items() if share >= MATTERS][:2]
    title = "No choice moves the order by itself"
    if top:
        most = " and ".join(f"{choice_name(name)} ({percent(shares[name])})" for name in top)
        title = f"The rank of {winner} depends most on {most}"
    rows = []
    for name, share in shares.items():
        values = {str(one[name]) for one in result.each if name in one}
        if len(values) > 1:
            rows.append(ForestRow(choice_name(name), str(len(values)), (Mark(share),)))
    note = (
        "Eta squared of the rank for one choice at a time, within the configurations in which it "
        f"has an effect; the rest is due to interactions of choices. {_counts(result)}"
    )
    axis = Axis(f"share of the variance of the rank of {winner}", 0.0, 1.0)
    return Forest(title, axis, ("share of variance",), tuple(rows), n="values", note=note)


def levels(result: Multiverse) -> HeatMap:
    """Return the share of configurations that every model wins at every value of every choice.

    Choices that change no share are left out.
    """
    names, shares = [], []
    for choice, level, _, wins in result.levels:
        if choice not in result.silent:
            names.append(choice_text(choice, level))
            shares.append([wins[model] for model in result.models])
    note = TIES
    if result.silent:
        omitted = ", ".join(map(choice_name, result.silent))
        least = f"{100 * NOTICED:.0f} %"
        note = f"{TIES} Left out, because they change no share by {least}: {omitted}."
    return HeatMap(
        _turn(result),
        Axis("model", names=result.models),
        Axis("choice", names=tuple(names)),
        np.array(shares).reshape(len(names), len(result.models)),
        "share of configurations won",
        note=note,
    )


def _turn(result: Multiverse) -> str:
    """Return the choice that moves the share of a model furthest.

    Rare levels count less, because chance moves them more: changes are weighted by the root of n.
    """
    furthest = None
    largest = 0.0
    for choice, level, n, wins in result.levels:
        for model, share in wins.items():
            move = float(abs(share - result.wins[model]) * np.sqrt(n))
            if move > largest:
                largest, furthest = move, (choice, level, model, share)
    if furthest is None:
        return "No single choice changes who wins"
    choice, level, model, share = furthest
    return (
        f"With {choice_text(choice, level)}, {short_name(model)} wins {percent(share)} of the "
        f"configurations; in all, {percent(result.wins[model])}"
    )


def _counts(result: Multiverse) -> str:
    omitted = ""
    if result.n_undefined:
        omitted = f"; {result.n_undefined} left out, because a model has no value"
    return f"{len(result.each)} configurations of {result.n_possible:,} combinations{omitted}."


FIGURES: Mapping[str, Callable[[Multiverse], Figure]] = {
    "ranks": ranks,
    "curve": curve,
    "choices": choices,
    "levels": levels,
}


def figure(result: Multiverse, name: str) -> Figure:
    """Return a figure of a multiverse as data: one of `FIGURES`."""
    if name not in FIGURES:
        raise UsageError(f"no figure {name!r} of a multiverse; {did_you_mean(name, FIGURES)}")
    return FIGURES[name](result)
