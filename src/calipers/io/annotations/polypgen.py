# SPDX-License-Identifier: Apache-2.0
"""The format ``polypgen``: the folders of the PolypGen data set.

PolypGen (Ali et al. 2023, "A multi-centre polyp detection and segmentation dataset for
generalisability assessment") has a folder per centre, ``data_C1`` to ``data_C6``, with
``images_C1``, ``masks_C1`` and ``bbox_C1``; and sequences, ``sequenceData/positive/seq1`` with
``images_seq1``, ``masks_seq1`` and ``bbox_seq1``, and ``sequenceData/negativeOnly`` without masks.
A text file of boxes is called like its image (``..._mask.txt`` like its mask) and has a line
``polyp x0 y0 x1 y1`` per polyp, in pixels.

The centre is a column (``C1``), and so is the sequence. An image without boxes is one without
polyps. `calipers.io.read` calls `PolypGenReader`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from calipers.io.annotations.rows import (
    PICTURE_SUFFIXES,
    AnnotatedImage,
    AnnotationList,
    RecordPlace,
    as_number,
    numbered_lines,
    without_suffix,
)
from calipers.io.reader import Options, Reader, ReferenceFile, Sniffed
from calipers.io.source import InputFile, InputFolder

PART = re.compile(r"(?:^|.*/)(?P<kind>images|masks|bbox)_(?P<part>[^/]+)/(?P<name>[^/]+)$")
CENTRE = re.compile(r"C\d+$")
MASK_ENDS = ("_mask", "_bbox")
CLASS = "polyp"


class PolypGenReader(Reader):
    """The data set, a centre of it, or a sequence."""

    name = "polypgen"
    roles = ("references",)
    inputs = ("folder",)

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise folders of images beside those of boxes."""
        if not isinstance(file, InputFolder):
            return None
        kinds = set()
        for name in file.files:
            match = PART.match(name)
            if match is not None:
                kinds.add((match["kind"], match["part"]))
        parts = [part for kind, part in kinds if kind == "bbox"]
        if not any(("images", part) in kinds for part in parts):
            return None
        return Sniffed(self.name, "references", "it has images_X beside bbox_X, as of PolypGen")

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read every image of every part."""
        assert isinstance(file, InputFolder)
        rows = AnnotationList(file, options)
        images, parts = _images(file)
        row_of = {key: k for k, key in enumerate(images)}
        for name in file.ending(".txt"):
            match = PART.match(name)
            if match is None or match["kind"] != "bbox":
                continue
            _read_boxes(file, name, row_of.get(_key(match), -1), rows)
        listed = []
        for key, path in images.items():
            width, height = _size(Path(path))
            listed.append(AnnotatedImage(key, width, height, Path(path).name))
        whole = rows.references(self.name, listed, (CLASS,))
        centres = [part if CENTRE.match(part) else "" for part in parts]
        groups = {**whole.images.groups, "part": np.array(parts)}
        if any(centres):
            groups["centre"] = np.array(centres)
        return replace(whole, images=replace(whole.images, groups=groups))


def _images(file: InputFolder) -> tuple[dict[str, str], list[str]]:
    """Return part/name -> path of every picture, and their parts."""
    images, parts = {}, []
    for name, path in file.files.items():
        match = PART.match(name)
        is_picture = name.lower().endswith(PICTURE_SUFFIXES)
        if match is not None and match["kind"] == "images" and is_picture:
            images[_key(match)] = path
            parts.append(match["part"])
    return images, parts


def _key(match: re.Match[str]) -> str:
    """Return the name of an image for a file of any kind."""
    stem = match["name"]
    stem = stem[: -len(".txt")] if stem.lower().endswith(".txt") else without_suffix(stem)
    for end in MASK_ENDS:
        stem = stem.removesuffix(end)
    return f"{match['part']}/{stem}"


def _read_boxes(file: InputFolder, name: str, image: int, rows: AnnotationList) -> None:
    for number, words in numbered_lines(file.open(name)):
        place = RecordPlace(f"{name}:{number}", " ".join(words))
        # Some lines have no class, and some separate numbers by commas.
        cells = " ".join(words).replace(",", " ").split()
        numbers = [as_number(cell) for cell in cells[-4:]]
        if len(cells) not in (4, 5) or None in numbers:
            rows.reject(place, "box-shape", "polyp x0 y0 x1 y1", " ".join(words)[:80])
            continue
        x0, y0, x1, y1 = (float(value or 0.0) for value in numbers)
        key = PART.match(name)
        image_name = name if key is None else _key(key)
        rows.add(image, CLASS, (x0, y0, x1, y1), place, image_name=image_name)


def _size(path: Path) -> tuple[float, float]:
    """Return width and height of a picture, from its header."""
    from calipers.io.volumes.open import open_volume

    volume = open_volume(path, role="image")
    return float(volume.size[0]), float(volume.size[1])
