# SPDX-License-Identifier: Apache-2.0
"""Figures as data: what is shown, in which unit, and what it means.

Every figure has a title that states the finding, axes that state their unit, and its numbers as a
table. Results make figures; `show.svg` draws them for pages and notebooks, `show.mpl` for papers.
Nothing is drawn here, but what both share stands here too:

- the look. The colours (Okabe and Ito) are distinct for colour-blind readers, and a series never
  depends on its colour alone: dashes and markers carry the same meaning (`style`);
- the ticks of an axis: round numbers (`ticks`), and how they are written (`tick_text`).
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calipers.arrays import F64, I64, Flags
from calipers.show.table import Table

NAN = math.nan


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction of a figure."""

    label: str  # what it is, with its unit in brackets where it has one: "diameter (mm)"
    low: float = NAN  # NaN = from the data
    high: float = NAN
    log: bool = False
    ticks: tuple[float, ...] = ()  # () = chosen
    names: tuple[str, ...] = ()  # words for the ticks; categories stand at 0, 1, 2, ...
    whole: bool = False  # a count: no ticks between whole numbers


@dataclass(frozen=True, slots=True)
class Figure(ABC):
    """What all figures have."""

    title: str  # the finding, a short sentence
    note: str = field(default="", kw_only=True)  # n, how the intervals were made, what was left out

    @abstractmethod
    def table(self) -> Table:
        """Return the numbers that are drawn."""


@dataclass(frozen=True, slots=True)
class Line:
    """A curve, with the band of its interval where it has one."""

    name: str
    x: F64
    y: F64
    low: F64 | None = None  # (n,) NaN where there is no interval
    high: F64 | None = None
    slot: int = 0  # of the theme
    step: bool = False  # holds its value until the next x
    marks: tuple[int, ...] = ()  # points with a marker


@dataclass(frozen=True, slots=True)
class Curves(Figure):
    """Lines over a number: FROC, precision against recall, sweeps."""

    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    levels: tuple[float, ...] = ()  # of x at which the table states the curve; () = all points
    diagonal: bool = False

    def table(self) -> Table:
        """Return (line, x, y, low, high), at the levels only if there are any."""
        rows = []
        for line in self.lines:
            for k in self._indices(line):
                band = [_at(line.low, k), _at(line.high, k)]
                rows.append((line.name, float(line.x[k]), _number(line.y[k]), *band))
        return Table(("series", self.x.label, self.y.label, "low", "high"), tuple(rows))

    def _indices(self, line: Line) -> list[int]:
        if not self.levels or not len(line.x):
            return list(range(len(line.x)))
        return list(dict.fromkeys(int(np.abs(line.x - level).argmin()) for level in self.levels))


