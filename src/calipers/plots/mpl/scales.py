# SPDX-License-Identifier: Apache-2.0
"""Labels, limits and ticks of axes, as a figure asks for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from calipers.plots.figures import Axis, finite
from calipers.plots.mpl.look import PAPER
from calipers.plots.mpl.sheet import NARROW, MplSheet
from calipers.plots.mpl.words import number_text, width_of, words, wrap

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
