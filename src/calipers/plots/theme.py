# SPDX-License-Identifier: Apache-2.0
"""One look for the page, for notebooks and for papers.

The colours are distinct for colour-blind readers, and a series never depends on its colour alone:
dashes and markers carry the same meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

# Okabe and Ito's palette in the order in which neighbours differ most. Yellow is left out of lines:
# too faint on white.
LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#4D4D4D")
DARK = ("#56B4E9", "#E8833A", "#2FC79A", "#E59BC4", "#8FD0F5", "#F0B93A", "#BDBDBD")
DASHES = ((), (6.0, 3.0), (2.0, 2.0), (8.0, 3.0, 2.0, 3.0), (4.0, 2.0), (10.0, 3.0), (1.0, 3.0))
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "plus", "star")


@dataclass(frozen=True, slots=True)
class Paper:
    """The colours of everything that is not data, and of the series."""

    ink: str
    soft: str
    line: str
    page: str
    band: str
    series: tuple[str, ...]


DAY = Paper("#1b1f24", "#57606a", "#d0d7de", "#ffffff", "#f6f8fa", LIGHT)
NIGHT = Paper("#e6edf3", "#a3adb8", "#363d46", "#0f1318", "#171c22", DARK)


@dataclass(frozen=True, slots=True)
class Style:
    """How one series is drawn."""

    slot: int
    dash: tuple[float, ...]
    marker: str


def style(slot: int) -> Style:
    """Return the style of the series ``slot``.

    When colours repeat, dashes and markers are shifted by one, so that no two styles are equal.
    """
    n = len(LIGHT)
    shifted = slot + slot // n
    return Style(slot % n, DASHES[shifted % len(DASHES)], MARKERS[shifted % len(MARKERS)])


@dataclass(frozen=True, slots=True)
class MarkStyle:
    """How a box is drawn on an image; always with a dark halo, so that it shows on any picture."""

    colour: str
    width: float
    dash: tuple[float, ...]
    words: str


MARKS = {
    "reference": MarkStyle("#FFFFFF", 1.2, (), "reference, found"),
    "hit": MarkStyle("#56B4E9", 2.0, (), "hit"),
    "false alarm": MarkStyle("#D55E00", 2.0, (7.0, 4.0), "false alarm"),
    "duplicate": MarkStyle("#CC79A7", 2.0, (7.0, 3.0, 2.0, 3.0), "duplicate"),
    "missed": MarkStyle("#F0E442", 2.2, (2.0, 3.5), "reference, missed"),
    "ignored": MarkStyle("#BDBDBD", 1.0, (1.0, 3.0), "ignored"),
}
HALO = "#000000"

# The map of a model above an image, from score 0 to 1: one hue that no mark has, dark and
# transparent where scores are low, light and dense where they are high, so that grey prints and
# colour-blind readers get the same order.
SHADE = (  # score, red, green, blue, opacity
    (0.0, 0, 60, 45, 0.0),
    (0.25, 0, 110, 80, 0.35),
    (0.5, 0, 158, 115, 0.55),
    (0.75, 60, 205, 160, 0.68),
    (1.0, 150, 255, 215, 0.78),
)
