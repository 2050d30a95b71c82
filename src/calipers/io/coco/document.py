# SPDX-License-Identifier: Apache-2.0
"""The format ``coco``: documents and lists of results to what `calipers.io.assemble` expects.

References are a document with images, annotations and categories (`read_references`); predictions
are a list of results, or a document whose annotations have scores (`read_predictions`).
`calipers.io.coco.plugin` calls both. `ObjectList` reads annotations into columns, piece by piece; a
piece that the fast roads cannot read is checked record by record, and only that piece.

Images go in ascending order of their ids (numbers first, then texts) and classes in ascending order
of their category ids, because pycocotools evaluates ``numpy.unique`` of both: with equal scores the
order of images decides the average precision, so parity needs the same order.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from calipers.arrays import F64, I64
from calipers.data.objects import row_product
from calipers.data.rules import Delivery, Source
from calipers.errors import InputError, InputProblems, raise_problems
from calipers.io.coco import json
from calipers.io.coco.columns import ObjectColumns
from calipers.io.coco.json import Unreadable
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
    image_keys,
    images_from,
)
from calipers.io.coco.walk import Outline, Record, Walker
from calipers.io.reader import (
    ImageList,
    Key,
    ObjectPart,
    Options,
    Problem,
    ReferenceFile,
    ReferenceIndex,
)
from calipers.io.source import InputFile, search

# Relative differences above which a declared area is noted.
AREA_TOLERANCE = 0.01
MASK_AREA_TOLERANCE = 0.1  # COCO declares the area of the polygon, not its pixels
KEY = re.compile(rb'"(\w+)"\s*:', re.ASCII)
SCORED = re.compile(rb'"score"\s*:')
# Bytes in which the keys of the first records are looked for, for a message.
OWN_SIDES = ("width", "height")
HEAD = 2000
FIRST_BOX = re.compile(rb'"bbox"\s*:\s*\[([^\[\]{}]*)\]')
MASK = b'"segmentation"'
VIA = b'"shape_attributes"'  # in a project of the VGG Image Annotator
NO_MASK = re.compile(rb'"segmentation"\s*:\s*(?:\[\s*\]|null)')


def read_references(input_file: InputFile, options: Options) -> ReferenceFile:
    """Read a COCO document with images, annotations and categories."""
    outline = json.outline(input_file)
    require_references(input_file, outline.is_list, list(outline.spans))
    for name in ("images", "annotations", "categories"):
        require_list(input_file, outline, name)
    images = images_from(_listed(input_file, outline, "images"), input_file.file, options)
    categories = categories_from(
        _listed(input_file, outline, "categories"), input_file.file, options
    )
    span = outline.spans["annotations"]
    dimensions = _box_dimensions(input_file, span)
    columns = _reference_columns(input_file, images, categories, options, dimensions)
    objects = ObjectList(input_file, span, "/annotations", columns, options)
    objects.read()
    return _reference_file(input_file, images, categories, objects)


def read_predictions(input_file: InputFile, index: ReferenceIndex, options: Options) -> ObjectPart:
    """Read a COCO results list, or a document whose annotations have scores.

    A document has categories of its own, which are matched by name.
    """
    outline = json.outline(input_file)
    prefix = "" if outline.is_list else "/annotations"
    span = outline.spans.get(prefix.removeprefix("/"))
    if span is None or not _is_list(input_file, span):
        raise no_predictions_error(input_file, list(outline.spans))
    as_text = options.ids_as_strings or index.class_keys is None
    own = None
    if "categories" in outline.spans:
        require_list(input_file, outline, "categories")
        records = _listed(input_file, outline, "categories")
        own = categories_from(records, input_file.file, options)
    images = index.images
    notes: list[str] = []
    if "images" in outline.spans:
        require_list(input_file, outline, "images")
        declared = OwnImages.of(_listed(input_file, outline, "images"), input_file, as_text)
        images, notes = declared.join(index)
        notes += subset_notes(input_file, declared.keys, images, index, options)
    columns = _prediction_columns(input_file, index, images, own, options)
    objects = ObjectList(input_file, span, prefix, columns, options)
    objects.read()
    # A file without any score is the wrong file, not a file of broken records.
    if objects.n and objects.n_unscored == objects.n:
        raise no_scores_error(input_file, outline)
    return objects.part(columns.delivery(), notes)


@dataclass(frozen=True)
class OwnImages:
    """The images that a document of predictions lists itself."""

    file: str
    keys: list[Key]
    names: list[str | None]  # of their files
    sizes: F64  # (n, 2) width and height, NaN where they are not stated

    @classmethod
    def of(
        cls, records: Sequence[dict[str, Any]], input_file: InputFile, as_text: bool
    ) -> OwnImages:
        """Return the images of these records, of which each has an id of its own."""
        keys = image_keys(records, input_file.file, as_text)
        names = []
        for record in records:
            name = record.get("file_name")
            names.append(name if isinstance(name, str) else None)
        sides = []
        for side in OWN_SIDES:
            sides.append(np.array([_length(record.get(side)) for record in records], np.float64))
        return cls(input_file.file, keys, names, np.stack(sides, axis=1))

    def join(self, index: ReferenceIndex) -> tuple[Mapping[Key, int], list[str]]:
        """Return the images of the references by the ids of the predictions, and notes.

        Ids name images. Where an id is none of the references, but its file_name is, the name does;
        one of the two may have further folders before it, if no two images share the name behind.
        """
        self._require_same_names(index)
        images_by_id = {index.images[key] for key in self.keys if key in index.images}
        counts = Counter(self.names)
        own_bases = Counter(_base_name(name or "") for name in self.names)
        known_names = [str(name) for name in index.file_names]
        bases = Counter(map(_base_name, known_names))
        paths = {_base_name(name): name for name in known_names}
        by_name: dict[Key, int] = {}
        for key, name in zip(self.keys, self.names):
            k = index.file_names.get(name) if name and counts[name] == 1 else None
            base = _base_name(name or "")
            if k is None and name and own_bases[base] == bases[base] == 1:
                k = index.file_names[paths[base]] if _is_longer(name, paths[base]) else None
            if key not in index.images and k is not None and k not in images_by_id:
                by_name[key] = k
        images = {**index.images, **by_name} if by_name else index.images
        self._require_same_sizes(index, images)
        if not by_name:
            return images, []
        note = (
            f"{len(by_name)} images are joined by file_name: the references do not have their ids"
        )
        return images, [note]

    def _require_same_sizes(self, index: ReferenceIndex, images: Mapping[Key, int]) -> None:
        """Raise if an image is larger or smaller here: its boxes have another scale."""
        places = np.array([images.get(key, -1) for key in self.keys], np.int64)
        rows, axes = np.nonzero(index.other_sizes(places, self.sizes))
        errors = []
        for k, axis in zip(rows[: InputProblems.SHOWN].tolist(), axes.tolist()):
            error = index.size_conflict(
                int(places[k]),
                axis,
                float(self.sizes[k, axis]),
                self.file,
                f"/images/{k}/{OWN_SIDES[axis]}",
            )
            errors.append(error)
        raise_problems(errors, len(rows))

    def _require_same_names(self, index: ReferenceIndex) -> None:
        """Raise if an id is one image here and another one in the references."""
        errors = []
        for k, (key, name) in enumerate(zip(self.keys, self.names)):
            if name is None or key not in index.images:
                continue
            expected = index.file_name_of(index.images[key])
            # Folders before the name say where a copy lies, not which image it is, unless another
            # image is called so: P1/001.png and P2/001.png.
            is_another = index.file_names.get(name, index.images[key]) != index.images[key]
            if expected is not None and (is_another or _base_name(name) != _base_name(expected)):
                error = InputError(
                    f"{expected!r}, the file_name that image {key!r} has in the references",
                    rule="image-name",
                    file=self.file,
                    location=f"/images/{k}/file_name",
                    value=name,
                    hint="one id stands for two images: write both files from one list of images",
                )
                errors.append(error)
        raise_problems(errors[: InputProblems.SHOWN], len(errors))


def _length(value: Any) -> float:
    """Return a width or height; NaN if it is not stated or means nothing."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < 1 << 53 else math.nan


