# SPDX-License-Identifier: Apache-2.0
"""Decode pieces of a list of COCO objects into typed records, with segmentations if any."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET

from calipers.readers import jsonchunks
from calipers.readers.coco_records import (
    Annotation,
    CocoRecord,
    MaskedAnnotation,
    MaskedResult,
    Result,
)
from calipers.readers.coco_segments import RunLengths
from calipers.readers.jsonchunks import Piece, Unreadable
from calipers.tables.checks import Role

SEGMENTATION = b'"segmentation"'
HEAD = 4096  # bytes of a piece in which its first segmentation is looked for
REQUIRED = ("image_id", "category_id")
OPTIONAL = ("id", "score", "area", "iscrowd", "ignore")


class PieceDecoder:
    """Decodes the pieces of one list; ``masks`` says whether segmentations are read."""

    def __init__(self, role: Role, *, masks: bool) -> None:
        plain, masked = (
            (Result, MaskedResult) if role == "predictions" else (Annotation, MaskedAnnotation)
        )
        self.plain: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[plain])  # type: ignore[valid-type]
        self.masked: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[masked])  # type: ignore[valid-type]
        self.masks, self.has_masks = masks, False

    def decode(self, text: bytes, /) -> list[CocoRecord]:
        """Return the records of a piece.

        A piece that does not begin with segmentations is tried without them first, which is faster.
        """
        if self.masks and (self.has_masks or SEGMENTATION in text[:HEAD]):
            return self.again(text)
        try:
            records: list[CocoRecord] = self.plain.decode(text)
        except msgspec.ValidationError:
            if not self.masks or SEGMENTATION not in text:
                raise
            return self.again(text)
        return records

    def again(self, text: bytes) -> list[CocoRecord]:
        """Return the records with their segmentations; all later pieces are decoded like this."""
        self.has_masks = True
        records: list[CocoRecord] = self.masked.decode(text)
        return records


def check_records(
    piece: Piece, records: Sequence[CocoRecord], decoder: PieceDecoder
) -> tuple[Sequence[CocoRecord], bool]:
    """Rule out what msgspec does not see, as `jsonchunks.check_piece` does.

    Returns the records, and whether they hold nothing but the keys that are read. Records whose
    segmentations were not decoded are decoded again if there are some.
    """
    plain = jsonchunks.check_piece(piece, len(records), _keys(records), brackets=2)
    if plain or not decoder.masks or SEGMENTATION not in piece.text or _is_masked(records):
        return records, plain
    try:
        records = decoder.again(piece.text)
    except msgspec.MsgspecError:
        raise Unreadable from None
    return records, jsonchunks.check_piece(piece, len(records), _keys(records), brackets=2)


def _is_masked(records: Sequence[Any]) -> bool:
    return bool(records) and isinstance(records[0], MaskedAnnotation | MaskedResult)


def _keys(records: Sequence[Any]) -> dict[str, int]:
    """Return how many records have which key.

    A record with neither box nor mask is left to the careful reader.
    """
    n = len(records)
    keys = dict.fromkeys(REQUIRED, n)
    optional: tuple[str, ...] = OPTIONAL
    if n > 0 and isinstance(records[0], Result | MaskedResult):
        optional = ()
        keys["score"] = n
    if not _is_masked(records):
        keys["bbox"] = n
    else:
        optional = (*optional, "bbox", "segmentation")
        n_run_lengths = 0
        for record in records:
            n_run_lengths += isinstance(record.segmentation, RunLengths)
            if record.bbox in (UNSET, None) and not record.segmentation:
                raise Unreadable
        keys["size"] = keys["counts"] = n_run_lengths
    for key in optional:
        keys[key] = n - list(map(attrgetter(key), records)).count(UNSET)
    return keys
