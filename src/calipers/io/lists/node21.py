# SPDX-License-Identifier: Apache-2.0
"""The format ``node21``: the metadata of the NODE21 challenge, nodules on chest X-rays.

The table ``metadata.csv`` has the columns ``height``, ``img_name``, ``label``, ``width``, ``x`` and
``y`` in pixels; ``label`` is 1 for a nodule, and 0, with zeros as box, for an image without one
(Sogancioglu et al. 2024, "Nodule detection and generation on chest X-rays: NODE21 challenge").
Predictions of this challenge are read by `calipers.io.lists.grand_challenge`.

`calipers.io.read` calls `Node21Reader`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from calipers.data.rules import Role
from calipers.io.lists.listing import ListReader, column_in, derived, yes_no_class
from calipers.io.reader import Sniffed
from calipers.io.source import InputFile
from calipers.io.tables.delimited import header_names
from calipers.io.tables.table import FileTable, empty, texts

CLASS = "nodule"
BOX = ("x", "y", "width", "height")
SIDE = "1024"  # width and height of every image, which the table does not state
ZEROS = ("0", "0.0", "")


class Node21Reader(ListReader):
    """The metadata of NODE21.

    Notes
    -----
    All images have 1024 x 1024 pixels.
    """

    name = "node21"
    preset = "node21"
    roles = ("references",)
    box_format = "xywh"
    columns: ClassVar[Mapping[str, str]] = {
        "image": "img_name",
        "class": "label",
        "x": "x",
        "y": "y",
        "w": "width",
        "h": "height",
        "width": "image_width",
        "height": "image_height",
    }

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the header."""
        if not {"img_name", "label", *BOX} <= header_names(file.head):
            return None
        return Sniffed(self.name, "references", "its header is that of the NODE21 metadata")

    def arranged(self, table: FileTable, role: Role) -> FileTable:
        """Make a class of ``label``, and nothing of the zeros of an image without a nodule."""
        label = column_in(table, "label")
        table = yes_no_class(table, label, CLASS, BOX)
        names = [column_in(table, name) for name in BOX]
        boxes: dict[str, list[str]] = {name: list(texts(table, name)) for name in names}
        for row in np.flatnonzero(empty(table.columns[label])).tolist():
            if all(cells[row].strip() in ZEROS for cells in boxes.values()):
                for cells in boxes.values():
                    cells[row] = ""
        sides = [SIDE] * len(table)
        return derived(table, {**boxes, "image_width": sides, "image_height": sides})
