# SPDX-License-Identifier: Apache-2.0
"""The images that a network learns from: pictures, findings, boxes and patients, from any layout.

`open_images` takes what the user names and returns `TrainingImages`:

- a folder of pictures and a table of labels (``--labels``): image, label, and maybe patient and
  boxes;
- a folder of pictures with references of any format that Calipers reads (COCO, YOLO, VOC, ...);
- the folder of a published data set: NIH ChestX-ray, MURA, CheXpert, Pascal VOC 2005, see
  `calipers.training.datasets.published`;
- a folder of idx files (MNIST and its kin), or the word ``digits``: composed canvases, see
  `calipers.training.datasets.canvases`;
- a folder of pictures alone, for predictions.

Pictures are decoded later, one by one (`calipers.training.datasets.frames`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np

from calipers.arrays import F64, I64, U8, Flags
from calipers.data.objects import to_corners
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.read import read
from calipers.io.source import list_files
from calipers.io.tables.columns import (
    BOX_LAYOUTS,
    BOXES,
    OBJECTS,
    ColumnSpec,
    declare,
    find_columns,
)
from calipers.io.tables.table import YES_NO, FileTable, open_table, strict_numbers, texts
from calipers.io.volumes.open import extensions
from calipers.pictures.files import PictureFiles
from calipers.pictures.pixels import read_pixels
from calipers.show.words import count_text
from calipers.training.datasets.canvases import Canvases, is_canvases, open_canvases

DIGITS = "digits"
EXTERNAL = "external/"  # before the ids of images of other data
NOTHING = {"", "no finding", "none", "normal"}  # labels that name no class
BINARY = "positive"  # the class of labels that are 0 and 1
REFERENCES = (".json", ".xml")
PICTURES = ("picture", "dicom")
CORNERS = 4

IMAGES = ("image", "image_id", "file_name", "filename", "path", "bag")
LABEL = ColumnSpec(
    "label", ("label", "class", "labels", "finding"), hint="give 0 and 1, or classes"
)
LABELS = declare(LABEL)
TABLE = declare(ColumnSpec("image", IMAGES, required=True), LABEL, OBJECTS["patient"])
PictureOf = Callable[[int], U8]
T = TypeVar("T")


@dataclass(frozen=True)
class TrainingImages:
    """Images with what is known about them; ``picture`` decodes one by its index.

    ``boxes`` of an image are (m, 4) corners in its pixels, and None if nobody drew any: a positive
    image may be annotated or not.
    """

    name: str
    ids: tuple[str, ...]
    classes: tuple[str, ...]
    findings: Flags  # (n, classes)
    boxes: tuple[F64 | None, ...]
    box_labels: tuple[I64, ...]
    patients: tuple[str, ...]  # an image without a patient is its own
    picture: PictureOf
    certainty: Flags | None = None  # (n, classes) which findings are known; None: all
    test: Flags | None = None  # (n,) the official test images, if the data set has a split
    of_positive_patients: bool = False  # only patients with a positive image are used
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def positive(self) -> Flags:
        """(n,) whether an image shows anything."""
        return np.asarray(self.findings.any(axis=1))

    @property
    def certain_findings(self) -> Flags:
        """(n, classes) which findings are known."""
        return np.ones_like(self.findings) if self.certainty is None else self.certainty

    @property
    def boxed(self) -> Flags:
        """(n,) whether an image has boxes."""
        return np.array([own is not None and len(own) > 0 for own in self.boxes], np.bool_)

    def take(self, rows: I64) -> TrainingImages:
        """Return some images, in the order of ``rows``."""
        places = rows.tolist()

        def of_images(column: Sequence[T]) -> tuple[T, ...]:
            return tuple(column[i] for i in places)

        certainty = None if self.certainty is None else self.certainty[rows]
        test = None if self.test is None else self.test[rows]
        return replace(
            self,
            ids=of_images(self.ids),
            findings=self.findings[rows],
            certainty=certainty,
            boxes=of_images(self.boxes),
            box_labels=of_images(self.box_labels),
            patients=of_images(self.patients),
            # Pictures are read when they are asked for, so only their places change.
            picture=lambda i: self.picture(places[i]),
            test=test,
        )

    def only(self, target: str) -> TrainingImages:
        """Return the images with one class: an image is positive if it shows ``target``.

        A positive image without a box of this class counts as not annotated, and an image of which
        it is not known whether it shows the class is left out. Of a data set with
        the rule of patients (NIH), images of patients without any positive image are left out: the
        rest would be overwhelmingly negative.
        """
        k = self._class(target)
        if self.certainty is not None and not self.certainty[:, k].all():
            rows = np.flatnonzero(self.certainty[:, k])
            note = (
                f"{len(rows)} of {count_text('image', len(self))} say whether they show {target}; "
                "the others are left out"
            )
            return replace(self.take(rows), certainty=None, notes=(*self.notes, note)).only(target)
        positive = self.findings[:, k]
        boxes: list[F64 | None] = []
        for i, own in enumerate(self.boxes):
            shape = None if own is None else own[self.box_labels[i] == k]
            unknown = shape is not None and positive[i] and not len(shape)
            boxes.append(None if unknown else shape)
        labels = []
        for of_image in boxes:
            # There is one class only, whose number is 0.
            n_boxes = 0 if of_image is None else len(of_image)
            labels.append(np.zeros(n_boxes, np.int64))
        images = replace(
            self,
            classes=(target,),
            findings=positive[:, None],
            certainty=None,
            boxes=tuple(boxes),
            box_labels=tuple(labels),
        )
        if not self.of_positive_patients:
            return images
        ill = {self.patients[i] for i in np.flatnonzero(positive).tolist()}
        rows = np.flatnonzero([patient in ill for patient in self.patients])
        note = (
            f"{len(rows)} of {count_text('image', len(self))} belong to the "
            f"{count_text('patient', len(ill))} with {target}; the others are left out"
        )
        return replace(images.take(rows), notes=(*self.notes, note))

    def with_boxes_of(self, rows: I64) -> TrainingImages:
        """Return the images with the boxes of some; the others count as not annotated."""
        boxes: list[F64 | None] = [None] * len(self)
        for i in rows.tolist():
            boxes[i] = self.boxes[i]
        return replace(self, boxes=tuple(boxes))

    def with_classes(self, classes: Sequence[str]) -> TrainingImages:
        """Return the images with these classes, in this order; boxes and findings of others are
        left out, and no image shows a class that is new.
        """
        number = {name: k for k, name in enumerate(classes)}
        codes = np.array([number.get(name, -1) for name in self.classes], np.int64)
        findings = np.zeros((len(self), len(classes)), np.bool_)
        certain = np.ones((len(self), len(classes)), np.bool_)
        for own, k in enumerate(codes.tolist()):
            if k >= 0:
                findings[:, k] = self.findings[:, own]
                certain[:, k] = self.certain_findings[:, own]
        boxes: list[F64 | None] = []
        labels = []
        for own_boxes, own_labels in zip(self.boxes, self.box_labels):
            same = codes[own_labels] >= 0
            boxes.append(None if own_boxes is None else own_boxes[same])
            labels.append(codes[own_labels][same])
        return replace(
            self,
            classes=tuple(classes),
            findings=findings,
            certainty=None if certain.all() else certain,
            boxes=tuple(boxes),
            box_labels=tuple(labels),
        )

    def joined(self, other: TrainingImages) -> TrainingImages:
        """Return the images of both, with the classes of the first; those of the other one are
        called ``external/...``.
        """
        other = other.with_classes(self.classes)
        n, test, certainty = len(self), self.test, None
        if test is not None:
            test = np.append(test, np.zeros(len(other), np.bool_))
        if self.certainty is not None or other.certainty is not None:
            certainty = np.concatenate([self.certain_findings, other.certain_findings])

        def external(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(EXTERNAL + name for name in names)

        def picture(i: int) -> U8:
            return self.picture(i) if i < n else other.picture(i - n)

        return replace(
            self,
            ids=(*self.ids, *external(other.ids)),
            findings=np.concatenate([self.findings, other.findings]),
            certainty=certainty,
            boxes=(*self.boxes, *other.boxes),
            box_labels=(*self.box_labels, *other.box_labels),
            patients=(*self.patients, *external(other.patients)),
            picture=picture,
            test=test,
            notes=(*self.notes, *other.notes),
        )

    def _class(self, target: str) -> int:
        if target not in self.classes:
            hint = did_you_mean(target, self.classes)
            raise UsageError(f"no image of {self.name} is labelled {target!r}; {hint}")
        return self.classes.index(target)


def open_images(
    source: str, labels: str | None = None, *, canvases: Canvases | None = None
) -> TrainingImages:
    """Return the images that the user names; nothing is decoded yet.

    Parameters
    ----------
    source
        A folder, or ``digits``.
    labels
        A table of labels, or references of any format that Calipers reads.
    canvases
        How canvases are composed, for idx files and ``digits``.
    """
    # It makes these images, and so imports this module.
    from calipers.training.datasets.published import from_wide_table, is_wide, open_published

    folder = Path(source)
    if source == DIGITS or (folder.is_dir() and is_canvases(folder)):
        if labels is not None:
            raise UsageError(f"--labels is for folders of pictures; {source} has labels already")
        return _canvas_images(source, canvases or Canvases())
    if labels is not None:
        table = _table_of(Path(labels))
        if table is not None and _has_label_or_boxes(table):
            return _from_table(folder, table)
        if table is not None and is_wide(table):
            return from_wide_table(folder, [table])
        if table is not None:
            return _from_table(folder, table)
        return _from_references(folder, labels)
    images = open_published(folder)
    if images is not None:
        return images
    references = _references_in(folder)
    if references is not None:
        return _from_references(folder, references)
    return _pictures_alone(folder)


def _canvas_images(source: str, settings: Canvases) -> TrainingImages:
    canvas_set = open_canvases(source, settings)
    boxes, labels = [], []
    findings = np.zeros((len(canvas_set.ids), len(canvas_set.classes)), np.bool_)
    for i in range(len(canvas_set.ids)):
        drawing = canvas_set.drawing(i)
        boxes.append(drawing.boxes)
        labels.append(drawing.labels)
        findings[i, drawing.labels] = True
    return TrainingImages(
        name=canvas_set.name,
        ids=canvas_set.ids,
        classes=canvas_set.classes,
        findings=findings,
        boxes=tuple(boxes),
        box_labels=tuple(labels),
        patients=canvas_set.ids,
        picture=lambda i: canvas_set.drawing(i).pixels,
        test=canvas_set.test,
    )


def _table_of(labels: Path) -> FileTable | None:
    """Return the table of labels; None if the file holds references of another kind."""
    if labels.suffix.lower() in REFERENCES or labels.is_dir():
        return None
    return open_table(labels)


def _has_label_or_boxes(table: FileTable) -> bool:
    return "label" in find_columns(table, LABELS) or _box_columns(table) is not None


def _from_table(folder: Path, table: FileTable) -> TrainingImages:
    """Read a row per image, or several rows per image with a label or a box each."""
    columns = find_columns(table, TABLE)
    layout = _box_columns(table)
    if "label" not in columns and layout is None:
        raise TABLE["label"].missing(table)
    names = [name.strip() for name in texts(table, columns["image"])]
    words = [""] * len(names)
    if "label" in columns:
        words = [cell.strip() for cell in texts(table, columns["label"])]
    corners, has_box = _corners(table, layout)
    if "label" not in columns:
        words = ["1" if own else "0" for own in has_box]
    cells, classes = classes_of(words)
    ids = tuple(dict.fromkeys(names))
    index = {name: i for i, name in enumerate(ids)}
    findings = np.zeros((len(ids), len(classes)), np.bool_)
    rows: list[list[int]] = [[] for _ in ids]
    for row, name in enumerate(names):
        findings[index[name], cells[row]] = True
        if has_box[row]:
            if len(cells[row]) != 1:
                hint = "a row with a box names the one class that it shows"
                raise table.error(row, columns["label"], "labels-differ", hint, words[row])
            rows[index[name]].append(row)
    boxes: list[F64 | None] = []
    for i, own in enumerate(rows):
        # Without a column of boxes nobody drew any; with one, a negative image has none to draw.
        drawn_here = layout is not None and (own or not findings[i].any())
        boxes.append(corners[own] if drawn_here else None)
    labels = []
    for own in rows:
        labels.append(np.array([cells[row][0] for row in own], np.int64))
    patients = _patients(table, columns.get("patient"), names, ids)
    return with_pictures(
        folder,
        TrainingImages(
            name=folder.name or str(folder),
            ids=ids,
            classes=classes,
            findings=findings,
            boxes=tuple(boxes),
            box_labels=tuple(labels),
            patients=patients,
            picture=no_picture,
            notes=tuple(table.notes),
        ),
    )


def classes_of(words: Sequence[str]) -> tuple[list[list[int]], tuple[str, ...]]:
    """Return the classes of every label, by their number, and their names.

    Labels of 0 and 1 (or yes and no) are the class ``positive``. Otherwise a label is a name, or
    several with a bar between them; "No Finding" and an empty cell are none.
    """
    if all(word.lower() in YES_NO for word in words):
        answers: list[list[int]] = []
        for word in words:
            is_positive = YES_NO[word.lower()]
            answers.append([0] if is_positive else [])
        return answers, (BINARY,)
    split: list[list[str]] = []
    for word in words:
        parts = [part.strip() for part in word.split("|")]
        split.append([part for part in parts if part.lower() not in NOTHING])
    classes = tuple(sorted(set(chain.from_iterable(split))))
    number = {name: k for k, name in enumerate(classes)}
    codes = []
    for names in split:
        codes.append([number[name] for name in names])
    return codes, classes


def _box_columns(table: FileTable) -> tuple[str, tuple[str, ...]] | None:
    for kind, names in BOX_LAYOUTS:
        columns = [BOXES[name].find(table) for name in names]
        if len(names) == CORNERS and all(columns):
            return kind, tuple(column for column in columns if column is not None)
    return None


def _corners(table: FileTable, layout: tuple[str, tuple[str, ...]] | None) -> tuple[F64, Flags]:
    """Return (rows, 4) corners, and which rows have a box."""
    if layout is None:
        return np.zeros((len(table), CORNERS)), np.zeros(len(table), np.bool_)
    kind, columns = layout
    cells = np.stack([strict_numbers(table, name) for name in columns], axis=1)
    has_box: Flags = np.asarray(np.isfinite(cells).any(axis=1))
    corners, _ = to_corners(cells, kind)
    good = np.isfinite(corners).all(axis=1) & (corners[:, 2:] > corners[:, :2]).all(axis=1)
    for row in np.flatnonzero(has_box & ~good).tolist():
        value = [float(number) for number in cells[row]]
        raise table.error(row, columns[0], "box-shape", "a whole box, or empty cells", value)
    return corners, has_box


def _patients(
    table: FileTable, column: str | None, names: Sequence[str], ids: Sequence[str]
) -> tuple[str, ...]:
    """Return the patient of every image, which all rows of an image agree on."""
    if column is None:
        return tuple(ids)
    patient: dict[str, str] = {}
    for row, (name, cell) in enumerate(zip(names, texts(table, column))):
        own = patient.setdefault(name, cell.strip())
        if own != cell.strip():
            raise table.error(row, column, "labels-differ", f"the patient {own!r}", cell)
    return tuple(patient[name] or name for name in ids)


def _references_in(folder: Path) -> str | None:
    """Return the references that lie in a folder of pictures: its one JSON file, or itself if it
    holds labels of YOLO or VOC.
    """
    listing = list_files(folder, holds="pictures")
    names = [name for name in listing.files if name.lower().endswith(".json")]
    if len(names) == 1:
        return listing.files[names[0]]
    if len(names) > 1:
        hint = f"say which, for example --labels {folder / names[0]}"
        raise InputError(
            "one file of references", rule="format", file=str(folder), value=names, hint=hint
        )
    others = [name for name in listing.files if name.lower().endswith((".txt", ".xml"))]
    return str(folder) if others else None


def _from_references(folder: Path, references: str) -> TrainingImages:
    """Read references of any format: every image is annotated, with or without boxes."""
    cohort = read(references)
    if cohort.dimensions != CORNERS // 2:
        raise InputError("pictures, not volumes", rule="volume-shape", file=references)
    files = PictureFiles.of(folder, cohort)
    table = cohort.references
    findings = np.zeros((cohort.n_images, len(cohort.classes)), np.bool_)
    relevant = ~(table.ignore | table.crowd)
    findings[table.image[relevant], table.label[relevant]] = True
    boxes, labels = [], []
    for i in range(cohort.n_images):
        rows = np.arange(table.offsets[i], table.offsets[i + 1])
        rows = rows[relevant[rows]]
        boxes.append(table.boxes[rows])
        labels.append(table.label[rows].astype(np.int64))
    patients = cohort.images.ids
    if "patient" in cohort.images.groups:
        patients = tuple(map(str, cohort.images.groups["patient"].tolist()))
    return _located(
        files,
        TrainingImages(
            name=folder.name or str(folder),
            ids=cohort.images.ids,
            classes=cohort.classes,
            findings=findings,
            boxes=tuple(boxes),
            box_labels=tuple(labels),
            patients=patients,
            picture=no_picture,
            notes=cohort.intake.notes,
        ),
    )


def _pictures_alone(folder: Path) -> TrainingImages:
    """Return the pictures of a folder, about which nothing is known."""
    listing = list_files(folder, holds="pictures")
    ends = extensions(*PICTURES)
    names = [name for name in listing.files if name.lower().endswith(ends)]
    if not names:
        hint = f"pictures end in {', '.join(ends)}"
        raise InputError("pictures", rule="no-bags", file=str(folder), hint=hint)
    paths = [Path(listing.files[name]) for name in names]
    return TrainingImages(
        name=folder.name or str(folder),
        ids=tuple(names),
        classes=(),
        findings=np.zeros((len(names), 0), np.bool_),
        boxes=(None,) * len(names),
        box_labels=(np.zeros(0, np.int64),) * len(names),
        patients=tuple(names),
        picture=lambda i: read_pixels(paths[i]).array,
    )


def with_pictures(folder: Path, images: TrainingImages) -> TrainingImages:
    """Return the images whose pictures, called like their ids, lie below a folder."""
    return _located(PictureFiles.from_names(folder, [(name,) for name in images.ids]), images)


def _located(files: PictureFiles, images: TrainingImages) -> TrainingImages:
    """Return the images that have a picture; the others are counted in a note."""
    paths = [files.path_of(i) for i in range(len(images))]
    rows = np.flatnonzero([path is not None for path in paths])
    if len(rows) < len(images):
        images = replace(images, notes=(*images.notes, *files.notes()))
    places = [path for path in paths if path is not None]
    return replace(images.take(rows), picture=lambda i: read_pixels(places[i]).array)


def no_picture(i: int) -> U8:
    """Stand for the pictures of images until they are located."""
    raise AssertionError("pictures are located before they are read")
