# SPDX-License-Identifier: Apache-2.0
"""Figures of monitors: how they rank images, what risk remains, what they reject, who leads.

A monitor gives every image an alarm score. OMS labels say on which images the model fails (its
score is below tau), OOD labels which images are out of distribution. A `MonitorEvaluation` comes
in, a `Figure` goes out; `MonitorEvaluation.figure` and the page call them by name (`FIGURES`).

Of all monitors: `auroc`, `risk`, `roc`, `sweep` and `prevalence` over tau, `ranking`. Of one
monitor: `outcomes`, what it does with images of every kind, and `scores`. `leading` says which
monitors a figure has room for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from calipers.arrays import F64, I64, Flags
from calipers.errors import UsageError
from calipers.monitors.estimates import LOWER_IS_BETTER
from calipers.monitors.labels import OMS, OOD, threshold_text
from calipers.monitors.result import MonitorEvaluation, headline
from calipers.results.estimate import Estimate
from calipers.show.figures import (
    Axis,
    Bars,
    Curves,
    Figure,
    Forest,
    ForestRow,
    HeatMap,
    Histogram,
    Line,
    Mark,
)
from calipers.show.words import (
    digits,
    interval_text,
    intervals_by,
    number_text,
    percent_text,
    short_name,
    span_text,
    two_decimals,
    why,
)

BINS = 24
WORDS = {OMS: ("safe", "unsafe"), OOD: ("in distribution", "out of distribution")}
IMAGES = {
    OMS: ("safe images", "unsafe images"),
    OOD: ("images in distribution", "images out of distribution"),
}
KINDS = {OMS: ("safe", "unsafe"), OOD: ("not OOD", "OOD")}  # short words, for the bars
FATES = ("accepted, rightly", "rejected, rightly", "accepted by mistake", "rejected by mistake")
# Colours of the four fates, in their order.
SLOTS = (2, 0, 1, 5)

MOST_LINES = 5  # monitors in one figure of curves
MOST_TAUS = 8  # columns of the ranking
MOST_NAMED = 3  # monitors in a title

# A curve of thousands of points looks the same and weighs much more.
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
    # Values, not a winner: which monitor is better is tested in pairs.
    parts = [f"AUROC for {IMAGES[paradigms[0]][1]}: {_named_values(estimates)}"]
    if len(paradigms) > 1:
        others = {name: result.get("AUROC", name, paradigms[1]) for name in result.monitors}
        if not math.isnan(others[_highest(others)].value):
            parts.append(f"for {IMAGES[paradigms[1]][1]}: {_named_values(others)}")
    return "; ".join(parts)


def _named_values(estimates: Mapping[str, Estimate]) -> str:
    """Return ``0.75 (count), 0.30 (max-score)``, the highest first, of the first few."""
    pairs = [(e.value, name) for name, e in estimates.items() if not math.isnan(e.value)]
    pairs.sort(key=lambda pair: -pair[0])
    texts = [f"{two_decimals(value)} ({short_name(name)})" for value, name in pairs[:MOST_NAMED]]
    more = f", of {len(pairs)} monitors" if len(pairs) > MOST_NAMED else ""
    return f"{', '.join(texts)}{more}"


def _highest(estimates: Mapping[str, Estimate]) -> str:
    """Return the name with the highest value; undefined values come last."""
    values = {name: e.value for name, e in estimates.items() if not math.isnan(e.value)}
    return max(values, key=values.__getitem__) if values else next(iter(estimates))


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
    coverage, share = percent_text(float(curve.coverage[k])), percent_text(float(curve.risk[k]))
    return (
        f"Of the {coverage} of images that {short_name(name)} trusts most, {share} are {kind}; "
        f"of all, {percent_text(curve.prevalence)}"
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
        return f"{label}: AUROC of {short_name(best)} is {number_text(area.value)}"
    return f"{label}: AUROC for {IMAGES[paradigm][1]} is {_named_values(areas)}"


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
    table = result.sweep("AUROC")
    ranges = []
    for name in names[:MOST_NAMED]:
        values = table.value[table.monitors.index(name)]
        if not np.isnan(values).all():
            span = f"{span_text(np.nanmin(values), np.nanmax(values))}"
            ranges.append(f"{span} ({short_name(name)})")
    if not ranges:
        return "No tau separates safe from unsafe images"
    return f"AUROC over tau ranges from {', from '.join(ranges)}"


def prevalence(result: MonitorEvaluation) -> Curves:
    """Return the share of unsafe images against tau."""
    taus = np.array(result.taus)
    shares = result.scope.prevalence(taus)
    if result.tau is not None:
        unsafe = result.get("prevalence")
        share = f"{percent_text(unsafe.value)} of {unsafe.n_images} images"
        title = f"At tau = {result.tau:g}, {share} are unsafe"
    else:
        title = (
            f"{percent_text(shares[0])} of images are unsafe at tau = {digits(taus[0], 3)}, "
            f"{percent_text(shares[-1])} at {digits(taus[-1], 3)}"
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


def ranking(result: MonitorEvaluation, metric: str = "AUROC") -> HeatMap:
    """Return rank and value of every monitor under both kinds of labels and at some taus."""
    orders = result.ranking(metric).orders
    heads = [one for one in orders if one.tau is None]
    orders_at_taus = [one for one in orders if one.tau is not None and one.defined]
    columns = heads + [
        orders_at_taus[k] for k in spaced_indices(len(orders_at_taus), MOST_TAUS).tolist()
    ]
    # The best monitor on top, whatever the order in which they were given.
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
    return two_decimals(value) if rank is None else f"{rank}. ({two_decimals(value)})"


def _column(result: MonitorEvaluation, order: Any) -> str:
    if order.tau is not None:
        return f"tau {digits(order.tau, 3)}"
    if order.paradigm == OOD:
        return "OOD"
    return "OMS" if result.tau is None or result.scope.binary else f"OMS at {result.tau:g}"


def _ranking_title(result: MonitorEvaluation, metric: str) -> str:
    table = result.ranking(metric)
    oms, ood = table.order(OMS), table.order(OOD)
    if oms is not None and ood is not None and oms.winners and ood.winners:
        first = join_names(set(oms.winners))
        if set(oms.winners) == set(ood.winners):
            return f"On these images OMS and OOD labels put the same monitor first: {first}"
        other = join_names(set(ood.winners))
        return f"On these images OOD labels put {other} first, OMS labels {first}"
    if table.swept:
        wins = table.wins
        best = max(wins, key=lambda name: wins[name])
        n = len(table.swept)
        return f"On these images {short_name(best)} is first at {wins[best]} of {n} values of tau"
    one = oms or ood
    if one is None or not one.winners:
        return "No order can be stated"
    return f"On these images {join_names(set(one.winners))} is first"


def _kendall(result: MonitorEvaluation, metric: str) -> str:
    value = result.ranking(metric).agreement
    if math.isnan(value):
        return ""
    return f"Kendall's tau between the OMS and the OOD order: {two_decimals(value)}."


def leading(result: MonitorEvaluation, most: int = MOST_LINES) -> tuple[str, ...]:
    """Return the best monitors by AUROC, the best first.

    It is AUROC under OMS labels, or its mean over tau if no tau was given. Without OMS labels it is
    AUROC under OOD labels: finding failures is what a monitor is for, so OMS labels come first.
    """
    if OMS in result.paradigms or not result.taus:
        paradigm = result.paradigms[0]
        value = {name: result.get("AUROC", name, paradigm).value for name in result.monitors}
    else:
        # An undefined value counts as the worst, so that a monitor does not lead by having fewer
        # values.
        table = np.nan_to_num(result.sweep("AUROC").value, nan=0.0)
        value = {name: float(row.mean()) for name, row in zip(result.monitors, table)}
    for name in result.monitors:
        if math.isnan(value[name]):
            value[name] = -math.inf
    order = sorted(result.monitors, key=lambda name: -value[name])
    return tuple(order[:most])


def outcomes(result: MonitorEvaluation, monitor: str) -> Bars:
    """Return how many images of every kind the monitor accepts and rejects.

    There is a bar for every combination of OOD and unsafe. Unsafe images need an alarm; without OMS
    labels, images out of distribution do.
    """
    labels: dict[str, Flags] = {}
    for paradigm in (OOD, OMS):
        labelling = headline(result.basis.labels, paradigm)
        if labelling is not None:
            labels[labelling.paradigm] = labelling.positive
    rejected = rejected_by(result, monitor)
    if rejected is None or not labels:
        return Bars(
            f"{short_name(monitor)} has no threshold: nothing is accepted or rejected",
            Axis("images", names=("none",)),
            Axis("number of images", 0.0, 1.0),
            FATES,
            np.zeros((4, 1)),
            stacked=True,
            slots=SLOTS,
        )
    judged = result.basis.judged
    needs_alarm = labels[OMS] if OMS in labels else labels[OOD]
    fates = [
        ~rejected & ~needs_alarm,
        rejected & needs_alarm,
        ~rejected & needs_alarm,
        rejected & ~needs_alarm,
    ]
    # Every combination of labels, also those without images: an empty bar is an answer.
    kinds = list(product((False, True), repeat=len(labels)))
    heights = np.zeros((len(fates), len(kinds)))
    names = []
    for k, kind in enumerate(kinds):
        here = judged
        for flags, side in zip(labels.values(), kind):
            here = here & (flags == side)
        heights[:, k] = [(here & fate).sum() for fate in fates]
        words = ", ".join(KINDS[paradigm][side] for paradigm, side in zip(labels, kind))
        names.append(f"{words} ({int(heights[:, k].sum())})")
    label = "kind of image (OOD: out of distribution)" if OOD in labels else "kind of image"
    ood = labels.get(OOD) if OMS in labels else None
    threshold = threshold_text(result.thresholds[monitor], others_of(result))
    return Bars(
        _outcomes_title(result, monitor, needs_alarm & judged, rejected, ood),
        Axis(label, names=tuple(names)),
        Axis("number of images", 0.0, whole=True),
        FATES,
        heights,
        stacked=True,
        slots=SLOTS,
        note=f"{int(judged.sum())} images judged; {threshold}.",
    )


def _outcomes_title(
    result: MonitorEvaluation, monitor: str, needs_alarm: Flags, rejected: Flags, ood: Flags | None
) -> str:
    n, passed = int(needs_alarm.sum()), needs_alarm & ~rejected
    words = "unsafe images" if OMS in result.paradigms else "images out of distribution"
    text = f"{short_name(monitor)} lets {int(passed.sum())} of {n} {words} through"
    if ood is None or not passed.any():
        return text
    return f"{text}, {int((passed & ~ood).sum())} of them in distribution"


def scores(result: MonitorEvaluation, monitor: str) -> Histogram:
    """Return the alarm scores of safe and unsafe images, on the monitor's own scale, with its
    threshold.
    """
    k = result.monitors.index(monitor)
    basis = result.basis.monitors
    # Alarms are stored so that high means alarm; some monitors count the other way.
    values, direction = basis.alarm[k], "high"
    if not basis.higher_is_alarm[k]:
        values, direction = -values, "low"
    labels = headline(result.basis.labels, OMS) or headline(result.basis.labels, OOD)
    if labels is None:
        series, kinds = ["all images"], [np.ones(len(values), np.bool_)]
        title = f"Alarm scores of {short_name(monitor)}; without a tau no image is safe or unsafe"
    else:
        series, kinds = list(IMAGES[labels.paradigm]), [~labels.positive, labels.positive]
        title = _scores_title(result, monitor, labels.paradigm)
    edges = _edges(values)
    # Shares of each kind, because unsafe images are usually few and their bars would vanish.
    counts = np.array([_shares(values[kind], edges) for kind in kinds])
    numbers = ", ".join(f"{int(kind.sum())} {name}" for name, kind in zip(series, kinds))
    note, line_at = f"{numbers}.", math.nan
    threshold = result.thresholds[monitor]
    if threshold is not None and threshold.exists and not math.isnan(threshold.own_value):
        note += f" The line: {threshold_text(threshold, others_of(result))}."
        # A threshold beyond all scores rejects all or none; a line outside of the axes would
        # mislead.
        if edges[0] <= threshold.own_value <= edges[-1]:
            line_at = threshold.own_value
    return Histogram(
        title,
        Axis(f"alarm score of {short_name(monitor)} ({direction} = alarm)"),
        Axis("share of the images of a kind"),
        edges,
        tuple(series),
        counts,
        cut=line_at,
        slots=(2, 1)[: len(series)],
        note=note,
    )


def others_of(result: MonitorEvaluation) -> str:
    """Return the name of the images that need no alarm; thresholds are set by them."""
    return IMAGES[OMS if OMS in result.paradigms else OOD][0]


def _scores_title(result: MonitorEvaluation, monitor: str, paradigm: str) -> str:
    area = result.get("AUROC", monitor, paradigm).value
    if math.isnan(area):
        return f"Alarm scores of {short_name(monitor)}; the images are all of one kind"
    images = IMAGES[paradigm][1]
    return f"{short_name(monitor)}: {images} have the higher alarm in {percent_text(area)} of pairs"


def _edges(values: F64) -> F64:
    low, high = float(values.min()), float(values.max())
    # A constant score still needs bins to stand in.
    if low == high:
        low, high = low - 0.5, high + 0.5
    # The difference of two numbers may be none.
    scale = 1.0 if math.isfinite(high - low) else 2.0
    return np.linspace(low / scale, high / scale, BINS + 1) * scale


def _shares(values: F64, edges: F64) -> F64:
    counts = np.histogram(values, edges)[0]
    return np.asarray(counts / max(len(values), 1), np.float64)


def rejected_by(result: MonitorEvaluation, monitor: str) -> Flags | None:
    """Return (n,) which images a monitor rejects; None if it has no threshold."""
    threshold = result.thresholds[monitor]
    if threshold is None or not threshold.exists:
        return None
    return threshold.rejected(result.basis.monitors.alarm[result.monitors.index(monitor)])


def join_names(names: set[str]) -> str:
    """Return the names of monitors that share a place."""
    return " and ".join(short_name(name) for name in sorted(names))


def spaced_indices(n: int, most: int) -> I64:
    """Return at most so many of n indices, the first and the last among them."""
    if n <= most:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, most).round().astype(np.int64))


def band(result: MonitorEvaluation) -> str:
    """Return what the intervals are, or that there are none."""
    if not result.settings["replicates"]:
        return "No intervals were requested."
    settings = result.settings
    return f"{intervals_by(settings['level'], settings['unit'], settings['n_units'])}."


def _omitted_note(result: MonitorEvaluation, names: Sequence[str]) -> str:
    n = len(result.monitors)
    if len(names) == n:
        return ""
    return f"The {len(names)} of {n} monitors with the highest AUROC."


def _paradigms(result: MonitorEvaluation) -> tuple[str, ...]:
    if not result.paradigms:
        raise UsageError(
            "this figure needs labels: give a tau or OOD labels; the sweep has the figure 'sweep'"
        )
    return result.paradigms


def _estimate_text(e: Estimate) -> str:
    """Return a value with its interval, or why it is undefined."""
    return why(e) or f"{number_text(e.value)} {interval_text(e.low, e.high)}".rstrip()


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


def _figure(name: str, result: MonitorEvaluation, monitor: str | None = None) -> Figure:
    """Return a figure; only ``outcomes`` and ``scores`` show one monitor, the others show all."""
    if name in OF_ONE:
        return OF_ONE[name](result, result.monitors[result.basis.monitors.index(monitor)])
    if name not in available(result):
        names = ", ".join((*available(result), *OF_ONE))
        raise UsageError(f"no figure {name!r} of this evaluation; it has {names}")
    return OF_ALL[name](result)


FIGURES: Mapping[str, Callable[..., Figure]] = {
    name: partial(_figure, name) for name in (*OF_ALL, *OF_ONE)
}
