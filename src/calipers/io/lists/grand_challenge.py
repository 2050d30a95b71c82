# SPDX-License-Identifier: Apache-2.0
"""The format ``grand-challenge``: "Multiple 2D bounding boxes" of grand-challenge.org.

An algorithm writes an object with ``"type": "Multiple 2D bounding boxes"`` and ``boxes``, each with
four ``corners`` ``[x, y, z]`` and a ``probability`` (NODE21: ``nodules.json``). An evaluation gets
a list of jobs, ``predictions.json``: each has ``inputs`` with the image and ``outputs`` with such
an object as ``value``, or in a file ``PK/output/RELATIVE_PATH`` beside the list, where ``pk`` is
that of the job and ``relative_path`` that of the ``interface`` of the output. A folder is one with
such a list, or one with an object per image. See the documentation of grand-challenge.org,
"Interfaces".

`calipers.io.read` calls `GrandChallengeReader`. Predictions are of the only class of the
references, unless the boxes have a ``name``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from calipers.errors import InputError
from calipers.io.annotations.annotation_list import (
    AnnotationList,
    Box,
    ImageNames,
    RecordPlace,
    is_number,
)
from calipers.io.reader import Key, ObjectPart, Options, Reader, ReferenceIndex, Sniffed
from calipers.io.source import InputFile, InputFolder

KIND = "Multiple 2D bounding boxes"
LIST, OUTPUT, SUFFIX = "predictions.json", "output", ".json"
SUCCEEDED = ("Succeeded", "succeeded")
DOCUMENT = re.compile(r'"type"\s*:\s*"Multiple 2D bounding boxes"')
JOB = re.compile(r'"outputs"\s*:\s*\[')
INPUTS = re.compile(r'"inputs"\s*:\s*\[')


class GrandChallengeReader(Reader):
    """Boxes of grand-challenge.org as predictions.

    Notes
    -----
    In a list of jobs, the image is the one that the job names. In a single object, the third
    coordinate of the corners names it, as in the stacked images of NODE21: the references have to
    call their images 0, 1, 2, ... In a folder of objects, an image is called like its file, or like
    the folder of its file where all files have the same name. Corners are in the millimetres of the
    image; they are read as pixels, which is right for images with a spacing of 1.
    """

    name = "grand-challenge"
    roles = ("predictions",)
    inputs = ("file", "folder")

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the type of an object, or a list of jobs."""
        if isinstance(file, InputFolder):
            names = file.ending(SUFFIX)
            first = LIST if LIST in file.files else next(iter(names), None)
            return None if first is None else self.sniff(file.open(first))
        head = file.head
        if head[:1] == "{" and DOCUMENT.search(head):
            return Sniffed(self.name, "predictions", f'its type is "{KIND}"')
        if head[:1] == "[" and JOB.search(head) and INPUTS.search(head):
            return Sniffed(self.name, "predictions", "it is a list of jobs of grand-challenge.org")
        return None

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read the boxes of one object, or of all jobs."""
        from calipers.io.coco.walk import read_value

        rows = AnnotationList(file, options)
        boxes = _Boxes(rows, ImageNames(index, file.file), index.classes)
        folder = file if isinstance(file, InputFolder) else None
        if folder is not None and LIST not in folder.files:
            for name, image in _named_images(folder).items():
                boxes.names.only(image, name)
                boxes.enter(read_value(folder.open(name)), name, image)
        else:
            value = read_value(file if folder is None else folder.open(LIST))
            if isinstance(value, list):
                for pointer, image, document in _documents(file, value, folder):
                    boxes.names.only(image, pointer)
                    boxes.enter(document, pointer, image)
            else:
                boxes.enter(value, "", None)
        labels: dict[Key, int] = {name: k for k, name in enumerate(index.classes)}
        return {"": rows.predictions(index, labels)}


def _named_images(folder: InputFolder) -> dict[str, str]:
    """Return the files of a folder with an object per image, and the names of their images."""
    names = folder.ending(SUFFIX)
    last_parts = {name.rsplit("/", 1)[-1] for name in names}
    # One algorithm gives the results of all images one name, and each a folder.
    is_same = len(last_parts) == 1 and len(names) > 1
    images = {}
    for name in names:
        parts = name[: -len(SUFFIX)].split("/")
        if is_same:
            parts = [part for part in parts[:-1] if part != OUTPUT]
        images[name] = "/".join(parts)
    return images


def _documents(
    file: InputFile, jobs: list[Any], folder: InputFolder | None
) -> Iterator[tuple[str, str, Any]]:
    """Yield (pointer, image, object with boxes) of every job."""
    for k, job in enumerate(jobs):
        pointer = f"/{k}"
        if not isinstance(job, dict):
            raise _error(file, "a job with inputs and outputs", pointer, job)
        status = job.get("status", SUCCEEDED[0])
        if status not in SUCCEEDED:
            raise _error(file, "a job that succeeded", f"{pointer}/status", status)
        values = []
        is_elsewhere = False
        for n, output in enumerate(_entries(file, job, "outputs", pointer)):
            value, place = output.get("value"), f"{pointer}/outputs/{n}/value"
            path = _stored_at(job, output)
            if value is None and path:
                is_elsewhere = True
                if folder is not None and path in folder.files:
                    value, place = _read_object(folder, path), path
            if isinstance(value, dict) and value.get("type") == KIND:
                values.append((place, value))
        if len(values) != 1:
            expected = f'one output with a value of type "{KIND}"'
            hint = ""
            if is_elsewhere:
                hint = "the values lie in files: give the folder that has the list and these files"
            raise _error(file, expected, f"{pointer}/outputs", f"{len(values)}", hint)
        yield values[0][0], _image_of(file, job, pointer), values[0][1]


def _stored_at(job: dict[str, Any], output: dict[str, Any]) -> str:
    """Return the file of an output that is not in the list itself, empty if none is named."""
    # The names of today and those of later versions of the list.
    interface = output.get("interface", output.get("socket"))
    path = interface.get("relative_path") if isinstance(interface, dict) else None
    key = job.get("pk")
    if not isinstance(path, str) or not isinstance(key, str) or not path.endswith(SUFFIX):
        return ""
    return f"{key}/{OUTPUT}/{path}"


def _read_object(folder: InputFolder, path: str) -> Any:
    from calipers.io.coco.walk import read_value

    return read_value(folder.open(path))


def _image_of(file: InputFile, job: dict[str, Any], pointer: str) -> str:
    """Return the name of the only image among the inputs of a job."""
    names = []
    for entry in _entries(file, job, "inputs", pointer):
        image = entry.get("image")
        if isinstance(image, dict) and isinstance(image.get("name"), str):
            names.append(image["name"])
    if len(names) != 1:
        raise _error(file, "one input with an image", f"{pointer}/inputs", f"{len(names)}")
    return str(names[0])


def _entries(file: InputFile, job: dict[str, Any], key: str, pointer: str) -> list[dict[str, Any]]:
    entries = job.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _error(file, "a list of objects", f"{pointer}/{key}", entries)
    return entries


class _Boxes:
    """Enters the boxes of objects into the rows of a file."""

    def __init__(self, rows: AnnotationList, names: ImageNames, classes: tuple[str, ...]) -> None:
        self.rows, self.names, self.classes = rows, names, classes

    def enter(self, document: Any, pointer: str, image: str | None) -> None:
        """Enter all boxes of an object; without an image the corners say which it is."""
        file = self.rows.file
        if not isinstance(document, dict) or document.get("type") != KIND:
            kind = document.get("type") if isinstance(document, dict) else document
            raise _error(file, f'an object of type "{KIND}"', f"{pointer}/type", kind)
        boxes = document.get("boxes")
        if not isinstance(boxes, list):
            raise _error(file, "a list of boxes", f"{pointer}/boxes", boxes)
        for k, box in enumerate(boxes):
            self._enter_box(box, RecordPlace(f"{pointer}/boxes/{k}", str(box)[:2000]), image)

    def _enter_box(self, box: Any, place: RecordPlace, image: str | None) -> None:
        corners: Any = box.get("corners") if isinstance(box, dict) else None
        if not _are_corners(corners):
            expected = "four corners [x, y, z] on one slice"
            self.rows.reject(place, "box-shape", expected, corners, field="corners")
            return
        score = box.get("probability")
        if not is_number(score):
            self.rows.reject(place, "score-missing", "a probability", score, field="probability")
            return
        label = self._label(box)
        if label is None:
            expected = f"a name, one of the classes {', '.join(self.classes[:8])}"
            self.rows.reject(place, "class-missing", expected, box.get("name"), field="name")
            return
        slice_number = corners[0][2]
        if image is None and slice_number != int(slice_number):
            expected = "corners whose third number is that of an image: 0, 1, 2, ..."
            self.rows.reject(place, "box-shape", expected, slice_number, field="corners")
            return
        image_name = str(int(slice_number)) if image is None else image
        xs, ys = [point[0] for point in corners], [point[1] for point in corners]
        corners_of_box: Box = (float(min(xs)), float(min(ys)), float(max(xs)), float(max(ys)))
        self.rows.add(
            self.names.find(image_name),
            label,
            corners_of_box,
            place,
            image_name=image_name,
            score=float(score),
        )

    def _label(self, box: dict[str, Any]) -> str | None:
        """Return the class of a box: its name, else the only one that there is."""
        name = box.get("name")
        if isinstance(name, str) and name in self.classes:
            return name
        # Without references nobody knows whether a name is that of a class or of a finding.
        if not self.classes:
            return "finding"
        # With one class, names of boxes are names of findings ("nodule 1").
        return self.classes[0] if len(self.classes) == 1 else None


def _are_corners(corners: Any) -> bool:
    """Return whether a value is four points with a third coordinate, all on the same slice."""
    if not isinstance(corners, list) or len(corners) != 4:
        return False
    for point in corners:
        if not isinstance(point, list) or len(point) != 3 or not all(map(is_number, point)):
            return False
    return len({point[2] for point in corners}) == 1


def _error(
    file: InputFile, expected: str, location: str, value: object, hint: str = ""
) -> InputError:
    return InputError(
        expected, rule="type", file=file.file, location=location, value=value, hint=hint
    )
