# SPDX-License-Identifier: Apache-2.0
"""Figures of monitors: how well they rank images, what risk remains, and how both depend on tau.

A monitor gives every image an alarm score. OMS labels say on which images the model fails (its
score is below tau), OOD labels which images are out of distribution.
"""

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
GREY, PALE = 6, 5  # slots of lines that are no monitor
LABELS = {OMS: "OMS", OOD: "OOD"}
ALARM_KINDS = {OMS: "unsafe", OOD: "out of distribution"}


def auroc(result: MonitorEvaluation) -> Forest:
    """Return AUROC of every monitor under both kinds of labels."""
    paradigms = _paradigms(result)
    rows = []
    for name in result.monitors:
        estimates = [result.get("AUROC", name, paradigm) for paradigm in paradigms]
        marks = tuple(Mark(e.value, e.low, e.high, why(e)) for e in estimates)
        n = " / ".join(str(e.n_references) for e in estimates)
        rows.append(ForestRow(name, n, marks))
    counts = " / ".join(IMAGES[one][1] for one in paradigms)
    note = f"Chance is 0.5. n: {counts}, of {result.n_images}. {band(result)}"
    return Forest(
        _auroc_title(result),
        Axis("AUROC", 0.0, 1.0),
        tuple(f"{LABELS[one]} labels" for one in paradigms),
        tuple(rows),
        n="n",
        reference=0.5,
        note=note.strip(),
    )


def _auroc_title(result: MonitorEvaluation) -> str:
    paradigms = _paradigms(result)
    estimates = {name: result.get("AUROC", name, paradigms[0]) for name in result.monitors}
    best = _highest(estimates)
    first = estimates[best]
    if math.isnan(first.value):
        return f"No AUROC can be computed: {why(first)}"
    images = IMAGES[paradigms[0]][1]
    text = f"{short_name(best)} ranks {images} first in {percent(first.value)} of pairs"
    if len(paradigms) < 2 or math.isnan(result.get("AUROC", best, OOD).value):
        return text
    winners: dict[str, set[str]] = {}
    for one in paradigms:
        order = result.ranking("AUROC").order(one)
        if order:
            winners[one] = set(order.winners)
    # A monitor that is best by less than chance is no discovery.
    chance = max(result.get("AUROC", name, OOD).value for name in result.monitors) <= 0.5
    if len(result.monitors) > 1 and winners[OMS] != winners[OOD] and not chance:
        return (
            f"{join_names(winners[OMS])} finds failures best, "
            f"{join_names(winners[OOD])} images out of distribution"
        )
    share = percent(result.get("AUROC", best, OOD).value)
    return f"{text}, and images out of distribution in {share}"


def _highest(estimates: Mapping[str, Estimate]) -> str:
    """Return the name with the highest value; undefined values come last."""
    values = {name: e.value for name, e in estimates.items()}
    return max(values, key=lambda name: -1.0 if math.isnan(values[name]) else values[name])


def risk(result: MonitorEvaluation) -> Curves:
    """Return risk against coverage.

    Coverage is the share of images accepted, lowest alarms first; risk is the share of them that
    needs an alarm.
    """
    paradigm = _paradigms(result)[0]
    names = leading(result)
    curves = {name: result.curves(name, paradigm) for name in names}
    share = curves[names[0]].prevalence
    x = np.linspace(0.01, 1.0, 100)
    # The best order accepts all images that need no alarm before any other.
    ideal = np.maximum(x - (1.0 - share), 0.0) / x
    lines = [
        Line("random order", x[[0, -1]], np.full(2, share), slot=GREY),
        Line("best possible order", x, ideal, slot=PALE),
    ]
    for name, curve in curves.items():
        k, slot = spaced_indices(len(curve.coverage), MOST_POINTS), result.monitors.index(name)
        lines.append(Line(name, curve.coverage[k], curve.risk[k], slot=slot))
    worst = max((float(line.y.max(initial=0.0)) for line in lines), default=1.0)
    areas = {name: result.get("AURC", name, paradigm) for name in names}
    note = (
        f"Area under the curve (AURC, lower is better): {_estimate_list(areas)}. "
        f"{band(result)} {_omitted_note(result, names)}"
    )
    kind = ALARM_KINDS[paradigm]
    return Curves(
        _risk_at_half(names[0], curves[names[0]], kind),
        Axis("coverage: share of images accepted, lowest alarms first", 0.0, 1.0),
        Axis(f"risk: share of them that is {kind}", 0.0, min(1.0, 1.1 * worst) or 1.0),
        tuple(lines),
        levels=tuple(np.linspace(0.1, 1.0, 10).tolist()),
        note=note.strip(),
    )


