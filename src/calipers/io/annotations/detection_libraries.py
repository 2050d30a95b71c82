# SPDX-License-Identifier: Apache-2.0
"""Results as detection libraries dump them: ``ultralytics``, ``torchvision`` and ``detectron2``.

- ``ultralytics``: what ``results.to_json()`` returns, for one image: a list of boxes with
  ``"name": "polyp", "class": 0, "confidence": 0.9, "box": {"x1": 1, "y1": 2, "x2": 3, "y2": 4}``.
  It does not name the image, so a file is called after it; or one JSON file is an object of such
  lists by the names of the images.
- ``torchvision``: ``{"boxes": [[x1, y1, x2, y2], ...], "labels": [...], "scores": [...]}`` for one
  image, as JSON or as an npz archive called after it; or one JSON file with all images: an object
  by name, a list with ``image_id`` in every entry, or a list with an entry for every image of the
  references, sorted by id.
- ``detectron2``: what its evaluator holds, ``[{"image_id": 1, "instances": [...]}]`` with COCO
  results inside. It saves that as ``instances_predictions.pth``; here it is JSON. Classes are
  counted from 0 in the order of the category ids.

detectron2 also writes COCO results (``coco_instances_results.json``), which the format ``coco``
reads. Files of PyTorch (``.pt``, ``.pth``) are pickles and never opened. `calipers.io.read` calls
these readers for predictions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from calipers.errors import InputError
from calipers.io.annotations.annotation_list import (
    AnnotationList,
    Box,
    ImageNames,
    RecordPlace,
    first_file,
    image_files,
    is_number,
)
from calipers.io.reader import Key, ObjectPart, Options, Reader, ReferenceIndex, Sniffed
from calipers.io.source import InputFile, InputFolder

SUFFIX, ARCHIVE = ".json", ".npz"
CORNERS = ("x1", "y1", "x2", "y2")
ULTRALYTICS = re.compile(r'^\[\s*\{[^{}\[\]]*"(?:name|class|confidence)"', re.DOTALL)
LISTS_BY_IMAGE = re.compile(r'^\{\s*"[^"]*"\s*:\s*\[')
BOX_OF_CORNERS = re.compile(r'"box"\s*:\s*\{\s*"x1"')
BOXES_AND_SCORES = re.compile(r'"boxes"\s*:\s*\[')
TORCHVISION_SCORES = re.compile(r'"scores"\s*:\s*\[')
COLUMNS = ("boxes", "labels", "scores")
IN_ORDER = "entries name no image: they are read as the images of the references, sorted by id"
BY_IMAGE = re.compile(r'^\[\s*\{\s*"image_id"\s*:[^{}\[\]]*"instances"\s*:\s*\[', re.DOTALL)


class UltralyticsReader(Reader):
    """JSON of ultralytics results: a folder with a file per image, the file of one image, or one of
    all images by name.
    """

    name = "ultralytics"
    roles = ("predictions",)
    inputs = ("folder", "file")

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise a list of boxes with corners by name."""
        first = first_file(file, SUFFIX)
        if first is None or not (ULTRALYTICS.match(first.head) or LISTS_BY_IMAGE.match(first.head)):
            return None
        if not BOX_OF_CORNERS.search(first.head):
            return None
        return Sniffed(self.name, "predictions", "its boxes are those of ultralytics results")

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read every file as the boxes of one image, or of all."""
        rows, names = AnnotationList(file, options), ImageNames(index, file.file)
        for name, where, records in _lists_of_boxes(file):
            image = names.only(name, where)
            for k, record in enumerate(records):
                place = RecordPlace(f"{where}/{k}", str(record)[:2000])
                box, score = _named_box(record), _number(record, "confidence")
                if box is None or score is None:
                    expected = "confidence, and a box with x1, y1, x2, y2"
                    rows.reject(place, "box-shape", expected, str(record)[:80])
                    continue
                label = record.get("name", record.get("class"))
                rows.add(image, _known(label, index), box, place, image_name=name, score=score)
        return {"": rows.predictions(index, _labels(index))}


class TorchvisionReader(Reader):
    """Results of torchvision: JSON of one or many images, or npz archives of one image each."""

    name = "torchvision"
    roles = ("predictions",)
    inputs = ("folder", "file")

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise boxes and scores side by side."""
        if isinstance(file, InputFolder) and not file.ending(SUFFIX):
            names = file.ending(ARCHIVE)
            if not names or not set(COLUMNS) <= _members(Path(file.files[names[0]])):
                return None
            return Sniffed(self.name, "predictions", "its archives hold boxes, labels and scores")
        first = first_file(file, SUFFIX)
        if first is None or not BOXES_AND_SCORES.search(first.head):
            return None
        tail = bytes(first.data[-4096:]).decode("utf-8", "replace")
        if not TORCHVISION_SCORES.search(first.head + tail) or '"categories"' in first.head:
            return None
        return Sniffed(self.name, "predictions", "it has boxes, labels and scores of torchvision")

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read the boxes of every image."""
        rows, names = AnnotationList(file, options), ImageNames(index, file.file)
        if isinstance(file, InputFolder):
            rows.further_files += file.ending(ARCHIVE)
        for name, place, columns in _images(file, index, rows.notes):
            image = names.only(name, place)
            for k, (box, label, score) in enumerate(_zipped(columns, place)):
                where = RecordPlace(f"{place}/{k}", f"{box} {label} {score}")
                if len(box) != 4 or not all(map(is_number, (*box, score))):
                    expected = "four numbers of a box, and a score"
                    rows.reject(where, "box-shape", expected, f"{box} {score}"[:80])
                    continue
                corners: Box = (box[0], box[1], box[2], box[3])
                rows.add(
                    image,
                    _known(label, index),
                    corners,
                    where,
                    image_name=name,
                    score=float(score),
                )
        part = rows.predictions(index, _labels(index))
        return {"": replace(part, in_order=IN_ORDER in " ".join(rows.notes))}


class Detectron2Reader(Reader):
    """Results of detectron2 by image, as its evaluator holds them."""

    name = "detectron2"
    roles = ("predictions",)

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise a list of images with instances."""
        if not BY_IMAGE.match(file.head):
            return None
        return Sniffed(self.name, "predictions", "it is a list of images with instances")

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read the instances of all images."""
        from calipers.io.coco.masks import Odd, RunLengths, segmentation_of
        from calipers.io.coco.walk import read_value

        rows, names = AnnotationList(file, options), ImageNames(index, file.file)
        document = read_value(file)
        for k, entry in enumerate(document if isinstance(document, list) else [document]):
            records = entry.get("instances") if isinstance(entry, dict) else None
            key = entry.get("image_id") if isinstance(entry, dict) else None
            if not isinstance(records, list) or not isinstance(key, str | int):
                expected = "an object with image_id and a list of instances"
                raise InputError(expected, rule="format", file=file.file, location=f"/{k}")
            image = names.only(str(key), f"/{k}")
            for n, record in enumerate(records):
                place = RecordPlace(f"/{k}/instances/{n}", str(record)[:2000])
                score, label = _number(record, "score"), _number(record, "category_id")
                box: Any = record.get("bbox") if isinstance(record, dict) else None
                sides = [float(side) for side in box if is_number(side)] if _is_box(box) else []
                if len(sides) != 4 or score is None or label is None or not label.is_integer():
                    expected = "bbox with four numbers, category_id and score"
                    rows.reject(place, "box-shape", expected, str(record)[:80])
                    continue
                own_key = record.get("image_id", key)
                if str(own_key) != str(key):
                    expected = f"instances of the image {key!r}, in whose list they are"
                    rows.reject(place, "image-conflict", expected, own_key, field="image_id")
                    continue
                mask = segmentation_of(record.get("segmentation"))
                if isinstance(mask, Odd) and options.masks != "ignore":
                    field = "segmentation"
                    rows.reject(place, mask.rule, mask.expected, mask.value, field=field)
                    continue
                rows.add(
                    image,
                    int(label),
                    (sides[0], sides[1], sides[2], sides[3]),
                    place,
                    image_name=str(key),
                    score=score,
                    rings=mask if isinstance(mask, RunLengths | list) else None,
                )
        return {"": rows.predictions(index, _contiguous(index), box_format="xywh")}


def _is_box(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 4


def _contiguous(index: ReferenceIndex) -> dict[Key, int]:
    """Return classes by their number from 0, in the order of the category ids if there are any."""
    keys = index.class_keys
    if not keys or not all(isinstance(key, int) for key in keys):
        return {k: k for k in range(len(index.classes))}
    return {k: keys[key] for k, key in enumerate(sorted(keys))}


def _labels(index: ReferenceIndex) -> dict[Key, int]:
    """Return classes by name, and by number where the references have numbers."""
    labels: dict[Key, int] = {name: k for k, name in enumerate(index.classes)}
    for key, k in (index.class_keys or {}).items():
        labels.setdefault(key, k)
    return labels


def _known(label: Any, index: ReferenceIndex) -> Key:
    """Return a class as the references may know it: a name, or a number."""
    if isinstance(label, str):
        return label
    if not is_number(label):
        return str(label)
    if label != int(label):
        return str(label)
    number = int(label)
    # References without numbers have classes in order, which numbers from 0 count.
    if index.class_keys is None and 0 <= number < len(index.classes):
        return index.classes[number]
    return number


def _lists_of_boxes(file: InputFile) -> Iterator[tuple[str, str, list[Any]]]:
    """Yield the name of every image, its place in the input, and its boxes."""
    from calipers.io.coco.walk import read_value

    for source in image_files(file, SUFFIX):
        document = read_value(source.file)
        lists = [(source.key, source.name, document)]
        if isinstance(document, dict):
            lists = [(key, f"{source.name}/{key}", entry) for key, entry in document.items()]
        for name, place, records in lists:
            if not isinstance(records, list):
                raise InputError(
                    "a list of boxes", rule="format", file=source.file.file, location=place
                )
            yield name, place, records


def _named_box(record: Any) -> Box | None:
    box = record.get("box") if isinstance(record, dict) else None
    if not isinstance(box, dict) or not all(is_number(box.get(name)) for name in CORNERS):
        return None
    return float(box["x1"]), float(box["y1"]), float(box["x2"]), float(box["y2"])


def _number(record: Any, key: str) -> float | None:
    value = record.get(key) if isinstance(record, dict) else None
    return float(value) if value is not None and is_number(value) else None


def _images(
    file: InputFile, index: ReferenceIndex, notes: list[str]
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the name of every image, its place in the input, and its columns."""
    from calipers.io.coco.walk import read_value

    if isinstance(file, InputFolder):
        for name in file.ending(ARCHIVE):
            yield name[: -len(ARCHIVE)], name, _archive(Path(file.files[name]))
        for source in image_files(file, SUFFIX):
            yield source.key, source.name, _columns(read_value(source.file), source.file.file)
        return
    document = read_value(file)
    if isinstance(document, list):
        keys = [entry.get("image_id") if isinstance(entry, dict) else None for entry in document]
        if keys and not any(isinstance(entry, dict) and "image_id" in entry for entry in document):
            keys = _keys_in_order(len(document), index, file.file)
            notes.append(f"{IN_ORDER}, from {keys[0]!r} to {keys[-1]!r}")
        for k, (key, entry) in enumerate(zip(keys, document)):
            if key is None or isinstance(key, list | dict):
                raise InputError(
                    "image_id in every entry",
                    rule="missing-key",
                    file=file.file,
                    location=f"/{k}",
                    hint="write an object by image, {name: result}, or a file per image",
                )
            yield str(key), f"/{k}", _columns(entry, file.file)
    elif isinstance(document, dict) and "boxes" not in document:
        for key, entry in document.items():
            yield key, f"/{key}", _columns(entry, file.file)
    else:
        yield next(image_files(file, SUFFIX)).key, "", _columns(document, file.file)


