# SPDX-License-Identifier: Apache-2.0
"""Objects as an input delivers them, and the step that turns them into checked tables.

Every reader and `Cohort.from_arrays` fills a `Delivery`; `checks.examine` finds what is wrong with
it; `settle` raises (strict) or sets the records aside (lenient); `as_references` and
`as_predictions` build the frozen tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, InputProblems, raise_problems
from calipers.kernels import ragged
from calipers.tables.boxes import to_corners
from calipers.tables.intake import Quarantined
from calipers.tables.masks import Masks
from calipers.tables.objects import Column, Predictions, References

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
BLOCK = 1 << 20
MOST_OBJECTS = (1 << 31) - 1  # the kernels store rows of pairs and partners in 32 bits


@dataclass(frozen=True)
class Delivery:
    """The objects of one input: flat, in input order, not yet checked."""

    image: I64  # (n,) index into the images of the cohort
    label: I64  # (n,) index into its classes
    boxes: F64  # (n, 4|6) as delivered
    box_format: str
    place: I64  # (n,) record number in the input
    score: F64 | None = None
    area: F64 | None = None  # NaN = not declared; of predictions: what size cuts see
    ignore: Flags | None = None
    crowd: Flags | None = None
    masks: Masks | None = None
    points: F64 | None = None
    facts: Mapping[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.label)

    def rows(self, rows: I64 | Flags) -> Delivery:
        """Return the delivery with only these records."""
        selection: dict[str, Any] = {}
        for column in fields(self):
            values = getattr(self, column.name)
            if column.name not in ("box_format", "facts") and values is not None:
                selection[column.name] = values[rows]
        facts = {name: column[rows] for name, column in self.facts.items()}
        return replace(self, **selection, facts=facts)


@dataclass(frozen=True)
class Finding:
    """One rule that some records of a delivery break."""

    rule: str
    field: str
    expected: str
    rows: I64
    values: Sequence[object] | NDArray[np.generic]
    hint: str = ""
    whole_file: bool = False  # the file as a whole cannot be trusted, so lenient reading fails too


@dataclass(frozen=True)
class Source:
    """The origin of a delivery, for messages: file, location and original text of a record."""

    file: str
    locate: Callable[[int, str], str]  # (place, field) -> location
    text: Callable[[int], str] = str


def settle(
    delivery: Delivery, findings: Sequence[Finding], source: Source, *, lenient: bool = False
) -> tuple[Delivery, Counter[str], list[Quarantined]]:
    """Raise for broken rules, or (lenient) set the records aside and account for them.

    A record that breaks several rules is counted once, under the first.
    """
    fatal = [finding for finding in findings if finding.whole_file]
    if fatal or (findings and not lenient):
        problems, total = _as_errors(delivery, fatal or findings, source)
        raise_problems(problems, total)
    rule_of = np.full(len(delivery), -1)
    for k, finding in enumerate(findings):
        rows = finding.rows[rule_of[finding.rows] < 0]
        rule_of[rows] = k
    aside = np.flatnonzero(rule_of >= 0)
    records = []
    for row in aside.tolist():
        finding, place = findings[rule_of[row]], int(delivery.place[row])
        where = source.locate(place, finding.field)
        records.append(Quarantined(source.file, where, finding.rule, source.text(place)[:2000]))
    return delivery.rows(rule_of < 0), Counter(record.rule for record in records), records


def _as_errors(
    delivery: Delivery, findings: Sequence[Finding], source: Source
) -> tuple[list[InputError], int]:
    """Return the first errors of every finding, and how many records are broken in all."""
    errors = []
    total = 0
    for finding in findings:
        total += 1 if finding.whole_file else len(finding.rows)
        for row, value in zip(finding.rows[: InputProblems.SHOWN].tolist(), finding.values):
            if isinstance(value, np.ndarray | np.generic):
                value = value.tolist()
            location = ""
            if not finding.whole_file:
                location = source.locate(int(delivery.place[row]), finding.field)
            errors.append(
                InputError(
                    finding.expected,
                    rule=finding.rule,
                    file=source.file,
                    location=location,
                    field=finding.field,
                    value=value,
                    hint=finding.hint,
                )
            )
    return errors, total


def as_references(delivery: Delivery, sizes: F64) -> References:
    """Build the references of ``len(sizes)`` images from a settled delivery.

    Objects of an image keep the order of the input.
    """
    order, shared = _in_image_order(delivery, sizes)
    crowd = ignore = np.zeros(len(delivery), np.bool_)
    if delivery.crowd is not None:
        crowd = delivery.crowd[order]
    if delivery.ignore is not None:
        ignore = delivery.ignore[order]
    return References(
        **shared,
        area=_areas(delivery, order, shared),
        ignore=ignore | crowd,  # a crowd is never counted
        crowd=crowd,
    )


def as_predictions(delivery: Delivery, sizes: F64) -> Predictions:
    """Build the predictions of ``len(sizes)`` images from a settled delivery.

    Objects of an image keep the order of the input. Without scores all scores are 1.
    """
    order, shared = _in_image_order(delivery, sizes)
    score = np.ones(len(delivery))
    if delivery.score is not None:
        score = delivery.score[order]
    return Predictions(
        **shared,
        area=_areas(delivery, order, shared),
        score=score,
        scored=delivery.score is not None,
    )


def _areas(delivery: Delivery, order: I64, shared: Mapping[str, Any]) -> F64:
    """Return the declared areas, where there are any."""
    own = _own_area(shared)
    if delivery.area is None:
        return own
    area = delivery.area[order]
    return np.where(np.isnan(area), own, area)


def _in_image_order(delivery: Delivery, sizes: F64) -> tuple[I64, dict[str, Any]]:
    """Return the order of the objects by image, and the columns of all objects in that order."""
    if len(delivery) > MOST_OBJECTS:
        raise InputError(f"at most {MOST_OBJECTS} objects", rule="too-large", value=len(delivery))
    order = np.argsort(delivery.image, kind="stable")
    corners, extent = np.empty(delivery.boxes.shape), np.empty(len(order))
    # There may be millions of boxes: a block at a time keeps the copies small.
    for start in range(0, len(order), BLOCK):
        block = slice(start, start + BLOCK)
        rows = order[block]
        corners[block], extent[block] = to_corners(
            delivery.boxes[rows], delivery.box_format, sizes[delivery.image[rows]]
        )
    shared: dict[str, Any] = {
        "offsets": ragged.from_owner(delivery.image, len(sizes)),
        "boxes": corners,
        "extent": extent,
        "label": delivery.label[order].astype(np.int32),
        "place": delivery.place[order],
        "facts": {name: column[order] for name, column in delivery.facts.items()},
        "masks": None,
        "points": None,
    }
    if delivery.masks is not None:
        shared["masks"] = delivery.masks[order]
    if delivery.points is not None:
        shared["points"] = delivery.points[order]
    return order, shared


def _own_area(shared: Mapping[str, Any]) -> F64:
    """Return the areas of objects that declare none: pixels of the masks, else box areas."""
    masks: Masks | None = shared["masks"]
    extent: F64 = shared["extent"]
    return extent if masks is None else masks.voxels.astype(np.float64)
