# SPDX-License-Identifier: Apache-2.0
"""Points in a plane, with error bars and with names where these have room."""

from __future__ import annotations

import numpy as np

from calipers.plots.figures import F64, Dots, Scatter
from calipers.plots.svg.axes import Plane, PlaneSpec, plane
from calipers.plots.svg.curves import diagonal
from calipers.plots.svg.elements import Drawing, Sheet, el, num, segments, title, words
from calipers.plots.svg.empty import empty_drawing, why_no_limits
from calipers.plots.svg.legends import Entry, legend
from calipers.plots.svg.markers import marker, stroke
from calipers.plots.svg.scales import limits
from calipers.plots.svg.words import fit, width_of
from calipers.plots.ticks import tick_text

MANY = 400  # points of a series from which on they are small dots
Box = tuple[float, float, float, float]
# Offset and anchor of a name from its point, best first: beside it if no error bar is there, else
# in a corner between two of them.
PLACES = (
    (8, 4, ""), (6, -7, ""), (6, 15, ""), (-8, 4, "end"),
    (-6, -7, "end"), (-6, 15, "end"), (0, -9, "middle"), (0, 17, "middle"),
)  # fmt: skip


def draw(figure: Scatter, sheet: Sheet) -> Drawing:
    """Draw points of one or several series."""
    if not figure.dots:
        return empty_drawing(sheet, "no series")
    xs = [v for d in figure.dots for v in (d.x, d.x_low, d.x_high)]
    ys = [v for d in figure.dots for v in (d.y, d.y_low, d.y_high)]
    x_limits, y_limits = limits(figure.x, xs), limits(figure.y, ys)
    if (
        x_limits is None
        or y_limits is None
        or not any((np.isfinite(d.x) & np.isfinite(d.y)).any() for d in figure.dots)
    ):
        missing = (figure.x, xs) if x_limits is None else (figure.y, ys)
        return empty_drawing(sheet, why_no_limits(*missing))
    series_with_name = [d for d in figure.dots if d.name]
    labels: list[str] = []
    top = 0.0
    if len(series_with_name) > 1:
        entries = [Entry(d.name, d.slot, "marker") for d in series_with_name]
        labels, top = legend(sheet, entries)
    at = plane(sheet, PlaneSpec(figure.x, figure.y, x_limits, y_limits, top=top))
    parts = [*labels, *at.parts, *(diagonal(at) if figure.diagonal else [])]
    parts.extend(_bars(dots, at) for dots in figure.dots)
    parts.extend(_points(dots, at) for dots in figure.dots)
    return Drawing(sheet.width, at.height, [*parts, *_names(figure, at)])


def _pixels(dots: Dots, at: Plane) -> list[tuple[int, float, float]]:
    """Return the points on the plane: which, and where."""
    x, y = at.x(dots.x), at.y(dots.y)
    good = np.isfinite(x) & np.isfinite(y)
    return [
        (k, float(x[k]), float(y[k]))
        for k in np.flatnonzero(good).tolist()
        if at.holds(x[k], y[k], 1.0)
    ]


def _bars(dots: Dots, at: Plane) -> str:
    ends = _ends(dots, at)
    return el("path", d=segments(ends), cls=f"fig-whisker {stroke(dots.slot)}") if ends else ""


def _ends(dots: Dots, at: Plane) -> list[Box]:
    ends: list[Box] = []
    for k, x, y in _pixels(dots, at):
        for low, high, scale, upright in (
            (dots.x_low, dots.x_high, at.x, False),
            (dots.y_low, dots.y_high, at.y, True),
        ):
            pair = _pair(low, high, k)
            if pair is not None:
                a, b = scale.within(pair[0]), scale.within(pair[1])
                ends.append((x, a, x, b) if upright else (a, y, b, y))
    return ends


def _pair(low: F64 | None, high: F64 | None, k: int) -> tuple[float, float] | None:
    if low is None or high is None or not (np.isfinite(low[k]) and np.isfinite(high[k])):
        return None
    return float(low[k]), float(high[k])


def _points(dots: Dots, at: Plane) -> str:
    points = _pixels(dots, at)
    if len(points) > MANY:  # a round cap on a line of no length is a dot of few characters
        path = "".join(f"M{num(x)} {num(y)}h0" for _, x, y in points)
        return el("path", d=path, cls=f"fig-speck {stroke(dots.slot)}")
    return "".join(marker(dots.slot, x, y, 4.0, title(_point_text(dots, k))) for k, x, y in points)


def _point_text(dots: Dots, k: int) -> str:
    name = ", ".join(filter(None, (dots.name, dots.names[k] if k < len(dots.names) else "")))
    place = f"{tick_text(float(dots.x[k]))}, {tick_text(float(dots.y[k]))}"
    return f"{name}: {place}" if name else place


def _names(figure: Scatter, at: Plane) -> list[str]:
    """Return names beside the points: at the first free place around them, else none."""
    points = [(dots, *point) for dots in figure.dots for point in _pixels(dots, at)]
    if len(points) > MANY:
        return []
    occupied: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for _, _, x, y in points]
    for dots in figure.dots:
        for x0, y0, x1, y1 in _ends(dots, at):
            occupied.append((x0 - 1, min(y0, y1) - 1, x1 + 1, max(y0, y1) + 1))
    parts = []
    for dots, k, x, y in points:
        if dots.quiet or k >= len(dots.names) or not dots.names[k]:
            continue
        wide = width_of(fit(dots.names[k], 0.4 * (at.right - at.left)))
        for dx, dy, anchor in PLACES:
            tx, ty = x + dx, y + dy
            left_edge = tx - {"": 0.0, "middle": wide / 2, "end": wide}[anchor]
            box = (left_edge, ty - 10, left_edge + wide, ty + 3)
            on_plane = at.holds(left_edge, ty, 2.0) and at.holds(left_edge + wide, ty, 2.0)
            if on_plane and not any(_meet(box, other) for other in occupied):
                occupied.append(box)
                style = "fig-halo-text"
                parts.append(words(tx, ty, dots.names[k], style, width=wide + 1.0, anchor=anchor))
                break
    return parts


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
