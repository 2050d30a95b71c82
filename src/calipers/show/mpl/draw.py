# SPDX-License-Identifier: Apache-2.0
"""Figures drawn with matplotlib, for papers and notebooks (extra ``mpl``).

`draw` puts a figure into axes, the reader's or new ones, and `save` writes it as PDF with embedded
fonts, SVG with text as text, or PNG. `kinds` draws the data; here are title, legend, note, the size
of the canvas and files. The look is plain matplotlib with its own layout; the designed look is that
of `calipers.show.svg`.

Results call `draw` in their ``plot``, studies call `save`. matplotlib is loaded by the first call,
and its global state (pyplot, ``rcParams``) is left as it was. Files hold no dates, so that equal
figures give equal bytes.
"""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from calipers.errors import UsageError
from calipers.results.files import write_atomically
from calipers.show import figures
from calipers.show.figures import Figure
from calipers.show.mpl.axes import (
    LETTER,
    PAPER,
    POINTS,
    SENTENCE_LENGTH,
    extent,
    labels_of,
    look,
    words,
    wrap,
)
from calipers.show.mpl.kinds import KINDS, Legend

MM = POINTS / 25.4
WIDTH_MM = 170.0
NARROW_MM = 110.0  # below this width, text is a point smaller
SCREEN = 100.0  # pixels per inch
FORMATS = ("pdf", "svg", "png")
SMALLEST, LARGEST = 30.0, 2500.0  # mm
MOST_PIXELS = 200_000_000


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
    with look():
        _draw_into(figure, ax, title=title)
    return ax


def save(
    figure: Figure,
    path: str | Path,
    *,
    width_mm: float = WIDTH_MM,
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
    path = Path(path)
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
    # Drawn into memory first: a failure leaves no half of a file.
    buffer = io.BytesIO()
    with look():
        canvas.savefig(buffer, format=kind, dpi=dpi, metadata=_metadata(kind, figure))
    write_atomically(path, buffer.getvalue())
    return path


def _check_installed() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError(
            'figures for papers need matplotlib: pip install "calipers[mpl]"'
        ) from None


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


class ShownAxes(Axes):
    """Axes that a notebook shows as their picture; pyplot does not know them."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        canvas, buffer = self.figure, io.BytesIO()
        with look():
            canvas.savefig(buffer, format="png", dpi=2 * SCREEN)  # type: ignore[union-attr]
        # Twice the pixels of the place on the screen, for screens of high resolution.
        width = round(canvas.get_figwidth() * SCREEN)  # type: ignore[union-attr]
        return buffer.getvalue(), {"width": width}


def new_axes(
    figure: Figure,
    *,
    width_mm: float = WIDTH_MM,
    height_mm: float | None = None,
    title: bool = True,
) -> Axes:
    """Draw a figure on a canvas of its own, which matplotlib lays out."""
    with look(7.0 if width_mm < NARROW_MM else 8.0):
        size = mpl.rcParams["font.size"]
        width = width_mm * MM
        headline = wrap(figure.title, 0.97 * width, size, "bold") if title else ""
        note = wrap(figure.note, 0.97 * width, size - 1) if title else ""
        height = (height_mm or 0.0) * MM
        if height_mm is None:
            lines = headline.count("\n") + note.count("\n") + 5  # with ticks and labels
            height = _natural_height(figure, width) + 1.3 * size * lines
        canvas = Canvas((width / POINTS, height / POINTS), dpi=SCREEN, layout="constrained")
        # Not `pyplot.figure`: pyplot would keep the figure alive and choose a window system.
        FigureCanvasAgg(canvas)
        ax = canvas.add_subplot(axes_class=ShownAxes)
        above = _draw_into(figure, ax, title=False)
        if height_mm is None:
            # The height of the legend is known only after it was drawn; the axes must not pay for
            # it.
            canvas.set_figheight((height + above) / POINTS)
        if headline:
            canvas.suptitle(headline, x=0.01, ha="left", size=size, weight="bold")
        if note:
            canvas.supxlabel(note, x=0.01, ha="left", size=size - 1, color=PAPER.soft)
        return ax


def _natural_height(figure: Figure, width: float) -> float:
    """Return the height in points that suits the axes of a figure on a canvas of a width."""
    # About a fifth of the width goes to numbers and labels.
    inner = 0.8 * width
    match figure:
        case figures.Forest(rows=rows, series=series):
            height = (len(rows) + 1.2) * (5.0 + 2.6 * max(len(series) - 1, 0)) * MM
        case figures.HeatMap(x=x, y=y):
            cell = min(max(inner / max(len(x.names), 1), 5.0 * MM), 9.0 * MM)
            height = max(len(y.names), 2) * cell
        case figures.Blob(models=models):
            cell = min(max(inner / max(len(models), 1), 5.0 * MM), 11.0 * MM)
            height = max(len(models), 2) * cell
        case figures.Overlay(size=(across, down)) if across > 0 and down > 0:
            height = min(inner * down / across, 150.0 * MM)
        case figures.Cells(counts=counts, aspect=aspect) if counts.size:
            height = min(inner * aspect * counts.shape[0] / counts.shape[1], 110.0 * MM)
        case figures.Scatter() | figures.Contour():
            height = min(max(0.75 * inner, 50.0 * MM), 100.0 * MM)
        case _:
            height = min(max(0.55 * inner, 46.0 * MM), 85.0 * MM)
    return min(max(height, 20.0 * MM), 2000.0 * MM)


def _draw_into(figure: Figure, ax: Axes, *, title: bool) -> float:
    """Draw the data, and the legend and the title above them; return the height of the legend in
    points.
    """
    kind = next((kind for kind in type(figure).__mro__ if kind in KINDS), None)
    if kind is None:
        names = ", ".join(kind.__name__ for kind in KINDS)
        raise UsageError(f"cannot draw {type(figure).__name__}; known: {names}")
    ax.spines[["top", "right"]].set_visible(False)
    legend = KINDS[kind](figure, ax)
    above = _draw_legend(ax, legend) if legend else 0.0
    if title and figure.title:
        text = wrap(figure.title, extent(ax, "x"), mpl.rcParams["font.size"], "bold")
        ax.set_title(text, loc="left", pad=above + 6.0, parse_math=False)
    return above


def _draw_legend(ax: Axes, legend: Legend) -> float:
    """Draw the legend above the axes, in as many columns as fit; return its height in points."""
    names = labels_of([name for _, name in legend])
    entry = LETTER * mpl.rcParams["font.size"] * (max(map(len, names)) + 6)
    # matplotlib leaves out names that start with "_", so the real names are set afterwards.
    box = ax.legend(
        [handle for handle, _ in legend],
        [str(k) for k in range(len(names))],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=int(min(max(extent(ax, "x") // entry, 1), len(names))),
        frameon=False,
        borderaxespad=0.3,
    )
    for text, name in zip(box.get_texts(), names):
        text.set(text=name, parse_math=False)
    return float(box.get_window_extent().height * POINTS / ax.figure.dpi)
