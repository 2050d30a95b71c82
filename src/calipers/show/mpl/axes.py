# SPDX-License-Identifier: Apache-2.0
"""What every kind of figure needs of matplotlib: text that can be drawn, the theme, and axes.

Text comes from data: characters without a glyph are replaced, long names are cut, and nothing is
taken for a formula. Colours, dashes and markers are those of `calipers.show.figures`, so that a
paper and the page agree on which series is which. `set_axis` gives an axis what a figure asks for;
the rest is left to matplotlib. `kinds` and `draw` call these functions.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb
from matplotlib.font_manager import FontProperties, fontManager, get_font
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator
from numpy.typing import NDArray

from calipers.show import figures
from calipers.show.figures import Axis
from calipers.show.similar_names import tell_apart
from calipers.show.words import short_name

AxisName = Literal["x", "y"]
LAST_RESORT = "DejaVu Sans"  # comes with matplotlib
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
NAME_LENGTH = 28
ROW_LENGTH = 48  # names of rows, which have more room than those of columns
LABEL_LENGTH = 150
SENTENCE_LENGTH = 600
NO_BREAK = re.compile(r" %|[<>]?= ")  # spaces at which no line ends
SHORTEST_LINE = 12  # characters
LETTER = 0.56  # width of a letter on average, in sizes of the text
POINTS = 72.0  # per inch
NOTHING = "nothing to show"

PAPER = figures.DAY  # paper is white
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
DASH_UNIT = 2.0  # the theme states dashes for lines that are two pixels wide

# One hue from light to dark in even steps of luminance, through the first colour of the series.
BLUES: Colormap = LinearSegmentedColormap.from_list(
    "calipers", ("#eef5fb", "#a9cfe8", "#5aa2cf", "#0072B2", "#0a3a63")
)


def families() -> list[str]:
    """Return the installed fonts of the settings, and one that always exists as fallback."""
    names = mpl.rcParams["font.family"]
    return list(_available_fonts((names,) if isinstance(names, str) else tuple(names)))


@lru_cache(maxsize=64)
def _available_fonts(names: tuple[str, ...]) -> tuple[str, ...]:
    available = [name for name in names if _font_file(name, "normal", "normal")]
    return tuple(dict.fromkeys([*available, LAST_RESORT]))


def words(
    text: str, *, weight: str = "normal", style: str = "normal", most: int = NAME_LENGTH
) -> str:
    """Return a text that can be drawn, at most ``most`` characters long."""
    text = str(text)
    if len(text) > most:
        text = text[: most - 1].rstrip() + "…"
    # A missing glyph would be a warning of matplotlib and an empty box in the figure.
    glyphs = _glyphs(tuple(families()), weight, style)
    return "".join(_drawable_character(character, glyphs) for character in text)


def labels_of(names: Sequence[str], most: int = NAME_LENGTH) -> list[str]:
    """Return names that stand beside each other as labels, at most ``most`` characters long; names
    that differ keep labels that differ.
    """

    def shorten(name: str) -> str:
        return short_name(name, most, (most - 1) * 2 // 5)

    different = tell_apart(names, shorten, most)
    return [words(different.get(name) or shorten(name), most=most) for name in names]


def _drawable_character(character: str, glyphs: frozenset[int]) -> str:
    if unicodedata.category(character) == "Zs":
        return " "
    return character if character.isprintable() and ord(character) in glyphs else REPLACEMENT


@lru_cache(maxsize=64)
def _glyphs(names: tuple[str, ...], weight: str, style: str) -> frozenset[int]:
    codes: set[int] = set()
    for name in names:
        if file := _font_file(name, weight, style):
            codes.update(get_font(file).get_charmap())
    return frozenset(codes)


def _font_file(family: str, weight: str, style: str) -> str:
    font = FontProperties(family=[family], style=cast("Any", style), weight=weight)
    try:
        path = fontManager.findfont(font, fallback_to_default=False)
    except ValueError:  # no such font here
        return ""
    return str(path)


def wrap(text: str, width: float, size: float, weight: str = "normal") -> str:
    """Return a sentence in lines of about ``width`` points; only words beyond that are broken."""
    # "95 %" and "n >= 5" stay together: textwrap does not break at these spaces.
    bound = NO_BREAK.sub(lambda match: match[0].replace(" ", "\u00a0"), str(text)[:SENTENCE_LENGTH])
    letter = LETTER * size * (1.15 if weight == "bold" else 1.0)
    lines = textwrap.wrap(bound, max(int(width / letter), SHORTEST_LINE), break_on_hyphens=False)
    return "\n".join(words(line, weight=weight, most=SENTENCE_LENGTH) for line in lines)


def number_text(value: float) -> str:
    """Return a number for a tick: a real minus sign, an exponent only if it is needed."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else ""
    text = f"{value:.6g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.3g}"
    return text.replace("-", "\N{MINUS SIGN}")


