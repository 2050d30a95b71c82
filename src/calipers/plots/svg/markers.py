# SPDX-License-Identifier: Apache-2.0
"""The look of a series: classes for colour and dash, shapes of markers, textures of areas."""

from __future__ import annotations

from calipers.plots.svg.elements import el, num
from calipers.plots.theme import DASHES, style

STROKED = frozenset({"cross", "plus", "star"})  # markers without an inside
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
    cls = f"fig-x {stroke(slot)}" if shape in STROKED else f"fig-m {fill(slot)}"
    return el("path", inner, d=_outline(shape, x, y, r), cls=cls)


def _outline(shape: str, x: float, y: float, r: float) -> str:
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
