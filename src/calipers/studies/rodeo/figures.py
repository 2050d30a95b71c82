# SPDX-License-Identifier: Apache-2.0
"""Figures 3 to 5 and 7 to 11 of the study of RoDeO, and the side figure: metrics over corruptions.

A `RodeoRun` comes in, `StudyFigure` go out, to `study.run`. Two corruptions give maps, one gives
curves; a band is one standard deviation over the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from calipers.sensitivity.sweep import Sweep
from calipers.show.figures import Axis, Contour, Curves, Line
from calipers.studies.framework import StudyFigure
from calipers.studies.rodeo.claims import RodeoRun, half_lost, value_text
from calipers.studies.rodeo.data import AUTHORS_AP, TENTHS
from calipers.studies.rodeo.experiments import (
    ACCURACIES,
    IN_ORDER,
    PRECISIONS,
    RODEO,
    SCALES,
    SUMMARIES,
)

AXES = {
    "position-noise.sigma": "position noise σ (sides)",
    "position-bias.bias": "position bias (sides)",
    "shape-noise.sigma": "shape noise σ (log sides)",
    "size-noise.sigma": "size noise σ (log factor)",
    "aspect-noise.sigma": "aspect noise σ (log ratio)",
    "class-underprediction.p": "probability to miss a class",
    "box-overprediction.mean": "mean extra copies per box",
    "random-boxes.size": "side (of the image)",
    "random-boxes.p": "probability to add a class",
    "class-overprediction.p": "probability to add a class",
    "class-confusion.p": "probability to confuse a class",
}
GROUPS = (("Accuracy", ACCURACIES), ("Average precision", PRECISIONS), ("RoDeO", RODEO))
# All boxes of an oracle have one score, so how ties are treated decides on AP.
TIES = ("AP, equal scores in input order", IN_ORDER)
AUTHORS_SLOT = 6  # grey
NOISE_WORDS = "All boxes also have position noise of 0.5 sides."


def sweep_figures(run: RodeoRun) -> dict[str, StudyFigure]:
    """Return the figures that show sweeps, by name."""
    figures = (*_two_corruptions(run), *_one_corruption(run), side_figure(run))
    return {figure.name: figure for figure in figures}


def side_figure(run: RodeoRun) -> StudyFigure:
    """Return RoDeO with other summaries and RoDeO/loc with other scales."""
    position = run.sweeps["figure-8"]
    names = [metric.partition("/")[2] for metric in SUMMARIES]
    across = lines_of(position, SUMMARIES, names)
    confusion = lines_of(run.sweeps["figure-11"], SUMMARIES, names)
    scaled = lines_of(
        position, list(SCALES.values()), [f"0.5 at distance {scale:g}" for scale in SCALES]
    )
    total = Axis("RoDeO", 0.0, 1.0)
    panels = (
        Curves("Summaries under position noise", Axis(AXES["position-noise.sigma"]), total, across),
        Curves(
            "Summaries under class confusion", Axis(AXES["class-confusion.p"]), total, confusion
        ),
        Curves(
            "Scales of RoDeO/loc",
            Axis(AXES["position-noise.sigma"]),
            Axis("RoDeO/loc", 0.0, 1.0),
            scaled,
        ),
    )
    last = run.curve("figure-11", SUMMARIES[1])[1][-1]
    title = f"With the arithmetic mean, a model with random classes would still score {last:.2f}"
    caption = (
        "This figure is not in the paper, which mentions the arithmetic mean and the minimum as "
        "alternatives to the harmonic mean and fixes the distance at which RoDeO/loc is one half. "
        "Under position noise the expected RoDeO/loc is 1 / (1 + 2 ln 2 σ² / scale²). "
        f"{_runs_text(position)}"
    )
    return StudyFigure("figure-side", title, caption, panels)


def maps(run: RodeoRun, name: str, title: str, caption: str) -> StudyFigure:
    """Return all metrics over two corruptions, one panel each, with the same colours."""
    sweep = run.sweeps[name]
    first, second = sweep.axes
    x, y = Axis(AXES[first.name]), Axis(AXES[second.name])
    xs, ys = np.array(first.values, np.float64), np.array(second.values, np.float64)
    panels = []
    for _, metrics in GROUPS:
        for metric in metrics:
            values = sweep.line(metric)[0].T
            panels.append(Contour(metric, x, y, xs, ys, values, "value", TENTHS, 0.0, 1.0))
    return StudyFigure(name, title, f"{caption} {_runs_text(sweep)}", tuple(panels), rows=(3, 3, 4))


def curves(
    run: RodeoRun, name: str, title: str, caption: str, law: Line | None = None
) -> StudyFigure:
    """Return all metrics over one corruption: accuracy, AP and RoDeO, with bands."""
    sweep = run.sweeps[name]
    panels = []
    for heading, metrics in (*GROUPS[:2], TIES, GROUPS[2]):
        lines = lines_of(sweep, metrics)
        if law is not None and metrics is RODEO:
            lines = (*lines, law)
        if metrics is IN_ORDER:
            lines = (*lines, *_authors_lines(name))
        x = Axis(AXES[sweep.axes[0].name])
        panels.append(Curves(heading, x, Axis("value", 0.0, 1.0), lines))
    words = (
        f"{caption} {_runs_text(sweep)} Equal scores are one step in the first panel of AP, and "
        "are broken by input order, as pycocotools and the authors' code do, in the second."
    )
    if name in AUTHORS_AP:
        words += " Grey, there: read off the authors' own figure (boxes of ChestX-ray8)."
    return StudyFigure(name, title, words, tuple(panels), rows=(2, 2))


def _authors_lines(name: str) -> list[Line]:
    """Return the curves of AP in the authors' figure; none where it is not public."""
    curves = AUTHORS_AP.get(name, {})
    lines = []
    for threshold, values in curves.items():
        if threshold != "x":
            x, y = np.array(curves["x"]), np.array(values)
            lines.append(Line(f"authors, AP@{threshold}", x, y, slot=AUTHORS_SLOT))
    return lines


