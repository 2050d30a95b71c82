# SPDX-License-Identifier: Apache-2.0
"""What SVG figures with axes share: scales, the plane with its axes, lines, shades, and legends.

- `limits` chooses the ends of an axis from the data, and `PixelScale` maps numbers to pixels.
- `plane` takes a `PlaneSpec` and a `Sheet` and returns a `Plane`: where things are in pixels, and
  the axes as SVG elements (ticks, labels, a light grid in one direction). All kinds of figures with
  axes call it.
- `clip_line`, `pieces`, `step_line` and `thin_line` prepare lines: cut at the edges, split at gaps,
  turned into steps, and without points that make no visible difference.
- `SHADES` are one hue from light to dark in even steps of lightness in OKLab (Ottosson 2020), the
  same by day and by night; `shade_of` gives every value its step, and text on it is black or white,
  whichever has more contrast by WCAG 2.
- `legend`, `swatch`, `label_heights` and `colours` say which series or shade is which.

Called by `lines`, `estimates` and `fields`; strings of markup come from `canvas`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from calipers.arrays import F64, I64
from calipers.show.figures import NAN, Axis, finite, tick_text, ticks
from calipers.show.similar_names import tell_apart
from calipers.show.svg.canvas import (
    LONGEST,
    Sheet,
    el,
    fill,
    fit,
    label,
    line_classes,
    marker,
    rect,
    segments,
    shorten,
    texture_id,
    title,
    width_of,
    words,
    wrap,
)

HUGE = 1e300  # larger numbers leave no room to subtract
PAD = 0.04  # of the span, between the data and the end of an axis

LINE = 15.0  # from one line of text to the next
GAP = 7.0  # between texts side by side
TICK = 4.0
LABEL_ROOM = 25.0
Limits = tuple[float, float]

TOLERANCE = 0.2  # pixels that a left out point may lie off the line
COLUMN = 1.0  # pixels: of all points in such a column, first, lowest, highest and last stay
MANY = 1500  # points of a line that are first thinned by columns

STEPS = 16
LIGHTEST, DARKEST = 0.965, 0.33  # lightness in OKLab
HUE = math.radians(252.0)  # blue
CHROMA = 0.125  # in the middle of the scale; the ends are paler
LIGHT_INK, DARK_INK = "#ffffff", "#000000"

SWATCH = {"line": 26.0, "outline": 26.0, "marker": 10.0, "area": 18.0}
ROW = 18.0
SPACE = 18.0  # between entries
MANY_ENTRIES = 4  # so many entries and more stand in columns
NEAR = 14.0  # names at the ends of lines keep this distance
FARTHEST = 12.0  # a name may stand so far from the end of its line


@dataclass(frozen=True, slots=True)
class PixelScale:
    """A line of pixels that stands for numbers."""

    low: float
    high: float
    start: float  # pixel of `low`
    end: float  # pixel of `high`
    log: bool = False

    def __call__(self, values: Any) -> F64:
        """Return the pixels of numbers; NaN where there is none, as for zero on a logarithmic
        scale.
        """
        numbers = np.asarray(values, np.float64)
        low, high = self.low, self.high
        if self.log:
            numbers = np.log10(np.where(numbers > 0, numbers, NAN))
            low, high = math.log10(low), math.log10(high)
        # Clipped, because differences of the largest floats overflow to infinity.
        numbers = np.where(np.isfinite(numbers), np.clip(numbers, -HUGE, HUGE), NAN)
        return np.asarray(
            self.start + (numbers - low) / (high - low) * (self.end - self.start), np.float64
        )

    def at(self, value: float) -> float:
        """Return the pixel of one number."""
        return float(self(value))

    def within(self, value: float) -> float:
        """Return the pixel of one number, or that of the end it lies beyond."""
        return self.at(min(max(value, self.low), self.high))


def limits(axis: Axis, values: Sequence[Any], *, zero: bool = False) -> tuple[float, float] | None:
    """Return the ends of an axis: those it names, else those of the data with a little room.

    None if there are no numbers.

    Parameters
    ----------
    zero : bool
        Bars start at zero: it belongs to the axis.
    """
    numbers = [v for v in finite(values) if abs(v) < HUGE and (v > 0 or not axis.log)]
    if zero and not axis.log and numbers:
        numbers.append(0.0)
    low, high = _usable_end(axis.low, axis.log), _usable_end(axis.high, axis.log)
    if not numbers and (math.isnan(low) or math.isnan(high)):
        return None
    least = min(numbers) if math.isnan(low) else low
    most = max(numbers) if math.isnan(high) else high
    # All bars are zero: they stand at the foot of an axis of usual height.
    if zero and least == most == 0:
        return 0.0, 1.0
    if least >= most:
        return _limits_around(least, most, axis.log)
    # A named end is exact; room is only added at the ends that the data choose.
    lower, upper = _padded_limits(least, most, axis.log)
    if not math.isnan(low):
        lower = low
    if not math.isnan(high):
        upper = high
    return lower, upper


def _usable_end(end: float, log: bool) -> float:
    return end if math.isfinite(end) and abs(end) < HUGE and (end > 0 or not log) else NAN


def _limits_around(least: float, most: float, log: bool) -> tuple[float, float]:
    """Return limits around a single number, also if the ends came in the wrong order."""
    if least > most:
        return most, least
    if log:
        return least / 2, most * 2
    margin = abs(least) * 0.1 or 0.5
    return least - margin, most + margin


def _padded_limits(least: float, most: float, log: bool) -> tuple[float, float]:
    if log:
        room = (most / least) ** PAD
        return least / room, most * room
    room = PAD * (most - least)
    # An axis of counts or shares does not go below zero for the sake of room.
    lower = least - room if least < 0 or least > room else 0.0
    upper = most + room if most > 0 or most < -room else 0.0
    return lower, upper


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
    # First the y axis: its words decide how much width is left for x.
    y_ticks = ticks_of(plan.y, plan.y_limits, most=max(int(inner / 36), 2))
    y_ticks = [
        tick._replace(lines=[fit(tick.name, plan.names_room * sheet.width)]) for tick in y_ticks
    ]
    left_edge = max((width_of(tick.lines[0]) for tick in y_ticks), default=0.0) + 10.0
    x_ticks = ticks_of(plan.x, plan.x_limits, most=max(int((sheet.width - left_edge) / 60), 2))
    # The last number of the x axis reaches beyond the plane by half its width.
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
        values = axis.ticks or ticks(low, high, axis.log, most)
        if axis.whole:
            values = tuple(v for v in values if v == round(v))
        labels = [(v, tick_text(v)) for v in values]
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
        # Ticks of a figure may be closer than a line of text.
        if abs(pixel - before) >= LINE - 2.0:
            parts.append(words(room, pixel + 4.0, tick.name, width=room + 0.5, anchor="end"))
            before = pixel
    return parts


def _x_axis(at: Plane, plan: PlaneSpec, x_ticks: Ticks, sheet: Sheet) -> list[str]:
    lower = at.bottom
    parts = [el("path", d=segments([(at.left, lower, at.right, lower)]), cls="fig-axis")]
    # A name says what its bar is; a tick would only add ink.
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
    # The last tick tells how far the axis goes, so others make room for it.
    edge, last = float("-inf"), ends(x_ticks[-1])[0]
    for tick in x_ticks[:-1]:
        start, end = ends(tick)
        if start >= edge + GAP and end <= last - GAP:
            ticks_shown.append(tick)
            edge = end
    return [*ticks_shown, x_ticks[-1]]


def clip_line(x: F64, y: F64, low: float, high: float, *, step: bool) -> tuple[F64, F64]:
    """Return the line between ``low`` and ``high`` of x, with a point where it crosses an edge.

    The height on the edge is that of the straight line to the next point, or of the step. A curve
    that starts at zero thus reaches the left edge of a logarithmic axis.
    """
    order = np.arange(len(x))
    if step and len(x) and np.any(np.diff(x) < 0):
        # Steps are functions of x: their order in the data does not matter.
        order = np.argsort(x, kind="stable")
    x, y = (np.clip(np.where(np.isfinite(v), v, np.nan), -HUGE, HUGE)[order] for v in (x, y))
    if not len(x) or np.any(np.diff(x) < 0):
        # The line runs back and forth, so edges have no single height: drop the points outside.
        return np.where((x < low) | (x > high), np.nan, x), y
    within = (x >= low) & (x <= high)
    parts_x, parts_y = [x[within]], [y[within]]
    before, after = np.flatnonzero(x < low), np.flatnonzero(x > high)
    if len(before) and before[-1] + 1 < len(x):
        parts_x.insert(0, np.array([low]))
        parts_y.insert(0, np.array([_height_at(x, y, int(before[-1]), low, step)]))
    if len(after) and after[0] > 0:
        parts_x.append(np.array([high]))
        parts_y.append(np.array([_height_at(x, y, int(after[0]) - 1, high, step)]))
    return np.concatenate(parts_x), np.concatenate(parts_y)


def _height_at(x: F64, y: F64, k: int, at: float, step: bool) -> float:
    if step:
        return float(y[k])
    share = (at - x[k]) / (x[k + 1] - x[k])
    return float((1 - share) * y[k] + share * y[k + 1])


def pieces(x: F64, y: F64) -> Iterator[tuple[F64, F64]]:
    """Yield the parts of a line between undefined points, if they have two points at least."""
    good = np.isfinite(x) & np.isfinite(y)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], good, [False]]).astype(np.int8)))
    for start, stop in zip(edges[::2], edges[1::2]):
        if stop - start > 1:
            yield x[start:stop], y[start:stop]


def step_line(x: F64, y: F64) -> tuple[F64, F64]:
    """Return a line that holds its height until the next point."""
    return np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]


def thin_line(x: F64, y: F64) -> tuple[F64, F64]:
    """Return the line without points that change it by less than can be seen."""
    if len(x) > MANY:
        # Simplifying is quadratic in the worst case, so long lines are thinned first; the extremes
        # of each column are all that a pixel can show.
        keep = _extremes_of_columns(x, y)
        x, y = x[keep], y[keep]
    keep = _simplify(x, y)
    return x[keep], y[keep]


def _extremes_of_columns(x: F64, y: F64) -> I64:
    column = np.floor(x / COLUMN)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(column)) + 1])
    stops = np.concatenate([starts[1:], [len(x)]])
    indices: set[int] = set()
    for a, b in zip(starts.tolist(), stops.tolist()):
        indices.update((a, b - 1, a + int(y[a:b].argmin()), a + int(y[a:b].argmax())))
    return np.array(sorted(indices), np.int64)


def _simplify(x: F64, y: F64) -> I64:
    """Return the points that stay (Ramer 1972, Douglas and Peucker 1973), without recursion."""
    keep = np.zeros(len(x), bool)
    keep[[0, -1]] = True
    todo = [(0, len(x) - 1)]
    while todo:
        a, b = todo.pop()
        if b - a < 2:
            continue
        dx, dy = x[b] - x[a], y[b] - y[a]
        ux, uy = x[a + 1 : b] - x[a], y[a + 1 : b] - y[a]
        square = dx * dx + dy * dy
        # The distance to the piece, not to the endless line: a point beyond its ends must stay.
        share = (
            np.clip((ux * dx + uy * dy) / square, 0.0, 1.0) if square > 1e-12 else np.zeros(len(ux))
        )
        off = np.hypot(ux - share * dx, uy - share * dy)
        worst = int(off.argmax())
        if off[worst] > TOLERANCE:
            keep[a + 1 + worst] = True
            todo += [(a, a + 1 + worst), (a + 1 + worst, b)]
    return np.flatnonzero(keep)


def _linear_rgb(lightness: float, a: float, b: float) -> tuple[float, float, float]:
    """Return linear sRGB of an OKLab colour (Ottosson 2020)."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _hex(linear: tuple[float, float, float]) -> str:
    channels = []
    for value in linear:
        c = min(max(value, 0.0), 1.0)
        channels.append(
            round(255 * (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055))
        )
    return "#" + "".join(f"{c:02x}" for c in channels)


