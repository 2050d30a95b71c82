# SPDX-License-Identifier: Apache-2.0
"""The plane of a figure: two scales, their ticks and labels, and a light grid in one direction.

A `PlaneSpec` and a `Sheet` come in, a `Plane` comes out: where things are in pixels, and the axes
as SVG elements. All kinds of figures with axes call `plane`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from calipers.plots.figures import Axis
from calipers.plots.svg.elements import Sheet, el, label, segments, title, words
from calipers.plots.svg.scales import PixelScale
from calipers.plots.svg.words import fit, width_of, wrap
from calipers.plots.ticks import tick_text, ticks

LINE = 15.0  # from one line of text to the next
GAP = 7.0  # between texts side by side
TICK = 4.0
LABEL_ROOM = 25.0
Limits = tuple[float, float]


class Tick(NamedTuple):
    """A number of an axis and its words."""

    at: float
    name: str
    lines: list[str]  # as they are drawn


Ticks = list[Tick]


@dataclass(frozen=True, slots=True)
class PlaneSpec:
    """What has to be known to lay out a plane."""

    x: Axis
    y: Axis
    x_limits: Limits
    y_limits: Limits
    top: float = 0.0  # taken by a legend
    right: float = 12.0  # kept free for labels of lines
    inner: float = 0.0  # height of the plane; 0 = from the width
    down: bool = False  # y counts downwards, as rows do
    grid: str = "y"  # which ticks have lines: "x", "y" or ""
    names_room: float = 0.4  # share of the width that words on the y axis may take


@dataclass(frozen=True, slots=True)
class Plane:
    """Where things are, and the axes as elements."""

    x: PixelScale
    y: PixelScale
    height: float  # of the whole drawing
    parts: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        """The left edge."""
        return min(self.x.start, self.x.end)

    @property
    def right(self) -> float:
        """The right edge."""
        return max(self.x.start, self.x.end)

    @property
    def top(self) -> float:
        """The upper edge."""
        return min(self.y.start, self.y.end)

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return max(self.y.start, self.y.end)

    def holds(self, x: float, y: float, slack: float = 0.5) -> bool:
        """Tell whether a pixel lies on the plane."""
        return (
            self.left - slack <= x <= self.right + slack
            and self.top - slack <= y <= self.bottom + slack
        )


def plane(sheet: Sheet, plan: PlaneSpec) -> Plane:
    """Lay out the plane of a figure and draw its axes."""
    top = plan.top + (LABEL_ROOM if plan.y.label else 6.0)
    inner = plan.inner or min(max(0.5 * sheet.width, 200.0), 400.0)
    y_ticks = ticks_of(plan.y, plan.y_limits, most=max(int(inner / 36), 2))
    y_ticks = [
        tick._replace(lines=[fit(tick.name, plan.names_room * sheet.width)]) for tick in y_ticks
    ]
    left_edge = max((width_of(tick.lines[0]) for tick in y_ticks), default=0.0) + 10.0
    x_ticks = ticks_of(plan.x, plan.x_limits, most=max(int((sheet.width - left_edge) / 60), 2))
    right = sheet.width - max(plan.right, _half_of_last(x_ticks, plan))
    x = PixelScale(*plan.x_limits, left_edge, max(right, left_edge + 40.0), plan.x.log)
    x_ticks = _wrap_names(x_ticks, plan.x, x)
    lower, upper = top + inner, top
    y = PixelScale(*plan.y_limits, *((upper, lower) if plan.down else (lower, upper)), plan.y.log)
    lines = max((len(tick.lines) for tick in x_ticks), default=1)
    height = lower + TICK + 2.0 + LINE * lines + (18.0 if plan.x.label else 2.0)
    result = Plane(x, y, height)
    result.parts.extend(
        [*_grid(result, plan.grid, x_ticks, y_ticks), *_y_axis(result, plan, y_ticks)]
    )
    result.parts.extend(_x_axis(result, plan, x_ticks, sheet))
    return result


def ticks_of(axis: Axis, span: Limits, most: int = 6) -> Ticks:
    """Return the ticks inside the limits with their words; categories stand at 0, 1, 2, ..."""
    low, high = min(span), max(span)
    if axis.names:
        places = axis.ticks or tuple(float(k) for k in range(len(axis.names)))
        labels = list(zip(places, axis.names))
    else:
        labels = [(v, tick_text(v)) for v in axis.ticks or ticks(low, high, axis.log, most)]
    slack = 1e-9 * (high - low)  # a tick at the very end stays in spite of rounding
    inside = []
    for v, word in labels:
        if low - slack <= v <= high + slack and (v > 0 or not axis.log):
            inside.append(Tick(v, word, [word]))
    return inside


def is_category(axis: Axis) -> bool:
    """Tell whether the axis has words at 0, 1, 2, ... and no numbers."""
    return bool(axis.names) and not axis.ticks


def names_fit(names: Sequence[str], slot: float) -> bool:
    """Tell whether every name fits into two lines within its slot."""
    return all(wrap(name, slot - GAP) is not None for name in names)


def _half_of_last(x_ticks: Ticks, plan: PlaneSpec) -> float:
    if not x_ticks or is_category(plan.x):
        return 0.0
    return width_of(x_ticks[-1].lines[0]) / 2 + 1.0


def _wrap_names(x_ticks: Ticks, axis: Axis, x: PixelScale) -> Ticks:
    if not is_category(axis) or not x_ticks:
        return x_ticks
    slot = abs(x.end - x.start) / max(abs(x.high - x.low), 1e-9) - GAP
    return [
        tick._replace(lines=wrap(tick.name, slot) or [fit(tick.name, slot)]) for tick in x_ticks
    ]


def _grid(at: Plane, direction: str, x_ticks: Ticks, y_ticks: Ticks) -> list[str]:
    if direction == "y":
        ends = [(at.left, at.y.at(v), at.right, at.y.at(v)) for v, *_ in y_ticks]
    elif direction == "x":
        ends = [(at.x.at(v), at.top, at.x.at(v), at.bottom) for v, *_ in x_ticks]
    else:
        ends = []
    return [el("path", d=segments(ends), cls="fig-grid")] if ends else []


def _y_axis(at: Plane, plan: PlaneSpec, y_ticks: Ticks) -> list[str]:
    parts = []
    if plan.y.label:
        # Above the axis, not turned beside it: easier to read, and it costs no width.
        parts.append(label(0.0, plan.top + 12.0, plan.y.label, width=at.right))
    room = at.left - 8.0
    before = float("inf")
    for tick in y_ticks:
        pixel = at.y.at(tick.at)
        if abs(pixel - before) >= LINE - 2.0:
            parts.append(words(room, pixel + 4.0, tick.name, width=room + 0.5, anchor="end"))
            before = pixel
    return parts


def _x_axis(at: Plane, plan: PlaneSpec, x_ticks: Ticks, sheet: Sheet) -> list[str]:
    lower = at.bottom
    parts = [el("path", d=segments([(at.left, lower, at.right, lower)]), cls="fig-axis")]
    if not is_category(plan.x):
        marks = [(at.x.at(v), lower, at.x.at(v), lower + TICK) for v, *_ in x_ticks]
        parts.append(el("path", d=segments(marks), cls="fig-axis"))
    base = lower + TICK + 12.0
    for tick in without_collisions(x_ticks, at.x):
        texts = []
        for k, text in enumerate(tick.lines):
            texts.append(words(at.x.at(tick.at), base + LINE * k, text, anchor="middle"))
        # A name that was cut has the whole as its tooltip.
        if "".join(tick.lines).replace(" ", "") == tick.name.replace(" ", ""):
            parts.extend(texts)
        else:
            parts.append(el("g", title(tick.name) + "".join(texts)))
    if plan.x.label:
        parts.append(label_below(plan.x.label, at.x, at.height - 4.0, sheet))
    return parts


def label_below(text: str, x: PixelScale, y: float, sheet: Sheet) -> str:
    """Return the label of an axis under its middle, or as near to it as the sheet allows."""
    half = width_of(text, bold=True) / 2
    middle = max(min((x.start + x.end) / 2, sheet.width - half), min(half, sheet.width / 2))
    return label(middle, y, text, width=sheet.width, anchor="middle")


def without_collisions(x_ticks: Ticks, x: PixelScale) -> Ticks:
    """Return the ticks whose words have room: the last always, then from the left as they fit."""

    def ends(tick: Tick) -> tuple[float, float]:
        half = max(map(width_of, tick.lines), default=0.0) / 2
        return x.at(tick.at) - half, x.at(tick.at) + half

    if len(x_ticks) < 2:
        return x_ticks
    ticks_shown: Ticks = []
    edge, last = float("-inf"), ends(x_ticks[-1])[0]
    for tick in x_ticks[:-1]:
        start, end = ends(tick)
        if start >= edge + GAP and end <= last - GAP:
            ticks_shown.append(tick)
            edge = end
    return [*ticks_shown, x_ticks[-1]]