def estimate_texts(values: list[float]) -> list[str]:
    """Return estimates of one column with equally many decimals; an undefined one is a dash."""
    # One pattern for the whole column, by its largest number.
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    if largest < 10:
        pattern = ".3f"
    elif largest < 1000:
        pattern = ".1f"
    elif largest < 1e6:
        pattern = ".0f"
    else:
        pattern = ".4g"
    texts = []
    for value in values:
        text = f"{value:{pattern}}".replace("-", "\N{MINUS SIGN}")
        texts.append(text if math.isfinite(value) else "–")
    return texts


@contextmanager
def look(size: float | None = None) -> Iterator[None]:
    """Draw in the look of the theme, with text of a size; afterwards everything is as it was."""
    settings: dict[str, Any] = {
        "font.family": families(),
        "font.size": size or mpl.rcParams["font.size"],
        "axes.labelsize": "medium",
        "axes.titlesize": "medium",
        "axes.titleweight": "bold",
        "xtick.labelsize": "medium",
        "ytick.labelsize": "medium",
        "legend.fontsize": "medium",
        "text.color": PAPER.ink,
        "text.usetex": False,
        "text.hinting": "no_hinting",  # text is as wide at any resolution, as it is in PDF
        "text.parse_math": False,
        "axes.unicode_minus": True,
        "axes.facecolor": PAPER.page,
        "axes.edgecolor": PAPER.soft,
        "axes.labelcolor": PAPER.ink,
        "axes.grid": False,
        "axes.axisbelow": True,
        "axes.linewidth": 0.7,
        "axes.autolimit_mode": "data",
        "axes.xmargin": 0.03,
        "axes.ymargin": 0.05,
        "figure.facecolor": PAPER.page,
        "savefig.facecolor": PAPER.page,
        "savefig.bbox": None,
        "savefig.transparent": False,
        "hatch.linewidth": 0.5,
        "hatch.color": PAPER.page,
        "lines.linewidth": 1.3,
        "lines.markersize": 5.0,
        "lines.scale_dashes": True,
        "path.sketch": None,
        # TrueType in PDF, and text as text in SVG: many journals refuse Type 3 fonts, and texts
        # stay editable. The salt makes the ids of SVG files the same every time.
        "pdf.fonttype": 42,
        "pdf.compression": 6,
        "svg.fonttype": "none",
        "svg.hashsalt": "calipers",
        "svg.image_inline": True,
    }
    with mpl.rc_context(cast("Any", settings)):
        yield


def colour(slot: int) -> str:
    """Return the colour of a series."""
    return PAPER.series[figures.style(slot).slot]


def dash(pattern: tuple[float, ...]) -> Any:
    """Return matplotlib's form of a dash pattern of the theme."""
    return (0, tuple(length / DASH_UNIT for length in pattern)) if pattern else "-"


def stroke(slot: int) -> dict[str, Any]:
    """Return colour and dash of the line of a series."""
    return {"color": colour(slot), "linestyle": dash(figures.style(slot).dash)}


def sign(slot: int) -> dict[str, Any]:
    """Return the marker of a series; its pale edge keeps it apart from what lies below."""
    return {
        "marker": SIGNS[figures.style(slot).marker],
        "markerfacecolor": colour(slot),
        "markeredgecolor": PAPER.page,
        "markeredgewidth": 0.5,
    }