def lines_of(sweep: Sweep, metrics: Sequence[str], names: Sequence[str] = ()) -> tuple[Line, ...]:
    """Return a line with its band for each metric, along the last corruption.

    With two corruptions, the first one is absent (strength 0).
    """
    x = np.array(sweep.axes[-1].values, np.float64)
    lines = []
    for slot, metric in enumerate(metrics):
        tables = sweep.line(metric)
        if tables[0].ndim > 1:
            tables = tuple(table[0] for table in tables)
        name = names[slot] if names else metric
        lines.append(Line(name, x, *tables, slot))
    return tuple(lines)


def _runs_text(sweep: Sweep) -> str:
    statistic = "Mean" if len(sweep.axes) == 2 else "Mean and standard deviation (band, n - 1)"
    return (
        f"{statistic} of {sweep.runs} runs on {sweep.n_images} images with "
        f"{sweep.n_references} boxes."
    )


def _two_corruptions(run: RodeoRun) -> Iterator[StudyFigure]:
    """Yield figures 3, 7, 8 and 9."""

    def low(figure: str, metric: str) -> str:
        return f"{run.grid(figure, metric).min():.2f}"

    half = [value_text(half_lost(*run.curve("figure-3", name))) for name in ("AP@0.5", "RoDeO")]
    top = [f"{run.grid('figure-7', name).max():.2f}" for name in ("RoDeO", "accuracy@0.1")]
    yield maps(
        run,
        "figure-3",
        f"Half of AP@0.5 is lost at a position noise of {half[0]} sides, half of RoDeO at "
        f"{half[1]}",
        "Every box is moved, and its sides change on their own.",
    )
    yield maps(
        run,
        "figure-7",
        f"Boxes at random places reach a RoDeO of {top[0]} and an accuracy at IoU 0.1 of {top[1]}",
        "An oracle knows which classes an image has; one square box per class lies anywhere in "
        "the image. Classes are perfect on the lower edge.",
    )
    yield maps(
        run,
        "figure-8",
        f"However boxes are moved, RoDeO/shape does not fall below "
        f"{low('figure-8', 'RoDeO/shape')}; AP@0.5 falls to {low('figure-8', 'AP@0.5')}",
        "Every box is moved by the bias into a random direction, then by the noise.",
    )
    yield maps(
        run,
        "figure-9",
        f"Size and aspect noise take AP@0.1 to {low('figure-9', 'AP@0.1')}, AP@0.5 to "
        f"{low('figure-9', 'AP@0.5')} and RoDeO to {low('figure-9', 'RoDeO')}",
        "Both sides of a box share one factor; the aspect changes at equal area.",
    )


def _one_corruption(run: RodeoRun) -> Iterator[StudyFigure]:
    """Yield figures 4, 5, 10 and 11."""

    def ends(figure: str, metric: str) -> str:
        values = run.curve(figure, metric)[1]
        return f"from {values[0]:.2f} to {values[-1]:.2f}"

    # The law of RoDeO/shape and RoDeO/cls is drawn in the panel of RoDeO.
    copies = np.array(run.sweeps["figure-5"].axes[0].values, np.float64)
    yield curves(
        run,
        "figure-4",
        f"As boxes go missing, accuracy at IoU 0.5 goes {ends('figure-4', 'accuracy@0.5')}",
        f"All boxes of a class in an image are dropped with this probability. {NOISE_WORDS}",
    )
    yield curves(
        run,
        "figure-5",
        f"Copies of boxes take AP@0.5 {ends('figure-5', 'AP@0.5')} and RoDeO "
        f"{ends('figure-5', 'RoDeO')}",
        f"Every box gets a geometric number of copies. {NOISE_WORDS} The grey line is the law of "
        "RoDeO/shape and RoDeO/cls: a hyperbola, not an exponential.",
        Line("1 / (1 + mean copies)", copies, 1.0 / (1.0 + copies), slot=6),
    )
    yield curves(
        run,
        "figure-10",
        "A box for every absent class takes accuracy at IoU 0.5 "
        f"{ends('figure-10', 'accuracy@0.5')}",
        "Every absent class gets one box, a quarter of the image wide, with this probability. "
        f"{NOISE_WORDS}",
    )
    yield curves(
        run,
        "figure-11",
        f"Confused classes take RoDeO/cls {ends('figure-11', 'RoDeO/cls')} and RoDeO/loc "
        f"{ends('figure-11', 'RoDeO/loc')}",
        "Every declared class is selected with this probability, and the selected ones of an "
        f"image are permuted. {NOISE_WORDS}",
    )
