# SPDX-License-Identifier: Apache-2.0
"""The format ``polypgen``: the folders of the PolypGen data set.

PolypGen (Ali et al. 2023, "A multi-centre polyp detection and segmentation dataset for
generalisability assessment", Synapse syn26376615, ``PolypGen2021_MultiCenterData_v3``) has

- single frames of six centres: ``data_C1/images_C1``, ``masks_C1``, ``bbox_C1``, to ``data_C6``;
- sequences: ``images_seq1``, ``masks_seq1``, ``bbox_seq1`` in ``sequenceData/positive/seq1``, to
  ``seq23``;
- sequences without polyps: pictures in ``sequenceData/negativeOnly/seq1_neg``, to ``seq23_neg``,
  that have neither masks nor boxes;
- what is not read: pictures with drawn boxes (``bbox_image_C1``, ``bbox_images_C6``), text files
  among the masks of three sequences, and copies of all frames in ``imagesAll_positive``.

A text file of boxes is called like its image (centres 2 and 3, sequences) or like its mask,
``..._mask.txt`` (the other centres), and has a line ``polyp x0 y0 x1 y1`` per polyp, in pixels; it
is empty if the frame shows none. 64 frames of centre 3 have no text file although their masks show
polyps. Their boxes are read from the masks as the authors made all the others: the boxes around
connected regions of more than 100 pixels.

The centre is a column (``C1``), and so are the sequence and the number of the frame in it.
`calipers.io.read` calls `PolypGenReader`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calipers.arrays import Column
from calipers.errors import InputError
from calipers.io.annotations.annotation_list import (
    PICTURE_SUFFIXES,
    AnnotatedImage,
    AnnotationList,
    Box,
    RecordPlace,
    as_number,
    numbered_lines,
    without_suffix,
)
from calipers.io.reader import Options, Reader, ReferenceFile, Sniffed
from calipers.io.source import InputFile, InputFolder

PART = re.compile(r"(?:^|.*/)(?P<kind>images|masks|bbox)_(?P<part>[^/]+)/(?P<name>[^/]+)$")
# Frames of a sequence without polyps lie in its folder itself.
NEGATIVE = re.compile(r"(?:^|.*/)(?P<part>[^/]+_neg)/(?P<name>[^/]+)$")
CENTRE = re.compile(r"C\d+$")
FRAME = re.compile(r"\d{1,9}$")
MASK_ENDS = ("_mask", "_bbox")
CLASS = "polyp"
INSIDE = 127  # grey values above are polyp: masks are JPEG, with noise about 0 and 255
SPECK = 100  # pixels; smaller regions are no polyp, as in the script that made the boxes


class _Frame(NamedTuple):
    """A picture of the data set."""

    key: str  # part/name
    part: str
    path: str
    negative: bool  # in a sequence that has no polyps

    @property
    def centre(self) -> str:
        """The centre of a single frame; empty for frames of sequences."""
        return self.part if CENTRE.match(self.part) else ""


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
        frames = _frames(file)
        row_of = {frame.key: k for k, frame in enumerate(frames)}
        described = set()
        for name in file.ending(".txt"):
            match = PART.match(name)
            if match is None or match["kind"] != "bbox":
                continue
            key = _key(match)
            described.add(key)
            _read_boxes(file, name, row_of.get(key, -1), rows)
        silent = [k for k, frame in enumerate(frames) if frame.key not in described]
        _read_masks(file, frames, [k for k in silent if not frames[k].negative], rows)
        images = []
        for frame in frames:
            width, height = _size(Path(frame.path))
            images.append(AnnotatedImage(frame.key, width, height, Path(frame.path).name))
        whole = rows.references(self.name, images, (CLASS,))
        groups = {**whole.images.groups, **_columns(frames)}
        return replace(whole, images=replace(whole.images, groups=groups))


def _frames(file: InputFolder) -> list[_Frame]:
    """Return every picture that is a frame, in the order of the names of files."""
    frames = []
    for name, path in file.files.items():
        if not name.lower().endswith(PICTURE_SUFFIXES):
            continue
        match = PART.match(name)
        if match is not None and match["kind"] == "images":
            negative = match["part"].endswith("_neg")
            frames.append(_Frame(_key(match), match["part"], path, negative))
            continue
        match = NEGATIVE.match(name)
        if match is not None:
            key = f"{match['part']}/{without_suffix(match['name'])}"
            frames.append(_Frame(key, match["part"], path, True))
    return frames


def _columns(frames: Sequence[_Frame]) -> dict[str, Column]:
    """Return the columns of the images: part, centre, sequence and number of the frame."""
    columns: dict[str, Column] = {"part": np.array([frame.part for frame in frames])}
    centres = [frame.centre for frame in frames]
    if any(centres):
        columns["centre"] = np.array(centres)
    if all(centres):
        return columns
    # A single frame is a sequence of its own, so that resampling by sequence means what it should.
    sequences = [frame.key if frame.centre else frame.part for frame in frames]
    columns["sequence"] = np.array(sequences)
    numbers = []
    for frame in frames:
        match = FRAME.search(frame.key)
        numbers.append(int(match[0]) if match and not frame.centre else 0)
    if len(set(zip(sequences, numbers))) == len(frames):
        columns["frame"] = np.array(numbers, np.int64)
    return columns


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
        # Without a name five numbers would be read from the second on.
        is_named = len(cells) == 5 and cells[0].lower() == CLASS
        if None in numbers or not (len(cells) == 4 or is_named):
            rows.reject(place, "box-shape", "polyp x0 y0 x1 y1", " ".join(words)[:80])
            continue
        x0, y0, x1, y1 = (float(value or 0.0) for value in numbers)
        key = PART.match(name)
        image_name = name if key is None else _key(key)
        rows.add(image, CLASS, (x0, y0, x1, y1), place, image_name=image_name)


def _read_masks(
    file: InputFolder, frames: Sequence[_Frame], silent: Sequence[int], rows: AnnotationList
) -> None:
    """Enter the boxes of frames without a text file, from their masks."""
    if not silent:
        return
    masks = {}
    for name, path in file.files.items():
        match = PART.match(name)
        is_picture = name.lower().endswith(PICTURE_SUFFIXES)
        if match is not None and match["kind"] == "masks" and is_picture:
            masks[_key(match)] = (name, path)
    bare = []
    for k in silent:
        # One frame, C3_EndoCV2021_00489_, ends in a line that its mask lacks.
        key = frames[k].key
        name, path = masks.get(key) or masks.get(key.rstrip("_")) or ("", "")
        if not name:
            bare.append(key)
            continue
        rows.further_files.append(name)
        for number, box in enumerate(_mask_boxes(Path(path)), 1):
            place = RecordPlace(f"{name}: region {number}")
            rows.add(k, CLASS, box, place, image_name=key)
    if bare:
        raise InputError(
            "a text file of boxes or a mask for every frame; an empty text file for a frame "
            "without polyps",
            rule="boxes-missing",
            file=file.file,
            location=bare[0],
            value=f"{len(bare)} frames with neither, such as {bare[0]}",
        )
    rows.notes.append(
        "frames without a text file of boxes, whose boxes are those of their masks (regions of "
        f"more than {SPECK} pixels): {len(silent)}"
    )


def _mask_boxes(path: Path) -> list[Box]:
    """Return the boxes around the regions of a mask, in the order of their first pixels."""
    from calipers.io.volumes.open import open_volume
    from calipers.kernels import runs
    from calipers.kernels.shapes import components

    inside = open_volume(path, role="image").read() > INSIDE
    size = np.array(inside.shape[::-1], np.int64)
    start, length = runs.find(inside)
    region = components(start, length, size, "full")
    n = int(region.max(initial=-1)) + 1
    offsets, start, length = runs.grouped(start, length, region, n)
    boxes = runs.boxes(start, length, offsets, np.tile(size, (n, 1)))
    polyps = boxes[runs.voxels(length, offsets) > SPECK]
    return [(x0, y0, x1, y1) for x0, y0, x1, y1 in polyps.tolist()]


def _size(path: Path) -> tuple[float, float]:
    """Return width and height of a picture, from its header."""
    from calipers.io.volumes.open import open_volume

    volume = open_volume(path, role="image")
    return float(volume.size[0]), float(volume.size[1])
