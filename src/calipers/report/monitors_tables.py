# SPDX-License-Identifier: Apache-2.0
"""Numbers on monitors as tables of the page: OMS and OOD side by side, labels against each other,
pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calipers.errors import UsageError
from calipers.findings import legend, marks_of
from calipers.monitors.disagreement import SHARES
from calipers.monitors.labellings import OMS, OOD
from calipers.monitors.result import MonitorEvaluation
from calipers.monitors.thresholds import threshold_text
from calipers.plots.figures import Cell, Table
from calipers.plots.monitors_alarms import others_of
from calipers.plots.monitors_orders import leading
from calipers.report.grids import frame
from calipers.report.markup import data_table, details, paragraph, text
from calipers.report.words import between, reason_word, short
from calipers.results import Estimate
from calipers.results.digits import shown

QUANTITIES = {  # of the headline table, in its order -> what they are
    "AUROC": "order: share of pairs in which the image with the wanted alarm has the higher score",
    "AUPR": "average precision of the wanted alarms; by chance it is their share",
    "FPR95": "share of other images rejected when 95 % of the wanted ones are",
    "MCC": "Matthews correlation at the threshold",
    "AURC": "mean risk over all coverages, small is good",
    "E-AURC": "AURC above that of the best order there is, small is good",
    "SG": "safety gain: hazard that the monitor removes",
    "RH": "residual hazard: what it leaves, small is good",
    "AC": "availability cost: good images that it rejects, small is good",
}
HEADS = {
    OMS: "OMS: alarm wanted on unsafe images",
    OOD: "OOD: alarm wanted on images out of distribution",
}
MOST_MONITORS = 12


def estimate(found: MonitorEvaluation, metric: str, monitor: str, paradigm: str) -> Estimate | None:
    """Return an estimate of the headline; None if nothing is stated, for lack of a threshold or a
    tau.
    """
    try:
        return found.get(metric, monitor, paradigm)
    except UsageError:
        return None


def beside(
    found: MonitorEvaluation, metrics: Sequence[str], monitor: str
) -> list[tuple[str, list[Estimate | None]]]:
    """Return quantities of a monitor with their estimates under every headline; those without any
    are left out.
    """
    rows = [
        (metric, [estimate(found, metric, monitor, paradigm) for paradigm in found.paradigms])
        for metric in metrics
    ]
    return [(metric, each) for metric, each in rows if any(e is not None for e in each)]


def headline_table(found: MonitorEvaluation) -> str:
    """Return a table per monitor: its quantities, OMS and OOD side by side; nothing without labels."""
    if not found.paradigms:
        return ""
    names = leading(found, MOST_MONITORS)
    left = len(found.monitors) - len(names)
    more = (
        f"The {len(names)} best of {len(found.monitors)} monitors; monitor.json has all."
        if left
        else ""
    )
    notes = "".join(f"<li>{text(f'{name}: {words}.')}</li>" for name, words in QUANTITIES.items())
    tables = [_of_monitor(found, name) for name in names]
    return "\n".join(
        [paragraph(more, "note"), *tables, details("What the quantities are", f"<ul>{notes}</ul>")]
    )


def _of_monitor(found: MonitorEvaluation, name: str) -> str:
    rows = beside(found, tuple(QUANTITIES), name)
    heads = ["quantity", *(HEADS[paradigm] for paradigm in found.paradigms), "images", "wanted"]
    head = "<tr>" + "".join(f"<th scope=col>{text(word)}</th>" for word in heads) + "</tr>"
    lines = []
    for metric, each in rows:
        known = [e for e in each if e is not None]
        wanted = " / ".join(str(e.n_references) for e in known)
        cells = "".join(f'<td class="num">{text(cell(e))}</td>' for e in each)
        lines.append(
            f"<tr><th scope=row>{text(metric)}</th>{cells}<td class=n>{known[0].n_images}</td><td class=n>{wanted}</td>"
            "</tr>"
        )
    every = [e for _, each in rows for e in each if e is not None]
    title = f"<strong>{text(short(name))}</strong>. "
    threshold = threshold_text(found.thresholds[name], others_of(found))
    said = f"{threshold[0].upper()}{threshold[1:]}. Wanted: images on which an alarm is wanted."
    return frame(said, head, lines, title=title, label=name, below=legend(every))


def cell(e: Estimate | None) -> str:
    """Return value and interval, or why there is no value."""
    if e is None:
        return ""
    if math.isnan(e.value):
        return reason_word(e.reason)
    return " ".join(filter(None, [shown(e.value), between(e.low, e.high) + marks_of(e)]))


def all_table(found: MonitorEvaluation) -> str:
    """Return every row of the result on demand, those of the sweep apart."""
    rows: list[tuple[Cell, ...]] = []
    for row in found.rows:
        e = row.estimate
        group = ", ".join(f"{name} {value}" for name, value in (row.group or {}).items())
        bounds = (None if math.isnan(v) else v for v in (e.value, e.low, e.high))
        why = reason_word(e.reason) if math.isnan(e.value) else ""
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


def labels_table(found: MonitorEvaluation) -> str:
    """Return OOD labels against OMS labels: counts, and the shares with their intervals; nothing
    without both.
    """
    if found.disagreement is None:
        return ""
    counts = found.disagreement.labels
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *(int(n) for n in counts[k]), int(counts[k].sum()))
        for k, name in enumerate(("in distribution", "out of distribution"))
    )
    whole: tuple[Cell, ...] = ("all", *(int(n) for n in counts.sum(axis=0)), int(counts.sum()))
    table = Table(("images", "safe", "unsafe", "all"), (*rows, whole))
    every = [found.disagreement.share(name) for name in SHARES]
    shares: list[tuple[Cell, ...]] = [
        (words, cell(e), e.n_images) for words, e in zip(SHARES.values(), every)
    ]
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


def cells_table(found: MonitorEvaluation) -> str:
    """Return which share of the images of every kind every monitor rejects: OOD x unsafe x
    rejected.
    """
    if found.disagreement is None or not found.disagreement.alarms:
        return ""
    rows: list[tuple[Cell, ...]] = []
    every: list[Estimate] = []
    for name, counts in found.disagreement.alarms.items():
        for place in np.ndindex(2, 2):
            ood, unsafe = bool(place[0]), bool(place[1])
            n = int(counts[place].sum())
            every.append(found.disagreement.rejected(name, ood=ood, unsafe=unsafe))
            kind = ("out of" if ood else "in") + " distribution", "unsafe" if unsafe else "safe"
            rows.append(
                (name, *kind, n, int(counts[place][1]), n - int(counts[place][1]), cell(every[-1]))
            )
    columns = ("monitor", "images", "they are", "number", "rejected", "accepted", "share rejected")
    said = "What every monitor does with images of every kind"
    return data_table(
        Table(columns, tuple(rows)), "table-cells", said, all_in="monitor.json"
    ) + _marks(every)


def pairs_table(found: MonitorEvaluation) -> str:
    """Return the differences of AUROC of all pairs, under every headline; nothing for one monitor."""
    if len(found.monitors) < 2 or not found.paradigms:
        return ""
    rows: list[tuple[Cell, ...]] = []
    for paradigm in found.paradigms:
        for d in found.compare_all("AUROC", paradigm):
            p = None if math.isnan(d.p_adjusted) else d.p_adjusted
            rows.append(
                (
                    paradigm.upper(),
                    d.model_a,
                    d.model_b,
                    cell(d.estimate),
                    p,
                    d.verdict.replace("_", " "),
                )
            )
    columns = ("labels", "a", "b", "AUROC, a − b", "p (Holm)", "verdict")
    said = "Differences on the same images under the same weights; p corrected for the pairs of one kind of labels"
    return data_table(Table(columns, tuple(rows)), "table-pairs", said, all_in="monitor.json")


def order_table(found: MonitorEvaluation) -> str:
    """Return who is first by AUROC under which labels, every tau included; nothing for one monitor."""
    if len(found.monitors) < 2:
        return ""
    rows: list[tuple[Cell, ...]] = []
    for one in found.ranking("AUROC").orders:
        labels = one.paradigm.upper() if one.tau is None else f"OMS, tau = {one.tau:.4g}"
        ranked = sorted(one.ranks, key=lambda name: one.ranks[name])
        order = ", ".join(f"{one.ranks[name]}. {name} ({one.values[name]:.3f})" for name in ranked)
        share = max(one.wins.values()) if one.wins else None
        rows.append((labels, " and ".join(one.winners), order or "undefined", share))
    columns = (
        "labels",
        "first",
        "order (AUROC)",
        "share of replicates that the most frequent first wins",
    )
    table = data_table(
        Table(columns, tuple(rows)), "table-order", "Who is first where", all_in="monitor.json"
    )
    return details("Who is first at every tau", table)
