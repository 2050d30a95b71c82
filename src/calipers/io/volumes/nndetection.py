# SPDX-License-Identifier: Apache-2.0
"""The format ``nndetection``: instance labels with a JSON file each, and boxes as JSON.

References are label volumes whose values are instances, beside ``case.json`` with
``{"instances": {"1": 0, "2": 1}}``, which gives every instance its class (a number from 0; names
come from ``dataset.json``). Predictions are the files ``case_boxes.json`` that
``nndet_boxes2nii`` writes: ``{"1": {"score": 0.9, "label": 0, "box": [...]}}``, or the lists
``pred_boxes``, ``pred_scores`` and ``pred_labels`` of a pickle that was written as JSON. The
pickles ``case_boxes.pkl`` are never opened.

A box is ``[z0, y0, z1, y1, x0, x1]`` in voxels of the image (in 2D ``[y0, x0, y1, x1]``), whose
lower bounds are one voxel before the object and whose upper bounds are one behind it, as
nnDetection itself draws them. `calipers.io.read` calls `NnDetectionReader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calipers.data.rules import Delivery, Finding, Source
from calipers.errors import InputError
from calipers.io.annotations.annotation_list import is_number
from calipers.io.reader import (
    Key,
    ObjectPart,
    Options,
    Problem,
    Reader,
    ReferenceFile,
    ReferenceIndex,
    Sniffed,
)
from calipers.io.source import InputFile, InputFolder, open_folder
from calipers.io.volumes.dataset_json import labels_of
from calipers.io.volumes.labels import MOST_CLASSES, LabelVolumesReader

BOXES, PICKLED = "_boxes.json", "_boxes.pkl"
INSTANCES = '"instances"'
# The arrays of a pickle, by the fields of the exported boxes.
ARRAYS = {"box": "pred_boxes", "score": "pred_scores", "label": "pred_labels"}
# The order of a box of nnDetection as ours: x0, y0[, z0], x1, y1[, z1].
ORDER = {4: (1, 0, 3, 2), 6: (4, 1, 0, 5, 3, 2)}


class NnDetectionReader(Reader):
    """A folder of nnDetection: labels with their JSON files, or exported boxes."""

    name = "nndetection"
    inputs = ("folder",)

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise boxes, or a JSON file with instances beside a volume."""
        if not isinstance(file, InputFolder):
            return None
        if file.ending(BOXES, PICKLED):
            return Sniffed(self.name, "predictions", "it has boxes of nnDetection")
        pairs = next(_sidecars(file), None)
        if pairs is None or INSTANCES not in file.open(pairs[1]).head:
            return None
        return Sniffed(self.name, "references", "its JSON files list instances, as of nnDetection")

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read every instance as an object of its class."""
        assert isinstance(file, InputFolder)
        # Of a whole data set, the folder of its labels.
        labels = labels_of(Path(file.file), "references")
        if labels != Path(file.file):
            file = open_folder(labels)
        whole = LabelVolumesReader().references(file, replace(options, labels="instances"))
        class_of = {name: _classes_of(file, sidecar) for name, sidecar in _sidecars(file)}
        part, ids = whole.part, whole.images.ids
        numbers = np.zeros(len(part.delivery), np.int64)
        values = part.delivery.facts["value"].tolist()
        for row, (image, value) in enumerate(zip(part.delivery.image.tolist(), values)):
            instances = class_of.get(ids[image], {})
            if value not in instances:
                raise InputError(
                    "the class of every instance",
                    rule="class-missing",
                    file=file.file,
                    location=f"{ids[image]}.json",
                    field="instances",
                    value=value,
                    hint="add it to the JSON file beside the volume",
                )
            numbers[row] = instances[value]
        names = _names(file, numbers)
        part = replace(part, delivery=replace(part.delivery, label=numbers))
        keys: dict[Key, int] = {k: k for k in range(len(names))}
        return ReferenceFile(whole.images, names, keys, part, self.name)

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read the boxes of all cases."""
        assert isinstance(file, InputFolder)
        names = file.ending(BOXES)
        if not names:
            raise InputError(
                f"boxes as {BOXES[1:]}",
                rule="pickle",
                file=file.file,
                value=file.ending(PICKLED)[0],
                hint="a pickle can run any program: export the boxes with "
                "nndet_boxes2nii TASK MODEL --threshold 0, or write pred_boxes, pred_scores and "
                "pred_labels of each pickle as lists to CASE_boxes.json",
            )
        rows: list[tuple[int, str, Key, list[float], float, str]] = []
        problems: list[Problem] = []
        for name in names:
            case = name[: -len(BOXES)]
            image = index.as_text.get(case, -1)
            for place, record in _records(file, name):
                box = _box(record, index.dimensions)
                score, label = record.get("score"), record.get("label")
                if box is None or score is None or not is_number(score):
                    expected = f"score, label and box of {2 * index.dimensions} numbers"
                    problems.append(
                        Problem("box-shape", place, "box", expected, str(record)[:80], origin=place)
                    )
                    continue
                if isinstance(label, bool) or not isinstance(label, int):
                    expected = "the number of a class"
                    problems.append(Problem("type", place, "label", expected, label, origin=place))
                    continue
                rows.append((image, case, label, box, score, place))
        return {"": _part(file, rows, problems, index)}


