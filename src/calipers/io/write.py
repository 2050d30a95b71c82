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
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from calipers import errors
from calipers.arguments import names_arguments
from calipers.arrays import F64, I64, Column
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
from calipers.io.tables.columns import BOX_LAYOUTS, BOX_NAMES, IMAGE_LEVEL, OBJECTS, SIZES, SPACINGS
from calipers.io.tables.table import delimited
from calipers.kernels import coco_rle
from calipers.results.files import write_atomically

SUFFIXES = {".json": "coco", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
TABLES = ("csv", "tsv", "parquet")
MASKLESS = {"coco": "masks of pictures only, not of volumes"}
# At most 16 digits without leading zeros: such a text comes back as the same number.
WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,15})")

SIDES = ("width", "height", "depth")


@names_arguments
def write(
    cohort: Cohort,
    path: str | PathLike[str],
    *,
    what: str = "references",
    format: str | None = None,
    box_format: str | None = None,
    integer_ids: bool = False,
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
        write_atomically(target, document(cohort, table, layout, integer_ids=integer_ids))
        return
    columns = _columns(cohort, table, box_format or "xyxy")
    if file_format == "parquet":
        from calipers.io.tables.table import write_table

        write_table(target, columns)
        return
    write_atomically(target, delimited(columns, "\t" if file_format == "tsv" else ","))


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
    cohort: Cohort, table: Objects, box_format: str, *, integer_ids: bool = False
) -> bytes:
    """Return a COCO document; categories are numbered from 1 in the order of the classes."""
    keys = image_keys(cohort.images.ids)
    # Ids that are whole numbers already stay: the images have them elsewhere, too.
    is_numbered = integer_ids and bool(keys) and isinstance(keys[0], str)
    if is_numbered:
        keys = list(range(1, cohort.n_images + 1))
    contents: dict[str, Any] = {
        "info": {"description": f"written by Calipers, bbox as {box_format}"}
    }
    if isinstance(table, References):
        contents["images"] = _images(cohort, keys)
        if is_numbered:
            for record, name in zip(contents["images"], cohort.images.ids):
                record["source_id" if "file_name" in record else "file_name"] = name
    boxes = delivered_boxes(cohort, table, box_format).tolist()
    owner, label = table.image.tolist(), table.label.tolist()
    records: list[dict[str, Any]] = [
        {"id": k + 1, "image_id": keys[image], "category_id": code + 1, "bbox": box}
        for k, (image, code, box) in enumerate(zip(owner, label, boxes))
    ]
    details = {**_details(table), **_segmentations(table)}
    for name, column in details.items():
        for record, value in zip(records, column):
            record[name] = value
    # Their area is that of the mask; with a box, reading would take that of the box.
    for row in _boxes_of_masks(table).tolist():
        del records[row]["bbox"]
    if integer_ids and isinstance(table, Predictions):
        for record in records:
            del record["id"]
        return msgspec.json.encode(records)
    contents["annotations"] = records
    contents["categories"] = [{"id": k + 1, "name": name} for k, name in enumerate(cohort.classes)]
    return msgspec.json.encode(contents)


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


def _images(cohort: Cohort, keys: list[int] | list[str]) -> list[dict[str, Any]]:
    images = cohort.images
    records: list[dict[str, Any]] = [{"id": key} for key in keys]
    for k, name in enumerate(SIDES[: images.size.shape[1]]):
        for record, value in zip(records, images.size[:, k].tolist()):
            if value == value:
                # Pixels are whole numbers in COCO files; 512.0 would confuse other readers.
                record[name] = int(value) if value.is_integer() else value
    for record, spacing in zip(records, images.spacing):
        if np.isfinite(spacing).all():
            record["spacing"] = spacing.tolist()
    for name, column in images.groups.items():
        word = name if name not in ("id", "spacing", *SIDES) else f"group_{name}"
        for record, value in zip(records, column.tolist()):
            record[word] = value
    return records


