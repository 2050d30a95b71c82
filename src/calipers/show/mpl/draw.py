# SPDX-License-Identifier: Apache-2.0
"""Figures drawn with matplotlib, for papers and notebooks (extra ``mpl``).

matplotlib is loaded by the first call, and its global state (pyplot, ``rcParams``) is left as it
was.

Draw one figure into given axes: first its kind, then legend and title above it.

Lay out a new matplotlib figure of a given width: as high as its kind needs, plus its labels.

How much room labels need depends on the size of the axes, and the size of the axes on the room, so
the figure is drawn in a few rounds.

Save figures as PDF with embedded fonts, SVG with text as text, or PNG.

Files hold no dates, so that equal figures give equal bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from calipers.errors import UsageError
from calipers.results.files import write_atomically
from calipers.show import figures
from calipers.show.figures import Figure
from calipers.show.mpl.axes import (
    MM,
    NAME_LENGTH,
    NARROW,
    PAPER,
    POINTS,
    SENTENCE_LENGTH,
    LegendEntries,
    MplSheet,
    look,
    prepare,
    sheet_of,
    width_of,
    words,
    wrap,
)
from calipers.show.mpl.fields import draw_cells, draw_contour, draw_heat_map, draw_overlay
from calipers.show.mpl.kinds import (
    draw_bars,
    draw_blob,
    draw_box_dots,
    draw_curves,
    draw_forest,
    draw_histogram,
    draw_scatter,
)


def draw(figure: Figure, ax: Axes | None = None, *, title: bool = True) -> Axes:
    """Draw a figure and return its axes.

    Parameters
    ----------
    figure
        One of the kinds of `calipers.show.figures`.
    ax
        Axes to draw into; a new matplotlib figure, 170 mm wide, if left out. It is unknown to
        pyplot and needs no closing; a notebook shows it when the axes are the last value of a cell.
    title
        Draw the finding above (and, in a new figure, the note below). A paper says both in its
        caption instead.

    Examples
    --------
    >>> import numpy as np
    >>> from calipers.show.figures import Axis, Curves, Line
    >>> line = Line("ours", np.array([0.1, 1.0, 10.0]), np.array([0.4, 0.6, 0.7]))
    >>> x, y = Axis("false alarms", log=True), Axis("found")
    >>> axes = draw(Curves("Ours finds 60 %", x, y, (line,)))
    >>> axes.get_xlabel()
    'false alarms'
    """
    _check_installed()

    if ax is None:
        return new_axes(figure, title=title)
    draw_into(figure, ax, title=title)
    return ax


def save(
    figure: Figure,
    path: str | Path,
    *,
    width_mm: float = 170.0,
    height_mm: float | None = None,
    dpi: float = 300.0,
    title: bool = True,
) -> Path:
    """Write a figure as PDF, SVG or PNG, by the suffix, and return the path. Equal figures give
    equal bytes.

    Parameters
    ----------
    width_mm
        As printed: 85 fills a column of most journals, 170 a page. Text has the same size in both.
    height_mm
        What suits the figure, if left out.
    dpi
        Pixels per inch of PNG files, and of pictures within PDF and SVG.
    title
        As in `draw`.
    """
    _check_installed()

    return save_as(figure, Path(path), width_mm=width_mm, height_mm=height_mm, dpi=dpi, title=title)


def _check_installed() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError(
            'figures for papers need matplotlib: pip install "calipers[mpl]"'
        ) from None


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


FORMATS = ("pdf", "svg", "png")
SMALLEST, LARGEST = 30.0, 2500.0  # mm
MOST_PIXELS = 200_000_000


def save_as(
    figure: Figure, path: Path, *, width_mm: float, height_mm: float | None, dpi: float, title: bool
) -> Path:
    """Draw a figure and write it as the suffix says."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(f"a figure is written as .pdf, .svg or .png, got {path.name!r}")
    _check_length("width_mm", width_mm)
    _check_length("height_mm", 100.0 if height_mm is None else height_mm)
    if not 10 <= dpi <= 2400:
        raise UsageError(f"dpi must be between 10 and 2400, got {dpi}")
    canvas: Any = new_axes(figure, width_mm=width_mm, height_mm=height_mm, title=title).figure
    if kind == "png" and math.prod(canvas.get_size_inches()) * dpi**2 > MOST_PIXELS:
        raise UsageError(f"a picture of more than {MOST_PIXELS} pixels: lower dpi, or write a .pdf")
    buffer = io.BytesIO()
    with look():
        canvas.savefig(buffer, format=kind, dpi=dpi, metadata=_metadata(kind, figure))
    write_atomically(path, buffer.getvalue())
    return path


def _check_length(name: str, value: float) -> None:
    if not SMALLEST <= value <= LARGEST:
        raise UsageError(f"{name} must be between {SMALLEST:g} and {LARGEST:g}, got {value}")


def _metadata(kind: str, figure: Figure) -> dict[str, Any]:
    """Return the metadata of a file: its title and its creator, but no date."""
    title = words(figure.title, weight="bold", most=SENTENCE_LENGTH)
    metadata: dict[str, dict[str, Any]] = {
        "pdf": {"Title": title, "Creator": "Calipers", "CreationDate": None},
        "svg": {"Title": title, "Creator": "Calipers", "Date": None},
        "png": {"Title": title, "Software": "Calipers"},
    }
    return metadata[kind]