def _part(
    file: InputFolder, rows: list[Any], problems: list[Problem], index: ReferenceIndex
) -> ObjectPart:
    from calipers.io.tables.objects import unknown_names

    keys: Mapping[Key, int] = index.class_keys or {k: k for k in range(len(index.classes))}
    image = np.array([row[0] for row in rows], np.int64)
    label = np.array([keys.get(row[2], -1) for row in rows], np.int64)
    boxes = np.array([row[3] for row in rows], np.float64).reshape(-1, 2 * index.dimensions)
    score = np.array([row[4] for row in rows], np.float64)
    places = [row[5] for row in rows]
    findings: list[Finding] = [
        *unknown_names(image, [row[1] for row in rows], "image", "unknown-image", index.as_text),
        *unknown_names(label, [str(row[2]) for row in rows], "class", "unknown-category", keys),
    ]
    delivery = Delivery(image, label, boxes, "xyxy", np.arange(len(rows)), score=score)
    source = Source(file.file, lambda place, _: places[place], lambda place: places[place])
    return ObjectPart(delivery, source, findings, problems, n_dropped=len(problems))


def _sidecars(file: InputFolder) -> Iterator[tuple[str, str]]:
    """Yield the names of volumes that have a JSON file of the same name, with that file."""
    from calipers.io.volumes.open import stem_of

    for name in file.files:
        stem = stem_of(name)
        if stem is not None and f"{stem}.json" in file.files:
            yield stem, f"{stem}.json"


def _classes_of(file: InputFolder, name: str) -> dict[int, int]:
    from calipers.io.coco.walk import read_value

    document = read_value(file.open(name))
    instances = document.get("instances") if isinstance(document, dict) else None
    classes: dict[int, int] = {}
    entries: dict[str, Any] = instances if isinstance(instances, dict) else {"": None}
    for key, number in entries.items():
        is_number = isinstance(number, int) and not isinstance(number, bool)
        # Classes are counted up to the largest number: a far one would fill the memory.
        is_class = is_number and 0 <= number < MOST_CLASSES
        # Written as 01 it would be the instance 1 a second time.
        if not is_class or not (key.isascii() and key.isdigit() and key == str(int(key[:20]))):
            raise InputError(
                '{"instances": {"1": 0, ...}}',
                rule="format",
                file=f"{file.file}/{name}",
                field="instances",
                value=str(instances)[:80],
            )
        classes[int(key)] = number
    return classes


def _names(file: InputFolder, numbers: Any) -> tuple[str, ...]:
    from calipers.io.volumes.dataset_json import read_names

    dataset = read_names(Path(file.file))
    n_classes = int(numbers.max(initial=0)) + 1
    names = {} if dataset is None else dataset.names
    if dataset is None or not set(range(max(n_classes, len(names)))) <= set(names):
        return tuple(str(k) for k in range(n_classes))
    file.notes.append(dataset.note)
    return tuple(names[k] for k in range(len(names)))


def _records(file: InputFolder, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    from calipers.io.coco.walk import read_value

    document = read_value(file.open(name))
    if not isinstance(document, dict):
        raise InputError("an object of numbered boxes", rule="format", file=f"{file.file}/{name}")
    if set(ARRAYS.values()) <= set(document):
        yield from _records_of_arrays(document, f"{file.file}/{name}", name)
        return
    for key, record in document.items():
        yield f"{name}/{key}", record if isinstance(record, dict) else {}


def _records_of_arrays(
    document: Mapping[str, Any], path: str, name: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the boxes of a pickle that was written as JSON: arrays of one length."""
    arrays = {field: document[key] for field, key in ARRAYS.items()}
    lengths = {len(array) if isinstance(array, list) else -1 for array in arrays.values()}
    if len(lengths) > 1 or -1 in lengths:
        expected = f"lists {', '.join(ARRAYS.values())} of one length"
        raise InputError(expected, rule="format", file=path)
    for k in range(lengths.pop()):
        record = {field: array[k] for field, array in arrays.items()}
        # Arrays of labels are often those of floating-point numbers.
        if isinstance(record["label"], float) and record["label"].is_integer():
            record["label"] = int(record["label"])
        yield f"{name}/{ARRAYS['box']}/{k}", record


def _box(record: Mapping[str, Any], dimensions: int) -> list[float] | None:
    numbers = record.get("box")
    if not isinstance(numbers, list) or len(numbers) != 2 * dimensions:
        return None
    if not all(map(is_number, numbers)):
        return None
    box = [float(numbers[k]) for k in ORDER[2 * dimensions]]
    # The lower bounds are those of the voxel before the object.
    return [*(low + 1 for low in box[:dimensions]), *box[dimensions:]]
