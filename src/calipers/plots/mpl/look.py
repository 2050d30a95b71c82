# SPDX-License-Identifier: Apache-2.0
"""The theme in matplotlib's terms: settings, dashes, markers, hatches and a scale of colours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import matplotlib as mpl
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb

from calipers.plots import theme
from calipers.plots.mpl.words import families

PAPER = theme.DAY  # paper is white
SIGNS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "cross": "X",
    "plus": "P",
    "star": "*",
}
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----", "++++")
LINE = 1.3  # points
THIN = 0.6
BAND = 0.16  # opacity
DASH_UNIT = 2.0  # the theme states dashes for lines that are two pixels wide

# One hue from light to dark in even steps of luminance, through the first colour of the series.
BLUES: Colormap = LinearSegmentedColormap.from_list(
    "calipers", ("#eef5fb", "#a9cfe8", "#5aa2cf", "#0072B2", "#0a3a63")
)


def settings() -> dict[str, Any]:
    """Return what is set while drawing and saving; sizes that depend on the figure are set where
    they are used.
    """
    return {
        "font.family": families(),
        "font.size": 8.0,
        "text.color": PAPER.ink,
        "text.usetex": False,
        "text.hinting": "no_hinting",  # text is as wide at any resolution, as it is in PDF
        "text.parse_math": False,
        "axes.unicode_minus": True,
        "axes.facecolor": PAPER.page,
        "axes.edgecolor": PAPER.soft,
        "axes.labelcolor": PAPER.ink,
        "axes.titlecolor": PAPER.ink,
        "axes.grid": False,
        "axes.axisbelow": True,
        "axes.autolimit_mode": "data",
        "figure.facecolor": PAPER.page,
        "savefig.facecolor": PAPER.page,
        "savefig.bbox": None,
        "savefig.transparent": False,
        "hatch.linewidth": 0.5,
        "hatch.color": PAPER.page,
        "lines.scale_dashes": True,
        "lines.solid_capstyle": "butt",
        "path.sketch": None,
        "pdf.fonttype": 42,
        "pdf.compression": 6,
        "svg.fonttype": "none",
        "svg.hashsalt": "calipers",
        "svg.image_inline": True,
    }


@contextmanager
def look() -> Iterator[None]:
    """Draw in the look of the theme; afterwards everything is as it was."""
    with mpl.rc_context(cast("Any", settings())):
        yield


def colour(slot: int) -> str:
    """Return the colour of a series."""
    return PAPER.series[theme.style(slot).slot]


def dash(pattern: tuple[float, ...]) -> Any:
    """Return matplotlib's form of a dash pattern of the theme."""
    if not pattern:
        return "-"
    return 0, tuple(length / DASH_UNIT for length in pattern)


def stroke(slot: int, width: float = LINE) -> dict[str, Any]:
    """Return colour, dash and width of the line of a series."""
    return {"color": colour(slot), "linestyle": dash(theme.style(slot).dash), "linewidth": width}


def sign(slot: int, size: float = 5.0) -> dict[str, Any]:
    """Return the marker of a series; its pale edge keeps it apart from what lies below."""
    name = theme.style(slot).marker
    scale = {
        "square": 0.9,
        "diamond": 0.85,
        "star": 1.5,
        "cross": 1.15,
        "plus": 1.15,
        "triangle": 1.1,
    }.get(name, 1.0)
    return {
        "marker": SIGNS[name],
        "markersize": size * scale,
        "markerfacecolor": colour(slot),
        "markeredgecolor": PAPER.page,
        "markeredgewidth": 0.5,
    }


def fill(slot: int) -> dict[str, Any]:
    """Return how an area of a series is filled: colour, and a hatch that tells the same."""
    n = len(HATCHES)
    return {
        "facecolor": colour(slot),
        "edgecolor": PAPER.page,
        "hatch": HATCHES[(slot + slot // n) % n],
        "linewidth": 0.4,
    }


def text_colour(background: Any) -> str:
    """Return black or white, whichever stands out more; the contrast is never below 4.5 : 1."""
    return "#000000" if luminance(background) > 0.179 else "#ffffff"


def luminance(shade: Any) -> float:
    """Return the relative luminance of a colour, after the Web Content Accessibility Guidelines."""
    red, green, blue = map(_linear, to_rgb(shade))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    """Return a channel of sRGB in linear light."""
    if channel <= 0.04045:
        return channel / 12.92
    return float(((channel + 0.055) / 1.055) ** 2.4)
