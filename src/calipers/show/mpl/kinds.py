# SPDX-License-Identifier: Apache-2.0
"""One function per kind of figure: it draws the data into axes with matplotlib's own means.

Each takes a figure of `calipers.show.figures` and axes, and returns the entries of a legend, as
pairs of a handle and a name; none if a legend would say nothing. Artists have labels that begin
with ``_`` and name what they show. Numbers that cannot be drawn (undefined, not above zero on a
logarithmic axis) are left out, and a figure without any says so. `draw` calls these functions.
"""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize, to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from calipers.arrays import F64
from calipers.show import figures
from calipers.show.figures import (
    Axis,
    Bars,
    Blob,
    BoxDots,
    BoxMark,
    Cells,
    Contour,
    Curves,
    Forest,
    HeatMap,
    Histogram,
    Mark,
    Overlay,
    Scatter,
    box_ends,
    ends_of,
    slots_of,
    style,
)
from calipers.show.mpl.axes import (
    BLUES,
    LABEL_LENGTH,
    LETTER,
    PAPER,
    SIGNS,
    colour,
    dash,
    draw_nothing,
    drawable,
    estimate_texts,
    extent,
    fill,
    number_text,
    set_axis,
    set_names,
    sign,
    stroke,
    text_colour,
    words,
    wrap,
)

Legend = list[tuple[Any, str]]
UNDEFINED = "–"
SPREAD = 0.56  # of a row, over which its series are spread
N_LENGTH = 14  # characters of "12 / 42", or of "references"
ROOM_FOR_VALUES = 300.0  # points of the axes that leave room for numbers beside them
FEW = 200  # samples that are shown as dots
MOST_NAMES = 60  # more names beside points than these would be a carpet
# The layout is computed when the figure is saved, later than the size of texts is chosen.
SHARE_OF_CELLS = 0.45  # of the width before the layout, which names and colour bar will share
LEVELS = 7
BACKGROUND = "#1b1f24"
PREDICTION_FATES = ("hit", "duplicate", "false alarm")
MOST_SCORES = 20  # on one image
THROUGH = 0.6  # opacity of cells over a picture


def draw_curves(figure: Curves, ax: Axes) -> Legend:
    """Draw lines, their bands and their marks."""
    legend: Legend = []
    for line in figure.lines:
        defined = drawable(line.x, figure.x.log) & drawable(line.y, figure.y.log)
        if not defined.any():
            continue
        x, y = np.asarray(line.x, np.float64), np.asarray(line.y, np.float64)
        marks = {int(k) for k in line.marks if 0 <= k < len(x)}
        if defined.sum() == 1:  # a single point has no line that would show it
            marks.add(int(np.flatnonzero(defined)[0]))
        drawstyle: Any = "steps-post" if line.step else "default"
        # Infinite numbers have no place, and would stretch the axes without end.
        place = np.where(np.isfinite(x), x, np.nan), np.where(np.isfinite(y), y, np.nan)
        (artist,) = ax.plot(
            *place, drawstyle=drawstyle, label="_line", zorder=3, **stroke(line.slot)
        )
        if marks:
            artist.set(**sign(line.slot), markevery=sorted(marks))
        if line.low is not None and line.high is not None:
            step: Any = "post" if line.step else None
            band: Any = {"color": colour(line.slot), "alpha": 0.16, "linewidth": 0}
            ax.fill_between(x, line.low, line.high, step=step, label="_band", **band)
        legend.append((artist, line.name))
    if not legend:
        draw_nothing(ax)
    # After the data, because matplotlib chooses the ends that the figure does not name from them.
    set_axis(ax, "x", figure.x)
    set_axis(ax, "y", figure.y)
    if figure.diagonal:
        _draw_diagonal(ax)
    grid(ax, "y")
    return legend if len(figure.lines) > 1 else []


