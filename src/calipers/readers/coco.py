# SPDX-License-Identifier: Apache-2.0
"""COCO JSON: references with images, annotations and categories; predictions as a list or a scored document.

Images go in ascending order of their ids (numbers first, then texts) and classes in ascending order of their category
ids, because pycocotools evaluates ``numpy.unique`` of both: with equal scores the order of images decides the average
precision, so parity needs the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from calipers.errors import InputError, raise_problems
from calipers.readers import jsonchunks
from calipers.readers.coco_columns import ObjectColumns
from calipers.readers.coco_lists import Categories, categories_from, images_from
from calipers.readers.coco_records import Annotation, Result, as_annotation, check_described, check_object
from calipers.readers.coco_roles import (
    area_notes,
    count_masks,
    mask_notes,
    require_references,
    subset_notes,
    unscored,
    wrong_predictions,
)
from calipers.readers.jsoncareful import Record, read_carefully
from calipers.readers.jsonchunks import Unreadable
from calipers.readers.parts import ImageList, Key, Known, ObjectPart, Options, Problem, ReferenceFile
from calipers.readers.source import Opened
from calipers.tables.checks import Role
from calipers.tables.delivery import Source

RECORD_KEYS = ("image_id", "category_id", "bbox")
OPTIONAL_KEYS = ("id", "score", "area", "iscrowd", "ignore")


def read_references(opened: Opened, options: Options) -> ReferenceFile:
    """Read a COCO document with images, annotations and categories."""
    try:
        outline = jsonchunks.outline(opened.data)
    except Unreadable:
        return _careful_references(opened, options)
    require_references(opened, outline.is_list, list(outline.spans))
    try:
        images = images_from(_described(opened, outline.spans["images"]), opened.file, options)
        categories = categories_from(_described(opened, outline.spans["categories"]), opened.file, options)
        columns = _columns("references", images, categories, options)
        texts, notes = _read_fast(opened, outline.spans["annotations"], columns, Annotation)
    except Unreadable:
        return _careful_references(opened, options)
    return _reference_file(opened, images, categories, columns, texts, notes, options)


def read_predictions(opened: Opened, known: Known, options: Options) -> ObjectPart:
    """Read a COCO results list, or a document whose annotations have scores (categories by name then)."""
    try:
        outline = jsonchunks.outline(opened.data)
        span = outline.spans.get("" if outline.is_list else "annotations")
        if span is None:
            raise wrong_predictions(opened, list(outline.spans))
        own = None
        if "categories" in outline.spans:
            own = categories_from(_described(opened, outline.spans["categories"]), opened.file, options)
        columns = _prediction_columns(opened, known, own, options)
        declared = _described(opened, outline.spans["images"]) if "images" in outline.spans else None
        subset = subset_notes(opened, declared, columns, options)
        texts, notes = _read_fast(opened, span, columns, Result)
        prefix = "" if outline.is_list else "/annotations"
    except Unreadable:
        return _careful_predictions(opened, known, options)
    delivery = columns.delivery(options.box_format or "xywh")
    source = Source(opened.file, lambda place, field: f"{prefix}/{place}/{field}", texts)
    return ObjectPart(delivery, source, columns.findings(), notes=[*subset, *notes])


def _read_fast(
    opened: Opened, span: tuple[int, int], columns: ObjectColumns, kind: type[Annotation] | type[Result]
) -> tuple[jsonchunks.PieceTexts, list[str]]:
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
    spans: list[tuple[int, int, int]] = []
    masks = 0
    for piece, records in jsonchunks.decode_list(opened.data, span, decoder):
        n = len(records)
        keys = dict.fromkeys(RECORD_KEYS, n)
        if kind is Result:
            keys["score"] = n
        else:
            for key in OPTIONAL_KEYS:
                keys[key] = n - list(map(attrgetter(key), records)).count(UNSET)
        plain = jsonchunks.check_piece(piece, n, keys, brackets=2)
        if not spans:
            columns.expect(int(1.02 * n * (span[1] - span[0]) / len(piece.text)) + 1)
        spans.append((columns.n, piece.start, piece.stop))
        columns.add(records)
        masks += 0 if plain else count_masks(piece.text)
        opened.forget(piece.start, piece.stop)
    return jsonchunks.PieceTexts(opened.data, spans), mask_notes(masks)


def _careful_references(opened: Opened, options: Options) -> ReferenceFile:
    taker = _Taker("references", 2)
    document = read_carefully(opened, taker)
    require_references(opened, document.is_list, document.keys)
    for name in ("images", "annotations", "categories"):
        if name in document.other:
            raise InputError("a list", rule="type", file=opened.file, location=f"/{name}", value=document.other[name])
    images = images_from(_trusted(document.images, opened), opened.file, options)
    categories = categories_from(_trusted(document.categories, opened), opened.file, options)
    columns = _columns("references", images, categories, options, taker.dimensions)
    columns.add(taker.rows, np.array(taker.places, np.int64))
    notes = mask_notes(count_masks(document.text.encode("utf-8", "replace")))
    return _reference_file(opened, images, categories, columns, document.text_of, notes, options, taker)


def _careful_predictions(opened: Opened, known: Known, options: Options) -> ObjectPart:
    taker = _Taker("predictions", known.dimensions)
    document = read_carefully(opened, taker)
    if not document.has_objects:
        raise wrong_predictions(opened, document.keys)
    total = len(taker.rows) + taker.n_dropped
    if total and taker.n_unscored == total:
        raise unscored(opened, document)
    own = None
    if document.categories is not None:
        own = categories_from(_trusted(document.categories, opened), opened.file, options)
    columns = _prediction_columns(opened, known, own, options)
    columns.add(taker.rows, np.array(taker.places, np.int64))
    prefix = "" if document.is_list else "/annotations"
    delivery = columns.delivery(options.box_format or "xywh")
    source = Source(opened.file, lambda place, field: f"{prefix}/{place}/{field}", document.text_of)
    declared = None if document.images is None else _trusted(document.images, opened)
    notes = subset_notes(opened, declared, columns, options)
    notes += mask_notes(count_masks(document.text.encode("utf-8", "replace")))
    return ObjectPart(delivery, source, columns.findings(), taker.problems, notes, taker.n_dropped)


class _Taker:
    """Takes records from the careful reader: sound ones as rows, the others as problems."""

    def __init__(self, role: Role, dimensions: int) -> None:
        self.role, self.dimensions = role, dimensions
        self.settled = role == "predictions"  # references decide with their first box whether it is 2D or 3D
        self.rows: list[Annotation] = []
        self.places: list[int] = []
        self.problems: list[Problem] = []
        self.n_dropped = 0
        self.n_unscored = 0

    def __call__(self, record: Record, place: int) -> None:
        value = record.value
        if not self.settled and isinstance(value, dict) and isinstance(value.get("bbox"), list):
            self.settled, self.dimensions = True, 3 if len(value["bbox"]) == 6 else 2
        found = check_object(record, self.role, self.dimensions)
        self.n_unscored += any(problem.rule == "score-missing" for problem in found)
        if found:
            # The first problem of a record is the one it is counted under; strict reading shows them all.
            self.problems += found
            self.n_dropped += 1
        else:
            self.rows.append(as_annotation(value, self.role))
            self.places.append(place)


def _columns(
    role: Role, images: ImageList, categories: Categories, options: Options, dimensions: int = 2
) -> ObjectColumns:
    index = {key: k for k, key in enumerate(images.keys)}
    return ObjectColumns(role, index, categories.index, as_text=options.ids_as_strings, dimensions=dimensions)


def _prediction_columns(opened: Opened, known: Known, own: Categories | None, options: Options) -> ObjectColumns:
    classes: Mapping[Key, int] | None = known.class_keys
    as_text = options.ids_as_strings or known.class_keys is None
    names: Mapping[Key, str] = {}
    if own is not None:
        place = {name: k for k, name in enumerate(known.classes)}
        names = {str(key) if as_text else key: name for key, name in own.names.items()}
        classes = {key: place[name] for key, name in names.items() if name in place}
    if classes is None:
        raise InputError(
            "categories with names",
            rule="unknown-category",
            file=opened.file,
            hint="COCO results number their categories, these references name them: "
            "deliver the predictions as a COCO document with categories, or as a table",
        )
    return ObjectColumns(
        "predictions",
        known.images,
        classes,
        names=names,
        known_names=known.classes,
        as_text=as_text,
        dimensions=known.dimensions,
    )


def _reference_file(
    opened: Opened,
    images: ImageList,
    categories: Categories,
    columns: ObjectColumns,
    texts: Any,
    notes: list[str],
    options: Options,
    taker: _Taker | None = None,
) -> ReferenceFile:
    if columns.n_scored:
        raise InputError(
            "references, which have no scores",
            rule="wrong-role",
            file=opened.file,
            location="/annotations",
            value=f"{columns.n_scored} annotations with a score",
            hint="are references and predictions swapped?",
        )
    delivery = columns.delivery(options.box_format or "xywh")
    source = Source(opened.file, lambda place, field: f"/annotations/{place}/{field}", texts)
    notes = [*images.notes, *notes, *area_notes(delivery)]
    part = ObjectPart(delivery, source, columns.findings(), notes=notes)
    if taker:
        part = ObjectPart(delivery, source, part.findings, taker.problems, notes, taker.n_dropped)
    return ReferenceFile(images, categories.classes, categories.index, part, "coco")


def _described(opened: Opened, span: tuple[int, int]) -> list[dict[str, Any]]:
    """Decode a list of images or categories."""
    decoder = msgspec.json.Decoder(list[dict[str, Any]])
    described: list[dict[str, Any]] = []
    for piece, records in jsonchunks.decode_list(opened.data, span, decoder):
        keys = {
            key: [key in record for record in records].count(True)
            for key in ("id", "name", "width", "height", "file_name")
        }
        jsonchunks.check_piece(piece, len(records), {key: n for key, n in keys.items() if n}, brackets=1)
        described += records
    return described


def _trusted(records: list[Record] | None, opened: Opened) -> list[dict[str, Any]]:
    """Return image or category records; a broken one is never set aside, it would change what is counted."""
    problems = [problem for record in records or [] for problem in check_described(record)]
    raise_problems([problem.as_error(opened.file) for problem in problems])
    return [record.value for record in records or []]
