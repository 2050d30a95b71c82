# SPDX-License-Identifier: Apache-2.0
"""The format ``label-studio``: the JSON export of Label Studio, as references or predictions.

The export is a list of tasks, one per image, with ``annotations`` by people and ``predictions`` by
models. Each holds a ``result``: regions with a ``value`` in percent of the image, and the size of
the image in pixels beside it. What was painted with a brush is packed (``rle``), or is a PNG file
with a transparent background (``imageDataURL``). References are the annotations; predictions are
those of the tasks, with the ``score`` of each region, else that of the whole prediction. The export
"JSON-MIN" has a record for every annotation, in which the regions stand beside the data of the
task; it is read as the tasks that it came from (`_whole_tasks`).

`calipers.io.read` calls `LabelStudioReader`. A task that nobody annotated is no image without
objects, and is left out. Several annotations of one task are those of several readers
(``completed_by``), for which `calipers.io.consensus` has rules. A task whose shapes lie on several
pictures or pages is refused: all of them would become objects of one image.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calipers.errors import InputError
from calipers.io.annotations.annotation_list import (
    NAN,
    AnnotatedImage,
    AnnotationList,
    Box,
    ImageNames,
    Polygons,
    RecordPlace,
    bounding_box,
    ellipse_box,
    image_side,
    is_number,
    rotated_corners,
)
from calipers.io.consensus import Readings
from calipers.io.reader import (
    Key,
    ObjectPart,
    Options,
    Reader,
    ReferenceFile,
    ReferenceIndex,
    Sniffed,
)
from calipers.io.source import InputFile

if TYPE_CHECKING:
    from calipers.io.coco.masks import RunLengths

    Outline = Polygons | RunLengths | None

REGIONS = re.compile(r'"(?:annotations|completions|predictions)"\s*:\s*\[')
TASK = re.compile(r'"data"\s*:\s*\{')
FLAT = re.compile(r'"(?:rectangle|polygon|ellipse|brush|bitmask)labels"\s*:')
SCORED = re.compile(r'"predictions"\s*:\s*\[\s*\{')
# Before the name of an uploaded picture Label Studio writes eight signs of its own.
UPLOADED = re.compile(r"\A[0-9a-f]{8}-(?=.)")
PICTURE = re.compile(r"\.(?:png|jpe?g|jfif|bmp|gif|tiff?|webp|avif|svg|dcm)\Z", re.IGNORECASE)
LABELS = (
    "rectanglelabels",
    "polygonlabels",
    "ellipselabels",
    "brushlabels",
    "bitmasklabels",
    "labels",
)
SHAPE_LABELS = LABELS[:-1]  # of regions that have a place in the image
RECTANGLE, POLYGON, ELLIPSE, BRUSH = "rectangle", "polygon", "ellipse", "brush"
BITMASK = "data:image/png;base64,"
# Of a record of "JSON-MIN": what is no data of the task.
ABOUT_RECORD = ("annotator", "created_at", "updated_at")
# What tells regions of one record apart.
PLACE = ("x", "y", "width", "height", "rotation", "radiusX", "radiusY", "points", "rle")
# What stands beside the value of a region, and within it in "JSON-MIN".
BESIDE = ("original_width", "original_height", "item_index")
# Regions without extent, and those of films.
OTHER_SHAPES = ("keypoint", "keypointlabels", "vector", "vectorlabels", "videorectangle")


class LabelStudioReader(Reader):
    """The JSON export of Label Studio.

    Notes
    -----
    An image is called like the file that its task names, without folders and without the eight
    signs that Label Studio writes before the name of an uploaded file. Classes are the labels, in
    alphabetical order.
    """

    name = "label-studio"
    holds_both = True

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise a list of tasks."""
        head = file.head
        if head[:1] != "[":
            return None
        if FLAT.search(head) or (TASK.search(head) and REGIONS.search(head)):
            role = "unknown" if SCORED.search(head) else "references"
            return Sniffed(self.name, role, "its JSON is a list of tasks, as of Label Studio")
        return None

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read the annotations of all tasks."""
        rows = AnnotationList(file, options)
        images: list[AnnotatedImage] = []
        tasks = list(_tasks(file))
        answers = [task for task in tasks if task.annotations()]
        has_readers = any(len(task.annotations()) > 1 for task in answers)
        for image, task in enumerate(answers):
            width, height = task.enter(rows, image, task.annotations(), by_reader=has_readers)
            images.append(AnnotatedImage(task.name, width, height, task.name))
        if len(answers) < len(tasks):
            rows.notes.append(f"{len(tasks) - len(answers)} tasks without annotation are left out")
        references = rows.references(self.name, images)
        return replace(references, readings=_readings(answers)) if has_readers else references

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read the predictions of all tasks."""
        rows = AnnotationList(file, options)
        names = ImageNames(index, file.file)
        for task in _tasks(file):
            predictions = task.predictions()
            if len(predictions) > 1:
                raise InputError(
                    "one prediction of each task",
                    rule="wrong-role",
                    file=file.file,
                    location=f"{task.pointer}/predictions",
                    value=f"{len(predictions)} predictions of {task.name}",
                    hint="export the predictions of one model version",
                )
            image = names.only(task.name, task.pointer)
            size = task.enter(rows, image, predictions, scored=True)
            task.require_same_size(index, image, size)
        if not rows.entries and not rows.problems:
            raise InputError(
                "predictions of tasks, which have scores", rule="score-missing", file=file.file
            )
        labels: dict[Key, int] = {name: k for k, name in enumerate(index.classes)}
        return {"": rows.predictions(index, labels)}


