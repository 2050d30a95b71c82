# SPDX-License-Identifier: Apache-2.0
"""The records of COCO files: typed structs for the fast path, and the check of the careful path.

`calipers.io.coco.document` calls everything here. `PieceDecoder` turns a piece of a list into typed
records, with segmentations if there are any, and `check_records` rules out what msgspec does not
see. `check_object` says what is wrong with one annotation or result, and `as_annotation` gives a
sound one its typed form. `images_from` and `categories_from` build the lists of images and classes;
a broken image or category is an error even in lenient reading: leaving it out would change what is
counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, itemgetter, methodcaller
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from calipers.arrays import I64, Column
from calipers.data.cohort import UNIT
from calipers.data.rules import Role
from calipers.errors import InputError, raise_problems
from calipers.io.coco import json
from calipers.io.coco.json import Piece, Unreadable
from calipers.io.coco.masks import Polygons, RunLengths, segmentation_of
from calipers.io.coco.walk import Record, printable
from calipers.io.reader import GROUP_UNIT, ImageList, Key, Options, Problem, text_column

# Beyond 2^53 other programs read ids as floats, and neighbours become equal.
LARGEST_ID = 1 << 53
SHAPES = {2: "[x, y, width, height]", 3: "[x, y, z, width, height, depth]"}

SIDES = ("width", "height", "depth")
# Names of other data sets for our words; a column called like the image itself gets a prefix.
RENAMED = {
    "patient_id": "patient",
    "patientId": "patient",
    "center": "centre",
    "center_id": "centre",
    UNIT: GROUP_UNIT,
}
NOT_GROUPS = {"id", *SIDES, "spacing"}

FLAG_RULES = {"iscrowd": "crowd-flag", "ignore": "ignore-flag"}
FLAG_VALUES = "0, 1, true or false"

SEGMENTATION = b'"segmentation"'
HEAD = 4096  # bytes of a piece in which its first segmentation is looked for
REQUIRED = ("image_id", "category_id")
OPTIONAL = ("id", "score", "area", "iscrowd", "ignore")


class Annotation(msgspec.Struct, gc=False):
    """An annotation or a scored result; only what Calipers reads."""

    image_id: int | str
    category_id: int | str
    bbox: tuple[float, float, float, float]  # six numbers only ever come from the careful path
    id: int | str | UnsetType | None = UNSET
    score: float | UnsetType | None = UNSET
    area: float | UnsetType | None = UNSET
    iscrowd: int | bool | UnsetType = UNSET
    ignore: int | bool | UnsetType = UNSET


class Result(msgspec.Struct, gc=False):
    """One scored prediction of a results list."""

    image_id: int | str
    category_id: int | str
    bbox: tuple[float, float, float, float]
    score: float


class MaskedAnnotation(msgspec.Struct, gc=False):
    """An annotation with its segmentation; the box may be missing then."""

    image_id: int | str
    category_id: int | str
    bbox: tuple[float, float, float, float] | UnsetType | None = UNSET
    segmentation: RunLengths | Polygons | UnsetType | None = UNSET
    id: int | str | UnsetType | None = UNSET
    score: float | UnsetType | None = UNSET
    area: float | UnsetType | None = UNSET
    iscrowd: int | bool | UnsetType = UNSET
    ignore: int | bool | UnsetType = UNSET


class MaskedResult(msgspec.Struct, gc=False):
    """One scored prediction with its segmentation; the box may be missing then."""

    image_id: int | str
    category_id: int | str
    score: float
    bbox: tuple[float, float, float, float] | UnsetType | None = UNSET
    segmentation: RunLengths | Polygons | UnsetType | None = UNSET


CocoRecord = Annotation | Result | MaskedAnnotation | MaskedResult


class PieceDecoder:
    """Decodes the pieces of one list; ``masks`` says whether segmentations are read."""

    def __init__(self, role: Role, *, masks: bool) -> None:
        # Results have a score and no id, so their struct is smaller and faster to decode.
        plain, masked = (
            (Result, MaskedResult) if role == "predictions" else (Annotation, MaskedAnnotation)
        )
        self.plain: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[plain])  # type: ignore[valid-type]
        self.masked: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[masked])  # type: ignore[valid-type]
        self.masks, self.has_masks = masks, False

    def decode(self, text: bytes, /) -> list[CocoRecord]:
        """Return the records of a piece.

        A piece that does not begin with segmentations is tried without them first, which is faster.
        """
        # One segmentation at the beginning is enough: the rest of the list will have them too.
        if self.masks and (self.has_masks or SEGMENTATION in text[:HEAD]):
            return self.again(text)
        try:
            records: list[CocoRecord] = self.plain.decode(text)
        except msgspec.ValidationError:
            if not self.masks or SEGMENTATION not in text:
                raise
            return self.again(text)
        return records

    def again(self, text: bytes) -> list[CocoRecord]:
        """Return the records with their segmentations; all later pieces are decoded like this."""
        self.has_masks = True
        records: list[CocoRecord] = self.masked.decode(text)
        return records


def check_records(
    piece: Piece, records: Sequence[CocoRecord], decoder: PieceDecoder
) -> tuple[Sequence[CocoRecord], bool]:
    """Rule out what msgspec does not see, as `json.check_piece` does.

    Returns the records, and whether they hold nothing but the keys that are read. Records whose
    segmentations were not decoded are decoded again if there are some.
    """
    plain = json.check_piece(piece, len(records), _piece_keys(records), brackets=2)
    if plain or not decoder.masks or SEGMENTATION not in piece.text or _is_masked(records):
        return records, plain
    try:
        records = decoder.again(piece.text)
    except msgspec.MsgspecError:
        raise Unreadable from None
    return records, json.check_piece(piece, len(records), _piece_keys(records), brackets=2)


def _is_masked(records: Sequence[Any]) -> bool:
    return bool(records) and isinstance(records[0], MaskedAnnotation | MaskedResult)


def _piece_keys(records: Sequence[Any]) -> dict[str, int]:
    """Return how many records have which key.

    A record with neither box nor mask is left to the careful reader.
    """
    n = len(records)
    keys = dict.fromkeys(REQUIRED, n)
    optional: tuple[str, ...] = OPTIONAL
    if n > 0 and isinstance(records[0], Result | MaskedResult):
        optional = ()
        keys["score"] = n
    if not _is_masked(records):
        keys["bbox"] = n
    else:
        optional = (*optional, "bbox", "segmentation")
        n_run_lengths = 0
        for record in records:
            n_run_lengths += isinstance(record.segmentation, RunLengths)
            if record.bbox in (UNSET, None) and not record.segmentation:
                raise Unreadable
        keys["size"] = keys["counts"] = n_run_lengths
    for key in optional:
        keys[key] = n - list(map(attrgetter(key), records)).count(UNSET)
    return keys


def check_object(
    record: Record, role: Role, dimensions: int, *, masks: bool = False
) -> list[Problem]:
    """Return what is wrong with one annotation or result, as far as its own text tells.

    With ``masks`` a record with a segmentation needs no box; all segmentations are judged together
    later.
    """
    value = record.value
    problems = list(_text_problems(record))
    if not isinstance(value, dict):
        # Nothing more can be said about a value that is no object.
        return [*problems, _problem(record, "", "type", "an object in braces", value)]
    problems += [*_id(record, "image_id"), *_id(record, "category_id")]
    may_lack_box = masks and without_box(value.get("bbox"))
    if not may_lack_box or segmentation_of(value.get("segmentation")) is None:
        problems += _box(record, dimensions)
    if role == "predictions":
        problems += _score(record)
    else:
        problems += [*_id(record, "id", optional=True), *_flags(record), *_area(record)]
    # The fields above have reported their own numbers; this looks at all the others.
    if not any(problem.rule == "non-finite" for problem in problems):
        problems += _odd_number(record)
    return problems


def check_listed_record(record: Record) -> list[Problem]:
    """Return what is wrong with an image or category record, as far as its own text tells."""
    return [*_text_problems(record), *_odd_number(record)]


def without_box(box: object) -> bool:
    """Return whether there is no box; some tools write an empty list into results of masks."""
    return box is None or box is UNSET or box == []


def as_annotation(value: dict[str, Any], role: Role, *, masks: bool = False) -> MaskedAnnotation:
    """Return a checked record in its typed form."""
    row = MaskedAnnotation(value["image_id"], value["category_id"])
    if not without_box(value.get("bbox")):
        row.bbox = tuple(map(float, value["bbox"]))  # type: ignore[assignment]
    if masks:
        row.segmentation = segmentation_of(value.get("segmentation", UNSET))  # type: ignore[assignment]
    row.score = value.get("score", UNSET)
    if role == "references":
        row.id, row.area = value.get("id", UNSET), value.get("area", UNSET)
        row.iscrowd, row.ignore = value.get("iscrowd", UNSET), value.get("ignore", UNSET)
    return row


def id_problem(value: object) -> tuple[str, str] | None:
    """Return (rule, expectation) if a value cannot be an id."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return "id-type", "a whole number or a text"
    if isinstance(value, int) and abs(value) > LARGEST_ID:
        return "id-range", "an id of at most 2^53"
    if isinstance(value, str) and not value.strip():
        return "missing-id", "an id that is not blank"
    return None


