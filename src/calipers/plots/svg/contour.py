# SPDX-License-Identifier: Apache-2.0
"""Contours: an area per step of the colours, and lines of equal height with their numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calipers.plots.figures import F64, Axis, Contour, ends_of
from calipers.plots.svg.axes import Plane, PlaneSpec, plane
from calipers.plots.svg.elements import Drawing, Sheet, el, polyline, words
from calipers.plots.svg.empty import UNDEFINED, empty_drawing
from calipers.plots.svg.heatmap import hatching
from calipers.plots.svg.isolines import isolines
from calipers.plots.svg.legends import colours
from calipers.plots.svg.scales import I64, limits
from calipers.plots.svg.shades import ON_DARK, SHADES, shade_of
from calipers.plots.svg.thinning import thin_line
from calipers.plots.svg.words import width_of
from calipers.plots.ticks import tick_text, ticks

FINE = 48  # rows and columns at least: straight lines between few points would have corners
DEEP = 1e6  # spans below: what is undefined or beyond the edge
SHORT = 60.0  # a line shorter than this has no number


def draw(figure: Contour, sheet: Sheet) -> Drawing:
    """Draw a number over two others."""
    x_order, y_order = _usable(figure.xs, figure.x), _usable(figure.ys, figure.y)
    values = np.asarray(figure.values, np.float64)
    if len(x_order) < 2 or len(y_order) < 2:
        return empty_drawing(sheet, "fewer than two different values on an axis")
    values = np.where(np.isfinite(values), values, np.nan)[np.ix_(y_order, x_order)]
    if not np.isfinite(values).any():
        return empty_drawing(sheet, UNDEFINED)
    xs, ys = figure.xs[x_order], figure.ys[y_order]
    ends = ends_of(figure)
    labels, top = colours(sheet, figure.label, *ends)
    plan = PlaneSpec(figure.x, figure.y, _ends(figure.x, xs), _ends(figure.y, ys), top=top, grid="")
    at = plane(sheet, plan)
    if figure.square:
        spans = [abs(end - start) for start, end in (plan.x_limits, plan.y_limits)]
        at = plane(sheet, replace(plan, inner=(at.right - at.left) * spans[1] / spans[0]))
    x, y, fine = _finer(at.x(xs), at.y(ys), values)
    parts = [el("defs", hatching(sheet.name) + _clip(at, sheet)), *labels, *at.parts]
    content = "".join(
        [_ground(at, sheet), *_areas(x, y, fine, ends), *_lines(figure, at, x, y, fine)]
    )
    parts.append(el("g", content, clip_path=f"url(#{sheet.name}-clip)"))
    return Drawing(sheet.width, at.height, parts)


def _usable(places: F64, axis: Axis) -> I64:
    """Return the order of the different places that the axis can show."""
    good = np.isfinite(places) & ((places > 0) | (not axis.log))
    first = np.unique(np.where(good, places, np.nan), return_index=True)[1]
    return np.array([k for k in first if good[k]], np.int64)


def _ends(axis: Axis, places: F64) -> tuple[float, float]:
    """Return the ends of an axis without room beyond the data: there is no colour there."""
    low = axis.low if np.isfinite(axis.low) else float(places[0])
    high = axis.high if np.isfinite(axis.high) else float(places[-1])
    close = Axis(axis.label, low, high, axis.log)
    return limits(close, [places]) or (float(places[0]), float(places[-1]))


def _clip(at: Plane, sheet: Sheet) -> str:
    box = el("rect", x=at.left, y=at.top, width=at.right - at.left, height=at.bottom - at.top)
    return el("clipPath", box, id=f"{sheet.name}-clip")


def _finer(x: F64, y: F64, values: F64) -> tuple[F64, F64, F64]:
    """Return a finer grid, interpolated linearly along rows, then along columns."""
    more_x, more_y = _between(x), _between(y)
    rows = np.stack([_along(more_x, x, row) for row in values])
    return more_x, more_y, np.stack([_along(more_y, y, column) for column in rows.T], axis=1)


def _between(places: F64) -> F64:
    """Return the places and, if they are few, others between neighbours."""
    parts = max(-(-FINE // (len(places) - 1)), 1)
    return np.interp(
        np.arange((len(places) - 1) * parts + 1) / parts, np.arange(len(places)), places
    )


def _along(at: F64, places: F64, heights: F64) -> F64:
    order = 1 if places[-1] >= places[0] else -1
    return np.interp(order * at, order * places, heights)


def _ground(at: Plane, sheet: Sheet) -> str:
    """Return the hatching that shows wherever no colour lies above it."""
    box = {"x": at.left, "y": at.top, "width": at.right - at.left, "height": at.bottom - at.top}
    return el("rect", **box, fill=f"url(#{sheet.name}-hatch)", cls="fig-undefined")


def _areas(x: F64, y: F64, values: F64, ends: tuple[float, float]) -> list[str]:
    """Return an area per step of the colours. Each lies on the lower ones, so there are no seams
    between them.
    """
    low, high = ends
    values = np.maximum(values, low)  # NaN stays
    span = (high - low) or 1.0
    deep = low - DEEP * span
    # A rim far below closes every line at the edge of the grid.
    walled = np.pad(np.where(np.isfinite(values), values, deep), 1, constant_values=deep)
    x, y = np.pad(x, 1, mode="edge"), np.pad(y, 1, mode="edge")
    parts = []
    for step in range(len(SHADES)) if high > low else [len(SHADES) // 2]:
        level = low + span * step / len(SHADES) if high > low else low
        lines = isolines(x, y, walled, level - 1e-9 * span)
        path = "".join(
            polyline(*thin_line(*line), closed=True) for line in lines if len(line[0]) > 2
        )
        if path:
            parts.append(el("path", d=path, cls=f"fig-q{step} fig-area"))
    return parts


def _levels(figure: Contour, values: F64) -> tuple[float, ...]:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    levels = figure.levels or ticks(low, high, most=8)
    return tuple(level for level in levels if low < level < high)


def _lines(figure: Contour, at: Plane, xs: F64, ys: F64, values: F64) -> list[str]:
    low, high = ends_of(figure)
    lines, labels = [], []
    label_places: list[tuple[float, float]] = []
    for level in _levels(figure, values):
        step = int(shade_of(np.array([level]), low, high)[0])
        cls = "fig-iso fig-iso-light" if ON_DARK[step] else "fig-iso"
        for x, y in isolines(xs, ys, values, level):
            lines.append(el("path", d=polyline(*thin_line(x, y)), cls=cls))
            place = _label_place(x, y, label_places, at, width_of(tick_text(level)))
            if place is not None:
                label_places.append(place)
                labels.append(
                    words(
                        place[0], place[1] + 4.0, tick_text(level), "fig-iso-label", anchor="middle"
                    )
                )
    return [*lines, *labels]


def _label_place(
    x: F64, y: F64, label_places: list[tuple[float, float]], at: Plane, wide: float
) -> tuple[float, float] | None:
    """Return a point of the line for its number: near the middle, away from edges and numbers."""
    if float(np.hypot(np.diff(x), np.diff(y)).sum()) < SHORT:
        return None
    order = np.argsort(np.abs(np.arange(len(x)) - (len(x) - 1) / 2), kind="stable")
    for k in order:
        px, py = float(x[k]), float(y[k])
        edge = at.holds(px - wide, py - 10.0, 0.0) and at.holds(px + wide, py + 10.0, 0.0)
        if edge and all(
            abs(px - tx) > 1.6 * wide or abs(py - ty) > 16.0 for tx, ty in label_places
        ):
            return px, py
    return None