@dataclass(frozen=True, slots=True)
class Mark:
    """An estimate in a figure."""

    value: float  # NaN = undefined, then `reason`
    low: float = NAN
    high: float = NAN
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One line of a forest plot."""

    name: str
    n: str  # what stands behind it: "42", "12 / 42"
    marks: tuple[Mark, ...]  # one per series
    strong: bool = False  # the pooled row


@dataclass(frozen=True, slots=True)
class Forest(Figure):
    """Estimates with intervals, a line per class or group, a marker per series."""

    x: Axis
    series: tuple[str, ...]
    rows: tuple[ForestRow, ...]
    n: str = "n"  # what the numbers behind are: "references"
    reference: float = NAN  # a line to compare with: no difference
    slots: tuple[int, ...] = ()  # of the series; () = 0, 1, 2, ...

    def table(self) -> Table:
        """Return (row, series, value, low, high, n)."""
        rows = []
        for row in self.rows:
            for series, mark in zip(self.series, row.marks):
                numbers = map(_number, (mark.value, mark.low, mark.high))
                rows.append((row.name, series, *numbers, row.n, mark.reason))
        return Table(
            ("row", "series", self.x.label, "low", "high", self.n, "undefined because"),
            tuple(rows),
        )


@dataclass(frozen=True, slots=True)
class Bars(Figure):
    """Bars per category: side by side, or on top of each other."""

    x: Axis  # with names
    y: Axis
    series: tuple[str, ...]
    heights: F64  # (series, categories)
    low: F64 | None = None
    high: F64 | None = None
    stacked: bool = False
    slots: tuple[int, ...] = ()

    def table(self) -> Table:
        """Return (category, series, height, low, high)."""
        rows = []
        for c, name in enumerate(self.x.names):
            for s, series in enumerate(self.series):
                ends = _at2(self.low, s, c), _at2(self.high, s, c)
                rows.append((name, series, _number(self.heights[s, c]), *ends))
        return Table((self.x.label, "series", self.y.label, "low", "high"), tuple(rows))


@dataclass(frozen=True, slots=True)
class HeatMap(Figure):
    """A number per row and column, as colour and as text."""

    x: Axis  # names of the columns
    y: Axis  # names of the rows
    values: F64  # (rows, columns), NaN = undefined
    label: str  # what the numbers are
    low: float = 0.0  # of the colours
    high: float = 1.0
    words: tuple[tuple[str, ...], ...] = ()  # texts of the cells; () = the numbers

    def table(self) -> Table:
        """Return (row, column, value)."""
        rows = _cells(self.values, self.y.names, self.x.names)
        return Table((self.y.label, self.x.label, self.label), rows)


@dataclass(frozen=True, slots=True)
class Dots:
    """Points of one series, with error bars where there are any."""

    name: str
    x: F64
    y: F64
    x_low: F64 | None = None
    x_high: F64 | None = None
    y_low: F64 | None = None
    y_high: F64 | None = None
    names: tuple[str, ...] = ()  # words beside the points
    slot: int = 0
    quiet: bool = False  # names are in the table and in tooltips, but not beside the points


@dataclass(frozen=True, slots=True)
class Scatter(Figure):
    """Points in a plane."""

    x: Axis
    y: Axis
    dots: tuple[Dots, ...]
    diagonal: bool = False

    def table(self) -> Table:
        """Return (series, point, x, y) and the ends of the bars."""
        rows = []
        for d in self.dots:
            for k in range(len(d.x)):
                point = d.names[k] if d.names else str(k + 1)
                x_ends = (_at(d.x_low, k), _at(d.x_high, k))
                y_ends = (_at(d.y_low, k), _at(d.y_high, k))
                rows.append((d.name, point, _number(d.x[k]), _number(d.y[k]), *x_ends, *y_ends))
        ends = ("x low", "x high", "y low", "y high")
        return Table(("series", "point", self.x.label, self.y.label, *ends), tuple(rows))


@dataclass(frozen=True, slots=True)
class Blob(Figure):
    """How often every model had every rank: areas are shares of bootstrap replicates, or of
    configurations.
    """

    models: tuple[str, ...]  # from best to worst
    shares: F64  # (models, ranks)
    medians: tuple[float, ...]
    spans: tuple[tuple[float, float], ...]  # intervals of the ranks
    slots: tuple[int, ...] = ()  # of the models; () = 0, 1, 2, ...
    of: str = "replicates"  # what the shares are shares of

    def table(self) -> Table:
        """Return (model, rank, share)."""
        ranks = range(1, self.shares.shape[1] + 1)
        rows = _cells(self.shares, self.models, ranks)
        return Table(("model", "rank", f"share of {self.of}"), rows)


FEWEST_FOR_TAILS = 20  # values of which 5 % are at least one


def box_ends(sample: F64) -> tuple[float, float, float, float, float]:
    """Return where the parts of a box plot are: lower whisker, quartile, median, quartile, upper
    whisker. Whiskers are the quantiles of 5 % and 95 %; of fewer than 20 values they are the
    smallest and the largest, because a dot beyond them would look like an error.
    """
    tail = 0.05 if len(sample) >= FEWEST_FOR_TAILS else 0.0
    low, first, median, third, high = np.quantile(sample, (tail, 0.25, 0.5, 0.75, 1 - tail))
    return float(low), float(first), float(median), float(third), float(high)


@dataclass(frozen=True, slots=True)
class BoxDots(Figure):
    """Samples as a box (quartiles), whiskers (see `box_ends`) and, if they are few, their dots."""

    y: Axis
    names: tuple[str, ...]
    samples: tuple[F64, ...]
    slots: tuple[int, ...] = ()
    # Words for the dots, one per value of every sample: then the table states each of them.
    points: tuple[tuple[str, ...], ...] = ()

    def table(self) -> Table:
        """Return the quantiles of every sample, or every value if the dots have names."""
        if self.points:
            rows = []
            for name, sample, words in zip(self.names, self.samples, self.points):
                rows += [(name, word, _number(value)) for word, value in zip(words, sample)]
            return Table(("sample", "point", self.y.label), tuple(rows))
        probabilities = (0.05, 0.25, 0.5, 0.75, 0.95)
        lines = []
        for name, sample in zip(self.names, self.samples):
            if len(sample):
                quantiles = map(_number, np.quantile(sample, probabilities))
                lines.append((name, len(sample), *quantiles))
        return Table(("sample", "n", "5 %", "25 %", "median", "75 %", "95 %"), tuple(lines))


@dataclass(frozen=True, slots=True)
class Contour(Figure):
    """A number over two others, as lines of equal height on colours."""

    x: Axis
    y: Axis
    xs: F64  # (m,)
    ys: F64  # (n,)
    values: F64  # (n, m)
    label: str
    levels: tuple[float, ...] = ()  # () = chosen
    low: float = NAN  # ends of the colours, so that panels can share them; NaN = from the data
    high: float = NAN
    square: bool = False  # one unit is as long in x as in y

    def table(self) -> Table:
        """Return (x, y, value)."""
        rows = []
        for y, x, value in _cells(self.values, self.ys.tolist(), self.xs.tolist()):
            rows.append((x, y, value))
        return Table((self.x.label, self.y.label, self.label), tuple(rows))


@dataclass(frozen=True, slots=True)
class Histogram(Figure):
    """Counts between edges, one outline per series."""

    x: Axis
    y: Axis
    edges: F64  # (bins + 1,)
    series: tuple[str, ...]
    counts: F64  # (series, bins)
    cut: float = NAN  # a line at a threshold
    slots: tuple[int, ...] = ()

    def table(self) -> Table:
        """Return (series, from, to, count)."""
        rows, edges = [], self.edges.tolist()
        for name, counts in zip(self.series, self.counts):
            for low, high, number in zip(edges, edges[1:], counts):
                rows.append((name, low, high, _number(number)))
        return Table(("series", "from", "to", self.y.label), tuple(rows))


@dataclass(frozen=True, slots=True)
class Cells(Figure):
    """A whole number from 0 to ``most`` in every cell of an image, over its picture where there is
    one.
    """

    counts: I64  # (rows, columns)
    most: int
    label: str  # what is counted: "models that mark a place"
    inside: Flags | None = None  # (rows, columns) what the reference marks; a line runs around it
    picture: str = ""  # a data: address; cells of 0 are then transparent
    aspect: float = 1.0  # height of a cell over its width

    def table(self) -> Table:
        """Return how many cells have every number, and how many of these the reference marks."""
        total = np.bincount(self.counts.ravel(), minlength=self.most + 1).tolist()
        if self.inside is None:
            return Table((self.label, "cells"), tuple(enumerate(total)))
        within = np.bincount(self.counts[self.inside], minlength=self.most + 1).tolist()
        rows = tuple((k, n, w) for k, (n, w) in enumerate(zip(total, within)))
        return Table((self.label, "cells", "in the reference"), rows)


Ring = tuple[tuple[float, float], ...]  # corners x, y; the last is joined to the first


@dataclass(frozen=True, slots=True)
class BoxMark:
    """An object on an image: its outline where its mask is known, else its box."""

    fate: str  # a key of `theme.MARKS`
    box: tuple[float, float, float, float]  # x0 y0 x1 y1 in pixels of the image
    label: str  # its class, and what else its tooltip says
    score: float = NAN
    outline: tuple[Ring, ...] = ()  # in pixels of the image; corners of pixels are whole numbers


@dataclass(frozen=True, slots=True)
class Overlay(Figure):
    """Objects of the references and of one model on an image, and its map of scores where it has
    one.
    """

    size: tuple[float, float]  # width and height in pixels of the image
    marks: tuple[BoxMark, ...]
    picture: str = ""  # a data: address; "" = no pixels, an empty frame
    symbol: str = ""  # id of a picture that the page holds once for several overlays
    # The map of the model: a data: address of a picture that is transparent where scores are low.
    shade: str = ""
    shade_symbol: str = ""  # id of such a picture that the page holds

    def table(self) -> Table:
        """Return (fate, class, score, corners)."""
        rows = []
        for mark in self.marks:
            rows.append((mark.fate, mark.label, _number(mark.score), *map(float, mark.box)))
        return Table(("fate", "class", "score", "x0", "y0", "x1", "y1"), tuple(rows))


def ends_of(figure: Contour) -> tuple[float, float]:
    """Return the ends of the colours of contours that have a finite value."""
    values = figure.values[np.isfinite(figure.values)]
    low = figure.low if math.isfinite(figure.low) else float(values.min())
    high = figure.high if math.isfinite(figure.high) else float(values.max())
    return low, max(low, high)


def slots_of(figure: Any, n: int) -> Sequence[int]:
    """Return the slots of the series of a figure."""
    return figure.slots or tuple(range(n))


def finite(values: Sequence[Any]) -> Iterator[float]:
    """Yield the finite numbers of arrays and numbers, for limits of axes."""
    for value in values:
        if value is not None:
            numbers = np.asarray(value, np.float64).ravel()
            yield from numbers[np.isfinite(numbers)].tolist()


def _cells(
    values: F64, rows: Sequence[Any], columns: Sequence[Any]
) -> tuple[tuple[Any, Any, float | None], ...]:
    """Return the entries of a matrix, row by row, with the names of their row and column."""
    cells = []
    for row, of_row in zip(rows, values):
        for column, value in zip(columns, of_row):
            cells.append((row, column, _number(value)))
    return tuple(cells)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _at(values: F64 | None, k: int) -> float | None:
    return None if values is None else _number(float(values[k]))


def _at2(values: F64 | None, s: int, c: int) -> float | None:
    return None if values is None else _number(float(values[s, c]))


# Okabe and Ito's palette in the order in which neighbours differ most. Yellow is left out of lines:
# too faint on white.
LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4D4D4D")
DARK = ("#56B4E9", "#E8833A", "#2FC79A", "#E59BC4", "#8FD0F5", "#F0B93A", "#BDBDBD")
DASHES = ((), (6.0, 3.0), (2.0, 2.0), (8.0, 3.0, 2.0, 3.0), (4.0, 2.0), (10.0, 3.0), (1.0, 3.0))
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "plus", "star")


@dataclass(frozen=True, slots=True)
class Paper:
    """The colours of everything that is not data, and of the series."""

    ink: str
    soft: str
    line: str
    page: str
    band: str
    series: tuple[str, ...]


DAY = Paper("#1b1f24", "#57606a", "#d0d7de", "#ffffff", "#f6f8fa", LIGHT)
NIGHT = Paper("#e6edf3", "#a3adb8", "#363d46", "#0f1318", "#171c22", DARK)


@dataclass(frozen=True, slots=True)
class Style:
    """How one series is drawn."""

    slot: int
    dash: tuple[float, ...]
    marker: str


def style(slot: int) -> Style:
    """Return the style of the series ``slot``.

    When colours repeat, dashes and markers are shifted by one, so that no two styles are equal.
    """
    n = len(LIGHT)
    shifted = slot + slot // n
    return Style(slot % n, DASHES[shifted % len(DASHES)], MARKERS[shifted % len(MARKERS)])


@dataclass(frozen=True, slots=True)
class MarkStyle:
    """How a box is drawn on an image; always with a dark halo, so that it shows on any picture."""

    colour: str
    width: float
    dash: tuple[float, ...]
    words: str


MARKS = {
    "reference": MarkStyle("#FFFFFF", 1.2, (), "reference, found"),
    "hit": MarkStyle("#56B4E9", 2.0, (), "hit"),
    "false alarm": MarkStyle("#D55E00", 2.0, (7.0, 4.0), "false alarm"),
    "duplicate": MarkStyle("#CC79A7", 2.0, (7.0, 3.0, 2.0, 3.0), "duplicate"),
    "missed": MarkStyle("#F0E442", 2.2, (2.0, 3.5), "reference, missed"),
    "ignored": MarkStyle("#BDBDBD", 1.0, (1.0, 3.0), "ignored"),
}
HALO = "#000000"

# The map of a model above an image, from score 0 to 1: one hue that no mark has, dark and
# transparent where scores are low, light and dense where they are high, so that grey prints and
# colour-blind readers get the same order.
SHADE = (  # score, red, green, blue, opacity
    (0.0, 0, 60, 45, 0.0),
    (0.25, 0, 110, 80, 0.35),
    (0.5, 0, 158, 115, 0.55),
    (0.75, 60, 205, 160, 0.68),
    (1.0, 150, 255, 215, 0.78),
)


STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MANTISSAS = ((1, 2, 5), (1, 3), (1,))  # of ticks on a logarithmic axis, from many to few
MINUS = "\N{MINUS SIGN}"
NARROW_SPACE = "\N{NARROW NO-BREAK SPACE}"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def ticks(low: float, high: float, log: bool = False, most: int = 6) -> tuple[float, ...]:
    """Return round numbers from ``low`` to ``high``, at most ``most``; none if an end is not
    finite.

    Examples
    --------
    >>> ticks(0.0, 1.0)
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    >>> ticks(0.1, 100.0, log=True)
    (0.1, 1.0, 10.0, 100.0)
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return ()
    low, high = min(low, high), max(low, high)
    if low == high:
        return (low,)
    if not math.isfinite(high - low):
        return (low, high)
    if log and low > 0:
        values = _logarithmic(low, high, max(most, 2))
        if len(values) >= 2:
            return values
    return _linear(low, high, max(most, 2))


