# SPDX-License-Identifier: Apache-2.0
"""Boxes on an image: one group per fate, so that a page can hide it; every box has a halo and says what it is."""

from __future__ import annotations

import math
import re

from calipers.errors import UsageError
from calipers.plots.figures import BoxMark, Overlay
from calipers.plots.svg.elements import Drawing, Sheet, num, title
from calipers.plots.svg.empty import nothing
from calipers.plots.svg.words import safe
from calipers.plots.theme import MARKS

# From below to above: what was found is never hidden by what was left out.
ORDER = ("ignored", "reference", "duplicate", "false alarm", "hit", "missed")
INSET = 0.004  # of the longer side: how far inside the edge a cut box is drawn
TRACE = 0.02  # of the longer side: length at least of what a box outside leaves
PICTURE = re.compile(r"data:image/[a-z+.-]+;base64,[A-Za-z0-9+/=]*")
SYMBOL = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
FIXED = ' vector-effect="non-scaling-stroke"'


def slug(fate: str) -> str:
    """Return the name of a fate in classes."""
    return fate.replace(" ", "-")


def draw(figure: Overlay, sheet: Sheet) -> Drawing:
    """Draw boxes on an image, in pixels of the image."""
    width, height = figure.size
    if not (math.isfinite(width) and math.isfinite(height) and width > 0 and height > 0):
        return nothing(sheet, "the size of the image is not known")
    whole = f'width="{num(width, 2)}" height="{num(height, 2)}"'
    parts = [f'<rect {whole} class="fig-backdrop"/>', _picture(figure, whole)]
    for fate in ORDER:
        marks = [mark for mark in figure.marks if _fate(mark) == fate and all(map(math.isfinite, mark.box))]
        marks.sort(key=lambda mark: -_area(mark.box))  # small ones above, within reach of the pointer
        drawn = "".join(_mark(mark, width, height) for mark in marks)
        if drawn:
            parts.append(f'<g class="fig-layer fig-layer-{slug(fate)}">{drawn}</g>')
    return Drawing(width, height, parts)


def _fate(mark: BoxMark) -> str:
    if mark.fate not in MARKS:
        raise UsageError(f"fate of a box: expected one of {', '.join(MARKS)}, got {mark.fate!r}")
    return mark.fate


def _area(box: tuple[float, float, float, float]) -> float:
    return abs((box[2] - box[0]) * (box[3] - box[1]))


def _picture(figure: Overlay, whole: str) -> str:
    if figure.picture:
        if not PICTURE.fullmatch(figure.picture):
            raise UsageError(
                f"picture of an overlay: expected data:image/...;base64,..., got {figure.picture[:40]!r}; "
                "a page must not load anything from elsewhere"
            )
        return f'<image {whole} href="{figure.picture}" class="fig-picture"/>'
    if figure.symbol:
        if not SYMBOL.fullmatch(figure.symbol):
            raise UsageError(f"symbol of an overlay: expected an id of letters, digits and dashes, got {figure.symbol!r}")
        return f'<use {whole} href="#{figure.symbol}" class="fig-picture"/>'
    return ""


def said(mark: BoxMark) -> str:
    """Return what is said when one points at a box: "hit: nodule, score 0.83"."""
    score = f", score {mark.score:.3g}" if math.isfinite(mark.score) else ""
    return f"{MARKS[mark.fate].words}: {mark.label}{score}"


def _mark(mark: BoxMark, width: float, height: float) -> str:
    x0, x1 = sorted((mark.box[0], mark.box[2]))
    y0, y1 = sorted((mark.box[1], mark.box[3]))
    more, outside = "", x1 < 0 or y1 < 0 or x0 > width or y0 > height
    if outside:
        more = ", outside the image"
    elif x0 < 0 or y0 < 0 or x1 > width or y1 > height:
        more = ", reaches beyond the image"
    (a0, a1), (b0, b1) = _cut(x0, x1, width, width, height, outside), _cut(y0, y1, height, width, height, outside)
    # A box without width would not be drawn at all.
    place = f'x="{num(a0, 2)}" y="{num(b0, 2)}" width="{num(max(a1 - a0, 0.01), 2)}" height="{num(max(b1 - b0, 0.01), 2)}"'
    score = f' data-score="{mark.score:.4g}"' if math.isfinite(mark.score) else ""
    cls = f"fig-mark fig-{slug(mark.fate)}" + (" fig-outside" if outside else "")
    box = f'<rect {place} class="{cls}" data-fate="{safe(mark.fate)}"{score}{FIXED}>{title(said(mark) + more)}</rect>'
    return f'<rect {place} class="fig-halo fig-halo-{slug(mark.fate)}"{FIXED}/>{box}'


def _cut(low: float, high: float, side: float, width: float, height: float, outside: bool) -> tuple[float, float]:
    """Return one direction of a box cut at the edges, a little inside them, so that they show that it goes on."""
    longer = max(width, height)
    inset = min(INSET * longer, side / 4) if low < 0 or high > side else 0.0
    a, b = (min(max(v, inset), side - inset) for v in (low, high))
    if outside and b - a < TRACE * longer and (low <= side and high >= 0):
        middle = min(max((a + b) / 2, TRACE * longer / 2), max(side - TRACE * longer / 2, 0.0))
        a, b = middle - TRACE * longer / 2, middle + TRACE * longer / 2
    return a, b
