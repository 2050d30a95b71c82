# SPDX-License-Identifier: Apache-2.0
"""The format ``coco``: COCO documents as references, lists of results or documents as predictions.

`calipers.io.coco.document` reads them; it is imported only when a file is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from calipers.io.reader import (
    ObjectPart,
    Options,
    Reader,
    ReferenceFile,
    ReferenceIndex,
    Sniffed,
)
from calipers.io.source import HEAD, InputFile

SCORE = re.compile(r'"score"\s*:')


class CocoReader(Reader):
    """COCO JSON."""

    name = "coco"

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise a JSON list or object; scores at either end of it make it predictions."""
        # COCO results are the only list of records that Calipers knows.
        if file.head[:1] == "[":
            return Sniffed("coco", "predictions", "it is a JSON list, as COCO results are")
        if file.head[:1] == "{":
            reason = "it is a JSON object, as COCO documents are"
            size = len(file.data)
            tail = file.data[max(0, size - HEAD) : size].decode("utf-8", "replace")
            if SCORE.search(file.head + tail):
                return Sniffed("coco", "predictions", reason + ", with scores")
            return Sniffed("coco", "references", reason)
        if Path(file.file).suffix.lower() == ".json":
            reason = "its name ends in .json, although it does not begin like JSON"
            return Sniffed("coco", "unknown", reason)
        return None

    def references(self, file: InputFile, options: Options) -> ReferenceFile:
        """Read a document."""
        from calipers.io.coco.document import read_references

        return read_references(file, options)

    def predictions(
        self, file: InputFile, index: ReferenceIndex, options: Options
    ) -> Mapping[str, ObjectPart]:
        """Read a list of results, or the scored annotations of a document."""
        from calipers.io.coco.document import read_predictions

        return {"": read_predictions(file, index, options)}
