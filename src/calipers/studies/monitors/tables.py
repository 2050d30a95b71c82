# SPDX-License-Identifier: Apache-2.0
"""Tables of the study of monitors: ill-defined scores, classes, monitors under both paradigms, tau.

A `MonitorsRun` or one of its trials comes in, tables go out, to `study.run`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calipers.monitors.labels import OMS, OOD
from calipers.results.estimate import Estimate
from calipers.show.table import Cell, Table
from calipers.studies.framework import counterparts_table
from calipers.studies.monitors.claims import scan_of
from calipers.studies.monitors.experiments import (
    MEANS,
    NUMBERS_OF_CLASSES,
    USUAL,
    MonitorsRun,
    Trial,
)

SHOWN_COUNTS = 2  # predictions and references of the table
# Quantities without a threshold and at one, each under both kinds of labels.
FREE = ("AUROC", "AUPR", "FPR95", "AURC", "E-AURC")
DECIDED = ("SG", "RH", "AC", "coverage", "sensitivity", "FPR", "MCC")


def tables(run: MonitorsRun) -> list[Table]:
    """Return the tables that the data allow."""
    result = [counts_table(run), classes_table(run)]
    if any(areas.winners for areas in run.areas):
        result.append(winners_table(run))
    if run.records:
        result.append(detectors_table(run))
    for k, trial in enumerate(run.trials, start=1):
        if trial.is_mixed:
            result += [areas_table(trial, f"table-5-{k}"), threshold_table(trial, f"table-6-{k}")]
    result.append(tau_table(run))
    if run.proxies:
        result.append(strength_table(run))
    none = "none: it is a note without figures or tables; those of this page are ours"
    definitions = "tables 1 and 2 and figure 1, on constructed images"
    scan = scan_of(run)
    if scan is not None:
        title = "Table 9: who is best, over the choices that the note leaves open"
        result.append(scan.table("table-9", title))
    rows = (("figures and tables", none), ("definitions and the LARD case", definitions))
    return [*result, counterparts_table(rows)]


def winners_table(run: MonitorsRun) -> Table:
    """Return who wins under which labels."""
    rows = []
    for areas in run.areas:
        for one in areas.winners:
            share = round(one.wins, 3)
            numbers = (one.value, one.low, one.high, share)
            rows.append((one.trial, one.labels, one.n_positive, one.winner, *numbers, one.second))
    columns = ("data", "labels", "positive images", "best monitor", "AUROC", "low", "high")
    note = (
        "OMS: unsafe images. OOD: images out of distribution by a definition: the picture is, an "
        "object is, or either. Wins: share of the bootstrap replicates in which the monitor is the "
        "best; all labels and monitors share the replicates. Low and high are percentiles of the "
        "bootstrap, so that they may differ from table 5 in the third decimal."
    )
    return Table(
        (*columns, "wins", "second best"),
        tuple(rows),
        name="table-3",
        title="Table 3: which monitor wins under which labels",
        notes=(note,),
    )


def detectors_table(run: MonitorsRun) -> Table:
    """Return the detectors that were trained."""
    rows = []
    for record, trial in zip(run.records, run.trials):
        usual = trial.kinds == USUAL
        shares = float(trial.unsafe[usual].mean()), float(trial.unsafe[~usual].mean())
        facts = (record.name, record.data, record.foreign, record.n_training, record.seed)
        rows.append((*facts, record.average_precision, record.score_cut, len(record), *shares))
    columns = ("detector", "data", "foreign objects", "trained on", "seed", "AP50", "score cut")
    note = (
        "AP50 on usual test images. The score cut has the best mean s on validation images, which "
        "are in distribution. Shares are those of the images for testing (without tuning)."
    )
    return Table(
        (*columns, "test images", "unsafe, usual", "unsafe, shifted"),
        tuple(rows),
        name="table-4",
        title="Table 4: the detectors",
        notes=(note,),
    )


def counts_table(run: MonitorsRun) -> Table:
    """Return the printed score next to 2 TP / (Nd + Nx) for small counts."""
    rows = tuple(
        (
            c.predictions,
            c.references,
            c.hits,
            *map(_cell, (c.precision, c.recall, c.printed_score, c.defined_score)),
        )
        for c in run.definitions.counts
        if max(c.predictions, c.references) <= SHOWN_COUNTS
    )
    columns = (
        "predictions",
        "references",
        "hits",
        "P",
        "R",
        "score as printed",
        "2 TP / (Nd + Nx)",
    )
    note = "One class on one image. Empty: the formula divides 0 by 0."
    return Table(
        columns,
        rows,
        name="table-1",
        title="Table 1: where the printed score has no value",
        notes=(note,),
    )


def classes_table(run: MonitorsRun) -> Table:
    """Return what the mean over classes hides."""
    d = run.definitions
    rows = []
    for k, c in enumerate(NUMBERS_OF_CLASSES):
        scores = [float(d.missed_scores[mean][k]) for mean in MEANS]
        rows.append((c, 1.0 - 1.0 / c, *scores, _cell(float(d.confused_scores["declared"][k]))))
    columns = (
        "classes C",
        "1 - 1/C",
        *(f"missed, {mean}" for mean in MEANS),
        "wrong class, declared",
    )
    note = (
        "Score s of an image with one object that is missed, or found with a wrong class. tau "
        "must be above it."
    )
    return Table(
        columns,
        tuple(rows),
        name="table-2",
        title="Table 2: what the mean over classes hides",
        notes=(note,),
    )


def areas_table(trial: Trial, name: str) -> Table:
    """Return all monitors under both paradigms, with intervals."""
    paradigms = (OMS, OOD) if trial.is_comparable else (OMS,)
    get = trial.evaluation.get
    rows = []
    for monitor in trial.evaluation.monitors:
        for metric in FREE:
            estimates = [get(metric, monitor, paradigm) for paradigm in paradigms]
            rows.append((monitor, metric, *_cells(estimates)))
    columns = []
    for paradigm in paradigms:
        head = paradigm.upper()
        columns += [head, f"{head} low", f"{head} high"]
    units = trial.evaluation.basis.units
    note = (
        f"{trial.evaluation.n_images} images for testing, {int(trial.unsafe.sum())} of them "
        f"unsafe; 95 % intervals (bootstrap t) over {units.number} units ({units.name}). For "
        "AUPR, the positives are the images that should raise an alarm."
    )

    return Table(
        ("monitor", "quantity", *columns),
        tuple(rows),
        name=name,
        title=f"Table 5, {trial.name}: monitors under both paradigms",
        notes=(note,),
    )


def threshold_table(trial: Trial, name: str) -> Table:
    """Return the decisions of the monitors at thresholds of the tuning split, under OMS labels."""
    evaluation = trial.evaluation
    rows = []
    for monitor in evaluation.monitors:
        for metric in DECIDED:
            estimate = evaluation.get(metric, monitor, OMS)
            cells = _cells([estimate])
            rows.append((monitor, metric, *cells, estimate.n_images, estimate.n_predictions))
    n_tuning = 0
    for threshold in evaluation.thresholds.values():
        if threshold is not None:
            n_tuning = max(n_tuning, threshold.n_tuning)
    note = (
        "SG: share of all images that are unsafe and rejected; RH: unsafe and accepted; AC: safe "
        "and rejected. SG + RH is the hazard without a monitor. Thresholds reject at most 5 % of "
        f"the safe ones among {n_tuning} tuning images; the ideal monitors, which say yes or no, "
        "need none."
    )
    title = f"Table 6, {trial.name}: alarms at a threshold of the tuning split"
    columns = ("monitor", "quantity", "value", "low", "high", "images", "rejected")
    return Table(columns, tuple(rows), name=name, title=title, notes=(note,))


def tau_table(run: MonitorsRun) -> Table:
    """Return the prevalence where it changes, and the best monitor there."""
    rows: list[tuple[Cell, ...]] = []
    for curve in run.taus:
        n = next(len(trial.kinds) for trial in run.trials if trial.name == curve.trial)
        # The prepended value makes the first tau a change.
        changes = np.flatnonzero(np.diff(curve.prevalence, prepend=-1.0))
        for k in changes.tolist():
            values = curve.values[:, k]
            best = None if np.isnan(values).any() else curve.monitors[int(values.argmax())]
            numbers = (round(float(curve.taus[k]), 4), float(curve.prevalence[k]), n)
            rows.append((curve.trial, curve.classes, *numbers, best, _cell(float(values.max()))))
    columns = (
        "data",
        "mean over classes",
        "tau",
        "prevalence of unsafe images",
        "n",
        "best monitor",
        "its AUROC",
    )
    note = "The first tau of the grid at which the prevalence has a new value."
    return Table(
        columns,
        tuple(rows),
        name="table-7",
        title="Table 7: unsafe images, and the best monitor for them, over tau",
        notes=(note,),
    )


def strength_table(run: MonitorsRun) -> Table:
    """Return how good a proxy OOD labels are at every strength."""
    rows = []
    for proxy in run.proxies:
        for k, strength in enumerate(proxy.strengths):
            numbers = (float(proxy.unsafe[k]), float(proxy.values[k]))
            ends = (float(proxy.low[k]), float(proxy.high[k]))
            rows.append((proxy.trial, strength, proxy.n_images[k], *numbers, *ends))
    columns = ("data", "strength", "images", "unsafe, of the shifted", "AUROC", "low", "high")
    note = "AUROC that a monitor that knows what is OOD has for unsafe images."
    return Table(
        columns,
        tuple(rows),
        name="table-8",
        title="Table 8: how good a proxy OOD is, by the strength of shifts",
        notes=(note,),
    )


def _cell(value: float) -> float | None:
    return None if math.isnan(value) else value


def _cells(estimates: Sequence[Estimate]) -> list[float | None]:
    return [_cell(value) for e in estimates for value in (e.value, e.low, e.high)]
