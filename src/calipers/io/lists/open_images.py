# SPDX-License-Identifier: Apache-2.0
"""The format ``openimages``: boxes of Open Images, and submissions to its challenge.

Boxes have the columns ``ImageID``, ``LabelName``, ``XMin``, ``XMax``, ``YMin``, ``YMax`` in
fractions of the image, ``IsGroupOf`` and further flags (Kuznetsova et al. 2020, "The Open Images
Dataset V4"). Predictions are the same with a column ``Score``, or a submission with ``ImageId`` and
``PredictionString``: ``label score xmin ymin xmax ymax`` for every box.

`calipers.io.read` calls `OpenImagesReader`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import ClassVar

from calipers.data.rules import Role
from calipers.io.lists.listing import (
    PREDICTION_STRING,
    ListReader,
    column_in,
    derived,
    expand_strings,
    names_in,
)
from calipers.io.reader import Sniffed
from calipers.io.tables.table import Cells, FileTable, texts

BOX = ("XMin", "YMin", "XMax", "YMax")
GROUP = "isgroupof"
UNKNOWN = "-1"  # of a flag
# Of references this is how a box was made (1 by a person), and no score.
CONFIDENCE, RENAMED = "confidence", "annotation_confidence"


class OpenImagesReader(ListReader):
    """Boxes of Open Images.

    Notes
    -----
    Fractions need the sizes of the images, which the files do not state: a table of groups with
    ``width`` and ``height`` does. A box that stands for a group of objects is a crowd.
    """

    name = "openimages"
    submission = "an Open Images submission"
    box_format = "xyxy-normalised"
    columns: ClassVar[Mapping[str, str]] = {
        "image": "imageid",
        "class": "labelname",
        "score": "score",
        "crowd": GROUP,
    }

    def sniff_rows(self, names: Set[str], head: str) -> Sniffed | None:
        """Recognise the header of the boxes."""
        if not {"imageid", "labelname", "xmin", "xmax", "ymin", "ymax"} <= names:
            return None
        role = "predictions" if "score" in names else "references"
        return Sniffed(self.name, role, "its header is that of boxes of Open Images")

    def arranged(self, table: FileTable, role: Role) -> FileTable:
        """Make flags 0 or 1; give every box of a submission a row."""
        names = names_in(table)
        if PREDICTION_STRING in names:
            image = column_in(table, "imageid")
            words = ("LabelName", "Score", *BOX)
            return expand_strings(table, image, words, "/m/01g317 0.9 0.1 0.2 0.5 0.6")
        if role == "predictions":
            return table
        if GROUP in names:
            flags = [
                "0" if flag.strip() == UNKNOWN else flag for flag in texts(table, names[GROUP])
            ]
            table = derived(table, {names[GROUP]: flags})
        columns: dict[str, Cells] = {}
        for name, cells in table.columns.items():
            columns[RENAMED if name.lower() == CONFIDENCE else name] = cells
        return replace(table, columns=columns)