def _draw_diagonal(ax: Axes) -> None:
    """Draw where both axes say the same; they stay as they are."""
    x, y = ax.get_xlim(), ax.get_ylim()
    low, high = max(min(x), min(y)), min(max(x), max(y))
    if low < high:
        points = np.geomspace(low, high, 50) if low > 0 else np.linspace(low, high, 50)
        line: Any = {"color": PAPER.soft, "linewidth": 0.7, "linestyle": "--"}
        ax.plot(points, points, scalex=False, scaley=False, label="_equal", **line)


def draw_histogram(figure: Histogram, ax: Axes) -> Legend:
    """Draw one outline per series over a pale fill, and the line of the cut."""
    legend: Legend = []
    if len(figure.edges) > 1 and drawable(figure.counts, figure.y.log).any():
        slots = slots_of(figure, len(figure.series))
        for slot, name, counts in zip(slots, figure.series, figure.counts):
            area: Any = {"color": colour(slot), "alpha": 0.12}
            ax.stairs(counts, figure.edges, fill=True, label="_area", **area)
            outline = ax.stairs(counts, figure.edges, label="_series", zorder=3, **stroke(slot))
            outline.set_linewidth(mpl.rcParams["lines.linewidth"])
            legend.append((Line2D([], [], **stroke(slot)), name))
        if math.isfinite(figure.cut):
            ax.axvline(figure.cut, color=PAPER.ink, linewidth=0.8, linestyle="--", label="_cut")
    else:
        draw_nothing(ax)
    set_axis(ax, "x", figure.x)
    set_axis(ax, "y", figure.y)
    grid(ax, "y")
    return legend if len(figure.series) > 1 else []


def draw_forest(figure: Forest, ax: Axes) -> Legend:
    """Draw a line per class or group, a marker and a whisker per series, and n beside them."""
    n = len(figure.series)
    legend: Legend = []
    for s, (slot, name) in enumerate(zip(slots_of(figure, n), figure.series)):
        for k, row in enumerate(figure.rows):
            # A row may have fewer marks than there are series, and a mark without a value has a
            # reason instead.
            if s < len(row.marks) and drawable(row.marks[s].value, figure.x.log):
                _draw_estimate(ax, row.marks[s], _height_in_row(k, s, n), slot, row.strong)
        legend.append((Line2D([], [], color=colour(slot), **sign(slot)), name))
    if math.isfinite(figure.reference):
        ax.axvline(figure.reference, color=PAPER.soft, linewidth=0.8, zorder=1, label="_reference")
    if not figure.rows:
        draw_nothing(ax)
    set_axis(ax, "x", figure.x)
    set_names(ax, "y", [row.name for row in figure.rows], [row.strong for row in figure.rows])
    ax.set_ylim(max(len(figure.rows), 1) - 0.5, -1.2)  # the best on top, below the heads of columns
    grid(ax, "x")
    ax.tick_params(axis="y", length=0)
    for k, row in enumerate(figure.rows):
        if row.strong:
            ax.axhspan(k - 0.5, k + 0.5, color=PAPER.band, linewidth=0, zorder=0)
    _say_reasons(figure, ax)
    _draw_columns(figure, ax)
    return legend if n > 1 else []


def _height_in_row(row: int, s: int, n: int) -> float:
    """Return the height of a series within its row."""
    return row + SPREAD * (s / (n - 1) - 0.5) if n > 1 else float(row)


def _draw_estimate(ax: Axes, mark: Mark, y: float, slot: int, strong: bool) -> None:
    if math.isfinite(mark.low) and math.isfinite(mark.high):
        ax.hlines([y], [mark.low], [mark.high], color=colour(slot), label="_whiskers", zorder=3)
    size = mpl.rcParams["lines.markersize"] * (1.3 if strong else 1.0)
    label = "_strong" if strong else "_marks"
    ax.plot([mark.value], [y], label=label, markersize=size, zorder=4, ls="none", **sign(slot))


