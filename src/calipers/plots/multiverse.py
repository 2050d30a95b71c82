# SPDX-License-Identifier: Apache-2.0
"""The multiverse in figures: ranks, the specification curve, what moves the order, and who wins at
which level.
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
from calipers.statistics.weights import plural

F64 = NDArray[np.float64]

SPAN = (0.025, 0.975)  # of the ranks
MATTERS = 0.01  # of the variance
TIES = "Models that tie share a configuration."


def ranks(result: Multiverse) -> Blob:
    """Return how often every model had every rank over all configurations; models that tie share
    their ranks.
    """
    order = np.argsort(result.ranks.mean(axis=0), kind="stable")
    first = max(result.wins, key=lambda model: result.wins[model])
    low, high = np.quantile(result.ranks, SPAN, axis=0)
    return Blob(
        f"{short_name(first)} wins most often, in {percent(result.wins[first])} of {len(result.each)} configurations",
        tuple(result.models[m] for m in order),
        _shares(result.values)[order],
        tuple(float(value) for value in np.median(result.ranks, axis=0)[order]),
        tuple((float(low[m]), float(high[m])) for m in order),
        slots=tuple(int(m) for m in order),
        of="configurations",
        note=f"Lines span 95 % of the configurations. {_counts(result)}",
    )


def _shares(values: F64) -> F64:
    """Return (models, ranks) the share of configurations; t models that tie have each of their t
    ranks 1 / t times.
    """
    n, m = values.shape
    above = (values[:, None, :] > values[:, :, None]).sum(axis=2)
    equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    rank = np.arange(m)
    here = (rank >= above[:, :, None]) & (rank < (above + equal)[:, :, None])
    return np.asarray((here / equal[:, :, None]).sum(axis=0) / n)


def curve(result: Multiverse) -> Curves:
    """Return the specification curve: best minus second of the base in every configuration, from
    lowest to highest.
    """
    best, second = result.best_two
    apart = (
        result.values[:, result.models.index(best)] - result.values[:, result.models.index(second)]
    )
    order = np.argsort(apart, kind="stable")
    x = np.arange(1, len(order) + 1, dtype=np.float64)
    low, high = (None, None) if result.robustness is None else result.robustness.difference[order].T
    name = f"{short_name(best)} − {short_name(second)}"
    at = int(np.flatnonzero(order == result.base)[0])
    lines = (
        Line("no difference", x[[0, -1]], np.zeros(2), slot=1),
        Line(name, x, apart[order], low, high, slot=0, marks=(at,)),
    )
    return Curves(
        f"{short_name(best)} is better than {short_name(second)} in {percent(float((apart > 0).mean()))} of "
        f"{len(order)} configurations",
        Axis("configurations, from lowest to highest difference", 1.0, max(2.0, float(len(order)))),
        Axis("difference of the metric"),
        lines,
        levels=tuple(np.quantile(x, np.linspace(0, 1, 11)).tolist()),
        note=f"The marker is the base: {configuration_text(result.each[result.base])}. {_band(result)}".strip(),
    )


def _band(result: Multiverse) -> str:
    if result.robustness is None:
        return ""
    units = f"{result.robustness.n_units} {plural(result.robustness.unit)}"
    return f"The band is the 95 % percentile interval of every difference by itself, over {units}."


def choices(result: Multiverse) -> Forest:
    """Return how much of the variance of the winner's rank every choice explains by itself."""
    parts = result.explained
    top = [name for name, part in parts.items() if part >= MATTERS][:2]
    most = " and ".join(f"{choice_name(name)} ({percent(parts[name])})" for name in top)
    title = (
        f"The rank of {short_name(result.winner)} hangs most on {most}"
        if top
        else "No choice moves the order by itself"
    )
    levels = {name: len({str(one[name]) for one in result.each if name in one}) for name in parts}
    names = [name for name in parts if levels[name] > 1]
    rows = tuple(
        ForestRow(choice_name(name), str(levels[name]), (Mark(parts[name]),)) for name in names
    )
    note = (
        "Eta squared of the rank in one choice after the other, within the configurations in which it has an effect; "
        f"what is left comes of choices together. {_counts(result)}"
    )
    axis = Axis(f"share of the variance of the rank of {short_name(result.winner)}", 0.0, 1.0)
    return Forest(title, axis, ("share of variance",), rows, n="values", note=note)


def levels(result: Multiverse) -> HeatMap:
    """Return the share of configurations that every model wins at every value of every choice that
    changes it.
    """
    entries = [entry for entry in result.levels if entry[0] not in result.silent]
    names = tuple(choice_text(choice, level) for choice, level, *_ in entries)
    shares = np.array([[wins[model] for model in result.models] for *_, wins in entries])
    without = ", ".join(map(choice_name, result.silent))
    omitted = (
        f" Left out, because they change no share by {NOTICED:.0%}".replace("%", " %")
        if without
        else ""
    )
    return HeatMap(
        _turn(result),
        Axis("model", names=result.models),
        Axis("choice", names=names),
        shares.reshape(len(entries), len(result.models)),
        "share of configurations won",
        note=f"{TIES}{omitted}: {without}." if without else TIES,
    )


def _turn(result: Multiverse) -> str:
    """Return the choice that moves the share of a model furthest; rare ones count less, as chance
    moves them more.
    """
    moves = [
        (abs(share - result.wins[model]) * np.sqrt(n), choice, level, model, share)
        for choice, level, n, wins in result.levels
        for model, share in wins.items()
    ]
    furthest = max(moves, key=lambda move: move[0], default=None)
    if furthest is None or furthest[0] == 0:
        return "No single choice changes who wins"
    _, choice, level, model, share = furthest
    here, all_in_all = percent(share), percent(result.wins[model])
    return f"With {choice_text(choice, level)}, {short_name(model)} wins {here} of the configurations; in all, {all_in_all}"


def _counts(result: Multiverse) -> str:
    omitted = (
        f"; {result.n_undefined} left out, because a model has no value"
        if result.n_undefined
        else ""
    )
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