def _problem(
    record: Record, field: str, rule: str, expected: str, value: object, hint: str = ""
) -> Problem:
    where = f"{record.pointer}/{field}" if field else record.pointer
    if isinstance(value, str):
        value = printable(value)
    return Problem(
        rule=rule,
        location=printable(where),
        field=printable(field.split("/")[0]),
        expected=expected,
        value=value,
        hint=hint,
        record=printable(record.text[:2000]),
    )


def _text_problems(record: Record) -> Iterator[Problem]:
    if record.repeated:
        yield _problem(
            record, record.repeated[0], "dup-key", "every key once", list(record.repeated)
        )
    if record.broken_text:
        yield _problem(
            record, "", "encoding", "text in UTF-8, no half surrogate pairs", record.text[:60]
        )


def _id(record: Record, field: str, *, optional: bool = False) -> Iterator[Problem]:
    if field not in record.value:
        if not optional:
            yield _problem(record, field, "missing-key", f"the key {field!r}", list(record.value))
        return
    value = record.value[field]
    problem = id_problem(value)
    if problem and not (optional and value is None):
        yield _problem(record, field, *problem, value)


def _box(record: Record, dimensions: int) -> Iterator[Problem]:
    box = record.value.get("bbox")
    if not isinstance(box, list) or len(box) != 2 * dimensions:
        masked = dimensions == 2 and without_box(box) and record.value.get("segmentation")
        hint = "there is a mask: with --masks auto it gives the box" if masked else ""
        yield _problem(record, "bbox", "box-shape", SHAPES[dimensions], box, hint)
        return
    for k, number in enumerate(box):
        yield from _number(record, f"bbox/{k}", number)