def _is_longer(path: str, other: str) -> bool:
    """Return whether one of two paths is the other behind further folders: train/1 is not val/1."""
    short, long = sorted((path.replace("\\", "/"), other.replace("\\", "/")), key=len)
    return long == short or long.endswith(f"/{short}")


def _base_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def require_list(input_file: InputFile, outline: Outline, name: str) -> None:
    """Refuse a document that has something else than a list under a name."""
    span = outline.spans[name]
    if _is_list(input_file, span):
        return
    value, _, _ = Walker(input_file.file, input_file.data, span[0]).value()
    raise InputError("a list", rule="type", file=input_file.file, location=f"/{name}", value=value)


def _is_list(input_file: InputFile, span: tuple[int, int]) -> bool:
    return input_file.data[span[0] : span[0] + 1] == b"["


def _box_dimensions(input_file: InputFile, span: tuple[int, int]) -> int:
    """Return 3 if the first box has six numbers, else 2: it decides for the whole file."""
    place = search(FIRST_BOX, input_file.data, *span)
    return 3 if place and place[1].group(1).count(b",") == 5 else 2


class ObjectList:
    """Reads a list of annotations or results into columns.

    Pieces go the fastest road that can read them. Only the piece that none of the fast ones reads
    is checked record by record: sound records become rows, the others problems.
    """

    def __init__(
        self,
        input_file: InputFile,
        span: tuple[int, int],
        pointer: str,
        columns: ObjectColumns,
        options: Options,
    ) -> None:
        self.input_file, self.pointer, self.columns = input_file, pointer, columns
        self.masks = options.masks != "ignore" and columns.dimensions == 2
        self.bytes = span[1] - span[0]
        self.listing = json.RecordList[CocoRecord](input_file, span, pointer)
        self.decoder = PieceDecoder(columns.role, masks=columns.masks is not None)
        self.texts = json.RecordTexts(input_file.data)
        self.problems: list[Problem] = []
        self.n_dropped = 0
        self.n_unscored = 0
        self.n_masks = 0

    @property
    def n(self) -> int:
        """The number of records."""
        return self.listing.n

    def read(self) -> None:
        """Read all records."""
        while not self.listing.is_over:
            self.input_file.advance(self.listing.at)
            if not self._scan():
                try:
                    self._decode()
                except Unreadable:
                    self._read_carefully()

    def part(self, delivery: Delivery, notes: Sequence[str]) -> ObjectPart:
        """Return what was read."""
        # The source outlives the reading: it must not keep the columns and the index of images.
        pointer = self.pointer
        source = Source(
            self.input_file.file, lambda place, field: f"{pointer}/{place}/{field}", self.texts
        )
        masks = self.columns.masks
        mask_words = mask_notes(self.n_masks) if masks is None else masks.notes()
        return ObjectPart(
            delivery,
            source,
            self.columns.findings(),
            self.problems,
            [*notes, *mask_words],
            self.n_dropped,
        )

    def _scan(self) -> bool:
        """Take plain records by compiled code; return whether there were any."""
        # Segmentations are only read by msgspec: once there are some, nothing is scanned.
        if not self.columns.can_scan or self.decoder.has_masks:
            return False
        first = self.listing.n
        scan = self.listing.scan(self.columns.required_keys)
        if scan is None:
            return False
        records, start, stop = scan
        self.columns.expect(len(records.keys), stop - start, self.bytes)
        self.columns.add_scanned(records, first)
        self.texts.add(first, start, stop)
        return True

    def _decode(self) -> None:
        """Take a piece by msgspec."""
        first = self.listing.n
        piece, decoded, following = self.listing.decode(self.decoder)
        records, plain = check_records(piece, decoded, self.decoder)
        self.columns.expect(len(records), piece.stop - piece.start, self.bytes)
        self.columns.add(records, np.arange(first, first + len(records)))
        if not plain and self.columns.masks is None:
            self.n_masks += count_masks(piece.text)
        self.listing.advance(len(records), following)
        self.texts.add(first, piece.start, piece.stop)

    def _read_carefully(self) -> None:
        """Take a piece record by record."""
        first, start = self.listing.n, self.listing.at
        records = self.listing.read_carefully()
        rows: list[CocoRecord] = []
        places = []
        for place, record in enumerate(records, first):
            row = self._row(record)
            if row is not None:
                rows.append(row)
                places.append(place)
        self.columns.add(rows, np.array(places, np.int64))
        if self.columns.masks is None:
            self.n_masks += count_masks(self.input_file.data[start : self.listing.at])
        self.texts.add(first, start, self.listing.at, records)

    def _row(self, record: Record) -> MaskedAnnotation | None:
        """Return a sound record as a row; None, and its problems are kept, if it is broken."""
        role, dimensions = self.columns.role, self.columns.dimensions
        problems = check_object(record, role, dimensions, masks=self.masks)
        self.n_unscored += any(problem.rule == "score-missing" for problem in problems)
        if problems:
            # Strict reading shows all problems; a record counts under its first one.
            self.problems += problems
            self.n_dropped += 1
            return None
        return as_annotation(record.value, role, masks=self.masks)


