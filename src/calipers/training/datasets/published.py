# SPDX-License-Identifier: Apache-2.0
"""Layouts of published data sets, recognised by the files that they come with.

- NIH ChestX-ray8 / 14: ``Data_Entry_2017.csv`` and ``BBox_List_2017.csv``. Of a single class, only
  patients with a positive image are used, as in the stability paper.
- MURA: ``train_image_paths.csv`` and three more tables without a header. A study of a body part is
  abnormal or not; the class is the part (``XR_SHOULDER``), and images of other parts say nothing
  about it. The official validation set is the test set.
- CheXpert and its kin: ``train.csv`` with a path and a column of 1, 0, -1 or nothing per class.
  Nothing counts as 0; -1, uncertain, says nothing about the class. ``valid.csv``, if it is there,
  is the test set.
- Pascal VOC 2005: text files of their own syntax below ``Annotations``.

`open_published` returns the `TrainingImages` of a folder, or None if it has another layout;
`calipers.training.datasets.training_images.open_images` calls it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath

import numpy as np

from calipers.arrays import F64, I64, Flags
from calipers.data.cohort import Cohort
from calipers.errors import InputError
from calipers.io.read import read
from calipers.io.source import InputFolder, list_files, open_source
from calipers.io.tables.columns import OBJECTS, ColumnSpec, declare, find_columns
from calipers.io.tables.table import FileTable, open_table, texts
from calipers.show.words import count_text
from calipers.training.datasets.training_images import (
    TrainingImages,
    classes_of,
    no_picture,
    with_pictures,
)

NIH_ENTRIES, NIH_BOXES = "Data_Entry_2017.csv", "BBox_List_2017.csv"
NIH_TABLE = declare(
    ColumnSpec("image", ("image index",), required=True),
    ColumnSpec("labels", ("finding labels",), required=True),
    ColumnSpec("patient", ("patient id",), required=True),
)

MURA_PATHS = "{}_image_paths.csv"
MURA_LABELS = "{}_labeled_studies.csv"
MURA_IMAGE = re.compile(r"(?P<part>XR_[A-Z]+)/(?P<patient>patient\d+)/[^/]+/[^/]+$")

PARTS = {"train": "train.csv", "valid": "valid.csv"}
PATHS = ("path", "image", "image_id", "file_name", "filename")
# Columns that are never classes, even if their cells are 0 and 1.
NO_CLASSES = ("no finding", "patient", "patient_id", "sex", "age", "fold", "centre")
POSITIVE, NEGATIVE, UNCERTAIN = {"1", "1.0"}, {"", "0", "0.0"}, {"-1", "-1.0"}
PATIENTS = declare(OBJECTS["patient"])
PATIENT = re.compile(r"(?:^|/)(patient\d+)/")

VOC_MARK = "# PASCAL Annotation Version 1.00"
VOC_FILE = re.compile(r'Image filename\s*:\s*"(.+)"')
VOC_OBJECTS = re.compile(r"Objects with ground truth\s*:\s*\d+\s*\{(.*)\}")
VOC_BOX = re.compile(
    r'Bounding box for object \d+ "(?P<label>.+?)".*:\s*'
    r"\((?P<x0>\d+),\s*(?P<y0>\d+)\)\s*-\s*\((?P<x1>\d+),\s*(?P<y1>\d+)\)"
)
# The classes of the challenge; labels say also from where an object is seen, as PAScarRear.
VOC_CLASSES = ("motorbike", "bicycle", "person", "car")


def open_published(folder: Path) -> TrainingImages | None:
    """Return the images of a published data set; None if the layout is none of those."""
    if (folder / NIH_ENTRIES).exists():
        return _from_nih(folder)
    if (folder / NIH_BOXES).exists():
        hint = "it lists the findings of all images, and comes with the data set"
        file = str(folder / NIH_ENTRIES)
        raise InputError("the table of images", rule="not-found", file=file, hint=hint)
    if any((folder / MURA_PATHS.format(part)).exists() for part in PARTS):
        return _from_mura(folder)
    if (folder / PARTS["train"]).exists():
        table = open_table(folder / PARTS["train"])
        if is_wide(table):
            return from_wide_table(folder, _parts_of(folder, table))
    return _from_voc2005(folder)


def _from_nih(folder: Path) -> TrainingImages:
    """Read the layout of ChestX-ray8 / 14, as it is distributed."""
    table = open_table(folder / NIH_ENTRIES)
    columns = find_columns(table, NIH_TABLE)
    ids = tuple(name.strip() for name in texts(table, columns["image"]))
    cells, classes = classes_of(texts(table, columns["labels"]))
    findings = np.zeros((len(ids), len(classes)), np.bool_)
    for i, own in enumerate(cells):
        findings[i, own] = True
    boxes: list[F64 | None] = [None] * len(ids)
    labels = [np.zeros(0, np.int64)] * len(ids)
    notes = list(table.notes)
    if (folder / NIH_BOXES).exists():
        drawn_boxes, note = _boxes_of(read(folder / NIH_BOXES, format="nih"), ids, classes)
        notes.append(note)
        for i, (own_boxes, own_labels) in drawn_boxes.items():
            boxes[i], labels[i] = own_boxes, own_labels
    else:
        notes.append(f"there is no {NIH_BOXES}: no image has boxes")
    return with_pictures(
        folder,
        TrainingImages(
            name="NIH ChestX-ray",
            ids=ids,
            classes=classes,
            findings=findings,
            boxes=tuple(boxes),
            box_labels=tuple(labels),
            patients=tuple(cell.strip() for cell in texts(table, columns["patient"])),
            picture=no_picture,
            of_positive_patients=True,
            notes=tuple(notes),
        ),
    )


def _boxes_of(
    cohort: Cohort, ids: Sequence[str], classes: Sequence[str]
) -> tuple[Mapping[int, tuple[F64, I64]], str]:
    """Return the boxes and classes of images by their index, of those that are listed."""
    index = {name: i for i, name in enumerate(ids)}
    number = {name: k for k, name in enumerate(classes)}
    table = cohort.references
    boxes: dict[int, tuple[F64, I64]] = {}
    n_strange = 0
    for k, name in enumerate(cohort.images.ids):
        rows = slice(int(table.offsets[k]), int(table.offsets[k + 1]))
        labels = [number.get(cohort.classes[code], -1) for code in table.label[rows].tolist()]
        if name not in index or -1 in labels:
            n_strange += 1
            continue
        boxes[index[name]] = table.boxes[rows], np.array(labels, np.int64)
    note = f"{count_text('image', len(boxes))} with boxes"
    if n_strange:
        note += f"; boxes of {count_text('other image', n_strange)}, which the table does not list"
    return boxes, note


def _from_mura(folder: Path) -> TrainingImages:
    """Read images and studies of both parts."""
    ids: list[str] = []
    abnormal: list[bool] = []
    for part in PARTS:
        labels_file = folder / MURA_LABELS.format(part)
        labels = {}
        for line, cells in _rows(labels_file, 2):
            if cells[1] not in ("0", "1"):
                raise _line_error(labels_file, line, "a label of 0 or 1", cells[1])
            labels[_below(folder, cells[0]).rstrip("/")] = cells[1] == "1"
        for line, cells in _rows(folder / MURA_PATHS.format(part), 1):
            name = _below(folder, cells[0])
            study = name.rpartition("/")[0]
            if study not in labels or MURA_IMAGE.search(name) is None:
                expected = f"an image of a study that {labels_file.name} lists"
                raise _line_error(folder / MURA_PATHS.format(part), line, expected, cells[0])
            ids.append(name)
            abnormal.append(labels[study])
    parts, patients, is_test = [], [], []
    for name in ids:
        match = MURA_IMAGE.search(name)
        assert match is not None  # other names were refused above
        parts.append(match["part"])
        patients.append(match["patient"])
        is_test.append(name.startswith("valid/"))
    classes = tuple(sorted(set(parts)))
    # A study says whether its own part of the body is abnormal, and nothing of the other parts.
    certain = np.array(parts)[:, None] == np.array(classes)
    findings = certain & np.array(abnormal)[:, None]
    test = np.array(is_test)
    images = _without_boxes("MURA", ids, classes, findings, certain, patients, test)
    return with_pictures(folder, images)


def _rows(path: Path, n_cells: int) -> list[tuple[int, list[str]]]:
    """Return the cells of a table without a header, with the numbers of their lines."""
    result = []
    file = open_source(path)
    for number, line in enumerate(file.data[:].decode("utf-8", "replace").splitlines(), 1):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != n_cells:
            raise _line_error(path, number, count_text("cell", n_cells), line)
        result.append((number, cells))
    return result


def _line_error(path: Path, line: int, expected: str, value: object) -> InputError:
    return InputError(
        expected, rule="labels-differ", file=str(path), location=str(line), value=value
    )


def _below(folder: Path, name: str) -> str:
    """Return a path of a table without the folder of the data set, which may be called anything."""
    path = PurePosixPath(name)
    if len(path.parts) > 1 and not (folder / path.parts[0]).exists():
        return str(PurePosixPath(*path.parts[1:]))
    return str(path)


def is_wide(table: FileTable) -> bool:
    """Return whether a table has a column of paths, and columns of 1, 0, -1 or nothing."""
    return _path_column(table) is not None and bool(_class_columns(table))


def _path_column(table: FileTable) -> str | None:
    lower = {name.lower(): name for name in table.names}
    return next((lower[name] for name in PATHS if name in lower), None)


def _class_columns(table: FileTable) -> list[str]:
    allowed = POSITIVE | NEGATIVE | UNCERTAIN
    names = []
    for name in table.names:
        if name.lower() in NO_CLASSES or name == _path_column(table):
            continue
        cells = {cell.strip() for cell in texts(table, name)}
        # A column that is empty, or the same everywhere, may be anything.
        if cells <= allowed and cells & POSITIVE:
            names.append(name)
    return names


def _parts_of(folder: Path, train: FileTable) -> list[FileTable]:
    path = folder / PARTS["valid"]
    return [train, open_table(path)] if path.exists() else [train]


def from_wide_table(folder: Path, tables: Sequence[FileTable]) -> TrainingImages:
    """Read a column per class; a second table holds the test images."""
    classes = tuple(_class_columns(tables[0]))
    ids: list[str] = []
    states: list[list[int]] = []
    patients: list[str] = []
    is_test: list[bool] = []
    for k, table in enumerate(tables):
        path_column = _path_column(table)
        patient_column = find_columns(table, PATIENTS).get("patient")
        missing = [name for name in classes if name not in table.names]
        if path_column is None or missing:
            expected = f"the column {missing[0]!r}" if missing else "a column of paths"
            raise InputError(expected, rule="missing-column", file=table.file)
        names = [_below(folder, name.strip()) for name in texts(table, path_column)]
        own_patients = _patients_of(names)
        if patient_column is not None:
            own_patients = [cell.strip() for cell in texts(table, patient_column)]
        columns = [_states(table, name) for name in classes]
        ids += names
        patients += own_patients
        states += np.array(columns).T.tolist()
        is_test += [k > 0] * len(names)
    codes = np.array(states, np.int64).reshape(len(ids), len(classes))
    test = np.array(is_test) if len(tables) > 1 else None
    name = folder.name or str(folder)
    return with_pictures(
        folder, _without_boxes(name, ids, classes, codes == 1, codes >= 0, patients, test)
    )


def _states(table: FileTable, name: str) -> list[int]:
    """Return 1, 0 or -1 of every row."""
    result = []
    for row, cell in enumerate(texts(table, name)):
        word = cell.strip()
        if word in POSITIVE:
            result.append(1)
        elif word in NEGATIVE:
            result.append(0)
        elif word in UNCERTAIN:
            result.append(-1)
        else:
            raise table.error(row, name, "labels-differ", "1, 0, -1 or nothing", cell)
    return result


def _patients_of(names: Sequence[str]) -> list[str]:
    """Return the folder patient00001 of a path; an image without one is its own patient."""
    patients = []
    for name in names:
        match = PATIENT.search(name)
        patients.append(name if match is None else match[1])
    return patients


def _without_boxes(
    name: str,
    ids: Sequence[str],
    classes: tuple[str, ...],
    findings: Flags,
    certain: Flags,
    patients: Sequence[str],
    test: Flags | None,
) -> TrainingImages:
    return TrainingImages(
        name=name,
        ids=tuple(ids),
        classes=classes,
        findings=findings,
        certainty=None if certain.all() else certain,
        boxes=(None,) * len(ids),
        box_labels=(np.zeros(0, np.int64),) * len(ids),
        patients=tuple(patients),
        picture=no_picture,
        test=test,
    )


def _from_voc2005(folder: Path) -> TrainingImages | None:
    """Read the text files of Pascal VOC 2005; None if there are none."""
    listing = list_files(folder, holds="pictures")
    names = [name for name in listing.files if name.lower().endswith(".txt")]
    files = InputFolder(str(folder), b"", 0, "", files=listing.files)
    # Only folders whose first text file is one are read on: there may be many of another format.
    if not names or not files.open(names[0]).head.startswith(VOC_MARK):
        return None
    ids, classes_by_image, objects = [], [], []
    for name in names:
        text = files.open(name).data[:].decode("utf-8", "replace")
        picture, labels, boxes = _voc_annotation(text, f"{folder}/{name}")
        ids.append(picture)
        classes_by_image.append(labels)
        objects.append(boxes)
    classes = tuple(sorted(set(chain.from_iterable(classes_by_image))))
    number = {label: k for k, label in enumerate(classes)}
    findings = np.zeros((len(ids), len(classes)), np.bool_)
    all_boxes, all_labels = [], []
    for i, boxes in enumerate(objects):
        findings[i, [number[label] for label in classes_by_image[i]]] = True
        all_boxes.append(np.array([box for _, box in boxes], np.float64).reshape(-1, 4))
        all_labels.append(np.array([number[label] for label, _ in boxes], np.int64))
    return with_pictures(
        folder,
        TrainingImages(
            name="Pascal VOC 2005",
            ids=tuple(ids),
            classes=classes,
            findings=findings,
            boxes=tuple(all_boxes),
            box_labels=tuple(all_labels),
            patients=tuple(ids),
            picture=no_picture,
        ),
    )


def _voc_annotation(
    text: str, file: str
) -> tuple[str, set[str], list[tuple[str, tuple[int, int, int, int]]]]:
    """Return the picture, the classes, and the objects with boxes of one annotation."""
    picture = VOC_FILE.search(text)
    if picture is None:
        raise InputError("a line 'Image filename : \"...\"'", rule="labels-differ", file=file)
    listed = VOC_OBJECTS.search(text)
    labels = set()
    if listed is not None:
        labels = {_voc_class(word) for word in re.findall(r'"(.+?)"', listed[1])}
    boxes = []
    for match in VOC_BOX.finditer(text):
        x0, y0, x1, y1 = (int(match[name]) for name in ("x0", "y0", "x1", "y1"))
        if x1 < x0 or y1 < y0:
            raise InputError("a box", rule="box-shape", file=file, value=match[0])
        # Pixels count from 1, and the last one belongs to the box.
        boxes.append((_voc_class(match["label"]), (x0 - 1, y0 - 1, x1, y1)))
    return picture[1], labels | {label for label, _ in boxes}, boxes


def _voc_class(label: str) -> str:
    """Return the class of a label: car of PAScarRear."""
    plain = label.removeprefix("PAS")
    return next((name for name in VOC_CLASSES if plain.startswith(name)), plain)