def _say_reasons(figure: Forest, ax: Axes) -> None:
    """Write why an estimate has no value; once, if all series of a row have the same reason."""
    n = len(figure.series)
    for k, row in enumerate(figure.rows):
        missing = []
        for s, mark in enumerate(row.marks):
            if not math.isfinite(mark.value):
                missing.append((_height_in_row(k, s, n), mark.reason))
        if len(missing) == n and len({reason for _, reason in missing}) == 1:
            missing = [(float(k), missing[0][1])]
        for y, reason in missing:
            text = words(reason or "undefined", style="italic", most=40)
            look: Any = {"style": "italic", "color": PAPER.soft, "va": "center"}
            # A long reason must not take room from the axes.
            ax.text(0.01, y, text, transform=ax.get_yaxis_transform(), in_layout=False, **look)


def _draw_columns(figure: Forest, ax: Axes) -> None:
    """Write n, and with one series the numbers, to the right of the axes."""
    numbers = [words(row.n, most=N_LENGTH) for row in figure.rows]
    columns = [(words(figure.n, most=N_LENGTH), numbers)]
    if len(figure.series) == 1 and extent(ax, "x") >= ROOM_FOR_VALUES:
        texts = _interval_texts([row.marks[0] for row in figure.rows if row.marks])
        columns.append(("value [interval]", texts))
    letter, right = 1.05 * LETTER * mpl.rcParams["font.size"], 8.0
    for head, cells in columns:
        right += letter * max(len(text) for text in (head, *cells))
        for row, text in enumerate((head, *cells), start=-1):
            y, shade = (row, PAPER.ink) if row >= 0 else (-0.85, PAPER.soft)
            ax.annotate(
                text,
                (1.0, y),
                (right, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                ha="right",
                va="center",
                color=shade,
                annotation_clip=False,
            )
        right += 8.0


def _interval_texts(marks: list[Mark]) -> list[str]:
    """Return every value with its interval; all numbers have equally many decimals."""
    numbers: list[float] = []
    for mark in marks:
        numbers += [mark.value, mark.low, mark.high]
    flat = estimate_texts(numbers)
    texts = []
    for value, low, high in zip(flat[::3], flat[1::3], flat[2::3]):
        undefined = UNDEFINED in (value, low, high)
        texts.append(value if undefined else f"{value} [{low}, {high}]")
    return texts


def draw_bars(figure: Bars, ax: Axes) -> Legend:
    """Draw bars side by side or on top of each other, with whiskers where there are intervals."""
    heights = np.atleast_2d(np.asarray(figure.heights, np.float64))
    legend: Legend = []
    n = len(figure.series)
    if figure.y.log:
        # Bars start at zero, which has no place on a logarithmic axis.
        ax.set_yscale("log", nonpositive="clip")
    if heights.size and drawable(heights).any():
        width = 0.7 if figure.stacked or n == 1 else 0.8 / n
        bottom = np.zeros(heights.shape[1])
        for s, (slot, name) in enumerate(zip(slots_of(figure, n), figure.series)):
            x = np.arange(heights.shape[1], dtype=np.float64)
            if not figure.stacked:
                x += (s - (n - 1) / 2) * width
            ax.bar(x, heights[s], width, bottom=bottom, label="_bars", **fill(slot))
            if figure.stacked:
                # A piece without a value is a gap of height 0, not the end of the stack.
                bottom = bottom + np.nan_to_num(heights[s])
            else:
                for place in x[~np.isfinite(heights[s])].tolist():
                    at: Any = {"transform": ax.get_xaxis_transform(), "ha": "center"}
                    ax.text(place, 0.01, UNDEFINED, color=PAPER.soft, **at)
            if figure.low is not None and figure.high is not None:
                defined = np.isfinite(figure.low[s]) & np.isfinite(figure.high[s])
                ends = figure.low[s][defined], figure.high[s][defined]
                bar: Any = {"color": PAPER.ink, "linewidth": 0.9, "label": "_whiskers"}
                ax.vlines(x[defined], *ends, zorder=4, **bar)
            legend.append((Patch(**fill(slot)), name))
        if not figure.y.log:
            ax.axhline(0.0, color=PAPER.soft, linewidth=0.6, zorder=3, label="_zero")
    else:
        draw_nothing(ax)
    set_axis(ax, "x", figure.x)
    set_axis(ax, "y", figure.y)
    grid(ax, "y")
    return legend if n > 1 else []


def draw_scatter(figure: Scatter, ax: Axes) -> Legend:
    """Draw points, their error bars and their names."""
    legend: Legend = []
    names: list[tuple[float, float, str]] = []
    for dots in figure.dots:
        defined = drawable(dots.x, figure.x.log) & drawable(dots.y, figure.y.log)
        if not defined.any():
            continue
        bar: Any = {"color": colour(dots.slot), "linewidth": 0.8, "label": "_bars"}
        if dots.x_low is not None and dots.x_high is not None:
            ax.hlines(dots.y, dots.x_low, dots.x_high, **bar)
        if dots.y_low is not None and dots.y_high is not None:
            ax.vlines(dots.x, dots.y_low, dots.y_high, **bar)
        size = 5.0 if len(dots.x) <= FEW else 3.2  # smaller points overlap less
        (handle,) = ax.plot(
            dots.x, dots.y, ls="none", label="_dots", zorder=3, markersize=size, **sign(dots.slot)
        )
        legend.append((handle, dots.name))
        for k in np.flatnonzero(defined).tolist():
            if k < len(dots.names) and not dots.quiet:
                names.append((float(dots.x[k]), float(dots.y[k]), dots.names[k]))
    if not legend:
        draw_nothing(ax)
    set_axis(ax, "x", figure.x)
    set_axis(ax, "y", figure.y)
    if figure.diagonal:
        _draw_diagonal(ax)
    grid(ax, "y")
    if len(names) <= MOST_NAMES:
        _name_points(names, ax)
    return legend if len(figure.dots) > 1 else []


def _name_points(names: list[tuple[float, float, str]], ax: Axes) -> None:
    """Write each name beside its point, towards the middle; from bottom to top, names stand below
    and above their points in turn, so that those of two neighbours do not meet.
    """
    for k, (x, y, name) in enumerate(sorted(names, key=lambda point: point[1])):
        # The place of the point in the axes, from 0 to 1: names near the right edge stand to the
        # left.
        across = ax.transAxes.inverted().transform(ax.transData.transform((x, y)))[0]
        side, aside = ("left", 3) if across < 0.6 else ("right", -3)
        vertical, up = ("top", -3) if k % 2 == 0 else ("bottom", 3)
        look: Any = {"ha": side, "va": vertical, "fontsize": "small", "color": PAPER.ink}
        place: Any = {"xytext": (aside, up), "textcoords": "offset points"}
        ax.annotate(words(name), (x, y), parse_math=False, **place, **look)


def draw_blob(figure: Blob, ax: Axes) -> Legend:
    """Draw a row per model, the best on top; the area of a disc is the share of replicates with
    that rank.
    """
    shares = np.nan_to_num(np.atleast_2d(np.asarray(figure.shares, np.float64)))
    models, ranks = len(figure.models), shares.shape[1]
    legend: Legend = []
    if models and ranks:
        # Discs of neighbouring rows or columns must not overlap.
        pitch = min(extent(ax, "y") / models, extent(ax, "x") / ranks)
        area = (0.8 * pitch) ** 2  # of a disc that stands for all replicates, in square points
        # The order of models is that of their ranks, so colours of series would mislead.
        disc = BLUES(0.45)
        for m in range(models):
            present = np.flatnonzero(shares[m] > 0)
            places = present + 1, np.full(len(present), m)
            ax.scatter(*places, s=shares[m][present] * area, color=disc, label="_shares")
            if m < len(figure.spans) and np.isfinite(figure.spans[m]).all():
                ax.hlines([m], *figure.spans[m], color=PAPER.ink, linewidth=0.9, label="_span")
        tick: Any = {"marker": "|", "color": PAPER.ink, "markersize": 9, "markeredgewidth": 1.5}
        ax.plot(figure.medians, np.arange(models), ls="none", label="_medians", **tick)
        legend = [
            (Line2D([], [], marker="o", color=disc, ls="none"), f"{figure.of} (area)"),
            (Line2D([], [], ls="none", **tick), "median"),
            (Line2D([], [], color=PAPER.ink, linewidth=0.9), "interval"),
        ]
    else:
        draw_nothing(ax)
    ticks = tuple(float(rank) for rank in range(1, ranks + 1)) if ranks <= 20 else ()
    set_axis(ax, "x", Axis("rank (1 = best)", 0.4, max(ranks, 1) + 0.6, ticks=ticks))
    set_names(ax, "y", figure.models)
    ax.invert_yaxis()
    grid(ax, "x")
    return legend


def draw_box_dots(figure: BoxDots, ax: Axes) -> Legend:
    """Draw quartiles as a box, whiskers, and the samples themselves where they are few."""
    slots = slots_of(figure, len(figure.names))
    empty = True
    for k, (slot, values) in enumerate(zip(slots, figure.samples)):
        sample = np.asarray(values, np.float64)
        sample = sample[drawable(sample, figure.y.log)]
        if len(sample):
            empty = False
            _draw_box(ax, k, colour(slot), sample)
        if 0 < len(sample) <= FEW:
            _draw_samples(ax, k, slot, sample)
    if empty:
        draw_nothing(ax)
    set_axis(ax, "x", Axis("", names=figure.names or ("",)))
    set_axis(ax, "y", figure.y)
    grid(ax, "y")
    return []


def _draw_box(ax: Axes, place: int, shade: str, sample: F64) -> None:
    """Draw one box by hand: matplotlib's own loads pyplot, and with it a window system."""
    least, low, median, high, most = box_ends(sample)
    box: Any = {"facecolor": to_rgba(shade, 0.12), "edgecolor": shade, "label": "_box"}
    ax.add_patch(Rectangle((place - 0.25, low), 0.5, high - low, **box))
    ax.vlines([place, place], [least, high], [low, most], color=shade, label="_whiskers")
    ax.hlines([median], place - 0.25, place + 0.25, color=shade, linewidth=2.0, label="_median")


def _draw_samples(ax: Axes, place: int, slot: int, sample: F64) -> None:
    """Spread the dots sideways by the golden ratio in order of their values: even, and the same
    every time.
    """
    order = np.argsort(np.argsort(sample, kind="stable"), kind="stable")
    aside = (order * 0.6180339887498949 % 1.0 - 0.5) * 0.36
    if len(sample) == 1:
        aside = np.zeros(1)
    dot: Any = {"marker": SIGNS[style(slot).marker], "color": colour(slot), "markersize": 2.8}
    ax.plot(place + aside, sample, ls="none", alpha=0.6, mew=0, label="_samples", **dot)


def draw_heat_map(figure: HeatMap, ax: Axes) -> Legend:
    """Draw a cell per row and column, with its number if it fits; undefined cells are hatched."""
    values = np.atleast_2d(np.asarray(figure.values, np.float64))
    if not values.size:
        draw_nothing(ax)
        ax.set(xticks=[], yticks=[], xlabel=figure.x.label, ylabel=figure.y.label)
        return []
    rows, columns = values.shape
    colours = Normalize(*_range(figure.low, figure.high, values), clip=True)
    edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
    ax.pcolormesh(*edges, np.ma.masked_invalid(values), cmap=BLUES, norm=colours)
    # Empty cells would look like the lightest shade, so undefined ones are hatched.
    hatch: Any = {"facecolor": PAPER.band, "edgecolor": PAPER.soft, "hatch": "////", "linewidth": 0}
    for r, c in np.argwhere(~np.isfinite(values)).tolist():
        ax.add_patch(Rectangle((c - 0.5, r - 0.5), 1, 1, label="_undefined", **hatch))
    set_axis(ax, "x", figure.x)
    set_axis(ax, "y", figure.y)
    ax.invert_yaxis()
    ax.tick_params(length=0)
    _write_cells(figure, ax, values, colours)
    _colour_bar(ax, colours, figure.label)
    return []


def _range(low: float, high: float, values: F64) -> tuple[float, float]:
    defined = values[np.isfinite(values)]
    if not math.isfinite(low):
        low = float(defined.min(initial=0.0))
    if not math.isfinite(high):
        high = float(defined.max(initial=1.0))
    # Colours need a range: a constant map gets one of width 1.
    return low, high if high > low else low + 1.0


def _write_cells(figure: HeatMap, ax: Axes, values: F64, colours: Normalize) -> None:
    """Write the numbers into the cells, all or none: as large as fits, but not below 5 points."""
    rows, columns = values.shape
    texts = {}
    for r, c in np.ndindex(rows, columns):
        texts[r, c] = _cell_text(figure, float(values[r, c]), r, c)
    longest = max(map(len, texts.values()))
    across = SHARE_OF_CELLS * extent(ax, "x") / columns / max(LETTER * longest, 0.1)
    size = min(mpl.rcParams["font.size"], across, 0.7 * extent(ax, "y") / rows)
    if size < 5.0:
        return
    for (r, c), text in texts.items():
        value = values[r, c]
        shade = text_colour(BLUES(colours(value))) if math.isfinite(value) else PAPER.soft
        ax.text(c, r, text, ha="center", va="center", size=size, color=shade)


def _cell_text(figure: HeatMap, value: float, r: int, c: int) -> str:
    if figure.words:
        return words(figure.words[r][c], most=14)
    if not math.isfinite(value):
        return UNDEFINED
    whole = value == round(value) and abs(figure.high) > 1
    if whole or abs(value) >= 100:
        return number_text(value)
    return f"{value:.2f}".replace("-", "\N{MINUS SIGN}")


def _colour_bar(ax: Axes, colours: Normalize, label: str) -> None:
    """Draw the scale of colours beside the axes."""
    bar = ax.figure.colorbar(ScalarMappable(colours, BLUES), ax=ax, pad=0.02, fraction=0.05)
    bar.locator = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
    bar.formatter = FuncFormatter(lambda value, _: number_text(value))
    bar.update_ticks()
    text = wrap(label[:LABEL_LENGTH], max(extent(ax, "y"), 60.0), mpl.rcParams["font.size"])
    bar.ax.set_ylabel(text, parse_math=False)


def draw_contour(figure: Contour, ax: Axes) -> Legend:
    """Draw colours between lines of equal height, and label the lines."""
    values = np.ma.masked_invalid(np.atleast_2d(np.asarray(figure.values, np.float64)))
    if values.size and values.count():
        low, high = float(values.min()), float(values.max())
        # matplotlib wants rising levels, and lines only strictly inside the range of the data.
        levels = sorted({float(level) for level in figure.levels if math.isfinite(level)})
        levels = levels or [float(v) for v in MaxNLocator(LEVELS).tick_values(low, high)]
        inner = [level for level in levels if low < level < high]
        if min(values.shape) >= 2 and inner:
            _draw_heights(figure, ax, values, [low, *inner, high])
        else:
            _draw_points(figure, ax, values)
    else:
        draw_nothing(ax)
    set_axis(ax, "x", figure.x)
    set_axis(ax, "y", figure.y)
    return []


def _draw_heights(figure: Contour, ax: Axes, values: Any, levels: list[float]) -> None:
    if figure.square:
        ax.set_aspect("equal")
    colours = Normalize(*ends_of(figure), clip=True)
    ax.contourf(figure.xs, figure.ys, values, levels=levels, cmap=BLUES, norm=colours)
    inner = levels[1:-1]
    shades = [text_colour(BLUES(colours(level))) for level in inner]
    lines = ax.contour(figure.xs, figure.ys, values, levels=inner, colors=shades, linewidths=0.7)
    ax.clabel(lines, fmt=number_text, fontsize="small", inline_spacing=2)
    _colour_bar(ax, colours, figure.label)


def _draw_points(figure: Contour, ax: Axes, values: Any) -> None:
    """Draw points where there are no lines: too few places, or the same height everywhere."""
    x, y = np.meshgrid(figure.xs, figure.ys)
    colours = Normalize(*_range(figure.low, figure.high, values.filled(np.nan)))
    look: Any = {"cmap": BLUES, "norm": colours, "marker": "s", "edgecolors": PAPER.soft}
    ax.scatter(x.ravel(), y.ravel(), c=values.ravel(), label="_values", **look)
    _colour_bar(ax, colours, figure.label)


def draw_overlay(figure: Overlay, ax: Axes) -> Legend:
    """Draw the image, or a dark frame in its place, and the boxes, each over a dark halo."""
    width, height = figure.size
    _hide_frame(ax)
    if not (width > 0 and height > 0 and math.isfinite(width * height)):
        draw_nothing(ax, "the image has no size")
        return []
    ax.set_facecolor(BACKGROUND)
    _draw_picture(ax, figure.picture, (0, width, height, 0), "_picture")
    _draw_picture(ax, figure.shade, (0, width, height, 0), "_map")
    ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    marks = [mark for mark in figure.marks if all(map(math.isfinite, mark.box))]
    order = list(figures.MARKS)
    # In the order of the theme, so that the same fates are on top in every figure.
    for mark in sorted(marks, key=lambda mark: order.index(mark.fate)):
        _draw_mark(mark, ax, figure.size)
    scored = [mark for mark in marks if mark.fate in PREDICTION_FATES and math.isfinite(mark.score)]
    if len(scored) <= MOST_SCORES:
        for mark in scored:
            _say_score(mark, ax, figure.size)
    fates = {mark.fate for mark in marks}
    legend: Legend = []
    for fate in order:
        if fate in fates:
            # On the dark background of pictures, as the colours of marks were chosen for it.
            sample = Patch(facecolor=BACKGROUND, **_edge_style(fate))
            legend.append((sample, figures.MARKS[fate].words))
    return legend


def grid(ax: Axes, side: Any) -> None:
    """Draw faint lines at the ticks of one axis."""
    ax.grid(True, axis=side, which="major", color=PAPER.line, linewidth=0.5)


def _hide_frame(ax: Axes) -> None:
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)


