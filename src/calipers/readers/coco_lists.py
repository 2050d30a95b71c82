# SPDX-License-Identifier: Apache-2.0
"""The images and categories of a COCO document.

A broken one is an error even in lenient reading: leaving it out would change what is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calipers.errors import InputError, raise_problems
from calipers.readers.coco_records import LARGEST_ID, id_problem
from calipers.readers.parts import GROUP_UNIT, ImageList, Key, Options, text_column
from calipers.tables.cohort import UNIT
from calipers.tables.objects import Column

SIDES = ("width", "height", "depth")
RENAMED = {
    "patient_id": "patient",
    "patientId": "patient",
    "center": "centre",
    "center_id": "centre",
    UNIT: GROUP_UNIT,
}
NOT_GROUPS = {"id", *SIDES, "spacing"}


@dataclass(frozen=True)
class Categories:
    """Class names in the order of their category ids."""

    classes: tuple[str, ...]
    index: Mapping[Key, int]
    names: Mapping[Key, str]


def sorted_ids(keys: Sequence[Key]) -> list[int]:
    """Return the order of ids: numbers numerically, then texts."""
    if set(map(type, keys)) == {int}:
        return sorted(range(len(keys)), key=keys.__getitem__)
    return sorted(range(len(keys)), key=lambda k: (isinstance(keys[k], str), keys[k]))


def images_from(records: Sequence[dict[str, Any]], file: str, options: Options) -> ImageList:
    """Build the list of images, in ascending order of ids."""
    if not records:
        raise InputError("at least one image", rule="no-images", file=file, location="/images")
    keys = _keys(records, file, "/images", "dup-image", options.ids_as_strings)
    order = sorted_ids(keys)
    sorted_records = [records[k] for k in order]
    groups, notes = _groups(sorted_records)
    return ImageList(
        keys=[keys[k] for k in order],
        size=_sizes(sorted_records, order, file),
        spacing=_spacing(sorted_records, order, file),
        groups=groups,
        notes=tuple(notes),
    )


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
                "category names that differ", "dup-category", file, f"/categories/{k}/name", name
            )
        earlier_names.add(name)
        names[keys[k]] = name
    return Categories(tuple(names.values()), {key: k for k, key in enumerate(names)}, names)


def _keys(records: Sequence[Any], file: str, where: str, rule: str, as_text: bool) -> list[Key]:
    plain: list[Any] = [record.get("id") for record in records if isinstance(record, dict)]
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
        elif str(key) in earlier_ids:
            problems.append(
                _error("ids that differ, also as text", rule, file, f"{where}/{k}/id", key)
            )
        else:
            earlier_ids.add(str(key))
            keys.append(str(key) if as_text else key)
    raise_problems(problems)
    return keys


def _sound_numbers(ids: list[Any], n: int) -> bool:
    """Return whether n ids are different whole numbers in range: a fast check of the usual case."""
    whole = len(ids) == n and set(map(type, ids)) == {int} and len(set(ids)) == n
    return whole and max(ids) <= LARGEST_ID and min(ids) >= -LARGEST_ID


def _sizes(
    records: Sequence[dict[str, Any]], order: Sequence[int], file: str
) -> np.ndarray[Any, Any]:
    sides = SIDES[: _dimensions(records)]
    return np.stack([_side(records, order, file, side) for side in sides], axis=1)


def _side(records: Sequence[dict[str, Any]], order: Sequence[int], file: str, side: str) -> Column:
    return _numbers(
        records, order, side, lambda k, value: _positive(value, file, f"/images/{k}/{side}")
    )


def _numbers(
    records: Sequence[dict[str, Any]],
    order: Sequence[int],
    key: str,
    check: Callable[[int, Any], float],
) -> Column:
    values = [record.get(key) for record in records]
    if all(type(value) is int and 0 < value < 1 << 53 for value in values):
        return np.array(values, np.float64)
    column = np.full(len(values), np.nan)
    for row, (k, value) in enumerate(zip(order, values)):
        if value is not None:
            column[row] = check(k, value)
    return column


def _positive(value: object, file: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _error("a number", "type", file, where, value)
    if not 0 < value < LARGEST_ID:
        raise _error("a size above zero, below 2^53", "image-size", file, where, value)
    return float(value)


def _spacing(
    records: Sequence[dict[str, Any]], order: Sequence[int], file: str
) -> np.ndarray[Any, Any]:
    dimensions = _dimensions(records)
    spacing = np.full((len(records), dimensions), np.nan)
    for row, (k, record) in enumerate(zip(order, records)):
        value = record.get("spacing")
        if value is None:
            continue
        # One number is the spacing along all axes.
        lengths = value if isinstance(value, list) else [value] * dimensions
        if len(lengths) != dimensions:
            raise _error(f"{dimensions} numbers", "type", file, f"/images/{k}/spacing", value)
        spacing[row] = [_positive(length, file, f"/images/{k}/spacing") for length in lengths]
    return spacing


def _dimensions(records: Sequence[dict[str, Any]]) -> int:
    is_3d = any("depth" in record for record in records)
    return 3 if is_3d else 2


def _groups(records: Sequence[dict[str, Any]]) -> tuple[dict[str, Column], list[str]]:
    """Return every scalar that all images have as a group column.

    Columns such as `patient_id` and `center` are renamed to our words, with a note.
    """
    groups: dict[str, Column] = {}
    notes = []
    for name in records[0]:
        values = [record.get(name) for record in records]
        if name not in NOT_GROUPS and set(map(type, values)) <= {str, int, float, bool}:
            word = RENAMED.get(name, name)
            word = name if word in records[0] else word
            groups[word] = text_column(values)
            if word != name:
                notes.append(f"column {name!r} is read as {word!r}")
    return groups, notes


def _error(expected: str, rule: str, file: str, where: str, value: object) -> InputError:
    return InputError(expected, rule=rule, file=file, location=where, value=value)