def delivered_boxes(cohort: Cohort, table: Objects, box_format: str) -> F64:
    """Return the boxes of a table in a format, so that reading gives the same corners."""
    sizes = cohort.images.size[table.image]
    boxes = from_corners(table.boxes, box_format, sizes)
    if box_format != "xywh":
        return boxes
    d = table.dimensions
    # x1 - x0 is rounded, so x0 + w may miss x1 by a bit: one of the neighbours of w may hit it.
    for towards in (np.inf, -np.inf):
        off = to_corners(boxes, box_format)[0][:, d:] != table.boxes[:, d:]
        moved = np.where(off, np.nextafter(boxes[:, d:], towards), boxes[:, d:])
        better = (boxes[:, :d] + moved) == table.boxes[:, d:]
        boxes[:, d:] = np.where(off & better, moved, boxes[:, d:])
    return boxes


def image_keys(ids: Sequence[str]) -> list[int] | list[str]:
    """Return ids as whole numbers if every one of them is written like one, else as text."""
    if all(WHOLE.fullmatch(name) and name != "-0" and abs(int(name)) <= 1 << 53 for name in ids):
        return [int(name) for name in ids]
    return list(ids)


def _columns(cohort: Cohort, table: Objects, box_format: str) -> dict[str, list[Any]]:
    """Return one row per object, one per image without objects, one per class without objects."""
    layout = box_format.split("-")[0]
    names = next(
        box for kind, box in BOX_LAYOUTS if kind == layout and len(box) == 2 * table.dimensions
    )
    boxes = delivered_boxes(cohort, table, box_format)
    owner = table.image.tolist()
    if isinstance(table, References):
        # A row with nothing but an image declares one without objects, so that it is counted.
        owner += np.flatnonzero(np.diff(table.offsets) == 0).tolist()
    undeclared = _undeclared(cohort, table)
    pad = [None] * (len(owner) - len(table))
    tail = [None] * len(undeclared)
    images = [cohort.images.ids[k] for k in owner]
    classes = [cohort.classes[k] for k in table.label.tolist()]
    columns: dict[str, list[Any]] = {
        "image": images + [""] * len(tail),
        "class": classes + [""] * len(pad) + undeclared,
    }
    for k, name in enumerate(names):
        columns[name] = [*boxes[:, k].tolist(), *pad, *tail]
    of_objects = _object_columns(table)
    for name, column in [*of_objects.items(), *_free_names(table.facts, columns, of_objects)]:
        columns[name] = [*column.tolist(), *pad, *tail]
    if isinstance(table, References):
        of_images = _image_columns(cohort)
        groups = _free_names(cohort.images.groups, columns, of_images)
        for name, column in [*of_images.items(), *groups]:
            columns[name] = [*column[owner].tolist(), *tail]
    return _in_image_order(columns, owner, len(tail))


def _undeclared(cohort: Cohort, table: Objects) -> list[str]:
    """Return all classes if the objects alone would not give the same list in the same order."""
    names = [cohort.classes[k] for k in np.unique(table.label).tolist()]
    if not isinstance(table, References) or tuple(sorted(names)) == cohort.classes:
        return []
    return list(cohort.classes)


def _object_columns(table: Objects) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {}
    if isinstance(table, Predictions):
        columns["score"] = table.score
    if isinstance(table, References):
        columns["area"] = table.area
        if table.ignore.any():
            columns["ignore"] = table.ignore.astype(np.int8)
        if table.crowd.any():
            columns["crowd"] = table.crowd.astype(np.int8)
    return columns


def _image_columns(cohort: Cohort) -> dict[str, NDArray[Any]]:
    images = cohort.images
    columns: dict[str, NDArray[Any]] = {}
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


def _in_image_order(
    columns: dict[str, list[Any]], owner: list[int], n_tail: int
) -> dict[str, list[Any]]:
    # Stable: within an image, objects keep their order, which decides between equal scores.
    order = np.argsort(np.array(owner, np.int64), kind="stable").tolist()
    order += range(len(owner), len(owner) + n_tail)
    for name, column in columns.items():
        columns[name] = [column[k] for k in order]
    return columns