def _keys_in_order(n: int, index: ReferenceIndex, file: str) -> list[Any]:
    """Return the images that entries without names stand for, if only one order is possible: a tool
    takes the images of a file as they come, or sorted by their ids.
    """
    keys = list(index.image_list.keys)
    # Predictions alone, of which nobody knows the images.
    if not keys:
        return list(range(n))
    expected = f"image_id in every entry, or an entry for each of the {len(keys)} images"
    value = f"{n} entries without image_id"
    hint = "write an object by image, {name: result}, or a file per image"
    is_sorted = keys == sorted(keys, key=lambda key: (isinstance(key, str), key))
    if n == len(keys) and not is_sorted:
        expected = "image_id in every entry: the ids of the references are not sorted, so there is "
        expected += "more than one order"
    if n != len(keys) or not is_sorted:
        raise InputError(expected, rule="missing-key", file=file, value=value, hint=hint)
    return keys


def _columns(entry: Any, file: str) -> Mapping[str, Any]:
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), list) for key in COLUMNS):
        raise InputError(f"the lists {', '.join(COLUMNS)}", rule="missing-key", file=file)
    return entry


def _zipped(columns: Mapping[str, Any], place: str) -> Iterator[tuple[Sequence[float], Any, Any]]:
    lengths = {len(columns[key]) for key in COLUMNS}
    if len(lengths) != 1:
        raise InputError(
            f"{', '.join(COLUMNS)} of one length",
            rule="length",
            location=place,
            value=[len(columns[key]) for key in COLUMNS],
        )
    for box, label, score in zip(*(columns[key] for key in COLUMNS)):
        yield (box if isinstance(box, list) else [math.nan]), label, score