def tick_text(value: float) -> str:
    """Return the text of a number on an axis.

    Examples
    --------
    >>> tick_text(0.125), tick_text(12.0), tick_text(3e-7)
    ('0.125', '12', '3×10⁻⁷')
    """
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    sign = MINUS if value < 0 else ""
    size = abs(value)
    if 1e-4 <= size < 1e6:
        digits = f"{size:.6f}" if size < 1 else f"{size:.6g}"
        if "." in digits:
            digits = digits.rstrip("0").rstrip(".")
        return sign + _group_digits(digits)
    mantissa, exponent = f"{size:.3e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    power = "10" + str(int(exponent)).translate(RAISED)
    return sign + (power if mantissa == "1" else f"{mantissa}×{power}")


def _group_digits(plain: str) -> str:
    whole, point, rest = plain.partition(".")
    if len(whole) < 5:  # four digits are read at a glance
        return plain
    return f"{int(whole):,}".replace(",", NARROW_SPACE) + point + rest


def _linear(low: float, high: float, most: int) -> tuple[float, ...]:
    if (high - low) / most < sys.float_info.min:
        return (low, high)  # there is no room for round numbers between
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for step in (power * factor for factor in (*STEPS, 20.0, 50.0)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            # Twelve digits: 3 * 0.1 is 0.3 again.
            return tuple(float(f"{k * step:.12g}") + 0.0 for k in range(first, last + 1))
    return (low, high)


def _logarithmic(low: float, high: float, most: int) -> tuple[float, ...]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for mantissas in MANTISSAS:
        values = []
        for exponent in range(first, last + 1):
            # As text: 3 * 0.1 would be 0.30000000000000004.
            values += [float(f"{mantissa}e{exponent}") for mantissa in mantissas]
        inside = _inside(low, high, values)
        if len(inside) <= most:
            return inside
    step = -(-len(inside) // most)
    return inside[::step]


def _inside(low: float, high: float, values: list[float]) -> tuple[float, ...]:
    slack = 1e-9
    return tuple(v for v in values if low * (1 - slack) <= v <= high * (1 + slack))
