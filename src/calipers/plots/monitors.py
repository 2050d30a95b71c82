# SPDX-License-Identifier: Apache-2.0
"""Monitors in figures: how well they order images, what risk is left, and how that hangs on tau."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.result import MonitorEvaluation
from calipers.plots.figures import Axis, Curves, Figure, Forest, ForestRow, Line, Mark
from calipers.plots.monitors_alarms import IMAGES, outcomes, scores
from calipers.plots.monitors_orders import join_names, leading, ranking, spaced_indices
from calipers.plots.words import percent, short_name, why
from calipers.results import Estimate
from calipers.statistics.weights import plural

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

MOST_POINTS = 200  # of a curve
GREY, PALE = 6, 5  # slots of what is no monitor
LABELS = {OMS: "OMS", OOD: "OOD"}
WANTED = {OMS: "unsafe", OOD: "out of distribution"}


def auroc(found: MonitorEvaluation) -> Forest:
    """Return AUROC of every monitor under both kinds of labels."""
    paradigms = _stated(found)
    rows = []
    for name in found.monitors:
        each = [found.get("AUROC", name, paradigm) for paradigm in paradigms]
        behind = " / ".join(str(e.n_references) for e in each)
        rows.append(
            ForestRow(name, behind, tuple(Mark(e.value, e.low, e.high, why(e)) for e in each))
        )
    series = tuple(f"{LABELS[one]} labels" for one in paradigms)
    note = f"Chance is 0.5. n: {' / '.join(IMAGES[one][1] for one in paradigms)}, of {found.n_images}. {band(found)}"
    axis = Axis("AUROC", 0.0, 1.0)
    return Forest(
        _of_both(found), axis, series, tuple(rows), n="n", reference=0.5, note=note.strip()
    )


def _of_both(found: MonitorEvaluation) -> str:
    paradigms = _stated(found)
    values = {name: found.get("AUROC", name, paradigms[0]).value for name in found.monitors}
    best = max(values, key=lambda name: -1.0 if math.isnan(values[name]) else values[name])
    first = found.get("AUROC", best, paradigms[0])
    if math.isnan(first.value):
        return f"Nothing can be said: {why(first)}"
    told = f"{short_name(best)} puts {IMAGES[paradigms[0]][1]} first in {percent(first.value)} of pairs"
    if len(paradigms) < 2 or math.isnan(found.get("AUROC", best, OOD).value):
        return told
    winners = {
        one: set(order.winners) for one in paradigms if (order := found.ranking("AUROC").order(one))
    }
    chance = max(found.get("AUROC", name, OOD).value for name in found.monitors) <= 0.5
    if len(found.monitors) > 1 and winners[OMS] != winners[OOD] and not chance:
        return f"{join_names(winners[OMS])} finds failures best, {join_names(winners[OOD])} images out of distribution"
    return (
        f"{told}, and images out of distribution in {percent(found.get('AUROC', best, OOD).value)}"
    )


def risk(found: MonitorEvaluation) -> Curves:
    """Return the share of images on which an alarm is wanted among those accepted, against how many
    are accepted.
    """
    paradigm = _stated(found)[0]
    names = leading(found)
    curves = {name: found.curves(name, paradigm) for name in names}
    share = curves[names[0]].prevalence
    x = np.linspace(0.01, 1.0, 100)
    ideal = np.maximum(x - (1.0 - share), 0.0) / x
    lines = [
        Line("an order by chance", x[[0, -1]], np.full(2, share), slot=GREY),
        Line("the best order there is", x, ideal, slot=PALE),
    ]
    for name, curve in curves.items():
        at = spaced_indices(len(curve.coverage), MOST_POINTS)
        lines.append(
            Line(name, curve.coverage[at], curve.risk[at], slot=found.monitors.index(name))
        )
    worst = max((float(line.y.max(initial=0.0)) for line in lines), default=1.0)
    areas = [f"{short_name(name)} {_brief(found.get('AURC', name, paradigm))}" for name in names]
    note = f"Area under the curve (AURC, small is good): {', '.join(areas)}. {band(found)} {_left(found, names)}"
    return Curves(
        _risk_at_half(names[0], curves[names[0]], WANTED[paradigm]),
        Axis("coverage: share of images accepted, lowest alarms first", 0.0, 1.0),
        Axis(f"risk: share of them that is {WANTED[paradigm]}", 0.0, min(1.0, 1.1 * worst) or 1.0),
        tuple(lines),
        levels=tuple(np.linspace(0.1, 1.0, 10).tolist()),
        note=note.strip(),
    )


def _risk_at_half(name: str, curve: Any, wanted: str) -> str:
    if not len(curve.coverage):
        return "No curve: the images are all of one kind"
    k = int(np.abs(curve.coverage - 0.5).argmin())
    return (
        f"Of the {percent(float(curve.coverage[k]))} of images that {short_name(name)} trusts most, "
        f"{percent(float(curve.risk[k]))} are {wanted}; of all, {percent(curve.prevalence)}"
    )


def roc(found: MonitorEvaluation, paradigm: str) -> Curves:
    """Return sensitivity against the share of false rejections, a point per attainable threshold."""
    names = leading(found)
    lines = []
    for name in names:
        curve = found.curves(name, paradigm)
        at = spaced_indices(len(curve.tpr), MOST_POINTS)
        lines.append(Line(name, curve.fpr[at], curve.tpr[at], slot=found.monitors.index(name)))
    areas = {name: found.get("AUROC", name, paradigm) for name in names}
    best = max(areas, key=lambda name: -1.0 if math.isnan(areas[name].value) else areas[name].value)
    n, (others, wanted) = areas[best].n_references, IMAGES[paradigm]
    note = f"AUROC: {', '.join(f'{named(name)} {_brief(e)}' for name, e in areas.items())}. {band(found)}"
    title = f"{LABELS[paradigm]}: the order by {short_name(best)} finds {wanted} best (AUROC {areas[best].value:.3f})"
    if math.isnan(areas[best].value):
        title = f"{LABELS[paradigm]}: no curve, {why(areas[best])}"
    elif len(names) == 1:
        title = f"{LABELS[paradigm]}: AUROC of {short_name(best)} is {areas[best].value:.3f}"
    return Curves(
        title,
        Axis(f"share of {found.n_images - n} {others} rejected", 0.0, 1.0),
        Axis(f"share of {n} {wanted} rejected", 0.0, 1.0),
        tuple(lines),
        levels=tuple(np.linspace(0.0, 1.0, 11).tolist()),
        diagonal=True,
        note=f"{note} {_left(found, names)}".strip(),
    )


def sweep(found: MonitorEvaluation) -> Curves:
    """Return AUROC of monitors under OMS labels against tau."""
    table, names = found.sweep("AUROC"), leading(found)
    rows = {name: table.monitors.index(name) for name in names}
    marks = tuple(range(len(table.tau))) if len(table.tau) <= 12 else ()
    lines = tuple(
        Line(name, table.tau, table.value[k], table.low[k], table.high[k], slot=k, marks=marks)
        for name, k in rows.items()
    )
    note = f"{_changes(found)} Chance is 0.5. {band(found)} {_left(found, names)}"
    return Curves(
        _sweep_title(found, names), Axis("tau"), Axis("AUROC", 0.0, 1.0), lines, note=note.strip()
    )


def _sweep_title(found: MonitorEvaluation, names: Sequence[str]) -> str:
    table, several = found.sweep("AUROC"), len(found.monitors) > 1
    swept = found.ranking("AUROC").swept if several else ()
    if several and swept:
        wins = found.ranking("AUROC").wins
        best = max(wins, key=lambda name: wins[name])
        return f"{short_name(best)} finds unsafe images best at {wins[best]} of {len(swept)} values of tau"
    values = table.value[table.monitors.index(names[0])]
    if np.isnan(values).all():
        return "No tau parts safe from unsafe images"
    low, high = np.nanmin(values), np.nanmax(values)
    return f"AUROC of {short_name(names[0])} runs from {low:.3f} to {high:.3f} over tau"


def prevalence(found: MonitorEvaluation) -> Curves:
    """Return the share of unsafe images against tau."""
    taus = np.array(found.taus)
    shares = found.scope.prevalence(taus)
    if found.tau is not None:
        unsafe = found.get("prevalence")
        title = f"At tau = {found.tau:g}, {percent(unsafe.value)} of {unsafe.n_images} images are unsafe"
    else:
        title = f"{percent(shares[0])} of images are unsafe at tau = {taus[0]:.3g}, {percent(shares[-1])} at {taus[-1]:.3g}"
    marks = tuple(range(len(taus))) if len(taus) <= 12 else ()
    line = Line("unsafe images", taus, shares, slot=GREY, marks=marks)
    note = f"An image is unsafe if its score s is below tau. {_changes(found)} {found.n_images} images."
    return Curves(title, Axis("tau"), Axis("share of images unsafe", 0.0, 1.0), (line,), note=note)


def _changes(found: MonitorEvaluation) -> str:
    told = f"{len(found.taus)} values of tau"
    if np.array_equal(np.array(found.taus), np.unique(found.scope.score)[1:]):
        return f"{told}; between two of them the labels are those of the upper one."
    return f"{told}."


def band(found: MonitorEvaluation) -> str:
    """Return what intervals are; empty if there are none."""
    if not found.settings["replicates"]:
        return "No intervals were asked for."
    units = f"{found.settings['n_units']} {plural(found.settings['unit'])}"
    return f"{100 * found.settings['level']:g} % intervals over {units}."


def _left(found: MonitorEvaluation, names: Sequence[str]) -> str:
    n = len(found.monitors)
    return f"The {len(names)} best of {n} monitors." if len(names) < n else ""


def _stated(found: MonitorEvaluation) -> tuple[str, ...]:
    if not found.paradigms:
        raise UsageError(
            "this figure needs labels: give a tau or OOD labels; the sweep has the figure 'sweep'"
        )
    return found.paradigms


def _brief(e: Estimate) -> str:
    if math.isnan(e.value):
        return why(e)
    return f"{e.value:.3f}" + ("" if math.isnan(e.low) else f" [{e.low:.3f}, {e.high:.3f}]")


OF_ALL: Mapping[str, Callable[[MonitorEvaluation], Figure]] = {
    "auroc": auroc,
    "risk": risk,
    "roc-oms": lambda found: roc(found, OMS),
    "roc-ood": lambda found: roc(found, OOD),
    "sweep": sweep,
    "prevalence": prevalence,
    "ranking": ranking,
}
OF_ONE: Mapping[str, Callable[[MonitorEvaluation, str], Figure]] = {
    "outcomes": outcomes,
    "scores": scores,
}
FIGURES = (*OF_ALL, *OF_ONE)


def available(found: MonitorEvaluation) -> tuple[str, ...]:
    """Return the figures of all monitors that can be drawn with the labels there are."""
    labels = {"roc-oms": OMS in found.paradigms, "roc-ood": OOD in found.paradigms}
    needs = {
        **labels,
        "auroc": bool(found.paradigms),
        "risk": bool(found.paradigms),
        "sweep": len(found.taus) > 1,
        "prevalence": len(found.taus) > 1,
        "ranking": len(found.monitors) > 1,
    }
    return tuple(name for name in OF_ALL if needs[name])


def figure(found: MonitorEvaluation, name: str, monitor: str | None = None) -> Figure:
    """Return a figure of monitors as data: one of `FIGURES`; ``outcomes`` and ``scores`` are those
    of one monitor.
    """
    if name not in FIGURES:
        raise UsageError(f"no figure {name!r} of monitors; {did_you_mean(name, FIGURES)}")
    if name in OF_ONE:
        return OF_ONE[name](found, found.monitors[found.basis.monitors.index(monitor)])
    if name not in available(found):
        raise UsageError(
            f"no figure {name!r} of this evaluation; it has {', '.join((*available(found), *OF_ONE))}"
        )
    return OF_ALL[name](found)
