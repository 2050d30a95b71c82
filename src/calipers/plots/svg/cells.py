# SPDX-License-Identifier: Apache-2.0
"""Cells of an image: a whole number each, as a shade, and the outline of the reference."""

from __future__ import annotations

import numpy as np

from calipers.plots.figures import Cells, Flags
from calipers.plots.svg.elements import Drawing, Sheet, el, label, num, segments, words
from calipers.plots.svg.empty import empty_drawing
from calipers.plots.svg.heatmap import CellLayout, run_path
from calipers.plots.svg.legends import Entry, legend
from calipers.plots.svg.markers import line_classes
from calipers.plots.svg.overlay import picture_of
from calipers.plots.svg.shades import SHADES
from calipers.plots.svg.words import width_of

HIGHEST = 380.0  # pixels of the whole map
LARGEST = 26.0  # of a cell
SWATCH, ROW = 13.0, 18.0
MANY = 12  # numbers that have a swatch each
OPAQUE, THROUGH = "1", ".6"  # over nothing, over a picture


def draw(figure: Cells, sheet: Sheet) -> Drawing:
    """Draw a number per cell."""
    rows, columns = figure.counts.shape
    if not rows or not columns:
        return empty_drawing(sheet, "no cells")
    labels, top = _legend(figure, sheet)
    side = min((sheet.width - 2.0) / columns, HIGHEST / (rows * figure.aspect), LARGEST)
    at = CellLayout(1.0, top, side, side * figure.aspect)
    wide, high = at.wide * columns, at.high * rows
    place = f'x="{num(at.left)}" y="{num(at.top)}" width="{num(wide, 2)}" height="{num(high, 2)}"'
    parts = [*labels, picture_of(figure.picture, "", place, "fig-picture")]
    for k in range(1 if figure.picture else 0, figure.most + 1):
        path = run_path(figure.counts == k, at)
        if path:
            over = THROUGH if figure.picture else OPAQUE
            parts.append(
                el(
                    "path",
                    d=path,
                    cls=f"fig-q{_step(k, figure.most)} fig-seamless",
                    fill_opacity=over,
                )
            )
    parts.append(el("rect", x=at.left, y=at.top, width=wide, height=high, cls="fig-axis"))
    if figure.inside is not None and figure.inside.any():
        around = segments(_borders(figure.inside, at))
        parts += [
            el("path", d=around, cls="fig-error-halo"),
            el("path", d=around, cls=f"fig-line {line_classes(1)}"),
        ]
    return Drawing(sheet.width, at.top + high + 2.0, parts)


def _step(k: int, most: int) -> int:
    """Return the shade of a number; 0 has the lightest and ``most`` the darkest."""
    return round(k / max(most, 1) * (len(SHADES) - 1))


def _legend(figure: Cells, sheet: Sheet) -> tuple[list[str], float]:
    """Return what is counted, a swatch per number and the line of the reference, and its height."""
    parts = [label(0.0, 12.0, figure.label, width=sheet.width)]
    every = -(-figure.most // MANY) if figure.most > MANY else 1
    numbers = [k for k in range(figure.most + 1) if k % every == 0 or k == figure.most]
    x, y = 0.0, ROW + 3.0
    for k in numbers:
        wide = SWATCH + 4.0 + width_of(str(k)) + 12.0
        if x and x + wide > sheet.width:
            x, y = 0.0, y + ROW
        box = {"x": x + 0.5, "y": y, "width": SWATCH, "height": SWATCH}
        parts.append(el("rect", **box, cls=f"fig-q{_step(k, figure.most)} fig-undefined"))
        parts.append(words(x + SWATCH + 4.0, y + 10.5, str(k)))
        x += wide
    top = y + ROW + 4.0
    if figure.inside is not None and figure.inside.any():
        line, high = legend(sheet, [Entry("reference", 1, "outline")], top=top)
        return [*parts, *line], top + high
    return parts, top


def _borders(inside: Flags, at: CellLayout) -> list[tuple[float, float, float, float]]:
    """Return the straight pieces between cells inside and outside, those in a row as one."""
    padded = np.pad(inside, 1).astype(np.int8)
    borders = []
    for flat, upright in (
        (np.diff(padded, axis=0)[:, 1:-1], False),
        (np.diff(padded, axis=1)[1:-1].T, True),
    ):
        for line in np.flatnonzero(flat.any(axis=1)).tolist():
            edges = np.flatnonzero(
                np.diff(np.concatenate([[0], flat[line] != 0, [0]]).astype(np.int8))
            )
            for a, b in zip(edges[::2].tolist(), edges[1::2].tolist()):
                (x0, y0), (x1, y1) = (at.corner(a, line), at.corner(b, line)) if upright else (
                    at.corner(line, a), at.corner(line, b)
                )  # fmt: skip
                borders.append((x0, y0, x1, y1))
    return borders
