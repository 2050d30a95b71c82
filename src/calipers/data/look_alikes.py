# SPDX-License-Identifier: Apache-2.0
"""Names that differ and look alike: ``P1`` beside ``P1`` with a blank behind it, ``é`` as one sign
and as two.

Names are compared as they are written, everywhere: equal names are one patient, one image, one
class, and others are two. Two files that people or programs edited may write one patient in two
ways, and intervals are then narrower than they should be, because one unit counts as two. Nothing
is merged here: that would guess. `look_alikes` finds such names, `note_on_names` says which they
are and what to do: evaluations, monitors, stability, ratings, mixed models and `calipers.doctor`
show it. `note_on_split` is for images that something is tuned on beside those that judge it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any
from unicodedata import category, normalize

from calipers.errors import told_apart

SHOWN = 3  # pairs that a note names
NARROWER = "intervals are narrower with more of them"  # of units that are resampled
# Letters of other scripts that look like those of Latin, and dashes that look like a hyphen.
CYRILLIC = ("АВЕКМНОРСТУХІЈЅаеорсухіјѕԁ", "ABEKMHOPCTYXIJSaeopcyxijsd")
GREEK = ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧορν", "ABEZHIKMNOPTYXopv")
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"
SAME_LOOK = str.maketrans(CYRILLIC[0] + GREEK[0], CYRILLIC[1] + GREEK[1]) | dict.fromkeys(
    map(ord, DASHES), "-"
)
# Drawn as nothing, although Unicode does not count them among the format characters.
BLANK_SIGNS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
VARIATIONS = frozenset(map(chr, range(0xFE00, 0xFE10)))
# Names that are numbers, but not as whole numbers are usually written: 07, 7.0 or 7e0.
ODD_NUMBER = re.compile(
    r"(?:\A|\|)(?:0\d+(?:\.0*)?|\d+\.0*|\d+(?:\.\d*)?e[-+]?\d{1,2})(?=\||\Z)", re.ASCII | re.I
)
WHOLE = re.compile(r"0*(\d+)(?:\.0*)?", re.ASCII)
# As spreadsheets and programs write large numbers; a longer exponent is that of a name.
SCIENTIFIC = re.compile(r"\d+(?:\.\d*)?e[-+]?\d{1,2}", re.ASCII)


def look_alikes(names: Iterable[Any]) -> list[tuple[str, str]]:
    """Return pairs of names that differ, and that a reader may take for one.

    They differ in blanks, in signs that are not drawn, in the Unicode form of accents, in case, in
    letters of other scripts that look the same, or in the way a whole number is written (7, 07, 7.0
    and 7e0).
    """
    texts = [name for name in names if isinstance(name, str)]
    together = "|".join(texts)
    # Of millions of plain names only case can differ, and how a number is written: one look at all
    # of them together is quick.
    if _is_plain(together) and not ODD_NUMBER.search(together):
        folded = together.casefold().split("|")
        if len(set(folded)) == len(set(texts)) and len(folded) == len(texts):
            return []
    return _pairs(texts, _similar)


def note_on_names(kind: str, names: Iterable[Any], consequence: str = "") -> list[str]:
    """Return at most one sentence: which names of patients, say, look alike, and what to do."""
    pairs = look_alikes(names)
    if not pairs:
        return []
    texts = [" and ".join(told_apart(*pair)) for pair in pairs[:SHOWN]]
    more = f", and {len(pairs) - SHOWN} more pairs" if len(pairs) > SHOWN else ""
    effect = f"; {consequence}" if consequence else ""
    return [
        f"{kind}: {', '.join(texts)}{more} look alike and count as different ones{effect}. "
        "If they are the same, write them in one way in the files."
    ]


def note_on_split(one: Iterable[Any], other: Iterable[Any], purpose: str) -> list[str]:
    """Return at most one sentence: which patients lie on both sides of a split, as one name or as
    two that look alike.

    Parameters
    ----------
    purpose
        What one of the sides is for, such as ``tuning``; the other one judges it.
    """
    first = dict.fromkeys(str(name) for name in one)
    second = dict.fromkeys(str(name) for name in other)
    names: dict[str, str] = {}
    for name in first:
        names.setdefault(_similar(name), name)
    pairs = []
    for name in second:
        alike = name if name in first else names.get(_similar(name))
        if alike is not None:
            pairs.append((alike, name))
    if not pairs:
        return []
    texts = [
        repr(name) if alike == name else " and ".join(told_apart(alike, name))
        for alike, name in pairs[:SHOWN]
    ]
    more = f", and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
    return [
        f"patient: {', '.join(texts)}{more} lie on both sides of the split for {purpose}: what was "
        "learnt from a patient is judged by the same patient, which is optimistic. Split by "
        "patient, and write each patient in one way."
    ]


def hint_on_names(one: object, other: object) -> str:
    """Return a hint that shows how two names differ that look alike; nothing for others."""
    pairs = look_alikes((str(one), str(other)))
    return " and ".join(told_apart(*pairs[0])) + " look alike" if pairs else ""


def _is_plain(together: str) -> bool:
    """Return whether all names are visible signs of ASCII without blanks: all of them differ in
    what is seen.
    """
    return together.isascii() and together.isprintable() and " " not in together


def _pairs(names: Iterable[str], look: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the first name of each look with every other one of that look."""
    first: dict[str, str] = {}
    pairs = []
    for name in dict.fromkeys(names):
        other = first.setdefault(look(name), name)
        if other != name:
            pairs.append((str(other), str(name)))
    return pairs


def _drawn(name: str) -> str:
    """Return what is seen of a name: signs that are drawn, with one blank between words."""
    if not name.isascii():
        name = normalize("NFC", name)
        name = "".join(sign for sign in name if not _is_unseen(sign))
    # Nearly all names have no blanks, and there may be millions.
    return " ".join(name.split()) if not name.isprintable() or " " in name else name


def _is_unseen(sign: str) -> bool:
    return sign in BLANK_SIGNS or sign in VARIATIONS or category(sign) == "Cf"


def _similar(name: str) -> str:
    """Return what is left of a name without what readers easily overlook."""
    name = _drawn(name)
    if not name.isascii():
        # The table holds letters of both cases: those of one case alone need not look alike.
        name = normalize("NFKC", name.translate(SAME_LOOK))
    name = name.casefold()
    if not name[:1].isdigit():
        return name
    if "e" in name and SCIENTIFIC.fullmatch(name):
        name = format(Decimal(name), "f")
    number = WHOLE.fullmatch(name)
    return number[1] if number else name
