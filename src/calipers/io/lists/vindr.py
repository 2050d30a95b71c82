# SPDX-License-Identifier: Apache-2.0
"""The format ``vindr``: the boxes of VinDr-CXR, and submissions to its challenge.

The tables are those of Nguyen et al. (2022), "VinDr-CXR: An open dataset of chest X-rays with
radiologist's annotations": ``image_id``, ``rad_id`` (the reader), ``class_name``, ``x_min`` to
``y_max``; "No finding" has no box. A submission has the columns ``image_id`` and
``PredictionString``, with ``class confidence x_min y_min x_max y_max`` for every box. Those of
other challenges with one class have the same columns, and ``confidence x y width height``.

`calipers.io.read` calls `VindrReader`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import ClassVar

import numpy as np

from calipers.data.rules import Role
from calipers.io.lists.listing import (
    PREDICTION_STRING,
    ListReader,
    column_in,
    derived,
    expand_strings,
    names_in,
)
from calipers.io.reader import Options, Sniffed
from calipers.io.tables.table import FileTable, texts

NO_FINDING = "No finding"
BOX = ("x_min", "y_min", "x_max", "y_max")
# In submissions classes are numbers, in this order; 14 says that there is no finding.
CLASSES = (
    "Aortic enlargement",
    "Atelectasis",
    "Calcification",
    "Cardiomegaly",
    "Consolidation",
    "ILD",
    "Infiltration",
    "Lung Opacity",
    "Nodule/Mass",
    "Other lesion",
    "Pleural effusion",
    "Pleural thickening",
    "Pneumothorax",
    "Pulmonary fibrosis",
    NO_FINDING,
)
SIDES = ("x", "y", "w", "h")  # of submissions without classes
EMPTY_CELL = re.compile(r"[,;\t]\"?No finding\"?[,;\t]")


class VindrReader(ListReader):
    """Boxes of VinDr-CXR.

    Notes
    -----
    A row "No finding" is a reader's statement that an image shows nothing. In submissions it is no
    box, and is left out with a note. Images of which the same table holds several readers need
    ``readers=``.
    """

    name = "vindr"
    submission = "a VinDr submission"
    columns: ClassVar[Mapping[str, str]] = {
        "image": "image_id",
        "class": "class_name",
        "reader": "rad_id",
        "score": "score",
    }

    def sniff_rows(self, names: Set[str], head: str) -> Sniffed | None:
        """Recognise the header with readers, or with rows without finding."""
        if not {"image_id", "class_name", *BOX} <= names:
            return None
        if "rad_id" in names or EMPTY_CELL.search(head):
            return Sniffed(self.name, "references", "it has the columns of VinDr-CXR")
        return None

    def arranged(self, table: FileTable, role: Role) -> FileTable:
        """Empty the class of rows without finding; give every box of a submission a row."""
        image = column_in(table, "image_id")
        if PREDICTION_STRING in names_in(table):
            if _lacks_classes(table):
                example = "0.9 10 20 290 380"
                return expand_strings(table, image, ("score", *SIDES), example)
            names = ("class_name", "score", *BOX)
            return _named_classes(expand_strings(table, image, names, "0 0.9 10 20 300 400"))
        column = column_in(table, "class_name")
        classes = [name if name != NO_FINDING else "" for name in texts(table, column)]
        return derived(table, {column: classes})

    def _own_options(self, table: FileTable, options: Options) -> Options:
        """Boxes of submissions without classes are given by their sides."""
        options = super()._own_options(table, options)
        is_sided = set(SIDES) <= set(table.names)
        return replace(options, box_format="xywh") if is_sided else options


def _lacks_classes(table: FileTable) -> bool:
    """Return whether boxes are five words, as where there is one class: ``confidence x y width
    height``, as in the Global Wheat Detection challenge.
    """
    cells = texts(table, column_in(table, PREDICTION_STRING))
    counts = {len(cell.split()) for cell in cells}
    has_sixes = all(n % 6 == 0 for n in counts)
    return not has_sixes and all(n % 5 == 0 for n in counts)


def _named_classes(table: FileTable) -> FileTable:
    """Return boxes with names of classes instead of numbers, without those of "No finding"."""
    numbered = {str(number): name for number, name in enumerate(CLASSES)}
    classes = [numbered.get(word, word) for word in texts(table, "class_name")]
    is_box = np.array([name != NO_FINDING for name in classes], np.bool_)
    named = derived(table, {"class_name": classes})
    if is_box.all():
        return named
    note = f"{int((~is_box).sum())} entries of {NO_FINDING!r} are not boxes and are left out"
    return replace(named.rows(np.flatnonzero(is_box)), notes=[*named.notes, note])
