# SPDX-License-Identifier: Apache-2.0
"""Guess the format of a file from its first bytes, with the reason in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from calipers.errors import InputError
from calipers.readers.source import InputFile, open_source

HEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What a file seems to be."""

    format: str
    role: str  # references | predictions | groups | unknown
    reason: str


def sniff(path: Path | str) -> Sniffed:
    """Guess the format and the role of a file from its beginning.

    Raises
    ------
    InputError
        The file is missing, empty, or of no format that is known.
    """
    return sniff_file(open_source(path))


def sniff_file(input_file: InputFile) -> Sniffed:
    """Guess the format and the role of an opened file."""
    from calipers.readers.columnar import MAGIC
    from calipers.readers.delimited import NIH_HEADER
    from calipers.readers.lard import is_lard

    head = input_file.data[:HEAD]
    if head[:4] == MAGIC:
        return Sniffed("parquet", "unknown", "it begins with PAR1")
    text = head.decode("utf-8", "replace").lstrip()
    if text[:1] == "[":
        return Sniffed("coco", "predictions", "it is a JSON list, as COCO results are")
    if text[:1] == "{":
        return _document(text, input_file)
    if not text:
        raise InputError(
            "content", rule="empty-file", file=input_file.file, value="only white space"
        )
    if Path(input_file.file).suffix.lower() == ".json":
        return Sniffed(
            "coco", "unknown", "it is called .json, although it does not begin like JSON"
        )
    if NIH_HEADER.match(text):
        return Sniffed("nih", "references", "its header is the one of the NIH list of boxes")
    if is_lard(text.split("\n", 1)[0]):
        return Sniffed(
            "lard", "references", "its header has the four corners of the LARD list of runways"
        )
    return _delimited(text, input_file, Path(input_file.file).suffix.lower())


def _document(text: str, input_file: InputFile) -> Sniffed:
    size = len(input_file.data)
    tail = input_file.data[max(0, size - HEAD) : size].decode("utf-8", "replace")
    reason = "it is a JSON object, as COCO documents are"
    if re.search(r'"score"\s*:', text + tail):
        return Sniffed("coco", "predictions", reason + ", with scores")
    return Sniffed("coco", "references", reason)


def _delimited(text: str, input_file: InputFile, suffix: str) -> Sniffed:
    from calipers.readers.delimited import DELIMITERS
    from calipers.readers.layout import ALIASES, BOX_NAMES

    header = text.split("\n", 1)[0]
    names = {name.strip().strip('"').lower() for name in re.split("[,;\t]", header)}
    has_boxes = len(names & BOX_NAMES) >= 4
    known_names = {"id"}.union(*ALIASES.values())
    is_table = has_boxes or names & known_names or suffix in (".csv", ".tsv", ".txt")
    if not is_table or not any(sign in header for sign in DELIMITERS):
        raise InputError(
            "COCO JSON, delimited text, the NIH or LARD list or parquet",
            rule="format",
            file=input_file.file,
            value=input_file.data[:20],
            hint="name the format with format=... (--format)",
        )
    if names & set(ALIASES["score"]):
        return Sniffed("csv", "predictions", "it is delimited text with a score column")
    if has_boxes:
        return Sniffed("csv", "references", "it is delimited text with a box in every row")
    return Sniffed("csv", "groups", "it is delimited text without boxes")
