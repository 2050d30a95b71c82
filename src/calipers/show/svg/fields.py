# SPDX-License-Identifier: Apache-2.0
"""Figures that fill an area as SVG: heat maps, contours, objects on an image, cells of an image.

A figure of `calipers.show.figures` and a `Sheet` come in, a `Drawing` goes out; `draw.svg` calls
the four entry points.

- `draw_heatmap`: a cell per row and column, its number as a shade and, where it fits, as text.
- `draw_contour`: an area per step of the shades, and lines of equal height with their numbers.
  `isolines` finds these lines by marching squares: every cell of the grid whose corners lie on both
  sides of the level holds one or two straight pieces, which are then joined to lines.
- `draw`: objects on an image, one group per fate, so that a page can hide it; each object has a
  halo and a tooltip, and is drawn as its outline if that is known, else as a box. The map of a
  model lies between picture and halos.
- `draw_cells`: a whole number per cell of an image as a shade, and the outline of the reference.

What is undefined is hatched.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import numpy as np

from calipers.arrays import F64, I64, Flags
from calipers.errors import UsageError
from calipers.show.figures import (
    MARKS,
    MINUS,
    Axis,
    BoxMark,
    Cells,
    Contour,
    HeatMap,
    Overlay,
    Ring,
    ends_of,
    tick_text,
    ticks,
)
from calipers.show.svg.axes import (
    ON_DARK,
    SHADES,
    Entry,
    Plane,
    PlaneSpec,
    colours,
    ink_on,
    legend,
    limits,
    plane,
    shade_of,
    thin_line,
)
from calipers.show.svg.canvas import (
    UNDEFINED,
    Drawing,
    Sheet,
    el,
    empty_drawing,
    label,
    line_classes,
    num,
    polyline,
    segments,
    sentence,
    shorten,
    title,
    width_of,
    words,
    wrap,
)

HIGHEST, LOWEST = 34.0, 12.0  # pixels of a cell
BROADEST = 120.0
MOST_TIPS = 150  # more cells than these have no tooltips: the page would grow too large
LINE = 14.0
SLOPE = 0.71  # of names at 45 degrees

# Row and column of the first corner; 0 = along the row, 1 = along the column.
Edge = tuple[int, int, int]
# Sides of a cell that a line crosses, by which corners are above: bits 1, 2, 4, 8 = upper left,
# upper right, lower right, lower left; sides 0, 1, 2, 3 = upper, right, lower, left. The two
# saddles are decided by the middle.
SIDES = {
    1: ((3, 0),), 2: ((0, 1),), 3: ((3, 1),), 4: ((1, 2),), 6: ((0, 2),), 7: ((3, 2),),
    8: ((2, 3),), 9: ((2, 0),), 11: ((2, 1),), 12: ((1, 3),), 13: ((1, 0),), 14: ((0, 3),),
}  # fmt: skip
SADDLES = {5: (((3, 0), (1, 2)), ((3, 2), (1, 0))), 10: (((0, 1), (2, 3)), ((0, 3), (2, 1)))}

FINE = 48  # rows and columns at least: straight lines between few points would have corners
DEEP = 1e6  # spans below: what is undefined or beyond the edge
SHORT = 60.0  # a line shorter than this has no number

# From below to above: what was found is never hidden by what was left out.
ORDER = ("ignored", "reference", "duplicate", "false alarm", "hit", "missed")
INSET = 0.004  # of the longer side: how far inside the edge a cut box is drawn
TRACE = 0.02  # of the longer side: length at least of what a box outside leaves
PICTURE = re.compile(r"data:image/[a-z+.-]+;base64,[A-Za-z0-9+/=]*")
OUTSIDE = ' class="fig-outside"'
SYMBOL = re.compile(r"[A-Za-z][\w-]*", re.ASCII)

CELLS_HIGHEST = 380.0  # pixels of the whole map
LARGEST = 26.0  # of a cell
SWATCH, ROW = 13.0, 18.0
MANY = 12  # numbers that have a swatch each
OPAQUE, THROUGH = "1", ".6"  # over nothing, over a picture


@dataclass(frozen=True, slots=True)
class CellLayout:
    """Where the cells are."""

    left: float
    top: float
    wide: float
    high: float

    def corner(self, r: int, c: int) -> tuple[float, float]:
        """Return the upper left corner of a cell."""
        return self.left + self.wide * c, self.top + self.high * r


def draw_heatmap(figure: HeatMap, sheet: Sheet) -> Drawing:
    """Draw a number per row and column."""
    rows, columns = len(figure.y.names), len(figure.x.names)
    if not rows or not columns:
        return empty_drawing(sheet, "no rows" if not rows else "no columns")
    values = np.where(np.isfinite(figure.values), figure.values, np.nan)
    labels, top = colours(sheet, figure.label, figure.low, figure.high)
    names = (*figure.y.names, figure.y.label)
    left_edge = min(max(width_of(shorten(name)) for name in names), 0.36 * sheet.width) + 10.0
    wide = min((sheet.width - left_edge) / columns, BROADEST)
    heads, above = _heads(figure, left_edge, wide, sheet)
    # Up to 20 rows have cells of full height; more rows share 640 pixels.
    high = HIGHEST if rows <= 20 else max(min(HIGHEST, 640.0 / rows), LOWEST)
    at = CellLayout(left_edge, top + above, wide, high)
    parts = [
        el("defs", hatching(sheet.name)),
        *labels,
        el("g", "".join(heads), transform=f"translate(0 {num(top)})"),
    ]
    parts.extend(_names(figure, at))
    steps = shade_of(values, figure.low, figure.high)
    parts.extend(
        _cells(figure, steps, at, sheet)
        if steps.size <= MOST_TIPS
        else _cell_areas(steps, at, sheet)
    )
    parts.extend(_texts(figure, values, steps, at))
    return Drawing(sheet.width, at.top + high * rows + 4.0, parts)


def _heads(figure: HeatMap, left_edge: float, wide: float, sheet: Sheet) -> tuple[list[str], float]:
    """Return names above the columns and their height: in two lines, or turned."""
    names = figure.x.names
    parts = []
    above = 0.0
    if figure.x.label:
        parts.append(
            sentence(left_edge, 12.0, figure.x.label, "fig-soft", width=sheet.width - left_edge)
        )
        above = 19.0
    lines = [wrap(name, wide - 4.0) for name in names]
    if all(line is not None for line in lines):
        deep = max(len(line) for line in lines if line is not None)
        for c, line in enumerate(lines):
            for k, text in enumerate(line or []):
                # Names of one line stand at the bottom, next to their column.
                y = above + LINE * (deep - len(line or []) + k) + 11.0
                parts.append(words(left_edge + wide * (c + 0.5), y, text, anchor="middle"))
        return parts, above + LINE * deep + 4.0
    slanted, room = _slanted_heads(figure, left_edge, wide, above, sheet)
    return [*parts, *slanted], above + room


def _slanted_heads(
    figure: HeatMap, left_edge: float, wide: float, above: float, sheet: Sheet
) -> tuple[list[str], float]:
    """Return names at 45 degrees, upright if the last one would leave the sheet."""
    names, longest = figure.x.names, 110.0
    last = min(width_of(shorten(names[-1])), longest)
    angle, slope, shift = 45, SLOPE, 3.0
    if left_edge + wide * (len(names) - 0.5) + last * SLOPE + 3.0 > sheet.width:
        angle, slope, shift = 90, 1.0, 4.0
    deep = min(max(width_of(shorten(name)) for name in names), longest) * slope + 14.0
    every = max(int(-(-13.0 // wide)), 1)  # turned names need this much room between them
    parts = []
    for c in range(0, len(names), every):
        x, y = left_edge + wide * (c + 0.5) + shift, above + deep - 5.0
        text = words(0.0, 0.0, names[c], width=longest)
        place = f"translate({num(x)} {num(y)})rotate(-{angle})"
        parts.append(el("g", text, transform=place))
    return parts, deep


def _names(figure: HeatMap, at: CellLayout) -> list[str]:
    parts = []
    if figure.y.label:
        parts.append(
            sentence(
                at.left - 8.0,
                at.top - 5.0,
                figure.y.label,
                "fig-soft",
                width=at.left - 8.0,
                anchor="end",
            )
        )
    every = max(int(-(-13.0 // at.high)), 1)
    for r in range(0, len(figure.y.names), every):
        y = at.corner(r, 0)[1] + at.high / 2 + 4.0
        parts.append(words(at.left - 8.0, y, figure.y.names[r], width=at.left - 8.0, anchor="end"))
    return parts


def _cells(figure: HeatMap, steps: I64, at: CellLayout, sheet: Sheet) -> list[str]:
    parts = []
    for r, row in enumerate(figure.y.names):
        for c, column in enumerate(figure.x.names):
            x, y = at.corner(r, c)
            step = int(steps[r, c])
            inner = title(f"{row}, {column}: {_text(figure, r, c) or 'undefined'}")
            box = {"x": x + 0.5, "y": y + 0.5, "width": at.wide - 1.0, "height": at.high - 1.0}
            if step < 0:
                parts.append(
                    el("rect", inner, **box, fill=f"url(#{sheet.name}-hatch)", cls="fig-undefined")
                )
            else:
                parts.append(el("rect", inner, **box, cls=f"fig-q{step}"))
    return parts


def _cell_areas(steps: I64, at: CellLayout, sheet: Sheet) -> list[str]:
    """Return many cells as one path per step of the colours."""
    parts = []
    for step in (-1, *range(len(SHADES))):
        runs = run_path(steps == step, at)
        if runs and step < 0:
            parts.append(el("path", d=runs, fill=f"url(#{sheet.name}-hatch)", cls="fig-undefined"))
        elif runs:
            parts.append(el("path", d=runs, cls=f"fig-q{step} fig-seamless"))
    return parts


def run_path(cells: Flags, at: CellLayout) -> str:
    """Return the path of some cells (rows, columns), runs side by side as one; "" for none."""
    # Edges are rounded before widths are taken, so that there are no gaps between runs.
    x = [round(at.corner(0, c)[0], 1) for c in range(cells.shape[1] + 1)]
    y = [round(at.corner(r, 0)[1], 1) for r in range(len(cells) + 1)]
    runs = []
    for r in np.flatnonzero(cells.any(axis=1)).tolist():
        padded = np.concatenate([[False], cells[r], [False]]).astype(np.int8)
        edges = np.flatnonzero(np.diff(padded))
        high = num(y[r + 1] - y[r])
        for a, b in zip(edges[::2].tolist(), edges[1::2].tolist()):
            wide = x[b] - x[a]
            runs.append(f"M{num(x[a])} {num(y[r])}h{num(wide)}v{high}h{num(-wide)}z")
    return "".join(runs)


def hatching(name: str) -> str:
    """Return the definition of the texture of what is undefined."""
    inner = el("path", d="M0 6L6 0", cls="fig-hatch")
    return el(
        "pattern", inner, id=f"{name}-hatch", width=6, height=6, patternUnits="userSpaceOnUse"
    )


def _text(figure: HeatMap, r: int, c: int) -> str:
    if figure.words:
        if r < len(figure.words) and c < len(figure.words[r]):
            return figure.words[r][c]
        return ""
    value = figure.values[r, c]
    if not np.isfinite(value):
        return ""
    # Digits by the range of the colours, so that all cells have equally many.
    span = figure.high - figure.low
    digits = 0
    if span <= 2:
        digits = 2
    elif span <= 20:
        digits = 1
    return f"{value:.{digits}f}".replace("-", MINUS)


def _texts(figure: HeatMap, values: F64, steps: I64, at: CellLayout) -> list[str]:
    """Return the texts of the cells; no numbers if one of them does not fit its cell."""
    if at.high < 15.0:
        return []
    parts = []
    # All numbers or none: single gaps would look like missing values. Words are always written.
    numbers_fit = True
    if not figure.words:
        defined = np.argwhere(np.isfinite(values))
        numbers_fit = all(width_of(_text(figure, r, c)) <= at.wide - 3.0 for r, c in defined)
    for (r, c), step in np.ndenumerate(steps):
        x, y = at.corner(r, c)
        middle, base = x + at.wide / 2, y + at.high / 2 + 4.0
        if step < 0:
            text = _text(figure, r, c) or "undefined"
            text = text if width_of(text) <= at.wide - 6.0 else "–"
            parts.append(words(middle, base, text, "fig-reason fig-halo-text", anchor="middle"))
        elif numbers_fit:
            lines = [_text(figure, r, c)]
            if width_of(lines[0]) > at.wide - 3.0 and at.high >= 2 * LINE:
                lines = wrap(lines[0], at.wide - 3.0) or lines
            base -= LINE * (len(lines) - 1) / 2
            for k, text in enumerate(lines):
                parts.append(
                    words(
                        middle,
                        base + LINE * k,
                        text,
                        ink_on(int(step)),
                        width=at.wide - 3.0,
                        anchor="middle",
                    )
                )
    return parts


def isolines(x: F64, y: F64, values: F64, level: float) -> list[tuple[F64, F64]]:
    """Return the lines on which the grid has a height.

    Parameters
    ----------
    x, y : (m,), (n,) array
        Places of the columns and rows, in any unit.
    values : (n, m) array
        Heights; cells with an undefined corner are left out.

    Returns
    -------
    list of (x, y)
        Every line as its points in order; a closed one ends where it starts.
    """
    neighbours: dict[Edge, list[Edge]] = {}
    for one, other in _level_pieces(values, level):
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    return [_crossings(chain, x, y, values, level) for chain in _chains(neighbours)]


def _level_pieces(values: F64, level: float) -> list[tuple[Edge, Edge]]:
    corners = values[:-1, :-1], values[:-1, 1:], values[1:, 1:], values[1:, :-1]
    defined = np.isfinite(sum(corners))
    kind = sum((corner >= level).astype(np.int64) << k for k, corner in enumerate(corners))
    # A saddle has two solutions; the mean of the corners says which pair of opposite corners is
    # connected.
    middle = np.asarray(sum(corners)) / 4 >= level
    pieces: list[tuple[Edge, Edge]] = []
    for r, c in np.argwhere(defined & (kind != 0) & (kind != 15)).tolist():
        code = int(np.asarray(kind)[r, c])
        sides = SADDLES[code][int(middle[r, c])] if code in SADDLES else SIDES[code]
        pieces.extend((_edge(r, c, a), _edge(r, c, b)) for a, b in sides)
    return pieces


def _edge(r: int, c: int, side: int) -> Edge:
    return ((r, c, 0), (r, c + 1, 1), (r + 1, c, 0), (r, c, 1))[side]


def _chains(neighbours: dict[Edge, list[Edge]]) -> list[list[Edge]]:
    """Return the pieces joined to lines: open ones from their ends, then what is left, which is
    closed.
    """
    chains = []
    # Ends of open lines have one neighbour and come first: from inside, a line would become two.
    for start in sorted(neighbours, key=lambda edge: (len(neighbours[edge]) > 1, edge)):
        chain = [start]
        while neighbours[chain[-1]]:
            following = neighbours[chain[-1]].pop()
            neighbours[following].remove(chain[-1])
            chain.append(following)
        if len(chain) > 1:
            chains.append(chain)
    return chains


def _crossings(chain: list[Edge], x: F64, y: F64, values: F64, level: float) -> tuple[F64, F64]:
    """Return where the line crosses the edges, by straight lines between the corners."""
    r, c, along = np.array(chain).T
    r2, c2 = r + (along == 1), c + (along == 0)
    one, other = values[r, c], values[r2, c2]
    share = np.clip((level - one) / np.where(other == one, 1.0, other - one), 0.0, 1.0)
    return x[c] + share * (x[c2] - x[c]), y[r] + share * (y[r2] - y[r])


def draw_contour(figure: Contour, sheet: Sheet) -> Drawing:
    """Draw a number over two others."""
    x_order, y_order = _usable_order(figure.xs, figure.x), _usable_order(figure.ys, figure.y)
    values = np.asarray(figure.values, np.float64)
    if len(x_order) < 2 or len(y_order) < 2:
        return empty_drawing(sheet, "fewer than two different values on an axis")
    values = np.where(np.isfinite(values), values, np.nan)[np.ix_(y_order, x_order)]
    if not np.isfinite(values).any():
        return empty_drawing(sheet, UNDEFINED)
    xs, ys = figure.xs[x_order], figure.ys[y_order]
    ends = ends_of(figure)
    labels, top = colours(sheet, figure.label, *ends)
    plan = PlaneSpec(
        figure.x, figure.y, _axis_ends(figure.x, xs), _axis_ends(figure.y, ys), top=top, grid=""
    )
    at = plane(sheet, plan)
    if figure.square:
        spans = [abs(end - start) for start, end in (plan.x_limits, plan.y_limits)]
        # The width is known only after the first layout; equal units on both axes fix the height.
        at = plane(sheet, replace(plan, inner=(at.right - at.left) * spans[1] / spans[0]))
    # Interpolated in pixels, so that lines are straight on a logarithmic axis, too.
    x, y, fine = _finer(at.x(xs), at.y(ys), values)
    parts = [el("defs", hatching(sheet.name) + _plane_clip(at, sheet)), *labels, *at.parts]
    content = "".join(
        [_ground(at, sheet), *_shade_areas(x, y, fine, ends), *_lines(figure, at, x, y, fine)]
    )
    parts.append(el("g", content, clip_path=f"url(#{sheet.name}-clip)"))
    return Drawing(sheet.width, at.height, parts)


def _usable_order(places: F64, axis: Axis) -> I64:
    """Return the order of the different places that the axis can show."""
    good = np.isfinite(places) & ((places > 0) | (not axis.log))
    first = np.unique(np.where(good, places, np.nan), return_index=True)[1]
    return np.array([k for k in first if good[k]], np.int64)


def _axis_ends(axis: Axis, places: F64) -> tuple[float, float]:
    """Return the ends of an axis without room beyond the data: there is no colour there."""
    low = axis.low if np.isfinite(axis.low) else float(places[0])
    high = axis.high if np.isfinite(axis.high) else float(places[-1])
    # With both ends named, `limits` adds no room.
    close = Axis(axis.label, low, high, axis.log)
    return limits(close, [places]) or (float(places[0]), float(places[-1]))


def _plane_clip(at: Plane, sheet: Sheet) -> str:
    box = el("rect", x=at.left, y=at.top, width=at.right - at.left, height=at.bottom - at.top)
    return el("clipPath", box, id=f"{sheet.name}-clip")


def _finer(x: F64, y: F64, values: F64) -> tuple[F64, F64, F64]:
    """Return a finer grid, interpolated linearly along rows, then along columns."""
    more_x, more_y = _finer_places(x), _finer_places(y)
    rows = np.stack([_along(more_x, x, row) for row in values])
    return more_x, more_y, np.stack([_along(more_y, y, column) for column in rows.T], axis=1)


def _finer_places(places: F64) -> F64:
    """Return the places and, if they are few, others between neighbours."""
    parts = max(-(-FINE // (len(places) - 1)), 1)
    return np.interp(
        np.arange((len(places) - 1) * parts + 1) / parts, np.arange(len(places)), places
    )


def _along(at: F64, places: F64, heights: F64) -> F64:
    # `np.interp` wants rising places; pixels of y fall.
    order = 1 if places[-1] >= places[0] else -1
    return np.interp(order * at, order * places, heights)


def _ground(at: Plane, sheet: Sheet) -> str:
    """Return the hatching that shows wherever no colour lies above it."""
    box = {"x": at.left, "y": at.top, "width": at.right - at.left, "height": at.bottom - at.top}
    return el("rect", **box, fill=f"url(#{sheet.name}-hatch)", cls="fig-undefined")


def _shade_areas(x: F64, y: F64, values: F64, ends: tuple[float, float]) -> list[str]:
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
        # A little lower than the level: values equal to it belong to the area.
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
    # From the middle of the line outwards.
    order = np.argsort(np.abs(np.arange(len(x)) - (len(x) - 1) / 2), kind="stable")
    for k in order:
        px, py = float(x[k]), float(y[k])
        is_inside = at.holds(px - wide, py - 10.0, 0.0) and at.holds(px + wide, py + 10.0, 0.0)
        if is_inside and not _touches_label(px, py, label_places, wide):
            return px, py
    return None


def _touches_label(
    px: float, py: float, label_places: list[tuple[float, float]], wide: float
) -> bool:
    """Return whether a number at this point would touch one that is there already."""
    return any(abs(px - tx) <= 1.6 * wide and abs(py - ty) <= 16.0 for tx, ty in label_places)


def slug(fate: str) -> str:
    """Return the name of a fate in classes."""
    return fate.replace(" ", "-")


def draw(figure: Overlay, sheet: Sheet) -> Drawing:
    """Draw boxes on an image, in pixels of the image."""
    width, height = figure.size
    if not (math.isfinite(width) and math.isfinite(height) and width > 0 and height > 0):
        return empty_drawing(sheet, "the size of the image is not known")
    whole = f'width="{num(width, 2)}" height="{num(height, 2)}"'
    parts = [
        f'<rect {whole} class="fig-backdrop"/>',
        picture_of(figure.picture, figure.symbol, whole, "fig-picture"),
        picture_of(figure.shade, figure.shade_symbol, whole, "fig-layer fig-layer-map"),
    ]
    # All halos lie below all objects: otherwise the halo of a box would hide its neighbour.
    halos, layers = [], []
    for fate in ORDER:
        marks = [mark for mark in figure.marks if _fate(mark) == fate]
        marks = [mark for mark in marks if all(map(math.isfinite, mark.box))]
        if not marks:
            continue
        marks.sort(key=lambda mark: -_area(mark.box))  # small ones on top, within reach
        around, content = "", ""
        for mark in marks:
            place = _place(mark, width, height)
            around += _object_path(mark, place)
            content += _mark(mark, place, width, height)
        layer = f"fig-layer fig-layer-{slug(fate)}"
        halos.append(f'<path class="{layer} fig-halo fig-halo-{slug(fate)}" d="{around}"/>')
        layers.append(f'<g class="{layer} fig-mark fig-{slug(fate)}">{content}</g>')
    return Drawing(width, height, [*parts, *halos, *layers])


def _fate(mark: BoxMark) -> str:
    if mark.fate not in MARKS:
        raise UsageError(f"fate of a box: expected one of {', '.join(MARKS)}, got {mark.fate!r}")
    return mark.fate


def _area(box: tuple[float, float, float, float]) -> float:
    return abs((box[2] - box[0]) * (box[3] - box[1]))


def picture_of(data: str, symbol: str, whole: str, kind: str) -> str:
    """Return a picture at a place: its pixels, or a reference to one that the page holds; "" for
    none.
    """
    if data:
        # The address goes into the page unescaped, so nothing but base64 may pass.
        if not PICTURE.fullmatch(data):
            raise UsageError(
                f"picture of an overlay: expected data:image/...;base64,..., got {data[:40]!r}; "
                "a page must not load anything from elsewhere"
            )
        return f'<image {whole} href="{data}" class="{kind}" preserveAspectRatio="none"/>'
    if symbol:
        if not SYMBOL.fullmatch(symbol):
            raise UsageError(
                "symbol of an overlay: expected an id of letters, digits and dashes, "
                f"got {symbol!r}"
            )
        return f'<use {whole} href="#{symbol}" class="{kind}"/>'
    return ""


def _object_path(mark: BoxMark, place: tuple[float, float, float, float]) -> str:
    """Return the path of an object: its outline, or the box as it is placed."""
    if mark.outline:
        return "".join(map(_ring_path, mark.outline))
    x, y, w, h = place
    return f"M{num(x, 2)} {num(y, 2)}h{num(w, 2)}v{num(h, 2)}h{num(-w, 2)}z"


def _ring_path(ring: Ring) -> str:
    """Return a closed path in relative steps, which are short to write.

    Most edges of masks run along rows and columns.
    """
    (x, y), *others = ring
    commands = [f"M{num(x, 2)} {num(y, 2)}"]
    for x1, y1 in others:
        dx, dy = num(x1 - x, 2), num(y1 - y, 2)
        if y1 == y:
            commands.append(f"h{dx}")
        elif x1 == x:
            commands.append(f"v{dy}")
        else:
            commands.append(f"l{dx} {dy}")
        x, y = x1, y1
    return "".join(commands) + "z"


def mark_text(mark: BoxMark) -> str:
    """Return the tooltip of a box: "hit: nodule, score 0.83"."""
    score = f", score {mark.score:.3g}" if math.isfinite(mark.score) else ""
    return f"{MARKS[mark.fate].words}: {mark.label}{score}"


def _place(mark: BoxMark, width: float, height: float) -> tuple[float, float, float, float]:
    """Return x, y, width and height of a box as it is drawn."""
    (x0, x1), (y0, y1) = sorted((mark.box[0], mark.box[2])), sorted((mark.box[1], mark.box[3]))
    outside = _outside(mark, width, height)
    left, right = _cut_at_edges(x0, x1, width, width, height, outside)
    top, bottom = _cut_at_edges(y0, y1, height, width, height, outside)
    # A box without width would not be drawn at all.
    return left, top, max(right - left, 0.01), max(bottom - top, 0.01)


def _outside(mark: BoxMark, width: float, height: float) -> bool:
    (x0, x1), (y0, y1) = sorted((mark.box[0], mark.box[2])), sorted((mark.box[1], mark.box[3]))
    return x1 < 0 or y1 < 0 or x0 > width or y0 > height


def _mark(
    mark: BoxMark, place: tuple[float, float, float, float], width: float, height: float
) -> str:
    outside = _outside(mark, width, height)
    beyond = min(mark.box) < 0 or max(mark.box[0::2]) > width or max(mark.box[1::2]) > height
    text = mark_text(mark)
    if outside:
        text += ", outside the image"
    elif beyond:
        text += ", reaches beyond the image"
    if mark.outline:
        return f'<path d="{_object_path(mark, place)}">{title(text)}</path>'
    names = ("x", "y", "width", "height")
    at = " ".join(f'{name}="{num(value, 2)}"' for name, value in zip(names, place))
    return f"<rect {at}{OUTSIDE if outside else ''}>{title(text)}</rect>"


def _cut_at_edges(
    low: float, high: float, side: float, width: float, height: float, outside: bool
) -> tuple[float, float]:
    """Return one direction of a box cut at the edges, a little inside them, so that they show that
    it goes on.
    """
    longer = max(width, height)
    inset = min(INSET * longer, side / 4) if low < 0 or high > side else 0.0
    a, b = (min(max(v, inset), side - inset) for v in (low, high))
    if outside and b - a < TRACE * longer and (low <= side and high >= 0):
        middle = min(max((a + b) / 2, TRACE * longer / 2), max(side - TRACE * longer / 2, 0.0))
        a, b = middle - TRACE * longer / 2, middle + TRACE * longer / 2
    return a, b


def draw_cells(figure: Cells, sheet: Sheet) -> Drawing:
    """Draw a number per cell."""
    rows, columns = figure.counts.shape
    if not rows or not columns:
        return empty_drawing(sheet, "no cells")
    labels, top = _legend(figure, sheet)
    side = min((sheet.width - 2.0) / columns, CELLS_HIGHEST / (rows * figure.aspect), LARGEST)
    at = CellLayout(1.0, top, side, side * figure.aspect)
    wide, high = at.wide * columns, at.high * rows
    place = f'x="{num(at.left)}" y="{num(at.top)}" width="{num(wide, 2)}" height="{num(high, 2)}"'
    parts = [*labels, picture_of(figure.picture, "", place, "fig-picture")]
    # Over a picture, cells of zero stay clear: the picture shows through them.
    for k in range(1 if figure.picture else 0, figure.most + 1):
        path = run_path(figure.counts == k, at)
        if path:
            over = THROUGH if figure.picture else OPAQUE
            parts.append(
                el(
                    "path",
                    d=path,
                    cls=f"fig-q{_shade_of_count(k, figure.most)} fig-seamless",
                    fill_opacity=over,
                )
            )
    parts.append(el("rect", x=at.left, y=at.top, width=wide, height=high, cls="fig-axis"))
    if figure.inside is not None and figure.inside.any():
        around = segments(_borders(figure.inside, at))
        parts += [
            el("path", d=around, cls="fig-error-halo"),
            el("path", d=around, cls=f"fig-line {line_classes(1)}"),
        ]
    return Drawing(sheet.width, at.top + high + 2.0, parts)


def _shade_of_count(k: int, most: int) -> int:
    """Return the shade of a number; 0 has the lightest and ``most`` the darkest."""
    return round(k / max(most, 1) * (len(SHADES) - 1))


def _legend(figure: Cells, sheet: Sheet) -> tuple[list[str], float]:
    """Return what is counted, a swatch per number and the line of the reference, and its height."""
    parts = [label(0.0, 12.0, figure.label, width=sheet.width)]
    every = -(-figure.most // MANY) if figure.most > MANY else 1
    numbers = [k for k in range(figure.most + 1) if k % every == 0 or k == figure.most]
    x, y = 0.0, ROW + 3.0
    for k in numbers:
        wide = SWATCH + 4.0 + width_of(str(k)) + 12.0
        if x and x + wide > sheet.width:
            x, y = 0.0, y + ROW
        box = {"x": x + 0.5, "y": y, "width": SWATCH, "height": SWATCH}
        parts.append(el("rect", **box, cls=f"fig-q{_shade_of_count(k, figure.most)} fig-undefined"))
        parts.append(words(x + SWATCH + 4.0, y + 10.5, str(k)))
        x += wide
    top = y + ROW + 4.0
    if figure.inside is not None and figure.inside.any():
        line, high = legend(sheet, [Entry("reference", 1, "outline")], top=top)
        return [*parts, *line], top + high
    return parts, top


def _borders(inside: Flags, at: CellLayout) -> list[tuple[float, float, float, float]]:
    """Return the straight pieces between cells inside and outside, those in a row as one."""
    # Padding makes borders of cells at the edge of the image appear, too.
    padded = np.pad(inside, 1).astype(np.int8)
    borders = []
    for flat, upright in (
        (np.diff(padded, axis=0)[:, 1:-1], False),
        (np.diff(padded, axis=1)[1:-1].T, True),
    ):
        for line in np.flatnonzero(flat.any(axis=1)).tolist():
            edges = np.flatnonzero(
                np.diff(np.concatenate([[0], flat[line] != 0, [0]]).astype(np.int8))
            )
            for a, b in zip(edges[::2].tolist(), edges[1::2].tolist()):
                (x0, y0), (x1, y1) = (at.corner(a, line), at.corner(b, line)) if upright else (
                    at.corner(line, a), at.corner(line, b)
                )  # fmt: skip
                borders.append((x0, y0, x1, y1))
    return borders
