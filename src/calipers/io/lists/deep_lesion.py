# SPDX-License-Identifier: Apache-2.0
"""The format ``deeplesion``: ``DL_info.csv``, the list of lesions of DeepLesion.

The data set is that of Yan et al. (2018), "DeepLesion: automated mining of large-scale lesion
annotations and universal lesion detection with deep learning". A row is a lesion on its key slice
``File_name``; ``Bounding_boxes``, ``Image_size`` and ``Spacing_mm_px_`` are lists of numbers in one
cell.

`calipers.io.read` calls `DeepLesionReader`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from calipers.data.rules import Role
from calipers.io.lists.listing import (
    ListReader,
    column_in,
    derived,
    names_in,
    split_numbers,
)
from calipers.io.reader import Sniffed
from calipers.io.source import InputFile
from calipers.io.tables.delimited import header_names
from calipers.io.tables.table import FileTable, texts

CLASS = "lesion"
BOXES = "bounding_boxes"
# Columns of numbers in one cell, and the columns that are made of them.
LISTS = {
    BOXES: (("x0", "y0", "x1", "y1"), "four numbers: x0, y0, x1, y1"),
    "image_size": (("width", "height"), "two numbers: width, height"),
    "spacing_mm_px_": (
        ("spacing_x", "spacing_y", "slice_distance"),
        "three numbers: x, y, z in mm",
    ),
}


class DeepLesionReader(ListReader):
    """The list of lesions of DeepLesion.

    Notes
    -----
    All lesions are of the class ``lesion``; ``Coarse_lesion_type``, which is known for a part of
    them only, stays a column, as do all others. Boxes are those of the list, with 5 pixels of
    margin around the measured diameters.
    """

    name = "deeplesion"
    roles = ("references",)
    columns: ClassVar[Mapping[str, str]] = {
        "image": "file_name",
        "patient": "patient_index",
        "class": "class",
    }

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the header."""
        if not {"file_name", BOXES, "key_slice_index"} <= header_names(file.head):
            return None
        return Sniffed(self.name, "references", "its header is that of the DeepLesion list")

    def arranged(self, table: FileTable, role: Role) -> FileTable:
        """Make columns of the lists of numbers, and give every lesion its class."""
        names = names_in(table)
        for column, (parts, expected) in LISTS.items():
            of_image = column != BOXES
            if not of_image or column in names:
                table = split_numbers(
                    table, column_in(table, column), parts, expected, of_image=of_image
                )
        classes = ["" if not number else CLASS for number in texts(table, "x0")]
        return derived(table, {"class": classes})
