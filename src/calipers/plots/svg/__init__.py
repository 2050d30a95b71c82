# SPDX-License-Identifier: Apache-2.0
"""Draw figures as SVG for pages with a strict content policy.

The SVG has no scripts and no style attributes, and loads nothing from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from calipers.errors import UsageError
from calipers.plots import figures as kinds
from calipers.plots.svg import (
    bars,
    blob,
    boxdots,
    cells,
    contour,
    curves,
    forest,
    heatmap,
    histogram,
    overlay,
    scatter,
)
from calipers.plots.svg.describing import description
from calipers.plots.svg.elements import Drawing, Sheet, num
from calipers.plots.svg.styles import standalone_stylesheet, stylesheet
from calipers.plots.svg.words import safe, shorten

__all__ = ["stylesheet", "svg"]

NARROWEST = 240.0
MARGIN = 12.0  # around a drawing that stands alone
LONGEST_TITLE = 500  # characters of the finding
NAME = re.compile(r"[A-Za-z0-9-]+")
DRAW_FUNCTIONS: dict[type[kinds.Figure], Callable[[Any, Sheet], Drawing]] = {
    kinds.Curves: curves.draw,
    kinds.Forest: forest.draw,
    kinds.Bars: bars.draw,
    kinds.HeatMap: heatmap.draw,
    kinds.Scatter: scatter.draw,
    kinds.Blob: blob.draw,
    kinds.BoxDots: boxdots.draw,
    kinds.Contour: contour.draw,
    kinds.Histogram: histogram.draw,
    kinds.Cells: cells.draw,
    kinds.Overlay: overlay.draw,
}


def svg(
    figure: kinds.Figure, *, width: float = 640, name: str = "figure", standalone: bool = False
) -> str:
    """Return a figure as an SVG element.

    Parameters
    ----------
    figure : Figure
        What is shown. Its title and a description are for readers who do not see it; the page shows
        the title itself.
    width : float
        Pixels for which the figure is laid out, 340 to 1000 are usual; it scales to the width of
        what holds it. An overlay is laid out in pixels of its image.
    name : str
        Prefix of ids, letters, digits and dashes, unique in a page.
    standalone : bool
        Return a whole file with its own style sheet and a background, for notebooks and folders.
        Otherwise the page holds `stylesheet` once.

    Raises
    ------
    UsageError
        If there is no way to draw ``figure``, or ``name`` cannot be a part of an id.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"name of a figure: expected letters, digits and dashes, got {name!r}")
    drawing = _draw(figure)(figure, Sheet(max(float(width), NARROWEST), name))
    pad = MARGIN if standalone and not isinstance(figure, kinds.Overlay) else 0.0
    w, h, start = num(drawing.width + 2 * pad, 2), num(drawing.height + 2 * pad, 2), num(-pad)
    classes, view = f"fig fig-kind-{type(figure).__name__.lower()}", f"{start} {start} {w} {h}"
    head, own = f'class="{classes}" viewBox="{view}"', ""
    if standalone:
        size = f'xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}"'
        head = f'{size} class="{classes} fig-alone" viewBox="{view}"'
        own = (
            f"<style>{standalone_stylesheet()}</style>"
            f'<rect x="{start}" y="{start}" width="{w}" height="{h}" class="fig-paper"/>'
        )
    label = f'role="img" aria-labelledby="{name}-title {name}-desc"'
    texts = (
        f'<title id="{name}-title">{safe(shorten(figure.title or "Figure", LONGEST_TITLE))}</title>'
    )
    texts += f'<desc id="{name}-desc">{safe(description(figure))}</desc>'
    return f"<svg {head} {label}>{texts}{own}{''.join(drawing.parts)}</svg>"


def _draw(figure: kinds.Figure) -> Callable[[Any, Sheet], Drawing]:
    for kind, draw in DRAW_FUNCTIONS.items():
        if isinstance(figure, kind):
            return draw
    names = ", ".join(kind.__name__ for kind in DRAW_FUNCTIONS)
    raise UsageError(f"figure: expected one of {names}, got {type(figure).__name__}")
