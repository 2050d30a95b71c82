# SPDX-License-Identifier: Apache-2.0
"""One segmentation of a COCO record: typed polygons or run lengths, or a value that is neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

LARGEST_COUNT = 1 << 40

Count = Annotated[int, msgspec.Meta(ge=-LARGEST_COUNT, le=LARGEST_COUNT)]


class RunLengths(msgspec.Struct, gc=False):
    """Run lengths as text (compressed) or as numbers."""

    size: list[Count]  # height, width: two numbers, or a fault
    counts: str | list[Count]


Polygons = list[list[float]]  # rings of x, y, x, y, ...


@dataclass(frozen=True)
class Odd:
    """A value that is no segmentation at all: which rule it breaks, and how."""

    rule: str
    expected: str
    value: object
    hint: str = ""


Segmentation = RunLengths | Polygons | Odd | None | UnsetType


def segmentation_of(value: Any) -> Segmentation:
    """Return the typed form of any JSON value; nothing (null, an empty list) is None."""
    if value is UNSET or value is None or value == []:
        return None
    if isinstance(value, dict):
        return _run_lengths(value)
    if not isinstance(value, list):
        return Odd("polygon", "a list of polygons, or an object with size and counts", value)
    if not all(isinstance(ring, list) for ring in value):
        hint = "a polygon stands in a list of its own: [[x, y, x, y, ...]]"
        return Odd("polygon", "a list of lists of coordinates", value, hint)
    rings = []
    for ring in value:
        for number in ring:
            if not _is_number(number):
                return Odd("polygon", "coordinates that are numbers", number)
        rings.append(list(map(float, ring)))
    return rings


def _run_lengths(value: dict[str, Any]) -> RunLengths | Odd:
    size, counts = value.get("size"), value.get("counts")
    if not isinstance(size, list) or not all(_is_count(side) for side in size):
        return Odd("rle-size", "a size of two whole numbers [height, width]", size)
    if isinstance(counts, str):
        return RunLengths(size, counts)
    if not isinstance(counts, list) or not all(_is_count(count) for count in counts):
        hint = "COCO has its compressed text, or a list of whole numbers"
        return Odd("rle-kind", "counts as text or as whole numbers", counts, hint)
    return RunLengths(size, counts)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # No NaN, and nothing that overflows; the limit of coordinates is checked later.
    return abs(value) < 1e300


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_COUNT
