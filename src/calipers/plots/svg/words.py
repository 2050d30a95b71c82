# SPDX-License-Identifier: Apache-2.0
"""Texts in a drawing: made safe, cut to length, and measured without a font."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from html import escape

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


def safe(text: str) -> str:
    """Return the text ready to stand in markup, between tags or in quotes."""
    return escape(clean(text))


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return the text with its middle left out if it is long: names often differ at their ends."""
    if len(text) <= longest:
        return text
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
    return SIZE / 10 * sum(map(_tenths, text)) * (BOLD if bold else 1.0)


@lru_cache(maxsize=4096)
def _tenths(c: str) -> float:
    if unicodedata.combining(c):
        return 0.0
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


@lru_cache(maxsize=4096)
def _is_strange(c: str) -> bool:
    return c in TURNING or unicodedata.category(c) in ("Cc", "Cs") or ord(c) & 0xFFFE == 0xFFFE
