# SPDX-License-Identifier: Apache-2.0
"""`write`: references or one model's predictions back to a file that `read` understands.

A `Cohort` comes in, a file goes out, whole or not at all: COCO JSON (`document`), delimited text or
parquet; or a folder of YOLO or Pascal VOC (`calipers.io.annotations.export`). COCO JSON and parquet
are lossless for ids, classes, boxes and scores. Delimited text is
too, but its group columns come back as text. ``calipers convert`` and users call it; `left_out`
says what a format cannot hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from calipers import errors
from calipers.arguments import names_arguments
from calipers.arrays import F64, I64, Column, Flags
from calipers.data.cohort import Cohort
from calipers.data.objects import (
    BOX_FORMATS,
    Objects,
    Predictions,
    References,
    from_corners,
    to_corners,
)
from calipers.errors import UsageError, did_you_mean
from calipers.io.annotations.export import FOLDER_FORMATS, folder_files, write_folder
from calipers.io.source import Progress
from calipers.io.tables.columns import BOX_LAYOUTS, BOX_NAMES, IMAGE_LEVEL, OBJECTS, SIZES, SPACINGS
from calipers.io.tables.table import delimited_blocks, write_blocks
from calipers.kernels import coco_rle
from calipers.results.files import write_pieces

SUFFIXES = {".json": "coco", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
TABLES = ("csv", "tsv", "parquet")
MASKLESS = {"coco": "masks of pictures only, not of volumes"}
# At most 16 digits without leading zeros: such a text comes back as the same number.
WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,15})")

SIDES = ("width", "height", "depth")
BLOCK = 1 << 16  # objects, images or rows that are written at a time; a divisor of `ROW_GROUP`


@names_arguments
def write(
    cohort: Cohort,
    path: str | PathLike[str],
    *,
    what: str = "references",
    format: str | None = None,
    box_format: str | None = None,
    integer_ids: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write the references, or the predictions of one model, whole or not at all.

    Parameters
    ----------
    what
        ``"references"`` or the name of a model.
    format
        ``"coco"``, ``"csv"``, ``"tsv"`` or ``"parquet"``; None: by the suffix of the path.
        ``"yolo"`` and ``"voc"`` (references only) make a folder, which must be new or empty.
    box_format
        One of `calipers.data.objects.BOX_FORMATS`; None: xywh for COCO, xyxy for tables. Only those
        two come back exactly; pass the same ``box_format`` to `read` if it is a normalised or
        inclusive one.
    integer_ids
        Of COCO JSON: number the images from 1, and put their ids into ``file_name`` (into
        ``source_id`` if they have file names). Many tools read nothing else. Predictions become a
        list of results with the numbers of references that were written so.
    progress
        Called with ("writing", objects done, objects in all).

    Notes
    -----
    A width ``w`` is chosen so that ``x + w`` gives the second corner again, to the last bit
    wherever such a number exists (it may not when a box begins left of the image).

    COCO JSON also holds the masks of pictures, as compressed run lengths; tables hold boxes only.
    `left_out` says what a format cannot hold.

    Predictions in COCO form are a document with the names of its categories, not a bare list: a
    cohort does not keep the numbers that categories had in the file it came from, and wrong numbers
    would be read without complaint.
    """
    target = Path(errors.path("path", path))
    file_format = written_format(target, format)
    if box_format is not None and box_format not in BOX_FORMATS:
        raise UsageError(f"no box format {box_format!r}; {did_you_mean(box_format, BOX_FORMATS)}")
    if what == "references" and what in cohort.models:
        raise UsageError(
            "the predictions are called 'references', too: read them under another name, such as "
            "ours=FILE, or predictions={'ours': FILE}"
        )
    table = cohort.references if what == "references" else cohort.predictions(what)
    if integer_ids and file_format != "coco":
        raise UsageError("integer_ids is for COCO JSON: other formats hold ids as text")
    if file_format in FOLDER_FORMATS:
        write_folder(target, folder_files(cohort, table, file_format, box_format))
        return
    if file_format == "coco":
        layout = box_format or "xywh"
        write_pieces(target, document(cohort, table, layout, integer_ids, progress))
        return
    rows = TableRows(cohort, table, box_format or "xyxy", progress)
    if file_format == "parquet":
        write_blocks(target, rows.blocks(BLOCK), rows.type_of)
        return
    delimiter = "\t" if file_format == "tsv" else ","
    write_pieces(target, map(str.encode, delimited_blocks(rows.blocks(BLOCK), delimiter)))