def _reference_columns(
    input_file: InputFile,
    images: ImageList,
    categories: Categories,
    options: Options,
    dimensions: int,
) -> ObjectColumns:
    return ObjectColumns(
        "references",
        dict(zip(images.keys, range(len(images.keys)))),
        categories.index,
        as_text=options.ids_as_strings,
        dimensions=dimensions,
        box_format=options.box_format or "xywh",
        masks=_mask_columns(input_file, images.size, dimensions, options),
        obey_ignore=options.coco_ignore,
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
    input_file: InputFile,
    index: ReferenceIndex,
    images: Mapping[Key, int],
    own: Categories | None,
    options: Options,
) -> ObjectColumns:
    """Return the collector of predictions.

    ``images`` are those of the references by the ids of the predictions, ``own`` the categories of
    their document, if any.
    """
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
        keys_in_records = _keys_in_records(input_file)
        if keys_in_records and "category_id" not in keys_in_records:
            raise InputError(
                "COCO results, with image_id, category_id, bbox and score",
                rule="missing-key",
                file=input_file.file,
                value=keys_in_records,
                hint="rows with names of images and classes have boxes as x0, y0, x1, y1, or as "
                "bbox: [x, y, w, h]",
            )
        raise InputError(
            "categories with names",
            rule="unknown-category",
            file=input_file.file,
            hint="COCO results number their categories, these references name them: write the "
            "predictions as a COCO document with categories, or as a table",
        )
    return ObjectColumns(
        "predictions",
        images,
        classes,
        names=names,
        known_names=index.classes,
        as_text=as_text,
        dimensions=index.dimensions,
        box_format=options.box_format or "xywh",
        masks=_mask_columns(input_file, index.size, index.dimensions, options),
    )


