# SPDX-License-Identifier: Apache-2.0
"""Read the cohort of a saved evaluation from its two tables: the same arrays, bit for bit.

`calipers.readers.stored_folder` calls it. What does not agree with the document is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError
from calipers.kernels import ragged
from calipers.readers.source import InputFile
from calipers.readers.stored_columns import HINT, StoredColumns
from calipers.readers.stored_shapes import MASK, POINT, shapes_in
from calipers.readers.stored_tables import (
    CORNERS,
    FACT,
    GROUP,
    KINDS,
    SIDES,
    SPACINGS,
    TEXT,
    kinds_of,
)
from calipers.tables import Cohort, Images, Intake, Predictions, References
from calipers.tables.checks import examine
from calipers.tables.cohort import UNIT
from calipers.tables.delivery import MOST_OBJECTS, Delivery, Source, settle
from calipers.tables.objects import Column

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
OF_REFERENCES = ("image", "row", "class", "area", "extent", "ignore", "crowd", "place")
Parts = Mapping[tuple[str, str], StoredColumns]


@dataclass(frozen=True)
class CohortCounts:
    """The counts of the cohort in the document, with which the tables must agree."""

    images: int
    references: int
    dimensions: int
    classes: tuple[str, ...]
    models: Mapping[str, int]
    unscored: frozenset[str]


def read_cohort(
    images: InputFile, objects: InputFile, counts: CohortCounts, intake: Intake
) -> Cohort:
    """Return the cohort of ``images.parquet`` and ``objects.parquet``."""
    image_table = _images(StoredColumns.read(images), counts)
    parts = _parts(StoredColumns.read(objects), counts)
    first = parts[next(iter(counts.models)), KINDS[0]]
    shared = _objects(first, image_table, counts, ("references",))
    references = References(
        **shared,
        facts=_facts(first, ("references",)),
        ignore=first.flags("ignore"),
        crowd=first.flags("crowd"),
    )
    _check_repeated(first, parts, counts)
    models = {}
    for model in counts.models:
        part = parts[model, KINDS[1]]
        models[model] = Predictions(
            **_objects(part, image_table, counts, ("models", model), score=part.numbers("score")),
            facts=_facts(part, ("models", model)),
            score=part.numbers("score"),
            scored=model not in counts.unscored,
        )
    return Cohort(image_table, counts.classes, references, models, intake)


def _images(columns: StoredColumns, counts: CohortCounts) -> Images:
    if len(columns) != counts.images:
        columns.refuse(f"{counts.images} images", "record-count", "", value=len(columns))
    names, codes = columns.texts("image")
    repeated = np.bincount(codes, minlength=len(names))[codes] > 1
    columns.refuse("one row per image", "dup-image", "image", repeated)
    size = _lengths(columns, SIDES[: counts.dimensions])
    spacing = _lengths(columns, SPACINGS[: counts.dimensions])
    groups = {}
    for name in columns.names:
        if name.startswith(GROUP):
            groups[name.removeprefix(GROUP)] = columns.free(name)
    if UNIT in groups:
        columns.refuse("another name for a group", "group-name", GROUP + UNIT)
    ids = tuple(names[code] for code in codes.tolist())
    return Images(ids, size, spacing, groups)


def _lengths(columns: StoredColumns, sides: tuple[str, ...]) -> F64:
    """Return sizes or spacings, one column per side; null is NaN."""
    lengths = []
    for side in sides:
        values = columns.numbers(side, missing=True)
        columns.refuse("lengths above zero", "image-size", side, np.asarray(values <= 0))
        lengths.append(values)
    return np.stack(lengths, axis=1)


def _parts(columns: StoredColumns, counts: CohortCounts) -> Parts:
    """Return the rows of every model and kind: for each model its references, then predictions."""
    if not counts.models:
        raise InputError("at least one model", rule="no-predictions", file=columns.file, hint=HINT)
    total = sum(counts.references + n for n in counts.models.values())
    if len(columns) != total:
        columns.refuse(f"{total} rows", "record-count", "", value=len(columns))
    parts, start = {}, 0
    for model, n_predictions in counts.models.items():
        for kind, n in zip(KINDS, (counts.references, n_predictions)):
            part = columns.part(start, n)
            for name, expected in (("model", model), ("kind", kind)):
                names, codes = part.texts(name)
                bad = np.array([text != expected for text in names], np.bool_)[codes]
                part.refuse(f"{expected!r}", "stored-order", name, bad)
            wrong = part.whole("row") != np.arange(n)
            part.refuse("rows that count the objects of a kind", "stored-order", "row", wrong)
            parts[model, kind] = part
            start += n
    return parts


def _check_repeated(first: StoredColumns, parts: Parts, counts: CohortCounts) -> None:
    """Raise unless the references, which are stored once for every model, are all the same."""
    names = [*OF_REFERENCES, *CORNERS[counts.dimensions], *MASK, *POINT]
    for (model, kind), part in parts.items():
        if kind != KINDS[0] or part is first:
            continue
        for name in names:
            is_stored = name in part.names
            if is_stored and not part.table.column(name).equals(first.table.column(name)):
                expected = "the same references for every model"
                part.refuse(expected, "stored-order", name, value=model)


def _objects(
    part: StoredColumns,
    images: Images,
    counts: CohortCounts,
    path: tuple[str, ...],
    score: F64 | None = None,
) -> dict[str, Any]:
    """Return the columns that references and predictions share, checked like any other input."""
    if len(part) > MOST_OBJECTS:
        part.refuse(f"at most {MOST_OBJECTS} objects", "too-large", "", value=len(part))
    image, label = _image_of(part, images), _label_of(part, counts)
    boxes = np.stack([part.numbers(name) for name in CORNERS[counts.dimensions]], axis=1)
    area, extent = part.numbers("area"), part.numbers("extent")
    part.refuse("areas above zero", "zero-area", "extent", np.asarray(extent <= 0))
    places = np.arange(part.first, part.first + len(part))
    shapes = shapes_in(part, path, counts.dimensions)
    delivery = Delivery(image, label, boxes, "xyxy", places, score=score, area=area, **shapes)
    # Whether references lie inside their image was checked when they were read, and changes no
    # number here.
    findings = examine(delivery, images.size, "predictions", score_scale="raw", declared=True)
    settle(delivery, findings, Source(part.file, lambda place, field: f"row {place}"))
    return {
        "offsets": ragged.from_owner(image, len(images)),
        "boxes": boxes,
        "extent": extent,
        "label": label.astype(np.int32),
        "place": part.whole("place", missing=True),
        "area": area,
        **shapes,
    }


def _image_of(part: StoredColumns, images: Images) -> I64:
    """Return the image of every object; objects stand in the order of their images."""
    names, codes = part.texts("image")
    index = {name: k for k, name in enumerate(images.ids)}
    image = np.array([index.get(name, -1) for name in names], np.int64)[codes]
    part.refuse("an image of the evaluation", "unknown-image", "image", image < 0)
    falls = np.diff(image, prepend=image[:1]) < 0
    part.refuse("objects in the order of their images", "stored-order", "image", falls)
    return image


def _label_of(part: StoredColumns, counts: CohortCounts) -> I64:
    names, codes = part.texts("class")
    index = {name: k for k, name in enumerate(counts.classes)}
    label = np.array([index.get(name, -1) for name in names], np.int64)[codes]
    part.refuse("a class of the evaluation", "unknown-category", "class", label < 0)
    return label


def _facts(part: StoredColumns, path: tuple[str, ...]) -> dict[str, Column]:
    """Return the further columns of a table, each in the kind that it had."""
    kinds = kinds_of(part.table.schema.metadata)
    for key in path:
        kinds = kinds.get(key) if isinstance(kinds, dict) else None
    if not isinstance(kinds, dict):
        part.refuse("a list of the facts in the metadata", "missing-key", "", value="/".join(path))
    facts = {}
    for name, kind in dict(kinds or {}).items():
        column = part.free(FACT + name)
        if kind != TEXT and column.dtype.kind == "U":
            column = _parse_column(part, FACT + name, column, kind)
        facts[name] = column
    return facts


def _parse_column(part: StoredColumns, name: str, column: Column, kind: Any) -> Column:
    """Return numbers or flags that were stored as text, because another table has text there."""
    try:
        dtype = np.dtype(str(kind))
        if dtype.kind not in "biuf":
            raise ValueError(f"no kind {kind!r}")
        if dtype.kind == "b":
            return np.asarray(column == "True")
        return np.asarray(column.astype(dtype))
    except (ValueError, TypeError, OverflowError):
        part.refuse(f"numbers of the kind {kind!r}", "column-type", name)
        raise
