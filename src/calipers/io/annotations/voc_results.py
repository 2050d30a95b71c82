# SPDX-License-Identifier: Apache-2.0
"""The format ``voc-results``: predictions as the development kit of Pascal VOC has them.

A text file per class, called ``comp3_det_test_car.txt``: the competition, the set of images, the
class. A line is ``image score xmin ymin xmax ymax``, in pixels that count from 1 and include both
ends (Everingham and Winn, "The PASCAL VOC2012 development kit", section "Detection").

`calipers.io.read` calls `VocResultsReader` for predictions: for a folder of such files, which is
one model, or for one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from calipers.errors import InputError
from calipers.io.annotations.annotation_list import (
    AnnotationList,
    ImageNames,
    RecordPlace,
    as_number,
    numbered_lines,
)
from calipers.io.annotations.voc import INCLUSIVE
from calipers.io.reader import Key, ObjectPart, Options, Reader, ReferenceIndex, Sniffed
from calipers.io.source import InputFile, InputFolder

# Faster R-CNN and its heirs write a random identifier behind the competition.
FILE = re.compile(r"comp\d+(?:_[0-9a-f-]+)?_det_[^_/]+_(.+)\.txt", re.IGNORECASE)
COLUMNS = ("score", "xmin", "ymin", "xmax", "ymax")


class VocResultsReader(Reader):
    """Results of the Pascal VOC development kit.

    Notes
    -----
    Images are found by their id or file name, with or without folder and suffix. A class whose file
    is missing has no predictions.
    """

    name = "voc-results"
    roles = ("predictions",)
    inputs = ("folder", "file")

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise names of files, and a line with as many words as results have."""
        names = 0
        for _, _, source in _class_files(file):
            names += 1
            _, words = next(numbered_lines(source), (0, []))
            if words:
                # The first line decides; files of classes without predictions are empty.
                if len(words) != 1 + len(COLUMNS):
                    return None
                break
        if not names:
            return None
        return Sniffed(self.name, "predictions", "its files are named like results of Pascal VOC")

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read the lines of all classes."""
        rows = AnnotationList(file, options)
        images = ImageNames(index, file.file)
        n_files = 0
        class_names: dict[str, str] = {}
        for name, class_name, source in _class_files(file):
            n_files += 1
            # comp3 and comp4 are results of two competitions, not two halves of one.
            if class_names.setdefault(class_name, name) != name:
                raise InputError(
                    "one file of each class",
                    rule="dup-file-name",
                    file=file.file,
                    value=[class_names[class_name], name],
                )
            for number, words in numbered_lines(source):
                place = RecordPlace(f"{name}:{number}" if name else f"{number}", " ".join(words))
                _enter(rows, class_name, words, images, place)
        if not n_files:
            raise InputError(
                "a file named like comp3_det_test_car.txt", rule="format", file=file.file
            )
        labels: dict[Key, int] = {name: k for k, name in enumerate(index.classes)}
        box_format = options.box_format or INCLUSIVE
        return {"": rows.predictions(index, labels, box_format=box_format)}


def _class_files(file: InputFile) -> Iterator[tuple[str, str, InputFile]]:
    """Yield the files of classes: path below the folder, class, file."""
    if not isinstance(file, InputFolder):
        match = FILE.fullmatch(file.file.replace("\\", "/").rsplit("/", 1)[-1])
        if match:
            yield "", match[1], file
        return
    for name in file.ending(".txt"):
        match = FILE.fullmatch(name.rsplit("/", 1)[-1])
        if match:
            yield name, match[1], file.open(name)


def _enter(
    rows: AnnotationList, label: str, words: list[str], images: ImageNames, place: RecordPlace
) -> None:
    if len(words) != 1 + len(COLUMNS):
        expected = "image score xmin ymin xmax ymax"
        rows.reject(place, "box-shape", expected, f"{len(words)} words")
        return
    numbers = []
    for column, word in zip(COLUMNS, words[1:]):
        number = as_number(word)
        if number is None:
            rows.reject(place, "type", "a number", word, field=column)
            return
        numbers.append(number)
    score, x0, y0, x1, y1 = numbers
    image = words[0]
    rows.add(images.find(image), label, (x0, y0, x1, y1), place, image_name=image, score=score)
