# SPDX-License-Identifier: Apache-2.0
"""Legends above the plane, names at the ends of lines, and the scale of colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calipers.plots.svg.elements import Sheet, el, label, rect, segments, words
from calipers.plots.svg.markers import fill, line_classes, marker, texture_id
from calipers.plots.svg.shades import SHADES
from calipers.plots.svg.words import LONGEST, fit, shorten, width_of
from calipers.plots.ticks import tick_text

SWATCH = {"line": 26.0, "outline": 26.0, "marker": 10.0, "area": 18.0}
ROW = 18.0
SPACE = 18.0  # between entries
ALIGNED = 4  # so many entries and more stand in columns
NEAR = 14.0  # names at the ends of lines keep this distance
MOVED = 12.0  # a name may stand so far from the end of its line


@dataclass(frozen=True, slots=True)
class Entry:
    """One series in a legend."""

    name: str
    slot: int
    kind: str = "line"  # or "marker", "area", "outline"


def legend(sheet: Sheet, entries: Sequence[Entry], top: float = 0.0) -> tuple[list[str], float]:
    """Return the legend and its height: entries side by side, in columns if they are many."""
    swatches = [SWATCH[entry.kind] + 6.0 for entry in entries]
    room = max(sheet.width - max(swatches, default=0.0), 60.0)
    widths = [s + width_of(fit(entry.name, room)) + SPACE for s, entry in zip(swatches, entries)]
    if len(entries) >= ALIGNED:
        columns = max(int((sheet.width + SPACE) // max(widths)), 1)
        rows = -(-len(entries) // columns)
        columns = -(-len(entries) // rows)  # no short last row
        at = [(k % columns * max(widths), k // columns) for k in range(len(entries))]
    else:
        at = _flow(widths, sheet.width + SPACE)
    parts = []
    for entry, (x, row) in zip(entries, at):
        y = top + ROW * row + 9.0
        parts.extend(swatch(entry, x, y, sheet.name))
        parts.append(words(x + SWATCH[entry.kind] + 6.0, y + 4.0, entry.name, width=room))
    return parts, ROW * (max((row for _, row in at), default=-1) + 1) + 6.0


def _flow(widths: Sequence[float], room: float) -> list[tuple[float, int]]:
    places = []
    x, row = 0.0, 0
    for width in widths:
        if x and x + width > room:
            x, row = 0.0, row + 1
        places.append((x, row))
        x += width
    return places


def swatch(entry: Entry, x: float, y: float, name: str) -> list[str]:
    """Return how the series looks, in little."""
    wide = SWATCH[entry.kind]
    if entry.kind == "area":
        return area(x, y - 6.0, x + wide, y + 6.0, entry.slot, name)
    if entry.kind == "marker":
        return [marker(entry.slot, x + wide / 2, y, 4.0)]
    line = el("path", d=segments([(x, y, x + wide, y)]), cls=f"fig-line {line_classes(entry.slot)}")
    return [line] if entry.kind == "outline" else [line, marker(entry.slot, x + wide / 2, y)]


def area(
    x0: float, y0: float, x1: float, y1: float, slot: int, name: str, inner: str = ""
) -> list[str]:
    """Return a filled rectangle, with the texture of its series over the colour if it has one."""
    parts = [rect(x0, y0, x1, y1, fill(slot), inner)]
    if slot % 7:
        box = {"x": min(x0, x1), "y": min(y0, y1), "width": abs(x1 - x0), "height": abs(y1 - y0)}
        parts.append(el("rect", **box, fill=f"url(#{texture_id(slot, name)})", cls="fig-over"))
    return parts


def room_at_ends(names: Sequence[str]) -> float:
    """Return the width that names at the ends of lines need."""
    return (
        max((width_of(shorten(name, LONGEST)) for name in names), default=0.0)
        + SWATCH["line"]
        + 24.0
    )


def label_heights(ends: Sequence[float], low: float, high: float) -> list[float] | None:
    """Return heights for names near the ends of their lines, so that none overlap.

    None if some name would have to move too far from its line.
    """
    order = sorted(range(len(ends)), key=lambda k: ends[k])
    heights = [0.0] * len(ends)
    before = low - NEAR
    for k in order:
        heights[k] = before = max(ends[k], before + NEAR)
    after = high + NEAR
    for k in reversed(order):  # share the shift between those above and those below
        heights[k] = after = min(
            (heights[k] + ends[k]) / 2 if heights[k] > ends[k] else heights[k], after - NEAR
        )
    before = low - NEAR
    for k in order:
        heights[k] = before = max(heights[k], before + NEAR)
    largest_shift = max((abs(p - e) for p, e in zip(heights, ends)), default=0.0)
    return heights if largest_shift <= MOVED and max(heights, default=low) <= high + 1.0 else None


def colours(sheet: Sheet, text: str, low: float, high: float) -> tuple[list[str], float]:
    """Return the scale of colours above a map, and its height."""
    bar, ends = 96.0, (tick_text(float(f"{low:.3g}")), tick_text(float(f"{high:.3g}")))
    x = sheet.width - width_of(ends[1]) - 5.0 - bar
    step = bar / len(SHADES)
    parts = [words(x - 5.0, 13.0, ends[0], anchor="end"), words(x + bar + 5.0, 13.0, ends[1])]
    parts.extend(
        el("rect", x=x + k * step, y=3.0, width=step + 0.4, height=12.0, cls=f"fig-q{k}")
        for k in range(len(SHADES))
    )
    room = x - 5.0 - width_of(ends[0]) - 14.0
    if width_of(text, bold=True) <= room:
        parts.append(label(0.0, 13.0, text, width=room))
        return parts, 24.0
    parts.append(label(0.0, 31.0, text, width=sheet.width))
    return parts, 42.0
