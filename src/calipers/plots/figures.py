# SPDX-License-Identifier: Apache-2.0
"""Figures as data: what is shown, in which unit, and what it means.

Every figure has a title that states the finding, axes that state their unit, and its numbers as a
table. Results make figures; `svg` and `mpl` draw them, nothing here does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Cell = str | float | int | None
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


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of a figure or of a section; numbers stay numbers, None is undefined."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


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
        rows = [
            (
                row.name,
                series,
                _number(mark.value),
                _number(mark.low),
                _number(mark.high),
                row.n,
                mark.reason,
            )
            for row in self.rows
            for series, mark in zip(self.series, row.marks)
        ]
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
        rows = [
            (name, series, _number(self.heights[s, c]), _at2(self.low, s, c), _at2(self.high, s, c))
            for c, name in enumerate(self.x.names)
            for s, series in enumerate(self.series)
        ]
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
        rows = [
            (row, column, _number(self.values[r, c]))
            for r, row in enumerate(self.y.names)
            for c, column in enumerate(self.x.names)
        ]
        return Table((self.y.label, self.x.label, self.label), tuple(rows))


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
        rows = [
            (model, r + 1, _number(self.shares[m, r]))
            for m, model in enumerate(self.models)
            for r in range(self.shares.shape[1])
        ]
        return Table(("model", "rank", f"share of {self.of}"), tuple(rows))


@dataclass(frozen=True, slots=True)
class BoxDots(Figure):
    """Samples as a box (quartiles), whiskers (5 % and 95 %) and, if they are few, their dots."""

    y: Axis
    names: tuple[str, ...]
    samples: tuple[F64, ...]
    slots: tuple[int, ...] = ()

    def table(self) -> Table:
        """Return the quantiles of every sample."""
        probabilities = (0.05, 0.25, 0.5, 0.75, 0.95)
        rows = []
        for name, sample in zip(self.names, self.samples):
            if len(sample):
                quantiles = map(_number, np.quantile(sample, probabilities))
                rows.append((name, len(sample), *quantiles))
        return Table(("sample", "n", "5 %", "25 %", "median", "75 %", "95 %"), tuple(rows))


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
        rows = [
            (float(x), float(y), _number(self.values[r, c]))
            for r, y in enumerate(self.ys)
            for c, x in enumerate(self.xs)
        ]
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
        rows = [
            (name, float(self.edges[k]), float(self.edges[k + 1]), _number(self.counts[s, k]))
            for s, name in enumerate(self.series)
            for k in range(len(self.edges) - 1)
        ]
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


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _at(values: F64 | None, k: int) -> float | None:
    return None if values is None else _number(float(values[k]))


def _at2(values: F64 | None, s: int, c: int) -> float | None:
    return None if values is None else _number(float(values[s, c]))
