# SPDX-License-Identifier: Apache-2.0
"""Estimates with their intervals: forest plots and bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from calipers.plots.figures import F64, Bars, Forest, ForestRow, Mark, slots_of
from calipers.plots.mpl.look import LINE, PAPER, THIN, colour, fill, sign
from calipers.plots.mpl.scales import set_axis, set_names
from calipers.plots.mpl.sheet import (
    MM,
    LegendEntries,
    MplSheet,
    any_drawable,
    draw_nothing,
    drawable,
    grid,
    unclip_markers,
)
from calipers.plots.mpl.words import estimate_texts, width_of, words

SPREAD = 0.56  # of a row, over which its series are spread
ROOM_FOR_VALUES = 130 * MM


def draw_forest(figure: Forest, sheet: MplSheet) -> LegendEntries:
    """Draw a line per class or group, a marker and a whisker per series."""
    ax, marks = sheet.ax, [mark for row in figure.rows for mark in row.marks]
    ends = [mark.value for mark in marks] + [end for mark in marks for end in (mark.low, mark.high)]
    low, _ = set_axis(sheet, "x", figure.x, [*ends, figure.reference])
    ax.set_ylim(max(len(figure.rows), 1) - 0.5, -0.5)
    set_names(sheet, "y", [row.name for row in figure.rows], [row.strong for row in figure.rows])
    grid(sheet, "x")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    if math.isfinite(figure.reference):
        ax.axvline(figure.reference, color=PAPER.soft, linewidth=0.8, zorder=1, label="_reference")
    if not figure.rows:
        return draw_nothing(sheet)
    for k, row in enumerate(figure.rows):
        if row.strong:
            ax.axhspan(k - 0.5, k + 0.5, color=PAPER.band, linewidth=0, zorder=0)
        if k and len(figure.series) > 1:  # keeps the markers of one row together
            ax.axhline(k - 0.5, color=PAPER.line, linewidth=0.4, zorder=0.5, label="_between")
    slots, legend = slots_of(figure, len(figure.series)), LegendEntries()
    for s, (slot, name) in enumerate(zip(slots, figure.series)):
        _draw_series(figure, sheet, s, slot)
        legend.add(Line2D([], [], color=colour(slot), linewidth=LINE, **sign(slot)), name)
    _say_reasons(figure, sheet, low)
    head = _draw_columns(figure, sheet)
    return (
        LegendEntries(legend.handles, legend.names, head)
        if len(figure.series) > 1
        else LegendEntries(head=head)
    )


def _place(row: int, s: int, n: int) -> float:
    """Return the height of a series within its row."""
    if n < 2:
        return row + 0.0
    return row + SPREAD * (s / (n - 1) - 0.5)


def _marks(figure: Forest, s: int) -> list[tuple[float, ForestRow, Mark]]:
    n = len(figure.series)
    return [
        (_place(k, s, n), row, row.marks[s])
        for k, row in enumerate(figure.rows)
        if s < len(row.marks)
    ]


def _draw_series(figure: Forest, sheet: MplSheet, s: int, slot: int) -> None:
    marks = [item for item in _marks(figure, s) if drawable(item[2].value, figure.x.log)]
    whiskers = [
        (y, mark) for y, _, mark in marks if math.isfinite(mark.low) and math.isfinite(mark.high)
    ]
    heights = [y for y, _ in whiskers]
    low, high = [m.low for _, m in whiskers], [m.high for _, m in whiskers]
    look: dict[str, Any] = {"color": colour(slot), "linewidth": LINE, "label": "_whiskers"}
    sheet.ax.hlines(heights, low, high, zorder=3, **look)
    for strong in (False, True):
        part = [(y, mark.value) for y, row, mark in marks if row.strong == strong]
        marker = sign(slot, 6.2 if strong else 4.6)
        if strong and len(figure.series) == 1:
            marker |= {"marker": "D"}
        ys, values = [y for y, _ in part], [value for _, value in part]
        label = "_strong" if strong else "_marks"
        (artist,) = sheet.ax.plot(values, ys, linestyle="none", zorder=4, label=label, **marker)
        unclip_markers(artist, sheet)


def _say_reasons(figure: Forest, sheet: MplSheet, low: float) -> None:
    """Write why an estimate has no value; once, if all series of a row have the same reason."""
    n = len(figure.series)
    look: dict[str, Any] = {
        "style": "italic",
        "color": PAPER.soft,
        "size": sheet.text - (n > 1),
        "parse_math": False,
    }
    for k, row in enumerate(figure.rows):
        missing = [
            (_place(k, s, n), mark.reason)
            for s, mark in enumerate(row.marks)
            if not math.isfinite(mark.value)
        ]
        if len(missing) == n and len({reason for _, reason in missing}) == 1:
            missing = [(k, missing[0][1])]
        for y, reason in missing:
            text = words(reason or "undefined", style="italic", most=60)
            place: dict[str, Any] = {
                "textcoords": "offset points",
                "va": "center_baseline",
                "annotation_clip": False,
            }
            sheet.ax.annotate(text, (low, y), (3, 0), **place, **look)


def _draw_columns(figure: Forest, sheet: MplSheet) -> float:
    """Write n, and with one series the numbers, to the right of the axes; return the height of
    their heads.
    """
    columns = [(figure.n, [words(row.n) for row in figure.rows])]
    if len(figure.series) == 1 and sheet.room >= ROOM_FOR_VALUES:
        columns.append(
            ("value [interval]", _numbers([row.marks[0] for row in figure.rows if row.marks]))
        )
    right, size = 6.0, sheet.text
    for head, cells in columns:
        head = words(head)
        right += max(width_of(text, size, "bold") for text in (head, *cells))
        strong = [row.strong for row in figure.rows]
        for k, (text, bold) in enumerate(zip(cells, strong)):
            _write(sheet, text, ("data", k), right, "bold" if bold else "normal")
        _write(sheet, head, ("axes", 1.0), right, "normal")
        right += 10.0
    return size + 4.0


def _write(sheet: MplSheet, text: str, at: tuple[str, float], right: float, weight: str) -> None:
    """Write a cell of the table beside the axes; ``at`` is a row ("data") or a head ("axes")."""
    look: dict[str, Any] = {"va": "baseline", "color": PAPER.soft}
    coordinates, offset = "axes fraction", (right, 3)
    if at[0] == "data":
        look = {"va": "center_baseline", "color": PAPER.ink}
        coordinates, offset = "data", (right, 0)
    sheet.ax.annotate(
        text,
        (1.0, at[1]),
        offset,
        xycoords=("axes fraction", coordinates),
        textcoords="offset points",
        ha="right",
        size=sheet.text,
        weight=weight,
        annotation_clip=False,
        parse_math=False,
        **look,
    )


def _numbers(marks: Sequence[Mark]) -> list[str]:
    """Return every value with its interval; all numbers have equally many decimals."""
    flat = estimate_texts([v for mark in marks for v in (mark.value, mark.low, mark.high)])
    texts = []
    for value, low, high in zip(flat[::3], flat[1::3], flat[2::3]):
        if "–" in (value, low, high):  # undefined
            texts.append(value)
        else:
            texts.append(f"{value} [{low}, {high}]")
    return texts


def draw_bars(figure: Bars, sheet: MplSheet) -> LegendEntries:
    """Draw bars side by side or on top of each other, with whiskers where there are intervals."""
    ax, heights = sheet.ax, np.atleast_2d(np.asarray(figure.heights, np.float64))
    tops = np.nancumsum(heights, axis=0) if figure.stacked else heights
    set_axis(sheet, "x", figure.x)
    set_axis(sheet, "y", figure.y, [tops, figure.low, figure.high], zero=True)
    if figure.y.log:
        # Bars start at zero, which has no place on a logarithmic axis.
        ax.set_yscale("log", nonpositive="clip")
    grid(sheet, "y")
    ax.tick_params(axis="x", length=0)
    if not heights.size or not any_drawable(heights):
        return draw_nothing(sheet)
    legend, n = LegendEntries(), len(figure.series)
    pitch = 0.7 if figure.stacked or n == 1 else 0.8 / n
    for s, (slot, name) in enumerate(zip(slots_of(figure, n), figure.series)):
        x = np.arange(heights.shape[1], dtype=np.float64)
        if figure.stacked:
            bottom = tops[s] - np.nan_to_num(heights[s])
            ax.bar(x, heights[s], pitch, bottom=bottom, label="_bars", **fill(slot))
        else:
            x = x + (s - (n - 1) / 2) * pitch
            ax.bar(x, heights[s], pitch * 0.94, bottom=0.0, label="_bars", **fill(slot))
            _say_undefined(sheet, x, heights[s])
        _draw_whiskers(figure, sheet, s, x)
        legend.add(Patch(**fill(slot)), name)
    ax.axhline(0.0, color=PAPER.soft, linewidth=THIN, zorder=3, label="_zero")
    return legend if n > 1 else LegendEntries()


def _draw_whiskers(figure: Bars, sheet: MplSheet, s: int, x: F64) -> None:
    if figure.low is not None and figure.high is not None:
        ok = np.isfinite(figure.low[s]) & np.isfinite(figure.high[s])
        low, high = figure.low[s][ok], figure.high[s][ok]
        sheet.ax.vlines(
            x[ok], low, high, color=PAPER.ink, linewidth=0.9, zorder=4, label="_whiskers"
        )


def _say_undefined(sheet: MplSheet, x: F64, heights: F64) -> None:
    """Write a dash where a bar has no height."""
    look: dict[str, Any] = {"ha": "center", "va": "bottom", "color": PAPER.soft, "size": sheet.text}
    for place in x[~np.isfinite(heights)]:
        transform = sheet.ax.get_xaxis_transform()
        sheet.ax.text(float(place), 0.01, "–", transform=transform, **look)
