# SPDX-License-Identifier: Apache-2.0
"""Text from data, ready to draw: characters without a glyph are replaced, long names are cut."""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache
from typing import Any, cast

import matplotlib as mpl
from matplotlib.font_manager import FontProperties, fontManager, get_font
from matplotlib.textpath import text_to_path

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
