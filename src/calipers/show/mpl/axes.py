# SPDX-License-Identifier: Apache-2.0
"""Text from data, ready to draw: characters without a glyph are replaced, long names are cut.

The theme in matplotlib's terms: settings, dashes, markers, hatches and a scale of colours.

Where a figure is drawn: axes with their size in points, and what every kind needs of them.

Labels, limits and ticks of axes, as a figure asks for them.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, cast

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb
from matplotlib.font_manager import FontProperties, fontManager, get_font
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator
from matplotlib.transforms import Bbox, TransformedBbox
from numpy.typing import NDArray

from calipers.show import figures
from calipers.show.figures import Axis, finite

LAST_RESORT = "DejaVu Sans"  # comes with matplotlib
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
NAME_LENGTH = 28
SENTENCE_LENGTH = 600
BOUND = re.compile(r" %|[<>]?= ")  # spaces at which no line ends
SAFE = 0.97  # letters on a grid of pixels run a little wider than their outlines


def families() -> list[str]:
    """Return the installed fonts of the settings, and one that always exists as fallback."""
    names = mpl.rcParams["font.family"]
    return list(_available_fonts((names,) if isinstance(names, str) else tuple(names)))


@lru_cache(maxsize=64)
def _available_fonts(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys([*(name for name in names if _file(name, "normal", "normal")), LAST_RESORT])
    )


def words(
    text: str, *, weight: str = "normal", style: str = "normal", most: int = NAME_LENGTH
) -> str:
    """Return a text that can be drawn, at most ``most`` characters long."""
    text = str(text)
    text = text if len(text) <= most else text[: most - 1].rstrip() + "…"
    glyphs = _glyphs(tuple(families()), weight, style)
    return "".join(_drawable(character, glyphs) for character in text)


def _drawable(character: str, glyphs: frozenset[int]) -> str:
    if unicodedata.category(character) == "Zs":
        return " "
    return character if character.isprintable() and ord(character) in glyphs else REPLACEMENT


@lru_cache(maxsize=64)
def _glyphs(names: tuple[str, ...], weight: str, style: str) -> frozenset[int]:
    files = [file for name in names if (file := _file(name, weight, style))]
    return frozenset(code for file in files for code in get_font(file).get_charmap())


def _file(family: str, weight: str, style: str) -> str:
    font = FontProperties(family=[family], style=cast("Any", style), weight=weight)
    try:
        path = fontManager.findfont(font, fallback_to_default=False)
    except ValueError:  # no such font here
        return ""
    return str(path)


def width_of(text: str, size: float, weight: str = "normal") -> float:
    """Return how wide a text is, in points, as it will be drawn."""
    return _text_width(text, size, weight, tuple(families())) if text else 0.0


@lru_cache(maxsize=4096)
def _text_width(text: str, size: float, weight: str, names: tuple[str, ...]) -> float:
    font = FontProperties(family=list(names), size=size, weight=weight)
    return float(
        max(
            text_to_path.get_text_width_height_descent(line, font, False)[0]
            for line in text.split("\n")
        )
    )


def wrap(text: str, width: float, size: float, weight: str = "normal") -> str:
    """Return a sentence in lines at most ``width`` points wide; a single word may be wider."""
    lines, line = [], ""
    # "95 %" and "n >= 5" stay together.
    bound = BOUND.sub(lambda match: match[0].replace(" ", "\u00a0"), str(text)[:SENTENCE_LENGTH])
    for part in bound.split(" "):
        word = words(part, weight=weight, most=SENTENCE_LENGTH)
        longer = f"{line} {word}" if line else word
        if line and width_of(longer, size, weight) > SAFE * width:
            lines.append(line)
            line = word
        else:
            line = longer
    return "\n".join([*lines, line])


def number_text(value: float) -> str:
    """Return a number for a tick: a real minus sign, an exponent only if it is needed."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else ""
    text = f"{value:.6g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.3g}"
    return text.replace("-", "\N{MINUS SIGN}")


def estimate_texts(values: list[float]) -> list[str]:
    """Return estimates of one column with equally many decimals; an undefined one is a dash."""
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
    return PAPER.series[figures.style(slot).slot]


