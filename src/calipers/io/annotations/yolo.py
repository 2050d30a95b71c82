# SPDX-License-Identifier: Apache-2.0
"""The format ``yolo``: a folder with a text file per image, as YOLO trains on and predicts.

A line is ``class cx cy w h``, or the number of the class and the corners ``x y x y ...`` of an
outline, in fractions of the image; predictions have a score at the end of the line. So the count of
the numbers tells what a line is: an odd one has no score, an even one has one.

The names of the classes come from ``data.yaml`` or ``classes.txt`` in the folder or up to two
folders above; sizes of images from the pictures, in the folder ``images`` beside ``labels`` or
beside the text files, of which only headers are read, or else from a table: ``images.csv`` in the
folder or up to two folders above, as `calipers convert` writes it, or one of groups.

`calipers.io.read` calls `YoloReader`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calipers.errors import InputError
from calipers.io.annotations.annotation_list import (
    NAN,
    PICTURE_SUFFIXES,
    AnnotatedImage,
    AnnotationList,
    ImageNames,
    RecordPlace,
    as_number,
    bounding_box,
    numbered_lines,
    without_suffix,
)
from calipers.io.reader import (
    Key,
    ObjectPart,
    Options,
    Reader,
    ReferenceFile,
    ReferenceIndex,
    Sniffed,
)
from calipers.io.source import InputFile, InputFolder, open_folder

LABELS, PICTURES = "labels", "images"
# Text files that are no labels.
LISTS = re.compile(
    r"(?:classes|predefined_classes|labels|notes|licen[cs]e|train|val|valid|test|readme.*)\.txt"
)
YAML_SUFFIXES = (".yaml", ".yml")
# The files of names by their rank; other YAML files come last.
NAME_FILES = ("data.yaml", "data.yml", "dataset.yaml", "classes.txt", "obj.names", "classes.names")
SIZES_FILE = "images.csv"
FORMAT = "cxcywh-normalised"
CLASS = re.compile(r"\d{1,9}(?:\.0*)?", re.ASCII)
MOST_CLASSES = 4096
BOX_LENGTH = 5  # numbers of a box without score
LOOKED_AT = 20  # files by which the format is recognised
LARGEST_FRACTION = 2.0  # beyond it, numbers are no fractions of an image


class YoloReader(Reader):
    """A folder of YOLO labels, or of YOLO predictions with scores.

    Notes
    -----
    An image is called like its text file, with its path below the folder; the part ``labels`` is
    left out of it. An empty file is an image without objects, and so is a picture without a file.
    Predictions need no file for an image without any.
    """

    name = "yolo"
    inputs = ("folder",)

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise text files with lines of numbers."""
        assert isinstance(file, InputFolder)
        names = _label_files(file)
        if not names:
            return None
        names = _without_predictions(file, names)[0]
        lengths = set()
        n_lines = n_strange = 0
        for name in names[:LOOKED_AT]:
            for _, words in numbered_lines(file.open(name)):
                n_lines += 1
                if len(words) < BOX_LENGTH or not all(map(_is_number, words)):
                    n_strange += 1
                else:
                    lengths.add(len(words) % 2)
        # A broken line among others is told by its number, when the folder is read.
        if 2 * n_strange > n_lines:
            return None
        reason = "its text files hold lines of numbers, as YOLO labels do"
        if not lengths:
            # Only empty files so far: there must be something else of YOLO.
            if not _name_files(file) and not file.ending(*PICTURE_SUFFIXES):
                return None
            return Sniffed(self.name, "unknown", "its text files are empty, as YOLO labels may be")
        role = "references" if lengths == {1} else "predictions"
        return Sniffed(self.name, role, reason)

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read labels, names and the sizes of the pictures."""
        assert isinstance(file, InputFolder)
        rows = AnnotationList(file, options)
        pictures = _Pictures.of(file, rows)
        names = _class_names(file, rows)
        names_of_labels, folders = _without_predictions(file, _label_files(file))
        for folder in folders:
            rows.notes.append(f"{folder} holds predictions, with scores, and is left out")
        label_files: dict[str, str] = {}
        for name in names_of_labels:
            key = _image_of(name, LABELS)
            if key in label_files:
                raise InputError(
                    "one file of labels of each image",
                    rule="dup-file-name",
                    file=file.file,
                    value=[label_files[key], name],
                )
            label_files[key] = name
        keys = list(label_files)
        bare_keys = [key for key in pictures.files if key not in label_files]
        if bare_keys:
            rows.notes.append(
                f"{len(bare_keys)} pictures have no label file: images without objects"
            )
        images = [pictures.image(key) for key in sorted([*keys, *bare_keys])]
        lines = _LineReader(rows, options)
        n_scored = 0
        for k, image in enumerate(images):
            label_file = label_files.get(image.key)
            if label_file is None:
                continue
            for record in lines.of(file, label_file):
                if record.score is None:
                    lines.add(record, k, (image.width, image.height))
                else:
                    n_scored += 1
                    rows.reject(
                        record.place, "box-shape", "a line without score", len(record.words)
                    )
        if n_scored and not rows.entries:
            raise InputError(
                "references, which have no scores",
                rule="wrong-role",
                file=file.file,
                value=f"{n_scored} lines with a score",
                hint="are references and predictions swapped?",
            )
        if names is None:
            numbers = [int(entry.label) for entry in rows.entries]
            names = list(map(str, range(max(numbers, default=-1) + 1)))
            rows.notes.append(
                "no names of classes (data.yaml or classes.txt): classes are named by their numbers"
            )
        return rows.references(
            self.name, images, names, box_format=options.box_format or FORMAT, numbered=True
        )

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read lines with scores."""
        assert isinstance(file, InputFolder)
        rows = AnnotationList(file, options)
        labels = _classes_of_references(file, index, rows)
        images = ImageNames(index, file.file)
        lines = _LineReader(rows, options)
        n_bare = n_tracked = 0
        for name in _label_files(file):
            key = _image_of(name, LABELS)
            image = images.only(key, name)
            width, height = index.size[image, :2].tolist() if image >= 0 else (NAN, NAN)
            for record in lines.of(file, name):
                if record.score is None:
                    n_bare += 1
                    n_tracked += _is_tracked(record)
                    expected = "a score at the end of the line"
                    rows.reject(record.place, "score-missing", expected, field="score")
                else:
                    lines.add(record, image, (width, height), key)
        if n_bare and not rows.entries:
            hint = "with ultralytics, pass save_conf=True when you predict"
            if n_tracked == n_bare:
                hint = "is the last number of a line that of a track? predict without tracking"
            raise InputError(
                "predictions, which have scores",
                rule="score-missing",
                file=file.file,
                value=f"{n_bare} lines without score",
                hint=hint,
            )
        return {"": rows.predictions(index, labels, box_format=options.box_format or FORMAT)}


