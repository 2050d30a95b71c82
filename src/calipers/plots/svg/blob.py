# SPDX-License-Identifier: Apache-2.0
"""Blob plots of ranks: the area of a disc is the share of replicates with that rank."""

from __future__ import annotations

import math

import numpy as np

from calipers.plots.figures import Axis, Blob, slots_of
from calipers.plots.svg.axes import Plane, PlaneSpec, plane
from calipers.plots.svg.elements import Drawing, Sheet, el, num, segments, title, words
from calipers.plots.svg.empty import UNDEFINED, empty_drawing
from calipers.plots.svg.markers import fill, stroke
from calipers.plots.svg.words import width_of

ROW = 42.0
LARGEST = 19.0  # radius of a share of one
KEY = (1.0, 0.5, 0.1)
FAINT = 0.0005  # smaller shares are less than a speck


def draw(figure: Blob, sheet: Sheet) -> Drawing:
    """Draw how often every model had every rank."""
    models, ranks = len(figure.models), figure.shares.shape[1] if figure.shares.ndim == 2 else 0
    if not models or not ranks:
        return empty_drawing(sheet, "no models")
    if not np.isfinite(figure.shares).any():
        return empty_drawing(sheet, UNDEFINED)
    key, top = _key(sheet, figure.of)
    x = Axis("rank (1 = best)", ticks=tuple(float(r) for r in range(1, ranks + 1)))
    y = Axis("", names=figure.models)
    plan = PlaneSpec(
        x,
        y,
        (0.5, ranks + 0.5),
        (-0.5, models - 0.5),
        top=top,
        inner=ROW * models,
        down=True,
        grid="",
    )
    at = plane(sheet, plan)
    largest = min(LARGEST, 0.47 * (at.right - at.left) / ranks)
    rows = [(at.left, at.y.at(m), at.right, at.y.at(m)) for m in range(models)]
    parts = [*key, *at.parts, el("path", d=segments(rows), cls="fig-grid")]
    for m in range(models):
        parts.extend(_model(figure, m, at, largest))
    return Drawing(sheet.width, at.height, parts)


def _key(sheet: Sheet, of: str) -> tuple[list[str], float]:
    """Return what areas, lines and diamonds mean."""
    parts, x = [], 0.0
    for share in KEY:
        r = 9.0 * math.sqrt(share)
        parts.append(el("circle", cx=x + r, cy=12.0, r=r, cls="fig-blob fig-f0"))
        text = f"{share:.0%}".replace("%", " %")
        parts.append(words(x + 2 * r + 4.0, 16.0, text))
        x += 2 * r + 4.0 + width_of(text) + 12.0
    x, y = (x + 8.0, 12.0) if sheet.width >= 520.0 else (0.0, 34.0)
    text_of_key = f"of the {of}" if y < 20.0 else f"share of the {of}"
    parts.append(words(x, y + 4.0, text_of_key))
    x += width_of(text_of_key) + 10.0
    parts.append(el("path", d=segments([(x, y, x + 26.0, y)]), cls="fig-span"))
    parts.append(_diamond(x + 13.0, y))
    parts.append(words(x + 32.0, y + 4.0, "median, interval"))
    return parts, y + 18.0


def _diamond(x: float, y: float, inner: str = "") -> str:
    return el(
        "path", inner, d=f"M{num(x)} {num(y)}m0-4.5l4.5 4.5-4.5 4.5-4.5-4.5z", cls="fig-median-mark"
    )


def _model(figure: Blob, m: int, at: Plane, largest: float) -> list[str]:
    y, slot = at.y.at(float(m)), slots_of(figure, len(figure.models))[m]
    parts = []
    for r in range(figure.shares.shape[1]):
        share = float(figure.shares[m, r])
        if math.isfinite(share) and share > FAINT:
            radius = largest * math.sqrt(min(share, 1.0))
            inner = title(
                f"{figure.models[m]}, rank {r + 1}: {100 * share:.1f} % of the {figure.of}"
            )
            parts.append(
                el(
                    "circle",
                    inner,
                    cx=at.x.at(r + 1.0),
                    cy=y,
                    r=radius,
                    cls=f"fig-blob {fill(slot)} {stroke(slot)}",
                )
            )
    if m < len(figure.spans) and all(map(math.isfinite, figure.spans[m])):
        low, high = (at.x.within(end) for end in figure.spans[m])
        parts.append(el("path", d=segments([(low, y, high, y)]), cls="fig-span"))
    if m < len(figure.medians) and math.isfinite(figure.medians[m]):
        parts.append(
            _diamond(
                at.x.within(figure.medians[m]),
                y,
                title(f"{figure.models[m]}: median rank {figure.medians[m]:g}"),
            )
        )
    return parts
