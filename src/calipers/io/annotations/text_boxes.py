# SPDX-License-Identifier: Apache-2.0
"""The format ``text-boxes``: a folder with a text file per image, and a line with words per box.

Scripts that compute the mAP of detectors use it: ``class left top right bottom`` for references,
which may end with ``difficult``, and ``class score left top right bottom`` for predictions, in
pixels. Others write the same lines with ``left top width height``. Which of the two it is shows in
boxes whose third and fourth number are not beyond the first two; with hardly any such box they are
corners. A class is a word, which tells these lines from those of YOLO.

`calipers.io.read` calls `TextBoxesReader`. An empty file is an image without objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from calipers.errors import InputError
from calipers.io.annotations.annotation_list import (
    AnnotatedImage,
    AnnotationList,
    Box,
    ImageNames,
    RecordPlace,
    as_number,
    image_files,
    numbered_lines,
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
from calipers.io.source import InputFile, InputFolder

SUFFIX = ".txt"
DIFFICULT = "difficult"
SIDES = 4  # numbers of a box
LOOKED_AT = 20  # files by which the format is recognised
MOST_BROKEN = 0.1  # share of boxes that are no corners although the others are
CORNERS, WIDTHS = "xyxy", "xywh"


class TextBoxesReader(Reader):
    """A folder of text files with a class in words and the numbers of a box in every line.

    Notes
    -----
    An image is called like its text file, with its path below the folder. Classes are those of the
    objects, in alphabetical order. Objects that are ``difficult`` are ignored.
    """

    name = "text-boxes"
    inputs = ("folder",)

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise lines with a word and four or five numbers."""
        assert isinstance(file, InputFolder)
        lengths = set()
        for name in file.ending(SUFFIX)[:LOOKED_AT]:
            for _, words in numbered_lines(file.open(name)):
                line = _line(words)
                if line is None:
                    return None
                lengths.add(line.score is not None)
        if len(lengths) != 1:
            return None
        role = "predictions" if lengths == {True} else "references"
        return Sniffed(self.name, role, "its text files have a class and a box in every line")

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read every file as one image."""
        rows = AnnotationList(file, options)
        images: list[AnnotatedImage] = []
        n_scored = 0
        for source in image_files(file, SUFFIX):
            for place, words, line in _lines(source.file, source.name):
                if line is None or line.score is not None:
                    n_scored += line is not None
                    rows.reject(place, "box-shape", "class left top right bottom", " ".join(words))
                    continue
                rows.add(len(images), line.label, line.box, place, ignore=line.is_difficult)
            images.append(AnnotatedImage(source.key))
        if n_scored and not rows.entries:
            raise InputError(
                "references, which have no scores",
                rule="wrong-role",
                file=file.file,
                value=f"{n_scored} lines with a score",
                hint="are references and predictions swapped?",
            )
        return rows.references(self.name, images, box_format=_box_format(rows, options))

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read lines with scores."""
        rows = AnnotationList(file, options)
        names = ImageNames(index, file.file)
        for source in image_files(file, SUFFIX):
            image = names.only(source.key, source.name)
            for place, words, line in _lines(source.file, source.name):
                if line is None:
                    expected = "class score left top right bottom"
                    rows.reject(place, "box-shape", expected, " ".join(words))
                elif line.score is None:
                    rows.reject(place, "score-missing", "a score behind the class", field="score")
                else:
                    rows.add(
                        image,
                        line.label,
                        line.box,
                        place,
                        image_name=source.key,
                        score=line.score,
                    )
        labels: dict[Key, int] = {name: k for k, name in enumerate(index.classes)}
        return {"": rows.predictions(index, labels, box_format=_box_format(rows, options))}


class _Line(NamedTuple):
    """One line: a class, a box, and the score if it has one."""

    label: str
    box: Box
    score: float | None
    is_difficult: bool


def _lines(file: InputFile, name: str) -> Iterator[tuple[RecordPlace, list[str], _Line | None]]:
    for number, words in numbered_lines(file):
        yield RecordPlace(f"{name}:{number}", " ".join(words)), words, _line(words)


def _line(words: list[str]) -> _Line | None:
    """Return a line, None if it is no class with the numbers of a box.

    A class may have several words: numbers are counted from the end.
    """
    is_difficult = words[-1].lower() == DIFFICULT
    words = words[:-1] if is_difficult else words
    numbers: list[float] = []
    for word in reversed(words):
        number = as_number(word)
        if number is None or len(numbers) > SIDES:
            break
        numbers.insert(0, number)
    label = " ".join(words[: len(words) - len(numbers)])
    # A number in front would be a class of YOLO.
    if len(numbers) < SIDES or not label or as_number(words[0]) is not None:
        return None
    x, y, third, fourth = numbers[-SIDES:]
    score = numbers[0] if len(numbers) > SIDES else None
    return _Line(label, (x, y, third, fourth), score, is_difficult)


def _box_format(rows: AnnotationList, options: Options) -> str:
    """Return the format of the boxes: sides if some cannot be corners."""
    if options.box_format is not None:
        return options.box_format
    n_sides = 0
    for entry in rows.entries:
        x, y, third, fourth = entry.box
        n_sides += third < x or fourth < y
    # A few are rather mistakes, which are refused.
    if n_sides <= MOST_BROKEN * len(rows.entries):
        rows.notes.append(f"boxes are read as {CORNERS}: --box-format {WIDTHS} reads sides")
        return CORNERS
    rows.notes.append(
        f"boxes are read as {WIDTHS}, because {n_sides} of {len(rows.entries)} are no corners"
    )
    return WIDTHS
