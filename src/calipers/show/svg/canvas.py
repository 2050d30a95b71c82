# SPDX-License-Identifier: Apache-2.0
"""The pencil of all SVG drawings: markup, texts measured without a font, paths, looks of series.

Everything here returns strings of SVG. The files beside it (`axes`, `lines`, `estimates`, `fields`)
compose them into a `Drawing` on a `Sheet`, and `draw.svg` wraps that into an element.

- Texts come from data. `words` and `title` escape them, make control characters visible, and cut
  what has no room. Widths are estimated for a wide sans serif font, because the font of the reader
  is unknown.
- Paths have relative steps in tenths of a pixel, which takes few characters.
- A series has a slot; its colour, dash, marker and texture are classes and shapes of that slot, and
  the style sheet in `draw` gives them their colours.
- `empty_drawing` stands for a figure without anything to draw: it says so, and why.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any

import numpy as np

from calipers.arrays import F64
from calipers.show.figures import DASHES, Axis, finite, style

SIZE = 12.0  # of all texts, in pixels
LONGEST = 28  # characters of a name that is shown whole
LONGEST_SENTENCE = 160  # characters of a label of an axis or a reason
LONGEST_TITLE = 300  # characters of a name where it stands in full
STRANGE = "\N{REPLACEMENT CHARACTER}"
ELLIPSIS = "…"
# They would turn the order of what stands beside them. Names written from right to left do not need
# them.
TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
BLANK = frozenset("\t\n\r\u2028\u2029")
# Widths in tenths of the size, of a wide sans serif: on another font the text is narrower, never
# wider.
NARROW, WIDE = frozenset("iljtfrI.,:;'|![]()/ ·"), frozenset("mwMW@%—…OQGN")
SIGNS = frozenset("\N{MINUS SIGN}+=<>×±~")
FAR_SIGNS = 0x2000  # symbols from here on may come from any font
BOLD = 1.12  # times as wide

FAR = 30_000.0  # pixels; what lies farther away is off every page and only makes numbers long

LINE_MARKERS = frozenset({"cross", "plus", "star"})  # markers without an inside
# Lines inside a tile of 8 by 8, one per slot: neighbours on top of each other differ without
# colour, too.
TEXTURES = (
    "",
    "M0 8L8 0",
    "M0 2H8M0 6H8",
    "M0 0L8 8",
    "M2 0V8M6 0V8",
    "M0 8L8 0M0 0L8 8",
    "M0 4H8M4 0V8",
)

HEIGHT = 96.0
UNDEFINED = "no value is defined"


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
    # Only what was cut or replaced needs a tooltip; one on every text would double the page.
    if len(short) != len(text) or short != clean(text):
        content = title(text) + content
    classes = cls
    if anchor:
        classes = f"{cls} fig-{anchor}".strip()
    return el("text", content, x=x, y=y, cls=classes or None)


def sentence(
    x: float, y: float, text: str, cls: str = "", *, width: float = 1e9, anchor: str = ""
) -> str:
    """Return a text that is not a name: shortened only if it has no room."""
    return words(x, y, text, cls, width=width, anchor=anchor, longest=LONGEST_SENTENCE)


def label(x: float, y: float, text: str, *, width: float, anchor: str = "") -> str:
    """Return the label of an axis, in bold."""
    return sentence(x, y, text, "fig-label", width=width / BOLD, anchor=anchor)


def clean(text: str) -> str:
    """Return the text with line breaks as blanks and control characters made visible.

    Characters that change the direction of writing count as control characters.
    """
    return "".join(map(_clean_character, text))


@lru_cache(maxsize=4096)
def _clean_character(c: str) -> str:
    if c in BLANK:
        return " "
    return STRANGE if _is_strange(c) else c


@lru_cache(maxsize=4096)
def _is_strange(c: str) -> bool:
    # Control characters and lone surrogates have no glyph, and the last two code points of each
    # plane (xxFFFE, xxFFFF) are not allowed in XML.
    return c in TURNING or unicodedata.category(c) in ("Cc", "Cs") or ord(c) & 0xFFFE == 0xFFFE


def safe(text: str) -> str:
    """Return the text ready to stand in markup, between tags or in quotes."""
    return escape(clean(text))


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return the text with its middle left out if it is long: names often differ at their ends."""
    if len(text) <= longest:
        return text
    # Two fifths of the room for the end, three for the beginning.
    tail = max((longest - 1) * 2 // 5, 1)
    head = longest - 1 - tail
    while tail > 1 and unicodedata.combining(text[-tail]):
        tail -= 1  # an accent stays with its letter
    return text[:head].rstrip() + ELLIPSIS + text[-tail:]


def fit(text: str, width: float, longest: int = LONGEST) -> str:
    """Return the text, shortened until it is no wider than ``width`` pixels and no longer than
    ``longest``.
    """
    text = clean(shorten(text, longest))
    for length in range(len(text), 2, -1):
        short = shorten(text, length)
        if width_of(short) <= width:
            return short
    return text if len(text) <= 2 else ELLIPSIS


def wrap(text: str, width: float, most: int = 2) -> list[str] | None:
    """Return the text in lines no wider than ``width``, broken at blanks.

    None if that needs more than ``most`` lines.
    """
    lines: list[str] = []
    for word in clean(shorten(text)).split(" "):
        if lines and width_of(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    if len(lines) > most or any(width_of(line) > width for line in lines):
        return None
    return lines


def width_of(text: str, *, bold: bool = False) -> float:
    """Return about how wide the text is in pixels."""
    return SIZE / 10 * sum(map(_character_width, text)) * (BOLD if bold else 1.0)


@lru_cache(maxsize=4096)
def _character_width(c: str) -> float:
    if unicodedata.combining(c):
        return 0.0
    # Characters of East Asia take a whole square in every font.
    if unicodedata.east_asian_width(c) in "WF":
        return 10.5
    if c in NARROW:
        return 3.7
    if c in WIDE:
        return 9.2
    if c in SIGNS:
        return 8.4
    if ord(c) >= FAR_SIGNS and c not in "–\N{NARROW NO-BREAK SPACE}":
        return 10.2
    return 7.0 if c.isupper() else 6.1


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
    # Rounding positions and not steps: errors of rounded steps would add up along a line.
    points = np.clip(np.stack([x, y], 1), -FAR, FAR)
    grid = np.round(points * 10).astype(np.int64)
    steps = _merge_steps(np.diff(grid, axis=0))
    commands = [f"M{_tenth(int(grid[0, 0]))}{_next_tenth(int(grid[0, 1]))}"]
    last = ""
    for dx, dy in steps:
        if dy == 0:
            commands.append(f"h{_tenth(dx)}")
        elif dx == 0:
            commands.append(f"v{_tenth(dy)}")
        else:
            start = _next_tenth(dx) if last == "l" else f"l{_tenth(dx)}"
            commands.append(start + _next_tenth(dy))
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
            # Same direction: no cross product, and not turned back.
            if px * dy == py * dx and px * dx + py * dy > 0:
                merged[-1] = (px + dx, py + dy)
                continue
        merged.append((dx, dy))
    return merged


def _tenth(n: int) -> str:
    whole, part = divmod(abs(n), 10)
    sign = "-" if n < 0 else ""
    return f"{sign}{whole or ''}.{part}" if part else f"{sign}{whole}"


def _next_tenth(n: int) -> str:
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


def stroke(slot: int) -> str:
    """Return the class of the colour of lines."""
    return f"fig-s{style(slot).slot}"


def fill(slot: int) -> str:
    """Return the class of the colour of areas."""
    return f"fig-f{style(slot).slot}"


def line_classes(slot: int) -> str:
    """Return the classes of the colour and the dash of lines."""
    dash = DASHES.index(style(slot).dash)
    return f"{stroke(slot)} fig-d{dash}" if dash else stroke(slot)


def marker(slot: int, x: float, y: float, r: float = 3.5, inner: str = "") -> str:
    """Return the marker of a series at a point; all shapes look about as large as a circle of
    radius ``r``.
    """
    shape = style(slot).marker
    if shape == "circle":
        return el("circle", inner, cx=x, cy=y, r=r, cls=f"fig-m {fill(slot)}")
    cls = f"fig-x {stroke(slot)}" if shape in LINE_MARKERS else f"fig-m {fill(slot)}"
    return el("path", inner, d=_marker_path(shape, x, y, r), cls=cls)


def _marker_path(shape: str, x: float, y: float, r: float) -> str:
    """Return the path of a marker: it starts at its centre and steps from there."""
    n = num
    start = f"M{n(x)} {n(y)}"
    if shape == "square":
        s = 0.9 * r
        return f"{start}m{n(-s)} {n(-s)}h{n(2 * s)}v{n(2 * s)}h{n(-2 * s)}z"
    if shape == "triangle":
        return f"{start}m0 {n(-1.25 * r)}l{n(1.15 * r)} {n(2.05 * r)}h{n(-2.3 * r)}z"
    if shape == "diamond":
        s = 1.3 * r
        return f"{start}m0 {n(-s)}l{n(s)} {n(s)}{n(-s)} {n(s)}{n(-s)} {n(-s)}z"
    long = n(1.6 * r)
    cross = f"m{n(-0.8 * r)} {n(-0.8 * r)}l{long} {long}m0 {n(-1.6 * r)}l{n(-1.6 * r)} {long}"
    plus = f"m{n(-1.1 * r)} 0h{n(2.2 * r)}m{n(-1.1 * r)} {n(-1.1 * r)}v{n(2.2 * r)}"
    if shape == "cross":
        return start + cross
    if shape == "plus":
        return start + plus
    return f"{start}{cross}{start}{plus}"


def texture(slot: int, name: str) -> str:
    """Return the definition of the texture of areas of a series, "" if they are plain."""
    lines = TEXTURES[style(slot).slot]
    if not lines:
        return ""
    inner = el("path", d=lines, cls="fig-texture")
    return el(
        "pattern",
        inner,
        id=texture_id(slot, name),
        width=8,
        height=8,
        patternUnits="userSpaceOnUse",
    )


def texture_id(slot: int, name: str) -> str:
    """Return the id of the texture of a series."""
    return f"{name}-texture{style(slot).slot}"


def empty_drawing(sheet: Sheet, why: str = "") -> Drawing:
    """Return the words "nothing to show", and why below."""
    # Low enough that a page of several empty figures stays short.
    middle = sheet.width / 2
    parts = [rect(0.0, 0.0, sheet.width, HEIGHT, "fig-empty")]
    parts.append(
        words(middle, 44.0 if why else 52.0, "nothing to show", "fig-strong", anchor="middle")
    )
    if why:
        parts.append(
            sentence(middle, 62.0, why, "fig-soft", width=sheet.width - 20.0, anchor="middle")
        )
    return Drawing(sheet.width, HEIGHT, parts)


def why_no_limits(axis: Axis, values: Sequence[Any]) -> str:
    """Return why an axis has no limits."""
    if axis.log and any(True for _ in finite(values)):
        return f"no number above zero for the logarithmic axis {axis.label}".rstrip()
    return UNDEFINED
