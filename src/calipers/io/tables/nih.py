# SPDX-License-Identifier: Apache-2.0
"""The format ``nih``: ``BBox_List_2017.csv``, the list of boxes of ChestX-ray8, as references.

`calipers.io.read` calls `NihReader`; the file becomes a `FileTable` that is read as any other table
of boxes. The data set is that of Wang et al. (2017), "ChestX-ray8". The list is read by position,
because its header breaks at its own commas: ``Bbox [x,y,w,h]`` are four cells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from calipers.io.reader import Sniffed
from calipers.io.source import InputFile
from calipers.io.tables.delimited import read_body
from calipers.io.tables.objects import TableReader
from calipers.io.tables.table import FileTable

HEADER = re.compile(r'^"?Image Index"?,"?Finding Label"?,"?Bbox \[x', re.IGNORECASE)
COLUMNS = ("image", "class", "x", "y", "w", "h")
# Width and height of every image of the data set, in pixels; the list does not state them.
SIDE = "1024"
RENAMED = {"Infiltrate": "Infiltration"}


class NihReader(TableReader):
    """The list of boxes of ChestX-ray8.

    Notes
    -----
    All images of this data set have 1024 x 1024 pixels. `Infiltrate` in this list is the class
    `Infiltration` of the data set. The patient is the part of the image name before the underscore.
    """

    name = "nih"
    roles = ("references",)

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the header line."""
        if HEADER.match(file.head) is None:
            return None
        return Sniffed(self.name, "references", "its header is the one of the NIH list of boxes")

    def table(self, file: InputFile) -> FileTable:
        """Read the rows by position."""
        # The header line was recognised by `sniff` and is of no further use.
        body = read_body(file, len(COLUMNS), ",")
        columns: dict[str, Sequence[str]] = dict(zip(COLUMNS, body.columns))
        n_renamed = sum(name in RENAMED for name in columns["class"])
        columns["class"] = [RENAMED.get(name, name) for name in columns["class"]]
        columns["width"] = columns["height"] = [SIDE] * len(body.lines)
        columns["patient"] = [name.split("_")[0] for name in columns["image"]]
        notes = [*file.notes, *body.notes()]
        if n_renamed:
            notes.append(f"{n_renamed} boxes of 'Infiltrate' are read as 'Infiltration'")
        return FileTable(
            file.file,
            "nih",
            columns,
            body.lines,
            by_line=True,
            problems=body.problems,
            notes=notes,
            source=file,
        )
