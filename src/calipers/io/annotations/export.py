# SPDX-License-Identifier: Apache-2.0
"""Write references or predictions as a YOLO folder, and references as Pascal VOC XML.

`calipers.io.write` calls `folder_files` with a cohort and gets the files of the folder;
`write_folder` writes them, whole or not at all. Images are named like their pictures where the
cohort knows these (``file_name``), because the programs that read such folders look for pictures of
the same name, else by their ids. `lost_in_folder` says what the formats cannot hold.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.data.objects import Objects, Predictions, References, from_corners
from calipers.errors import InputError, UsageError
from calipers.io.annotations.annotation_list import without_suffix
from calipers.io.annotations.yolo import SIZES_FILE
from calipers.io.tables.table import cell, delimited
from calipers.results.files import STAGE, check_depth, new_folder

FOLDER_FORMATS = ("yolo", "voc")
FORMATS_OF_BOXES = {"yolo": "cxcywh-normalised", "voc": "xyxy-inclusive"}
LONGEST_PART = 200  # characters: with a suffix this is a name on every system


def folder_files(
    cohort: Cohort, table: Objects, format: str, box_format: str | None
) -> dict[str, str]:
    """Return the files of a folder by their paths below it.

    Raises
    ------
    InputError
        Names of images or classes, or sizes, cannot be written in the format.
    UsageError
        The format holds no predictions, or no other box format.
    """
    own_format = FORMATS_OF_BOXES[format]
    if box_format not in (None, own_format):
        raise UsageError(f"{format} holds boxes as {own_format}, not as {box_format}")
    if table.dimensions != 2:
        raise InputError("2D boxes", rule="box-shape", value=f"{table.dimensions}D boxes")
    if format == "voc" and isinstance(table, Predictions):
        raise UsageError("voc holds references only; write predictions as yolo, coco or csv")
    sizes = cohort.images.size[table.image]
    if format == "yolo":
        _check_sizes(cohort, table, sizes)
    boxes = from_corners(table.boxes, own_format, sizes)
    names = _image_names(cohort)
    if format == "yolo":
        return _yolo_files(cohort, table, boxes, names)
    assert isinstance(table, References)
    return _voc_files(cohort, table, boxes, names)


def lost_in_folder(cohort: Cohort, table: Objects, format: str) -> list[str]:
    """Say which facts of a cohort a format of folders cannot hold, masks and points apart."""
    notes = []
    if format in FOLDER_FORMATS and isinstance(table, References):
        n_ignored, n_crowds = int(table.ignore.sum()), int(table.crowd.sum())
        if format == "yolo" and n_ignored:
            notes.append(f"{n_ignored} ignored references are written like others, and will count")
        if format == "voc" and n_crowds:
            notes.append(f"{n_crowds} crowds are written as difficult objects")
        n_unused = len(cohort.classes) - len(np.unique(table.label))
        if format == "voc" and n_unused:
            notes.append(f"{n_unused} classes without objects are not written: voc has no list")
        n_areas = int((~np.isclose(table.area, table.extent, rtol=1e-6, atol=0)).sum())
        if n_areas:
            notes.append(
                f"{n_areas} declared areas are not written: size cuts will go by the areas of boxes"
            )
        groups = [name for name in cohort.images.groups if name != "file_name"]
        if np.isfinite(cohort.images.spacing).any():
            groups.append("spacing")
        if groups:
            notes.append(f"columns of images are not written: {', '.join(groups)}")
    return notes


def write_folder(target: Path, files: Mapping[str, str]) -> None:
    """Write a folder whole or not at all; it must be new or empty."""
    check_depth(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A rename is atomic only within one file system, so the stage lies next to its target.
        stage = new_folder(target.parent, STAGE)
        try:
            for name, text in files.items():
                path = stage / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="\n")
            if target.is_dir():
                # Only an empty folder goes: whatever lies in it is not ours.
                target.rmdir()
            os.rename(stage, target)
        except BaseException:
            shutil.rmtree(stage, ignore_errors=True)
            raise
    except OSError as error:
        raise InputError(
            "a new or empty folder that can be written",
            rule="not-writable",
            file=str(target),
            value=error.strerror,
        ) from None


def _check_sizes(cohort: Cohort, table: Objects, sizes: F64) -> None:
    unknown = np.flatnonzero(np.isnan(sizes).any(axis=1))
    if len(unknown):
        raise InputError(
            "the size of every image, because yolo holds fractions of it",
            rule="size-unknown",
            value=cohort.images.ids[int(table.image[unknown[0]])],
            hint="give width and height in a table of images with --groups",
        )


def _image_names(cohort: Cohort) -> list[str]:
    """Return a path for every image that is safe to write, and differs from all others."""
    names = list(cohort.images.ids)
    file_names = cohort.images.groups.get("file_name")
    if file_names is not None:
        names = [str(name).replace("\\", "/") for name in file_names.tolist()]
    names = [without_suffix(name) for name in names]
    places: dict[str, str] = {}
    for name in names:
        parts = name.split("/")
        if not all(map(_is_safe, parts)) or name.casefold() in places:
            raise InputError(
                "names of images that give different file names",
                rule="file-name",
                field="image",
                value=name,
            )
        places[name.casefold()] = name
    return names


def _is_safe(part: str) -> bool:
    """Return whether part of a path is a plain name on every system."""
    plain = part.isprintable() and not set(part) & set('\\:*?"<>|')
    return plain and part.strip(". ") != "" and len(part) <= LONGEST_PART


def _yolo_files(cohort: Cohort, table: Objects, boxes: F64, names: list[str]) -> dict[str, str]:
    for name in cohort.classes:
        if not name.isprintable() or not name.strip():
            raise InputError(
                "names of classes in one line", rule="class-names", field="class", value=name
            )
    lines: list[list[str]] = [[] for _ in names]
    owner, label = table.image.tolist(), table.label.tolist()
    scores = table.score.tolist() if isinstance(table, Predictions) else None
    for k, box in enumerate(boxes.tolist()):
        numbers = list(map(repr, box))
        if scores is not None:
            numbers.append(repr(scores[k]))
        lines[owner[k]].append(" ".join([str(label[k]), *numbers]))
    files = {}
    for name, own_lines in zip(names, lines):
        # References declare an image without objects by an empty file; predictions need none.
        if own_lines or scores is None:
            files[f"labels/{name}.txt"] = "".join(line + "\n" for line in own_lines)
    quoted = [name.replace("'", "''") for name in cohort.classes]
    entries = [f"  {k}: '{name}'\n" for k, name in enumerate(quoted)]
    files["data.yaml"] = f"nc: {len(quoted)}\nnames:\n{''.join(entries)}"
    if isinstance(table, References):
        width, height = cohort.images.size.T.tolist()
        columns = {"image": names, "width": width, "height": height}
        files[SIZES_FILE] = delimited(columns)
    return files


def _voc_files(cohort: Cohort, table: References, boxes: F64, names: list[str]) -> dict[str, str]:
    objects: list[list[str]] = [[] for _ in names]
    ignored = table.ignore.tolist()
    for k, (image, label, box) in enumerate(
        zip(table.image.tolist(), table.label.tolist(), boxes.tolist())
    ):
        sides = []
        for tag, number in zip(("xmin", "ymin", "xmax", "ymax"), box):
            sides.append(f"<{tag}>{cell(number)}</{tag}>")
        objects[image].append(
            f"  <object>\n    <name>{_xml(cohort.classes[label])}</name>\n"
            f"    <difficult>{int(ignored[k])}</difficult>\n"
            f"    <bndbox>{''.join(sides)}</bndbox>\n  </object>\n"
        )
    file_names = cohort.images.groups.get("file_name")
    files = {}
    for k, name in enumerate(names):
        picture = name if file_names is None else str(file_names[k])
        size = ""
        if np.isfinite(cohort.images.size[k]).all():
            width, height = map(cell, cohort.images.size[k].tolist())
            size = f"  <size><width>{width}</width><height>{height}</height></size>\n"
        files[f"Annotations/{name}.xml"] = (
            f"<annotation>\n  <filename>{_xml(picture)}</filename>\n{size}"
            f"{''.join(objects[k])}</annotation>\n"
        )
    return files


def _xml(text: str) -> str:
    """Return text as XML; signs that XML cannot hold are refused."""
    if not text.isprintable() or text != text.strip():
        raise InputError("a name without control characters", rule="class-names", value=text)
    return escape(text)