def _odd_number(record: Record) -> Iterator[Problem]:
    """Report the first number that is not finite, wherever it is in the record."""
    if record.odd_number:
        where = next(_odd_places(record.value, ""), "")
        yield _problem(record, where.lstrip("/"), "non-finite", "finite numbers", None)


def _number(record: Record, field: str, value: object) -> Iterator[Problem]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        hint = ""
        if isinstance(value, str):
            hint = "numbers are never read from text: remove the quotes"
        yield _problem(record, field, "type", "a number", value, hint)
        return
    # math.isfinite overflows on whole numbers beyond the range of floats.
    is_finite = math.isfinite(value) if isinstance(value, float) else abs(value) <= 10**300
    if not is_finite:
        yield _problem(record, field, "non-finite", "a finite number", value)


def _score(record: Record) -> Iterator[Problem]:
    score = record.value.get("score")
    if score is None:
        yield _problem(record, "score", "score-missing", "a score", list(record.value))
    else:
        yield from _number(record, "score", score)


def _flags(record: Record) -> Iterator[Problem]:
    # True and False are whole numbers to Python; COCO Annotator writes them.
    for name, rule in FLAG_RULES.items():
        flag = record.value.get(name, 0)
        if not isinstance(flag, int) or flag not in (0, 1):
            yield _problem(record, name, rule, FLAG_VALUES, flag)


