# SPDX-License-Identifier: Apache-2.0
"""The format ``rsna``: labels and submissions of the RSNA Pneumonia Detection Challenge (2018).

Labels have the columns ``patientId``, ``x``, ``y``, ``width``, ``height`` and ``Target``, with a
row without a box for every image without pneumonia. A submission has the columns ``patientId`` and
``PredictionString``, with ``confidence x y width height`` for every box. See Shih et al. (2019),
"Augmenting the National Institutes of Health chest radiograph dataset with expert annotations of
possible pneumonia".

`calipers.io.read` calls `RsnaReader`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import ClassVar

from calipers.data.rules import Role
from calipers.io.lists.listing import (
    PREDICTION_STRING,
    ListReader,
    column_in,
    derived,
    expand_strings,
    names_in,
    yes_no_class,
)
from calipers.io.reader import Sniffed
from calipers.io.tables.table import FileTable

CLASS = "pneumonia"
BOX = ("x", "y", "width", "height")
SIDE = "1024"  # width and height of every image of the challenge, which the labels do not state


class RsnaReader(ListReader):
    """Labels and submissions of the RSNA Pneumonia Detection Challenge.

    Notes
    -----
    All images have 1024 x 1024 pixels, and one image is one patient.
    """

    name = "rsna"
    preset = "rsna2018"
    submission = "an RSNA submission"
    box_format = "xywh"
    columns: ClassVar[Mapping[str, str]] = {
        "image": "patientid",
        "class": "target",
        "x": "x",
        "y": "y",
        "w": "width",
        "h": "height",
        "score": "score",
        "width": "image_width",
        "height": "image_height",
    }

    def sniff_rows(self, names: Set[str], head: str) -> Sniffed | None:
        """Recognise the header of the labels."""
        if {"patientid", "target", *BOX} <= names:
            return Sniffed(self.name, "references", "its header is that of the RSNA labels")
        return None

    def arranged(self, table: FileTable, role: Role) -> FileTable:
        """Make a class of ``Target``; give every box of a submission a row."""
        if PREDICTION_STRING in names_in(table):
            image = column_in(table, "patientid")
            boxes = expand_strings(table, image, ("score", *BOX), "0.9 100 200 150 300")
            return derived(boxes, {"Target": [CLASS] * len(boxes)})
        table = yes_no_class(table, column_in(table, "target"), CLASS, BOX)
        sides = [SIDE] * len(table)
        return derived(table, {"image_width": sides, "image_height": sides})