def _members(path: Path) -> set[str]:
    """Return the names of the arrays of an archive; none of a file that is no archive."""
    import zipfile

    from calipers.io.volumes.numpy import check_directory, members_of

    try:
        with path.open("rb") as stream:
            check_directory(stream, str(path))
            with zipfile.ZipFile(stream) as archive:
                return set(members_of(archive, str(path)))
    except (OSError, zipfile.BadZipFile, InputError):
        return set()


def _archive(path: Path) -> Mapping[str, Any]:
    """Return the arrays of an archive as lists; nothing is unpickled."""
    import zipfile

    from calipers.io.volumes.numpy import (
        as_array,
        check_directory,
        check_numbers,
        members_of,
        read_layout,
    )
    from calipers.io.volumes.volume import DEFAULT, check_packed, fill, guarded

    columns = {}
    file = str(path)
    with guarded(file), path.open("rb") as stream:
        check_directory(stream, file)
        with zipfile.ZipFile(stream) as archive:
            members = members_of(archive, file)
            for key in COLUMNS:
                if key not in members:
                    raise InputError(f"an array {key!r}", rule="volume-member", file=file)
                check_packed(members[key].file_size, members[key].compress_size, file, DEFAULT)
                with archive.open(members[key]) as member:
                    layout = read_layout(member, file)
                    check_numbers(layout, file)
                    columns[key] = as_array(fill(member, layout.count, file), layout).tolist()
    return columns
