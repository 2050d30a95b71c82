# SPDX-License-Identifier: Apache-2.0
"""The format ``coco``: documents and lists of results to what `calipers.io.assemble` expects.

References are a document with images, annotations and categories (`read_references`); predictions
are a list of results, or a document whose annotations have scores (`read_predictions`).
`calipers.io.coco.plugin` calls both. The fast path reads pieces into columns; what it cannot read
goes to the careful path, where `Taker` collects sound records as rows and the others as problems.

Images go in ascending order of their ids (numbers first, then texts) and classes in ascending order
of their category ids, because pycocotools evaluates ``numpy.unique`` of both: with equal scores the
order of images decides the average precision, so parity needs the same order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import repeat
from operator import contains
from typing import Any

import msgspec
import numpy as np

from calipers.arrays import F64, I64
from calipers.data.objects import row_product
from calipers.data.rules import Delivery, Role, Source
from calipers.errors import InputError, raise_problems
from calipers.io.coco import json
from calipers.io.coco.columns import ObjectColumns
from calipers.io.coco.json import CarefulDocument, Record, Unreadable, read_carefully
from calipers.io.coco.masks import MaskColumns
from calipers.io.coco.records import (
    Categories,
    CocoRecord,
    MaskedAnnotation,
    PieceDecoder,
    as_annotation,
    categories_from,
    check_listed_record,
    check_object,
    check_records,
    images_from,
)
from calipers.io.reader import (
    ImageList,
    Key,
    ObjectPart,
    Options,
    Problem,
    ReferenceFile,
    ReferenceIndex,
)
from calipers.io.source import InputFile

# Relative differences above which a declared area is noted.
AREA_TOLERANCE = 0.01
MASK_AREA_TOLERANCE = 0.1  # COCO declares the area of the polygon, not its pixels
KEY = re.compile(rb'"(\w+)"\s*:', re.ASCII)
SCORED = re.compile(rb'"score"\s*:')
# Bytes in which the keys of the first records are looked for, for a message.
HEAD = 2000
LISTED_KEYS = ("id", "name", "width", "height", "file_name")  # of images and categories
MASK = b'"segmentation"'
NO_MASK = re.compile(rb'"segmentation"\s*:\s*(?:\[\s*\]|null)')

AT_ONCE = 1 << 14  # records that become columns together


def read_references(input_file: InputFile, options: Options) -> ReferenceFile:
    """Read a COCO document with images, annotations and categories."""
    try:
        # Both paths raise the same errors: the careful one only starts over and reads more slowly.
        outline = json.outline(input_file.data)
    except Unreadable:
        return _careful_references(input_file, options)
    require_references(input_file, outline.is_list, list(outline.spans))
    try:
        images = images_from(
            _decode_records(input_file, outline.spans["images"]), input_file.file, options
        )
        categories = categories_from(
            _decode_records(input_file, outline.spans["categories"]), input_file.file, options
        )
        columns = _reference_columns(input_file, images, categories, options)
        texts, notes = _read_fast(input_file, outline.spans["annotations"], columns)
    except Unreadable:
        return _careful_references(input_file, options)
    return _reference_file(input_file, images, categories, columns, texts, notes)


def read_predictions(input_file: InputFile, index: ReferenceIndex, options: Options) -> ObjectPart:
    """Read a COCO results list, or a document whose annotations have scores.

    A document has categories of its own, which are matched by name.
    """
    try:
        outline = json.outline(input_file.data)
        prefix = "" if outline.is_list else "/annotations"
        span = outline.spans.get(prefix.removeprefix("/"))
        if span is None:
            raise no_predictions_error(input_file, list(outline.spans))
        own, declared = None, None
        if "categories" in outline.spans:
            records = _decode_records(input_file, outline.spans["categories"])
            own = categories_from(records, input_file.file, options)
        columns = _prediction_columns(input_file, index, own, options)
        if "images" in outline.spans:
            declared = _decode_records(input_file, outline.spans["images"])
        subset = subset_notes(input_file, declared, columns, options)
        texts, notes = _read_fast(input_file, span, columns)
    except Unreadable:
        return _careful_predictions(input_file, index, options)
    delivery = columns.delivery()
    source = Source(input_file.file, lambda place, field: f"{prefix}/{place}/{field}", texts)
    return ObjectPart(delivery, source, columns.findings(), notes=[*subset, *notes])


def _read_fast(
    input_file: InputFile, span: tuple[int, int], columns: ObjectColumns
) -> tuple[json.PieceTexts, list[str]]:
    """Read a list piece by piece into columns; return the original texts, and notes on masks."""
    decoder = PieceDecoder(columns.role, masks=columns.masks is not None)
    listing = json.RecordList[CocoRecord](input_file.data, span)
    spans: list[tuple[int, int, int]] = []
    n_masks = 0
    while not listing.is_over:
        first = columns.n
        # Records are scanned as long as there are no segmentations, which only msgspec reads.
        scan = None
        if columns.can_scan and not decoder.has_masks:
            scan = listing.scan(columns.required_keys)
        if scan is not None:
            scanned, start, stop = scan
            columns.expect(len(scanned.keys), stop - start, span[1] - span[0])
            columns.add_scanned(scanned)
        else:
            piece, decoded = listing.decode(decoder)
            start, stop = piece.start, piece.stop
            records, plain = check_records(piece, decoded, decoder)
            columns.expect(len(records), stop - start, span[1] - span[0])
            columns.add(records)
            if not plain and columns.masks is None:
                n_masks += count_masks(piece.text)
        # Texts are not kept: the few that are needed are cut out of the file again.
        spans.append((first, start, stop))
        input_file.forget(start, stop)
    return json.PieceTexts(input_file.data, spans), _mask_notes(columns, n_masks)


def _careful_references(input_file: InputFile, options: Options) -> ReferenceFile:
    taker = Taker("references", 2, options)
    document = read_carefully(input_file, taker)
    require_references(input_file, document.is_list, document.keys)
    for name in ("images", "annotations", "categories"):
        if name in document.other:
            raise InputError(
                "a list",
                rule="type",
                file=input_file.file,
                location=f"/{name}",
                value=document.other[name],
            )
    images = images_from(_sound_values(document.images, input_file), input_file.file, options)
    categories = categories_from(
        _sound_values(document.categories, input_file), input_file.file, options
    )
    columns = _reference_columns(input_file, images, categories, options, taker.dimensions)
    taker.give(columns)
    notes = _mask_notes(columns, count_masks(document.text.encode("utf-8", "replace")))
    return _reference_file(input_file, images, categories, columns, document.text_of, notes, taker)


def _careful_predictions(
    input_file: InputFile, index: ReferenceIndex, options: Options
) -> ObjectPart:
    taker = Taker("predictions", index.dimensions, options)
    document = read_carefully(input_file, taker)
    if not document.has_objects:
        raise no_predictions_error(input_file, document.keys)
    # A file without any score is the wrong file, not a file of broken records.
    total = len(taker.rows) + taker.n_dropped
    if total and taker.n_unscored == total:
        raise no_scores_error(input_file, document)
    # The categories of the document itself, by whose names its ids are understood.
    own = None
    if document.categories is not None:
        own = categories_from(
            _sound_values(document.categories, input_file), input_file.file, options
        )
    columns = _prediction_columns(input_file, index, own, options)
    taker.give(columns)
    prefix = "" if document.is_list else "/annotations"
    delivery = columns.delivery()
    source = Source(
        input_file.file, lambda place, field: f"{prefix}/{place}/{field}", document.text_of
    )
    declared = None if document.images is None else _sound_values(document.images, input_file)
    notes = subset_notes(input_file, declared, columns, options)
    notes += _mask_notes(columns, count_masks(document.text.encode("utf-8", "replace")))
    return ObjectPart(delivery, source, columns.findings(), taker.problems, notes, taker.n_dropped)


class Taker:
    """Takes records one by one: sound ones as rows, the others as problems."""

    def __init__(self, role: Role, dimensions: int, options: Options) -> None:
        self.role, self.dimensions, self.options = role, dimensions, options
        # The first box of the references decides whether they are 2D or 3D.
        self.settled = role == "predictions"
        self.rows: list[MaskedAnnotation] = []
        self.places: list[int] = []
        self.problems: list[Problem] = []
        self.n_dropped = 0
        self.n_unscored = 0

    def __call__(self, record: Record, place: int) -> None:
        """Take the record number ``place``."""
        value = record.value
        if not self.settled and isinstance(value, dict) and isinstance(value.get("bbox"), list):
            self.settled, self.dimensions = True, 3 if len(value["bbox"]) == 6 else 2
        masks = self.options.masks != "ignore" and self.dimensions == 2
        problems = check_object(record, self.role, self.dimensions, masks=masks)
        self.n_unscored += any(problem.rule == "score-missing" for problem in problems)
        if problems:
            # Strict reading shows all problems; a record counts under its first one.
            self.problems += problems
            self.n_dropped += 1
        else:
            self.rows.append(as_annotation(value, self.role, masks=masks))
            self.places.append(place)

    def give(self, columns: ObjectColumns) -> None:
        """Hand the rows over, some at a time."""
        for first in range(0, len(self.rows), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            columns.add(self.rows[part], np.array(self.places[part], np.int64))


def _reference_columns(
    input_file: InputFile,
    images: ImageList,
    categories: Categories,
    options: Options,
    dimensions: int = 2,
) -> ObjectColumns:
    return ObjectColumns(
        "references",
        {key: k for k, key in enumerate(images.keys)},
        categories.index,
        as_text=options.ids_as_strings,
        dimensions=dimensions,
        box_format=options.box_format or "xywh",
        masks=_mask_columns(input_file, images.size, dimensions, options),
    )


def _mask_columns(
    input_file: InputFile, size: F64, dimensions: int, options: Options
) -> MaskColumns | None:
    """Return the collector of masks; None if masks are ignored or boxes are 3D (no such COCO)."""
    if options.masks == "ignore":
        return None
    if dimensions == 3:
        if options.masks == "required":
            hint = "pass --masks ignore to evaluate the boxes"
            raise InputError(
                "masks",
                rule="mask-missing",
                file=input_file.file,
                value="boxes of volumes",
                hint=hint,
            )
        return None
    return MaskColumns(options.masks, size[:, :2], input_file.size)


def _prediction_columns(
    input_file: InputFile, index: ReferenceIndex, own: Categories | None, options: Options
) -> ObjectColumns:
    """Return the collector of predictions; ``own`` are the categories of their document, if any."""
    classes: Mapping[Key, int] | None = index.class_keys
    as_text = options.ids_as_strings or index.class_keys is None
    names: dict[Key, str] = {}
    if own is not None:
        # Category ids of two files need not agree, their names do.
        place = {name: k for k, name in enumerate(index.classes)}
        for key, name in own.names.items():
            names[str(key) if as_text else key] = name
        classes = {key: place[name] for key, name in names.items() if name in place}
    if classes is None:
        raise InputError(
            "categories with names",
            rule="unknown-category",
            file=input_file.file,
            hint="COCO results number their categories, these references name them: "
            "deliver the predictions as a COCO document with categories, or as a table",
        )
    return ObjectColumns(
        "predictions",
        index.images,
        classes,
        names=names,
        known_names=index.classes,
        as_text=as_text,
        dimensions=index.dimensions,
        box_format=options.box_format or "xywh",
        masks=_mask_columns(input_file, index.size, index.dimensions, options),
    )


def _reference_file(
    input_file: InputFile,
    images: ImageList,
    categories: Categories,
    columns: ObjectColumns,
    texts: Any,
    notes: list[str],
    taker: Taker | None = None,
) -> ReferenceFile:
    if columns.n_scored:
        raise InputError(
            "references, which have no scores",
            rule="wrong-role",
            file=input_file.file,
            location="/annotations",
            value=f"{columns.n_scored} annotations with a score",
            hint="are references and predictions swapped?",
        )
    delivery = columns.delivery()
    source = Source(input_file.file, lambda place, field: f"/annotations/{place}/{field}", texts)
    notes = [*images.notes, *notes, *area_notes(delivery)]
    part = ObjectPart(delivery, source, columns.findings(), notes=notes)
    if taker:
        part = replace(part, problems=taker.problems, n_dropped=taker.n_dropped)
    if delivery.masks is not None and columns.masks is not None:
        # Masks tell the sizes that the images do not state.
        sides = columns.masks.size
        images = replace(images, size=np.hstack([sides, images.size[:, 2:]]))
    return ReferenceFile(images, categories.classes, categories.index, part, "coco")


def _decode_records(input_file: InputFile, span: tuple[int, int]) -> list[dict[str, Any]]:
    """Decode a list of images or categories."""
    decoder = msgspec.json.Decoder(list[dict[str, Any]])
    all_records: list[dict[str, Any]] = []
    listing = json.RecordList[dict[str, Any]](input_file.data, span)
    while not listing.is_over:
        piece, records = listing.decode(decoder)
        counts = {}
        for key in LISTED_KEYS:
            n = sum(map(contains, records, repeat(key)))
            if n:
                counts[key] = n
        json.check_piece(piece, len(records), counts, brackets=1)
        all_records += records
    return all_records


def _sound_values(records: list[Record] | None, input_file: InputFile) -> list[dict[str, Any]]:
    """Return the values of image or category records, or raise for those that are broken.

    A broken one is never set aside: that would change what is counted.
    """
    errors = []
    values = []
    for record in records or []:
        errors += [problem.as_error(input_file.file) for problem in check_listed_record(record)]
        values.append(record.value)
    raise_problems(errors)
    return values


def require_references(input_file: InputFile, is_list: bool, keys: list[str]) -> None:
    """Refuse a document that cannot be references."""
    if is_list:
        keys_in_records = dict.fromkeys(KEY.findall(input_file.data[:HEAD]))
        value = "a list"
        if keys_in_records:
            value += f" of records with {b', '.join(keys_in_records).decode('ascii')}"
        raise InputError(
            "a COCO document with images, annotations and categories",
            rule="wrong-role",
            file=input_file.file,
            value=value,
            hint="a list of results holds predictions: are the two files swapped?",
        )
    missing = [name for name in ("images", "annotations", "categories") if name not in keys]
    if missing:
        hint = ""
        if "annotations" in keys and SCORED.search(input_file.data):
            hint = "annotations with scores are predictions: are the two files swapped?"
        raise InputError(
            f"the keys images, annotations and categories ({', '.join(missing)} missing)",
            rule="wrong-role",
            file=input_file.file,
            value=keys[:20],
            hint=hint,
        )


def no_predictions_error(input_file: InputFile, keys: list[str]) -> InputError:
    """Return the error for a document that cannot be predictions."""
    return InputError(
        "a COCO results list, or a document with scored annotations",
        rule="wrong-role",
        file=input_file.file,
        value=keys[:20],
    )


def no_scores_error(input_file: InputFile, document: CarefulDocument) -> InputError:
    """Return the error for objects without any score."""
    if document.is_list:
        return InputError(
            "a score in every record",
            rule="score-missing",
            file=input_file.file,
            value="no record has one",
        )
    return InputError(
        "annotations with scores",
        rule="wrong-role",
        file=input_file.file,
        value=document.keys[:20],
        hint="these look like references: are the two files swapped?",
    )


def subset_notes(
    input_file: InputFile,
    declared: list[dict[str, Any]] | None,
    columns: ObjectColumns,
    options: Options,
) -> list[str]:
    """Check that predictions that list their images list all of them.

    An image that the model never saw is not a miss, so strict reading refuses a shorter list.
    """
    if declared is None:
        return []
    ids: list[Any] = [image.get("id") for image in declared]
    listed_ids = set(map(str, ids)) if columns.as_text else set(ids)
    # In the order of the references, so that the message names the first of them.
    missing = [key for key in columns.index["image_id"] if key not in listed_ids]
    if not missing:
        return []
    message = (
        f"the predictions list {len(listed_ids)} images, "
        f"{len(missing)} images of the references are not among them"
    )
    if options.lenient:
        return [message + "; all their references count as missed"]
    hint = "; evaluate on matching references, or pass --lenient to count them as missed"
    raise InputError(
        "all images of the references",
        rule="subset",
        file=input_file.file,
        location="/images",
        value=missing[0],
        hint=message + hint,
    )


def count_masks(text: bytes) -> int:
    """Count the annotations that have a mask."""
    n = text.count(MASK)
    return n - len(NO_MASK.findall(text)) if n else 0


def mask_notes(n: int) -> list[str]:
    """Say that masks are not used."""
    return [f"masks present in {n} annotations, only boxes are used"] if n else []


def _mask_notes(columns: ObjectColumns, left_out: int) -> list[str]:
    return mask_notes(left_out) if columns.masks is None else columns.masks.notes()


def area_notes(delivery: Delivery) -> list[str]:
    """Count the declared areas that differ from the box area, or clearly from the mask area."""
    if delivery.area is None or not delivery.box_format.startswith("xywh"):
        return []
    with np.errstate(invalid="ignore", over="ignore"):
        if delivery.masks is not None:
            own: F64 | I64 = delivery.masks.voxels
            tolerance, what = MASK_AREA_TOLERANCE, "the area of the mask by more than 10 %"
        else:
            own = row_product(delivery.boxes[:, delivery.boxes.shape[1] // 2 :])
            tolerance, what = AREA_TOLERANCE, "the box area by more than 1 %"
        n = int((np.abs(delivery.area - own) > tolerance * np.abs(own)).sum())
    if not n:
        return []
    declared = "the declared area decides in size cuts"
    return [f"declared area differs from {what} in {n} annotations; {declared}"]