def _reference_file(
    input_file: InputFile, images: ImageList, categories: Categories, objects: ObjectList
) -> ReferenceFile:
    columns = objects.columns
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
    part = objects.part(delivery, [*images.notes, *columns.ignore_notes()])
    part = replace(part, notes=[*part.notes, *area_notes(delivery)])
    if delivery.masks is not None and columns.masks is not None:
        # Masks tell the sizes that the images do not state.
        sides = columns.masks.size
        images = replace(images, size=np.hstack([sides, images.size[:, 2:]]))
    return ReferenceFile(images, categories.classes, categories.index, part, "coco")


def _listed(input_file: InputFile, outline: Outline, name: str) -> list[dict[str, Any]]:
    """Return the records of a list of images or categories.

    A broken one is never set aside: that would change what is counted.
    """
    decoder = msgspec.json.Decoder(list[dict[str, Any]])
    listing = json.RecordList[dict[str, Any]](input_file, outline.spans[name], f"/{name}")
    values: list[dict[str, Any]] = []
    errors = []
    while not listing.is_over:
        input_file.advance(listing.at)
        try:
            piece, records, following = listing.decode(decoder)
            json.check_listed(piece, records)
        except Unreadable:
            for record in listing.read_carefully():
                problems = check_listed_record(record)
                errors += [problem.as_error(input_file.file) for problem in problems]
                values.append(record.value)
        else:
            listing.advance(len(records), following)
            values += records
    raise_problems(errors)
    return values


