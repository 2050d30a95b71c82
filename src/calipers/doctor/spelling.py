# SPDX-License-Identifier: Apache-2.0
"""Find the image or the class that a name means, without guessing between two.

Names of images are equal if they agree after a *rule*: without folder, extension, case, leading
zeros or the channel of nnU-Net, or with accents written in one way. A rule counts only if it names
every image once on both sides, so no image of another patient is ever proposed: similar is not
equal. Names of classes may also be misspelt; then the caller looks whether boxes agree
(`ClassMatch.is_certain`). `calipers.doctor.symptoms` calls this.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from calipers.data.cohort import Cohort

Rule = Callable[[str], str]
EXTENSION = re.compile(
    r"(\.(nii|mha|mhd|nrrd|dcm|dicom|png|jpe?g|bmp|tiff?|npy|npz|json|xml|txt))(\.gz)?$", re.I
)
FEWEST_AFFIXED = 3  # names from which a text that all have in common is no chance
MOST_TRIED = 5  # names by which a common text is looked for
SIMILAR = 0.75  # share of letters that a misspelt class has in common with the right one


def _same(name: str) -> str:
    return name


def _composed(name: str) -> str:
    # Some systems write an accent as a sign of its own, others as part of its letter.
    return unicodedata.normalize("NFC", name)


def _base(name: str) -> str:
    return re.split(r"[/\\]", name)[-1]


def _stem(name: str) -> str:
    return EXTENSION.sub("", name)


def _bare(name: str) -> str:
    return _stem(_base(name))


def _plain(name: str) -> str:
    return _composed(_bare(name).strip().casefold())


def _unpadded(name: str) -> str:
    return re.sub(r"(?<!\d)0+(?=\d)", "", _plain(name))


def _one_sign(name: str) -> str:
    return re.sub(r"[\s_\-.]+", "_", _plain(name))


def _one_sign_with_folders(name: str) -> str:
    return re.sub(r"[\s_\-./\\]+", "_", _composed(_stem(name)).strip().casefold())


def _no_channel(name: str) -> str:
    return re.sub(r"_0000$", "", _bare(name))


# (how, in words, rule): the mildest first.
IMAGE_RULES: tuple[tuple[str, str, Rule], ...] = (
    ("type", 'the type of the id (1 and "1")', _same),
    ("accents", "the way in which accents are written (Unicode NFC and NFD)", _composed),
    ("folder", "the folder", _base),
    ("extension", "the extension", _stem),
    ("path", "folder and extension", _bare),
    ("case", "upper and lower case", _plain),
    ("zeros", "leading zeros", _unpadded),
    ("channel", "the suffix _0000", _no_channel),
    ("signs", "dashes, underscores and blanks", _one_sign),
    ("joined", "folders that are joined to the name", _one_sign_with_folders),
)


class ImageMatch(NamedTuple):
    """How two files name the same images."""

    how: str
    words: str
    images: Mapping[str, int]  # name in the predictions -> image


def image_index(names: Sequence[str], cohort: Cohort) -> ImageMatch | None:
    """Return the images that unknown names mean, if one rule explains all of them."""
    return same_names(names, *_known_names(cohort))


def most_images(names: Sequence[str], cohort: Cohort) -> ImageMatch | None:
    """Return the images that most unknown names mean, by the first rule that explains so many; the
    others are images that the references do not list.
    """
    distinct = dict.fromkeys(names)
    for how, words, rule in IMAGE_RULES:
        for position, known_names in enumerate(_known_names(cohort)):
            images = _matched(distinct, known_names, rule, is_complete=False)
            if images is not None and len(images) > max(len(distinct) / 2, FEWEST_AFFIXED):
                return _in_words(how, words, images, position)
    return _affixed_anyhow(list(distinct), _known_names(cohort), is_complete=False)


def alike_images(names: Sequence[str], cohort: Cohort) -> bool:
    """Return whether some name is that of an image by one of the rules."""
    for known_names in _known_names(cohort):
        for _, _, rule in IMAGE_RULES:
            if {rule(name) for name in known_names} & {rule(name) for name in names}:
                return True
    return False


def in_other_folders(match: ImageMatch, cohort: Cohort) -> bool:
    """Return whether some names lie in another folder than those that they are said to mean, as
    train/1 and val/1 do, which are two images; val/1 and data/val/1 agree.
    """
    lists = _known_names(cohort)
    for name, image in match.images.items():
        folders = _folders(name)
        for known_names in lists:
            known_folders = _folders(known_names[image])
            n = min(len(folders), len(known_folders))
            if n and folders[-n:] != known_folders[-n:]:
                return True
    return False


def _folders(name: str) -> list[str]:
    return re.split(r"[/\\]", name)[:-1]


def _known_names(cohort: Cohort) -> list[Sequence[str]]:
    """Return the ids of images, and the names of their files."""
    lists: list[Sequence[str]] = [cohort.images.ids]
    if "file_name" in cohort.images.groups:
        lists.append(tuple(map(str, cohort.images.groups["file_name"].tolist())))
    return lists


def same_names(names: Sequence[str], *lists: Sequence[str]) -> ImageMatch | None:
    """Return which of the known names others mean, if one rule explains all of them; a further list
    has other names of the same images, in the same order.
    """
    distinct = dict.fromkeys(names)
    for how, words, rule in IMAGE_RULES:
        for position, known_names in enumerate(lists):
            images = _matched(distinct, known_names, rule)
            if images is not None:
                return _in_words(how, words, images, position)
    return _affixed_anyhow(list(distinct), lists)


def _in_words(how: str, words: str, images: Mapping[str, int], position: int) -> ImageMatch:
    """Return the match by a rule; equal names in a list behind that of ids are names of files."""
    if how == "type" and position:
        return ImageMatch("file", "file names in place of ids", images)
    return ImageMatch(how, words, images)


def _affixed_anyhow(
    names: Sequence[str], lists: Sequence[Sequence[str]], *, is_complete: bool = True
) -> ImageMatch | None:
    """Return the images of names that all have the same text beside the right one; extensions may
    differ as well, and then do so in all names.
    """
    for known_names in lists:
        match = _affixed(names, known_names, is_complete=is_complete)
        if match is not None:
            return match
    stems = {_stem(name): name for name in names}
    if len(stems) < len(names):
        return None
    for known_names in lists:
        known_stems = [_stem(name) for name in known_names]
        match = _affixed(list(stems), known_stems, is_complete=is_complete)
        if match is not None:
            images = {stems[stem]: k for stem, k in match.images.items()}
            return ImageMatch("affix", f"{match.words} and the extension", images)
    return None


def _affixed(
    names: Sequence[str], known_names: Sequence[str], *, is_complete: bool = True
) -> ImageMatch | None:
    """Return the images of names that all have the same text before and behind the right one, or
    lack such a text; or those of most names, if the others are images that nobody knows.
    """
    if len(names) < FEWEST_AFFIXED or len(set(known_names)) < len(known_names):
        return None
    places = {name: k for k, name in enumerate(known_names)}
    # The first name may be that of an image that nobody knows.
    pairs: set[tuple[str, str]] = set()
    lacking: set[tuple[str, str]] = set()
    for name in names[:1] if is_complete else names[:MOST_TRIED]:
        pairs.update(_affixes(name, known_names))
        for longer in known_names:
            lacking.update(_affixes(longer, [name]))
    matches = []
    for before, behind in sorted(pairs):
        if not all(_has(name, before, behind) for name in names):
            continue
        images = {}
        for name in names:
            inside = name[len(before) : len(name) - len(behind)]
            if inside in places:
                images[name] = places[inside]
        matches.append((before, behind, images))
    for before, behind in sorted(lacking):
        images = {}
        for name in names:
            if f"{before}{name}{behind}" in places:
                images[name] = places[f"{before}{name}{behind}"]
        matches.append((before, behind, images))
    fewest = len(names) if is_complete else max(len(names) / 2, FEWEST_AFFIXED)
    enough = [match for match in matches if len(match[2]) >= fewest]
    # Two ways to cut the names are none.
    if len(enough) != 1 or len(set(enough[0][2].values())) < len(enough[0][2]):
        return None
    before, behind, images = enough[0]
    words = " and ".join(repr(text) for text in (before, behind) if text)
    return ImageMatch("affix", f"the text {words}", images)


def _has(name: str, before: str, behind: str) -> bool:
    is_longer = len(name) > len(before) + len(behind)
    return is_longer and name.startswith(before) and name.endswith(behind)


def _affixes(name: str, parts: Sequence[str]) -> list[tuple[str, str]]:
    """Return the texts before and behind each part that a name has; 1 is no part of 12."""
    pairs = set()
    for part in parts:
        if not part or part == name or part not in name:
            continue
        before, _, behind = name.partition(part)
        is_cut = before[-1:].isdigit() and part[0].isdigit()
        is_cut |= behind[:1].isdigit() and part[-1].isdigit()
        if not is_cut:
            pairs.add((before, behind))
    return sorted(pairs)


def _matched(
    names: Mapping[str, None], known_names: Sequence[str], rule: Rule, *, is_complete: bool = True
) -> dict[str, int] | None:
    """Return name -> image, or None if an image has two names, or one of all names has no image."""
    places: dict[str, int] = {}
    for k, name in enumerate(known_names):
        key = rule(name)
        # Two images with one such name: the rule cannot tell them apart.
        if key in places:
            return None
        places[key] = k
    images: dict[str, int] = {}
    for name in names:
        place = places.get(rule(name))
        if place is not None:
            images[name] = place
        elif is_complete:
            return None
    return images if len(set(images.values())) == len(images) else None


class ClassMatch(NamedTuple):
    """The class that a name means, and whether that is certain without looking at boxes."""

    label: int
    is_certain: bool


def class_index(names: Sequence[str], classes: Sequence[str]) -> dict[str, ClassMatch]:
    """Return the classes that unknown names mean by case, signs or spelling, where there is one."""
    places: dict[str, int] = {}
    ambiguous = set()
    for k, name in enumerate(classes):
        key = plain_class(name)
        if key in places:
            ambiguous.add(key)
        places[key] = k
    matches: dict[str, ClassMatch] = {}
    for name in names:
        key = plain_class(name)
        if key in places and key not in ambiguous and key:
            matches[name] = ClassMatch(places[key], True)
            continue
        near = difflib.get_close_matches(key, list(places), n=2, cutoff=SIMILAR)
        if len(near) == 1 and near[0] not in ambiguous:
            matches[name] = ClassMatch(places[near[0]], False)
    return matches


def plain_class(name: str) -> str:
    """Return a class name without case, blanks and signs."""
    return re.sub(r"[\W_]+", "", _composed(name)).casefold()