def dash(pattern: tuple[float, ...]) -> Any:
    """Return matplotlib's form of a dash pattern of the theme."""
    if not pattern:
        return "-"
    return 0, tuple(length / DASH_UNIT for length in pattern)


def stroke(slot: int, width: float = LINE) -> dict[str, Any]:
    """Return colour, dash and width of the line of a series."""
    return {"color": colour(slot), "linestyle": dash(figures.style(slot).dash), "linewidth": width}


def sign(slot: int, size: float = 5.0) -> dict[str, Any]:
    """Return the marker of a series; its pale edge keeps it apart from what lies below."""
    name = figures.style(slot).marker
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


AxisName = Literal["x", "y"]
LONGEST_ROW = 48  # characters of the name of a row
LEANING = 20  # characters of names that are not level: they take room below the axes
PAD = 0.04  # of the range, where a limit comes from the data


def set_axis(
    sheet: MplSheet,
    side: AxisName,
    axis: Axis,
    values: Sequence[Any] = (),
    *,
    pad: float = PAD,
    zero: bool = False,
) -> tuple[float, float]:
    """Set label, scale, limits and ticks of one axis; return its limits.

    Parameters
    ----------
    values
        Arrays from which open limits are taken.
    pad
        Room beyond them, as a part of the range.
    zero
        Start at zero, as bars must.
    """
    set_scale: Callable[..., Any] = sheet.ax.set_xscale
    set_limits: Callable[..., Any] = sheet.ax.set_xlim
    if side == "y":
        set_scale, set_limits = sheet.ax.set_yscale, sheet.ax.set_ylim
    set_label(sheet, side, axis.label)
    if axis.log:
        set_scale("log", nonpositive="mask")
    low, high = limits(axis, values, pad=pad, zero=zero)
    set_limits(low, high)
    set_ticks(sheet, side, axis, low, high)
    return low, high


def set_label(sheet: MplSheet, side: AxisName, label: str) -> None:
    """Set the label of an axis, wrapped to its length."""
    text = wrap(label, max(_length(sheet, side), 60.0), sheet.text)
    place = sheet.ax.set_xlabel if side == "x" else sheet.ax.set_ylabel
    place(text, size=sheet.text, color=PAPER.ink, labelpad=3, parse_math=False)


def _axis(sheet: MplSheet, side: AxisName) -> Any:
    """Return matplotlib's axis of a side."""
    return sheet.ax.xaxis if side == "x" else sheet.ax.yaxis


def _length(sheet: MplSheet, side: AxisName) -> float:
    """Return the length of an axis in points."""
    return sheet.width if side == "x" else sheet.height


def limits(
    axis: Axis, values: Sequence[Any] = (), *, pad: float = PAD, zero: bool = False
) -> tuple[float, float]:
    """Return the ends of an axis: as the axis names them, else from the data with some room.

    They are never equal and never infinite.
    """
    if axis.names and not axis.ticks:
        return -0.5, len(axis.names) - 0.5
    numbers = [v for v in finite(values) if not axis.log or v > 0]
    numbers += [v for v in axis.ticks if _fits(v, axis.log)]
    low, high = (0.1, 1.0) if axis.log else (0.0, 1.0)
    if numbers:
        low, high = min(numbers), max(numbers)
    if zero and not axis.log:
        low, high = min(low, 0.0), max(high, 0.0)
    low, high = _pad_limits(low, high, pad, axis.log, keep_zero=zero)
    if _fits(axis.low, axis.log):
        low = axis.low
    if _fits(axis.high, axis.log):
        high = axis.high
    if low == high:  # both ends were named, and equal
        return _pad_limits(low, high, pad, axis.log, keep_zero=False)
    return low, high


def _fits(value: float, log: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not log)


def _pad_limits(
    low: float, high: float, pad: float, log: bool, *, keep_zero: bool
) -> tuple[float, float]:
    if log:
        ratio = (high / low) ** pad if high > low else 2.0
        return max(low / ratio, 1e-300), min(high * ratio, 1e300)
    room = (high - low) * pad if high > low else abs(low) * 0.1 or 0.5
    if not (keep_zero and low == 0):
        low -= room
    if not (keep_zero and high == 0):
        high += room
    return max(low, -1e300), min(high, 1e300)


