# SPDX-License-Identifier: Apache-2.0
"""SVG markup: elements, texts, and paths with few characters.

All text from the data passes through `words` or `title`, which escape it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calipers.plots.figures import F64
from calipers.plots.svg.words import (
    BOLD,
    LONGEST,
    LONGEST_SENTENCE,
    LONGEST_TITLE,
    clean,
    fit,
    safe,
    shorten,
)

FAR = 30_000.0  # pixels; what lies farther away is off every page and only makes numbers long


@dataclass(frozen=True, slots=True)
class Sheet:
    """What is drawn on."""

    width: float
    name: str  # prefix of ids


@dataclass(frozen=True, slots=True)
class Drawing:
    """What was drawn, in pixels from the top left."""

    width: float
    height: float
    parts: Sequence[str]


def num(value: float, digits: int = 1) -> str:
    """Return a number with few characters: 0.50 is .5."""
    text = f"{value:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if text in ("-0", ""):
        return "0"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def el(tag: str, inner: str = "", /, **attributes: Any) -> str:
    """Return an element; ``cls`` is the class, numbers are rounded, None is left out."""
    pairs = []
    for key, value in attributes.items():
        if value is None:
            continue
        if isinstance(value, (int, float, np.floating)):
            text = num(float(value))
        else:
            text = safe(str(value))
        name = "class" if key == "cls" else key.replace("_", "-")
        pairs.append(f' {name}="{text}"')
    start = f"<{tag}{''.join(pairs)}"
    return f"{start}>{inner}</{tag}>" if inner else f"{start}/>"


def title(text: str) -> str:
    """Return the tooltip of an element."""
    return f"<title>{safe(shorten(text, LONGEST_TITLE))}</title>"


def sentence(
    x: float, y: float, text: str, cls: str = "", *, width: float = 1e9, anchor: str = ""
) -> str:
    """Return a text that is not a name: shortened only if it has no room."""
    return words(x, y, text, cls, width=width, anchor=anchor, longest=LONGEST_SENTENCE)


def label(x: float, y: float, text: str, *, width: float, anchor: str = "") -> str:
    """Return the label of an axis, in bold."""
    return sentence(x, y, text, "fig-label", width=width / BOLD, anchor=anchor)


def words(
    x: float,
    y: float,
    text: str,
    cls: str = "",
    *,
    width: float = 1e9,
    anchor: str = "",
    longest: int = LONGEST,
) -> str:
    """Return a text on its baseline; a text that had to be shortened has the whole as tooltip.

    Parameters
    ----------
    anchor : "", "middle" or "end"
        Which point of the text ``x`` is.
    longest : int
        So many characters are shown; names are cut earlier than sentences.
    """
    short = fit(text, width, longest)
    content = safe(short)
    if len(short) != len(text) or short != clean(text):
        content = title(text) + content
    classes = cls
    if anchor:
        classes = f"{cls} fig-{anchor}".strip()
    return el("text", content, x=x, y=y, cls=classes or None)


def rect(x0: float, y0: float, x1: float, y1: float, cls: str, inner: str = "") -> str:
    """Return a rectangle between two corners."""
    return el(
        "rect",
        inner,
        x=min(x0, x1),
        y=min(y0, y1),
        width=abs(x1 - x0),
        height=abs(y1 - y0),
        cls=cls,
    )


def polyline(x: F64, y: F64, *, closed: bool = False) -> str:
    """Return the data of a path through finite points.

    Steps are relative, in whole tenths of a pixel, so that they add up without rounding errors.
    """
    points = np.clip(np.stack([x, y], 1), -FAR, FAR)
    grid = np.round(points * 10).astype(np.int64)
    steps = _merge_steps(np.diff(grid, axis=0))
    commands = [f"M{_tenth(int(grid[0, 0]))}{_then(int(grid[0, 1]))}"]
    last = ""
    for dx, dy in steps:
        if dy == 0:
            commands.append(f"h{_tenth(dx)}")
        elif dx == 0:
            commands.append(f"v{_tenth(dy)}")
        else:
            start = _then(dx) if last == "l" else f"l{_tenth(dx)}"
            commands.append(start + _then(dy))
        last = "l" if dx and dy else "hv"
    return "".join(commands) + ("z" if closed else "")


def _merge_steps(steps: np.ndarray[Any, np.dtype[np.int64]]) -> list[tuple[int, int]]:
    """Return the steps without those of length zero; steps in the same direction become one."""
    merged: list[tuple[int, int]] = []
    for dx, dy in steps.tolist():
        if dx == 0 and dy == 0:
            continue
        if merged:
            px, py = merged[-1]
            if px * dy == py * dx and px * dx + py * dy > 0:
                merged[-1] = (px + dx, py + dy)
                continue
        merged.append((dx, dy))
    return merged


def _tenth(n: int) -> str:
    whole, part = divmod(abs(n), 10)
    sign = "-" if n < 0 else ""
    return f"{sign}{whole or ''}.{part}" if part else f"{sign}{whole}"


def _then(n: int) -> str:
    return _tenth(n) if n < 0 else f" {_tenth(n)}"


def segments(ends: Sequence[tuple[float, float, float, float]]) -> str:
    """Return the data of one path with separate straight pieces x0 y0 x1 y1."""
    commands = []
    for x0, y0, x1, y1 in ends:
        if y0 == y1:
            commands.append(f"M{num(x0)} {num(y0)}H{num(x1)}")
        elif x0 == x1:
            commands.append(f"M{num(x0)} {num(y0)}V{num(y1)}")
        else:
            commands.append(f"M{num(x0)} {num(y0)}L{num(x1)} {num(y1)}")
    return "".join(commands)
