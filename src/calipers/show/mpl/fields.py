# SPDX-License-Identifier: Apache-2.0
"""Numbers over two directions: heat maps and contours.

Objects on an image, as outlines or boxes, above the map of a model.

Cells of an image: a whole number each, over its picture, and the line of the reference.
"""

from __future__ import annotations

import base64
import io
import math
import warnings
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from calipers.arrays import F64
from calipers.show import figures
from calipers.show.figures import BoxMark, Cells, Contour, HeatMap, Overlay, ends_of, style
from calipers.show.mpl.axes import (
    BLUES,
    PAPER,
    LegendEntries,
    MplSheet,
    any_drawable,
    dash,
    draw_nothing,
    hide_frame,
    number_text,
    set_axis,
    text_colour,
    width_of,
    words,
    wrap,
)

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


BACKGROUND = "#1b1f24"
PREDICTED = ("hit", "duplicate", "false alarm")
MOST_SCORES = 20  # on one image


def draw_overlay(figure: Overlay, sheet: MplSheet) -> LegendEntries:
    """Draw the image, or a dark frame in its place, and the boxes, each over a dark halo."""
    ax, (width, height) = sheet.ax, figure.size
    hide_frame(sheet)
    ax.set(xticks=[], yticks=[])
    ax.set_facecolor(BACKGROUND)
    if not (width > 0 and height > 0 and math.isfinite(width * height)):
        ax.set_facecolor("none")
        return draw_nothing(sheet, "the image has no size")
    pixels = pixels_of(figure.picture)
    if pixels is not None:
        grey: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 255} if pixels.ndim == 2 else {}
        ax.imshow(pixels, extent=(0, width, height, 0), zorder=0, **grey)
    shade = pixels_of(figure.shade)
    if shade is not None:
        ax.imshow(shade, extent=(0, width, height, 0), zorder=0.5, label="_map")
    ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal", anchor="NW")
    marks = [mark for mark in figure.marks if all(map(math.isfinite, mark.box))]
    order = list(figures.MARKS)
    for mark in sorted(marks, key=lambda mark: order.index(mark.fate)):
        _draw_mark(mark, sheet, figure.size)
    scored = [mark for mark in marks if mark.fate in PREDICTED and math.isfinite(mark.score)]
    if len(scored) <= MOST_SCORES:
        for mark in scored:
            _say_score(mark, sheet, figure.size)
    legend = LegendEntries()
    fates = {mark.fate for mark in marks}
    for fate in order:
        if fate in fates:
            legend.add(_sample(fate), figures.MARKS[fate].words)
    return legend


def pixels_of(picture: str) -> NDArray[np.uint8] | None:
    """Return the pixels of a ``data:`` address; None if there are none or they cannot be read."""
    from PIL import Image

    head, _, body = picture.partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(base64.b64decode(body, validate=True))) as image:
                # Grey stays grey and keeps its own colour map; all else becomes RGB.
                kind = {"1": "L", "L": "L", "RGBA": "RGBA"}.get(image.mode, "RGB")
                return np.asarray(image.convert(kind))
    except (
        ValueError,
        OSError,
        SyntaxError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ):
        return None


def _edge(fate: str) -> dict[str, Any]:
    mark = figures.MARKS[fate]
    pattern = dash(tuple(2.0 * length / mark.width for length in mark.dash))
    return {"edgecolor": mark.colour, "linewidth": 0.7 * mark.width, "linestyle": pattern}


def _sample(fate: str) -> tuple[Line2D, Line2D]:
    """Return the line of a fate on a dark ground, as on the image, for the legend."""
    edge = _edge(fate)
    line = Line2D(
        [], [], color=edge["edgecolor"], linewidth=edge["linewidth"], linestyle=edge["linestyle"]
    )
    return Line2D([], [], color=BACKGROUND, linewidth=5.0), line


