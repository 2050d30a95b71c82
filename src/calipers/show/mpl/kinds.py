# SPDX-License-Identifier: Apache-2.0
"""Curves with their bands, and histograms.

Estimates with their intervals: forest plots and bars.

Points in a plane, blobs of ranks, and boxes with dots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.transforms import Bbox

from calipers.arrays import F64
from calipers.show.figures import (
    Axis,
    Bars,
    Blob,
    BoxDots,
    Curves,
    Dots,
    Forest,
    ForestRow,
    Histogram,
    Line,
    Mark,
    Scatter,
    slots_of,
    style,
)
from calipers.show.mpl.axes import (
    BAND,
    BLUES,
    LINE,
    MM,
    PAPER,
    POINTS,
    SIGNS,
    THIN,
    LegendEntries,
    MplSheet,
    any_drawable,
    colour,
    diagonal,
    draw_nothing,
    drawable,
    estimate_texts,
    fill,
    grid,
    set_axis,
    set_names,
    sign,
    stroke,
    unclip_markers,
    width_of,
    words,
)


def draw_curves(figure: Curves, sheet: MplSheet) -> LegendEntries:
    """Draw lines, their bands and their marks."""
    lines = [line for line in figure.lines if _points(line, figure).any()]
    xs = [line.x for line in lines]
    ys = [values for line in lines for values in (line.y, line.low, line.high)]
    across = set_axis(sheet, "x", figure.x, xs, pad=0.0 if figure.x.log else 0.02)
    up = set_axis(sheet, "y", figure.y, ys)
    grid(sheet, "y")
    if not lines:
        return draw_nothing(sheet)
    if figure.diagonal:
        diagonal(sheet, across, up)
    legend = LegendEntries()
    for line in lines:
        _draw_band(line, sheet)
    for line in lines:
        legend.add(_draw_line(line, figure, sheet), line.name)
    return legend if len(figure.lines) > 1 else LegendEntries()


def _points(line: Line, figure: Curves) -> Any:
    return drawable(line.x, figure.x.log) & drawable(line.y, figure.y.log)


def _draw_line(line: Line, figure: Curves, sheet: MplSheet) -> Line2D:
    defined = _points(line, figure)
    marks = {int(k) for k in line.marks if 0 <= k < len(line.x)}
    if defined.sum() == 1:  # a single point has no line that would show it
        marks.add(int(np.flatnonzero(defined)[0]))
    look = stroke(line.slot)
    if marks:
        look |= sign(line.slot) | {"markevery": sorted(marks)}
    (artist,) = sheet.ax.plot(
        line.x,
        line.y,
        label="_line",
        drawstyle="steps-post" if line.step else "default",
        zorder=3,
        **look,
    )
    (low, high), (bottom, top) = sheet.ax.get_xlim(), sheet.ax.get_ylim()
    x, y = np.asarray(line.x)[defined], np.asarray(line.y)[defined]
    if x.min() >= low and x.max() <= high and y.min() >= bottom and y.max() <= top:
        unclip_markers(artist, sheet)  # a curve that leaves the axes is cut there
    return artist


def _draw_band(line: Line, sheet: MplSheet) -> None:
    if line.low is None or line.high is None or not any_drawable(line.low):
        return
    step: Any = "post" if line.step else None
    area: dict[str, Any] = {"color": colour(line.slot), "linewidth": 0, "alpha": BAND, "zorder": 2}
    sheet.ax.fill_between(line.x, line.low, line.high, step=step, label="_band", **area)
    for edge in (line.low, line.high):  # faint edges keep bands apart where they overlap
        style: dict[str, Any] = {
            "color": colour(line.slot),
            "linewidth": 0.5,
            "alpha": 0.5,
            "zorder": 2,
        }
        sheet.ax.plot(
            line.x, edge, drawstyle="steps-post" if line.step else "default", label="_edge", **style
        )


def draw_histogram(figure: Histogram, sheet: MplSheet) -> LegendEntries:
    """Draw one outline per series over a pale fill, and the line of the cut."""
    n_bins = len(figure.edges) - 1
    set_axis(sheet, "x", figure.x, [figure.edges], pad=0.01)
    base, _ = set_axis(sheet, "y", figure.y, [figure.counts], zero=True)
    grid(sheet, "y")
    if n_bins < 1 or not any_drawable(figure.counts, log=figure.y.log):
        return draw_nothing(sheet)
    if np.isfinite(figure.cut):
        sheet.ax.axvline(
            figure.cut,
            color=PAPER.ink,
            linewidth=THIN,
            linestyle=(0, (4, 2)),
            label="_cut",
            zorder=4,
        )
    legend = LegendEntries()
    floor = base if figure.y.log else 0.0
    for slot, name, counts in zip(
        slots_of(figure, len(figure.series)), figure.series, figure.counts
    ):
        sheet.ax.stairs(
            counts,
            figure.edges,
            baseline=floor,
            fill=True,
            color=colour(slot),
            alpha=0.12,
            label="_area",
        )
        sheet.ax.stairs(
            counts, figure.edges, baseline=floor, label="_series", zorder=3, **stroke(slot)
        )
        legend.add(Line2D([], [], **stroke(slot)), name)
    return legend if len(figure.series) > 1 else LegendEntries()


SPREAD = 0.56  # of a row, over which its series are spread
ROOM_FOR_VALUES = 130 * MM


def draw_forest(figure: Forest, sheet: MplSheet) -> LegendEntries:
    """Draw a line per class or group, a marker and a whisker per series."""
    ax, marks = sheet.ax, [mark for row in figure.rows for mark in row.marks]
    ends = [mark.value for mark in marks] + [end for mark in marks for end in (mark.low, mark.high)]
    low, _ = set_axis(sheet, "x", figure.x, [*ends, figure.reference])
    ax.set_ylim(max(len(figure.rows), 1) - 0.5, -0.5)
    set_names(sheet, "y", [row.name for row in figure.rows], [row.strong for row in figure.rows])
    grid(sheet, "x")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    if math.isfinite(figure.reference):
        ax.axvline(figure.reference, color=PAPER.soft, linewidth=0.8, zorder=1, label="_reference")
    if not figure.rows:
        return draw_nothing(sheet)
    for k, row in enumerate(figure.rows):
        if row.strong:
            ax.axhspan(k - 0.5, k + 0.5, color=PAPER.band, linewidth=0, zorder=0)
        if k and len(figure.series) > 1:  # keeps the markers of one row together
            ax.axhline(k - 0.5, color=PAPER.line, linewidth=0.4, zorder=0.5, label="_between")
    slots, legend = slots_of(figure, len(figure.series)), LegendEntries()
    for s, (slot, name) in enumerate(zip(slots, figure.series)):
        _draw_series(figure, sheet, s, slot)
        legend.add(Line2D([], [], color=colour(slot), linewidth=LINE, **sign(slot)), name)
    _say_reasons(figure, sheet, low)
    head = _draw_columns(figure, sheet)
    return (
        LegendEntries(legend.handles, legend.names, head)
        if len(figure.series) > 1
        else LegendEntries(head=head)
    )


def _place(row: int, s: int, n: int) -> float:
    """Return the height of a series within its row."""
    if n < 2:
        return row + 0.0
    return row + SPREAD * (s / (n - 1) - 0.5)


def _marks(figure: Forest, s: int) -> list[tuple[float, ForestRow, Mark]]:
    n = len(figure.series)
    return [
        (_place(k, s, n), row, row.marks[s])
        for k, row in enumerate(figure.rows)
        if s < len(row.marks)
    ]


def _draw_series(figure: Forest, sheet: MplSheet, s: int, slot: int) -> None:
    marks = [item for item in _marks(figure, s) if drawable(item[2].value, figure.x.log)]
    whiskers = [
        (y, mark) for y, _, mark in marks if math.isfinite(mark.low) and math.isfinite(mark.high)
    ]
    heights = [y for y, _ in whiskers]
    low, high = [m.low for _, m in whiskers], [m.high for _, m in whiskers]
    look: dict[str, Any] = {"color": colour(slot), "linewidth": LINE, "label": "_whiskers"}
    sheet.ax.hlines(heights, low, high, zorder=3, **look)
    for strong in (False, True):
        part = [(y, mark.value) for y, row, mark in marks if row.strong == strong]
        marker = sign(slot, 6.2 if strong else 4.6)
        if strong and len(figure.series) == 1:
            marker |= {"marker": "D"}
        ys, values = [y for y, _ in part], [value for _, value in part]
        label = "_strong" if strong else "_marks"
        (artist,) = sheet.ax.plot(values, ys, linestyle="none", zorder=4, label=label, **marker)
        unclip_markers(artist, sheet)


def _say_reasons(figure: Forest, sheet: MplSheet, low: float) -> None:
    """Write why an estimate has no value; once, if all series of a row have the same reason."""
    n = len(figure.series)
    look: dict[str, Any] = {
        "style": "italic",
        "color": PAPER.soft,
        "size": sheet.text - (n > 1),
        "parse_math": False,
    }
    for k, row in enumerate(figure.rows):
        missing = [
            (_place(k, s, n), mark.reason)
            for s, mark in enumerate(row.marks)
            if not math.isfinite(mark.value)
        ]
        if len(missing) == n and len({reason for _, reason in missing}) == 1:
            missing = [(k, missing[0][1])]
        for y, reason in missing:
            text = words(reason or "undefined", style="italic", most=60)
            place: dict[str, Any] = {
                "textcoords": "offset points",
                "va": "center_baseline",
                "annotation_clip": False,
            }
            sheet.ax.annotate(text, (low, y), (3, 0), **place, **look)


def _draw_columns(figure: Forest, sheet: MplSheet) -> float:
    """Write n, and with one series the numbers, to the right of the axes; return the height of
    their heads.
    """
    columns = [(figure.n, [words(row.n) for row in figure.rows])]
    if len(figure.series) == 1 and sheet.room >= ROOM_FOR_VALUES:
        columns.append(
            ("value [interval]", _numbers([row.marks[0] for row in figure.rows if row.marks]))
        )
    right, size = 6.0, sheet.text
    for head, cells in columns:
        head = words(head)
        right += max(width_of(text, size, "bold") for text in (head, *cells))
        strong = [row.strong for row in figure.rows]
        for k, (text, bold) in enumerate(zip(cells, strong)):
            _write(sheet, text, ("data", k), right, "bold" if bold else "normal")
        _write(sheet, head, ("axes", 1.0), right, "normal")
        right += 10.0
    return size + 4.0


def _write(sheet: MplSheet, text: str, at: tuple[str, float], right: float, weight: str) -> None:
    """Write a cell of the table beside the axes; ``at`` is a row ("data") or a head ("axes")."""
    look: dict[str, Any] = {"va": "baseline", "color": PAPER.soft}
    coordinates, offset = "axes fraction", (right, 3)
    if at[0] == "data":
        look = {"va": "center_baseline", "color": PAPER.ink}
        coordinates, offset = "data", (right, 0)
    sheet.ax.annotate(
        text,
        (1.0, at[1]),
        offset,
        xycoords=("axes fraction", coordinates),
        textcoords="offset points",
        ha="right",
        size=sheet.text,
        weight=weight,
        annotation_clip=False,
        parse_math=False,
        **look,
    )


def _numbers(marks: Sequence[Mark]) -> list[str]:
    """Return every value with its interval; all numbers have equally many decimals."""
    flat = estimate_texts([v for mark in marks for v in (mark.value, mark.low, mark.high)])
    texts = []
    for value, low, high in zip(flat[::3], flat[1::3], flat[2::3]):
        if "–" in (value, low, high):  # undefined
            texts.append(value)
        else:
            texts.append(f"{value} [{low}, {high}]")
    return texts


def draw_bars(figure: Bars, sheet: MplSheet) -> LegendEntries:
    """Draw bars side by side or on top of each other, with whiskers where there are intervals."""
    ax, heights = sheet.ax, np.atleast_2d(np.asarray(figure.heights, np.float64))
    tops = np.nancumsum(heights, axis=0) if figure.stacked else heights
    set_axis(sheet, "x", figure.x)
    set_axis(sheet, "y", figure.y, [tops, figure.low, figure.high], zero=True)
    if figure.y.log:
        # Bars start at zero, which has no place on a logarithmic axis.
        ax.set_yscale("log", nonpositive="clip")
    grid(sheet, "y")
    ax.tick_params(axis="x", length=0)
    if not heights.size or not any_drawable(heights):
        return draw_nothing(sheet)
    legend, n = LegendEntries(), len(figure.series)
    pitch = 0.7 if figure.stacked or n == 1 else 0.8 / n
    for s, (slot, name) in enumerate(zip(slots_of(figure, n), figure.series)):
        x = np.arange(heights.shape[1], dtype=np.float64)
        if figure.stacked:
            bottom = tops[s] - np.nan_to_num(heights[s])
            ax.bar(x, heights[s], pitch, bottom=bottom, label="_bars", **fill(slot))
        else:
            x = x + (s - (n - 1) / 2) * pitch
            ax.bar(x, heights[s], pitch * 0.94, bottom=0.0, label="_bars", **fill(slot))
            _say_undefined(sheet, x, heights[s])
        _draw_whiskers(figure, sheet, s, x)
        legend.add(Patch(**fill(slot)), name)
    ax.axhline(0.0, color=PAPER.soft, linewidth=THIN, zorder=3, label="_zero")
    return legend if n > 1 else LegendEntries()


def _draw_whiskers(figure: Bars, sheet: MplSheet, s: int, x: F64) -> None:
    if figure.low is not None and figure.high is not None:
        ok = np.isfinite(figure.low[s]) & np.isfinite(figure.high[s])
        low, high = figure.low[s][ok], figure.high[s][ok]
        sheet.ax.vlines(
            x[ok], low, high, color=PAPER.ink, linewidth=0.9, zorder=4, label="_whiskers"
        )


def _say_undefined(sheet: MplSheet, x: F64, heights: F64) -> None:
    """Write a dash where a bar has no height."""
    look: dict[str, Any] = {"ha": "center", "va": "bottom", "color": PAPER.soft, "size": sheet.text}
    for place in x[~np.isfinite(heights)]:
        transform = sheet.ax.get_xaxis_transform()
        sheet.ax.text(float(place), 0.01, "–", transform=transform, **look)


FEW = 200  # samples that are shown as dots
DISC = BLUES(0.45)  # the order of models is that of their ranks, so colours of series would mislead
NAMED = 60  # more names beside points than these would be a carpet
# Where a name stands beside its point: alignments, and offset in points.
Place = tuple[str, str, tuple[float, float]]
AROUND: tuple[Place, ...] = (
    ("left", "center", (5.0, 0.0)),
    ("left", "bottom", (3.0, 2.5)),
    ("left", "top", (3.0, -2.5)),
    ("right", "center", (-5.0, 0.0)),
    ("right", "bottom", (-3.0, 2.5)),
    ("right", "top", (-3.0, -2.5)),
    ("center", "bottom", (0.0, 4.5)),
    ("center", "top", (0.0, -4.5)),
)
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def draw_scatter(figure: Scatter, sheet: MplSheet) -> LegendEntries:
    """Draw points, their error bars and their names."""
    xs = [v for d in figure.dots for v in (d.x, d.x_low, d.x_high)]
    ys = [v for d in figure.dots for v in (d.y, d.y_low, d.y_high)]
    across = set_axis(sheet, "x", figure.x, xs, pad=0.06)
    up = set_axis(sheet, "y", figure.y, ys, pad=0.06)
    grid(sheet, "y")
    series = [d for d in figure.dots if _draw_points(d, figure).any()]
    if not series:
        return draw_nothing(sheet)
    if figure.diagonal:
        diagonal(sheet, across, up)
    legend = LegendEntries()
    size, edge = 5.0, 0.5
    if sum(len(d.x) for d in series) > FEW:  # smaller points overlap less
        size, edge = 3.2, 0.2
    for dots in series:
        bar: dict[str, Any] = {
            "color": colour(dots.slot),
            "linewidth": 0.8,
            "alpha": 0.8,
            "zorder": 2,
            "label": "_bars",
        }
        if dots.x_low is not None and dots.x_high is not None:
            sheet.ax.hlines(dots.y, dots.x_low, dots.x_high, **bar)
        if dots.y_low is not None and dots.y_high is not None:
            sheet.ax.vlines(dots.x, dots.y_low, dots.y_high, **bar)
        marker = sign(dots.slot, size) | {"markeredgewidth": edge}
        (handle,) = sheet.ax.plot(
            dots.x, dots.y, linestyle="none", zorder=3, label="_dots", **marker
        )
        unclip_markers(handle, sheet)
        legend.add(handle, dots.name)
    _name_points(series, figure, sheet)
    return legend if len(figure.dots) > 1 else LegendEntries()


def _draw_points(dots: Dots, figure: Scatter) -> Any:
    return drawable(dots.x, figure.x.log) & drawable(dots.y, figure.y.log)


def _name_points(series: list[Dots], figure: Scatter, sheet: MplSheet) -> None:
    """Write each name at the first free place around its point, or else on the right."""
    scale = POINTS / sheet.ax.figure.dpi
    series_with_names = [d for d in series if not d.quiet]
    points = [
        (d, k)
        for d in series_with_names
        for k in np.flatnonzero(_draw_points(d, figure)).tolist()
        if k < len(d.names)
    ]
    if len(points) > NAMED:
        return
    occupied = [box for d, k in points for box in _boxes(d, k, sheet, scale)]
    frame = Bbox(sheet.ax.get_window_extent().get_points() * scale)
    size = sheet.text - 0.5
    for dots, k in points:
        text = words(dots.names[k])
        x, y = sheet.ax.transData.transform((dots.x[k], dots.y[k])) * scale
        areas = [_area(x, y, place, width_of(text, size), size) for place in AROUND]
        free = [
            i
            for i, area in enumerate(areas)
            if not area.count_overlaps(occupied) and _inside(area, frame)
        ]
        best = free[0] if free else 0
        occupied.append(areas[best])
        ha, va, offset = AROUND[best]
        look: dict[str, Any] = {
            "ha": ha,
            "va": va,
            "size": size,
            "color": PAPER.ink,
            "parse_math": False,
        }
        at = (float(dots.x[k]), float(dots.y[k]))
        sheet.ax.annotate(text, at, offset, textcoords="offset points", **look)


def _boxes(dots: Dots, k: int, sheet: MplSheet, scale: float) -> list[Bbox]:
    """Return what a point and its bars cover, in points."""
    x, y = float(dots.x[k]), float(dots.y[k])
    ends = [((x, y), (x, y))]
    if dots.x_low is not None and dots.x_high is not None:
        ends.append(((float(dots.x_low[k]), y), (float(dots.x_high[k]), y)))
    if dots.y_low is not None and dots.y_high is not None:
        ends.append(((x, float(dots.y_low[k])), (x, float(dots.y_high[k]))))
    defined = [pair for pair in ends if np.isfinite(pair).all()]
    boxes = [Bbox(sheet.ax.transData.transform(pair) * scale) for pair in defined]
    # The point itself has a marker around it, its bars are thin.
    return [box.padded(3.0) for box in boxes[:1]] + [box.padded(0.5) for box in boxes[1:]]


def _area(x: float, y: float, place: Place, wide: float, tall: float) -> Bbox:
    ha, va, (dx, dy) = place
    left = {"left": 0.0, "center": -wide / 2, "right": -wide}[ha]
    bottom = {"bottom": 0.0, "center": -tall / 2, "top": -tall}[va]
    return Bbox.from_bounds(x + dx + left, y + dy + bottom, wide, tall)


def _inside(box: Bbox, frame: Bbox) -> bool:
    return bool(
        box.x0 >= frame.x0 and box.x1 <= frame.x1 and box.y0 >= frame.y0 and box.y1 <= frame.y1
    )


def draw_blob(figure: Blob, sheet: MplSheet) -> LegendEntries:
    """Draw a row per model, the best on top; the area of a disc is the share of replicates with
    that rank.
    """
    ax, shares = sheet.ax, np.atleast_2d(np.asarray(figure.shares, np.float64))
    models, ranks = len(figure.models), shares.shape[1] if shares.size else 0
    ticks: tuple[float, ...] = ()
    if ranks <= 20:
        ticks = tuple(float(r) for r in range(1, ranks + 1))
    set_axis(sheet, "x", Axis("rank (1 = best)", 0.4, max(ranks, 1) + 0.6, ticks=ticks))
    ax.set_ylim(max(models, 1) - 0.5, -0.5)
    set_names(sheet, "y", figure.models)
    grid(sheet, "x")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    if not models or not any_drawable(shares):
        return draw_nothing(sheet)
    pitch = min(sheet.height / models, sheet.width / max(ranks, 1))
    area = (0.86 * pitch) ** 2  # of a disc that stands for all replicates, in square points
    for m in range(models):
        ranks_present = np.flatnonzero(np.nan_to_num(shares[m]) > 0)
        look: dict[str, Any] = {"color": DISC, "linewidth": 0, "zorder": 2, "label": "_shares"}
        ax.scatter(
            ranks_present + 1,
            np.full(len(ranks_present), m),
            s=shares[m][ranks_present] * area,
            **look,
        )
        if m < len(figure.spans) and any_drawable(figure.spans[m]):
            ax.hlines(
                [m], *figure.spans[m], color=PAPER.ink, linewidth=0.9, zorder=3, label="_span"
            )
    medians = [(value, m) for m, value in enumerate(figure.medians) if math.isfinite(value)]
    median: dict[str, Any] = {
        "marker": "|",
        "color": PAPER.ink,
        "markersize": 9,
        "markeredgewidth": 1.5,
        "linestyle": "none",
    }
    ax.plot([v for v, _ in medians], [m for _, m in medians], zorder=4, label="_medians", **median)
    return _blob_legend(median, figure.of)


def _blob_legend(median: dict[str, Any], of: str) -> LegendEntries:
    disc = Line2D([], [], marker="o", color=DISC, linestyle="none", markersize=7)
    legend = LegendEntries()
    legend.add(disc, f"{of} (area)")
    legend.add(Line2D([], [], **median), "median")
    legend.add(Line2D([], [], color=PAPER.ink, linewidth=0.9), "interval")
    return legend


def draw_box_dots(figure: BoxDots, sheet: MplSheet) -> LegendEntries:
    """Draw quartiles as a box, 5 and 95 % as whiskers, and the samples themselves where they are
    few.
    """
    samples = [np.asarray(sample, np.float64) for sample in figure.samples]
    samples = [sample[drawable(sample, figure.y.log)] for sample in samples]
    set_axis(sheet, "x", Axis("", names=figure.names))
    set_axis(sheet, "y", figure.y, samples)
    grid(sheet, "y")
    sheet.ax.tick_params(axis="x", length=0)
    if not any_drawable(*samples):
        if not figure.names:
            sheet.ax.set_xticks([])
        return draw_nothing(sheet)
    for k, (slot, sample) in enumerate(zip(slots_of(figure, len(figure.names)), samples)):
        if len(sample):
            _draw_box(sheet, k, slot, sample)
            if len(sample) <= FEW:
                _draw_dots(sheet, k, slot, sample)
    return LegendEntries()


def _draw_box(sheet: MplSheet, place: int, slot: int, sample: F64) -> None:
    """Draw one box by hand: matplotlib's own loads pyplot, and with it a window system."""
    least, low, median, high, most = np.quantile(sample, QUANTILES).tolist()
    shade, width, half = colour(slot), THIN + 0.3, 0.25
    look: dict[str, Any] = {
        "facecolor": to_rgba(shade, 0.12),
        "edgecolor": shade,
        "linewidth": width,
    }
    sheet.ax.add_patch(
        Rectangle((place - half, low), 2 * half, high - low, zorder=2, label="_box", **look)
    )
    ends = ([least, high], [low, most])
    sheet.ax.vlines(
        [place, place], *ends, color=shade, linewidth=width, zorder=2, label="_whiskers"
    )
    middle: dict[str, Any] = {"color": shade, "linewidth": LINE + 0.7, "label": "_median"}
    sheet.ax.hlines([median], place - half, place + half, zorder=4, **middle)


def _draw_dots(sheet: MplSheet, place: int, slot: int, sample: F64) -> None:
    """Spread the dots sideways by the golden ratio in order of their values: even, and the same
    every time.
    """
    order = np.argsort(np.argsort(sample, kind="stable"), kind="stable")
    aside = (order * 0.6180339887498949 % 1.0 - 0.5) * (0.36 if len(sample) > 1 else 0.0)
    look: dict[str, Any] = {
        "markersize": 2.8,
        "markerfacecolor": colour(slot),
        "markeredgewidth": 0.0,
        "alpha": 0.6,
    }
    marker = SIGNS[style(slot).marker]
    sheet.ax.plot(
        place + aside, sample, linestyle="none", marker=marker, zorder=3, label="_samples", **look
    )
