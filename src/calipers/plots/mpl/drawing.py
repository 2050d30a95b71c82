# SPDX-License-Identifier: Apache-2.0
"""Draw one figure into given axes: first its kind, then legend and title above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes

from calipers.errors import UsageError
from calipers.plots import figures
from calipers.plots.mpl.cells import draw_cells
from calipers.plots.mpl.estimates import draw_bars, draw_forest
from calipers.plots.mpl.fields import draw_contour, draw_heat_map
from calipers.plots.mpl.lines import draw_curves, draw_histogram
from calipers.plots.mpl.look import PAPER, look
from calipers.plots.mpl.overlay import draw_overlay
from calipers.plots.mpl.points import draw_blob, draw_box_dots, draw_scatter
from calipers.plots.mpl.sheet import POINTS, LegendEntries, MplSheet, prepare, sheet_of
from calipers.plots.mpl.words import width_of, words, wrap

KINDS: dict[type, Callable[[Any, MplSheet], LegendEntries]] = {
    figures.Curves: draw_curves,
    figures.Forest: draw_forest,
    figures.Bars: draw_bars,
    figures.HeatMap: draw_heat_map,
    figures.Scatter: draw_scatter,
    figures.Blob: draw_blob,
    figures.BoxDots: draw_box_dots,
    figures.Contour: draw_contour,
    figures.Overlay: draw_overlay,
    figures.Histogram: draw_histogram,
    figures.Cells: draw_cells,
}
GAP = 5.0  # points between title, legend and axes
HANDLE, HANDLE_GAP, COLUMN_GAP = 2.6, 0.6, 1.6  # of the legend, in sizes of its text


def draw_into(figure: figures.Figure, ax: Axes, *, title: bool = True) -> None:
    """Draw into the reader's axes; their figure and its layout are left alone."""
    with look():
        sheet = sheet_of(ax)
        legend = draw_kind(figure, sheet)
        draw_above(figure, sheet, legend, left=0.0, width=sheet.width, title=title)


def draw_kind(figure: figures.Figure, sheet: MplSheet) -> LegendEntries:
    """Draw what is special to the kind."""
    kind = next((kind for kind in type(figure).__mro__ if kind in KINDS), None)
    if kind is None:
        raise UsageError(
            f"cannot draw {type(figure).__name__}; known: {', '.join(k.__name__ for k in KINDS)}"
        )
    prepare(sheet)
    return KINDS[kind](figure, sheet)


def draw_above(
    figure: figures.Figure,
    sheet: MplSheet,
    legend: LegendEntries,
    *,
    left: float,
    width: float,
    title: bool,
) -> float:
    """Put legend and title above the axes, ``left`` points beside their edge; return the height
    used, in points.
    """
    top = legend.head
    if legend.handles:
        top += GAP + _draw_legend(sheet, legend, left, width)
    if not title or not figure.title:
        return top
    size = sheet.text + 0.5
    title_text = wrap(figure.title, width, size, "bold")
    text = sheet.ax.set_title(
        title_text, loc="left", pad=top + GAP + 2, y=1.0, size=size, weight="bold", color=PAPER.ink
    )
    text.set(parse_math=False, x=-left / sheet.width, linespacing=1.2)
    return top + GAP + 2 + text.get_window_extent().height * POINTS / sheet.ax.figure.dpi


def _draw_legend(sheet: MplSheet, entries: LegendEntries, left: float, width: float) -> float:
    """Draw the legend in as many columns as fit; return its height in points."""
    names, size = [words(name) for name in entries.names], sheet.text
    entry = max(width_of(name, size) for name in names) + size * (HANDLE + HANDLE_GAP + COLUMN_GAP)
    # matplotlib leaves out names that start with "_", so the real names are set afterwards.
    numbers = [str(k) for k in range(len(names))]
    legend = sheet.ax.legend(
        entries.handles,
        numbers,
        loc="lower left",
        bbox_to_anchor=(-left / sheet.width, 1.0 + (entries.head + GAP) / sheet.height),
        ncols=int(min(max(width // entry, 1), len(names))),
        frameon=False,
        borderpad=0.0,
        borderaxespad=0.0,
        fontsize=size,
        labelcolor=PAPER.ink,
        labelspacing=0.35,
        handlelength=HANDLE,
        handletextpad=HANDLE_GAP,
        columnspacing=COLUMN_GAP,
    )
    for text, name in zip(legend.get_texts(), names):
        text.set(text=name, parse_math=False)
    return float(legend.get_window_extent().height * POINTS / sheet.ax.figure.dpi)
