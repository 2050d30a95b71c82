# SPDX-License-Identifier: Apache-2.0
"""Numbers over two directions: heat maps and contours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from calipers.plots.figures import F64, Contour, HeatMap, ends_of
from calipers.plots.mpl.look import BLUES, PAPER, text_colour
from calipers.plots.mpl.scales import set_axis
from calipers.plots.mpl.sheet import LegendEntries, MplSheet, any_drawable, draw_nothing, hide_frame
from calipers.plots.mpl.words import number_text, width_of, words, wrap

UNDEFINED = "–"
LEVELS = 7


def draw_heat_map(figure: HeatMap, sheet: MplSheet) -> LegendEntries:
    """Draw a cell per row and column, with its number if it fits; undefined cells are hatched."""
    ax, values = sheet.ax, np.atleast_2d(np.asarray(figure.values, np.float64))
    set_axis(sheet, "x", figure.x)
    set_axis(sheet, "y", figure.y)
    ax.set_ylim(*reversed(ax.get_ylim()))
    hide_frame(sheet)
    if not values.size:
        ax.set(xticks=[], yticks=[])
        return draw_nothing(sheet)
    colours = Normalize(*_range(figure.low, figure.high, values), clip=True)
    rows, columns = values.shape
    edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
    gap = min(1.0, sheet.width / columns / 12)
    ax.pcolormesh(
        *edges,
        np.ma.masked_invalid(values),
        cmap=BLUES,
        norm=colours,
        edgecolors=PAPER.page,
        linewidth=gap,
    )
    for r, c in np.argwhere(~np.isfinite(values)).tolist():
        look: dict[str, Any] = {
            "facecolor": PAPER.band,
            "edgecolor": PAPER.soft,
            "hatch": "////",
            "linewidth": 0,
        }
        ax.add_patch(Rectangle((c - 0.5, r - 0.5), 1, 1, label="_undefined", **look))
    _write_cells(figure, sheet, values, colours)
    colour_bar(sheet, colours, figure.label)
    return LegendEntries()


def _range(low: float, high: float, values: F64) -> tuple[float, float]:
    defined = values[np.isfinite(values)]
    low = low if math.isfinite(low) else float(defined.min(initial=0.0))
    high = high if math.isfinite(high) else float(defined.max(initial=1.0))
    return (low, high) if high > low else (low, low + 1.0)


def _write_cells(figure: HeatMap, sheet: MplSheet, values: F64, colours: Normalize) -> None:
    """Write the numbers into the cells, all or none: as large as fits, but not below 5 points."""
    rows, columns = values.shape
    texts = {(r, c): _cell_text(figure, values, r, c) for r in range(rows) for c in range(columns)}
    widest = max(width_of(text, 10.0) / 10.0 for text in set(texts.values()))
    size = min(
        sheet.text, 0.9 * sheet.width / columns / max(widest, 0.1), 0.75 * sheet.height / rows
    )
    if size < 5.0:
        return
    for (r, c), text in texts.items():
        value = values[r, c]
        shade = text_colour(BLUES(colours(value))) if math.isfinite(value) else PAPER.soft
        look: dict[str, Any] = {"size": size, "color": shade, "parse_math": False}
        sheet.ax.text(c, r, text, ha="center", va="center_baseline", **look)


def _cell_text(figure: HeatMap, values: F64, r: int, c: int) -> str:
    if figure.words:
        return words(figure.words[r][c], most=14)
    value = float(values[r, c])
    if not math.isfinite(value):
        return UNDEFINED
    whole = value == round(value) and abs(figure.high) > 1
    if whole or abs(value) >= 100:
        return number_text(value)
    return f"{value:.2f}".replace("-", "\N{MINUS SIGN}")


def colour_bar(sheet: MplSheet, colours: Normalize, label: str) -> None:
    """Draw the scale of colours beside the axes."""
    wide = 7.0 / sheet.width
    place = sheet.ax.inset_axes((1.0 + 1.2 * wide, 0.0, wide, 1.0))
    bar = sheet.ax.figure.colorbar(ScalarMappable(colours, BLUES), cax=place)
    bar.outline.set_visible(False)
    if bar.solids is not None:
        bar.solids.set_edgecolor("face")  # no pale seams between the shades in PDF viewers
    most = int(min(max(sheet.height / 28, 2), 6))
    bar.locator, bar.formatter = (
        MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]),
        FuncFormatter(lambda v, _: number_text(v)),
    )
    bar.update_ticks()
    place.tick_params(
        labelsize=sheet.text - 0.5,
        length=2,
        width=0.5,
        color=PAPER.soft,
        labelcolor=PAPER.ink,
        pad=2,
    )
    text = wrap(label, max(sheet.height, 60.0), sheet.text)
    place.set_ylabel(text, size=sheet.text, color=PAPER.ink, labelpad=3, parse_math=False)


def draw_contour(figure: Contour, sheet: MplSheet) -> LegendEntries:
    """Draw colours between lines of equal height, and label the lines."""
    values = np.ma.masked_invalid(np.atleast_2d(np.asarray(figure.values, np.float64)))
    set_axis(sheet, "x", figure.x, [figure.xs], pad=0.0)
    set_axis(sheet, "y", figure.y, [figure.ys], pad=0.0)
    if not any_drawable(values.filled(np.nan)):
        return draw_nothing(sheet)
    low, high = float(values.min()), float(values.max())
    levels = sorted({float(level) for level in figure.levels if math.isfinite(level)})
    levels = levels or [float(v) for v in MaxNLocator(LEVELS).tick_values(low, high)]
    inner = [level for level in levels if low < level < high]
    if min(values.shape) < 2 or not inner:
        return _flat(figure, sheet, values)
    sheet.ax.set_facecolor(PAPER.band)
    if figure.square:
        sheet.ax.set_aspect("equal")
    colours = Normalize(*ends_of(figure), clip=True)
    bounds = [low, *inner, high]
    areas = sheet.ax.contourf(figure.xs, figure.ys, values, levels=bounds, cmap=BLUES, norm=colours)
    areas.set(edgecolor="face", linewidth=0.3)
    shades = [text_colour(BLUES(colours(level))) for level in inner]
    lines = sheet.ax.contour(
        figure.xs, figure.ys, values, levels=inner, colors=shades, linewidths=0.7
    )
    sheet.ax.clabel(lines, fmt=number_text, fontsize=sheet.text - 0.5, inline_spacing=2)
    colour_bar(sheet, colours, figure.label)
    return LegendEntries()


def _flat(figure: Contour, sheet: MplSheet, values: np.ma.MaskedArray) -> LegendEntries:
    """Draw points where there are no lines: too few places, or the same height everywhere."""
    x, y = np.meshgrid(figure.xs, figure.ys)
    colours = Normalize(*_range(figure.low, figure.high, values.filled(np.nan)))
    look: dict[str, Any] = {
        "c": values.ravel(),
        "cmap": BLUES,
        "norm": colours,
        "marker": "s",
        "edgecolors": PAPER.soft,
    }
    sheet.ax.scatter(
        x.ravel(), y.ravel(), s=30, linewidths=0.5, clip_on=False, label="_values", **look
    )
    colour_bar(sheet, colours, figure.label)
    return LegendEntries()