def _area(record: Record) -> Iterator[Problem]:
    area = record.value.get("area")
    if area is not None:
        yield from _number(record, "area", area)


def _odd_places(value: Any, pointer: str) -> Iterator[str]:
    """Yield JSON pointers of numbers that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        yield pointer
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _odd_places(item, f"{pointer}/{key}")
    elif isinstance(value, list):
        for k, item in enumerate(value):
            yield from _odd_places(item, f"{pointer}/{k}")


def images_from(records: Sequence[dict[str, Any]], file: str, options: Options) -> ImageList:
    """Build the list of images, in ascending order of ids."""
    if not records:
        raise InputError("at least one image", rule="no-images", file=file, location="/images")
    keys = image_keys(records, file, options.ids_as_strings)
    order = sorted_ids(keys)
    if not _is_ascending(order):
        records = [records[k] for k in order]
        keys = [keys[k] for k in order]
    columns = record_columns(records)
    sides = SIDES if "depth" in columns else SIDES[:2]
    groups, notes = _groups(columns, list(records[0]))
    return ImageList(
        keys=keys,
        size=np.stack([_side(columns, order, file, side) for side in sides], axis=1),
        spacing=_spacing(columns, order, file, len(sides)),
        groups=groups,
        notes=tuple(notes),
    )


def image_keys(records: Sequence[Any], file: str, as_text: bool) -> list[Key]:
    """Return the ids of image records; raises if one is broken, missing or repeated."""
    return _keys(records, file, "/images", "dup-image", as_text)


def record_columns(records: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of records by key, None where a record lacks a key."""
    try:
        # Records of equal length that have all keys of the first one have no others.
        if len(set(map(len, records))) == 1:
            return {name: list(map(itemgetter(name), records)) for name in records[0]}
    except KeyError:
        pass
    names = dict.fromkeys(chain.from_iterable(records))
    return {name: list(map(methodcaller("get", name), records)) for name in names}


@dataclass(frozen=True)
class Categories:
    """Class names in the order of their category ids."""

    classes: tuple[str, ...]
    index: Mapping[Key, int]
    names: Mapping[Key, str]


def categories_from(records: Sequence[dict[str, Any]], file: str, options: Options) -> Categories:
    """Build the classes, in ascending order of category ids."""
    keys = _keys(records, file, "/categories", "dup-category", options.ids_as_strings)
    order = sorted_ids(keys)
    names: dict[Key, str] = {}
    earlier_names: set[str] = set()
    for k in order:
        name = records[k].get("name")
        if not isinstance(name, str) or not name:
            raise _error("a name", "type", file, f"/categories/{k}/name", name)
        if name in earlier_names:
            raise _error(
                "unique category names", "dup-category", file, f"/categories/{k}/name", name
            )
        earlier_names.add(name)
        names[keys[k]] = name
    return Categories(tuple(names.values()), {key: k for k, key in enumerate(names)}, names)


def _is_ascending(numbers: Sequence[int] | I64) -> bool:
    if isinstance(numbers, range):
        return True
    column = np.asarray(numbers)
    return bool((column[1:] > column[:-1]).all())


def sorted_ids(keys: Sequence[Key]) -> Sequence[int]:
    """Return the order of ids: numbers numerically, then texts."""
    # The usual case, without a function call per key: whole numbers, most often ascending.
    if set(map(type, keys)) == {int}:
        numbers = np.array(keys, np.int64)
        if _is_ascending(numbers):
            return range(len(keys))
        return [int(k) for k in np.argsort(numbers)]
    return sorted(range(len(keys)), key=lambda k: (isinstance(keys[k], str), keys[k]))


