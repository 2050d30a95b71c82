# SPDX-License-Identifier: Apache-2.0
"""Lay out a new matplotlib figure of a given width: as high as its kind needs, plus its labels.

How much room labels need depends on the size of the axes, and the size of the axes on the room, so
the figure is drawn in a few rounds.
"""

from __future__ import annotations

import io
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from calipers.plots import figures
from calipers.plots.mpl.drawing import draw_above, draw_kind
from calipers.plots.mpl.look import PAPER, look
from calipers.plots.mpl.sheet import MM, NARROW, POINTS, LegendEntries, sheet_of
from calipers.plots.mpl.words import NAME_LENGTH, wrap

WIDTH_MM = 170.0
EDGE = 3.0  # points around everything
LEAST = 15 * MM  # of the axes, in both directions
HIGHEST = 2000 * MM
# names that lean or wrap change the room, which changes what leans; two rounds mostly do
ROUNDS = 4
SCREEN = 100.0  # pixels per inch


class ShownAxes(Axes):
    """Axes that a notebook shows as their picture; pyplot does not know them."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        canvas, buffer = self.figure, io.BytesIO()
        with look():
            canvas.savefig(buffer, format="png", dpi=2 * SCREEN)  # type: ignore[union-attr]
        width = round(canvas.get_figwidth() * SCREEN)  # type: ignore[union-attr]
        return buffer.getvalue(), {"width": width}


@dataclass(frozen=True)
class Margins:
    """Room around the axes, in points."""

    left: float
    right: float
    bottom: float
    top: float


def new_axes(
    figure: figures.Figure,
    *,
    width_mm: float = WIDTH_MM,
    height_mm: float | None = None,
    title: bool = True,
) -> Axes:
    """Draw a figure on a canvas of its own."""
    with look():
        width = width_mm * MM
        canvas = Canvas(figsize=(width / POINTS, width / POINTS), dpi=SCREEN)
        FigureCanvasAgg(canvas)
        ax = canvas.add_axes((0.2, 0.2, 0.7, 0.6), axes_class=ShownAxes)
        margins = Margins(50.0, 10.0, 30.0, 30.0)
        for _ in range(ROUNDS):
            _place(canvas, ax, figure, margins, height_mm)
            before, margins = margins, _draw_round(canvas, ax, figure, title)
            if np.allclose(astuple(before), astuple(margins), rtol=0.0, atol=0.5):
                break
        return ax


def _place(
    canvas: Canvas, ax: Axes, figure: figures.Figure, margins: Margins, height_mm: float | None
) -> None:
    """Give the axes what the margins leave; the height of the canvas follows from them, or they
    from it.
    """
    width = canvas.get_figwidth() * POINTS
    inner = max(width - margins.left - margins.right, LEAST)
    around = margins.bottom + margins.top
    deep = (
        natural_height(figure, inner, width)
        if height_mm is None
        else max(height_mm * MM - around, LEAST)
    )
    height = deep + around if height_mm is None else height_mm * MM
    canvas.set_size_inches(width / POINTS, height / POINTS)
    ax.set_position((margins.left / width, margins.bottom / height, inner / width, deep / height))


def natural_height(figure: figures.Figure, width: float, room: float) -> float:
    """Return the height in points that suits a figure, for axes of a width on a canvas that is
    ``room`` wide.
    """
    match figure:
        case figures.Forest(rows=rows, series=series):
            two_lines = room < NARROW and any(len(row.name) > NAME_LENGTH for row in rows)
            height = (
                max(len(rows), 2) * max(5.0 + 2.6 * max(len(series) - 1, 0), 7.0 * two_lines) * MM
            )
        case figures.HeatMap(x=x, y=y):
            height = max(len(y.names), 2) * min(
                max(width / max(len(x.names), 1), 5.0 * MM), 9.0 * MM
            )
        case figures.Blob(models=models):
            height = max(len(models), 2) * min(
                max(width / max(len(models), 1), 5.0 * MM), 11.0 * MM
            )
        case figures.Overlay(size=(across, down)) if across > 0 and down > 0:
            height = min(width * down / across, 150.0 * MM)
        case figures.Cells(counts=counts, aspect=aspect) if counts.size:
            height = min(width * aspect * counts.shape[0] / counts.shape[1], 110.0 * MM)
        case figures.Scatter() | figures.Contour():
            height = min(max(0.75 * width, 50.0 * MM), 100.0 * MM)
        case _:
            height = min(max(0.55 * width, 46.0 * MM), 85.0 * MM)
    return min(max(height, LEAST), HIGHEST)


def _draw_round(canvas: Canvas, ax: Axes, figure: figures.Figure, title: bool) -> Margins:
    """Draw everything anew and return the room that it takes around the axes."""
    ax.clear()
    for text in list(canvas.texts):
        text.remove()
    width = canvas.get_figwidth() * POINTS
    sheet = sheet_of(ax, width)
    legend: LegendEntries = draw_kind(figure, sheet)
    left, right, bottom = _overhang(ax)
    inner = width - 2 * EDGE
    top = draw_above(figure, sheet, legend, left=left, width=inner, title=title)
    note = _draw_note(canvas, figure.note, inner, sheet.text - 1) if title else 0.0
    return Margins(left + EDGE, right + EDGE, bottom + note + EDGE, top + EDGE)


def _overhang(ax: Axes) -> tuple[float, float, float]:
    """Return how far labels reach beyond the axes: left, right and below, in points."""
    box, full = ax.get_window_extent(), ax.get_tightbbox()
    scale = POINTS / ax.figure.dpi
    if full is None:
        return 0.0, 0.0, 0.0
    lengths = (box.x0 - full.x0, full.x1 - box.x1, box.y0 - full.y0)
    left, right, bottom = (max(float(length) * scale, 0.0) for length in lengths)
    return left, right, bottom


def _draw_note(canvas: Canvas, note: str, width: float, size: float) -> float:
    """Write the note along the lower edge; return the height it takes, in points."""
    if not note:
        return 0.0
    place = EDGE / (canvas.get_figwidth() * POINTS), EDGE / (canvas.get_figheight() * POINTS)
    lines = wrap(note, width, size)
    look_of_note: dict[str, Any] = {
        "size": size,
        "color": PAPER.soft,
        "parse_math": False,
        "linespacing": 1.2,
    }
    text = canvas.text(*place, lines, ha="left", va="bottom", **look_of_note)
    return float(text.get_window_extent().height * POINTS / canvas.dpi) + 5.0
