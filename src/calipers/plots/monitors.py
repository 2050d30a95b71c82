# SPDX-License-Identifier: Apache-2.0
"""Monitors in figures: how well they order images, what risk is left, how that hangs on tau, and who wins where."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.pairs import LOWER_IS_BETTER
from calipers.monitors.result import MonitorEvaluation
from calipers.plots.figures import Axis, Curves, Figure, Forest, ForestRow, HeatMap, Line, Mark
from calipers.plots.monitors_alarms import IMAGES, outcomes, scores
from calipers.plots.words import named, percent, why
from calipers.results import Estimate
from calipers.statistics.weights import plural

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

MOST_LINES = 5  # monitors in one figure of curves
MOST_POINTS = 200  # of a curve
MOST_TAUS = 8  # columns of the ranking
GREY, PALE = 6, 5  # slots of what is no monitor
LABELS = {OMS: "OMS", OOD: "OOD"}
WANTED = {OMS: "unsafe", OOD: "out of distribution"}


def leading(found: MonitorEvaluation, most: int = MOST_LINES) -> tuple[str, ...]:
    """Return the best monitors by AUROC, the best first.

    It is AUROC under OMS labels; its mean over tau if there is no headline; under OOD labels only if there is nothing
    else, because finding failures is what a monitor is for.
    """
    if OMS in found.paradigms or not found.taus:
        value = {name: found.get("AUROC", name, found.paradigms[0]).value for name in found.monitors}
    else:
        table = found.sweep("AUROC").value
        value = {name: float(np.nan_to_num(row, nan=0.0).mean()) for name, row in zip(found.monitors, table)}
    order = sorted(found.monitors, key=lambda name: -value[name] if not math.isnan(value[name]) else math.inf)
    return tuple(order[:most])


def auroc(found: MonitorEvaluation) -> Forest:
    """Return AUROC of every monitor under both kinds of labels."""
    paradigms = _stated(found)
    rows = []
    for name in found.monitors:
        each = [found.get("AUROC", name, paradigm) for paradigm in paradigms]
        behind = " / ".join(str(e.n_references) for e in each)
        rows.append(ForestRow(name, behind, tuple(Mark(e.value, e.low, e.high, why(e)) for e in each)))
    series = tuple(f"{LABELS[one]} labels" for one in paradigms)
    note = f"Chance is 0.5. n: {' / '.join(IMAGES[one][1] for one in paradigms)}, of {found.n_images}. {band(found)}"
    axis = Axis("AUROC", 0.0, 1.0)
    return Forest(_of_both(found), axis, series, tuple(rows), n="n", reference=0.5, note=note.strip())


def _of_both(found: MonitorEvaluation) -> str:
    paradigms = _stated(found)
    values = {name: found.get("AUROC", name, paradigms[0]).value for name in found.monitors}
    best = max(values, key=lambda name: -1.0 if math.isnan(values[name]) else values[name])
    first = found.get("AUROC", best, paradigms[0])
    if math.isnan(first.value):
        return f"Nothing can be said: {why(first)}"
    told = f"{named(best)} puts {IMAGES[paradigms[0]][1]} first in {percent(first.value)} of pairs"
    if len(paradigms) < 2 or math.isnan(found.get("AUROC", best, OOD).value):
        return told
    winners = {one: set(order.winners) for one in paradigms if (order := found.ranking("AUROC").order(one))}
    chance = max(found.get("AUROC", name, OOD).value for name in found.monitors) <= 0.5
    if len(found.monitors) > 1 and winners[OMS] != winners[OOD] and not chance:
        return f"{_all(winners[OMS])} finds failures best, {_all(winners[OOD])} images out of distribution"
    return f"{told}, and images out of distribution in {percent(found.get('AUROC', best, OOD).value)}"


def _all(names: set[str]) -> str:
    return " and ".join(named(name) for name in sorted(names))


def risk(found: MonitorEvaluation) -> Curves:
    """Return the share of images on which an alarm is wanted among those accepted, against how many are accepted."""
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
        at = _thin(len(curve.coverage))
        lines.append(Line(name, curve.coverage[at], curve.risk[at], slot=found.monitors.index(name)))
    worst = max((float(line.y.max(initial=0.0)) for line in lines), default=1.0)
    areas = [f"{named(name)} {_brief(found.get('AURC', name, paradigm))}" for name in names]
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
        f"Of the {percent(float(curve.coverage[k]))} of images that {named(name)} trusts most, "
        f"{percent(float(curve.risk[k]))} are {wanted}; of all, {percent(curve.prevalence)}"
    )


def roc(found: MonitorEvaluation, paradigm: str) -> Curves:
    """Return sensitivity against the share of false rejections, a point per attainable threshold."""
    names = leading(found)
    lines = []
    for name in names:
        curve = found.curves(name, paradigm)
        at = _thin(len(curve.tpr))
        lines.append(Line(name, curve.fpr[at], curve.tpr[at], slot=found.monitors.index(name)))
    areas = {name: found.get("AUROC", name, paradigm) for name in names}
    best = max(areas, key=lambda name: -1.0 if math.isnan(areas[name].value) else areas[name].value)
    n, (others, wanted) = areas[best].n_references, IMAGES[paradigm]
    note = f"AUROC: {', '.join(f'{named(name)} {_brief(e)}' for name, e in areas.items())}. {band(found)}"
    title = f"{LABELS[paradigm]}: the order by {named(best)} finds {wanted} best (AUROC {areas[best].value:.3f})"
    if math.isnan(areas[best].value):
        title = f"{LABELS[paradigm]}: no curve, {why(areas[best])}"
    elif len(names) == 1:
        title = f"{LABELS[paradigm]}: AUROC of {named(best)} is {areas[best].value:.3f}"
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
    return Curves(_sweep_title(found, names), Axis("tau"), Axis("AUROC", 0.0, 1.0), lines, note=note.strip())


def _sweep_title(found: MonitorEvaluation, names: Sequence[str]) -> str:
    table, several = found.sweep("AUROC"), len(found.monitors) > 1
    swept = found.ranking("AUROC").swept if several else ()
    if several and swept:
        wins = found.ranking("AUROC").wins
        best = max(wins, key=lambda name: wins[name])
        return f"{named(best)} finds unsafe images best at {wins[best]} of {len(swept)} values of tau"
    values = table.value[table.monitors.index(names[0])]
    if np.isnan(values).all():
        return "No tau parts safe from unsafe images"
    low, high = np.nanmin(values), np.nanmax(values)
    return f"AUROC of {named(names[0])} runs from {low:.3f} to {high:.3f} over tau"


def prevalence(found: MonitorEvaluation) -> Curves:
    """Return the share of unsafe images against tau."""
    taus = np.array(found.taus)
    shares = found.scope.prevalence(taus)
    if found.tau is not None:
        unsafe = found.get("prevalence")
        title = f"At tau = {found.tau:g}, {percent(unsafe.value)} of {unsafe.n_images} images are unsafe"
    else:
        title = (
            f"{percent(shares[0])} of images are unsafe at tau = {taus[0]:.3g}, {percent(shares[-1])} at {taus[-1]:.3g}"
        )
    marks = tuple(range(len(taus))) if len(taus) <= 12 else ()
    line = Line("unsafe images", taus, shares, slot=GREY, marks=marks)
    note = f"An image is unsafe if its score s is below tau. {_changes(found)} {found.n_images} images."
    return Curves(title, Axis("tau"), Axis("share of images unsafe", 0.0, 1.0), (line,), note=note)


def _changes(found: MonitorEvaluation) -> str:
    told = f"{len(found.taus)} values of tau"
    if np.array_equal(np.array(found.taus), np.unique(found.scope.score)[1:]):
        return f"{told}; between two of them the labels are those of the upper one."
    return f"{told}."


def ranking(found: MonitorEvaluation, metric: str = "AUROC") -> HeatMap:
    """Return the rank and value of every monitor under both kinds of labels and at some values of tau."""
    orders = found.ranking(metric).orders
    heads = [one for one in orders if one.tau is None]
    swept = [one for one in orders if one.tau is not None and one.defined]
    swept = [swept[k] for k in _thin(len(swept), MOST_TAUS).tolist()]
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
        first = _all(set(oms.winners))
        return (
            f"OMS and OOD labels agree on the best monitor: {first}"
            if same
            else (f"Whoever chooses by OOD labels takes {_all(set(ood.winners))}; the failures are found by {first}")
        )
    if table.swept:
        wins = table.wins
        best = max(wins, key=lambda name: wins[name])
        return f"{named(best)} is first at {wins[best]} of {len(table.swept)} values of tau"
    one = oms or ood
    return f"{_all(set(one.winners))} is first" if one is not None and one.winners else "No order can be stated"


def _kendall(found: MonitorEvaluation, metric: str) -> str:
    value = found.ranking(metric).agreement
    return "" if math.isnan(value) else f"Kendall's tau between the OMS and the OOD order: {value:.2f}."


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
        raise UsageError("this figure needs labels: give a tau or OOD labels; the sweep has the figure 'sweep'")
    return found.paradigms


def _brief(e: Estimate) -> str:
    if math.isnan(e.value):
        return why(e)
    return f"{e.value:.3f}" + ("" if math.isnan(e.low) else f" [{e.low:.3f}, {e.high:.3f}]")


def _thin(n: int, most: int = MOST_POINTS) -> I64:
    """Return at most so many of n indices, the first and the last among them."""
    if n <= most:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, most).round().astype(np.int64))


OF_ALL: Mapping[str, Callable[[MonitorEvaluation], Figure]] = {
    "auroc": auroc,
    "risk": risk,
    "roc-oms": lambda found: roc(found, OMS),
    "roc-ood": lambda found: roc(found, OOD),
    "sweep": sweep,
    "prevalence": prevalence,
    "ranking": ranking,
}
OF_ONE: Mapping[str, Callable[[MonitorEvaluation, str], Figure]] = {"outcomes": outcomes, "scores": scores}
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
    """Return a figure of monitors as data: one of `FIGURES`; ``outcomes`` and ``scores`` are those of one monitor."""
    if name not in FIGURES:
        raise UsageError(f"no figure {name!r} of monitors; {did_you_mean(name, FIGURES)}")
    if name in OF_ONE:
        return OF_ONE[name](found, found.monitors[found.basis.monitors.index(monitor)])
    if name not in available(found):
        raise UsageError(f"no figure {name!r} of this evaluation; it has {', '.join((*available(found), *OF_ONE))}")
    return OF_ALL[name](found)
