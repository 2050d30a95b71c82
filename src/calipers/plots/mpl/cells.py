# SPDX-License-Identifier: Apache-2.0
"""Cells of an image: a whole number each, over its picture, and the line of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D

from calipers.plots.figures import Cells
from calipers.plots.mpl.fields import colour_bar
from calipers.plots.mpl.look import BLUES, PAPER, dash
from calipers.plots.mpl.overlay import pixels_of
from calipers.plots.mpl.sheet import LegendEntries, MplSheet, draw_nothing, hide_frame
from calipers.plots.theme import style

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
