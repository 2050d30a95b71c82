# SPDX-License-Identifier: Apache-2.0
"""Objects on an image: one group per fate, so that a page can hide it; each has a halo and a
tooltip.

An object is drawn as its outline if that is known, else as a box. All halos lie below all objects:
otherwise the halo of a box would hide its neighbour. The map of a model lies between picture and
halos.
"""

from __future__ import annotations

import math
import re

from calipers.errors import UsageError
from calipers.plots.figures import BoxMark, Overlay, Ring
from calipers.plots.svg.elements import Drawing, Sheet, num, title
from calipers.plots.svg.empty import empty_drawing
from calipers.plots.theme import MARKS

# From below to above: what was found is never hidden by what was left out.
ORDER = ("ignored", "reference", "duplicate", "false alarm", "hit", "missed")
INSET = 0.004  # of the longer side: how far inside the edge a cut box is drawn
TRACE = 0.02  # of the longer side: length at least of what a box outside leaves
PICTURE = re.compile(r"data:image/[a-z+.-]+;base64,[A-Za-z0-9+/=]*")
OUTSIDE = ' class="fig-outside"'
SYMBOL = re.compile(r"[A-Za-z][\w-]*", re.ASCII)


def slug(fate: str) -> str:
    """Return the name of a fate in classes."""
    return fate.replace(" ", "-")


def draw(figure: Overlay, sheet: Sheet) -> Drawing:
    """Draw boxes on an image, in pixels of the image."""
    width, height = figure.size
    if not (math.isfinite(width) and math.isfinite(height) and width > 0 and height > 0):
        return empty_drawing(sheet, "the size of the image is not known")
    whole = f'width="{num(width, 2)}" height="{num(height, 2)}"'
    parts = [
        f'<rect {whole} class="fig-backdrop"/>',
        picture_of(figure.picture, figure.symbol, whole, "fig-picture"),
        picture_of(figure.shade, figure.shade_symbol, whole, "fig-layer fig-layer-map"),
    ]
    halos, layers = [], []
    for fate in ORDER:
        marks = [mark for mark in figure.marks if _fate(mark) == fate]
        marks = [mark for mark in marks if all(map(math.isfinite, mark.box))]
        if not marks:
            continue
        marks.sort(key=lambda mark: -_area(mark.box))  # small ones on top, within reach
        around, content = "", ""
        for mark in marks:
            place = _place(mark, width, height)
            around += _around(mark, place)
            content += _mark(mark, place, width, height)
        layer = f"fig-layer fig-layer-{slug(fate)}"
        halos.append(f'<path class="{layer} fig-halo fig-halo-{slug(fate)}" d="{around}"/>')
        layers.append(f'<g class="{layer} fig-mark fig-{slug(fate)}">{content}</g>')
    return Drawing(width, height, [*parts, *halos, *layers])


def _fate(mark: BoxMark) -> str:
    if mark.fate not in MARKS:
        raise UsageError(f"fate of a box: expected one of {', '.join(MARKS)}, got {mark.fate!r}")
    return mark.fate


def _area(box: tuple[float, float, float, float]) -> float:
    return abs((box[2] - box[0]) * (box[3] - box[1]))


def picture_of(data: str, symbol: str, whole: str, kind: str) -> str:
    """Return a picture at a place: its pixels, or a reference to one that the page holds; "" for
    none.
    """
    if data:
        if not PICTURE.fullmatch(data):
            raise UsageError(
                f"picture of an overlay: expected data:image/...;base64,..., got {data[:40]!r}; "
                "a page must not load anything from elsewhere"
            )
        return f'<image {whole} href="{data}" class="{kind}" preserveAspectRatio="none"/>'
    if symbol:
        if not SYMBOL.fullmatch(symbol):
            raise UsageError(
                "symbol of an overlay: expected an id of letters, digits and dashes, "
                f"got {symbol!r}"
            )
        return f'<use {whole} href="#{symbol}" class="{kind}"/>'
    return ""


def _around(mark: BoxMark, place: tuple[float, float, float, float]) -> str:
    """Return the path of an object: its outline, or the box as it is placed."""
    if mark.outline:
        return "".join(map(_ring, mark.outline))
    x, y, w, h = place
    return f"M{num(x, 2)} {num(y, 2)}h{num(w, 2)}v{num(h, 2)}h{num(-w, 2)}z"


def _ring(ring: Ring) -> str:
    """Return a closed path in relative steps, which are short to write.

    Most edges of masks run along rows and columns.
    """
    (x, y), *others = ring
    commands = [f"M{num(x, 2)} {num(y, 2)}"]
    for x1, y1 in others:
        dx, dy = num(x1 - x, 2), num(y1 - y, 2)
        if y1 == y:
            commands.append(f"h{dx}")
        elif x1 == x:
            commands.append(f"v{dy}")
        else:
            commands.append(f"l{dx} {dy}")
        x, y = x1, y1
    return "".join(commands) + "z"


def mark_text(mark: BoxMark) -> str:
    """Return the tooltip of a box: "hit: nodule, score 0.83"."""
    score = f", score {mark.score:.3g}" if math.isfinite(mark.score) else ""
    return f"{MARKS[mark.fate].words}: {mark.label}{score}"


def _place(mark: BoxMark, width: float, height: float) -> tuple[float, float, float, float]:
    """Return x, y, width and height of a box as it is drawn."""
    (x0, x1), (y0, y1) = sorted((mark.box[0], mark.box[2])), sorted((mark.box[1], mark.box[3]))
    outside = _outside(mark, width, height)
    left, right = _clip(x0, x1, width, width, height, outside)
    top, bottom = _clip(y0, y1, height, width, height, outside)
    # A box without width would not be drawn at all.
    return left, top, max(right - left, 0.01), max(bottom - top, 0.01)


def _outside(mark: BoxMark, width: float, height: float) -> bool:
    (x0, x1), (y0, y1) = sorted((mark.box[0], mark.box[2])), sorted((mark.box[1], mark.box[3]))
    return x1 < 0 or y1 < 0 or x0 > width or y0 > height


def _mark(
    mark: BoxMark, place: tuple[float, float, float, float], width: float, height: float
) -> str:
    outside = _outside(mark, width, height)
    beyond = min(mark.box) < 0 or max(mark.box[0::2]) > width or max(mark.box[1::2]) > height
    text = mark_text(mark)
    if outside:
        text += ", outside the image"
    elif beyond:
        text += ", reaches beyond the image"
    if mark.outline:
        return f'<path d="{_around(mark, place)}">{title(text)}</path>'
    names = ("x", "y", "width", "height")
    at = " ".join(f'{name}="{num(value, 2)}"' for name, value in zip(names, place))
    return f"<rect {at}{OUTSIDE if outside else ''}>{title(text)}</rect>"


def _clip(
    low: float, high: float, side: float, width: float, height: float, outside: bool
) -> tuple[float, float]:
    """Return one direction of a box cut at the edges, a little inside them, so that they show that
    it goes on.
    """
    longer = max(width, height)
    inset = min(INSET * longer, side / 4) if low < 0 or high > side else 0.0
    a, b = (min(max(v, inset), side - inset) for v in (low, high))
    if outside and b - a < TRACE * longer and (low <= side and high >= 0):
        middle = min(max((a + b) / 2, TRACE * longer / 2), max(side - TRACE * longer / 2, 0.0))
        a, b = middle - TRACE * longer / 2, middle + TRACE * longer / 2
    return a, b
