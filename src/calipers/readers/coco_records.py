# SPDX-License-Identifier: Apache-2.0
"""Single COCO records: typed structs for the fast path, and the check of the careful path."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from calipers.readers.coco_segments import Polygons, RunLengths, segmentation_of
from calipers.readers.jsoncareful import Record, printable
from calipers.readers.parts import Problem
from calipers.tables.checks import Role

LARGEST_ID = 1 << 53
SHAPES = {2: "[x, y, width, height]", 3: "[x, y, z, width, height, depth]"}


class Annotation(msgspec.Struct, gc=False):
    """An annotation or a scored result; only what Calipers reads."""

    image_id: int | str
    category_id: int | str
    bbox: tuple[float, float, float, float]  # six numbers only ever come from the careful path
    id: int | str | UnsetType | None = UNSET
    score: float | UnsetType | None = UNSET
    area: float | UnsetType | None = UNSET
    iscrowd: int | UnsetType = UNSET
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
    iscrowd: int | UnsetType = UNSET
    ignore: int | bool | UnsetType = UNSET


class MaskedResult(msgspec.Struct, gc=False):
    """One scored prediction with its segmentation; the box may be missing then."""

    image_id: int | str
    category_id: int | str
    score: float
    bbox: tuple[float, float, float, float] | UnsetType | None = UNSET
    segmentation: RunLengths | Polygons | UnsetType | None = UNSET


CocoRecord = Annotation | Result | MaskedAnnotation | MaskedResult


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
        return [*problems, _problem(record, "", "type", "an object in braces", value)]
    problems += [*_id(record, "image_id"), *_id(record, "category_id")]
    may_lack_box = masks and without_box(value.get("bbox"))
    if not may_lack_box or segmentation_of(value.get("segmentation")) is None:
        problems += _box(record, dimensions)
    if role == "predictions":
        problems += _score(record)
    else:
        problems += [*_id(record, "id", optional=True), *_flags(record), *_area(record)]
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
    crowd = record.value.get("iscrowd", 0)
    if isinstance(crowd, bool) or not isinstance(crowd, int) or crowd not in (0, 1):
        yield _problem(record, "iscrowd", "crowd-flag", "0 or 1", crowd)
    ignore = record.value.get("ignore", 0)
    if not isinstance(ignore, int) or ignore not in (0, 1):
        yield _problem(record, "ignore", "ignore-flag", "0, 1, true or false", ignore)


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
