# SPDX-License-Identifier: Apache-2.0
"""One set of references from the boxes of several readers, by a rule that the user chose.

Three readers' boxes of one finding are not three findings. A table with a column of readers says
who read which image (`Readings`, made by `calipers.io.tables.objects`, also from rows that only say
"nothing here"). `calipers.io.assemble` calls `settle_readers` with the objects that kept all rules:
a `Delivery` comes in, the one of the references goes out.

Boxes of different readers are one finding if they have the same class and overlap: pairs are joined
from the largest overlap downwards, as long as every two boxes of the finding overlap by the stated
IoU and are of different readers. The box of a finding is the mean of its boxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags
from calipers.data.objects import to_corners
from calipers.data.rules import Delivery
from calipers.errors import InputError, did_you_mean

ANY, MAJORITY = "any", "majority"
RULES = (ANY, MAJORITY)
READER_FACT = "reader"  # who drew a box
READERS_FACT = "readers"  # how many of those who read the image marked a finding: "2 of 3"
LISTED_NAMES = 8


@dataclass(frozen=True)
class Readings:
    """Who read which image."""

    column: str  # of the file
    names: tuple[str, ...]
    image: I64  # (m,) with `reader`: every pair once
    reader: I64  # (m,) index into names
    n_images: int
    second_location: str  # of the first row by another reader of its image; empty if there is none

    @cached_property
    def per_image(self) -> I64:
        """(n_images,) how many readers read each image."""
        return np.bincount(self.image, minlength=self.n_images)

    def drawn_by(self, delivery: Delivery) -> NDArray[Any]:
        """Return the reader of every object; one reader per image may be a group of the image."""
        if READER_FACT in delivery.facts:
            return np.asarray(delivery.facts[READER_FACT])
        reader = np.full(self.n_images, -1, np.int64)
        reader[self.image] = self.reader
        return np.array([*self.names, ""])[reader[delivery.image]]

    def images_of(self, name: str) -> Flags:
        """Return which images a reader read."""
        has_read = np.zeros(self.n_images, np.bool_)
        has_read[self.image[self.reader == self.names.index(name)]] = True
        return has_read


def require_rule(readings: Readings | None, rule: str | None, file: str) -> None:
    """Raise if several readers of an image come without a rule, or a rule without readers."""
    if readings is None:
        if rule is not None:
            raise InputError(
                "a column 'reader'",
                rule="missing-column",
                file=file,
                hint="--readers is for tables that say who drew every box; "
                "accepted names: reader, rad_id, annotator; or --columns reader=NAME",
            )
        return
    if rule is not None and rule not in (*RULES, *readings.names):
        raise InputError(
            f"{', '.join(RULES)}, or the name of a reader",
            rule="unknown-reader",
            file=file,
            field=readings.column,
            value=rule,
            hint=did_you_mean(rule, [*RULES, *readings.names]),
        )
    if rule is not None or not readings.second_location:
        return
    names = ", ".join(readings.names[:LISTED_NAMES])
    if len(readings.names) > LISTED_NAMES:
        names += ", ..."
    n_shared = int((readings.per_image > 1).sum())
    raise InputError(
        "one reader of every image, or a rule for several",
        rule="several-readers",
        file=file,
        location=readings.second_location,
        field=readings.column,
        value=f"{n_shared} of {readings.n_images} images with several readers",
        hint=f"pass --readers any (what one of them marks), majority (what more than half of the "
        f"readers of an image mark), or a name ({names}); in Python readers=...",
    )


def settle_readers(
    delivery: Delivery, readings: Readings, sizes: F64, rule: str, overlap: float
) -> tuple[Delivery, list[str]]:
    """Return the references by a rule, and notes on how they came about.

    The objects of a delivery with masks lose these: a mean of boxes has no mask.
    """
    drawn_by = readings.drawn_by(delivery)
    n = len(delivery)
    if rule not in RULES:
        rows = np.flatnonzero(drawn_by == rule)
        left_out = readings.n_images - int(readings.images_of(rule).sum())
        note = f"readers {rule}: {len(rows)} of {n} boxes are drawn by this reader"
        if left_out:
            note += f"; {left_out} of {readings.n_images} images were not read by them: left out"
        return delivery.rows(rows), [note]
    corners, _ = to_corners(delivery.boxes, delivery.box_format, sizes[delivery.image])
    groups = list(_findings(delivery, corners, drawn_by, overlap))
    n_findings = len(groups)
    per_image = readings.per_image[delivery.image]
    if rule == MAJORITY:
        groups = [rows for rows in groups if 2 * len(rows) > per_image[rows[0]]]
    merged = _merged(delivery, groups, per_image)
    share = "at least one" if rule == ANY else "more than half"
    notes = [
        f"readers {rule}: {n} boxes of {len(readings.names)} readers, merged to {n_findings} "
        f"(boxes of one class and different readers with IoU of at least {overlap:g}; the mean of "
        f"their boxes), {len(groups)} of them marked by {share} of the readers of their image"
    ]
    if delivery.masks is not None:
        notes.append("masks of several readers are not merged: only boxes are used")
    return merged, notes


def _findings(
    delivery: Delivery, corners: F64, drawn_by: NDArray[Any], overlap: float
) -> Iterator[I64]:
    """Yield the rows of every finding, ascending, in the order of their first rows."""
    order = np.lexsort([np.arange(len(delivery)), delivery.label, delivery.image])
    image, label = delivery.image[order], delivery.label[order]
    # Objects of one image and class lie together; only they can be one finding.
    changes = np.flatnonzero((np.diff(image) != 0) | (np.diff(label) != 0)) + 1
    findings: list[I64] = []
    for rows in np.split(order, changes):
        if len(rows) < 2:
            findings += [rows] if len(rows) else []
            continue
        findings += _joined(rows, corners[rows], drawn_by[rows], overlap)
    yield from sorted(findings, key=lambda rows: int(rows[0]))


def _joined(rows: I64, corners: F64, drawn_by: NDArray[Any], overlap: float) -> list[I64]:
    """Return the findings among the objects of one image and class."""
    may_join = _overlaps(corners)
    may_join[drawn_by[:, None] == drawn_by[None, :]] = -1.0
    first, second = np.triu_indices(len(rows), 1)
    candidates = np.flatnonzero(may_join[first, second] >= overlap)
    # Largest overlap first; equal ones in the order of the file.
    candidates = candidates[np.argsort(-may_join[first, second][candidates], kind="stable")]
    members = [[k] for k in range(len(rows))]
    owner = list(range(len(rows)))
    for pair in candidates.tolist():
        one, other = owner[int(first[pair])], owner[int(second[pair])]
        if one == other:
            continue
        if (may_join[np.ix_(members[one], members[other])] >= overlap).all():
            for k in members[other]:
                owner[k] = one
            members[one] += members[other]
            members[other] = []
    return [np.sort(rows[group]) for group in members if group]


def _overlaps(corners: F64) -> F64:
    """Return the (n, n) IoU of boxes with themselves."""
    low, high = np.split(corners, 2, axis=1)
    shared_low = np.maximum(low[:, None], low[None, :])
    shared_high = np.minimum(high[:, None], high[None, :])
    shared: F64 = np.maximum(shared_high - shared_low, 0.0).prod(axis=2)
    extent = (high - low).prod(axis=1)
    union = extent[:, None] + extent[None, :] - shared
    overlaps: F64 = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return overlaps


def _merged(delivery: Delivery, groups: list[I64], per_image: I64) -> Delivery:
    """Return one object per finding: the mean of its boxes, ignored only if all readers say so."""
    first_rows = np.array([rows[0] for rows in groups], np.int64)
    merged = replace(delivery, masks=None, points=None).rows(first_rows)
    means = [delivery.boxes[rows].mean(axis=0) for rows in groups]
    boxes = np.array(means, np.float64).reshape(len(groups), delivery.boxes.shape[1])
    facts = {name: column for name, column in merged.facts.items() if name != READER_FACT}
    counts = []
    for rows in groups:
        counts.append(f"{len(rows)} of {per_image[rows[0]]}")
    facts[READERS_FACT] = np.array(counts, dtype=str)
    merged = replace(merged, boxes=boxes, facts=facts)
    flags: dict[str, Any] = {}
    for name in ("ignore", "crowd"):
        column = getattr(delivery, name)
        if column is not None:
            flags[name] = np.array([bool(column[rows].all()) for rows in groups], np.bool_)
    if delivery.area is not None:
        area = delivery.area
        flags["area"] = np.array([area[rows].mean() for rows in groups], np.float64)
    return replace(merged, **flags)