def written_format(target: Path, format: str | None) -> str:
    """Return the format that was named, else that of the suffix."""
    file_format = format or SUFFIXES.get(target.suffix.lower(), "")
    names = [*SUFFIXES.values(), *FOLDER_FORMATS]
    if file_format not in names:
        raise UsageError(
            f"no format {file_format or target.suffix!r}; " + did_you_mean(file_format, names)
        )
    return file_format


def left_out(table: Objects, format: str) -> list[str]:
    """Say which shapes and columns of a table a format cannot hold."""
    n = len(table)
    notes = []
    if table.masks is not None and n and (format != "coco" or table.masks.dimensions != 2):
        notes.append(
            f"masks of {n} objects are not written: {format} holds "
            + MASKLESS.get(format, "boxes only")
        )
    if table.points is not None and n:
        notes.append(f"points of {n} objects are not written: {format} holds no points")
    if table.facts and n and format not in TABLES:
        notes.append(f"columns of objects are not written: {', '.join(table.facts)}")
    return notes


def other_order(cohort: Cohort, format: str, *, integer_ids: bool = False) -> list[str]:
    """Say that references come back in another order of images: between equal scores it decides
    where a protocol goes by the order of the input, as pycocotools does.
    """
    ids: Sequence[int | str] = cohort.images.ids
    if format in TABLES:
        return []
    if format == "coco":
        ids = image_keys(cohort.images.ids)
        if integer_ids and isinstance(next(iter(ids), 0), str):
            return []  # they are numbered as they come
    if list(ids) == sorted(ids):
        return []
    return [
        f"{format} lists images in the order of their ids: with equal scores, average precision of "
        "preset coco may differ"
    ]


def document(
    cohort: Cohort,
    table: Objects,
    box_format: str,
    integer_ids: bool = False,
    progress: Progress | None = None,
) -> Iterator[bytes]:
    """Yield a COCO document piece by piece; categories are numbered from 1 in the order of the
    classes.

    The records of millions of objects, all at once, would take ten times the memory of the table.
    """
    keys = image_keys(cohort.images.ids)
    # Ids that are whole numbers already stay: the images have them elsewhere, too.
    is_numbered = integer_ids and bool(keys) and isinstance(keys[0], str)
    if is_numbered:
        keys = list(range(1, cohort.n_images + 1))
    blocks = _record_blocks(cohort, table, box_format, keys, progress)
    if integer_ids and isinstance(table, Predictions):
        yield from _list_pieces(map(_without_ids, blocks))
        return
    info = {"description": f"written by Calipers, bbox as {box_format}"}
    yield b'{"info":' + msgspec.json.encode(info)
    if isinstance(table, References):
        yield b',"images":'
        yield from _list_pieces(_image_blocks(cohort, keys, is_numbered=is_numbered))
    yield b',"annotations":'
    yield from _list_pieces(blocks)
    categories = [{"id": k + 1, "name": name} for k, name in enumerate(cohort.classes)]
    yield b',"categories":' + msgspec.json.encode(categories) + b"}"


def _list_pieces(blocks: Iterable[list[dict[str, Any]]]) -> Iterator[bytes]:
    """Yield the text of a list of records that comes block by block."""
    yield b"["
    is_first = True
    for records in blocks:
        if records:
            yield (b"" if is_first else b",") + msgspec.json.encode(records)[1:-1]
            is_first = False
    yield b"]"