def _draw_picture(
    ax: Axes, picture: str, place: tuple[float, float, float, float], label: str
) -> bool:
    """Draw a ``data:`` address; return whether there was one that can be read."""
    pixels = pixels_of(picture)
    if pixels is None:
        return False
    grey: Any = {"cmap": "gray", "vmin": 0, "vmax": 255} if pixels.ndim == 2 else {}
    ax.imshow(pixels, extent=place, aspect="auto", label=label, **grey)
    return True


def pixels_of(picture: str) -> NDArray[np.uint8] | None:
    """Return the pixels of a ``data:`` address; None if there are none or they cannot be read."""
    from PIL import Image

    head, _, body = picture.partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64"):
        return None
    # A figure with a picture that cannot be shown is still worth drawing, so nothing is raised.
    bombs = (Image.DecompressionBombError, Image.DecompressionBombWarning)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(base64.b64decode(body, validate=True))) as image:
                # Grey stays grey and keeps its own colour map; all else becomes RGB.
                kind = {"1": "L", "L": "L", "RGBA": "RGBA"}.get(image.mode, "RGB")
                return np.asarray(image.convert(kind))
    except (ValueError, OSError, SyntaxError, *bombs):
        return None


def _edge_style(fate: str) -> dict[str, Any]:
    mark = figures.MARKS[fate]
    # The theme states dashes in pixels, matplotlib wants multiples of the line width.
    pattern = dash(tuple(2.0 * length / mark.width for length in mark.dash))
    return {"edgecolor": mark.colour, "linewidth": 0.7 * mark.width, "linestyle": pattern}


