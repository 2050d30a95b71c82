# SPDX-License-Identifier: Apache-2.0
"""Heat maps: a cell per row and column, its number as colour and, where it fits, as text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calipers.plots.figures import F64, Flags, HeatMap
from calipers.plots.svg.elements import Drawing, Sheet, el, num, sentence, title, words
from calipers.plots.svg.empty import empty_drawing
from calipers.plots.svg.legends import colours
from calipers.plots.svg.scales import I64
from calipers.plots.svg.shades import SHADES, ink_on, shade_of
from calipers.plots.svg.words import shorten, width_of, wrap
from calipers.plots.ticks import MINUS

HIGHEST, LOWEST = 34.0, 12.0  # pixels of a cell
BROADEST = 120.0
TOLD = 150  # more cells than these have no tooltips: the page would grow too large
LINE = 14.0
SLOPE = 0.71  # of names at 45 degrees


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


def hatching(name: str) -> str:
    """Return the definition of the texture of what is undefined."""
    inner = el("path", d="M0 6L6 0", cls="fig-hatch")
    return el(
        "pattern", inner, id=f"{name}-hatch", width=6, height=6, patternUnits="userSpaceOnUse"
    )


def draw(figure: HeatMap, sheet: Sheet) -> Drawing:
    """Draw a number per row and column."""
    rows, columns = len(figure.y.names), len(figure.x.names)
    if not rows or not columns:
        return empty_drawing(sheet, "no rows" if not rows else "no columns")
    values = np.where(np.isfinite(figure.values), figure.values, np.nan)
    labels, top = colours(sheet, figure.label, figure.low, figure.high)
    left_edge = (
        min(max(width_of(shorten(name)) for name in figure.y.names), 0.3 * sheet.width) + 10.0
    )
    wide = min((sheet.width - left_edge) / columns, BROADEST)
    heads, above = _heads(figure, left_edge, wide, sheet)
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
        _cells(figure, steps, at, sheet) if steps.size <= TOLD else _areas(steps, at, sheet)
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


def _areas(steps: I64, at: CellLayout, sheet: Sheet) -> list[str]:
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


def _text(figure: HeatMap, r: int, c: int) -> str:
    if figure.words:
        if r < len(figure.words) and c < len(figure.words[r]):
            return figure.words[r][c]
        return ""
    value = figure.values[r, c]
    if not np.isfinite(value):
        return ""
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
    numbers_fit = all(
        width_of(_text(figure, r, c)) <= at.wide - 3.0 or bool(figure.words)
        for r, c in np.argwhere(np.isfinite(values))
    )
    for (r, c), step in np.ndenumerate(steps):
        x, y = at.corner(r, c)
        middle, base = x + at.wide / 2, y + at.high / 2 + 4.0
        if step < 0:
            text = _text(figure, r, c) or "undefined"
            text = text if width_of(text) <= at.wide - 6.0 else "–"
            parts.append(words(middle, base, text, "fig-reason fig-halo-text", anchor="middle"))
        elif numbers_fit:
            parts.append(
                words(
                    middle,
                    base,
                    _text(figure, r, c),
                    ink_on(int(step)),
                    width=at.wide - 3.0,
                    anchor="middle",
                )
            )
    return parts
