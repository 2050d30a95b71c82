# SPDX-License-Identifier: Apache-2.0
"""Figures of the controlled experiments: what they look like, a scorecard, and every metric over
every error.
"""

from __future__ import annotations

import numpy as np

from calipers.plots.figures import Axis, Curves, HeatMap, Line
from calipers.plots.ticks import MINUS
from calipers.studies.anomaly.controlled import (
    AXES,
    CROWD_METRICS,
    CROWDS,
    TOUCHING,
    Response,
    example,
)
from calipers.studies.anomaly.found import (
    DESIRED_CHANGES,
    EXACT,
    MOVES,
    AnomalyRun,
    count_desired_changes,
    scorecard,
)
from calipers.studies.anomaly.layouts import SETTINGS
from calipers.studies.anomaly.measures import ALPHA, FAMILIES, METRICS
from calipers.studies.anomaly.pictured import picture
from calipers.studies.framework import StudyFigure

EXAMPLES = {
    "a": (3.0, "(a) Three small objects found, large ones shrunk"),
    "b": (1.4, "(b) Found too large"),
    "c": (3.0, "(c) Three false objects"),
    "d": (2.0, "(d) Two objects missed"),
    "e": (1.0, "(e) One missed; empty samples are added"),
}
MOST = 0.5  # a change at which colours end


def controlled_figures(run: AnomalyRun) -> tuple[StudyFigure, ...]:
    """Return all figures of the controlled experiments."""
    return (
        looks(run),
        score_figure(run),
        _experiment(
            run,
            "figure-3",
            ("a",),
            f"(a) The soft IoU sees small objects ({_ends(run, 'a', 'softIoU')}), AP does not "
            f"({_ends(run, 'a', 'AP/dataset')})",
            "Two large and four small objects. Small ones are found one after the other; the "
            "large ones lose exactly as many of their outermost voxels as the small ones have.",
        ),
        _experiment(
            run,
            "figure-4",
            ("b",),
            "(b) Nearly all metrics have their peak at the true size; F1 has plateaus",
            f"Four equal objects, found with another radius. Up to {TOUCHING:g} of the true "
            "radius no two of them touch; beyond, some grow together and count as one.",
        ),
        _experiment(
            run,
            "figure-5",
            ("c",),
            f"(c) False objects cost the soft IoU most: {_ends(run, 'c', 'softIoU')}, against AP "
            f"{_ends(run, 'c', 'AP/dataset')}",
            "Four equal objects are found, and false ones of the same size. Dice at 5 % false "
            "voxels ends where more than 5 % of the background is positive: then no threshold "
            "qualifies, and nothing counts as positive.",
        ),
        _crowds(run),
        _experiment(
            run,
            "figure-7",
            ("d", "d-new"),
            "(d) Missed objects cost AP by samples as much as AP of the data set: "
            f"{_ends(run, 'd', 'AP/sample')}",
            "First two rows: of four equal objects some are missed in every sample. Last two "
            f"rows: all objects of the {run.controlled.samples} samples are found, and samples "
            "are added in which all are missed.",
        ),
        _experiment(
            run,
            "figure-8",
            ("e",),
            f"(e) Normal samples raise the soft IoU ({_ends(run, 'e', 'softIoU')}) and F1 by "
            f"samples ({_ends(run, 'e', 'F1@0.5')}), nothing else",
            "One of four objects is missed in every sample, nothing is called falsely; samples "
            "without objects are added.",
        ),
    )


def looks(run: AnomalyRun) -> StudyFigure:
    """Return one sample of every experiment."""
    panels = []
    for name, (strength, title) in EXAMPLES.items():
        sample = example(name, SETTINGS[0], strength, run.seed)
        panels.append(picture(title, sample.labels, sample.maps[f"{strength:g}"]))
    caption = (
        "One 2D sample of each experiment. White: references that are found; dotted yellow: "
        "missed ones; dashed orange: false alarms; green: positive voxels. All objects are discs "
        "(spheres in 3D) whose centres are centres of voxels."
    )
    return StudyFigure("figure-1", "Five errors, one at a time", caption, tuple(panels), rows=(5,))


