# SPDX-License-Identifier: Apache-2.0
"""Forest plots: a row per class or group with its name and n, and an estimate with interval per
series.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calipers.plots.figures import Forest, ForestRow, Mark, slots_of
from calipers.plots.svg.axes import label_below, ticks_of, without_collisions
from calipers.plots.svg.elements import Drawing, Sheet, el, segments, sentence, title, words
from calipers.plots.svg.empty import UNDEFINED, empty_drawing
from calipers.plots.svg.legends import Entry, legend
from calipers.plots.svg.markers import fill, marker, stroke
from calipers.plots.svg.scales import PixelScale, limits
from calipers.plots.svg.words import BOLD, clean, fit, shorten, width_of
from calipers.plots.ticks import MINUS

ROW = 23.0
OFFSET = 11.0  # between the series of a row
VALUES_FROM = 560.0  # pixels of width that leave room for the numbers
BANDED = 7  # so many rows and more are told apart by bands
TOLD = 200  # more estimates than these have no tooltips: the page would grow too large
TALL = 700.0  # a higher plot repeats its axis above


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


def draw(figure: Forest, sheet: Sheet) -> Drawing:
    """Draw estimates with intervals."""
    marks = [mark for row in figure.rows for mark in row.marks]
    if not figure.rows:
        return empty_drawing(sheet, "no rows")
    values = [[mark.value, mark.low, mark.high] for mark in marks]
    value_limits = limits(figure.x, [*values, figure.reference])
    if value_limits is None or not any(map(is_drawn, marks)):
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
    with_values = n_series == 1 and width >= VALUES_FROM
    most = (0.3 if width >= VALUES_FROM else 0.36) * width
    names = min(max(_wide(shorten(row.name), row) for row in figure.rows), most)
    n = names
    n_width = max(width_of(shorten(row.n, 16)) for row in figure.rows)
    if n_width:
        n += 12.0 + max(n_width, width_of(fit(figure.n, 0.2 * width)))
    # Three significant digits of the range of the axis.
    digits = min(max(2 - math.floor(math.log10(value_limits[1] - value_limits[0])), 0), 4)
    values_edge, right = math.nan, width - 10.0
    if with_values:
        rows = [row for row in figure.rows if row.marks]
        values_width = max(_wide(in_words(row.marks[0], digits), row) for row in rows)
        if values_width:
            values_edge, right = width, width - (values_width + 12.0)
    row_height = ROW
    if n_series > 1:
        row_height = max(ROW, 10.0 + OFFSET * n_series)
    start = top + 22.0
    if _is_tall(row_height * n_rows):
        start += 18.0  # the axis is repeated above
    left_edge = n + 16.0
    scale = PixelScale(*value_limits, left_edge, max(right, left_edge + 60.0), figure.x.log)
    return ForestLayout(scale, names, n, values_edge, start, row_height, n_rows, digits)


def _wide(text: str, row: ForestRow) -> float:
    return width_of(text, bold=row.strong)


def _is_tall(height: float) -> bool:
    return height > TALL


def _behind(figure: Forest, at: ForestLayout, sheet: Sheet) -> list[str]:
    """Return what lies under the estimates: bands, grid, lines, the axis, heads of the columns."""
    parts = []
    if at.rows >= BANDED:
        ends = [(0.0, at.middle(k), sheet.width, at.middle(k)) for k in range(1, at.rows, 2)]
        parts.append(el("path", d=segments(ends), cls="fig-zebra", stroke_width=at.row))
    axis = ticks_of(figure.x, (at.x.low, at.x.high), most=max(int((at.x.end - at.x.start) / 40), 2))
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


def _height(at: ForestLayout, k: int, s: int, series: int) -> float:
    return at.middle(k) + OFFSET * (s - (series - 1) / 2)


def _whiskers(figure: Forest, at: ForestLayout, slots: Sequence[int]) -> list[str]:
    """Return the intervals, one path per series: an end beyond the axis has an arrow."""
    parts = []
    for s, slot in enumerate(slots[: len(figure.series)]):
        plain: list[str] = []
        strong: list[str] = []
        for k, row in enumerate(figure.rows):
            if s < len(row.marks) and is_drawn(row.marks[s]):
                piece = _whisker(row.marks[s], at, _height(at, k, s, len(figure.series)))
                (strong if row.strong else plain).append(piece)
        for pieces, cls in ((plain, "fig-whisker"), (strong, "fig-whisker fig-thick")):
            if any(pieces):
                parts.append(el("path", d="".join(pieces), cls=f"{cls} {stroke(slot)}"))
    return parts


def _whisker(mark: Mark, at: ForestLayout, y: float) -> str:
    if not (math.isfinite(mark.low) and math.isfinite(mark.high)):
        return ""
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
    with_titles = len(figure.rows) * len(figure.series) <= TOLD
    reasons = {mark.reason for mark in row.marks if not is_drawn(mark)}
    if len(reasons) == 1 and not any(map(is_drawn, row.marks)):
        return [*parts, _reason(reasons.pop(), at, at.middle(k))]
    for s, (name, mark) in enumerate(zip(figure.series, row.marks)):
        height = _height(at, k, s, len(figure.series))
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
