# SPDX-License-Identifier: Apache-2.0
"""Forest plots, bars, box plots and ranks as SVG: a row or column per class, sample or model.

A figure of `calipers.show.figures` and a `Sheet` come in, a `Drawing` goes out; `draw.svg` calls
the four entry points, which do not share more than the axes.

- `draw_forest`: a row per class or group with its name and n, and an estimate with its interval per
  series. What is undefined says why in its row.
- `draw_bars`: bars per category, side by side or stacked. They stand while the names below them
  fit, and lie down when they do not.
- `draw`: samples as boxes (quartiles) with whiskers (5 and 95 %), and as dots while these are few
  enough to be seen.
- `draw_blob`: ranks of models; the area of a disc is the share of replicates with that rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from calipers.arrays import F64
from calipers.show.figures import (
    MINUS,
    Axis,
    Bars,
    Blob,
    BoxDots,
    Forest,
    ForestRow,
    Mark,
    box_ends,
    slots_of,
    tick_text,
)
from calipers.show.svg.axes import (
    Entry,
    PixelScale,
    Plane,
    PlaneSpec,
    area,
    label_below,
    legend,
    limits,
    names_fit,
    plane,
    ticks_of,
    without_collisions,
)
from calipers.show.svg.canvas import (
    BOLD,
    UNDEFINED,
    Drawing,
    Sheet,
    clean,
    el,
    empty_drawing,
    fill,
    fit,
    marker,
    num,
    segments,
    sentence,
    shorten,
    stroke,
    texture,
    title,
    why_no_limits,
    width_of,
    words,
)
from calipers.show.words import percent_text

FOREST_ROW = 23.0
OFFSET = 11.0  # between the series of a row
VALUES_FROM = 560.0  # pixels of width that leave room for the numbers
MANY_ROWS = 7  # so many rows and more are told apart by bands
MOST_FOREST_TIPS = 200  # more estimates than these have no tooltips: the page would grow too large
TALL = 700.0  # a higher plot repeats its axis above

BAR_SHARE = 0.74  # of the room of a category
SLIMMEST = 7.0  # pixels of a standing bar
LYING_BAR = 13.0  # pixels of a lying bar
MOST_BAR_TIPS = 500  # more bars than these have no tooltips: the page would grow too large

FEW = 60  # dots of a sample that are drawn one by one
HALF = 0.26  # of a box, as a share of its room
BROADEST = 22.0  # pixels from the middle of a box to its side
BOX_ROW = 46.0  # of a lying box
GOLDEN = 0.6180339887498949  # multiples of the golden ratio put neighbouring dots far apart

ROW = 42.0
LARGEST = 19.0  # radius of a share of one
KEY = (1.0, 0.5, 0.1)
FAINT = 0.0005  # smaller shares are less than a speck


@dataclass(frozen=True, slots=True)
class ForestLayout:
    """Where the columns and rows are."""

    x: PixelScale
    names: float  # width of the names
    n: float  # right edge of the numbers behind
    values: float  # right edge of the estimates in words, NaN = not shown
    top: float
    row: float
    rows: int
    digits: int

    def middle(self, k: int) -> float:
        """Return the height of a row."""
        return self.top + self.row * (k + 0.5)

    @property
    def bottom(self) -> float:
        """The height of the axis."""
        return self.top + self.row * self.rows + 3.0


def draw_forest(figure: Forest, sheet: Sheet) -> Drawing:
    """Draw estimates with intervals."""
    marks = [mark for row in figure.rows for mark in row.marks]
    if not figure.rows:
        return empty_drawing(sheet, "no rows")
    values = [[mark.value, mark.low, mark.high] for mark in marks]
    value_limits = limits(figure.x, [*values, figure.reference])
    if value_limits is None or not any(map(is_drawn, marks)):
        # One reason for all says more than that nothing is defined.
        reasons = list(dict.fromkeys(mark.reason for mark in marks if mark.reason))
        return empty_drawing(sheet, reasons[0] if len(reasons) == 1 else UNDEFINED)
    slots = slots_of(figure, len(figure.series))
    labels: list[str] = []
    top = 0.0
    if len(figure.series) > 1:
        entries = [Entry(name, slot, "marker") for name, slot in zip(figure.series, slots)]
        labels, top = legend(sheet, entries)
    at = _layout(figure, sheet, value_limits, top)
    parts = [*labels, *_behind(figure, at, sheet)]
    parts.extend(_whiskers(figure, at, slots))
    for k, row in enumerate(figure.rows):
        parts.extend(_row(figure, k, row, at, slots))
    return Drawing(sheet.width, at.bottom + (44.0 if figure.x.label else 24.0), parts)


def is_drawn(mark: Mark) -> bool:
    """Tell whether an estimate has a place on the axis."""
    return math.isfinite(mark.value)


def _layout(
    figure: Forest, sheet: Sheet, value_limits: tuple[float, float], top: float
) -> ForestLayout:
    """Return the columns from left to right: names, n, the axis, and the values if they fit."""
    width, n_rows, n_series = sheet.width, len(figure.rows), len(figure.series)
    # Numbers of several series would not stand beside their estimates.
    with_values = n_series == 1 and width >= VALUES_FROM
    most = (0.3 if width >= VALUES_FROM else 0.36) * width
    names = min(max(_text_width(shorten(row.name), row) for row in figure.rows), most)
    n = names
    n_width = max(width_of(shorten(row.n, 16)) for row in figure.rows)
    if n_width:
        n += 12.0 + max(n_width, width_of(fit(figure.n, 0.2 * width)))
    # Three significant digits of the range of the axis.
    digits = min(max(2 - math.floor(math.log10(value_limits[1] - value_limits[0])), 0), 4)
    values_edge, right = math.nan, width - 10.0
    if with_values:
        rows = [row for row in figure.rows if row.marks]
        values_width = max(_text_width(in_words(row.marks[0], digits), row) for row in rows)
        if values_width:
            values_edge, right = width, width - (values_width + 12.0)
    row_height = FOREST_ROW
    if n_series > 1:
        row_height = max(FOREST_ROW, 10.0 + OFFSET * n_series)
    # Room for the heads of the columns.
    start = top + 22.0
    if _is_tall(row_height * n_rows):
        start += 18.0  # the axis is repeated above
    left_edge = n + 16.0
    if math.isnan(values_edge):  # the last number of the axis reaches beyond it by half its width
        axis = ticks_of(figure.x, value_limits, most=_most_ticks(right - left_edge))
        half = width_of(axis[-1].name) / 2 + 1.0 if axis else 0.0
        right = width - max(10.0, half)
    scale = PixelScale(*value_limits, left_edge, max(right, left_edge + 60.0), figure.x.log)
    return ForestLayout(scale, names, n, values_edge, start, row_height, n_rows, digits)


def _most_ticks(length: float) -> int:
    return max(int(length / 40), 2)


def _text_width(text: str, row: ForestRow) -> float:
    return width_of(text, bold=row.strong)


def _is_tall(height: float) -> bool:
    return height > TALL


def _behind(figure: Forest, at: ForestLayout, sheet: Sheet) -> list[str]:
    """Return what lies under the estimates: bands, grid, lines, the axis, heads of the columns."""
    parts = []
    if at.rows >= MANY_ROWS:
        ends = [(0.0, at.middle(k), sheet.width, at.middle(k)) for k in range(1, at.rows, 2)]
        parts.append(el("path", d=segments(ends), cls="fig-zebra", stroke_width=at.row))
    axis = ticks_of(figure.x, (at.x.low, at.x.high), most=_most_ticks(at.x.end - at.x.start))
    lines = [(at.x.at(tick.at), at.top, at.x.at(tick.at), at.bottom) for tick in axis]
    parts.append(el("path", d=segments(lines), cls="fig-grid"))
    if math.isfinite(figure.reference) and at.x.low <= figure.reference <= at.x.high:
        x = at.x.at(figure.reference)
        parts.append(el("path", d=segments([(x, at.top - 3.0, x, at.bottom)]), cls="fig-guide"))
    base = [(at.x.start, at.bottom, at.x.end, at.bottom)]
    parts.append(el("path", d=segments(base), cls="fig-axis"))
    heights, head = [at.bottom + 16.0], at.top - 8.0
    if _is_tall(at.row * at.rows):  # who reads the first rows of a tall plot sees no axis below
        heights.append(at.top - 8.0)
        head = at.top - 26.0
    for y in heights:
        for tick in without_collisions(axis, at.x):
            parts.append(words(at.x.at(tick.at), y, tick.name, anchor="middle"))
    if at.n > at.names:
        room = max(at.n - 4.0, 20.0)
        parts.append(words(at.n, head, figure.n, "fig-soft", width=room, anchor="end"))
    if math.isfinite(at.values):
        parts.append(words(at.values, head, "value (interval)", "fig-soft", anchor="end"))
    if figure.x.label:
        parts.append(label_below(figure.x.label, at.x, at.bottom + 37.0, sheet))
    return parts


def _series_height(at: ForestLayout, k: int, s: int, series: int) -> float:
    return at.middle(k) + OFFSET * (s - (series - 1) / 2)


def _whiskers(figure: Forest, at: ForestLayout, slots: Sequence[int]) -> list[str]:
    """Return the intervals, one path per series: an end beyond the axis has an arrow."""
    parts = []
    for s, slot in enumerate(slots[: len(figure.series)]):
        # One path for all rows of a series, because a page may hold thousands of estimates; thick
        # ones need a class of their own.
        plain: list[str] = []
        strong: list[str] = []
        for k, row in enumerate(figure.rows):
            if s < len(row.marks) and is_drawn(row.marks[s]):
                piece = _whisker(row.marks[s], at, _series_height(at, k, s, len(figure.series)))
                (strong if row.strong else plain).append(piece)
        for pieces, cls in ((plain, "fig-whisker"), (strong, "fig-whisker fig-thick")):
            if any(pieces):
                parts.append(el("path", d="".join(pieces), cls=f"{cls} {stroke(slot)}"))
    return parts


def _whisker(mark: Mark, at: ForestLayout, y: float) -> str:
    if not (math.isfinite(mark.low) and math.isfinite(mark.high)):
        return ""
    # Nothing of the interval is on the axis: the pointer of the estimate says where it is.
    if mark.high < at.x.low or mark.low > at.x.high:
        return ""
    low, high = at.x.within(mark.low), at.x.within(mark.high)
    path = segments([(low, y, high, y)])
    if mark.low < at.x.low:
        path += segments([(low + 4.0, y - 3.5, low, y), (low + 4.0, y + 3.5, low, y)])
    if mark.high > at.x.high:
        path += segments([(high - 4.0, y - 3.5, high, y), (high - 4.0, y + 3.5, high, y)])
    return path


def _row(
    figure: Forest, k: int, row: ForestRow, at: ForestLayout, slots: Sequence[int]
) -> list[str]:
    y = at.middle(k) + 4.0
    bold = "fig-strong" if row.strong else ""
    parts = [words(0.0, y, row.name, bold, width=at.names / (BOLD if row.strong else 1.0) + 0.5)]
    if row.n:
        parts.append(words(at.n, y, shorten(row.n, 16), bold or "fig-soft", anchor="end"))
    if math.isfinite(at.values) and row.marks:
        text = in_words(row.marks[0], at.digits)
        parts.append(words(at.values, y, text, bold, anchor="end", longest=60))
    with_titles = len(figure.rows) * len(figure.series) <= MOST_FOREST_TIPS
    reasons = {mark.reason for mark in row.marks if not is_drawn(mark)}
    # Without any estimate in the row its reason is said once, not once per series.
    if len(reasons) == 1 and not any(map(is_drawn, row.marks)):
        return [*parts, _reason(reasons.pop(), at, at.middle(k))]
    for s, (name, mark) in enumerate(zip(figure.series, row.marks)):
        height = _series_height(at, k, s, len(figure.series))
        if not is_drawn(mark):
            parts.append(_reason(mark.reason, at, height, slots[s]))
            continue
        inner = title(f"{row.name}, {name}: {in_words(mark, at.digits)}") if with_titles else ""
        parts.append(_mark(mark, row, at, height, slots[s], inner))
    return parts


def _reason(reason: str, at: ForestLayout, y: float, slot: int | None = None) -> str:
    x = at.x.start + 4.0
    text = sentence(
        x + (9.0 if slot is not None else 0.0),
        y + 4.0,
        reason or "undefined",
        "fig-reason fig-halo-text",
        width=at.x.end - x,
    )
    return text if slot is None else marker(slot, x + 3.0, y, 2.5) + text


def _mark(mark: Mark, row: ForestRow, at: ForestLayout, y: float, slot: int, inner: str) -> str:
    x = at.x.within(mark.value)
    if not at.x.low <= mark.value <= at.x.high:  # beyond the axis: a pointer at its end
        back = 5.0 if mark.value > at.x.high else -5.0
        return el("path", inner, d=f"M{x:.1f} {y:.1f}l{-back:.0f}-5v10z", cls=f"fig-m {fill(slot)}")
    if row.strong and len(row.marks) > 1:  # the shape still tells the series
        return marker(slot, x, y, 5.2, inner)
    if row.strong:
        return el(
            "path",
            inner,
            d=f"M{x:.1f} {y:.1f}m-7.5 0l7.5-6 7.5 6-7.5 6z",
            cls=f"fig-m {fill(slot)}",
        )
    return marker(slot, x, y, 4.0, inner)


def in_words(mark: Mark, digits: int) -> str:
    """Return an estimate with its interval: "0.83 (0.80 to 0.86)"."""
    if not math.isfinite(mark.value):
        return "–"
    text = f"{mark.value:.{digits}f}"
    if math.isfinite(mark.low) and math.isfinite(mark.high):
        text += f" ({mark.low:.{digits}f} to {mark.high:.{digits}f})"
    return clean(text.replace("-", MINUS))


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


def draw_bars(figure: Bars, sheet: Sheet) -> Drawing:
    """Draw bars side by side or on top of each other."""
    names = figure.x.names
    if not names or not len(figure.series):
        return empty_drawing(sheet, "no categories" if not names else "no series")
    values = [figure.heights, figure.low, figure.high]
    if figure.stacked:
        # The axis must hold the ends of the stacks, not the pieces.
        values = [stacks(figure)[1]]
    value_limits = limits(figure.y, values, zero=True)
    if value_limits is None or not np.isfinite(figure.heights).any():
        return empty_drawing(sheet, why_no_limits(figure.y, values))
    slots = slots_of(figure, len(figure.series))[: len(figure.series)]
    # Slots beyond the palette share the texture of their colour; it is defined once.
    colour_slots = dict.fromkeys(slot % 7 for slot in slots)
    textures = "".join(texture(slot, sheet.name) for slot in colour_slots)
    labels, top = _legend(figure, sheet)
    side = _bar_plane(figure, sheet, value_limits, top)
    parts = [el("defs", textures)] if textures else []
    parts += [*labels, *side.at.parts, *_bars(figure, side, sheet)]
    return Drawing(
        sheet.width, side.at.height, [*parts, *_intervals(figure, side), *_zero_line(side)]
    )


def _legend(figure: Bars, sheet: Sheet) -> tuple[list[str], float]:
    if len(figure.series) < 2:
        return [], 0.0
    slots = slots_of(figure, len(figure.series))
    return legend(sheet, [Entry(name, slot, "area") for name, slot in zip(figure.series, slots)])


def _bar_plane(
    figure: Bars, sheet: Sheet, value_limits: tuple[float, float], top: float
) -> BarPlane:
    """Return the plane, with the categories below it or, if their names have no room there, beside
    it.
    """
    n, group = len(figure.x.names), 1 if figure.stacked else len(figure.series)
    across = (-0.5, n - 0.5)
    category = Axis(figure.x.label, names=figure.x.names)
    plan = PlaneSpec(category, figure.y, across, value_limits, top=top)
    # About 50 pixels go to the numbers of the axis; the plane itself is not laid out yet.
    slot = (sheet.width - 50.0) / n
    if names_fit(figure.x.names, slot) and slot * BAR_SHARE / group >= SLIMMEST:
        return BarPlane(plane(sheet, plan), False)
    inner = n * max(LYING_BAR * group + 8.0, 21.0)
    lying = replace(plan, x=figure.y, y=category, x_limits=value_limits, y_limits=across)
    return BarPlane(plane(sheet, replace(lying, inner=inner, down=True, grid="x")), True)


def stacks(figure: Bars) -> tuple[F64, F64]:
    """Return lower and upper ends of stacked bars: what is above zero grows upwards, what is below
    downwards.
    """
    heights = np.nan_to_num(figure.heights, nan=0.0, posinf=0.0, neginf=0.0)
    # Two sums, so that a negative piece does not shorten the pile above zero.
    up, down = np.cumsum(np.maximum(heights, 0.0), 0), np.cumsum(np.minimum(heights, 0.0), 0)
    upper = np.where(heights >= 0, up, down)
    return upper - heights, upper


def _bar_ends(figure: Bars, s: int, c: int, low: float) -> tuple[float, float]:
    if figure.stacked:
        lower, upper = stacks(figure)
        return float(lower[s, c]), float(upper[s, c])
    return low, float(figure.heights[s, c])


def _bar_place(figure: Bars, s: int, c: int) -> tuple[float, float]:
    """Return where a bar starts and ends across its category."""
    group = 1 if figure.stacked else len(figure.series)
    filled = min(BAR_SHARE, 0.3 + 0.22 * group)  # a single bar needs no broad back
    start, slim = c - filled / 2, filled / group
    if group == 1:
        return start, start + slim
    start += slim * s
    return start, start + slim * 0.94  # a gap between neighbours


def _bars(figure: Bars, side: BarPlane, sheet: Sheet) -> list[str]:
    slots = slots_of(figure, len(figure.series))
    with_titles = figure.heights.size <= MOST_BAR_TIPS
    values = side.at.x if side.lying else side.at.y
    # Bars start at zero, or at the edge if the axis starts above it.
    base = max(0.0, values.low)
    parts = []
    for s, name in enumerate(figure.series):
        for c, category in enumerate(figure.x.names):
            height = float(figure.heights[s, c])
            if not np.isfinite(height):
                continue
            box = side.box(_bar_place(figure, s, c), _bar_ends(figure, s, c, base))
            tooltip = title(f"{category}, {name}: {tick_text(height)}") if with_titles else ""
            parts.extend(area(*box, slots[s], sheet.name, tooltip))
    return parts


def _intervals(figure: Bars, side: BarPlane) -> list[str]:
    """Return the intervals of bars side by side; pieces of a stack have none of their own."""
    if figure.low is None or figure.high is None or figure.stacked:
        return []
    ends = []
    for s in range(len(figure.series)):
        for c in range(len(figure.x.names)):
            low, high = float(figure.low[s, c]), float(figure.high[s, c])
            if np.isfinite([low, high, figure.heights[s, c]]).all():
                start, stop = _bar_place(figure, s, c)
                ends.append(side.box(((start + stop) / 2,) * 2, (low, high)))
    # A halo below keeps the line visible on a dark bar.
    path = segments(ends)
    return (
        [el("path", d=path, cls="fig-error-halo"), el("path", d=path, cls="fig-error")]
        if ends
        else []
    )


def _zero_line(side: BarPlane) -> list[str]:
    """Return the line of zero where bars go both ways."""
    at = side.at
    scale = at.x if side.lying else at.y
    if not scale.low < 0 < scale.high:
        return []
    zero = scale.at(0.0)
    end = (zero, at.top, zero, at.bottom) if side.lying else (at.left, zero, at.right, zero)
    return [el("path", d=segments([end]), cls="fig-axis")]


@dataclass(frozen=True, slots=True)
class BoxPlane:
    """Which way the boxes lie."""

    at: Plane
    lying: bool
    half: float  # pixels

    def point(self, k: int, value: float, off: float = 0.0) -> tuple[float, float]:
        """Return the pixel of a value of sample ``k``, ``off`` pixels beside its middle."""
        if self.lying:
            return self.at.x.within(value), self.at.y.at(k) + off
        return self.at.x.at(k) + off, self.at.y.within(value)

    def across(self, k: int, value: float, half: float) -> tuple[float, float, float, float]:
        """Return a line across the sample at a value."""
        return (*self.point(k, value, -half), *self.point(k, value, half))


def draw(figure: BoxDots, sheet: Sheet) -> Drawing:
    """Draw the quartiles of samples."""
    if not figure.names:
        return empty_drawing(sheet, "no samples")
    samples = [np.asarray(s, np.float64)[np.isfinite(s)] for s in figure.samples]
    value_limits = limits(figure.y, samples)
    if value_limits is None or not any(map(len, samples)):
        return empty_drawing(sheet, why_no_limits(figure.y, list(figure.samples)))
    side = _box_plane(figure, sheet, samples, value_limits)
    slots = slots_of(figure, len(figure.names))
    parts = []
    for k, sample in enumerate(samples):
        parts += _sample(figure, k, sample, slots[k], side)
    return Drawing(sheet.width, side.at.height, [*side.at.parts, *parts])


def _box_plane(
    figure: BoxDots, sheet: Sheet, samples: list[F64], value_limits: tuple[float, float]
) -> BoxPlane:
    n = len(figure.names)
    names = _box_names(figure, samples, 16)
    across = (-0.5, n - 0.5)
    plan = PlaneSpec(Axis("", names=names), figure.y, across, value_limits)
    slot = (sheet.width - 50.0) / n
    if names_fit(names, slot):
        return BoxPlane(plane(sheet, plan), False, min(HALF * slot, BROADEST))
    lying = replace(
        plan,
        x=figure.y,
        y=Axis("", names=_box_names(figure, samples, 28)),
        x_limits=value_limits,
        y_limits=across,
        inner=BOX_ROW * n,
        down=True,
        grid="x",
    )
    return BoxPlane(plane(sheet, lying), True, min(HALF * BOX_ROW, BROADEST))


def _box_names(figure: BoxDots, samples: list[F64], most: int) -> tuple[str, ...]:
    """Return the names of samples, with their n; where dots have names, only if some are missing,
    because the note says how many there are.
    """
    names = []
    for k, (name, sample) in enumerate(zip(figure.names, samples)):
        is_whole = bool(figure.points) and len(sample) == len(figure.points[k])
        n = "" if is_whole else f" (n\xa0=\xa0{len(sample)})"
        names.append(f"{shorten(name, most)}{n}")
    return tuple(names)


def _sample(figure: BoxDots, k: int, sample: F64, slot: int, side: BoxPlane) -> list[str]:
    if not len(sample):
        return []
    parts = []
    if len(sample) > 1:  # one value has no quartiles
        q = box_ends(sample)
        half = side.half
        (x0, y0), (x1, y1) = side.point(k, q[1], -half), side.point(k, q[3], half)
        low, median, high = (tick_text(round(v, 4)) for v in q[1:4])
        tooltip = title(f"{figure.names[k]}: median {median}, quartiles {low} to {high}")
        box = {
            "x": min(x0, x1),
            "y": min(y0, y1),
            # A box whose quartiles are equal would not be drawn at all.
            "width": max(abs(x1 - x0), 0.1),
            "height": max(abs(y1 - y0), 0.1),
        }
        whiskers = [
            (*side.point(k, q[0]), *side.point(k, q[1])),
            (*side.point(k, q[3]), *side.point(k, q[4])),
        ]
        caps = [side.across(k, q[0], half / 2), side.across(k, q[4], half / 2)]
        middle = segments([side.across(k, q[2], half)])
        parts = [
            el("rect", tooltip, **box, cls=f"fig-box {fill(slot)} {stroke(slot)}"),
            el("path", d=segments([*whiskers, *caps]), cls=f"fig-whisker {stroke(slot)}"),
            el("path", d=middle, cls="fig-median"),
        ]
    return [*parts, *_dots(figure, k, sample, slot, side)]


def _dots(figure: BoxDots, k: int, sample: F64, slot: int, side: BoxPlane) -> list[str]:
    if len(sample) > FEW:
        return []
    dots = []
    for j, value in enumerate(np.sort(sample).tolist()):
        # Not random: the same sample is the same picture every time. Multiples of the golden ratio
        # keep neighbours apart.
        offset = (j * GOLDEN % 1.0 - 0.5) * 1.2 * side.half
        x, y = side.point(k, value, offset)
        dots.append(marker(slot, x, y, 2.2))
    if figure.points:
        good = np.flatnonzero(np.isfinite(figure.samples[k]))
        order = np.argsort(sample, kind="stable")
        for place, (dot, j) in enumerate(zip(dots, order.tolist())):
            words = f"{figure.points[k][good[j]]}: {tick_text(round(float(sample[j]), 4))}"
            dots[place] = el("g", title(words) + dot)
    return [el("g", "".join(dots), cls="fig-dots")]


def draw_blob(figure: Blob, sheet: Sheet) -> Drawing:
    """Draw how often every model had every rank."""
    models, ranks = len(figure.models), figure.shares.shape[1] if figure.shares.ndim == 2 else 0
    if not models or not ranks:
        return empty_drawing(sheet, "no models")
    if not np.isfinite(figure.shares).any():
        return empty_drawing(sheet, UNDEFINED)
    key, top = _share_key(sheet, figure.of)
    x = Axis("rank (1 = best)", ticks=tuple(float(r) for r in range(1, ranks + 1)))
    y = Axis("", names=figure.models)
    plan = PlaneSpec(
        x,
        y,
        (0.5, ranks + 0.5),
        (-0.5, models - 0.5),
        top=top,
        inner=ROW * models,
        down=True,
        grid="",
    )
    at = plane(sheet, plan)
    # Discs of a share of one in neighbouring columns must not touch.
    largest = min(LARGEST, 0.47 * (at.right - at.left) / ranks)
    rows = [(at.left, at.y.at(m), at.right, at.y.at(m)) for m in range(models)]
    parts = [*key, *at.parts, el("path", d=segments(rows), cls="fig-grid")]
    for m in range(models):
        parts.extend(_model(figure, m, at, largest))
    return Drawing(sheet.width, at.height, parts)


def _share_key(sheet: Sheet, of: str) -> tuple[list[str], float]:
    """Return what areas, lines and diamonds mean."""
    parts, x = [], 0.0
    for share in KEY:
        r = 9.0 * math.sqrt(share)
        parts.append(el("circle", cx=x + r, cy=12.0, r=r, cls="fig-blob fig-f0"))
        text = percent_text(share)
        parts.append(words(x + 2 * r + 4.0, 16.0, text))
        x += 2 * r + 4.0 + width_of(text) + 12.0
    x, y = (x + 8.0, 12.0) if sheet.width >= 520.0 else (0.0, 34.0)
    text_of_key = f"of the {of}" if y < 20.0 else f"share of the {of}"
    parts.append(words(x, y + 4.0, text_of_key))
    x += width_of(text_of_key) + 10.0
    parts.append(el("path", d=segments([(x, y, x + 26.0, y)]), cls="fig-span"))
    parts.append(_diamond(x + 13.0, y))
    parts.append(words(x + 32.0, y + 4.0, "median, interval"))
    return parts, y + 18.0


def _diamond(x: float, y: float, inner: str = "") -> str:
    return el(
        "path", inner, d=f"M{num(x)} {num(y)}m0-4.5l4.5 4.5-4.5 4.5-4.5-4.5z", cls="fig-median-mark"
    )


def _model(figure: Blob, m: int, at: Plane, largest: float) -> list[str]:
    y, slot = at.y.at(float(m)), slots_of(figure, len(figure.models))[m]
    parts = []
    for r in range(figure.shares.shape[1]):
        share = float(figure.shares[m, r])
        if math.isfinite(share) and share > FAINT:
            # The eye compares areas, so the radius grows with the root of the share.
            radius = largest * math.sqrt(min(share, 1.0))
            inner = title(
                f"{figure.models[m]}, rank {r + 1}: {percent_text(share)} of the {figure.of}"
            )
            parts.append(
                el(
                    "circle",
                    inner,
                    cx=at.x.at(r + 1.0),
                    cy=y,
                    r=radius,
                    cls=f"fig-blob {fill(slot)} {stroke(slot)}",
                )
            )
    if m < len(figure.spans) and all(map(math.isfinite, figure.spans[m])):
        low, high = (at.x.within(end) for end in figure.spans[m])
        parts.append(el("path", d=segments([(low, y, high, y)]), cls="fig-span"))
    if m < len(figure.medians) and math.isfinite(figure.medians[m]):
        parts.append(
            _diamond(
                at.x.within(figure.medians[m]),
                y,
                title(f"{figure.models[m]}: median rank {figure.medians[m]:g}"),
            )
        )
    return parts
