# SPDX-License-Identifier: Apache-2.0
"""Histograms: an outline per series over the same bins, with a line at a threshold."""

from __future__ import annotations

import math

import numpy as np

from calipers.plots.figures import Histogram, slots_of
from calipers.plots.svg.axes import Plane, PlaneSpec, plane
from calipers.plots.svg.elements import Drawing, Sheet, el, polyline, segments, words
from calipers.plots.svg.empty import empty_drawing, why_no_limits
from calipers.plots.svg.legends import Entry, legend
from calipers.plots.svg.markers import fill, line_classes
from calipers.plots.svg.scales import limits
from calipers.plots.svg.words import width_of
from calipers.plots.ticks import tick_text


def draw(figure: Histogram, sheet: Sheet) -> Drawing:
    """Draw counts between edges."""
    if not len(figure.series) or len(figure.edges) < 2:
        return empty_drawing(sheet, "no series" if not len(figure.series) else "no bins")
    x_limits = limits(figure.x, [figure.edges, figure.cut])
    y_limits = limits(figure.y, [figure.counts], zero=True)
    if x_limits is None or y_limits is None:
        return empty_drawing(sheet, why_no_limits(figure.x, [figure.edges]))
    slots = slots_of(figure, len(figure.series))
    entries = [Entry(name, slot, "outline") for name, slot in zip(figure.series, slots)]
    labels, top = legend(sheet, entries) if len(entries) > 1 else ([], 0.0)
    at = plane(sheet, PlaneSpec(figure.x, figure.y, x_limits, y_limits, top=top))
    outlines = [_outline(figure, s, slot, at) for s, slot in zip(range(len(figure.series)), slots)]
    return Drawing(
        sheet.width, at.height, [*labels, *at.parts, *outlines, *_threshold_line(figure, at)]
    )


def _outline(figure: Histogram, s: int, slot: int, at: Plane) -> str:
    """Return the area and the line along its top, from the floor to the floor."""
    counts = np.nan_to_num(figure.counts[s], nan=0.0)
    floor = max(0.0, at.y.low) if not at.y.log else at.y.low
    heights = np.concatenate([[floor], np.repeat(np.maximum(counts, floor), 2), [floor]])
    x = np.repeat(at.x(figure.edges), 2)
    good = np.isfinite(x)
    x, y = np.clip(x[good], at.left, at.right), np.clip(at.y(heights)[good], at.top, at.bottom)
    if len(x) < 2:
        return ""
    path = polyline(x, y)
    return el("path", d=path, cls=f"fig-fill {fill(slot)}") + el(
        "path", d=path, cls=f"fig-line {line_classes(slot)}"
    )


def _threshold_line(figure: Histogram, at: Plane) -> list[str]:
    if not math.isfinite(figure.cut) or not at.x.low <= figure.cut <= at.x.high:
        return []
    x, text = at.x.at(figure.cut), tick_text(figure.cut)
    place, anchor = x + 5.0, ""
    if place + width_of(text) > at.right:
        place, anchor = x - 5.0, "end"
    label = words(place, at.top + 9.0, text, "fig-halo-text", anchor=anchor)
    return [el("path", d=segments([(x, at.top, x, at.bottom)]), cls="fig-cut"), label]