def _draw_mark(mark: BoxMark, ax: Axes, size: tuple[float, float]) -> None:
    x0, y0, x1, y1 = mark.box
    edge = _edge_style(mark.fate)
    halo = {"edgecolor": figures.HALO, "linewidth": edge["linewidth"] + 1.0, "alpha": 0.6}
    for label, look in (("_halo", halo), (f"_{mark.fate}", edge)):
        ax.add_patch(_patch(mark, fill=False, label=label, **look))
    if x1 < 0 or y1 < 0 or x0 > size[0] or y0 > size[1]:  # off the picture: a sign at its edge
        x, y = np.clip([(x0 + x1) / 2, (y0 + y1) / 2], 0, size).tolist()
        cross: Any = {"marker": "X", "color": edge["edgecolor"], "mec": figures.HALO}
        ax.plot([x], [y], clip_on=False, label="_outside", **cross)


def _patch(mark: BoxMark, **look: Any) -> Patch:
    x0, y0, x1, y1 = mark.box
    if not mark.outline:
        return Rectangle((x0, y0), x1 - x0, y1 - y0, **look)
    rings = [Path([*ring, ring[0]], closed=True) for ring in mark.outline]
    return PathPatch(Path.make_compound_path(*rings), **look)


def _say_score(mark: BoxMark, ax: Axes, size: tuple[float, float]) -> None:
    x0, y0, _, y1 = mark.box
    y, offset, alignment = y0, (1, 2), "bottom"
    if y0 < 0.06 * size[1]:  # no room above the box
        y, offset, alignment = y1, (1, -2), "top"
    ax.annotate(
        f"{mark.score:.2f}",
        (max(x0, 0.0), y),
        offset,
        textcoords="offset points",
        va=alignment,
        fontsize="small",
        color="#ffffff",
        bbox={"facecolor": figures.HALO, "alpha": 0.55, "linewidth": 0, "pad": 0.8},
        clip_on=True,
    )