def _risk_at_half(name: str, curve: Any, kind: str) -> str:
    if not len(curve.coverage):
        return "No curve: the images are all of one kind"
    k = int(np.abs(curve.coverage - 0.5).argmin())
    coverage, share = percent(float(curve.coverage[k])), percent(float(curve.risk[k]))
    return (
        f"Of the {coverage} of images that {short_name(name)} trusts most, {share} are {kind}; "
        f"of all, {percent(curve.prevalence)}"
    )


def roc(result: MonitorEvaluation, paradigm: str) -> Curves:
    """Return sensitivity against the share of false rejections, a point per possible threshold."""
    names = leading(result)
    lines = []
    for name in names:
        curve = result.curves(name, paradigm)
        k, slot = spaced_indices(len(curve.tpr), MOST_POINTS), result.monitors.index(name)
        lines.append(Line(name, curve.fpr[k], curve.tpr[k], slot=slot))
    areas = {name: result.get("AUROC", name, paradigm) for name in names}
    n, (other_images, alarm_images) = areas[_highest(areas)].n_references, IMAGES[paradigm]
    note = f"AUROC: {_estimate_list(areas)}. {band(result)} {_omitted_note(result, names)}"
    return Curves(
        _roc_title(areas, paradigm),
        Axis(f"share of {result.n_images - n} {other_images} rejected", 0.0, 1.0),
        Axis(f"share of {n} {alarm_images} rejected", 0.0, 1.0),
        tuple(lines),
        levels=tuple(np.linspace(0.0, 1.0, 11).tolist()),
        diagonal=True,
        note=note.strip(),
    )


def _roc_title(areas: Mapping[str, Estimate], paradigm: str) -> str:
    best = _highest(areas)
    area, label = areas[best], LABELS[paradigm]
    if math.isnan(area.value):
        return f"{label}: no curve, {why(area)}"
    if len(areas) == 1:
        return f"{label}: AUROC of {short_name(best)} is {area.value:.3f}"
    images = IMAGES[paradigm][1]
    return f"{label}: {short_name(best)} finds {images} best (AUROC {area.value:.3f})"


def sweep(result: MonitorEvaluation) -> Curves:
    """Return AUROC of monitors under OMS labels against tau."""
    table, names = result.sweep("AUROC"), leading(result)
    marks = tuple(range(len(table.tau))) if len(table.tau) <= 12 else ()
    lines = []
    for name in names:
        k = table.monitors.index(name)
        values = (table.value[k], table.low[k], table.high[k])
        lines.append(Line(name, table.tau, *values, slot=k, marks=marks))
    note = f"{_changes(result)} Chance is 0.5. {band(result)} {_omitted_note(result, names)}"
    return Curves(
        _sweep_title(result, names),
        Axis("tau"),
        Axis("AUROC", 0.0, 1.0),
        tuple(lines),
        note=note.strip(),
    )


def _sweep_title(result: MonitorEvaluation, names: Sequence[str]) -> str:
    if len(result.monitors) > 1:
        ranking = result.ranking("AUROC")
        if ranking.swept:
            wins, n = ranking.wins, len(ranking.swept)
            best = max(wins, key=lambda name: wins[name])
            return (
                f"{short_name(best)} finds unsafe images best at {wins[best]} of {n} values of tau"
            )
    table = result.sweep("AUROC")
    values = table.value[table.monitors.index(names[0])]
    if np.isnan(values).all():
        return "No tau separates safe from unsafe images"
    low, high = np.nanmin(values), np.nanmax(values)
    return f"AUROC of {short_name(names[0])} ranges from {low:.3f} to {high:.3f} over tau"