def _ramp() -> tuple[str, ...]:
    colours = []
    for k in range(STEPS):
        t = k / (STEPS - 1)
        # Very light and very dark colours of full chroma do not exist in sRGB.
        chroma = 0.01 + CHROMA * math.sin(math.pi * (0.02 + 0.78 * t))
        lightness = LIGHTEST + (DARKEST - LIGHTEST) * t
        colours.append(_hex(_linear_rgb(lightness, chroma * math.cos(HUE), chroma * math.sin(HUE))))
    return tuple(colours)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour "#rrggbb" as WCAG 2 defines it."""
    linear = []
    for k in (1, 3, 5):
        c = int(colour[k : k + 2], 16) / 255
        linear.append(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


SHADES = _ramp()
ON_DARK = tuple(contrast(shade, LIGHT_INK) > contrast(shade, DARK_INK) for shade in SHADES)


def shade_of(values: F64, low: float, high: float) -> I64:
    """Return the step of every value between ``low`` and ``high``; -1 where it is undefined.

    Values beyond the ends have the step of the nearer end.
    """
    span = high - low
    share = (values - low) / span if span > 0 else np.where(np.isfinite(values), 0.5, np.nan)
    steps = np.clip(np.floor(np.nan_to_num(share, nan=0.0) * STEPS), 0, STEPS - 1).astype(np.int64)
    return np.where(np.isnan(values), -1, steps)


def ink_on(step: int) -> str:
    """Return the class of text that is readable on a step."""
    return "fig-on-dark" if ON_DARK[step] else "fig-on-light"


@dataclass(frozen=True, slots=True)
class Entry:
    """One series in a legend."""

    name: str
    slot: int
    kind: str = "line"  # or "marker", "area", "outline"


def legend(sheet: Sheet, entries: Sequence[Entry], top: float = 0.0) -> tuple[list[str], float]:
    """Return the legend and its height: entries side by side, in columns if they are many."""
    short_names = tell_apart([entry.name for entry in entries], shorten)
    entries = [replace(entry, name=short_names.get(entry.name, entry.name)) for entry in entries]
    swatches = [SWATCH[entry.kind] + 6.0 for entry in entries]
    room = max(sheet.width - max(swatches, default=0.0), 60.0)
    widths = [s + width_of(fit(entry.name, room)) + SPACE for s, entry in zip(swatches, entries)]
    if len(entries) >= MANY_ENTRIES:
        columns = max(int((sheet.width + SPACE) // max(widths)), 1)
        rows = -(-len(entries) // columns)
        # As many rows as before.
        columns = -(-len(entries) // rows)  # no short last row
        at = [(k % columns * max(widths), k // columns) for k in range(len(entries))]
    else:
        at = _flow_places(widths, sheet.width + SPACE)
    parts = []
    for entry, (x, row) in zip(entries, at):
        y = top + ROW * row + 9.0
        parts.extend(swatch(entry, x, y, sheet.name))
        parts.append(words(x + SWATCH[entry.kind] + 6.0, y + 4.0, entry.name, width=room))
    return parts, ROW * (max((row for _, row in at), default=-1) + 1) + 6.0


def _flow_places(widths: Sequence[float], room: float) -> list[tuple[float, int]]:
    places = []
    x, row = 0.0, 0
    for width in widths:
        if x and x + width > room:
            x, row = 0.0, row + 1
        places.append((x, row))
        x += width
    return places


def swatch(entry: Entry, x: float, y: float, name: str) -> list[str]:
    """Return how the series looks, in little."""
    wide = SWATCH[entry.kind]
    if entry.kind == "area":
        return area(x, y - 6.0, x + wide, y + 6.0, entry.slot, name)
    if entry.kind == "marker":
        return [marker(entry.slot, x + wide / 2, y, 4.0)]
    line = el("path", d=segments([(x, y, x + wide, y)]), cls=f"fig-line {line_classes(entry.slot)}")
    return [line] if entry.kind == "outline" else [line, marker(entry.slot, x + wide / 2, y)]


def area(
    x0: float, y0: float, x1: float, y1: float, slot: int, name: str, inner: str = ""
) -> list[str]:
    """Return a filled rectangle, with the texture of its series over the colour if it has one."""
    parts = [rect(x0, y0, x1, y1, fill(slot), inner)]
    if slot % 7:
        box = {"x": min(x0, x1), "y": min(y0, y1), "width": abs(x1 - x0), "height": abs(y1 - y0)}
        parts.append(el("rect", **box, fill=f"url(#{texture_id(slot, name)})", cls="fig-over"))
    return parts


def room_at_ends(names: Sequence[str]) -> float:
    """Return the width that names at the ends of lines need."""
    return (
        max((width_of(shorten(name, LONGEST)) for name in names), default=0.0)
        + SWATCH["line"]
        + 24.0
    )


def label_heights(ends: Sequence[float], low: float, high: float) -> list[float] | None:
    """Return heights for names near the ends of their lines, so that none overlap.

    None if some name would have to move too far from its line.
    """
    # Three passes: push names down where they overlap, pull them back up by half of their shift,
    # and push down again what the second pass brought together.
    order = sorted(range(len(ends)), key=lambda k: ends[k])
    heights = [0.0] * len(ends)
    before = low - NEAR
    for k in order:
        heights[k] = before = max(ends[k], before + NEAR)
    after = high + NEAR
    for k in reversed(order):  # share the shift between those above and those below
        heights[k] = after = min(
            (heights[k] + ends[k]) / 2 if heights[k] > ends[k] else heights[k], after - NEAR
        )
    before = low - NEAR
    for k in order:
        heights[k] = before = max(heights[k], before + NEAR)
    largest_shift = max((abs(p - e) for p, e in zip(heights, ends)), default=0.0)
    return (
        heights if largest_shift <= FARTHEST and max(heights, default=low) <= high + 1.0 else None
    )


def colours(sheet: Sheet, text: str, low: float, high: float) -> tuple[list[str], float]:
    """Return the scale of colours above a map, and its height."""
    bar, ends = 96.0, (tick_text(float(f"{low:.3g}")), tick_text(float(f"{high:.3g}")))
    x = sheet.width - width_of(ends[1]) - 5.0 - bar
    step = bar / len(SHADES)
    parts = [words(x - 5.0, 13.0, ends[0], anchor="end"), words(x + bar + 5.0, 13.0, ends[1])]
    parts.extend(
        # A little wider than a step, so that no seams show between them.
        el("rect", x=x + k * step, y=3.0, width=step + 0.4, height=12.0, cls=f"fig-q{k}")
        for k in range(len(SHADES))
    )
    room = x - 5.0 - width_of(ends[0]) - 14.0
    if width_of(text, bold=True) <= room:
        parts.append(label(0.0, 13.0, text, width=room))
        return parts, 24.0
    parts.append(label(0.0, 31.0, text, width=sheet.width))
    return parts, 42.0