def require_references(input_file: InputFile, is_list: bool, keys: list[str]) -> None:
    """Refuse a document that cannot be references."""
    if is_list:
        keys_in_records = _keys_in_records(input_file)
        value = "a list"
        if keys_in_records:
            value += f" of records with {', '.join(keys_in_records)}"
        hint = "a list of results holds predictions: are the two files swapped?"
        # Targets of torchvision and torchmetrics have no scores, and do not name their images.
        if "boxes" in keys_in_records and not {"score", "scores"} & set(keys_in_records):
            hint = "this list has no names of images: write the references as COCO, or as a table"
        raise InputError(
            "a COCO document with images, annotations and categories",
            rule="wrong-role",
            file=input_file.file,
            value=value,
            hint=hint,
        )
    missing = [name for name in ("images", "annotations", "categories") if name not in keys]
    if missing:
        hint = ""
        if VIA in input_file.data[:HEAD]:
            hint = "a project of the VGG Image Annotator: export its annotations as COCO there"
        if "annotations" in keys and search(SCORED, input_file.data, 0, len(input_file.data)):
            hint = "annotations with scores are predictions: are the two files swapped?"
        raise InputError(
            f"the keys images, annotations and categories ({', '.join(missing)} missing)",
            rule="wrong-role",
            file=input_file.file,
            value=keys[:20],
            hint=hint,
        )


def _keys_in_records(input_file: InputFile) -> list[str]:
    """Return the keys at the beginning of a file."""
    return [key.decode("ascii") for key in dict.fromkeys(KEY.findall(input_file.data[:HEAD]))]


def no_predictions_error(input_file: InputFile, keys: list[str]) -> InputError:
    """Return the error for a document that cannot be predictions."""
    # The columns of a table, which is an object of objects as pandas writes it by default.
    is_table = "score" in keys or "confidence" in keys
    hint = 'a table of pandas is read if it was written with to_json(orient="records")'
    return InputError(
        "a COCO results list, or a document with scored annotations",
        rule="wrong-role",
        file=input_file.file,
        value=keys[:20],
        hint=hint if is_table else "",
    )


def no_scores_error(input_file: InputFile, outline: Outline) -> InputError:
    """Return the error for objects without any score."""
    if outline.is_list:
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
        value=list(outline.spans)[:20],
        hint="these look like references: are the two files swapped?",
    )


def subset_notes(
    input_file: InputFile,
    declared: Sequence[Key],
    images: Mapping[Key, int],
    index: ReferenceIndex,
    options: Options,
) -> list[str]:
    """Check that predictions that list their images list all of them.

    An image that the model never saw is not a miss, so strict reading refuses a shorter list.
    """
    listed = {images[key] for key in declared if key in images}
    # In the order of the references, so that the message names the first of them.
    missing = [key for key, k in index.images.items() if k not in listed]
    if not missing:
        return []
    message = (
        f"the predictions list {len(declared)} images, "
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