def prevalence(result: MonitorEvaluation) -> Curves:
    """Return the share of unsafe images against tau."""
    taus = np.array(result.taus)
    shares = result.scope.prevalence(taus)
    if result.tau is not None:
        unsafe = result.get("prevalence")
        share = f"{percent(unsafe.value)} of {unsafe.n_images} images"
        title = f"At tau = {result.tau:g}, {share} are unsafe"
    else:
        title = (
            f"{percent(shares[0])} of images are unsafe at tau = {taus[0]:.3g}, "
            f"{percent(shares[-1])} at {taus[-1]:.3g}"
        )
    marks = tuple(range(len(taus))) if len(taus) <= 12 else ()
    line = Line("unsafe images", taus, shares, slot=GREY, marks=marks)
    note = (
        f"An image is unsafe if its score s is below tau. {_changes(result)} "
        f"{result.n_images} images."
    )
    return Curves(title, Axis("tau"), Axis("share of images unsafe", 0.0, 1.0), (line,), note=note)


def _changes(result: MonitorEvaluation) -> str:
    text = f"{len(result.taus)} values of tau"
    if np.array_equal(np.array(result.taus), np.unique(result.scope.score)[1:]):
        return f"{text}; between two of them the labels are those of the upper one."
    return f"{text}."


def band(result: MonitorEvaluation) -> str:
    """Return what the intervals are, or that there are none."""
    if not result.settings["replicates"]:
        return "No intervals were requested."
    units = f"{result.settings['n_units']} {plural(result.settings['unit'])}"
    return f"{100 * result.settings['level']:g} % intervals over {units}."


def _omitted_note(result: MonitorEvaluation, names: Sequence[str]) -> str:
    n = len(result.monitors)
    return f"The {len(names)} best of {n} monitors." if len(names) < n else ""


def _paradigms(result: MonitorEvaluation) -> tuple[str, ...]:
    if not result.paradigms:
        raise UsageError(
            "this figure needs labels: give a tau or OOD labels; the sweep has the figure 'sweep'"
        )
    return result.paradigms


def _estimate_text(e: Estimate) -> str:
    """Return a value with its interval, or why it is undefined."""
    if math.isnan(e.value):
        return why(e)
    if math.isnan(e.low):
        return f"{e.value:.3f}"
    return f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]"


def _estimate_list(estimates: Mapping[str, Estimate]) -> str:
    return ", ".join(f"{short_name(name)} {_estimate_text(e)}" for name, e in estimates.items())


OF_ALL: Mapping[str, Callable[[MonitorEvaluation], Figure]] = {
    "auroc": auroc,
    "risk": risk,
    "roc-oms": lambda result: roc(result, OMS),
    "roc-ood": lambda result: roc(result, OOD),
    "sweep": sweep,
    "prevalence": prevalence,
    "ranking": ranking,
}
OF_ONE: Mapping[str, Callable[[MonitorEvaluation, str], Figure]] = {
    "outcomes": outcomes,
    "scores": scores,
}
FIGURES = (*OF_ALL, *OF_ONE)


def available(result: MonitorEvaluation) -> tuple[str, ...]:
    """Return the figures of all monitors that the labels allow."""
    requirements = {
        "roc-oms": OMS in result.paradigms,
        "roc-ood": OOD in result.paradigms,
        "auroc": bool(result.paradigms),
        "risk": bool(result.paradigms),
        "sweep": len(result.taus) > 1,
        "prevalence": len(result.taus) > 1,
        "ranking": len(result.monitors) > 1,
    }
    return tuple(name for name in OF_ALL if requirements[name])


def figure(result: MonitorEvaluation, name: str, monitor: str | None = None) -> Figure:
    """Return a figure of monitors as data: one of `FIGURES`.

    ``outcomes`` and ``scores`` show one monitor, the others show all.
    """
    if name not in FIGURES:
        raise UsageError(f"no figure {name!r} of monitors; {did_you_mean(name, FIGURES)}")
    if name in OF_ONE:
        return OF_ONE[name](result, result.monitors[result.basis.monitors.index(monitor)])
    if name not in available(result):
        names = ", ".join((*available(result), *OF_ONE))
        raise UsageError(f"no figure {name!r} of this evaluation; it has {names}")
    return OF_ALL[name](result)