def draw_cells(figure: Cells, ax: Axes) -> Legend:
    """Draw a shade per cell; over a picture, cells of 0 are transparent."""
    rows, columns = figure.counts.shape
    _hide_frame(ax)
    if not rows or not columns:
        draw_nothing(ax, "no cells")
        return []
    place = (0.0, float(columns), float(rows), 0.0)
    counts, opacity = np.ma.masked_array(figure.counts, False), 1.0
    if _draw_picture(ax, figure.picture, place, "_picture"):
        counts, opacity = np.ma.masked_equal(figure.counts, 0), THROUGH
    colours = Normalize(0, max(figure.most, 1))
    look: Any = {"cmap": BLUES, "norm": colours, "interpolation": "nearest", "alpha": opacity}
    ax.imshow(counts, extent=place, label="_cells", **look)
    ax.set(xlim=(0, columns), ylim=(rows, 0), aspect=figure.aspect)
    _colour_bar(ax, colours, figure.label)
    if figure.inside is None or not figure.inside.any():
        return []
    pieces = _border(figure.inside)
    for width, shade in ((2.6, PAPER.page), (1.4, colour(1))):
        ax.add_collection(LineCollection(pieces, colors=shade, linewidths=width, zorder=2))
    return [(Line2D([], [], color=colour(1)), "reference")]


def _border(inside: NDArray[np.bool_]) -> list[Any]:
    """Return the pieces of the line between cells inside and outside."""
    padded = np.pad(inside, 1).astype(np.int8)
    flat = np.argwhere(np.diff(padded, axis=0)[:, 1:-1])
    upright = np.argwhere(np.diff(padded, axis=1)[1:-1])
    pieces = [((c, r), (c + 1, r)) for r, c in flat.tolist()]
    return pieces + [((c, r), (c, r + 1)) for r, c in upright.tolist()]


# Below the functions that it names; `draw` looks up the class of a figure here.
KINDS: dict[type, Callable[[Any, Axes], Legend]] = {
    Curves: draw_curves,
    Forest: draw_forest,
    Bars: draw_bars,
    HeatMap: draw_heat_map,
    Scatter: draw_scatter,
    Blob: draw_blob,
    BoxDots: draw_box_dots,
    Contour: draw_contour,
    Overlay: draw_overlay,
    Histogram: draw_histogram,
    Cells: draw_cells,
}
