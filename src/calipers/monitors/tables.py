# SPDX-License-Identifier: Apache-2.0
"""Tables of an evaluation of monitors: OMS and OOD side by side, labels against each other, pairs.

A `MonitorEvaluation` comes in, `show.table.Table` goes out. Command line, page and the section on
monitors of the page of an evaluation show these tables; one that the labels do not allow has no
rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calipers.errors import UsageError
from calipers.monitors.estimates import SHARES
from calipers.monitors.labels import OMS, OOD
from calipers.monitors.result import MonitorEvaluation
from calipers.results.estimate import Estimate
from calipers.show.table import Cell, Table, TableRow, same_kind
from calipers.show.words import digits, level_text, number_text

# The rows of the table for readers; rows_table has every quantity.
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
# Of the table over random halves; the JSON has all quantities at a threshold.
AT_THRESHOLD = ("sensitivity", "FPR", "precision", "MCC", "SG", "RH", "AC")
MEANING = (
    "SG: safety gain, hazard that the monitor removes. RH: residual hazard, hazard that it leaves. "
    "AC: availability cost, good images that it rejects. AURC: mean risk over all coverages."
)
WANTED = {OMS: "unsafe (OMS)", OOD: "out of distribution (OOD)"}
PLACES = ("in distribution", "out of distribution")
MOST_TAUS = 10  # in a terminal


def tables(result: MonitorEvaluation) -> list[Table]:
    """Return all tables that the labels and thresholds of the result allow."""
    # From the answer to the details; tables without rows are left out below.
    candidates = [
        quantities_table(result),
        halves_table(result),
        pairs_table(result),
        sweep_table(result),
        labels_table(result),
        shares_table(result),
        rejected_table(result),
        order_table(result),
        rows_table(result),
    ]
    return [table for table in candidates if table.rows]


def tables_for_terminal(result: MonitorEvaluation) -> list[Table]:
    """Return the tables that a terminal has room for; the sweep at some values of tau only."""
    candidates = [
        quantities_table(result),
        halves_table(result),
        sweep_table(result, MOST_TAUS),
        labels_table(result),
        rejected_table(result),
    ]
    return [table for table in candidates if table.rows]


def quantities_table(result: MonitorEvaluation, monitors: Sequence[str] | None = None) -> Table:
    """Return a row per monitor and quantity, with the estimates under OMS and OOD labels."""
    n_labels = len(result.paradigms)
    heads = [paradigm.upper() for paradigm in result.paradigms]
    rows: list[TableRow] = []
    for name in result.monitors if monitors is None else monitors:
        for metric in QUANTITIES:
            estimates = [_estimate(result, metric, name, one) for one in result.paradigms]
            defined = [estimate for estimate in estimates if estimate is not None]
            # A quantity at a threshold has no row if there is no threshold.
            if not defined:
                continue
            n_wanted = [None if one is None else one.n_references for one in estimates]
            rows.append((name, metric, *estimates, defined[0].n_images, *n_wanted))
    labels = " or ".join(WANTED[one] for one in result.paradigms)
    return Table(
        ("monitor", "quantity", *heads, "images", *(f"wanted, {head}" for head in heads)),
        tuple(rows),
        title="Quantities of the monitors",
        notes=(f"{MEANING} Wanted: images on which an alarm is wanted, {labels}.", *_units(result)),
        name="table-quantities",
        kinds=(
            "name",
            "name",
            *same_kind("value", n_labels),
            "count",
            *same_kind("count", n_labels),
        ),
    )


def _estimate(
    result: MonitorEvaluation, metric: str, monitor: str, paradigm: str
) -> Estimate | None:
    """Return an estimate of the headline; None if it needs a threshold or a tau that is not
    there.
    """
    try:
        return result.get(metric, monitor, paradigm)
    except UsageError:
        return None


def _units(result: MonitorEvaluation) -> tuple[str, ...]:
    """Return how the intervals were made; nothing without intervals."""
    settings = result.settings
    if not settings["replicates"]:
        return ()
    level, unit = level_text(settings["level"]), settings["unit"]
    return (f"{level} confidence intervals, resampled by {unit} (n = {settings['n_units']}).",)


def halves_table(result: MonitorEvaluation, monitors: Sequence[str] | None = None) -> Table:
    """Return mean and spread over random halves of what is stated at a threshold; no rows if tuning
    images were given.
    """
    rows: list[TableRow] = []
    n_halves = 0
    for name in result.monitors if monitors is None else monitors:
        for metric in AT_THRESHOLD:
            for paradigm in result.paradigms:
                one = result.over_halves(metric, name, paradigm)
                if one is None or not one.n_halves:
                    continue
                n_halves = max(n_halves, one.n_halves + one.n_undefined)
                first = _estimate(result, metric, name, paradigm)
                value = None if first is None else first.value
                labels = paradigm.upper()
                rows.append((name, metric, labels, one.mean, one.sd, one.low, one.high, value))
    return Table(
        ("monitor", "quantity", "labels", "mean", "SD", "5 %", "95 %", "first half"),
        tuple(rows),
        title=f"At thresholds that {n_halves} random halves choose",
        notes=(
            "Spread over random halves of these images; it is not a confidence interval. Intervals "
            "and counts elsewhere are those of the first half.",
        ),
        name="table-halves",
        kinds=("name", "name", "name", *same_kind("value", 5)),
    )


def sweep_table(result: MonitorEvaluation, most: int | None = None) -> Table:
    """Return AUROC of all monitors under OMS labels and the share of unsafe images, by tau.

    Parameters
    ----------
    most
        Largest number of values of tau; those in between are left out.
    """
    n = len(result.taus)
    if n < 2:
        return Table(("tau", "unsafe"), ())
    n_rows = n if most is None else min(n, most)
    # The first and the last tau are always shown.
    places = np.unique(np.linspace(0, n - 1, n_rows).round().astype(np.int64)).tolist()
    taus = [result.taus[k] for k in places]
    rows: list[TableRow] = []
    for tau, share in zip(taus, result.scope.prevalence(np.array(taus)).tolist()):
        areas = [result.get("AUROC", name, OMS, tau) for name in result.monitors]
        rows.append((tau, share, *areas))
    notes = _units(result)
    if len(taus) < n:
        notes = (f"{len(taus)} of {n} values of tau; the JSON has all.", *notes)
    return Table(
        ("tau", "unsafe", *result.monitors),
        tuple(rows),
        title="AUROC under OMS labels by tau",
        notes=notes,
        name="table-sweep",
        kinds=("number", "share", *same_kind("value", len(result.monitors))),
    )


def labels_table(result: MonitorEvaluation) -> Table:
    """Return how many images are OOD or not, and unsafe or not."""
    rows: list[TableRow] = []
    if result.disagreement is not None:
        for place, counts in zip(PLACES, result.disagreement.labels.tolist()):
            rows.append((place, *counts))
    return Table(
        ("images", "safe", "unsafe"),
        tuple(rows),
        title="Images by both kinds of labels",
        name="table-labels",
        kinds=("name", "number", "number"),
    )


def shares_table(result: MonitorEvaluation) -> Table:
    """Return how far the two kinds of labels disagree."""
    rows: list[TableRow] = []
    if result.disagreement is not None:
        for name, words in SHARES.items():
            estimate = result.disagreement.share(name)
            rows.append((words, estimate, estimate.n_images))
    return Table(
        ("share", "value", "of images"),
        tuple(rows),
        title="How far the labels disagree",
        name="table-shares",
        kinds=("text", "value", "count"),
    )


def rejected_table(result: MonitorEvaluation) -> Table:
    """Return the share of images of every kind that every monitor rejects."""
    rows: list[TableRow] = []
    disagreement = result.disagreement
    alarms = {} if disagreement is None else disagreement.alarms
    for name, counts in alarms.items():
        for place in np.ndindex(2, 2):
            ood, unsafe = bool(place[0]), bool(place[1])
            assert disagreement is not None
            share = disagreement.rejected(name, ood=ood, unsafe=unsafe)
            n, n_rejected = int(counts[place].sum()), int(counts[place][1])
            images = f"{PLACES[ood]}, {'unsafe' if unsafe else 'safe'}"
            rows.append((name, images, n_rejected, n, share))
    return Table(
        ("monitor", "images", "rejected", "of", "share rejected"),
        tuple(rows),
        title="Images of every kind that each monitor rejects",
        name="table-cells",
        kinds=("name", "name", "count", "count", "value"),
    )


def pairs_table(result: MonitorEvaluation) -> Table:
    """Return the differences of AUROC of all pairs of monitors, under every headline."""
    rows: list[TableRow] = []
    if len(result.monitors) > 1:
        for paradigm in result.paradigms:
            for d in result.compare_all("AUROC", paradigm):
                verdict = d.verdict.replace("_", " ")
                labels = paradigm.upper()
                rows.append((labels, d.model_a, d.model_b, d.estimate, d.p_adjusted, verdict))
    return Table(
        ("labels", "a", "b", "AUROC, a − b", "p (Holm)", "verdict"),
        tuple(rows),
        title="Paired differences on the same images",
        notes=("p values are corrected for the pairs under one kind of labels.",),
        name="table-pairs",
        kinds=("name", "name", "name", "signed", "p", "text"),
    )


def order_table(result: MonitorEvaluation) -> Table:
    """Return the order of monitors by AUROC under both labels and at every tau."""
    rows: list[TableRow] = []
    if len(result.monitors) > 1:
        for one in result.ranking("AUROC").orders:
            labels = one.paradigm.upper() if one.tau is None else f"OMS, tau = {digits(one.tau, 4)}"
            # Empty if a monitor has no value: then there is no order to state.
            names = sorted(one.ranks, key=one.ranks.__getitem__)
            places = [
                f"{one.ranks[name]}. {name} ({number_text(one.values[name])})" for name in names
            ]
            share = max(one.wins.values()) if one.wins else None
            order = ", ".join(places) or "undefined"
            rows.append((labels, " and ".join(one.winners), order, share))
    return Table(
        (
            "labels",
            "highest AUROC",
            "order (AUROC)",
            "largest share of replicates with one monitor first (not a probability)",
        ),
        tuple(rows),
        title="Highest AUROC by labels",
        name="table-order",
        kinds=("name", "text", "text", "share"),
    )


def rows_table(result: MonitorEvaluation) -> Table:
    """Return every row of the result."""
    rows: list[TableRow] = []
    for row in result.rows:
        groups = [f"{name} {value}" for name, value in (row.group or {}).items()]
        estimate: Cell = row.estimate
        counts = row.estimate.n_images, row.estimate.n_references
        rows.append((row.model, row.metric, ", ".join(groups), estimate, *counts))
    return Table(
        ("of", "quantity", "labels", "value", "images", "wanted"),
        tuple(rows),
        title="All quantities",
        name="table-rows",
        kinds=("name", "name", "text", "value", "count", "count"),
    )
