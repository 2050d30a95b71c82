# SPDX-License-Identifier: Apache-2.0
"""Propose a pattern for names that do not pair.

The proposal becomes the hint of an error of `pairing`; it is never applied automatically.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping

from calipers.readers.volumes.opening import EXTENSIONS

BOUNDARY = re.compile(r"[_\-. /]")


def proposal(references: Mapping[str, str], predictions: Mapping[str, str]) -> str:
    """Return a hint for two sets of names (name -> path) that do not pair; empty if there is none.

    Prefixes and suffixes that all names of a side share are removed at their boundaries (``_ - .
    /`` and space), on both sides; the shortest such pieces that make most names equal are proposed.
    """
    most_equal = len(set(references) & set(predictions))
    reference_pieces, prediction_pieces = ("", ""), ("", "")
    for ours in _affixes(references):
        reference_names = {_bare(name, ours) for name in references}
        for theirs in _affixes(predictions):
            prediction_names = {_bare(name, theirs) for name in predictions}
            equal = len(reference_names & prediction_names)
            if equal > most_equal:
                most_equal = equal
                reference_pieces, prediction_pieces = ours, theirs
    options = []
    for option, pieces, paths in (
        ("reference_pattern", reference_pieces, references),
        ("pattern", prediction_pieces, predictions),
    ):
        if any(pieces):
            options.append(f'{option}="{pieces[0]}{{name}}{pieces[1]}{_extension(paths)}"')
    if options:
        return f"{most_equal} names would pair with {' and '.join(options)}"
    reference_names = {_loose(name) for name in references}
    equal = len(reference_names & {_loose(name) for name in predictions})
    if equal > most_equal:
        return f"{equal} names would pair without regard to case: rename them"
    return ""


def _loose(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _bare(name: str, pieces: tuple[str, str]) -> str:
    start, end = pieces
    return name[len(start) : len(name) - len(end)]


def _affixes(names: Collection[str]) -> list[tuple[str, str]]:
    """Return the (prefix, suffix) pairs that all names share, short ones first.

    Pieces end at boundaries; of a single name, all pieces at its boundaries are returned.
    """
    shortest = min(map(len, names))
    before = _common_start(list(names))
    behind = _common_start([name[::-1] for name in names])[::-1]
    starts = ["", *(before[: m.end()] for m in BOUNDARY.finditer(before))][:6]
    ends = ["", *(behind[m.start() :] for m in reversed(list(BOUNDARY.finditer(behind))))][:6]
    pairs = [(start, end) for start in starts for end in ends if len(start) + len(end) < shortest]
    return sorted(pairs, key=lambda pieces: len(pieces[0]) + len(pieces[1]))


def _common_start(names: list[str]) -> str:
    """Return the letters with which all names begin."""
    # What the first and the last name in alphabetical order share, all names share.
    first, last = min(names), max(names)
    length = 0
    for a, b in zip(first, last):
        if a != b:
            break
        length += 1
    return first[:length]


def _extension(paths: Mapping[str, str]) -> str:
    """Return the extension that all files share; empty if they differ."""
    extensions = {_extension_of(path.lower()) for path in paths.values()}
    return extensions.pop() if len(extensions) == 1 else ""


def _extension_of(path: str) -> str:
    return next((extension for extension in EXTENSIONS if path.endswith(extension)), "")
