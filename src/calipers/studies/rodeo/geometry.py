# SPDX-License-Identifier: Apache-2.0
"""Figures 2 and 6: similarities of two boxes, computed exactly and without data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import overlap
from calipers.plots.figures import Axis, Contour, Curves, Line
from calipers.studies.framework import StudyFigure

F64 = NDArray[np.float64]
THRESHOLDS = np.linspace(0.1, 0.7, 7)
TENTHS = tuple(k / 10 for k in range(1, 10))
SMALL, USUAL = 0.1, 0.25  # sides of references, in fractions of the image


def iou_at(dx: F64, dy: F64) -> F64:
    """Return the IoU of two equal squares whose centres are (dx, dy) sides apart."""
    across, down = np.broadcast_arrays(np.asarray(dx, np.float64), np.asarray(dy, np.float64))
    x, y = across.ravel(), down.ravel()
    # The kernel takes boxes as (4, n): x0, y0, x1, y1.
    ones = np.ones_like(x)
    a = np.stack([0.0 * x, 0.0 * x, ones, ones])
    b = np.stack([x, y, x + 1.0, y + 1.0])
    return overlap.iou(a, b, ones, ones).reshape(across.shape)


def ap_at(dx: F64, dy: F64, threshold: float) -> F64:
    """Return the AP of one pair at an IoU threshold: all or nothing."""
    return (iou_at(dx, dy) >= threshold).astype(np.float64)


def map_at(dx: F64, dy: F64) -> F64:
    """Return the mean AP of one pair over the thresholds 0.1 to 0.7."""
    values = [ap_at(dx, dy, float(threshold)) for threshold in THRESHOLDS]
    return np.asarray(np.mean(values, axis=0))


def loc_at(dx: F64, dy: F64) -> F64:
    """Return RoDeO/loc of one pair."""
    return np.asarray(2.0 ** -(np.asarray(dx) ** 2 + np.asarray(dy) ** 2))


def shape_similarities(reference: float, width: F64, height: F64) -> tuple[F64, F64]:
    """Return centred IoU and Hausdorff similarity of a square and boxes of other sides; fractions
    of the image.
    """
    n = len(width)
    a = np.stack([np.zeros(n), np.zeros(n), np.full(n, reference), np.full(n, reference)])
    b = np.stack([np.zeros(n), np.zeros(n), width, height])
    return overlap.centred_iou(a, b), overlap.hausdorff_similarity(a, b, np.ones((2, n)))


def figure_2() -> StudyFigure:
    """Return the four metrics over the offset of the centres."""
    at = np.round(np.arange(-1.5, 1.5001, 0.05), 10)
    dx, dy = np.meshgrid(at, at)
    metrics = {
        "AP@0.5": ap_at(dx, dy, 0.5),
        "mAP@0.1:0.7": map_at(dx, dy),
        "IoU": iou_at(dx, dy),
        "RoDeO/loc": loc_at(dx, dy),
    }
    x, y = Axis("offset in x (sides)"), Axis("offset in y (sides)")
    # mAP over seven thresholds moves in steps of 1/7, so its contour levels lie between the steps.
    levels = {"AP@0.5": (0.5,), "mAP@0.1:0.7": (0.2, 0.5, 0.8)}
    panels = tuple(
        Contour(name, x, y, at, at, v, "value", levels.get(name, TENTHS), 0.0, 1.0, square=True)
        for name, v in metrics.items()
    )
    title = (
        "Overlap ends one side away, and sooner on the diagonal; RoDeO/loc is the same in all "
        "directions"
    )
    caption = (
        "One reference and one prediction of its size and class, on a grid of 61 by 61 offsets, "
        "computed exactly. AP of a single pair is all or nothing; its mean over IoU thresholds "
        "0.1 to 0.7 has seven steps."
    )
    return StudyFigure("figure-2", title, caption, panels, rows=(4,))


def figure_6() -> StudyFigure:
    """Return centred IoU and Hausdorff similarity over size and over aspect."""
    sides = np.round(np.arange(0.02, 1.0001, 0.01), 10)
    size = _similarity_lines(sides, shape_similarities(USUAL, sides, sides))
    aspect = np.geomspace(1 / 8, 8, 97)
    same_area = shape_similarities(USUAL, USUAL * np.sqrt(aspect), USUAL / np.sqrt(aspect))
    ratio = _similarity_lines(aspect, same_area)
    factor = np.geomspace(0.25, 4.0, 97)
    relative = []
    for k, side in enumerate((SMALL, USUAL)):
        values = shape_similarities(side, side * factor, side * factor)
        relative += _similarity_lines(factor, values, f", side {side:g}", 2 * k)
    similarity = Axis("similarity", 0.0, 1.0)
    octaves = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    panels = (
        Curves("Size, same aspect", Axis("side (of the image)", 0.0, 1.0), similarity, tuple(size)),
        Curves(
            "Aspect, same area",
            Axis("width / height", log=True, ticks=octaves),
            similarity,
            tuple(ratio),
        ),
        Curves(
            "Size in multiples of the reference",
            Axis("side / side of the reference", log=True, ticks=octaves[1:-1]),
            similarity,
            tuple(relative),
        ),
    )
    title = (
        "Centred IoU depends on the ratio of the sides; the Hausdorff similarity on their "
        "difference in the image"
    )
    caption = (
        f"A square reference with a side of {USUAL:g} of the image, except in the last panel, "
        f"which adds one of {SMALL:g}; both boxes on one centre; Hausdorff distances in fractions "
        "of the image. Computed exactly. The last panel is not in the paper: with centred IoU, "
        "both references share one curve."
    )
    return StudyFigure("figure-6", title, caption, panels)


def _similarity_lines(
    x: F64, values: tuple[F64, F64], suffix: str = "", first_slot: int = 0
) -> list[Line]:
    """Return the lines of the two similarities that `shape_similarities` returns."""
    centred, hausdorff = values
    return [
        Line(f"centred IoU{suffix}", x, centred, slot=first_slot),
        Line(f"Hausdorff{suffix}", x, hausdorff, slot=first_slot + 1),
    ]
