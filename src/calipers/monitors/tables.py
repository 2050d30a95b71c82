# SPDX-License-Identifier: Apache-2.0
"""Numbers on monitors as tables of the page: OMS and OOD side by side, labels against each other,
pairs of monitors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calipers.errors import UsageError
from calipers.monitors.estimates import SHARES
from calipers.monitors.figures import leading, others_of
from calipers.monitors.labels import OMS, OOD, threshold_text
from calipers.monitors.result import MonitorEvaluation
from calipers.results.estimate import Estimate
from calipers.show.html import data_table, details, frame, items, paragraph, text
from calipers.show.table import Cell, Table
from calipers.show.words import (
    interval_text,
    legend,
    marks_of,
    number_text,
    reason_text,
    short_name,
)

QUANTITIES = {  # of the headline table, in its order -> what they are
    "AUROC": "share of pairs of images in which the one with the wanted alarm has the higher score",
    "AUPR": "average precision of the wanted alarms; by chance it is their share",
    "FPR95": "share of other images rejected when 95 % of the wanted ones are rejected",
    "MCC": "Matthews correlation at the threshold",
    "AURC": "mean risk over all coverages; lower is better",
    "E-AURC": "excess of AURC over the best possible order; lower is better",
    "SG": "safety gain: hazard that the monitor removes",
    "RH": "residual hazard: hazard that it leaves; lower is better",
    "AC": "availability cost: good images that it rejects; lower is better",
}
HEADS = {
    OMS: "OMS: alarm wanted on unsafe images",
    OOD: "OOD: alarm wanted on images out of distribution",
}
MOST_TABLE_MONITORS = 12


def estimate(
    result: MonitorEvaluation, metric: str, monitor: str, paradigm: str
) -> Estimate | None:
    """Return an estimate of the headline; None if it needs a threshold or a tau that is not
    there.
    """
    try:
        return result.get(metric, monitor, paradigm)
    except UsageError:
        return None


def beside(
    result: MonitorEvaluation, metrics: Sequence[str], monitor: str
) -> list[tuple[str, list[Estimate | None]]]:
    """Return quantities of a monitor with their estimates under every headline; those without any
    are left out.
    """
    rows = []
    for metric in metrics:
        each = [estimate(result, metric, monitor, paradigm) for paradigm in result.paradigms]
        if any(e is not None for e in each):
            rows.append((metric, each))
    return rows


def headline_table(result: MonitorEvaluation) -> str:
    """Return a table per monitor: its quantities, OMS and OOD side by side; nothing without
    labels.
    """
    if not result.paradigms:
        return ""
    names = leading(result, MOST_TABLE_MONITORS)
    note = ""
    if len(names) < len(result.monitors):
        note = f"The {len(names)} best of {len(result.monitors)} monitors; monitor.json has all."
    meanings = items([f"{name}: {words}." for name, words in QUANTITIES.items()])
    tables = [_of_monitor(result, name) for name in names]
    return "\n".join(
        [paragraph(note, "note"), *tables, details("What the quantities are", meanings)]
    )


def _of_monitor(result: MonitorEvaluation, name: str) -> str:
    heads = ["quantity", *(HEADS[paradigm] for paradigm in result.paradigms), "images", "wanted"]
    head = "<tr>" + "".join(f"<th scope=col>{text(word)}</th>" for word in heads) + "</tr>"
    lines: list[str] = []
    every: list[Estimate] = []
    for metric, each in beside(result, tuple(QUANTITIES), name):
        estimates = [e for e in each if e is not None]
        every += estimates
        n_wanted = " / ".join(str(e.n_references) for e in estimates)
        cells = "".join(f'<td class="num">{text(cell(e))}</td>' for e in each)
        lines.append(
            f"<tr><th scope=row>{text(metric)}</th>{cells}"
            f"<td class=n>{estimates[0].n_images}</td><td class=n>{n_wanted}</td></tr>"
        )
    title = f"<strong>{text(short_name(name))}</strong>. "
    threshold = threshold_text(result.thresholds[name], others_of(result))
    caption = f"{threshold[0].upper()}{threshold[1:]}. Wanted: images on which an alarm is wanted."
    return frame(caption, head, lines, title=title, label=name, below=legend(every))


def cell(e: Estimate | None) -> str:
    """Return value and interval, or why there is no value."""
    if e is None:
        return ""
    if math.isnan(e.value):
        return reason_text(e.reason)
    return " ".join(
        filter(None, [number_text(e.value), interval_text(e.low, e.high) + marks_of(e)])
    )


def all_table(result: MonitorEvaluation) -> str:
    """Return every row of the result on demand, without those of the sweep."""
    rows: list[tuple[Cell, ...]] = []
    for row in result.rows:
        e = row.estimate
        group = ", ".join(f"{name} {value}" for name, value in (row.group or {}).items())
        bounds = map(_number_or_none, (e.value, e.low, e.high))
        why = reason_text(e.reason) if math.isnan(e.value) else ""
        rows.append((row.model, row.metric, group, *bounds, e.n_images, e.n_references, why))
    columns = (
        "of",
        "quantity",
        "labels",
        "value",
        "low",
        "high",
        "images",
        "wanted",
        "undefined because",
    )
    table = data_table(
        Table(columns, tuple(rows)), "table-rows", "All quantities", 400, all_in="monitor.csv"
    )
    return details("All quantities", table)


def _number_or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def labels_table(result: MonitorEvaluation) -> str:
    """Return OOD labels against OMS labels: counts, and the shares with their intervals; nothing
    without both.
    """
    if result.disagreement is None:
        return ""
    counts = result.disagreement.labels
    rows: list[tuple[Cell, ...]] = []
    for name, row in zip(("in distribution", "out of distribution"), counts):
        rows.append((name, *map(int, row), int(row.sum())))
    rows.append(("all", *map(int, counts.sum(axis=0)), int(counts.sum())))
    table = Table(("images", "safe", "unsafe", "all"), tuple(rows))
    every = [result.disagreement.share(name) for name in SHARES]
    shares: list[tuple[Cell, ...]] = []
    for words, e in zip(SHARES.values(), every):
        shares.append((words, cell(e), e.n_images))
    first = data_table(table, "table-labels", "Images by both kinds of labels", over=1)
    second = data_table(
        Table(("share", "value", "of images"), tuple(shares)),
        "table-shares",
        "How far they disagree",
    )
    return first + second + _marks(every)


def _marks(every: Sequence[Estimate]) -> str:
    """Return what the marks behind intervals mean."""
    return "".join(paragraph(line, "note") for line in legend(every))


def cells_table(result: MonitorEvaluation) -> str:
    """Return the share of images that every monitor rejects, for OOD and in-distribution, safe and
    unsafe images.
    """
    if result.disagreement is None or not result.disagreement.alarms:
        return ""
    rows: list[tuple[Cell, ...]] = []
    every: list[Estimate] = []
    for name, counts in result.disagreement.alarms.items():
        for place in np.ndindex(2, 2):
            ood, unsafe = bool(place[0]), bool(place[1])
            share = result.disagreement.rejected(name, ood=ood, unsafe=unsafe)
            every.append(share)
            where = "out of distribution" if ood else "in distribution"
            safety = "unsafe" if unsafe else "safe"
            n, n_rejected = int(counts[place].sum()), int(counts[place][1])
            rows.append((name, where, safety, n, n_rejected, n - n_rejected, cell(share)))
    columns = ("monitor", "images", "they are", "number", "rejected", "accepted", "share rejected")
    caption = "Images of every kind that each monitor rejects and accepts"
    table = data_table(Table(columns, tuple(rows)), "table-cells", caption, all_in="monitor.json")
    return table + _marks(every)


def pairs_table(result: MonitorEvaluation) -> str:
    """Return the differences of AUROC of all pairs, under every headline; nothing for one
    monitor.
    """
    if len(result.monitors) < 2 or not result.paradigms:
        return ""
    rows: list[tuple[Cell, ...]] = []
    for paradigm in result.paradigms:
        for d in result.compare_all("AUROC", paradigm):
            rows.append(
                (
                    paradigm.upper(),
                    d.model_a,
                    d.model_b,
                    cell(d.estimate),
                    _number_or_none(d.p_adjusted),
                    d.verdict.replace("_", " "),
                )
            )
    columns = ("labels", "a", "b", "AUROC, a − b", "p (Holm)", "verdict")
    caption = (
        "Paired differences on the same images; p values are corrected for the pairs under one "
        "kind "
        "of labels"
    )
    return data_table(Table(columns, tuple(rows)), "table-pairs", caption, all_in="monitor.json")


def order_table(result: MonitorEvaluation) -> str:
    """Return the order of monitors by AUROC under both labels and at every tau; nothing for one
    monitor.
    """
    if len(result.monitors) < 2:
        return ""
    rows: list[tuple[Cell, ...]] = []
    for one in result.ranking("AUROC").orders:
        labels = one.paradigm.upper() if one.tau is None else f"OMS, tau = {one.tau:.4g}"
        names = sorted(one.ranks, key=lambda name: one.ranks[name])
        order = ", ".join(f"{one.ranks[name]}. {name} ({one.values[name]:.3f})" for name in names)
        share = max(one.wins.values()) if one.wins else None
        rows.append((labels, " and ".join(one.winners), order or "undefined", share))
    columns = (
        "labels",
        "best",
        "order (AUROC)",
        "share of replicates in which the most frequent winner is first",
    )
    table = data_table(
        Table(columns, tuple(rows)), "table-order", "Best monitor by labels", all_in="monitor.json"
    )
    return details("Best monitor at every tau", table)
