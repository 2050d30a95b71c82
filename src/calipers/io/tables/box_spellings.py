# SPDX-License-Identifier: Apache-2.0
"""What else the columns of a box are called: ``bbox_x``, ``col_min``, ``x_start``, ``topLeftX``.

Tables join a word for the axis with one for the place on it, in either order, with or without signs
between them, and with a word for the box before them. `box_part` returns the name that such a
column has in `calipers.io.tables.columns`, which asks only where names that it knows make no box.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import product

AXES: Mapping[str, tuple[str, ...]] = {"x": ("x", "col", "column"), "y": ("y", "row"), "z": ("z",)}
LOW = ("min", "start", "begin", "low", "lower", "from", "von")
HIGH = ("max", "end", "stop", "high", "upper", "to", "bis")
LOW_CORNER = ("tl", "topleft", "upperleft", "ul", "lt", "lefttop", "obenlinks")
HIGH_CORNER = ("br", "bottomright", "lowerright", "rb", "rightbottom", "untenrechts")
CENTRE = ("c", "center", "centre", "ctr", "mid", "mitte")
# Words that name the axis as well; the axis may stand beside them.
EDGES: Mapping[str, tuple[str, ...]] = {
    "xmin": ("left", "links", "gauche"),
    "ymin": ("top", "oben", "haut"),
    "xmax": ("right", "rechts", "droite"),
    "ymax": ("bottom", "unten", "bas"),
}
SIDES: Mapping[str, tuple[str, ...]] = {
    "w": ("w", "width", "breite"),
    "h": ("h", "height", "höhe", "hoehe"),
    "d": ("d", "depth", "tiefe"),
}
CORNERS = ("x", "y", "cx", "cy", "x0", "y0", "x1", "y1", "x2", "y2", "xmin", "ymin", "xmax", "ymax")
BOX = re.compile(r"^(bbox|boundingbox|box|bb|rect|roi)(es)?(?=.)")
UNIT = re.compile(r"[\s_(\[]+(px|pixels?)[)\]]?$")


def _spellings() -> dict[str, str]:
    """Return the part of a box by its names without signs."""
    parts: dict[str, str] = {}
    places = {"{}min": LOW + LOW_CORNER, "{}max": HIGH + HIGH_CORNER, "c{}": CENTRE}
    for (axis, axis_words), (part, words) in product(AXES.items(), places.items()):
        for axis_word, word in product(axis_words, words):
            parts[axis_word + word] = parts[word + axis_word] = part.format(axis)
    for part, words in EDGES.items():
        for word in words:
            parts[word] = parts[word + part[0]] = parts[part[0] + word] = part
    return parts


SPELLINGS = _spellings()
# With a word for the box, or a unit, also names that alone may be something else.
OF_BOX = SPELLINGS | {word: side for side, words in SIDES.items() for word in words}
OF_BOX |= {name: name for name in ("x", "y", "z", "x0", "y0", "z0", "x1", "y1", "z1")}
OF_BOX |= {name: name for name in ("x2", "y2", "z2")}
# MATLAB writes the four columns of a variable so, whatever it is called.
OF_BOX |= {str(k): f"bbox_{k}" for k in range(1, 5)}


def box_part(name: str) -> str | None:
    """Return which part of a box a column is by its name, or None."""
    plain = UNIT.sub("", name.strip().lower())
    joined = re.sub(r"[\W_]+", "", plain)
    inner = BOX.sub("", joined)
    if inner != joined or plain != name.strip().lower():
        return OF_BOX.get(inner)
    return SPELLINGS.get(joined)


def box_parts(names: Iterable[str], taken_parts: Collection[str] = ()) -> dict[str, str]:
    """Return the columns that are parts of a box, by part; what two columns are is neither."""
    parts: dict[str, str] = {}
    doubtful = set(taken_parts)
    for name in names:
        part = box_part(name)
        if part is not None and part not in doubtful:
            if part in parts:
                doubtful.add(part)
                del parts[part]
            else:
                parts[part] = name
    return parts
