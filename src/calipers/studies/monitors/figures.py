# SPDX-License-Identifier: Apache-2.0
"""Figures of the study of monitors: trials under both paradigms, and sweeps.

A `MonitorsRun` comes in, `StudyFigure` go out, to `study.run`. `figures` shows trials: unsafe
images, AUROC under both paradigms, risk and coverage, rejections. `sweep_figures` shows AUROC and
prevalence over tau, over the strength of shifts, and by definition of OOD. Figures show the first
detector of every data set (`MonitorsRun.featured`); tables have all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calipers.arrays import F64
from calipers.monitors.labels import OMS, OOD
from calipers.show.figures import Axis, Bars, Curves, Dots, Figure, HeatMap, Line, Scatter
from calipers.show.words import percent_text
from calipers.studies.framework import StudyFigure
from calipers.studies.monitors.experiments import (
    IDEAL,
    MEANS,
    NUMBERS_OF_CLASSES,
    TAU,
    USUAL,
    LabelAreas,
    MonitorsRun,
    TauCurves,
    Trial,
)

GREY = 6  # slot of the theme
CELLS = (
    ("ID, safe", False, False),
    ("ID, unsafe", False, True),
    ("OOD, safe", True, False),
    ("OOD, unsafe", True, True),
)
MOST_CURVES = 4
POINTS = 60  # of a drawn curve

TAU_AXIS = Axis("tau", 0.0, 1.0)


def figures(run: MonitorsRun) -> list[StudyFigure]:
    """Return the figures that the data allow, in the order of the paper."""
    result = [classes_figure(run), labels_figure(run)]
    if _comparable(run):
        result.append(areas_figure(run))
        result.append(rejected_figure(run))
    if _mixed(run):
        result.append(risk_figure(run))
    return result


def sweep_figures(run: MonitorsRun) -> list[StudyFigure]:
    """Return the figures over tau, over strengths and over definitions, as far as known."""
    figures = [tau_figure(run)]
    if run.proxies:
        figures.append(strength_figure(run))
    by_definition = _definition_areas(run)
    if by_definition:
        figures.append(definitions_figure(by_definition))
    return figures


def _comparable(run: MonitorsRun) -> list[Trial]:
    return [trial for trial in run.featured if trial.is_comparable]


def _mixed(run: MonitorsRun) -> list[Trial]:
    return [trial for trial in run.featured if trial.is_mixed]


def classes_figure(run: MonitorsRun) -> StudyFigure:
    """Return s of an image whose only object is missed, over the number of classes."""
    x = np.array(NUMBERS_OF_CLASSES, np.float64)
    lines = []
    for slot, mean in enumerate(MEANS):
        lines.append(
            Line(
                mean, x, run.definitions.missed_scores[mean], slot=slot, marks=tuple(range(len(x)))
            )
        )
    dense = np.geomspace(1.0, x[-1], 100)
    lines.append(Line("1 - 1/C", dense, 1.0 - 1.0 / dense, slot=GREY))
    score = float(run.definitions.missed_scores["declared"][-1])
    axis = Axis("declared classes C", log=True, ticks=(1.0, 2.0, 4.0, 8.0, 20.0, 80.0))
    panel = Curves("Only object missed", axis, Axis("score s of the image", 0.0, 1.0), tuple(lines))
    return StudyFigure(
        "figure-1",
        f"An image on which everything is missed scores {score:.2f} if there are "
        f"{NUMBERS_OF_CLASSES[-1]} classes",
        "The image has one object, and the model predicts nothing. F1 is averaged over all "
        "declared classes, over those present as references or predictions, or counts are pooled "
        "(micro). Absent classes score 1.",
        (panel,),
    )


def labels_figure(run: MonitorsRun) -> StudyFigure:
    """Return safe and unsafe images per kind."""
    panels = tuple(_labels(trial) for trial in run.featured)
    kinds_note = ""
    if any(trial.strength is not None for trial in run.featured):
        kinds_note = (
            f"The kind {USUAL!r} is in distribution. foreign: objects without a class; both: one "
            "of these, and a change of the picture. "
        )
    if _comparable(run):
        one = _comparable(run)[0]
        assert one.evaluation.disagreement is not None
        safe, inside = (
            one.evaluation.disagreement.share(name).value for name in ("OOD-safe", "unsafe-ID")
        )
        title = (
            f"{one.title}: {percent_text(safe)} of the OOD images are safe, "
            f"{percent_text(inside)} of the unsafe images are in distribution"
        )
    else:
        title = "Safe and unsafe images"
    return StudyFigure(
        "figure-2",
        title,
        f"Images for testing by kind; unsafe: s below tau = {TAU:g}, with F1 at an IoU of 0.5 "
        f"averaged over the classes present. {kinds_note}"
        + " ".join(f"{trial.title}: n = {len(trial.kinds)}." for trial in run.featured),
        panels,
    )


def _labels(trial: Trial) -> Bars:
    kinds = np.unique(trial.kinds).tolist()
    rate = {kind: float(trial.unsafe[trial.kinds == kind].mean()) for kind in kinds}
    first = (USUAL, "ID")
    # In-distribution images first, then shifts by the share of unsafe images.
    kinds.sort(key=lambda kind: (kind not in first, rate[kind], kind))
    counts = np.empty((2, len(kinds)))
    for column, kind in enumerate(kinds):
        unsafe = trial.unsafe[trial.kinds == kind]
        counts[:, column] = (~unsafe).sum(), unsafe.sum()
    y = Axis("images", 0.0, whole=True)
    return Bars(
        trial.title,
        Axis("kind", names=tuple(kinds)),
        y,
        ("safe", "unsafe"),
        counts,
        stacked=True,
    )


def areas_figure(run: MonitorsRun) -> StudyFigure:
    """Return AUROC under OMS labels against that under OOD labels."""
    one = _comparable(run)[0]
    by_ood, by_oms = one.order(OOD)[0], one.order(OMS)[0]
    differ = f"by OOD {by_ood} is best, by OMS {by_oms}"
    if by_ood == by_oms:
        differ = f"{by_ood} is best by both labels"
    replicates = one.evaluation.basis.certainty.replicates
    return StudyFigure(
        "figure-3",
        f"{one.title}: {differ}",
        "AUROC of every monitor for finding OOD images and for finding unsafe ones, with 95 % "
        f"intervals ({replicates} replicates; {_units(run)}). On the line both are equal. Grey: "
        "ideal monitors, which know the labels.",
        tuple(_areas(trial) for trial in _comparable(run)),
    )


def _units(run: MonitorsRun) -> str:
    parts = []
    for trial in _comparable(run):
        units = trial.evaluation.basis.units
        parts.append(
            f"{trial.name}: {trial.evaluation.n_images} images, resampled by {units.name} "
            f"(n = {units.number})"
        )
    return "; ".join(parts)


def _areas(trial: Trial) -> Scatter:
    def dots(names: tuple[str, ...], title: str, slot: int) -> Dots:
        x, y = _ends(trial, names, OOD), _ends(trial, names, OMS)
        return Dots(title, x[0], y[0], x[1], x[2], y[1], y[2], names=names, slot=slot)

    axes = (Axis("AUROC for OOD images", 0.3, 1.0), Axis("AUROC for unsafe images", 0.3, 1.0))
    # Names are placed in this order while there is room: those of the winners come first.
    names = tuple(dict.fromkeys([*featured_monitors(trial), *trial.contenders]))
    groups = (dots(names, "monitors", 0), dots(tuple(IDEAL.values()), "ideal", GREY))
    return Scatter(trial.title, *axes, groups, diagonal=True)


def _ends(trial: Trial, names: tuple[str, ...], paradigm: str) -> F64:
    """Return (3, monitors): AUROC and the ends of its interval."""
    columns = []
    for name in names:
        estimate = trial.evaluation.get("AUROC", name, paradigm)
        columns.append((estimate.value, estimate.low, estimate.high))
    return np.array(columns).T


def rejected_figure(run: MonitorsRun) -> StudyFigure:
    """Return the share of every kind of image that a monitor rejects at its threshold."""
    panels = []
    for trial in _comparable(run):
        tables = trial.evaluation.disagreement
        assert tables is not None
        names = tuple(name for name in trial.evaluation.monitors if name in tables.alarms)
        values = np.empty((len(names), len(CELLS)))
        for row, name in enumerate(names):
            values[row] = [tables.rejected(name, ood=o, unsafe=u).value for _, o, u in CELLS]
        n = tables.labels
        columns = tuple(f"{words} ({int(n[int(o), int(u)])})" for words, o, u in CELLS)
        axes = Axis("kind (images)", names=columns), Axis("monitor", names=names)
        panels.append(HeatMap(trial.title, *axes, values, "share rejected"))
    one = _comparable(run)[0]
    assert one.evaluation.disagreement is not None
    # Nearly all unsafe images are out of distribution here; in it there may be none at all.
    shares = {}
    for best in (one.order(OOD)[0], one.order(OMS)[0]):
        share = one.evaluation.disagreement.rejected(best, ood=True, unsafe=True).value
        shares[best] = "no share" if np.isnan(share) else percent_text(share)
    words = ", ".join(f"{share} by {best}" for best, share in shares.items())
    return StudyFigure(
        "figure-4",
        f"{one.title}: unsafe images out of distribution that are rejected: {words}",
        "Share of the images of every kind that a monitor rejects at its threshold, which rejects "
        "at most 5 % of the safe images of the tuning split; the ideal monitors give alarms, not "
        "scores. A good monitor rejects the second and the fourth column and nothing else. Table "
        "6 has intervals.",
        tuple(panels),
        rows=(2,),
    )


def risk_figure(run: MonitorsRun) -> StudyFigure:
    """Return risk against coverage."""
    one = _mixed(run)[0]
    best = min(one.contenders, key=lambda name: one.evaluation.get("AURC", name, OMS).value)
    value = one.evaluation.get("AURC", best, OMS).value
    return StudyFigure(
        "figure-5",
        f"{one.title}: {best} has the least risk on average, {value:.3f} against "
        f"{float(one.unsafe.mean()):.3f}",
        "Images are accepted in order of their alarms, lowest first; risk is the share of "
        f"accepted images that are unsafe (tau = {TAU:g}). Shown are the best monitor under OMS "
        "labels, the best under OOD labels, and others. Table 5 has intervals of the areas.",
        tuple(_risk(trial) for trial in _mixed(run)),
    )


def featured_monitors(trial: Trial) -> tuple[str, ...]:
    """Return the few monitors that figures with curves show: the two best by each label."""
    names = trial.order(OMS)[:2]
    if trial.is_comparable:
        names += trial.order(OOD)[:2]
    return tuple(dict.fromkeys([*names, *trial.contenders]))[:MOST_CURVES]


def _risk(trial: Trial) -> Curves:
    lines = []
    for slot, name in enumerate(featured_monitors(trial)):
        curve = trial.evaluation.curves(name, OMS)
        # A curve has a point per image; a drawing needs far fewer.
        points = np.unique(np.linspace(0, len(curve.coverage) - 1, POINTS).round().astype(np.int64))
        lines.append(Line(name, curve.coverage[points], curve.risk[points], slot=slot))
    base = float(trial.unsafe.mean())
    x = np.linspace(0.02, 1.0, POINTS)
    lines.append(Line("ideal", x, np.maximum(x - (1.0 - base), 0.0) / x, slot=GREY))
    return Curves(
        trial.title, Axis("share of images accepted", 0.0, 1.0), Axis("risk", 0.0), tuple(lines)
    )


def tau_figure(run: MonitorsRun) -> StudyFigure:
    """Return AUROC and prevalence over tau."""
    names = {trial.name: featured_monitors(trial) for trial in _mixed(run)}
    panels = [_sweep_areas(curve, names[curve.trial]) for curve in run.taus if curve.trial in names]
    names_of_trials = {trial.name for trial in run.featured}
    curves = [curve for curve in run.taus if curve.trial in names_of_trials]
    lines = tuple(
        Line(f"{curve.trial}, {curve.classes}", curve.taus, curve.prevalence, slot=slot)
        for slot, curve in enumerate(curves)
    )
    panels.append(Curves("Share of unsafe images", TAU_AXIS, Axis("prevalence", 0.0, 1.0), lines))
    spans = [curve.prevalence for curve in curves]
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


def _sweep_areas(curve: TauCurves, names: tuple[str, ...]) -> Curves:
    lines = []
    for slot, name in enumerate(names):
        k = curve.monitors.index(name)
        defined = curve.defined
        tables = (curve.values, curve.low, curve.high)
        value, low, high = (table[k, defined] for table in tables)
        lines.append(Line(name, curve.taus[defined], value, low, high, slot=slot))
    title = f"{curve.trial.capitalize()}, {curve.classes} classes"
    return Curves(title, TAU_AXIS, Axis("AUROC for unsafe images", 0.3, 1.0), tuple(lines))


def strength_figure(run: MonitorsRun) -> StudyFigure:
    """Return unsafe shares by shift and strength, and how good a proxy OOD labels are."""
    panels: list[Figure] = [_harm(trial) for trial in run.featured if trial.strength is not None]
    lines = []
    for slot, proxy in enumerate(run.proxies):
        x = np.array(proxy.strengths, np.float64)
        marks = tuple(range(len(x)))
        line = Line(proxy.trial, x, proxy.values, proxy.low, proxy.high, slot=slot, marks=marks)
        lines.append(line)
    ticks = tuple(float(k) for k in run.proxies[0].strengths)
    x_axis = Axis("strength of the shifts", ticks[0] - 0.2, ticks[-1] + 0.2, ticks=ticks)
    y_axis = Axis("AUROC of the ideal OOD monitor for unsafe images", 0.4, 1.0)
    panels.append(Curves("How good a proxy OOD is", x_axis, y_axis, tuple(lines)))
    first = run.proxies[0]
    n_harmed = len([line for line in run.proxies if line.difference[1] > 0])
    return StudyFigure(
        "figure-7",
        f"{first.trial.capitalize()}: knowing what is OOD finds failures with an AUROC of "
        f"{first.values[0]:.2f} if shifts are weak and {first.values[-1]:.2f} if they are strong",
        "Above: share of unsafe images by shift and strength; 'none' has no strength. Below: usual "
        "images and the shifted ones of one strength; the monitor knows which are OOD, and nothing "
        "else. Bands: 95 % bootstrap intervals. The gain from the weakest to the strongest is "
        f"certain for {n_harmed} of {len(run.proxies)} detectors.",
        tuple(panels),
        rows=(len(panels) - 1, 1),
    )


def _harm(trial: Trial) -> HeatMap:
    assert trial.strength is not None
    kinds = sorted(np.unique(trial.kinds).tolist(), key=lambda kind: (kind != USUAL, kind))
    strengths = [k for k in np.unique(trial.strength).tolist() if k > 0]
    values = np.full((len(kinds), len(strengths)), np.nan)
    for row, kind in enumerate(kinds):
        for column, strength in enumerate(strengths):
            level = 0 if kind == USUAL else strength
            cell = (trial.kinds == kind) & (trial.strength == level)
            if cell.any():
                values[row, column] = trial.unsafe[cell].mean()
    names = tuple(str(k) for k in strengths)
    axes = Axis("strength", names=names), Axis("shift", names=tuple(kinds))
    return HeatMap(trial.title, *axes, values, "share of unsafe images")


def _definition_areas(run: MonitorsRun) -> list[LabelAreas]:
    names = {trial.name for trial in run.featured if trial.definitions}
    return [areas for areas in run.areas if areas.trial in names]


def definitions_figure(all_areas: Sequence[LabelAreas]) -> StudyFigure:
    """Return the AUROC of every monitor under OMS labels and every definition of OOD."""
    panels = []
    for areas in all_areas:
        axes = Axis("labels", names=areas.labels), Axis("monitor", names=areas.monitors)
        title = areas.trial[:1].upper() + areas.trial[1:]
        panels.append(HeatMap(title, *axes, areas.values, "AUROC"))
    words = [f"{one.labels} {one.winner}" for one in all_areas[0].winners]
    return StudyFigure(
        "figure-8",
        f"{all_areas[0].trial.capitalize()}, who is best: {', '.join(words)}",
        "AUROC of every monitor for unsafe images (OMS), and for images that are out of "
        "distribution by three definitions: the picture is, an object on it is, or either. Table 3 "
        "has the intervals.",
        tuple(panels),
        rows=(2,),
    )
