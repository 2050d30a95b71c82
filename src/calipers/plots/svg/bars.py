# SPDX-License-Identifier: Apache-2.0
"""Bars per category. They stand while the names below them fit, and lie down when they do not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calipers.plots.figures import F64, Axis, Bars, slots_of
from calipers.plots.svg.axes import Plane, PlaneSpec, names_fit, plane
from calipers.plots.svg.elements import Drawing, Sheet, el, segments, title
from calipers.plots.svg.empty import empty_drawing, why_no_limits
from calipers.plots.svg.legends import Entry, area, legend
from calipers.plots.svg.markers import texture
from calipers.plots.svg.scales import limits
from calipers.plots.ticks import tick_text

FILLED = 0.74  # of the room of a category
SLIMMEST = 7.0  # pixels of a standing bar
LYING = 13.0  # pixels of a lying bar
TOLD = 500  # more bars than these have no tooltips: the page would grow too large


@dataclass(frozen=True, slots=True)
class BarPlane:
    """Which way the bars point."""

    at: Plane
    lying: bool

    def box(
        self, along: tuple[float, float], values: tuple[float, float]
    ) -> tuple[float, float, float, float]:
        """Return the pixels x0, y0, x1, y1 of a bar: its place in the category, its ends as
        numbers.
        """
        at = self.at
        if self.lying:
            return (
                at.x.within(values[0]),
                at.y.at(along[0]),
                at.x.within(values[1]),
                at.y.at(along[1]),
            )
        return at.x.at(along[0]), at.y.within(values[0]), at.x.at(along[1]), at.y.within(values[1])


def draw(figure: Bars, sheet: Sheet) -> Drawing:
    """Draw bars side by side or on top of each other."""
    names = figure.x.names
    if not names or not len(figure.series):
        return empty_drawing(sheet, "no categories" if not names else "no series")
    values = [figure.heights, figure.low, figure.high]
    if figure.stacked:
        values = [stacks(figure)[1]]
    value_limits = limits(figure.y, values, zero=True)
    if value_limits is None or not np.isfinite(figure.heights).any():
        return empty_drawing(sheet, why_no_limits(figure.y, values))
    slots = slots_of(figure, len(figure.series))[: len(figure.series)]
    # Slots beyond the palette share the texture of their colour; it is defined once.
    colour_slots = dict.fromkeys(slot % 7 for slot in slots)
    textures = "".join(texture(slot, sheet.name) for slot in colour_slots)
    labels, top = _legend(figure, sheet)
    side = _side(figure, sheet, value_limits, top)
    parts = [el("defs", textures)] if textures else []
    parts += [*labels, *side.at.parts, *_bars(figure, side, sheet)]
    return Drawing(sheet.width, side.at.height, [*parts, *_errors(figure, side), *_base(side)])


def _legend(figure: Bars, sheet: Sheet) -> tuple[list[str], float]:
    if len(figure.series) < 2:
        return [], 0.0
    slots = slots_of(figure, len(figure.series))
    return legend(sheet, [Entry(name, slot, "area") for name, slot in zip(figure.series, slots)])


def _side(figure: Bars, sheet: Sheet, value_limits: tuple[float, float], top: float) -> BarPlane:
    """Return the plane, with the categories below it or, if their names have no room there, beside
    it.
    """
    n, group = len(figure.x.names), 1 if figure.stacked else len(figure.series)
    across = (-0.5, n - 0.5)
    category = Axis(figure.x.label, names=figure.x.names)
    plan = PlaneSpec(category, figure.y, across, value_limits, top=top)
    slot = (sheet.width - 50.0) / n
    if names_fit(figure.x.names, slot) and slot * FILLED / group >= SLIMMEST:
        return BarPlane(plane(sheet, plan), False)
    inner = n * max(LYING * group + 8.0, 21.0)
    lying = replace(plan, x=figure.y, y=category, x_limits=value_limits, y_limits=across)
    return BarPlane(plane(sheet, replace(lying, inner=inner, down=True, grid="x")), True)


def stacks(figure: Bars) -> tuple[F64, F64]:
    """Return lower and upper ends of stacked bars: what is above zero grows upwards, what is below
    downwards.
    """
    heights = np.nan_to_num(figure.heights, nan=0.0, posinf=0.0, neginf=0.0)
    up, down = np.cumsum(np.maximum(heights, 0.0), 0), np.cumsum(np.minimum(heights, 0.0), 0)
    upper = np.where(heights >= 0, up, down)
    return upper - heights, upper


def _ends(figure: Bars, s: int, c: int, low: float) -> tuple[float, float]:
    if figure.stacked:
        lower, upper = stacks(figure)
        return float(lower[s, c]), float(upper[s, c])
    return low, float(figure.heights[s, c])


def _place(figure: Bars, s: int, c: int) -> tuple[float, float]:
    """Return where a bar starts and ends across its category."""
    group = 1 if figure.stacked else len(figure.series)
    filled = min(FILLED, 0.3 + 0.22 * group)  # a single bar needs no broad back
    start, slim = c - filled / 2, filled / group
    if group == 1:
        return start, start + slim
    start += slim * s
    return start, start + slim * 0.94  # a gap between neighbours


def _bars(figure: Bars, side: BarPlane, sheet: Sheet) -> list[str]:
    slots = slots_of(figure, len(figure.series))
    with_titles = figure.heights.size <= TOLD
    values = side.at.x if side.lying else side.at.y
    base = max(0.0, values.low)
    parts = []
    for s, name in enumerate(figure.series):
        for c, category in enumerate(figure.x.names):
            height = float(figure.heights[s, c])
            if not np.isfinite(height):
                continue
            box = side.box(_place(figure, s, c), _ends(figure, s, c, base))
            tooltip = title(f"{category}, {name}: {tick_text(height)}") if with_titles else ""
            parts.extend(area(*box, slots[s], sheet.name, tooltip))
    return parts


def _errors(figure: Bars, side: BarPlane) -> list[str]:
    """Return the intervals of bars side by side; pieces of a stack have none of their own."""
    if figure.low is None or figure.high is None or figure.stacked:
        return []
    ends = []
    for s in range(len(figure.series)):
        for c in range(len(figure.x.names)):
            low, high = float(figure.low[s, c]), float(figure.high[s, c])
            if np.isfinite([low, high, figure.heights[s, c]]).all():
                start, stop = _place(figure, s, c)
                ends.append(side.box(((start + stop) / 2,) * 2, (low, high)))
    path = segments(ends)
    return (
        [el("path", d=path, cls="fig-error-halo"), el("path", d=path, cls="fig-error")]
        if ends
        else []
    )


def _base(side: BarPlane) -> list[str]:
    """Return the line of zero where bars go both ways."""
    at = side.at
    scale = at.x if side.lying else at.y
    if not scale.low < 0 < scale.high:
        return []
    zero = scale.at(0.0)
    end = (zero, at.top, zero, at.bottom) if side.lying else (at.left, zero, at.right, zero)
    return [el("path", d=segments([end]), cls="fig-axis")]
