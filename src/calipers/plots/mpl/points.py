# SPDX-License-Identifier: Apache-2.0
"""Points in a plane, blobs of ranks, and boxes with dots."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox

from calipers.plots.figures import F64, Axis, Blob, BoxDots, Dots, Scatter, slots_of
from calipers.plots.mpl.look import BLUES, LINE, PAPER, SIGNS, THIN, colour, sign
from calipers.plots.mpl.scales import diagonal, set_axis, set_names
from calipers.plots.mpl.sheet import (
    POINTS,
    LegendEntries,
    MplSheet,
    any_drawable,
    draw_nothing,
    drawable,
    grid,
    unclip_markers,
)
from calipers.plots.mpl.words import width_of, words
from calipers.plots.theme import style

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
    series = [d for d in figure.dots if _points(d, figure).any()]
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


def _points(dots: Dots, figure: Scatter) -> Any:
    return drawable(dots.x, figure.x.log) & drawable(dots.y, figure.y.log)


def _name_points(series: list[Dots], figure: Scatter, sheet: MplSheet) -> None:
    """Write each name at the first free place around its point, or else on the right."""
    scale = POINTS / sheet.ax.figure.dpi
    series_with_names = [d for d in series if not d.quiet]
    points = [
        (d, k)
        for d in series_with_names
        for k in np.flatnonzero(_points(d, figure)).tolist()
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
