# SPDX-License-Identifier: Apache-2.0
"""Objects on an image, as outlines or boxes, above the map of a model."""

from __future__ import annotations

import base64
import io
import math
import warnings
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from numpy.typing import NDArray

from calipers.plots import theme
from calipers.plots.figures import BoxMark, Overlay
from calipers.plots.mpl.look import dash
from calipers.plots.mpl.sheet import LegendEntries, MplSheet, draw_nothing, hide_frame

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
    order = list(theme.MARKS)
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
            legend.add(_sample(fate), theme.MARKS[fate].words)
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
    mark = theme.MARKS[fate]
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
        "edgecolor": theme.HALO,
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
            "markeredgecolor": theme.HALO,
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
        bbox={"facecolor": theme.HALO, "alpha": 0.55, "linewidth": 0, "pad": 0.8},
        clip_on=True,
    )
