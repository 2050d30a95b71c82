# SPDX-License-Identifier: Apache-2.0
"""Figure 1: four pairs of boxes made by hand, with the value of every metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calipers.evaluate import evaluate
from calipers.kernels import overlap
from calipers.plots.figures import BoxMark, Overlay
from calipers.studies.framework import StudyFigure
from calipers.studies.rodeo.data import FINDINGS, SIDE
from calipers.studies.rodeo.sweeps import RODEO, protocol
from calipers.tables import Cohort

Corners = tuple[float, float, float, float]  # x0, y0, x1, y1

CLASSES = tuple(finding.name for finding in FINDINGS)
RIGHT, WRONG = CLASSES.index("Effusion"), CLASSES.index("Infiltration")
REFERENCE = (600.0, 500.0, 800.0, 760.0)
METRICS = ("accuracy@0.5", "AP@0.5", *RODEO)
# name -> (predicted box, index of its class)
PAIRS = {
    "Right box, wrong class": (REFERENCE, WRONG),
    "Partly overlapping box": ((700.0, 600.0, 900.0, 860.0), RIGHT),
    "Box too large": ((500.0, 370.0, 900.0, 890.0), RIGHT),
    "Wrong place, wrong class": ((180.0, 200.0, 330.0, 380.0), WRONG),
}


@dataclass(frozen=True, slots=True)
class Example:
    """A prediction for the reference `REFERENCE`, and the value of every metric."""

    box: Corners
    label: str
    iou: float
    values: dict[str, float]


def examples() -> dict[str, Example]:
    """Return the four pairs; each is evaluated as a data set of one image with eight classes."""
    result = {}
    for name, (box, label) in PAIRS.items():
        reference = {"boxes": [REFERENCE], "labels": [RIGHT], "width": SIDE, "height": SIDE}
        prediction = {"boxes": [box], "labels": [label], "scores": [1.0]}
        cohort = Cohort.from_arrays([reference], [prediction], classes=CLASSES)
        rows = evaluate(cohort, protocol(), ci=False).rows
        pooled = {row.metric: row.estimate.value for row in rows if row.label is None}
        values = {metric: pooled[metric] for metric in METRICS}
        result[name] = Example(box, CLASSES[label], _iou(REFERENCE, box), values)
    return result


def _iou(first: Corners, second: Corners) -> float:
    a, b = np.array(first)[:, None], np.array(second)[:, None]
    areas = [np.prod(overlap.sides(boxes), axis=0) for boxes in (a, b)]
    return float(overlap.iou(a, b, *areas)[0])


def figure_1(pairs: dict[str, Example]) -> StudyFigure:
    """Return the four pairs as overlays, with their values below."""
    panels = tuple(_panel(name, example) for name, example in pairs.items())
    caption = (
        "Constructed by hand on empty frames; the reference is solid, the prediction dashed. "
        "Every pair is evaluated as a data set of one image with eight declared classes. Accuracy "
        "counts the six or seven classes that are rightly absent as true negatives, which is why "
        "it is 0.75 or more even for a useless prediction."
    )
    title = (
        "A right box with a wrong name gets full marks for place and shape, and nothing in total"
    )
    return StudyFigure("figure-1", title, caption, panels, rows=(4,))


def _panel(name: str, example: Example) -> Overlay:
    values = example.values
    note = f"IoU {example.iou:.2f}; " + "; ".join(
        f"{metric} {value:.2f}" for metric, value in values.items()
    )
    marks = (
        BoxMark("reference", REFERENCE, f"reference: {CLASSES[RIGHT]}"),
        BoxMark("false alarm", example.box, f"prediction: {example.label}"),
    )
    return Overlay(name, (SIDE, SIDE), marks, note=note)
