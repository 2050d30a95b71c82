# SPDX-License-Identifier: Apache-2.0
"""Figures of sweeps: AUROC and prevalence over tau, and over the share of harmless shifts."""

from __future__ import annotations

import math

import numpy as np

from calipers.plots.figures import Axis, Curves, Line
from calipers.studies.framework import StudyFigure
from calipers.studies.monitors.figures import GREY, featured_monitors
from calipers.studies.monitors.found import MonitorsRun
from calipers.studies.monitors.sweeps import PAIR, REPLICATES, ShareSweep, TauCurves

TAU_AXIS = Axis("tau", 0.0, 1.0)


def sweep_figures(run: MonitorsRun) -> list[StudyFigure]:
    """Return the figures over tau, and over the share of harmless shifts if there are any."""
    figures = [tau_figure(run)]
    if run.shares:
        figures.append(share_figure(run))
    return figures


def tau_figure(run: MonitorsRun) -> StudyFigure:
    """Return AUROC and prevalence over tau."""
    names = {trial.name: featured_monitors(trial) for trial in run.mixed_trials}
    panels = [_areas(curve, names[curve.trial]) for curve in run.taus if curve.trial in names]
    lines = tuple(
        Line(f"{curve.trial}, {curve.classes}", curve.taus, curve.prevalence, slot=slot)
        for slot, curve in enumerate(run.taus)
    )
    panels.append(Curves("Share of unsafe images", TAU_AXIS, Axis("prevalence", 0.0, 1.0), lines))
    spans = [curve.prevalence for curve in run.taus]
    low, high = min(float(s[0]) for s in spans), max(float(s[-1]) for s in spans)
    return StudyFigure(
        "figure-6",
        f"Between tau near 0 and tau = 1 the share of unsafe images goes from {low:.2f} to "
        f"{high:.2f}",
        "AUROC for unsafe images, s < tau, with 95 % intervals of the bootstrap (percentiles), "
        "and the share of unsafe images; s is the mean F1 over the classes present, or over those "
        "declared. Between two values that s takes nothing changes. Where a curve is missing, all "
        "images are of one kind.",
        tuple(panels),
        rows=(2,) * (len(panels) // 2 + len(panels) % 2),
    )


def _areas(curve: TauCurves, names: tuple[str, ...]) -> Curves:
    lines = []
    for slot, name in enumerate(names):
        k = curve.monitors.index(name)
        defined = curve.defined
        tables = (curve.values, curve.low, curve.high)
        value, low, high = (table[k, defined] for table in tables)
        lines.append(Line(name, curve.taus[defined], value, low, high, slot=slot))
    title = f"{curve.trial.capitalize()}, {curve.classes} classes"
    return Curves(title, TAU_AXIS, Axis("AUROC for unsafe images", 0.3, 1.0), tuple(lines))


def share_figure(run: MonitorsRun) -> StudyFigure:
    """Return two monitors over the share of harmless shifts."""
    first = run.shares[0]
    # NaN: the order never turns.
    turns = [sweep.measured_flip for sweep in run.shares if not math.isnan(sweep.measured_flip)]
    words = f"at a share of {min(turns):.2f} to {max(turns):.2f}" if turns else "nowhere"
    panels = []
    for sweep in run.shares:
        panels += [_share(sweep, "oms"), _share(sweep, "ood")]
    return StudyFigure(
        "figure-7",
        f"Harmless shifts turn the order of two monitors {words}, and OOD labels do not notice",
        f"Half of the {first.n_images} images are OOD; of these, the share on the horizontal axis "
        "has another sky, which is harmless; the others have fog, blur or night. shift-detector "
        "sees shifts only (3 standard deviations), weak-failure-predictor sees failures only "
        f"(0.6). Far runways fail in distribution too. Bands: 95 % of {REPLICATES} bootstrap "
        "replicates; grey: the closed forms of both, in this order.",
        tuple(panels),
        rows=(2,) * len(run.shares),
    )


def _share(sweep: ShareSweep, paradigm: str) -> Curves:
    lines = []
    values, low, high = (table[paradigm] for table in (sweep.values, sweep.low, sweep.high))
    marks = tuple(range(len(sweep.shares)))
    for k, name in enumerate(PAIR):
        lines.append(Line(name, sweep.shares, values[k], low[k], high[k], slot=k, marks=marks))
    for k, theory in enumerate(sweep.theory[paradigm]):
        lines.append(Line(f"closed form, {k + 1}", sweep.shares, theory, slot=GREY))
    labels = "unsafe images (OMS)" if paradigm == "oms" else "OOD images"
    title = f"{100 * sweep.far:g} % far runways: {labels}"
    x = Axis("share of harmless shifts", 0.0, 1.0)
    lowest = float(np.floor(10 * min(line.y.min() for line in lines)) / 10)
    return Curves(title, x, Axis(f"AUROC for {labels}", min(lowest, 0.4), 1.0), tuple(lines))
