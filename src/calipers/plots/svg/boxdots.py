# SPDX-License-Identifier: Apache-2.0
"""Samples as boxes with whiskers, and as dots while these are few enough to be seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calipers.plots.figures import F64, Axis, BoxDots, slots_of
from calipers.plots.svg.axes import Plane, PlaneSpec, names_fit, plane
from calipers.plots.svg.elements import Drawing, Sheet, el, segments, title
from calipers.plots.svg.empty import empty_drawing, why_no_limits
from calipers.plots.svg.markers import fill, marker, stroke
from calipers.plots.svg.scales import limits
from calipers.plots.svg.words import shorten
from calipers.plots.ticks import tick_text

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
FEW = 60  # dots of a sample that are drawn one by one
HALF = 0.26  # of a box, as a share of its room
BROADEST = 22.0  # pixels from the middle of a box to its side
ROW = 46.0  # of a lying box
GOLDEN = 0.6180339887498949  # multiples of the golden ratio put neighbouring dots far apart


@dataclass(frozen=True, slots=True)
class BoxPlane:
    """Which way the boxes lie."""

    at: Plane
    lying: bool
    half: float  # pixels

    def point(self, k: int, value: float, off: float = 0.0) -> tuple[float, float]:
        """Return the pixel of a value of sample ``k``, ``off`` pixels beside its middle."""
        if self.lying:
            return self.at.x.within(value), self.at.y.at(k) + off
        return self.at.x.at(k) + off, self.at.y.within(value)

    def across(self, k: int, value: float, half: float) -> tuple[float, float, float, float]:
        """Return a line across the sample at a value."""
        return (*self.point(k, value, -half), *self.point(k, value, half))


def draw(figure: BoxDots, sheet: Sheet) -> Drawing:
    """Draw the quartiles of samples."""
    if not figure.names:
        return empty_drawing(sheet, "no samples")
    samples = [np.asarray(s, np.float64)[np.isfinite(s)] for s in figure.samples]
    value_limits = limits(figure.y, samples)
    if value_limits is None or not any(map(len, samples)):
        return empty_drawing(sheet, why_no_limits(figure.y, list(figure.samples)))
    side = _side(figure, sheet, samples, value_limits)
    slots = slots_of(figure, len(figure.names))
    parts = [
        part
        for k, sample in enumerate(samples)
        for part in _sample(figure, k, sample, slots[k], side)
    ]
    return Drawing(sheet.width, side.at.height, [*side.at.parts, *parts])


def _side(
    figure: BoxDots, sheet: Sheet, samples: list[F64], value_limits: tuple[float, float]
) -> BoxPlane:
    n = len(figure.names)
    names = [
        f"{shorten(name, 16)} (n\xa0=\xa0{len(sample)})"
        for name, sample in zip(figure.names, samples)
    ]
    category = Axis("", names=tuple(names))
    across = (-0.5, n - 0.5)
    plan = PlaneSpec(category, figure.y, across, value_limits)
    slot = (sheet.width - 50.0) / n
    if names_fit(names, slot):
        return BoxPlane(plane(sheet, plan), False, min(HALF * slot, BROADEST))
    lying = replace(
        plan,
        x=figure.y,
        y=category,
        x_limits=value_limits,
        y_limits=across,
        inner=ROW * n,
        down=True,
        grid="x",
    )
    return BoxPlane(plane(sheet, lying), True, min(HALF * ROW, BROADEST))


def _sample(figure: BoxDots, k: int, sample: F64, slot: int, side: BoxPlane) -> list[str]:
    if not len(sample):
        return []
    parts = []
    if len(sample) > 1:  # one value has no quartiles
        q = [float(v) for v in np.quantile(sample, QUANTILES)]
        half = side.half
        (x0, y0), (x1, y1) = side.point(k, q[1], -half), side.point(k, q[3], half)
        low, median, high = (tick_text(round(v, 4)) for v in q[1:4])
        tooltip = title(f"{figure.names[k]}: median {median}, quartiles {low} to {high}")
        box = {
            "x": min(x0, x1),
            "y": min(y0, y1),
            "width": max(abs(x1 - x0), 0.1),
            "height": max(abs(y1 - y0), 0.1),
        }
        whiskers = [
            (*side.point(k, q[0]), *side.point(k, q[1])),
            (*side.point(k, q[3]), *side.point(k, q[4])),
        ]
        caps = [side.across(k, q[0], half / 2), side.across(k, q[4], half / 2)]
        middle = segments([side.across(k, q[2], half)])
        parts = [
            el("rect", tooltip, **box, cls=f"fig-box {fill(slot)} {stroke(slot)}"),
            el("path", d=segments([*whiskers, *caps]), cls=f"fig-whisker {stroke(slot)}"),
            el("path", d=middle, cls="fig-median"),
        ]
    return [*parts, *_dots(k, sample, slot, side)]


def _dots(k: int, sample: F64, slot: int, side: BoxPlane) -> list[str]:
    if len(sample) > FEW:
        return []
    offsets = [(j * GOLDEN % 1.0 - 0.5) * 1.2 * side.half for j in range(len(sample))]
    points = [side.point(k, float(value), off) for value, off in zip(np.sort(sample), offsets)]
    return [el("g", "".join(marker(slot, x, y, 2.2) for x, y in points), cls="fig-dots")]
