"""The rules of COCO files, written a second time with nothing but Python's ``json``.

`references` and `predictions` judge a whole file as a text: a `Verdict` says whether the file as a
whole can be read, and of each record whether it is sound, broken, or a matter of policy that is
tested elsewhere (None). The reader under test shares no code with it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

SECTIONS = ("images", "annotations", "categories")
READ_KEYS = ("image_id", "category_id", "bbox", "id", "score", "area", "iscrowd", "ignore")
LARGEST_ID = 2**53


class Members(dict[str, Any]):
    """An object of JSON that remembers which of its keys came twice."""

    twice: frozenset[str] = frozenset()


@dataclass
class Verdict:
    """What is in a file: rows by record number, as ``(image, class, corners, score)``."""

    readable: bool = True
    sound: list[bool | None] = field(default_factory=list)
    rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    images: dict[Any, tuple[Any, Any, Any]] = field(default_factory=dict)  # id -> sides, name
    classes: dict[Any, str] = field(default_factory=dict)


def _members(pairs: list[tuple[str, Any]]) -> Members:
    members = Members(pairs)
    counts = Counter(key for key, _ in pairs)
    members.twice = frozenset(key for key, n in counts.items() if n > 1)
    return members


def _parse(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_members)


def _everywhere(value: Any, test: Any) -> bool:
    """Return whether a test holds for a value or anything inside it."""
    if test(value):
        return True
    inside = value
    if isinstance(value, dict):
        inside = [*value, *value.values()]
    return isinstance(inside, list) and any(_everywhere(item, test) for item in inside)


def _is_spoilt(value: Any) -> bool:
    """Return whether a number is not finite, or a text holds half a surrogate pair."""
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, str) and any("\ud800" <= sign <= "\udfff" for sign in value)


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    return type(value) is int and abs(value) <= LARGEST_ID


def _is_number(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is int and abs(value) <= 10**300


def _listed(document: Any, name: str) -> list[Members] | None:
    """Return the records of a list of images or categories, None if one of them is broken."""
    records = document[name]
    if not isinstance(records, list):
        return None
    for record in records:
        if not isinstance(record, Members) or _everywhere(record, _is_spoilt):
            return None
        if _everywhere(record, lambda value: bool(getattr(value, "twice", ()))):
            return None
        if "id" not in record or not _is_id(record["id"]):
            return None
    ids = [str(record["id"]) for record in records]
    return records if len(set(ids)) == len(ids) else None


def _classes(document: Any) -> dict[Any, str] | None:
    records = _listed(document, "categories")
    if records is None:
        return None
    names = [record.get("name") for record in records]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        return None
    return {record["id"]: name for record, name in zip(records, names, strict=True)}


def references(text: str) -> Verdict:
    """Judge a document of references."""
    refused = Verdict(readable=False)
    try:
        document = _parse(text)
    except (ValueError, RecursionError):
        return refused
    if not isinstance(document, Members) or document.twice:
        return refused
    if any(name not in document for name in SECTIONS):
        return refused
    images, classes = _listed(document, "images"), _classes(document)
    if not images or not classes or not isinstance(document["annotations"], list):
        return refused
    verdict = Verdict(classes=classes)
    for image in images:
        sides = image.get("width"), image.get("height")
        if any(side is not None and not _is_side(side) for side in sides):
            return refused
        verdict.images[image["id"]] = (*sides, image.get("file_name"))
    ids: dict[Any, bool | None] = {}
    for number, record in enumerate(document["annotations"]):
        sound = _annotation(record, verdict)
        if isinstance(record, Members) and "score" in record:
            sound = None  # refused as a whole if this record is sound in all else
        own = record.get("id") if isinstance(record, Members) else None
        if sound and own is not None:
            key = (type(own), own)
            if key in ids:
                sound = None if ids[key] is not True else False
            ids[key] = ids.get(key, sound)
        elif own is not None and _is_id(own):
            ids.setdefault((type(own), own), sound)
        verdict.sound.append(sound)
        if sound:
            verdict.rows[number] = _row(record, record["image_id"], classes)
    return verdict


def _is_side(value: Any) -> bool:
    return _is_number(value) and 0 < value < LARGEST_ID


def _annotation(record: Any, verdict: Verdict) -> bool | None:
    sound = _object(record, set(verdict.images), set(verdict.classes), verdict.images)
    if sound is False:
        return False
    if record.get("id") is not None and not _is_id(record["id"]):
        return False
    for name in ("iscrowd", "ignore"):
        if type(record.get(name, 0)) not in (int, bool) or record.get(name, 0) not in (0, 1):
            return False
    area = record.get("area")
    if area is not None and (not _is_number(area) or area < 0):
        return False
    return sound


def _object(record: Any, images: set[Any], classes: set[Any], sizes: dict[Any, Any]) -> bool | None:
    """Judge what annotations and results share; None: zero sides, outside, or keys nobody reads."""
    if not isinstance(record, Members) or _everywhere(record, _is_spoilt):
        return False
    if any(key in record.twice for key in READ_KEYS):
        return False
    for key, known in (("image_id", images), ("category_id", classes)):
        if not _is_id(record.get(key)) or record[key] not in known:
            return False
    box = record.get("bbox")
    if box in (None, []) and record.get("segmentation"):
        return None
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
        return False
    x, y, width, height = box
    if width < 0 or height < 0:
        return False
    sides = sizes[record["image_id"]][:2]
    is_inside = x >= 0 and y >= 0
    for end, side in zip((x + width, y + height), sides, strict=True):
        is_inside &= side is not None and end <= side
    unread = record.twice or _everywhere(
        list(record.values()), lambda value: bool(getattr(value, "twice", ()))
    )
    # A side may be too short to move the other corner.
    if x + width <= x or y + height <= y or not is_inside or unread:
        return None
    return True


def _row(record: Any, image: Any, classes: dict[Any, str]) -> tuple[Any, ...]:
    x, y, width, height = map(float, record["bbox"])
    corners = (x, y, x + width, y + height)
    return str(image), classes[record["category_id"]], corners, record.get("score")


def predictions(text: str, refs: Verdict) -> Verdict:
    """Judge a list of results, or a document with scored annotations."""
    refused = Verdict(readable=False)
    try:
        document = _parse(text)
    except (ValueError, RecursionError):
        return refused
    images: dict[Any, Any] = {key: key for key in refs.images}
    classes = refs.classes
    records = document
    if isinstance(document, Members):
        records = document.get("annotations")
        if document.twice:
            return refused
        if "categories" in document:
            own = _classes(document)
            if own is None:
                return refused
            known = set(refs.classes.values())
            classes = {key: name for key, name in own.items() if name in known}
        if "images" in document:
            joined = _joined(document, refs)
            if joined is None:
                return refused
            images |= joined
    if not isinstance(records, list):
        return refused
    verdict = Verdict()
    sizes = {key: refs.images[image] for key, image in images.items()}
    for number, record in enumerate(records):
        sound = _object(record, set(images), set(classes), sizes)
        if sound is not False:
            score = record.get("score")
            if not _is_number(score) or not 0 <= score <= 1:
                sound = False
        verdict.sound.append(sound)
        if sound:
            verdict.rows[number] = _row(record, images[record["image_id"]], classes)
    return verdict


def _joined(document: Any, refs: Verdict) -> dict[Any, Any] | None:
    """Return the images of a document of predictions by its ids; None if it is refused."""
    records = _listed(document, "images")
    if records is None:
        return None
    names_by_id = {key: name for key, (_, _, name) in refs.images.items()}
    # A column of names needs one in every image; among texts, numbers are texts.
    has_names = all(type(name) in (str, int, float, bool) for name in names_by_id.values())
    names_by_id = {key: str(name) for key, name in names_by_id.items() if has_names}
    names = Counter(names_by_id.values())
    own = Counter(record.get("file_name") for record in records if _is_name(record))
    joined = {}
    for record in records:
        key = record["id"]
        if key in refs.images:
            if has_names and _is_name(record) and record["file_name"] != names_by_id[key]:
                return None
            joined[key] = key
    for record in records:
        key, name = record["id"], record.get("file_name")
        if key not in refs.images and _is_name(record) and own[name] == names[name] == 1:
            image = next(k for k, other in names_by_id.items() if other == name)
            if image not in joined.values():
                joined[key] = image
    # A shorter list is a subset: refused in strict reading, counted in lenient reading.
    return joined


def _is_name(record: Members) -> bool:
    return isinstance(record.get("file_name"), str)


def misses_images(text: str, refs: Verdict) -> bool:
    """Return whether a document of predictions lists fewer images than the references have."""
    document = _parse(text)
    if not isinstance(document, Members) or "images" not in document:
        return False
    joined = _joined(document, refs)
    return joined is not None and set(joined.values()) != set(refs.images)