def _tasks(file: InputFile) -> Iterator[_Task]:
    from calipers.io.coco.walk import read_value

    value = read_value(file)
    if not isinstance(value, list):
        raise InputError("a list of tasks", rule="format", file=file.file, location="/")
    # Either all entries are tasks, or all are records of the short form.
    if value and all(isinstance(task, dict) and "data" not in task for task in value):
        for place, task in _whole_tasks(value, file.file):
            yield _Task(file, place, task, is_short=True)
        return
    for k, task in enumerate(value):
        if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
            raise InputError(
                "a task with data",
                rule="format",
                file=file.file,
                location=f"/{k}",
                hint='export as "JSON"',
            )
        yield _Task(file, f"/{k}", task)


def _whole_tasks(
    records: Sequence[dict[str, Any]], file: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tasks behind records of "JSON-MIN", with the places of their first records: a
    record is one annotation, and several of one task have its id.

    Raises
    ------
    InputError
        Records of one id have different pictures.
    """
    tasks: dict[str, tuple[str, dict[str, Any]]] = {}
    for k, record in enumerate(records):
        data: dict[str, Any] = {}
        regions: list[Any] = []
        for name, value in record.items():
            if isinstance(value, str) and name not in ABOUT_RECORD:
                data[name] = value
            elif isinstance(value, list):
                regions += [_whole_region(entry, name) for entry in value]
                if value and all(isinstance(entry, str) for entry in value):
                    data[name] = value  # the pages of a task
        annotation = {"completed_by": record.get("annotator"), "result": regions}
        key = str(record.get("id", f"record {k}"))
        place, task = tasks.setdefault(key, (f"/{k}", {"data": data, "annotations": []}))
        first = task["data"]
        for name in (_picture_key(first), *_pictures(first)):
            if _paths(data.get(name)) != _paths(first.get(name)):
                raise InputError(
                    f"the picture of {place}, which has the same id",
                    rule="image-conflict",
                    file=file,
                    location=f"/{k}",
                    field=name,
                    value=data.get(name),
                    hint="tasks of several projects need ids of their own",
                )
        task["annotations"].append(annotation)
    yield from tasks.values()


def _whole_region(entry: Any, name: str) -> Any:
    """Return an entry of a record as a region, whose value lacks the sizes and the type.

    A shape and its copy with a label have no id in common here, but their place.
    """
    if not isinstance(entry, dict):
        return {"type": name, "value": {}}
    kind = next((label for label in (*LABELS, *OTHER_SHAPES) if label in entry), name)
    if "sequence" in entry:
        kind = "videorectangle"
    place = [entry.get(key) for key in (*PLACE, "item_index")]
    beside = {key: entry[key] for key in BESIDE if key in entry}
    return {"id": str(place), "type": kind, "value": entry, **beside}


def _readings(tasks: Sequence[_Task]) -> Readings:
    """Return who annotated which image.

    Raises
    ------
    InputError
        One person annotated an image twice: their boxes are one finding, and no rule says which.
    """
    pairs: dict[tuple[int, str], str] = {}
    second = ""
    for image, task in enumerate(tasks):
        annotations = task.annotations()
        for pointer, entry in annotations:
            pair = (image, task.reader(entry))
            if pair in pairs:
                raise InputError(
                    "at most one annotation of an image by the same person",
                    rule="several-readers",
                    file=task.file.file,
                    location=pointer,
                    field="completed_by",
                    value=pair[1],
                    hint="delete the older annotation in Label Studio, and export again",
                )
            pairs[pair] = pointer
        if len(annotations) > 1 and not second:
            second = annotations[1][0]
    names = tuple(dict.fromkeys(name for _, name in pairs))
    image_of = np.array([image for image, _ in pairs], np.int64)
    reader_of = np.array([names.index(name) for _, name in pairs], np.int64)
    return Readings("completed_by", names, image_of, reader_of, len(tasks), second)


class _Task:
    """One task: an image with what people and models say about it."""

    def __init__(
        self, file: InputFile, pointer: str, task: dict[str, Any], *, is_short: bool = False
    ) -> None:
        self.file, self.pointer, self.task = file, pointer, task
        self.is_short = is_short  # whether it is put together from records of "JSON-MIN"
        self.name = self._image_name()
        self.width = self.height = NAN

    def annotations(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the annotations that were not cancelled, with their places."""
        key = "annotations" if "annotations" in self.task else "completions"
        entries = []
        for pointer, entry in self._entries(key):
            is_cancelled = entry.get("was_cancelled")
            if is_cancelled not in (None, False, True):
                raise self._error("true or false", f"{pointer}/was_cancelled")
            if not is_cancelled:
                entries.append((pointer, entry))
        return entries

    def predictions(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the predictions with their places."""
        return self._entries("predictions")

    def enter(
        self,
        rows: AnnotationList,
        image: int,
        entries: list[tuple[str, dict[str, Any]]],
        *,
        scored: bool = False,
        by_reader: bool = False,
    ) -> tuple[float, float]:
        """Enter all regions, and return the size of the image."""
        self._require_one_image(entries)
        for pointer, entry in entries:
            result = entry.get("result")
            if not isinstance(result, list):
                raise self._error("a list of regions", f"{pointer}/result")
            labelled_ids = _labelled_ids(result)
            for k, region in enumerate(result):
                place = RecordPlace(f"{pointer}/result/{k}", str(region)[:2000])
                shape = self._shape(rows, region, place, labelled_ids)
                if shape is None:
                    continue
                label, box, rings = shape
                if not scored:
                    reader = self.reader(entry) if by_reader else ""
                    rows.add(image, label, box, place, rings=rings, reader=reader)
                    continue
                score = region.get("score", entry.get("score"))
                if not is_number(score):
                    rows.reject(place, "score-missing", "a score", score, field="score")
                    continue
                rows.add(
                    image,
                    label,
                    box,
                    place,
                    image_name=self.name,
                    score=float(score),
                    rings=rings,
                )
        return self.width, self.height

    def require_same_size(
        self, index: ReferenceIndex, image: int, size: tuple[float, float]
    ) -> None:
        """Raise if the references state another size: percent are turned into pixels by it."""
        differs = index.other_sizes(np.array([image]), np.array([size]))[0]
        for axis in np.flatnonzero(differs).tolist():
            place = f"{self.pointer}/predictions"
            raise index.size_conflict(image, axis, size[axis], self.file.file, place)

    def _require_one_image(self, entries: list[tuple[str, dict[str, Any]]]) -> None:
        """Raise if not all shapes lie on the image by which the task is called.

        Only shapes count: choices and texts may be about other parts of the task.
        """
        tag: str | None = None  # the element of the labelling interface on which shapes lie
        place = ""
        for place, region in _shapes(entries):
            # Pages of a task are numbered from 0.
            if region.get("item_index") not in (None, 0):
                raise self._other_image(place, "item_index", region["item_index"])
            if region.get("to_name") is None:
                continue
            name = str(region["to_name"])
            if tag is not None and name != tag:
                raise self._other_image(place, "to_name", f"{name}, after {tag}")
            tag = name
        data = self.task["data"]
        pictures, key = _pictures(data), _picture_key(data)
        if not place or not _has_several(pictures):
            return
        # An element need not be called like the data that it shows; "image" is what it shows
        # unless it is called like another picture.
        is_known = tag is not None and key == "image" and tag not in pictures
        if tag != key and not is_known:
            came = f"{tag or 'no name'}; pictures in {', '.join(pictures)}"
            raise self._other_image(place, "to_name", came)

    def _other_image(self, place: str, field: str, value: object) -> InputError:
        hint = "annotate each image or page in a task of its own, or keep one of each task"
        if self.is_short:
            hint = f'"JSON-MIN" does not say where a shape lies: export as "JSON"; {hint}'
        return InputError(
            f"one image of each task, on which all shapes of {self.pointer} lie",
            rule="image-conflict",
            file=self.file.file,
            location=place,
            field=field,
            value=value,
            hint=hint,
        )

    def reader(self, annotation: dict[str, Any]) -> str:
        """Return who made an annotation: an address of mail, else a number."""
        person = annotation.get("completed_by")
        if isinstance(person, dict):
            person = person.get("email") or person.get("id")
        if not isinstance(person, str | int) or isinstance(person, bool):
            raise self._error(
                "the person who made it in completed_by", f"{self.pointer}/annotations"
            )
        return str(person)

    def _shape(
        self, rows: AnnotationList, region: Any, place: RecordPlace, labelled_ids: set[str]
    ) -> tuple[str, Box, Outline] | None:
        """Return the label, the box and the outline of a region; None for one that is no object."""
        if not isinstance(region, dict) or not isinstance(region.get("value"), dict):
            # Relations between regions have no value.
            if not isinstance(region, dict) or region.get("type") != "relation":
                rows.reject(place, "type", "a region with a value", region, field="value")
            return None
        value, kind = region["value"], _kind(region["value"])
        if region.get("type") in OTHER_SHAPES:
            rows.reject(
                place,
                "shape-kind",
                "a rectangle, a polygon, an ellipse or a painted mask",
                region["type"],
                field="type",
                hint="--lenient sets such regions aside",
            )
            return None
        # What its type or its labels call a shape is not taken for a choice about the image.
        if not kind and (region.get("type") in SHAPE_LABELS or set(SHAPE_LABELS) & set(value)):
            rows.reject(place, "box-shape", "the numbers of a shape", value, field="value")
            return None
        for name in LABELS:
            # A text would be no list of labels, and the region would be taken for one without any.
            if not isinstance(value.get(name, []), list):
                rows.reject(place, "type", "a list of labels", value[name], field=name)
                return None
        labels = _labels(value)
        # Choices and texts about the whole image have no place in it; and a shape without label is
        # followed by one with the same id and a label.
        if not kind or (labels is None and str(region.get("id")) in labelled_ids):
            return None
        if labels is None or len(labels) != 1 or not isinstance(labels[0], str) or not labels[0]:
            rows.reject(place, "class-missing", "one label", labels, field="labels")
            return None
        outline = self._outline(rows, kind, region, place)
        return None if outline is None else (labels[0], *outline)

    def _outline(
        self, rows: AnnotationList, kind: str, region: dict[str, Any], place: RecordPlace
    ) -> tuple[Box, Outline] | None:
        """Return the outline of a region in pixels."""
        width, height = self._size(region, place)
        value = region["value"]
        if region.get("image_rotation") not in (None, 0):
            rows.reject(
                place,
                "shape-kind",
                "an image that is not rotated",
                region["image_rotation"],
                field="image_rotation",
            )
            return None
        if kind == BRUSH:
            return self._painted(rows, value, (int(width), int(height)), place)
        if kind == POLYGON:
            return _polygon(rows, value, (width, height), place)
        names = (
            ("x", "y", "radiusX", "radiusY") if kind == ELLIPSE else ("x", "y", "width", "height")
        )
        numbers = []
        for name, side in zip(names, (width, height, width, height)):
            if not is_number(value.get(name)):
                rows.reject(place, "type", "a number in percent", value.get(name), field=name)
                return None
            numbers.append(float(value[name]) * side / 100.0)
        angle = value.get("rotation")
        if angle is None:
            angle = 0.0
        if not is_number(angle):
            rows.reject(place, "type", "an angle", angle, field="rotation")
            return None
        x, y, w, h = numbers
        if kind == ELLIPSE and min(w, h) < 0:
            expected = "radii that are not negative"
            rows.reject(place, "neg-size", expected, [w, h], field="radiusX")
            return None
        if kind == ELLIPSE:
            return ellipse_box((x, y), (w, h), float(angle)), None
        box = (x, y, x + w, y + h)
        if not angle:
            return box, None
        # Label Studio turns rectangles about their first corner.
        ring = rotated_corners(box, float(angle), (x, y))
        return bounding_box([ring]), [ring]

    def _painted(
        self,
        rows: AnnotationList,
        value: dict[str, Any],
        size: tuple[int, int],
        place: RecordPlace,
    ) -> tuple[Box, RunLengths | None] | None:
        """Return what was painted with a brush."""
        from calipers.io.annotations.painted import brush_runs, png_pixels, runs_of_pixels
        from calipers.io.coco.masks import Odd

        field = "rle" if "rle" in value else "imageDataURL"
        if field == "rle":
            painted = brush_runs(value["rle"], *size)
        else:
            text = value[field]
            if isinstance(text, str):
                text = text.removeprefix(BITMASK)
            pixels = png_pixels(text, alpha=True)
            if isinstance(pixels, Odd):
                painted = pixels
            elif pixels.shape != size[::-1]:
                expected = f"a mask of {size[0]} x {size[1]} pixels, as the image has"
                painted = Odd("mask-size", expected, f"{pixels.shape[1]} x {pixels.shape[0]}")
            else:
                painted = runs_of_pixels(pixels, 0, 0)
        if isinstance(painted, Odd):
            rows.painter.refuse(painted, place, field)
            return None
        return rows.painter.mask([painted], size, place, field)

    def _size(self, region: dict[str, Any], place: RecordPlace) -> tuple[float, float]:
        sides = []
        for name in ("original_width", "original_height"):
            side = region.get(name)
            if side is None and self.is_short:
                raise InputError(
                    "the size of the image, by which percent become pixels",
                    rule="image-size",
                    file=self.file.file,
                    location=place.location,
                    field=name,
                    hint='this "JSON-MIN" has none: export as "JSON"',
                )
            number = side if is_number(side) else None
            sides.append(image_side(number, self.file.file, place.location, name))
        width, height = sides
        if math.isnan(self.width):
            self.width, self.height = width, height
        if (width, height) != (self.width, self.height):
            raise InputError(
                "one size per image",
                rule="size-conflict",
                file=self.file.file,
                location=place.location,
                value=sides,
            )
        return width, height

    def _entries(self, key: str) -> list[tuple[str, dict[str, Any]]]:
        listed = self.task.get(key) or []
        pointer = f"{self.pointer}/{key}"
        if not isinstance(listed, list):
            raise self._error("a list", pointer)
        entries = []
        for k, entry in enumerate(listed):
            # Some exports only number the predictions.
            if not isinstance(entry, dict):
                raise self._error("an object with a result", f"{pointer}/{k}")
            entries.append((f"{pointer}/{k}", entry))
        return entries

    def _image_name(self) -> str:
        """Return the name of the picture without folders and without the mark of an upload."""
        data = self.task["data"]
        address = data.get(_picture_key(data))
        if not isinstance(address, str) or not address:
            raise self._error("the address of an image", f"{self.pointer}/data")
        name = _path(address).rsplit("/", 1)[-1]
        if "/upload/" in address or self.task.get("file_upload") == name:
            name = UPLOADED.sub("", name)
        if not name:
            raise self._error("the address of an image", f"{self.pointer}/data")
        return name

    def _error(self, expected: str, location: str) -> InputError:
        return InputError(expected, rule="type", file=self.file.file, location=location)


def _polygon(
    rows: AnnotationList, value: dict[str, Any], size: tuple[float, float], place: RecordPlace
) -> tuple[Box, Polygons | None] | None:
    ring: list[float] = []
    points = value["points"]
    for point in points if isinstance(points, list) else [points]:
        if not isinstance(point, list) or len(point) != 2 or not all(map(is_number, point)):
            rows.reject(place, "polygon", "points as [[x, y], ...]", point, field="points")
            return None
        ring += [point[0] * size[0] / 100.0, point[1] * size[1] / 100.0]
    if len(ring) < 6:
        rows.reject(place, "polygon", "three points or more", len(ring) // 2, field="points")
        return None
    return bounding_box([ring]), [ring]


def _kind(value: dict[str, Any]) -> str:
    """Return what a value describes, empty if it has no place in the image."""
    if "rle" in value or "imageDataURL" in value:
        return BRUSH
    if "points" in value:
        return POLYGON
    if "radiusX" in value:
        return ELLIPSE
    return RECTANGLE if "width" in value and "height" in value else ""


def _labels(value: dict[str, Any]) -> list[Any] | None:
    for name in LABELS:
        if isinstance(value.get(name), list):
            labels: list[Any] = value[name]
            return labels
    return None


def _labelled_ids(result: list[Any]) -> set[str]:
    ids = set()
    for region in result:
        value = region.get("value") if isinstance(region, dict) else None
        if isinstance(value, dict) and _labels(value) is not None:
            ids.add(str(region.get("id")))
    return ids


def _shapes(entries: list[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the regions with a place in an image, with their own places in the file."""
    for pointer, entry in entries:
        result = entry.get("result")
        for k, region in enumerate(result if isinstance(result, list) else []):
            value = region.get("value") if isinstance(region, dict) else None
            if isinstance(value, dict) and _kind(value):
                yield f"{pointer}/result/{k}", region


def _path(address: str) -> str:
    """Return an address without its query, but files of a local storage are ...?d=folder/name."""
    return address.split("?d=")[-1].split("?")[0].replace("\\", "/")


def _paths(value: object) -> list[str]:
    """Return the paths of an address, or of a list of those."""
    listed = value if isinstance(value, list) else [value]
    return [_path(text) for text in listed if isinstance(text, str)]


def _picture_key(data: Mapping[str, Any]) -> str:
    """Return the key of the data by which an image is called: "image", else that of a text."""
    texts = (key for key, value in data.items() if isinstance(value, str))
    return "image" if "image" in data else next(texts, "")


def _pictures(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the paths of the data that are pictures by their extensions."""
    pictures = {}
    for key, value in data.items():
        paths = [path for path in _paths(value) if PICTURE.search(path)]
        if paths:
            pictures[key] = paths
    return pictures


def _has_several(pictures: Mapping[str, list[str]]) -> bool:
    """Return whether there are several pictures: a name without a folder may be that of a path."""
    paths = {path for listed in pictures.values() for path in listed}
    names = {UPLOADED.sub("", path.rsplit("/", 1)[-1]) for path in paths}
    return len(names) > 1 or len([path for path in paths if "/" in path]) > 1
