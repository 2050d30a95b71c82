# SPDX-License-Identifier: Apache-2.0
"""Where a figure is drawn: axes with their size in points, and what every kind needs of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox, TransformedBbox
from numpy.typing import NDArray

from calipers.plots.mpl.look import PAPER
from calipers.plots.mpl.words import words

POINTS = 72.0  # per inch
MM = POINTS / 25.4
NARROW = 110 * MM  # below this width, text is a point smaller
NOTHING = "nothing to show"


@dataclass(frozen=True)
class MplSheet:
    """Axes, and how large they and their text are, in points."""

    ax: Axes
    width: float
    height: float
    text: float
    room: float  # width of axes and labels together: it does not change while they share it out


@dataclass
class LegendEntries:
    """The entries of a legend, and the height above the axes that is taken already, in points."""

    handles: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    head: float = 0.0

    def add(self, handle: Any, name: str) -> None:
        """Add an entry of the legend."""
        self.handles.append(handle)
        self.names.append(name)


def sheet_of(ax: Axes, room: float | None = None) -> MplSheet:
    """Measure axes; the size of text follows from the room, which is their own width unless it is
    given.
    """
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    width, height = max(box.width * POINTS / dpi, 1.0), max(box.height * POINTS / dpi, 1.0)
    room = width if room is None else room
    return MplSheet(ax, width, height, 7.0 if room < NARROW else 8.0, room)


def prepare(sheet: MplSheet) -> None:
    """Give axes, which may be the reader's, the look of all figures."""
    ax = sheet.ax
    ax.set_facecolor(PAPER.page)
    ax.set_axisbelow(True)
    ax.grid(False, which="both")
    for side, spine in ax.spines.items():
        spine.set(visible=side in ("left", "bottom"), color=PAPER.soft, linewidth=0.7)
    ax.minorticks_off()
    ax.tick_params(
        which="both",
        labelsize=sheet.text,
        colors=PAPER.soft,
        labelcolor=PAPER.ink,
        width=0.6,
        length=3,
        pad=2.5,
        direction="out",
    )


def grid(sheet: MplSheet, side: Literal["x", "y"]) -> None:
    """Draw faint lines at the ticks of one axis, which then needs no tick marks."""
    sheet.ax.grid(True, axis=side, which="major", color=PAPER.line, linewidth=0.5)
    sheet.ax.tick_params(axis=side, length=0)


def unclip_markers(artist: Artist, sheet: MplSheet) -> None:
    """Draw markers on the edge of the axes whole; matplotlib would cut them in half."""
    x, y = 4.0 / sheet.width, 4.0 / sheet.height
    artist.set_clip_box(TransformedBbox(Bbox([[-x, -y], [1 + x, 1 + y]]), sheet.ax.transAxes))


def hide_frame(sheet: MplSheet) -> None:
    """Hide spines and tick marks, for kinds that fill their axes."""
    for spine in sheet.ax.spines.values():
        spine.set_visible(False)
    sheet.ax.tick_params(length=0)


def draw_nothing(sheet: MplSheet, why: str = "") -> LegendEntries:
    """Write that there is nothing to draw, and why if that is known."""
    text = f"{NOTHING}: {words(why, style='italic', most=80)}" if why else NOTHING
    sheet.ax.text(
        0.5,
        0.5,
        text,
        transform=sheet.ax.transAxes,
        ha="center",
        va="center",
        style="italic",
        color=PAPER.soft,
        size=sheet.text,
        parse_math=False,
    )
    return LegendEntries()


def any_drawable(*values: Any, log: bool = False) -> bool:
    """Return whether any number of these can be drawn."""
    return any(np.any(drawable(value, log)) for value in values if value is not None)


def drawable(values: Any, log: bool = False) -> NDArray[np.bool_]:
    """Return which numbers have a place on an axis: finite ones, on a logarithmic axis those above
    zero.
    """
    numbers = np.asarray(values, np.float64)
    return np.isfinite(numbers) & ((numbers > 0) | (not log))