class _Record(NamedTuple):
    """One line: the class, its numbers, and the score if it has one."""

    words: list[str]
    label: int
    numbers: list[float]
    score: float | None
    place: RecordPlace


def _is_tracked(record: _Record) -> bool:
    """Return whether a line is a box, its score and a whole number, as ultralytics writes tracks;
    otherwise seven numbers are a triangle.
    """
    last = record.numbers[-1]
    return len(record.numbers) == BOX_LENGTH + 1 and last.is_integer() and last >= 1


class _LineReader:
    """Turns lines into objects."""

    def __init__(self, rows: AnnotationList, options: Options) -> None:
        self.rows, self.box_format = rows, options.box_format or FORMAT

    def of(self, folder: InputFolder, name: str) -> Iterator[_Record]:
        """Yield the sound lines of a file; the others are refused."""
        file = folder.open(name)
        for number, words in numbered_lines(file):
            place = RecordPlace(f"{name}:{number}", " ".join(words))
            record = self._record(words, place)
            if record is not None:
                yield record

    def add(
        self, record: _Record, image: int, size: tuple[float, float], image_name: str = ""
    ) -> None:
        """Enter an object on an image of that size."""
        score = NAN if record.score is None else record.score
        numbers = record.numbers
        if len(numbers) == BOX_LENGTH - 1:
            x, y, w, h = numbers
            self.rows.add(
                image, record.label, (x, y, w, h), record.place, image_name=image_name, score=score
            )
            return
        x0, y0, x1, y1 = bounding_box([numbers])
        scaled = [number * size[k % 2] for k, number in enumerate(numbers)]
        self.rows.add(
            image,
            record.label,
            ((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0),
            record.place,
            image_name=image_name,
            score=score,
            rings=[scaled],
        )

    def _record(self, words: list[str], place: RecordPlace) -> _Record | None:
        rows = self.rows
        numbers = []
        for word in words:
            number = as_number(word)
            if number is None:
                rows.reject(place, "type", "numbers", word)
                return None
            numbers.append(number)
        if len(words) < BOX_LENGTH:
            expected = "class cx cy w h, with a score for predictions"
            rows.reject(place, "box-shape", expected, f"{len(words)} numbers")
            return None
        if not CLASS.fullmatch(words[0]):
            rows.reject(place, "type", "the number of a class", words[0], field="class")
            return None
        label = int(float(words[0]))
        if label >= MOST_CLASSES:
            expected = f"the number of a class below {MOST_CLASSES}"
            rows.reject(place, "id-range", expected, words[0], field="class")
            return None
        score = None
        if len(numbers) % 2 == 0:
            score = numbers.pop()
        coordinates = numbers[1:]
        far = [number for number in coordinates if not abs(number) <= LARGEST_FRACTION]
        if len(coordinates) > BOX_LENGTH - 1 and self.box_format != FORMAT:
            rows.reject(
                place,
                "box-format",
                f"a box, because the format of boxes is {self.box_format}",
                f"an outline of {len(coordinates)} numbers",
            )
            return None
        if self.box_format.endswith("-normalised") and far:
            rows.reject(
                place,
                "not-normalised",
                "fractions of the image",
                far[0],
                hint="boxes in pixels: pass --box-format cxcywh, or the format that they have",
            )
            return None
        return _Record(words, label, coordinates, score, place)


class _Pictures(NamedTuple):
    """The pictures of a data set by the names of their images."""

    files: Mapping[str, tuple[str, str]]  # image -> path below its folder, real path
    sizes: Mapping[str, tuple[float, float]]  # of images without a picture, from a table

    @classmethod
    def of(cls, folder: InputFolder, rows: AnnotationList) -> _Pictures:
        """Find the pictures in the folder, else in ``images`` where it lies in ``labels``."""
        data_set, names = folder, _picture_files(folder)
        if not names:
            beside = _folder_beside(Path(folder.file))
            if beside is not None:
                place = os.path.relpath(beside, Path(folder.file).resolve())
                rows.notes.append(f"sizes of images are those of the pictures in {place}")
                folder = open_folder(beside)
                names = folder.ending(*PICTURE_SUFFIXES)
        files: dict[str, tuple[str, str]] = {}
        for name in names:
            key = without_suffix(_image_of(name, PICTURES, suffix=False))
            if key in files:
                raise InputError(
                    "one picture of each image",
                    rule="dup-file-name",
                    file=folder.file,
                    value=[files[key][0], name],
                )
            files[key] = (name, folder.files[name])
        return cls(files, {} if files else _table_of_sizes(data_set, rows))

    def image(self, key: str) -> AnnotatedImage:
        """Return an image with the size of its picture, if it has one."""
        if key not in self.files:
            return AnnotatedImage(key, *self.sizes.get(key, ()))
        from calipers.io.volumes.pictures import picture_size

        name, path = self.files[key]
        size = picture_size(Path(path))
        width, height = size or (NAN, NAN)
        return AnnotatedImage(key, width, height, name.rsplit("/", 1)[-1])


def _folder_beside(folder: Path) -> Path | None:
    """Return ``root/images/val`` for ``root/labels/val``, if there is such a folder."""
    parts = list(folder.resolve().parts)
    if LABELS not in parts:
        return None
    at = len(parts) - 1 - parts[::-1].index(LABELS)
    parts[at] = PICTURES
    beside = Path(*parts)
    return beside if beside.is_dir() else None


def _table_of_sizes(folder: InputFolder, rows: AnnotationList) -> dict[str, tuple[float, float]]:
    """Return the sizes of images from the table of the data set, if there is one with sizes."""
    if SIZES_FILE in folder.files:
        file = folder.open(SIZES_FILE)
    else:
        from calipers.io.source import open_source

        above = [place / SIZES_FILE for place in list(Path(folder.file).resolve().parents)[:2]]
        path = next((path for path in above if path.is_file()), None)
        if path is None:
            return {}
        file = open_source(path)
    from calipers.io.tables.columns import IMAGES, find_columns
    from calipers.io.tables.delimited import read_delimited
    from calipers.io.tables.table import numbers, texts

    try:
        table = read_delimited(file)
        columns = find_columns(table, IMAGES)
    except InputError:
        # Any file may have this name; without sizes labels are read as well.
        return {}
    if "width" not in columns or "height" not in columns:
        return {}
    place = os.path.relpath(file.file, Path(folder.file).resolve())
    rows.notes.append(f"sizes of images are those in {place}, sha256 {file.sha256[:16]}...")
    sides = []
    for name in ("width", "height"):
        values, bad = numbers(table, columns[name])
        for row in [*bad, *np.flatnonzero(values <= 0).tolist()]:
            value = table.columns[columns[name]][row]
            raise table.error(row, columns[name], "image-size", "a length above 0", str(value))
        sides.append(values.tolist())
    names = texts(table, columns["image"])
    return {without_suffix(name): size for name, size in zip(names, zip(*sides))}


def _label_files(folder: InputFolder) -> list[str]:
    """Return the text files that hold labels: those in folders called labels, if there are any."""
    names = []
    for name in folder.ending(".txt"):
        if not LISTS.fullmatch(name.rsplit("/", 1)[-1].lower()):
            names.append(name)
    inside = [name for name in names if LABELS in name.split("/")[:-1]]
    return inside or names


def _without_predictions(folder: InputFolder, names: list[str]) -> tuple[list[str], list[str]]:
    """Return the text files without those of folders in which all lines have a score, if others
    have none, and these folders: ultralytics writes predictions into the data set itself if it is
    started there.
    """
    by_folder: dict[str, list[str]] = {}
    for name in names:
        by_folder.setdefault(name.rpartition("/")[0], []).append(name)
    if len(by_folder) < 2:
        return names, []
    predicted = []
    for place, own_names in by_folder.items():
        is_scored: set[bool] = set()
        for name in own_names[:LOOKED_AT]:
            is_scored.update(len(words) % 2 == 0 for _, words in numbered_lines(folder.open(name)))
        if is_scored == {True}:
            predicted.append(place)
    if len(predicted) == len(by_folder):
        return names, []
    return [name for name in names if name.rpartition("/")[0] not in predicted], predicted


def _picture_files(folder: InputFolder) -> list[str]:
    """Return the pictures of images: those in folders called images, else those beside labels.

    Others, such as a preview of the data set, are no images without objects.
    """
    names = folder.ending(*PICTURE_SUFFIXES)
    inside = [name for name in names if PICTURES in name.split("/")[:-1]]
    if inside:
        return inside
    places = {name.rpartition("/")[0] for name in _label_files(folder)}
    return [name for name in names if name.rpartition("/")[0] in places]


def _image_of(name: str, folder: str, *, suffix: bool = True) -> str:
    """Return the name of the image that a file is about: its path without the folder's name."""
    parts = name.split("/")
    if folder in parts[:-1]:
        at = len(parts) - 2 - parts[-2::-1].index(folder)
        del parts[at]
    path = "/".join(parts)
    return path[: -len(".txt")] if suffix else path


def _name_files(folder: InputFolder) -> list[str]:
    """Return the files that may hold names of classes, best first."""
    candidates = []
    for name in folder.ending(*YAML_SUFFIXES, ".names", "classes.txt"):
        last = name.rsplit("/", 1)[-1].lower()
        rank = NAME_FILES.index(last) if last in NAME_FILES else len(NAME_FILES)
        candidates.append((name.count("/"), rank, name))
    return [name for _, _, name in sorted(candidates)]


def _class_names(folder: InputFolder, rows: AnnotationList) -> list[str] | None:
    """Return the names of the classes, from the folder or from one of the two above it."""
    from calipers.io.annotations.names import read_names
    from calipers.io.source import open_source

    for name in _name_files(folder):
        names = read_names(folder.open(name))
        if names is not None:
            return names
    for above in list(Path(folder.file).resolve().parents)[:2]:
        for name in NAME_FILES:
            path = above / name
            if path.is_file() and path.stat().st_size:
                file = open_source(path)
                names = read_names(file)
                if names is not None:
                    place = os.path.relpath(path, Path(folder.file).resolve())
                    rows.notes.append(
                        f"names of classes come from {place}, sha256 {file.sha256[:16]}..."
                    )
                    return names
    return None


def _classes_of_references(
    folder: InputFolder, index: ReferenceIndex, rows: AnnotationList
) -> Mapping[Key, int]:
    """Return the classes of the references by the numbers that predictions use.

    Names join the two if the predictions have any; else number k is the class k of the references.
    """
    own_names = _class_names(folder, rows)
    places = {name: k for k, name in enumerate(index.classes)}
    if own_names is not None:
        return {k: places[name] for k, name in enumerate(own_names) if name in places}
    by_position: dict[Key, int] = {k: k for k in range(len(index.classes))}
    if index.class_keys != by_position:
        first = ", ".join(f"{k} = {name}" for k, name in enumerate(index.classes[:3]))
        rows.notes.append(
            "the predictions have no names of classes (data.yaml or classes.txt): their numbers "
            f"are positions in the classes of the references, {first}"
        )
    return by_position


def _is_number(word: str) -> bool:
    return as_number(word) is not None