def score_figure(run: AnomalyRun) -> StudyFigure:
    """Return how far every metric moves in the desired direction under every error."""
    panels = []
    for setting in SETTINGS:
        values = scorecard(run, setting.name)
        words = tuple(tuple(map(_signed_text, row)) for row in values.tolist())
        panels.append(
            HeatMap(
                f"{setting.name}: {setting.object}s",
                Axis("experiment", names=tuple(f"({name})" for name in DESIRED_CHANGES)),
                Axis("metric", names=METRICS),
                values,
                "change as wanted",
                0.0,
                MOST,
                words=words,
            )
        )
    # Several metrics may share the first place.
    best = max(count_desired_changes(run, name) for name in METRICS)
    names = [name for name in METRICS if count_desired_changes(run, name) == best]
    caption = "; ".join(f"({name}) {words}" for name, words in DESIRED_CHANGES.items())
    caption = (
        f"How far a metric moves in the desired direction. {caption}. Changes within {MOVES:g} of "
        "0 count as blindness."
    )
    title = f"{' and '.join(names)} answer {best} of {len(DESIRED_CHANGES)} errors as desired"
    return StudyFigure("figure-2", title, caption, tuple(panels), rows=(2,))


def _experiment(
    run: AnomalyRun, name: str, experiments: tuple[str, ...], title: str, caption: str
) -> StudyFigure:
    """Return three families of metrics, in 2D and in 3D."""
    panels = []
    for experiment in experiments:
        for response in run.controlled.of(experiment):
            for family, names in FAMILIES.items():
                panels.append(_panel(response, family, names))
    samples = (
        f"{run.controlled.samples} samples; maps of 0 and 1; a value is that of all samples, no "
        "mean of runs."
    )
    return StudyFigure(
        name, title, f"{caption} {samples}", tuple(panels), rows=(3,) * (len(panels) // 3)
    )


def _panel(response: Response, family: str, names: tuple[str, ...]) -> Curves:
    title = f"{response.setting.name}: {family}"
    x = Axis(AXES[response.experiment])
    return Curves(title, x, Axis("value", 0.0, 1.0), _lines(response, names))


def _lines(response: Response, names: tuple[str, ...]) -> tuple[Line, ...]:
    lines = []
    for slot, name in enumerate(names):
        lines.append(Line(name, response.x, response.values[name], slot=slot))
    return tuple(lines)


def _crowds(run: AnomalyRun) -> StudyFigure:
    """Return experiment (c) for several numbers of true objects."""
    panels = []
    for n in CROWDS:
        lines = _lines(run.controlled.crowds[n], CROWD_METRICS)
        title = f"{n} true object{'s' if n > 1 else ''} per sample"
        panels.append(Curves(title, Axis(AXES["c"]), Axis("value", 0.0, 1.0), lines))
    caption = (
        "Experiment (c) in 2D with other numbers of true objects. softIoU = 1 / (1 + a k) does "
        "not know how many there are; AP = n / (n + k) does. softIoU has a = 0.5, softIoU/lenient "
        f"a = {ALPHA:g}."
    )
    title = (
        "Whether the soft IoU or AP forgives false objects depends on how many true ones there are"
    )
    return StudyFigure("figure-6", title, caption, tuple(panels))


def _signed_text(value: float) -> str:
    """Return +0.62, −0.006 or 0: small changes with a third decimal, rounding errors as 0."""
    if abs(value) < EXACT:
        return "0"
    text = f"{value:+.2f}" if abs(value) >= 0.005 else f"{value:+.3f}"
    return text.replace("-", MINUS)


def _ends(run: AnomalyRun, experiment: str, metric: str) -> str:
    values = run.controlled.responses[experiment, "2D"].values[metric]
    if np.ptp(values) > MOVES:
        return f"{values[0]:.2f} to {values[-1]:.2f}"
    return f"{values[0]:.2f} throughout"