def fill(slot: int) -> dict[str, Any]:
    """Return how an area of a series is filled: colour, and a hatch that tells the same."""
    n = len(HATCHES)
    # Slots that share a colour have different hatches.
    hatch = HATCHES[(slot + slot // n) % n]
    return {"facecolor": colour(slot), "edgecolor": PAPER.page, "hatch": hatch, "linewidth": 0.4}


def text_colour(background: Any) -> str:
    """Return black or white, whichever stands out more; the contrast is never below 4.5 : 1."""
    # At this luminance black and white have equal contrast by WCAG 2: (L + 0.05)^2 = 1.05 * 0.05.
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


def drawable(values: Any, log: bool = False) -> NDArray[np.bool_]:
    """Return which numbers have a place on an axis: finite ones, on a logarithmic axis those above
    zero.
    """
    numbers = np.asarray(values, np.float64)
    return np.isfinite(numbers) & ((numbers > 0) | (not log))


def draw_nothing(ax: Axes, why: str = "") -> None:
    """Write that there is nothing to draw, and why if that is known."""
    text = f"{NOTHING}: {why}" if why else NOTHING
    ax.text(
        0.5,
        0.5,
        text,
        transform=ax.transAxes,
        ha="center",
        va="center",
        style="italic",
        color=PAPER.soft,
    )


def extent(ax: Axes, side: AxisName) -> float:
    """Return the length of an axis in points, before the layout has given it its final one."""
    box = ax.get_window_extent()
    length = box.width if side == "x" else box.height
    return float(max(length * POINTS / ax.figure.dpi, 1.0))


def set_axis(ax: Axes, side: AxisName, axis: Axis) -> None:
    """Set label, scale, ticks and the limits that the figure names; call it after drawing."""
    along: Any = ax.xaxis if side == "x" else ax.yaxis
    size = mpl.rcParams["font.size"]
    label = wrap(axis.label[:LABEL_LENGTH], max(extent(ax, side), 60.0), size)
    along.set_label_text(label, parse_math=False)
    if axis.log and along.get_scale() != "log":
        # What `set_xscale` and `set_yscale` call. Values at or below zero are left out, not drawn
        # at the edge.
        along._set_axes_scale("log", nonpositive="mask")
    if axis.names and not axis.ticks:
        set_names(ax, side, axis.names)
        return
    low, high = _limits(ax, side, axis)
    if axis.ticks:
        places, labels = [], []
        names = labels_of(axis.names)
        for k, tick in enumerate(axis.ticks):
            if drawable(tick, axis.log):
                places.append(tick)
                labels.append(names[k] if k < len(names) else number_text(tick))
        along.set_ticks(places, labels, parse_math=False)
    else:
        along.set_major_locator(_locator(axis, low, high))
        along.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    along.set_ticks([], minor=True)
    _limits(ax, side, axis)  # ticks beyond the ends would have moved these


def _limits(ax: Axes, side: AxisName, axis: Axis) -> tuple[float, float]:
    """Set the ends that the axis names; matplotlib chose the others from the data."""
    low, high = ax.get_xlim() if side == "x" else ax.get_ylim()
    if drawable(axis.low, axis.log):
        low = axis.low
    if drawable(axis.high, axis.log):
        high = axis.high
    if low != high:
        (ax.set_xlim if side == "x" else ax.set_ylim)(low, high)
    return low, high


def _locator(axis: Axis, low: float, high: float) -> Locator:
    # Powers of ten alone leave a short logarithmic axis without ticks.
    decades = abs(math.log10(high / low)) if axis.log else 0.0
    if decades > 3:
        return LogLocator()
    if decades > 0.9:
        return LogLocator(subs=(1, 2, 5))
    return MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=axis.whole)


def set_names(ax: Axes, side: AxisName, names: Sequence[str], strong: Sequence[bool] = ()) -> None:
    """Name the categories at 0, 1, 2, ...; names that are too wide lean, and of too many some are
    left out.
    """
    size = mpl.rcParams["font.size"]
    room = extent(ax, side) / max(len(names), 1)
    every = max(1, math.ceil(1.3 * size / room))
    indices = list(range(0, len(names), every))
    most = NAME_LENGTH
    if side == "y":  # names of rows leave half of the width to the axes
        most = min(ROW_LENGTH, int(0.5 * extent(ax, "x") / (LETTER * size)))
    labels = labels_of([names[k] for k in indices], most)
    along: Any = ax.xaxis if side == "x" else ax.yaxis
    along.set_ticks(indices, labels, parse_math=False)
    longest = max((len(label) for label in labels), default=0)
    for k, text in zip(indices, along.get_ticklabels()):
        if k < len(strong) and strong[k]:
            text.set_weight("bold")
        if side == "x" and longest * LETTER * size > room * every:
            text.set(rotation=40, ha="right", rotation_mode="anchor")
    along.set_ticks([], minor=True)
    (ax.set_xlim if side == "x" else ax.set_ylim)(-0.5, max(len(names), 1) - 0.5)