def _record_blocks(
    cohort: Cohort,
    table: Objects,
    box_format: str,
    keys: list[int] | list[str],
    progress: Progress | None,
) -> Iterator[list[dict[str, Any]]]:
    """Yield the records of the objects, those of some images at a time."""
    if progress is not None:
        progress("writing", 0, len(table))
    for start, stop in _spans(table.offsets):
        part, first = table.span(start, stop), int(table.offsets[start])
        image = start + part.image
        boxes = delivered_boxes(part.boxes, cohort.images.size[image], box_format).tolist()
        records: list[dict[str, Any]] = [
            {"id": k + 1, "image_id": keys[image], "category_id": code + 1, "bbox": box}
            for k, (image, code, box) in enumerate(
                zip(image.tolist(), part.label.tolist(), boxes), first
            )
        ]
        for name, column in {**_details(part), **_segmentations(part)}.items():
            for record, value in zip(records, column):
                record[name] = value
        # Their area is that of the mask; with a box, reading would take that of the box.
        for row in _boxes_of_masks(part).tolist():
            del records[row]["bbox"]
        yield records
        if progress is not None:
            progress("writing", first + len(part), len(table))


def _without_ids(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for record in records:
        del record["id"]
    return records


def _spans(offsets: I64) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of images that have about `BLOCK` objects together, or one more image."""
    start, n_images = 0, len(offsets) - 1
    while start < n_images:
        stop = int(np.searchsorted(offsets, offsets[start] + BLOCK, side="right")) - 1
        stop = min(max(stop, start + 1), n_images)
        yield start, stop
        start = stop


def _details(table: Objects) -> Mapping[str, list[Any]]:
    if isinstance(table, Predictions):
        return {"score": table.score.tolist()}
    assert isinstance(table, References)
    return {
        "area": table.area.tolist(),
        "iscrowd": table.crowd.astype(int).tolist(),
        # Crowds are ignored anyway, so the flag only says what the other one does not.
        "ignore": (table.ignore & ~table.crowd).astype(int).tolist(),
    }


def _segmentations(table: Objects) -> Mapping[str, list[Any]]:
    """Return the masks as compressed run lengths; COCO has no masks of volumes."""
    masks = table.masks
    if masks is None or masks.dimensions != 2:
        return {}
    counts = coco_rle.counts_from_rows(masks.offsets, masks.start, masks.length, masks.size)
    offsets, characters = coco_rle.encode_text(*counts)
    text, ends = characters.tobytes().decode("ascii"), offsets.tolist()
    sizes = masks.size[:, ::-1].tolist()
    run_lengths = [{"size": size, "counts": text[a:b]} for size, a, b in zip(sizes, ends, ends[1:])]
    return {"segmentation": run_lengths}


def _boxes_of_masks(table: Objects) -> I64:
    """Return the predictions whose box and area are those of their mask.

    Written without a box they are read back the same.
    """
    masks = table.masks
    if not isinstance(table, Predictions) or masks is None or masks.dimensions != 2:
        return np.zeros(0, np.int64)
    same = (table.boxes == masks.boxes()).all(axis=1)
    return np.flatnonzero(same & (table.area == masks.voxels) & (table.area != table.extent))


def _image_blocks(
    cohort: Cohort, keys: list[int] | list[str], *, is_numbered: bool
) -> Iterator[list[dict[str, Any]]]:
    """Yield the records of the images, some at a time; numbered ones keep their ids as names."""
    for start in range(0, cohort.n_images, BLOCK):
        some = slice(start, start + BLOCK)
        records = _images(cohort, keys[some], some)
        if is_numbered:
            for record, name in zip(records, cohort.images.ids[some]):
                record["source_id" if "file_name" in record else "file_name"] = name
        yield records


def _images(cohort: Cohort, keys: list[int] | list[str], some: slice) -> list[dict[str, Any]]:
    images = cohort.images
    records: list[dict[str, Any]] = [{"id": key} for key in keys]
    for k, name in enumerate(SIDES[: images.size.shape[1]]):
        for record, value in zip(records, images.size[some, k].tolist()):
            if value == value:
                # Pixels are whole numbers in COCO files; 512.0 would confuse other readers.
                record[name] = int(value) if value.is_integer() else value
    for record, spacing in zip(records, images.spacing[some]):
        if np.isfinite(spacing).all():
            record["spacing"] = spacing.tolist()
    for name, column in images.groups.items():
        word = name if name not in ("id", "spacing", *SIDES) else f"group_{name}"
        for record, value in zip(records, column[some].tolist()):
            record[word] = value
    return records


def delivered_boxes(corners: F64, sizes: F64, box_format: str) -> F64:
    """Return boxes in a format, so that reading gives the same corners; ``sizes`` are those of
    their images.
    """
    boxes = from_corners(corners, box_format, sizes)
    if box_format != "xywh":
        return boxes
    d = corners.shape[1] // 2
    # x1 - x0 is rounded, so x0 + w may miss x1 by a bit: one of the neighbours of w may hit it.
    for towards in (np.inf, -np.inf):
        off = to_corners(boxes, box_format)[0][:, d:] != corners[:, d:]
        moved = np.where(off, np.nextafter(boxes[:, d:], towards), boxes[:, d:])
        better = (boxes[:, :d] + moved) == corners[:, d:]
        boxes[:, d:] = np.where(off & better, moved, boxes[:, d:])
    return boxes


def image_keys(ids: Sequence[str]) -> list[int] | list[str]:
    """Return ids as whole numbers if every one of them is written like one, else as text."""
    if all(WHOLE.fullmatch(name) and name != "-0" and abs(int(name)) <= 1 << 53 for name in ids):
        return [int(name) for name in ids]
    return list(ids)


class TableRows:
    """A table in the order of images: one row per object, one per image without objects, one per
    class without objects.

    Its columns are made a block of rows at a time: cells of Python take ten times the room of the
    numbers that they are made from.
    """

    def __init__(
        self, cohort: Cohort, table: Objects, box_format: str, progress: Progress | None = None
    ) -> None:
        self.cohort, self.table, self.box_format = cohort, table, box_format
        self.progress = progress
        layout, sides = box_format.split("-")[0], 2 * table.dimensions
        self.box_names = next(
            names for kind, names in BOX_LAYOUTS if kind == layout and len(names) == sides
        )
        self.owner = table.image
        if isinstance(table, References):
            # A row with nothing but an image declares one without objects, so that it is counted.
            silent = np.flatnonzero(np.diff(table.offsets) == 0)
            self.owner = np.concatenate([self.owner, silent])
        self.undeclared = _undeclared(cohort, table)
        # Stable: within an image, objects keep their order, which decides between equal scores.
        order = np.argsort(self.owner, kind="stable")
        tail = np.arange(len(order), len(order) + len(self.undeclared))
        self.order = np.concatenate([order, tail])
        self.of_objects, self.of_images = self._further_columns()

    def _further_columns(self) -> tuple[dict[str, Column], dict[str, Column]]:
        """Return the columns of objects and of images beside image, class and box, by the names
        that they have in the file.
        """
        of_objects, names = _object_columns(self.table), dict.fromkeys(self._first_names())
        for name, column in _free_names(self.table.facts, names, of_objects):
            of_objects[name] = column
        if not isinstance(self.table, References):
            return of_objects, {}
        of_images = _image_columns(self.cohort)
        groups = self.cohort.images.groups
        for name, column in _free_names(groups, {**names, **of_objects}, of_images):
            of_images[name] = column
        return of_objects, of_images

    def _first_names(self) -> list[str]:
        return ["image", "class", *self.box_names]

    def blocks(self, size: int) -> Iterator[dict[str, list[Any]]]:
        """Yield columns of so many rows at a time; at least one block, which may be empty."""
        n = len(self.order)
        if self.progress is not None:
            self.progress("writing", 0, n)
        for start in range(0, max(n, 1), size):
            yield self._columns(self.order[start : start + size])
            if self.progress is not None:
                self.progress("writing", min(start + size, n), n)

    def _columns(self, rows: I64) -> dict[str, list[Any]]:
        """Return some rows as columns."""
        table, images = self.table, self.cohort.images
        is_object, has_image = rows < len(table), rows < len(self.owner)
        objects, image = rows[is_object], self.owner[rows[has_image]]
        boxes = delivered_boxes(
            table.boxes[objects], images.size[self.owner[objects]], self.box_format
        )
        classes = _spread(
            [self.cohort.classes[k] for k in table.label[objects].tolist()], is_object, ""
        )
        for k in np.flatnonzero(~has_image).tolist():
            classes[k] = self.undeclared[int(rows[k]) - len(self.owner)]
        columns: dict[str, list[Any]] = {
            "image": _spread([images.ids[k] for k in image.tolist()], has_image, ""),
            "class": classes,
        }
        for k, name in enumerate(self.box_names):
            columns[name] = _spread(boxes[:, k].tolist(), is_object)
        for name, column in self.of_objects.items():
            columns[name] = _spread(column[objects].tolist(), is_object)
        for name, column in self.of_images.items():
            columns[name] = _spread(column[image].tolist(), has_image)
        return columns

    def type_of(self, name: str) -> NDArray[Any] | None:
        """Return entries that have the type of a column in all blocks; None: it is text."""
        if name in ("image", "class"):
            return None
        of_images = self.of_images.get(name)
        if of_images is not None:
            return of_images[np.unique(self.owner)]
        return self.of_objects.get(name, self.table.extent)


def _spread(values: list[Any], where: Flags, missing: Any = None) -> list[Any]:
    """Return the values at the places ``where``, and something else at all others."""
    if len(values) == len(where):
        return values
    cells = [missing] * len(where)
    for k, value in zip(np.flatnonzero(where).tolist(), values):
        cells[k] = value
    return cells


def _undeclared(cohort: Cohort, table: Objects) -> list[str]:
    """Return all classes if the objects alone would not give the same list in the same order."""
    names = [cohort.classes[k] for k in np.unique(table.label).tolist()]
    if not isinstance(table, References) or tuple(sorted(names)) == cohort.classes:
        return []
    return list(cohort.classes)


def _object_columns(table: Objects) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    if isinstance(table, Predictions):
        columns["score"] = table.score
    if isinstance(table, References):
        columns["area"] = table.area
        if table.ignore.any():
            columns["ignore"] = table.ignore.astype(np.int8)
        if table.crowd.any():
            columns["crowd"] = table.crowd.astype(np.int8)
    return columns


def _image_columns(cohort: Cohort) -> dict[str, Column]:
    images = cohort.images
    columns: dict[str, Column] = {}
    for names, values in ((SIZES, images.size), (SPACINGS, images.spacing)):
        for name, column in zip(names, values.T):
            if np.isfinite(column).any():
                columns[name] = column
    return columns


def _free_names(
    columns: Mapping[str, Column], *others: Mapping[str, Any]
) -> list[tuple[str, Column]]:
    """Return columns under names that no reader mistakes: a group ``score`` is ``group_score``.

    A reader takes the first of several names for a column, so ``file_name`` beside ``image`` stays
    what it is.
    """
    names_in_file = set().union(*others)
    # A column that is ours already (patient, centre) keeps its name: readers know what it means.
    ours = {name for name in IMAGE_LEVEL if name in columns and name not in names_in_file}
    reserved = set(BOX_NAMES)
    for meaning, spec in OBJECTS.items():
        if meaning not in names_in_file | ours:
            reserved.update(spec.aliases)
    reserved.update(name.lower() for name in names_in_file | ours)
    renamed_columns = []
    for name, column in columns.items():
        word = name
        while word.lower() in reserved and word not in ours:
            word = f"group_{word}"
        reserved.add(word.lower())
        renamed_columns.append((word, np.asarray(column)))
    return renamed_columns
