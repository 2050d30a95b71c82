# SPDX-License-Identifier: Apache-2.0
"""Curves with their bands, and histograms."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from calipers.plots.figures import Curves, Histogram, Line, slots_of
from calipers.plots.mpl.look import BAND, PAPER, THIN, colour, sign, stroke
from calipers.plots.mpl.scales import diagonal, set_axis
from calipers.plots.mpl.sheet import (
    LegendEntries,
    MplSheet,
    any_drawable,
    draw_nothing,
    drawable,
    grid,
    unclip_markers,
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
