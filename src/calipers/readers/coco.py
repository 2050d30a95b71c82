# SPDX-License-Identifier: Apache-2.0
"""COCO JSON: references with images, annotations and categories; predictions as a list or a scored
document.

Images go in ascending order of their ids (numbers first, then texts) and classes in ascending order
of their category ids, because pycocotools evaluates ``numpy.unique`` of both: with equal scores the
order of images decides the average precision, so parity needs the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, raise_problems
from calipers.readers import jsonchunks
from calipers.readers.coco_columns import ObjectColumns
from calipers.readers.coco_lists import Categories, categories_from, images_from
from calipers.readers.coco_masks import MaskColumns
from calipers.readers.coco_pieces import PieceDecoder, check_records
from calipers.readers.coco_records import check_described
from calipers.readers.coco_roles import (
    area_notes,
    count_masks,
    mask_notes,
    require_references,
    subset_notes,
    unscored,
    wrong_predictions,
)
from calipers.readers.coco_taker import Taker
from calipers.readers.jsoncareful import Record, read_carefully
from calipers.readers.jsonchunks import Unreadable
from calipers.readers.parts import ImageList, Key, Known, ObjectPart, Options, ReferenceFile
from calipers.readers.source import Opened
from calipers.tables.delivery import Source

F64 = NDArray[np.float64]


def read_references(opened: Opened, options: Options) -> ReferenceFile:
    """Read a COCO document with images, annotations and categories."""
    try:
        outline = jsonchunks.outline(opened.data)
    except Unreadable:
        return _careful_references(opened, options)
    require_references(opened, outline.is_list, list(outline.spans))
    try:
        images = images_from(_described(opened, outline.spans["images"]), opened.file, options)
        categories = categories_from(
            _described(opened, outline.spans["categories"]), opened.file, options
        )
        columns = _columns(opened, images, categories, options)
        texts, notes = _read_fast(opened, outline.spans["annotations"], columns)
    except Unreadable:
        return _careful_references(opened, options)
    return _reference_file(opened, images, categories, columns, texts, notes, options)


def read_predictions(opened: Opened, known: Known, options: Options) -> ObjectPart:
    """Read a COCO results list, or a document whose annotations have scores (categories by name
    then).
    """
    try:
        outline = jsonchunks.outline(opened.data)
        span = outline.spans.get("" if outline.is_list else "annotations")
        if span is None:
            raise wrong_predictions(opened, list(outline.spans))
        own = None
        if "categories" in outline.spans:
            own = categories_from(
                _described(opened, outline.spans["categories"]), opened.file, options
            )
        columns = _prediction_columns(opened, known, own, options)
        declared = (
            _described(opened, outline.spans["images"]) if "images" in outline.spans else None
        )
        subset = subset_notes(opened, declared, columns, options)
        texts, notes = _read_fast(opened, span, columns)
        prefix = "" if outline.is_list else "/annotations"
    except Unreadable:
        return _careful_predictions(opened, known, options)
    delivery = columns.delivery()
    source = Source(opened.file, lambda place, field: f"{prefix}/{place}/{field}", texts)
    return ObjectPart(delivery, source, columns.findings(), notes=[*subset, *notes])


def _read_fast(
    opened: Opened, span: tuple[int, int], columns: ObjectColumns
) -> tuple[jsonchunks.PieceTexts, list[str]]:
    decoder = PieceDecoder(columns.role, masks=columns.masks is not None)
    spans: list[tuple[int, int, int]] = []
    masks = 0
    for piece, decoded in jsonchunks.decode_list(opened.data, span, decoder):
        records, plain = check_records(piece, decoded, decoder)
        if not spans:
            columns.expect(int(1.02 * len(records) * (span[1] - span[0]) / len(piece.text)) + 1)
        spans.append((columns.n, piece.start, piece.stop))
        columns.add(records)
        masks += 0 if plain or columns.masks is not None else count_masks(piece.text)
        opened.forget(piece.start, piece.stop)
    return jsonchunks.PieceTexts(opened.data, spans), _mask_notes(columns, masks)


def _mask_notes(columns: ObjectColumns, left_out: int) -> list[str]:
    return mask_notes(left_out) if columns.masks is None else columns.masks.notes()


def _careful_references(opened: Opened, options: Options) -> ReferenceFile:
    taker = Taker("references", 2, options)
    document = read_carefully(opened, taker)
    require_references(opened, document.is_list, document.keys)
    for name in ("images", "annotations", "categories"):
        if name in document.other:
            raise InputError(
                "a list",
                rule="type",
                file=opened.file,
                location=f"/{name}",
                value=document.other[name],
            )
    images = images_from(_trusted(document.images, opened), opened.file, options)
    categories = categories_from(_trusted(document.categories, opened), opened.file, options)
    columns = _columns(opened, images, categories, options, taker.dimensions)
    taker.give(columns)
    notes = _mask_notes(columns, count_masks(document.text.encode("utf-8", "replace")))
    return _reference_file(
        opened, images, categories, columns, document.text_of, notes, options, taker
    )


def _careful_predictions(opened: Opened, known: Known, options: Options) -> ObjectPart:
    taker = Taker("predictions", known.dimensions, options)
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
    taker.give(columns)
    prefix = "" if document.is_list else "/annotations"
    delivery = columns.delivery()
    source = Source(opened.file, lambda place, field: f"{prefix}/{place}/{field}", document.text_of)
    declared = None if document.images is None else _trusted(document.images, opened)
    notes = subset_notes(opened, declared, columns, options)
    notes += _mask_notes(columns, count_masks(document.text.encode("utf-8", "replace")))
    return ObjectPart(delivery, source, columns.findings(), taker.problems, notes, taker.n_dropped)


def _columns(
    opened: Opened, images: ImageList, categories: Categories, options: Options, dimensions: int = 2
) -> ObjectColumns:
    return ObjectColumns(
        "references",
        {key: k for k, key in enumerate(images.keys)},
        categories.index,
        as_text=options.ids_as_strings,
        dimensions=dimensions,
        box_format=options.box_format or "xywh",
        masks=_mask_columns(opened, images.size, dimensions, options),
    )


def _mask_columns(
    opened: Opened, size: F64, dimensions: int, options: Options
) -> MaskColumns | None:
    """Return what collects the masks, unless they are of no interest: COCO has none of volumes."""
    if options.masks == "ignore":
        return None
    if dimensions == 3:
        if options.masks == "required":
            hint = "pass --masks ignore to evaluate the boxes"
            raise InputError(
                "masks", rule="mask-missing", file=opened.file, value="boxes of volumes", hint=hint
            )
        return None
    return MaskColumns(options.masks, size[:, :2], opened.size)


def _prediction_columns(
    opened: Opened, known: Known, own: Categories | None, options: Options
) -> ObjectColumns:
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
        box_format=options.box_format or "xywh",
        masks=_mask_columns(opened, known.size, known.dimensions, options),
    )


def _reference_file(
    opened: Opened,
    images: ImageList,
    categories: Categories,
    columns: ObjectColumns,
    texts: Any,
    notes: list[str],
    options: Options,
    taker: Taker | None = None,
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
    delivery = columns.delivery()
    source = Source(opened.file, lambda place, field: f"/annotations/{place}/{field}", texts)
    notes = [*images.notes, *notes, *area_notes(delivery)]
    part = ObjectPart(delivery, source, columns.findings(), notes=notes)
    if taker:
        part = ObjectPart(delivery, source, part.findings, taker.problems, notes, taker.n_dropped)
    if delivery.masks is not None and columns.masks is not None:
        sides = columns.masks.size  # masks tell the sizes that the images do not
        images = replace(images, size=np.hstack([sides, images.size[:, 2:]]))
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
        jsonchunks.check_piece(
            piece, len(records), {key: n for key, n in keys.items() if n}, brackets=1
        )
        described += records
    return described


def _trusted(records: list[Record] | None, opened: Opened) -> list[dict[str, Any]]:
    """Return image or category records; a broken one is never set aside, it would change what is
    counted.
    """
    problems = [problem for record in records or [] for problem in check_described(record)]
    raise_problems([problem.as_error(opened.file) for problem in problems])
    return [record.value for record in records or []]
