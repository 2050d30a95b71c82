# SPDX-License-Identifier: Apache-2.0
"""What else the columns of a box are called: ``bbox_x``, ``col_min``, ``x_start``, ``topLeftX``.

Tables join a word for the axis with one for the place on it, in either order, with or without signs
between them, and with a word for the box before them. `box_part` returns the name that such a
column has in `calipers.io.tables.columns`, which asks only where names that it knows make no box.
A box has one such word: ``x`` and ``bbox_w`` are not of one box.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
NUMBERED = re.compile(r"[\W_]*([0-9]+)[\W_]*$")
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


# Further corners of a box that may be turned.
FURTHER_POINTS = frozenset({"x3", "y3"})


def bare_name(name: str) -> tuple[str, str]:
    """Return the word for the box before a name, or "", and the rest of it without signs."""
    joined = re.sub(r"[\W_]+", "", UNIT.sub("", name.strip().lower()))
    word = BOX.match(joined)
    return (word.group(), joined[word.end() :]) if word else ("", joined)


def box_part(name: str) -> str | None:
    """Return which part of a box a column is by its name, or None."""
    plain = name.strip().lower()
    word, rest = bare_name(name)
    return (OF_BOX if word or UNIT.search(plain) else SPELLINGS).get(rest)


def box_parts(
    names: Iterable[str], known_parts: Mapping[str, str] | None = None
) -> dict[str, dict[str, str]]:
    """Return the columns that are parts of a box, by the word before their names, then by part.

    Parts that are known stay what they are; what two columns are is neither. Names that differ in
    that word are of different boxes, or one of them is of no box.
    """
    boxes: dict[str, dict[str, str]] = {}
    for part, name in (known_parts or {}).items():
        boxes.setdefault(bare_name(name)[0], {})[part] = name
    doubtful = {(word, part) for word, parts in boxes.items() for part in parts}
    for name in names:
        word, spelled_part = bare_name(name)[0], box_part(name)
        if spelled_part is None:
            continue
        parts = boxes.setdefault(word, {})
        if (word, spelled_part) in doubtful:
            continue
        if spelled_part in parts:
            doubtful.add((word, spelled_part))
            del parts[spelled_part]
        else:
            parts[spelled_part] = name
    return boxes


def is_numbered_on(names: Iterable[str], first: str) -> bool:
    """Return whether names count on beyond the four numbers of a box, of which one name is given.

    Five numbers and more are a turned box, one with its score, or one in 3D.
    """
    stem = NUMBERED.sub("", first.strip().lower())
    for name in names:
        plain = name.strip().lower()
        number = NUMBERED.search(plain)
        is_beside = number is not None and plain[: number.start()] == stem
        if number is not None and is_beside and not 1 <= int(number.group(1)) <= 4:
            return True
    return False


def are_points(names: Iterable[str], column: str) -> bool:
    """Return whether a corner of a box has a third one beside it, as turned boxes have."""
    word = bare_name(column)[0]
    rests = {rest for other, rest in map(bare_name, names) if other == word}
    return rests >= FURTHER_POINTS
