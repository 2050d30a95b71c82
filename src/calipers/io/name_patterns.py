# SPDX-License-Identifier: Apache-2.0
"""The patterns by which the names of two folders pair, where the names themselves do not.

`proposed_patterns` takes the names of references and predictions and returns the patterns that pair
most, as keywords of `calipers.io.volumes.pairing.pair`; `proposal` says them in an error, the
doctor in a finding. Two layouts are known: names that differ by a prefix or suffix that all of a
side share, and a folder of each case, in which files are called alike (``case1/prob.nii.gz``) or
after the case (``case1/case1_seg.nii.gz``, as MONAI saves them). Where several files of each case
would do, all are named and none is proposed: only the user knows which is meant.

`class_folders` finds a third layout: a folder for each class, with a file of every case in each
(``liver/case1.nii.gz``, ``spleen/case1.nii.gz``).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from itertools import product
from typing import NamedTuple

from calipers.io.volumes.open import extensions

SLOT = "{name}"
BOUNDARY = re.compile(r"[_\-. /]")
DIGIT = re.compile(r"\d")
FEWEST_CASES = 2  # folders that have a file of one kind
MOST_KINDS = 12  # kinds of files in the folders of cases
LEAST_SHARED = 0.5  # share of the cases that have a file in two folders of classes or more
ENUMERATION = re.compile(r"^\d+[._ )-]+")  # before the name of a class, as in "1. Microaneurysms"
# Folders with such names hold images of their own, which may be called as those of the others.
OF_IMAGES = re.compile(
    r"(?i)(train|val|test|dev|fold|split|part|batch|site|cent(er|re)|hospital|clinic|scanner|"
    r"vendor|patient|subject|case|series|study|video|seq|fig|baseline|follow|reader|rater|expert)"
)


class Proposal(NamedTuple):
    """The patterns by which most names pair, as keywords of `pair`, and how many then do."""

    patterns: dict[str, str]
    n_pairs: int
    # Several patterns of a keyword that would pair as many: none is proposed.
    choices: dict[str, list[str]]


class _NamesByPattern(NamedTuple):
    """The names of the files of one side that fit a pattern without extension."""

    pattern: str
    names: frozenset[str]
    is_kind: bool  # whether it is one kind of file in the folders of cases


def proposal(references: Mapping[str, str], predictions: Mapping[str, str]) -> str:
    """Return a hint for names (name -> path) that do not pair; empty if there is none."""
    patterns, most_equal, choices = proposed_patterns(references, predictions)
    if choices:
        return f"several files of each case: {said_choices(choices)}"
    if patterns:
        options = [f'{option}="{pattern}"' for option, pattern in patterns.items()]
        return f"{most_equal} names would pair with {' and '.join(options)}"
    reference_names = {_folded(name) for name in references}
    equal = len(reference_names & {_folded(name) for name in predictions})
    if equal > most_equal:
        return f"{equal} names would pair without regard to case: rename them"
    return ""


def proposed_patterns(references: Mapping[str, str], predictions: Mapping[str, str]) -> Proposal:
    """Return the patterns that pair most of the names (name -> path) of two folders.

    Prefixes and suffixes that all names of a side share are removed at their boundaries (``_ - .
    /`` and space), on both sides; the shortest such pieces that make most names equal are proposed.
    Folders of cases are looked at for what these do not pair.
    """
    most_equal = len(set(references) & set(predictions))
    best: tuple[_NamesByPattern, _NamesByPattern] | None = None
    ours, theirs = _by_pattern(references), _by_pattern(predictions)
    # Short pieces come first and only a strict gain replaces them, so the simplest pattern wins.
    for mine in ours:
        for other in theirs:
            equal = len(mine.names & other.names)
            if equal > most_equal:
                most_equal, best = equal, (mine, other)
    patterns: dict[str, str] = {}
    choices: dict[str, list[str]] = {}
    if best is None:
        return Proposal(patterns, most_equal, choices)
    mine, other = best
    sides = (
        ("reference_pattern", mine, [one for one in ours if one.is_kind], other, references),
        ("pattern", other, [one for one in theirs if one.is_kind], mine, predictions),
    )
    for option, own, kinds, partner, paths in sides:
        extension = _extension(paths)
        equals = [one for one in kinds if len(one.names & partner.names) == most_equal]
        if own.is_kind and len(equals) > 1:
            choices[option] = [one.pattern + extension for one in equals]
        elif own.pattern != SLOT:
            patterns[option] = own.pattern + extension
    return Proposal({} if choices else patterns, most_equal, choices)


class KindOfFile(NamedTuple):
    """A file that every case has, such as ``liver`` in ``s0001/segmentations/liver.nii.gz``."""

    kind: str
    reference_pattern: str
    pattern: str


def shared_kinds(
    references: Mapping[str, str], predictions: Mapping[str, str]
) -> tuple[list[KindOfFile], int]:
    """Return the kinds of files that the folders of cases have on both sides, by their names, and
    how many kinds there are on either side. Slices are numbered, and are no kinds.
    """
    ours, theirs = _kinds(references), _kinds(predictions)
    kinds = []
    for kind in sorted(ours.keys() & theirs.keys()):
        (mine, cases), (other, other_cases) = ours[kind], theirs[kind]
        if len(cases & other_cases) >= FEWEST_CASES:
            patterns = (mine + _extension(references), other + _extension(predictions))
            kinds.append(KindOfFile(kind, *patterns))
    return kinds, max(len(ours), len(theirs))


def kinds_of_cases(names: Collection[str]) -> list[str]:
    """Return the kinds of files that several cases have, if there are more than one."""
    kinds = _kinds(names)
    frequent = sorted(kind for kind, (_, cases) in kinds.items() if len(cases) >= FEWEST_CASES)
    return frequent if len(frequent) > 1 else []


def _kinds(names: Collection[str]) -> dict[str, tuple[str, set[str]]]:
    """Return kind -> pattern and cases, of files without a number in folders with one."""
    kinds: dict[str, tuple[str, set[str]]] = {}
    for name in names:
        *folders, kind = name.split("/")
        numbered = [folder for folder in folders if DIGIT.search(folder)]
        if DIGIT.search(kind) or len(numbered) != 1:
            return {}
        place = "/".join(SLOT if folder in numbered else folder for folder in folders)
        pattern, cases = kinds.setdefault(kind, (f"{place}/{kind}", set()))
        # Two files of a kind in different places of a case: which is meant, is not known.
        if pattern != f"{place}/{kind}":
            return {}
        cases.add(numbered[0])
    return kinds


class ClassFolders(NamedTuple):
    """Folders in which the same cases have a file each, by the name of the folder."""

    above: str  # the path above these folders
    suffixes: Mapping[str, str]  # folder -> what all names of its cases end with
    cases: Mapping[str, Mapping[str, str]]  # folder -> case -> name of the file


def class_folders(names: Collection[str]) -> ClassFolders | None:
    """Return the folders of the names if all of them may be classes, called by words, that share
    their cases; None if they are others.
    """
    above = ""
    parts = [name.split("/") for name in names]
    while parts and all(len(path) > 2 and path[0] == parts[0][0] for path in parts):
        above += f"{parts[0][0]}/"
        parts = [path[1:] for path in parts]
    if not parts or any(len(path) < 2 for path in parts):
        return None
    files: dict[str, list[str]] = {}
    for folder, *rest in parts:
        files.setdefault(folder, []).append("/".join(rest))
    if not 1 < len(files) <= MOST_KINDS or not all(map(_may_be_class, files)):
        return None
    suffixes = dict.fromkeys(files, "")
    if not _share_cases(files.values()):
        # As IDRiD_55_MA in the folder of microaneurysms, and IDRiD_55_HE in another.
        suffixes = {folder: _last_piece(cases) for folder, cases in files.items()}
    cases = {}
    for folder, own in files.items():
        length = len(suffixes[folder])
        cases[folder] = {name[: len(name) - length]: f"{above}{folder}/{name}" for name in own}
    if not _share_cases(cases.values()):
        return None
    return ClassFolders(above, suffixes, cases)


def shared_class_folders(
    references: Mapping[str, str], predictions: Mapping[str, str]
) -> list[KindOfFile]:
    """Return the folders of classes that both sides have (name -> path), each as a kind of file."""
    ours, theirs = class_folders(references), class_folders(predictions)
    kinds: list[KindOfFile] = []
    if ours is None or theirs is None:
        return kinds
    for folder in ours.cases.keys() & theirs.cases.keys():
        mine, other = _with_pieces(ours, folder), _with_pieces(theirs, folder)
        # Names as they are come first.
        shared = [(a, b) for a, b in product(mine, other) if mine[a] & other[b]]
        if shared:
            start, end = shared[0]
            patterns = (
                f"{ours.above}{folder}/{SLOT}{start}{_extension(references)}",
                f"{theirs.above}{folder}/{SLOT}{end}{_extension(predictions)}",
            )
            kinds.append(KindOfFile(folder, *patterns))
    return sorted(kinds)


def _with_pieces(folders: ClassFolders, folder: str) -> dict[str, set[str]]:
    """Return the cases of a folder under the endings of its names: that of its class, and all that
    its names have in common.
    """
    own = folders.suffixes[folder]
    cases = set(folders.cases[folder])
    last = _last_piece(cases)
    shorter = {case[: len(case) - len(last)] for case in cases}
    return {own: cases, last + own: shorter}


def _may_be_class(folder: str) -> bool:
    word = ENUMERATION.sub("", folder)
    return not DIGIT.search(word) and OF_IMAGES.match(word) is None


def _last_piece(names: Collection[str]) -> str:
    """Return the longest piece at a boundary with which all names end; empty if there is none."""
    return max((end for start, end in _affixes(names) if not start), key=len, default="")


def _share_cases(folders: Collection[Collection[str]]) -> bool:
    """Return whether enough of all cases have a file in several folders."""
    counts: dict[str, int] = {}
    for cases in folders:
        for case in cases:
            counts[case] = counts.get(case, 0) + 1
    shared = sum(n > 1 for n in counts.values())
    return shared > 0 and shared >= LEAST_SHARED * len(counts)


def _by_pattern(names: Collection[str]) -> list[_NamesByPattern]:
    """Return the names of one side under every pattern that is tried, simple ones first."""
    result = []
    for start, end in _affixes(names):
        shortened = frozenset(_without(name, (start, end)) for name in names)
        result.append(_NamesByPattern(f"{start}{SLOT}{end}", shortened, False))
    kinds: dict[str, set[str]] = {}
    for name in names:
        parts = name.split("/")
        for part in dict.fromkeys(parts[:-1]):
            kinds.setdefault(name.replace(part, SLOT), set()).add(part)
    frequent = [item for item in kinds.items() if len(item[1]) >= FEWEST_CASES]
    frequent.sort(key=_most_cases_first)
    for pattern, cases in frequent[:MOST_KINDS]:
        result.append(_NamesByPattern(pattern, frozenset(cases), True))
    return result


def _most_cases_first(item: tuple[str, set[str]]) -> tuple[int, str]:
    return -len(item[1]), item[0]


def said_choices(choices: Mapping[str, list[str]]) -> str:
    """Return the options of which one is to be passed."""
    parts = []
    for key, patterns in choices.items():
        option = f"--{key.replace('_', '-')}"
        parts.append(f"pass {option} {' or '.join(repr(pattern) for pattern in patterns)}")
    return ", and ".join(parts)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _without(name: str, pieces: tuple[str, str]) -> str:
    start, end = pieces
    return name[len(start) : len(name) - len(end)]


def _affixes(names: Collection[str]) -> list[tuple[str, str]]:
    """Return the (prefix, suffix) pairs that all names share, short ones first.

    Pieces end at boundaries; of a single name, all pieces at its boundaries are returned.
    """
    shortest = min(map(len, names))
    before = _common_start(list(names))
    behind = _common_start([name[::-1] for name in names])[::-1]
    # Six pieces a side bound the search to 36 pairs of pieces per side, whatever the names look
    # like.
    starts, ends = [""], [""]
    for match in BOUNDARY.finditer(before):
        starts.append(before[: match.end()])
    for match in reversed(list(BOUNDARY.finditer(behind))):
        ends.append(behind[match.start() :])
    pairs = []
    for start in starts[:6]:
        for end in ends[:6]:
            # Something must be left of every name, or samples could not be told apart.
            if len(start) + len(end) < shortest:
                pairs.append((start, end))
    return sorted(pairs, key=_length_of_both)


def _length_of_both(pieces: tuple[str, str]) -> int:
    return len(pieces[0]) + len(pieces[1])


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
    return next((extension for extension in extensions() if path.endswith(extension)), "")