def set_ticks(sheet: MplSheet, side: AxisName, axis: Axis, low: float, high: float) -> None:
    """Set the ticks that the axis names, or good ones."""
    along = _axis(sheet, side)
    if axis.names and not axis.ticks:
        set_names(sheet, side, axis.names)
    elif axis.ticks:
        places, labels = [], []
        for k, tick in enumerate(axis.ticks):
            if _fits(tick, axis.log):
                places.append(tick)
                labels.append(words(axis.names[k]) if k < len(axis.names) else number_text(tick))
        along.set_ticks(places, labels, parse_math=False)
    else:
        spacing = 45 if side == "x" else 28  # points: numbers are wider than high
        most = int(min(max(_length(sheet, side) / spacing, 2), 8))
        along.set_major_locator(_locator(axis.log, low, high, most))
        along.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    along.set_ticks([], minor=True)


def _locator(log: bool, low: float, high: float, most: int) -> MaxNLocator | LogLocator:
    decades = abs(math.log10(high / low)) if log else 0.0
    if decades > 3:
        return LogLocator(numticks=most + 1)
    if decades > 0.9:
        return LogLocator(subs=(1, 2, 5), numticks=3 * most)
    return MaxNLocator(most, steps=[1, 2, 2.5, 5, 10])


def set_names(
    sheet: MplSheet, side: AxisName, names: Sequence[str], strong: Sequence[bool] = ()
) -> None:
    """Name the categories at 0, 1, 2, ...

    Names that are too wide lean; if there is still no room, some are left out.
    """
    weights = ["normal"] * len(names)
    for k, is_strong in enumerate(strong[: len(names)]):
        if is_strong:
            weights[k] = "bold"
    room = _length(sheet, side) / max(len(names), 1)
    line = sheet.text * 1.2
    labels = []
    for name, weight in zip(names, weights):
        label = words(name, weight=weight)
        if side == "x":
            labels.append(_in_two(label, room - 4, sheet.text))
        else:
            labels.append(_of_row(sheet, name, label, weight, room))
    widest = max((width_of(text, sheet.text) for text in labels), default=0.0)
    level = side == "y" or widest <= room - 4
    if not level:
        labels = [words(name, weight=w, most=LEANING) for name, w in zip(names, weights)]
    every = 1 if side == "x" and level else max(1, math.ceil(line / room))
    indices = list(range(0, len(names), every))
    along = _axis(sheet, side)
    along.set_ticks(indices, [labels[k] for k in indices], parse_math=False)
    angle, alignment = 40, "top"
    if room * every < line * 1.6:  # leaning lines would touch
        angle, alignment = 90, "center"
    for k, text in zip(indices, along.get_ticklabels()):
        text.set(parse_math=False, weight=weights[k])
        if not level:
            text.set(rotation=angle, ha="right", rotation_mode="anchor")
            text.set_verticalalignment(alignment)


def _of_row(sheet: MplSheet, name: str, short: str, weight: str, room: float) -> str:
    """Return the name of a row, which may be longer than that of a column.

    It has two lines if the row is high enough.
    """
    wide = sheet.room * (0.5 if sheet.room < NARROW else 0.42)
    long = words(name, weight=weight, most=LONGEST_ROW)
    if room >= 2.3 * sheet.text:
        long = _in_two(long, wide, sheet.text)
    return long if width_of(long, sheet.text) <= wide else short


def _in_two(text: str, room: float, size: float) -> str:
    """Return a name in two lines if it needs and allows that."""
    if width_of(text, size) <= room:
        return text
    lines = wrap(text, room, size)
    return lines if lines.count("\n") == 1 else text


def diagonal(sheet: MplSheet, x: tuple[float, float], y: tuple[float, float]) -> None:
    """Draw where both axes say the same."""
    low, high = max(min(x), min(y)), min(max(x), max(y))
    if low < high:
        points = np.geomspace(low, high, 50) if low > 0 else np.linspace(low, high, 50)
        sheet.ax.plot(
            points,
            points,
            color=PAPER.soft,
            linewidth=0.7,
            linestyle=(0, (4, 3)),
            zorder=1,
            label="_equal",
        )
