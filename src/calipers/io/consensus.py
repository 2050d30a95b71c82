# SPDX-License-Identifier: Apache-2.0
"""One set of references from the boxes of several readers, by a rule that the user chose.

Three readers' boxes of one finding are not three findings. A table with a column of readers says
who read which image (`Readings`, made by `calipers.io.tables.objects`, also from rows that only say
"nothing here"). `calipers.io.assemble` calls `settle_readers` with the objects that kept all rules:
a `Delivery` comes in, the one of the references goes out.

Boxes of different readers are one finding if they have the same class and overlap: pairs are joined
from the largest overlap downwards, as long as every two boxes of the finding overlap by the stated
IoU and are of different readers. The box of a finding is the mean of its boxes.

The rule ``each`` merges nothing: every reader is the reference in turn, and the other readers of an
image are a model beside the others (`paired_readers`), because how well readers agree with each
other is the yardstick of a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64, Flags
from calipers.data.cohort import ORIGINAL, OTHERS, Cohort
from calipers.data.objects import Predictions, References, to_corners
from calipers.data.rules import Delivery
from calipers.errors import InputError, did_you_mean

ANY, MAJORITY, EACH = "any", "majority", "each"
RULES = (ANY, MAJORITY, EACH)
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
        f"readers of an image mark), each (every reader in turn, with the others as a yardstick), "
        f"or a name ({names}); in Python readers=...",
    )


def settle_readers(
    delivery: Delivery, readings: Readings, sizes: F64, rule: str, overlap: float
) -> tuple[Delivery, list[str]]:
    """Return the references by a rule, and notes on how they came about.

    The objects of a delivery with masks lose these: a mean of boxes has no mask.
    """
    drawn_by = readings.drawn_by(delivery)
    n = len(delivery)
    if rule == EACH:
        return replace(delivery, facts={**delivery.facts, READER_FACT: drawn_by}), []
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


def paired_readers(cohort: Cohort, readings: Readings) -> tuple[Cohort, str]:
    """Return the cohort in which every reader is the reference in turn, and a note on it.

    Every image stands once for each ordered pair of its readers: the first drew the references
    (group ``reader``), the second the predictions of the model `OTHERS`. Models repeat what they
    say of the image. So models and readers are judged by the same references, with the same
    weights. Copies of an image belong together (`ORIGINAL`), and are drawn together.
    """
    image, first, second = _reader_pairs(readings)
    if not len(image):
        raise InputError(
            "images that several readers read",
            rule="one-reader",
            field=readings.column,
            value="none",
            hint="leave out --readers: no image has a second reader to compare with",
        )
    for name in (READER_FACT, ORIGINAL):
        if name in cohort.images.groups:
            raise InputError(
                f"no column {name!r} of the images",
                rule="reserved-column",
                field=name,
                hint="--readers each adds a column of this name: rename yours",
            )
    if OTHERS in cohort.models:
        raise InputError(
            f"a model with another name than {OTHERS!r}",
            rule="reserved-column",
            value=OTHERS,
            hint="--readers each adds a model of this name: rename yours",
        )
    repeated = cohort.take(image)
    names = np.array(readings.names)
    drawn_by = np.asarray(repeated.references.facts[READER_FACT])
    of_cell = repeated.references.image
    references = repeated.references.keep(drawn_by == names[first][of_cell])
    others = repeated.references.keep(drawn_by == names[second][of_cell])
    ids = []
    for k, a, b in zip(image.tolist(), names[first].tolist(), names[second].tolist()):
        ids.append(f"{cohort.images.ids[k]} ({a}, {b})")
    groups = {
        **repeated.images.groups,
        READER_FACT: names[first],
        ORIGINAL: np.array(repeated.images.ids),
    }
    models = {**repeated.models, OTHERS: _as_predictions(others)}
    n_read = len(np.unique(image))
    note = (
        f"readers each: {n_read} images that several of {len(readings.names)} readers read stand "
        f"for {len(image)} ordered pairs of readers, one as the reference and the other among "
        f"{OTHERS!r}"
    )
    n_single = cohort.n_images - n_read
    if n_single:
        note += f"; {n_single} images with fewer readers are left out"
    images = replace(repeated.images, ids=tuple(ids), groups=groups)
    return replace(repeated, images=images, references=references, models=models), note


def _reader_pairs(readings: Readings) -> tuple[I64, I64, I64]:
    """Return image, first and second reader of every ordered pair, images in their order."""
    order = np.lexsort([readings.reader, readings.image])
    image, reader = readings.image[order], readings.reader[order]
    pairs: list[tuple[int, int, int]] = []
    for rows in np.split(np.arange(len(order)), np.flatnonzero(np.diff(image)) + 1):
        for a, b in permutations(rows.tolist(), 2):
            pairs.append((int(image[a]), int(reader[a]), int(reader[b])))
    table = np.array(pairs, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _as_predictions(objects: References) -> Predictions:
    """Return what readers drew as predictions, which have no scores."""
    return Predictions(
        offsets=objects.offsets,
        boxes=objects.boxes,
        extent=objects.extent,
        label=objects.label,
        place=objects.place,
        facts={},
        area=objects.area,
        score=np.ones(len(objects)),
        scored=False,
        masks=objects.masks,
        points=objects.points,
    )


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