def _keys(records: Sequence[Any], file: str, where: str, rule: str, as_text: bool) -> list[Key]:
    try:
        plain: list[Any] = list(map(itemgetter("id"), records))
    except (KeyError, TypeError):
        plain = []  # the loop below says which record has none
    if _sound_numbers(plain, len(records)):
        return list(map(str, plain)) if as_text else plain
    problems = []
    keys: list[Key] = []
    earlier_ids: set[str] = set()
    for k, record in enumerate(records):
        if not isinstance(record, dict) or "id" not in record:
            problems.append(
                _error("an object with an id", "missing-key", file, f"{where}/{k}", record)
            )
            continue
        problem = id_problem(record["id"])
        key = record["id"]
        if problem:
            problems.append(_error(problem[1], problem[0], file, f"{where}/{k}/id", key))
        # 1 and "1" are different ids, but a cohort holds ids as text, where they would be one.
        elif str(key) in earlier_ids:
            problems.append(
                _error("ids that are unique, also as text", rule, file, f"{where}/{k}/id", key)
            )
        else:
            earlier_ids.add(str(key))
            keys.append(str(key) if as_text else key)
    raise_problems(problems)
    return keys


def _sound_numbers(ids: list[Any], n: int) -> bool:
    """Return whether n ids are different whole numbers in range: a fast check of the usual case."""
    if len(ids) != n or set(map(type, ids)) != {int}:
        return False
    return max(ids) <= LARGEST_ID and min(ids) >= -LARGEST_ID and len(set(ids)) == n


def _side(
    columns: Mapping[str, Sequence[Any]], order: Sequence[int], file: str, side: str
) -> Column:
    """Return the lengths of one side of all images, NaN where an image does not state it."""
    lengths = np.full(len(order), np.nan)
    values = columns.get(side)
    if values is None:
        return lengths
    if set(map(type, values)) == {int}:
        distinct = set(values)
        if min(distinct) > 0 and max(distinct) < LARGEST_ID:
            # Most data sets have images of one size.
            if len(distinct) == 1:
                return np.full(len(values), float(distinct.pop()))
            return np.array(values, np.float64)
    for row, (k, value) in enumerate(zip(order, values)):
        if value is not None:
            lengths[row] = _positive(value, file, f"/images/{k}/{side}")
    return lengths


def _positive(value: object, file: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _error("a number", "type", file, where, value)
    if not 0 < value < LARGEST_ID:
        raise _error("a size above zero, below 2^53", "image-size", file, where, value)
    return float(value)


def _spacing(
    columns: Mapping[str, Sequence[Any]], order: Sequence[int], file: str, dimensions: int
) -> np.ndarray[Any, Any]:
    spacing = np.full((len(order), dimensions), np.nan)
    for row, (k, value) in enumerate(zip(order, columns.get("spacing", ()))):
        if value is None:
            continue
        # One number is the spacing along all axes.
        lengths = value if isinstance(value, list) else [value] * dimensions
        if len(lengths) != dimensions:
            raise _error(f"{dimensions} numbers", "type", file, f"/images/{k}/spacing", value)
        spacing[row] = [_positive(length, file, f"/images/{k}/spacing") for length in lengths]
    return spacing


def _groups(
    columns: Mapping[str, Sequence[Any]], names: Sequence[str]
) -> tuple[dict[str, Column], list[str]]:
    """Return every scalar that all images have as a group column.

    ``names`` are the keys of the first image. Columns such as `patient_id` and `center` are renamed
    to our words, with a note.
    """
    groups: dict[str, Column] = {}
    notes = []
    for name in names:
        values = columns[name]
        # Lists and nested objects are no groups; neither is a key that only some images have.
        if name not in NOT_GROUPS and set(map(type, values)) <= {str, int, float, bool}:
            word = RENAMED.get(name, name)
            word = name if word in names else word
            groups[word] = text_column(values)
            if word != name:
                notes.append(f"column {name!r} is read as {word!r}")
    return groups, notes


def _error(expected: str, rule: str, file: str, where: str, value: object) -> InputError:
    return InputError(expected, rule=rule, file=file, location=where, value=value)
