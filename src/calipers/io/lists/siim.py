# SPDX-License-Identifier: Apache-2.0
"""The format ``siim``: run lengths of the SIIM-ACR Pneumothorax Segmentation challenge (2019).

The table has the columns ``ImageId`` and ``EncodedPixels``; a cell lists pairs of numbers, the
pixels since the end of the last run and the length of the next one, counted down the columns from
left to right on 1024 x 1024 pixels. ``-1`` is an image without pneumothorax; several rows of an
image are several findings.

`calipers.io.read` calls `SiimReader`. The pairs are the beginning of run lengths as COCO counts
them, and are drawn by the same code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calipers.arrays import F64, I64
from calipers.data.rules import Delivery, Source
from calipers.errors import InputError
from calipers.io.coco.masks import MaskColumns, Odd, RunLengths
from calipers.io.lists.listing import column_in
from calipers.io.reader import (
    ImageList,
    ObjectPart,
    Options,
    Reader,
    ReferenceFile,
    ReferenceIndex,
    Sniffed,
)
from calipers.io.source import InputFile
from calipers.io.tables.delimited import header_names, read_delimited
from calipers.io.tables.objects import unknown_names
from calipers.io.tables.table import FileTable, codes, texts

CLASS = "pneumothorax"
SIDE = 1024
IMAGE, RUNS = "imageid", "encodedpixels"
NOTHING = ("-1", "")
AT_ONCE = 256  # masks that are drawn together
WHOLE_NUMBER = re.compile(r"\d{1,9}$", re.ASCII)  # more digits than any count of pixels has
# Images are called by the identifiers of DICOM; other lists of run lengths have the same header.
FIRST_IMAGE = re.compile(r"[^\n]*\n\s*\"?\d+(\.\d+){4,}\"?\s*,")


class SiimReader(Reader):
    """Run lengths of the SIIM-ACR Pneumothorax Segmentation challenge."""

    name = "siim"

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the header above the identifier of a DICOM image."""
        if header_names(file.head) != {IMAGE, RUNS} or not FIRST_IMAGE.match(file.head):
            return None
        return Sniffed(self.name, "unknown", "it is a list of run lengths as of SIIM-ACR")

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read masks, and the boxes around them."""
        table, names, cells = _cells(file)
        image, ids = codes(names)
        if not ids:
            raise InputError("at least one image", rule="no-images", file=file.file)
        size = np.full((len(ids), 2), float(SIDE))
        part = _masks(file, table, cells, image, size, options)
        images = ImageList(ids, size, np.full((len(ids), 2), np.nan), {})
        return ReferenceFile(images, (CLASS,), None, part, self.name)

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read the masks of a submission, which have no scores."""
        table, names, cells = _cells(file)
        image = np.array([index.as_text.get(name, -1) for name in names], np.int64)
        part = _masks(file, table, cells, image, index.size, options)
        rows = np.array([k for k, cell in enumerate(cells) if cell not in NOTHING], np.int64)
        own_names = [names[row] for row in rows.tolist()]
        findings = unknown_names(image[rows], own_names, "image", "unknown-image", index.as_text)
        return {"": replace(part, findings=[*findings, *part.findings])}


def _cells(file: InputFile) -> tuple[FileTable, list[str], list[str]]:
    """Return the table, and the image and the run lengths of every row."""
    table = read_delimited(file)
    image_column, runs_column = column_in(table, IMAGE), column_in(table, RUNS)
    names = [name.strip() for name in texts(table, image_column)]
    if "" in names:
        raise table.error(names.index(""), image_column, "missing-id", "an image")
    return table, names, [cell.strip() for cell in texts(table, runs_column)]


def _masks(
    file: InputFile,
    table: FileTable,
    cells: Sequence[str],
    image: I64,
    size: F64,
    options: Options,
) -> ObjectPart:
    """Return the masks of all rows that have one, as objects of the only class."""
    runs_column = column_in(table, RUNS)
    rows = np.array([k for k, cell in enumerate(cells) if cell not in NOTHING], np.int64)
    drawing = MaskColumns("required", size, file.size)
    boxes = [np.zeros((0, 4))]
    for start in range(0, len(rows), AT_ONCE):
        piece = rows[start : start + AT_ONCE]
        segmentations = [_run_lengths(cells[row]) for row in piece.tolist()]
        no_boxes = np.ones(len(piece), np.bool_)
        boxes.append(drawing.add(segmentations, image[piece], no_boxes).boxes())
    labels = np.zeros(len(rows), np.int64)
    delivery = Delivery(image[rows], labels, np.concatenate(boxes), "xyxy", table.lines[rows])
    if options.masks != "ignore":
        delivery = replace(delivery, masks=drawing.masks())
    source = Source(table.file, lambda line, _: table.locate(line, runs_column), table.text)
    notes = [*table.notes, *drawing.notes()]
    findings = drawing.findings()
    return ObjectPart(delivery, source, findings, table.problems, notes, len(table.problems))


def _run_lengths(cell: str) -> RunLengths | Odd:
    """Return pairs of numbers as counts of COCO, which also tell the pixels after the last run."""
    words = cell.split()
    if len(words) % 2 or not all(map(WHOLE_NUMBER.match, words)):
        return Odd("rle-kind", "pairs of whole numbers", cell[:80])
    counts = list(map(int, words))
    rest = SIDE * SIDE - sum(counts)
    # Too many pixels are refused where the counts are drawn.
    return RunLengths([SIDE, SIDE], [*counts, rest] if rest > 0 else counts)
