# SPDX-License-Identifier: Apache-2.0
"""Short names for names that are long and resemble each other.

Detectors are named after their settings: ``retinanet_r50_fpn_3x_fold0_epoch12_ema`` and
``..._fold1_epoch12_ema``. A label has room for about 28 characters, and shortening each name by
itself leaves out the only part in which they differ. `tell_apart` takes all names that stand beside
each other and returns new ones for those that would become equal: the words in which a name differs
from the others stay, then as much of its beginning and end as there is room for. `show.words` calls
it for pages, and tables, legends and axes for their own names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from hashlib import sha256

ROOM = 28  # characters of a name that every label shows whole
ELLIPSIS = "…"
LONGEST_COMPARED = 200  # characters; longer names are told apart by a mark alone

# A word is a run of letters and digits, or a number such as 0.01.
WORD = re.compile(r"(?:[^\W_]|(?<=\d)\.(?=\d))+")
Spans = list[tuple[int, int]]


def tell_apart(
    names: Iterable[str], shorten: Callable[[str], str], room: int = ROOM
) -> dict[str, str]:
    """Return new names, of at most ``room`` characters, for those that ``shorten`` makes equal.

    All other names are left out: they may be shortened one by one.
    """
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        groups.setdefault(shorten(name), []).append(name)
    new_names: dict[str, str] = {}
    for group in groups.values():
        if len(group) > 1:
            new_names |= dict(zip(group, _distinct(group, room)))
    return new_names


def _distinct(names: Sequence[str], room: int) -> list[str]:
    """Return one short name for each; all of them differ."""
    if max(map(len, names)) > LONGEST_COMPARED:
        return [_marked(name, room) for name in names]
    by_word = _by_difference(names, [_words(name) for name in names], room)
    if by_word is not None:
        return by_word
    by_letter = _by_difference(names, [_letters(name) for name in names], room)
    if by_letter is not None:
        return by_letter
    return [_marked(name, room) for name in names]


def _words(name: str) -> Spans:
    return [match.span() for match in WORD.finditer(name)]


def _letters(name: str) -> Spans:
    return [(k, k + 1) for k in range(len(name))]


def _by_difference(names: Sequence[str], spans: Sequence[Spans], room: int) -> list[str] | None:
    """Return names that keep the parts in which they differ; None if these do not fit, or do not
    tell the names apart.
    """
    parts = []
    for name, own in zip(names, spans):
        parts.append([name[start:end] for start, end in own])
    common = parts[0]
    for other in parts[1:]:
        common = _common(common, other)
    short_names = []
    for name, own, texts in zip(names, spans, parts):
        different = _unlike(texts, common)
        if len(_render(name, own, different)) > room:
            return None
        # The beginning says what family of models it is, so it is filled up first.
        different = _fill(name, own, different, range(len(own)), room)
        different = _fill(name, own, different, range(len(own) - 1, -1, -1), room)
        short_names.append(_render(name, own, different))
    return short_names if len(set(short_names)) == len(names) else None


def _common(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return the parts that both have, in their order."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    parts: list[str] = []
    for block in matcher.get_matching_blocks():
        parts += first[block.a : block.a + block.size]
    return parts


def _unlike(parts: Sequence[str], common: Sequence[str]) -> set[int]:
    """Return the places of the parts that are not among the common ones."""
    places: set[int] = set(range(len(parts)))
    matcher = SequenceMatcher(None, parts, common, autojunk=False)
    for block in matcher.get_matching_blocks():
        places -= set(range(block.a, block.a + block.size))
    return places


def _fill(name: str, spans: Spans, places: set[int], more: Iterable[int], room: int) -> set[int]:
    """Return the places with as many more of them as fit, in that order."""
    for k in more:
        longer = places | {k}
        if len(_render(name, spans, longer)) > room:
            break
        places = longer
    return places


def _render(name: str, spans: Spans, places: set[int]) -> str:
    """Return the parts of the name at these places, and an ellipsis wherever others are left
    out.
    """
    text, end, last = "", 0, -1
    for k in sorted(places):
        start = spans[k][0]
        text += name[end:start] if k == last + 1 else ELLIPSIS
        text += name[start : spans[k][1]]
        end, last = spans[k][1], k
    return text + (name[end:] if last == len(spans) - 1 else ELLIPSIS)


def _marked(name: str, room: int) -> str:
    """Return the beginning of the name and a few digits of its hash."""
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{name[: room - len(digest) - 3]}{ELLIPSIS} {digest}"