def _draw_mark(mark: BoxMark, sheet: MplSheet, size: tuple[float, float]) -> None:
    x0, y0, x1, y1 = mark.box
    edge = _edge(mark.fate)
    halo: dict[str, Any] = {
        "edgecolor": figures.HALO,
        "linewidth": edge["linewidth"] + 1.0,
        "alpha": 0.6,
    }
    for label, look in (("_halo", halo), (f"_{mark.fate}", edge)):
        sheet.ax.add_patch(_patch(mark, fill=False, label=label, **look))
    if x1 < 0 or y1 < 0 or x0 > size[0] or y0 > size[1]:  # off the picture: a sign at its edge
        at = float(np.clip((x0 + x1) / 2, 0, size[0])), float(np.clip((y0 + y1) / 2, 0, size[1]))
        cross: dict[str, Any] = {
            "marker": "X",
            "color": edge["edgecolor"],
            "markeredgecolor": figures.HALO,
            "markersize": 5,
        }
        sheet.ax.plot([at[0]], [at[1]], clip_on=False, label="_outside", **cross)


def _patch(mark: BoxMark, **look: Any) -> Patch:
    x0, y0, x1, y1 = mark.box
    if not mark.outline:
        return Rectangle((x0, y0), x1 - x0, y1 - y0, **look)
    rings = [Path([*ring, ring[0]], closed=True) for ring in mark.outline]
    return PathPatch(Path.make_compound_path(*rings), **look)


def _say_score(mark: BoxMark, sheet: MplSheet, size: tuple[float, float]) -> None:
    x0, y0, _, y1 = mark.box
    y, offset, alignment = y0, (1, 2), "bottom"
    if y0 < 0.06 * size[1]:  # no room above the box
        y, offset, alignment = y1, (1, -2), "top"
    sheet.ax.annotate(
        f"{mark.score:.2f}",
        (max(x0, 0.0), y),
        offset,
        textcoords="offset points",
        va=alignment,
        size=sheet.text - 1.5,
        color="#ffffff",
        bbox={"facecolor": figures.HALO, "alpha": 0.55, "linewidth": 0, "pad": 0.8},
        clip_on=True,
    )


THROUGH = 0.6  # opacity over a picture


def draw_cells(figure: Cells, sheet: MplSheet) -> LegendEntries:
    """Draw a shade per cell; over a picture, cells of 0 are transparent."""
    ax, (rows, columns) = sheet.ax, figure.counts.shape
    hide_frame(sheet)
    ax.set(xticks=[], yticks=[])
    if not rows or not columns:
        return draw_nothing(sheet, "no cells")
    extent = (0.0, float(columns), float(rows), 0.0)
    pixels, counts = pixels_of(figure.picture), np.ma.masked_array(figure.counts, False)
    if pixels is not None:
        grey: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 255} if pixels.ndim == 2 else {}
        ax.imshow(pixels, aspect="auto", extent=extent, zorder=0, label="_picture", **grey)
        counts = np.ma.masked_equal(figure.counts, 0)
    colours = Normalize(0, max(figure.most, 1))
    look: dict[str, Any] = {"alpha": 1.0 if pixels is None else THROUGH, "interpolation": "nearest"}
    ax.imshow(counts, cmap=BLUES, norm=colours, extent=extent, zorder=0.5, label="_cells", **look)
    ax.set(xlim=(0, columns), ylim=(rows, 0), aspect=figure.aspect, anchor="NW")
    colour_bar(sheet, colours, figure.label)
    legend = LegendEntries()
    if figure.inside is not None and figure.inside.any():
        _around(figure.inside, sheet, legend)
    return legend


def _around(
    inside: np.ndarray[Any, np.dtype[np.bool_]], sheet: MplSheet, legend: LegendEntries
) -> None:
    """Draw the border between cells inside and outside."""
    padded = np.pad(inside, 1).astype(np.int8)
    flat = np.argwhere(np.diff(padded, axis=0)[:, 1:-1])
    upright = np.argwhere(np.diff(padded, axis=1)[1:-1])
    pieces = [((c, r), (c + 1, r)) for r, c in flat.tolist()] + [
        ((c, r), (c, r + 1)) for r, c in upright.tolist()
    ]
    colour, pattern = PAPER.series[style(1).slot], dash(())
    for width, shade in ((2.6, PAPER.page), (1.4, colour)):
        sheet.ax.add_collection(
            LineCollection(pieces, colors=shade, linewidths=width, linestyles=[pattern], zorder=2)
        )
    legend.add(Line2D([], [], color=colour, linewidth=1.4), "reference")
