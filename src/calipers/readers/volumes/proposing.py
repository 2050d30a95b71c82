# SPDX-License-Identifier: Apache-2.0
"""Why names do not pair, and the pattern with which they would: proposed in an error, never used by
itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping

from calipers.readers.volumes.opening import EXTENSIONS

BOUNDARY = re.compile(r"[_\-. /]")


def proposal(references: Mapping[str, str], predictions: Mapping[str, str]) -> str:
    """Return a hint for two sets of names (name -> path) that do not pair; empty if there is none.

    Beginnings and ends that all names of a side share are taken away at their boundaries (``_ - .
    /`` and space), on either side; the shortest such pair of pieces that makes most names equal is
    proposed.
    """
    loosely = len({_loose(name) for name in references} & {_loose(name) for name in predictions})
    best, found = len(set(references) & set(predictions)), ("", "", "", "")
    for ours in _affixes(references):
        wanted = {_bare(name, ours) for name in references}
        for theirs in _affixes(predictions):
            same = len(wanted & {_bare(name, theirs) for name in predictions})
            if same > best:
                best, found = same, (*ours, *theirs)
    if any(found):
        said = []
        for what, pieces, paths in (
            ("reference_pattern", found[:2], references),
            ("pattern", found[2:], predictions),
        ):
            if any(pieces):
                said.append(f'{what}="{pieces[0]}{{name}}{pieces[1]}{_extension(paths)}"')
        return f"{best} names would pair with {' and '.join(said)}"
    if loosely > best:
        return f"{loosely} names would pair without regard to case: rename them"
    return ""


def _loose(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _bare(name: str, pieces: tuple[str, str]) -> str:
    start, end = pieces
    return name[len(start) : len(name) - len(end)]


def _affixes(names: Collection[str]) -> list[tuple[str, str]]:
    """Return (beginning, end) that all names share, short ones first; of a single name, pieces at
    its boundaries.
    """
    listed = list(names)
    shortest = min(map(len, listed))
    before = _shared(listed)
    behind = _shared([name[::-1] for name in listed])[::-1]
    starts = ["", *(before[: m.end()] for m in BOUNDARY.finditer(before))][:6]
    ends = ["", *(behind[m.start() :] for m in reversed(list(BOUNDARY.finditer(behind))))][:6]
    pairs = [(start, end) for start in starts for end in ends if len(start) + len(end) < shortest]
    return sorted(pairs, key=lambda pieces: len(pieces[0]) + len(pieces[1]))


def _shared(names: list[str]) -> str:
    """Return the letters with which all names begin."""
    first, last = min(names), max(names)
    same = next(
        (k for k, (a, b) in enumerate(zip(first, last)) if a != b), min(len(first), len(last))
    )
    return first[:same]


def _extension(paths: Mapping[str, str]) -> str:
    """Return the extension that all files share; empty if they differ."""
    found = {
        next((end for end in EXTENSIONS if path.lower().endswith(end)), "")
        for path in paths.values()
    }
    return found.pop() if len(found) == 1 else ""
