# SPDX-License-Identifier: Apache-2.0
"""Curves with bands: names at the ends of the lines where there is room, else a legend above."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calipers.plots.figures import F64, Curves, Line
from calipers.plots.svg.axes import Plane, PlaneSpec, plane
from calipers.plots.svg.elements import Drawing, Sheet, el, polyline, rect, segments, words
from calipers.plots.svg.empty import empty_drawing, why_no_limits
from calipers.plots.svg.legends import Entry, label_heights, legend, room_at_ends, swatch
from calipers.plots.svg.markers import fill, line_classes, marker, stroke
from calipers.plots.svg.scales import I64, limits
from calipers.plots.svg.thinning import clip_line, pieces, step_line, thin_line

BROAD = 480.0  # narrower sheets have no room for names beside the plane
NAMES_SHARE = 0.3  # of the width that names beside the plane may take
GAP = 16.0  # between the end of a line and its name
MARKERS = 4  # on a line without marks of its own


def draw(figure: Curves, sheet: Sheet) -> Drawing:
    """Draw lines over a number."""
    if not figure.lines:
        return empty_drawing(sheet, "no series")
    xs = [line.x[np.isfinite(line.y)] for line in figure.lines]
    ys = [values for line in figure.lines for values in (line.y, line.low, line.high)]
    x_limits, y_limits = limits(figure.x, xs), limits(figure.y, ys)
    if x_limits is None or y_limits is None or not any(len(x) for x in xs):
        missing = (figure.x, xs) if x_limits is None else (figure.y, ys)
        return empty_drawing(sheet, why_no_limits(*missing))
    plan = PlaneSpec(figure.x, figure.y, x_limits, y_limits)
    at, labels = _layout(figure, sheet, plan)
    clip = f"{sheet.name}-clip"
    box = rect(at.left, at.top - 1.0, at.right, at.bottom + 1.0, "")
    content = [
        *_diagonal(figure, at),
        *(_band(line, at) for line in figure.lines),
        *(_path(line, at) for line in figure.lines),
    ]
    parts = [el("clipPath", box.replace(' class=""', ""), id=clip), *at.parts]
    parts.append(el("g", "".join(content), clip_path=f"url(#{clip})"))
    parts.extend(
        part for line in figure.lines for part in _markers(line, at, several=len(figure.lines) > 1)
    )
    return Drawing(sheet.width, at.height, [*parts, *labels])


def _layout(figure: Curves, sheet: Sheet, plan: PlaneSpec) -> tuple[Plane, list[str]]:
    """Return the plane and the names of the lines: beside their ends if all fit, else above."""
    entries = [Entry(line.name, line.slot) for line in figure.lines]
    if not any(entry.name for entry in entries):
        return plane(sheet, plan), []
    room = room_at_ends([entry.name for entry in entries])
    if sheet.width >= BROAD and room <= NAMES_SHARE * sheet.width:
        at = plane(sheet, replace(plan, right=room))
        ends = [_end(line, at) for line in figure.lines]
        ends_at_edge = [end for end in ends if end is not None]
        heights = None
        if len(ends_at_edge) == len(ends):
            heights = label_heights(ends_at_edge, at.top, at.bottom)
        if heights is not None:
            names: list[str] = []
            for entry, y in zip(entries, heights):
                names += _name(entry, at.right + GAP, y, sheet)
            return at, names
    labels, top = legend(sheet, entries)
    return plane(sheet, replace(plan, top=top)), labels


def _name(entry: Entry, x: float, y: float, sheet: Sheet) -> list[str]:
    return [*swatch(entry, x, y, sheet.name), words(x + 31.0, y + 4.0, entry.name)]


def _end(line: Line, at: Plane) -> float | None:
    """Return the height of a line at the right edge, None if it ends elsewhere."""
    x, y = at.x(line.x), at.y(line.y)
    good = np.flatnonzero(np.isfinite(x) & np.isfinite(y) & (x <= at.right + 0.5))
    if not len(good) or x[good[-1]] < at.right - 16.0:
        return None
    return float(np.clip(y[good[-1]], at.top, at.bottom))


def _pixels(line: Line, values: F64, at: Plane) -> tuple[F64, F64]:
    """Return a line of the given heights in pixels, cut where it leaves the plane to the left or
    right.
    """
    x, y = clip_line(line.x, values, at.x.low, at.x.high, step=line.step)
    return at.x(x), at.y(y)


def _path(line: Line, at: Plane) -> str:
    x, y = _pixels(line, line.y, at)
    paths = []
    for px, py in pieces(x, y):
        if line.step:
            px, py = step_line(px, py)
        paths.append(polyline(*thin_line(px, py)))
    return el("path", d="".join(paths), cls=f"fig-line {line_classes(line.slot)}") if paths else ""


def _band(line: Line, at: Plane) -> str:
    if line.low is None or line.high is None:
        return ""
    both = np.isfinite(line.low) & np.isfinite(line.high) & np.isfinite(line.y)
    low, high = np.where(both, line.low, np.nan), np.where(both, line.high, np.nan)
    x, lower = _pixels(line, low, at)
    upper = _pixels(line, high, at)[1]
    paths = []
    for (px, lo), (_, hi) in zip(pieces(x, lower), pieces(x, upper)):
        one, other = (px, lo), (px, hi)
        if line.step:
            one, other = step_line(*one), step_line(*other)
        (x0, y0), (x1, y1) = thin_line(*one), thin_line(*other)
        paths.append(
            polyline(np.concatenate([x1, x0[::-1]]), np.concatenate([y1, y0[::-1]]), closed=True)
        )
    cls = f"fig-band {fill(line.slot)} {stroke(line.slot)}"
    return el("path", d="".join(paths), cls=cls) if paths else ""


def _markers(line: Line, at: Plane, *, several: bool) -> list[str]:
    x, y = at.x(line.x), at.y(line.y)
    indices = [k for k in line.marks if 0 <= k < len(x)]
    good = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if not indices and several:  # markers tell lines apart without colour
        indices = _spaced_points(x, good, at, line.slot)
    markers = []
    for k in dict.fromkeys([*indices, *_isolated(good)]):
        if np.isfinite(x[k] + y[k]) and at.holds(x[k], y[k]):
            markers.append(marker(line.slot, float(x[k]), float(y[k])))
    return markers


def _isolated(good: I64) -> list[int]:
    """Return the points without neighbours: no line shows them."""
    if not len(good):
        return []
    gaps = np.diff(good) > 1
    before, after = np.concatenate([[True], gaps]), np.concatenate([gaps, [True]])
    return [int(k) for k in good[before & after]]


def _spaced_points(x: F64, good: I64, at: Plane, slot: int) -> list[int]:
    """Return a few points of a line far from each other, other ones for other slots."""
    if not len(good):
        return []
    wide = at.right - at.left
    targets = at.left + wide * (np.arange(MARKERS) + 0.3 + 0.1 * (slot % 5)) / MARKERS
    nearest = [int(good[np.abs(x[good] - pixel).argmin()]) for pixel in targets]
    return [k for k, pixel in zip(nearest, targets) if abs(x[k] - pixel) < wide / MARKERS / 2]


def _diagonal(figure: Curves, at: Plane) -> list[str]:
    return diagonal(at) if figure.diagonal else []


def diagonal(at: Plane) -> list[str]:
    """Return the line on which both axes say the same."""
    low, high = max(at.x.low, at.y.low), min(at.x.high, at.y.high)
    if low >= high:
        return []
    if at.x.log == at.y.log:
        ends = [(at.x.at(low), at.y.at(low), at.x.at(high), at.y.at(high))]
        return [el("path", d=segments(ends), cls="fig-guide")]
    values = np.linspace(low, high, 64)
    good = np.isfinite(at.x(values) + at.y(values))
    return [el("path", d=polyline(at.x(values)[good], at.y(values)[good]), cls="fig-guide")]
