# SPDX-License-Identifier: Apache-2.0
"""Figures on two axes of numbers as SVG: curves with bands, histograms, and points in a plane.

A figure of `calipers.show.figures` and a `Sheet` come in, a `Drawing` goes out; `draw.svg` calls
`draw_curves`, `draw_histogram` and `draw` (points). A figure without anything to draw says so, and
why.

Curves have their names at the ends of their lines where there is room, else in a legend above.
Histograms are an outline per series over the same bins, with a line at a threshold. Points have
error bars, and names where these have room.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from calipers.arrays import F64, I64
from calipers.show.figures import Curves, Dots, Histogram, Line, Scatter, slots_of, tick_text
from calipers.show.svg.axes import (
    Entry,
    Plane,
    PlaneSpec,
    clip_line,
    label_heights,
    legend,
    limits,
    pieces,
    plane,
    room_at_ends,
    step_line,
    swatch,
    thin_line,
)
from calipers.show.svg.canvas import (
    Drawing,
    Sheet,
    el,
    empty_drawing,
    fill,
    fit,
    line_classes,
    marker,
    num,
    polyline,
    rect,
    segments,
    stroke,
    title,
    why_no_limits,
    width_of,
    words,
)

BROAD = 480.0  # narrower sheets have no room for names beside the plane
NAMES_SHARE = 0.3  # of the width that names beside the plane may take
GAP = 16.0  # between the end of a line and its name
MARKERS = 4  # on a line without marks of its own

MANY = 400  # points of a series from which on they are small dots
Box = tuple[float, float, float, float]
# Offset and anchor of a name from its point, best first: beside it if no error bar is there, else
# in a corner between two of them.
PLACES = (
    (8, 4, ""), (6, -7, ""), (6, 15, ""), (-8, 4, "end"),
    (-6, -7, "end"), (-6, 15, "end"), (0, -9, "middle"), (0, 17, "middle"),
)  # fmt: skip


def draw_curves(figure: Curves, sheet: Sheet) -> Drawing:
    """Draw lines over a number."""
    if not figure.lines:
        return empty_drawing(sheet, "no series")
    # Where a line has no height, its x must not stretch the axis.
    xs, ys = [], []
    for line in figure.lines:
        xs.append(line.x[np.isfinite(line.y)])
        ys += [line.y, line.low, line.high]
    x_limits, y_limits = limits(figure.x, xs), limits(figure.y, ys)
    if x_limits is None or y_limits is None or not any(len(x) for x in xs):
        missing = (figure.x, xs) if x_limits is None else (figure.y, ys)
        return empty_drawing(sheet, why_no_limits(*missing))
    plan = PlaneSpec(figure.x, figure.y, x_limits, y_limits)
    at, labels = _layout(figure, sheet, plan)
    clip = f"{sheet.name}-clip"
    # One pixel more above and below: a line along the edge keeps its whole width.
    box = rect(at.left, at.top - 1.0, at.right, at.bottom + 1.0, "")
    # All bands lie below all lines: a band must not hide the line of another series.
    content = list(_diagonal(figure, at))
    for line in figure.lines:
        content.append(_band(line, at))
    for line in figure.lines:
        content.append(_path(line, at))
    parts = [el("clipPath", box.replace(' class=""', ""), id=clip), *at.parts]
    parts.append(el("g", "".join(content), clip_path=f"url(#{clip})"))
    for line in figure.lines:
        parts += _markers(line, at, several=len(figure.lines) > 1)
    return Drawing(sheet.width, at.height, [*parts, *labels])


def _layout(figure: Curves, sheet: Sheet, plan: PlaneSpec) -> tuple[Plane, list[str]]:
    """Return the plane and the names of the lines: beside their ends if all fit, else above."""
    entries = [Entry(line.name, line.slot) for line in figure.lines]
    if not any(entry.name for entry in entries):
        return plane(sheet, plan), []
    room = room_at_ends([entry.name for entry in entries])
    if sheet.width >= BROAD and room <= NAMES_SHARE * sheet.width:
        at = plane(sheet, replace(plan, right=room))
        # Names beside the ends need lines that all end at the right edge, and heights at which no
        # names overlap; else all names go into the legend.
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


def _line_pixels(line: Line, values: F64, at: Plane) -> tuple[F64, F64]:
    """Return a line of the given heights in pixels, cut where it leaves the plane to the left or
    right.
    """
    x, y = clip_line(line.x, values, at.x.low, at.x.high, step=line.step)
    return at.x(x), at.y(y)


def _path(line: Line, at: Plane) -> str:
    x, y = _line_pixels(line, line.y, at)
    paths = []
    for px, py in pieces(x, y):
        if line.step:
            px, py = step_line(px, py)
        paths.append(polyline(*thin_line(px, py)))
    return el("path", d="".join(paths), cls=f"fig-line {line_classes(line.slot)}") if paths else ""


def _band(line: Line, at: Plane) -> str:
    if line.low is None or line.high is None:
        return ""
    # A band without its line would look like one of its neighbours.
    both = np.isfinite(line.low) & np.isfinite(line.high) & np.isfinite(line.y)
    low, high = np.where(both, line.low, np.nan), np.where(both, line.high, np.nan)
    x, lower = _line_pixels(line, low, at)
    upper = _line_pixels(line, high, at)[1]
    paths = []
    for (px, lo), (_, hi) in zip(pieces(x, lower), pieces(x, upper)):
        one, other = (px, lo), (px, hi)
        if line.step:
            one, other = step_line(*one), step_line(*other)
        (x0, y0), (x1, y1) = thin_line(*one), thin_line(*other)
        # Along the upper edge and back along the lower one.
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
    # Slots are shifted against each other, so that markers of lines that coincide stay apart.
    targets = at.left + wide * (np.arange(MARKERS) + 0.3 + 0.1 * (slot % 5)) / MARKERS
    points = []
    for pixel in targets:
        nearest = int(good[np.abs(x[good] - pixel).argmin()])
        # Further away it would stand at the place of another marker.
        if abs(x[nearest] - pixel) < wide / MARKERS / 2:
            points.append(nearest)
    return points


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
    # With one logarithmic axis the line of equality is curved.
    values = np.linspace(low, high, 64)
    good = np.isfinite(at.x(values) + at.y(values))
    return [el("path", d=polyline(at.x(values)[good], at.y(values)[good]), cls="fig-guide")]


def draw_histogram(figure: Histogram, sheet: Sheet) -> Drawing:
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
    # A logarithmic axis has no zero: the outline ends at the edge of the plane.
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


def draw(figure: Scatter, sheet: Sheet) -> Drawing:
    """Draw points of one or several series."""
    if not figure.dots:
        return empty_drawing(sheet, "no series")
    xs, ys, entries = [], [], []
    n_points = 0
    for dots in figure.dots:
        xs += [dots.x, dots.x_low, dots.x_high]
        ys += [dots.y, dots.y_low, dots.y_high]
        n_points += int((np.isfinite(dots.x) & np.isfinite(dots.y)).sum())
        if dots.name:
            entries.append(Entry(dots.name, dots.slot, "marker"))
    x_limits, y_limits = limits(figure.x, xs), limits(figure.y, ys)
    if x_limits is None or y_limits is None or not n_points:
        missing = (figure.x, xs) if x_limits is None else (figure.y, ys)
        return empty_drawing(sheet, why_no_limits(*missing))
    labels: list[str] = []
    top = 0.0
    # A single series needs no legend: the title says what it is.
    if len(entries) > 1:
        labels, top = legend(sheet, entries)
    at = plane(sheet, PlaneSpec(figure.x, figure.y, x_limits, y_limits, top=top))
    parts = [*labels, *at.parts]
    if figure.diagonal:
        parts += diagonal(at)
    # All bars lie below all points.
    for dots in figure.dots:
        parts.append(_bars(dots, at))
    for dots in figure.dots:
        parts.append(_points(dots, at))
    return Drawing(sheet.width, at.height, [*parts, *_names(figure, at)])


def _points_on_plane(dots: Dots, at: Plane) -> list[tuple[int, float, float]]:
    """Return the points on the plane: which, and where."""
    x, y = at.x(dots.x), at.y(dots.y)
    # NaN lies nowhere.
    across = (x >= at.left - 1.0) & (x <= at.right + 1.0)
    inside = np.flatnonzero(across & (y >= at.top - 1.0) & (y <= at.bottom + 1.0))
    return list(zip(inside.tolist(), x[inside].tolist(), y[inside].tolist()))


def _bars(dots: Dots, at: Plane) -> str:
    ends = _error_bars(dots, at)
    return el("path", d=segments(ends), cls=f"fig-whisker {stroke(dots.slot)}") if ends else ""


def _error_bars(dots: Dots, at: Plane) -> list[Box]:
    ends: list[Box] = []
    for k, x, y in _points_on_plane(dots, at):
        for low, high, scale, upright in (
            (dots.x_low, dots.x_high, at.x, False),
            (dots.y_low, dots.y_high, at.y, True),
        ):
            pair = _interval(low, high, k)
            if pair is not None:
                a, b = scale.within(pair[0]), scale.within(pair[1])
                ends.append((x, a, x, b) if upright else (a, y, b, y))
    return ends


def _interval(low: F64 | None, high: F64 | None, k: int) -> tuple[float, float] | None:
    if low is None or high is None or not (np.isfinite(low[k]) and np.isfinite(high[k])):
        return None
    return float(low[k]), float(high[k])


def _points(dots: Dots, at: Plane) -> str:
    points = _points_on_plane(dots, at)
    if len(points) > MANY:  # a round cap on a line of no length is a dot of few characters
        # Dots of one place are one: a page does not grow with points that nobody can tell apart.
        path = "".join(dict.fromkeys(f"M{num(x)} {num(y)}h0" for _, x, y in points))
        return el("path", d=path, cls=f"fig-speck {stroke(dots.slot)}")
    return "".join(marker(dots.slot, x, y, 4.0, title(_point_text(dots, k))) for k, x, y in points)


def _point_text(dots: Dots, k: int) -> str:
    name = ", ".join(filter(None, (dots.name, dots.names[k] if k < len(dots.names) else "")))
    place = f"{tick_text(float(dots.x[k]))}, {tick_text(float(dots.y[k]))}"
    return f"{name}: {place}" if name else place


def _names(figure: Scatter, at: Plane) -> list[str]:
    """Return names beside the points: at the first free place around them, else none."""
    points = [(dots, *point) for dots in figure.dots for point in _points_on_plane(dots, at)]
    if len(points) > MANY:
        return []
    # Names avoid all points and error bars first; each name that is placed blocks later ones.
    occupied: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for _, _, x, y in points]
    for dots in figure.dots:
        for x0, y0, x1, y1 in _error_bars(dots, at):
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
            if on_plane and not any(_overlap(box, other) for other in occupied):
                occupied.append(box)
                style = "fig-halo-text"
                parts.append(words(tx, ty, dots.names[k], style, width=wide + 1.0, anchor=anchor))
                break
    return parts


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
