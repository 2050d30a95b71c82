# SPDX-License-Identifier: Apache-2.0
"""The JSON of COCO files: the outline of a document, and long lists piece by piece.

`calipers.io.coco.document` reads a list on the fastest of three roads that can read it:

1. Plain records, with numbers and nothing else, go from text to columns in compiled code
   (`RecordList.scan`).
2. Other records are decoded by msgspec (`RecordList.decode`). Its records cost several times the
   file, so a long list is cut into pieces of a few megabytes and every piece is turned into columns
   before the next one is read. A cut is made at ``}, {``. A wrong cut (inside a text, or between
   objects of an inner list) leaves brackets or quotes open, so the piece cannot decode and a later
   cut is tried: a piece that decodes was cut between two records.
3. Whatever is unusual ends in `Unreadable`. `RecordList.read_carefully` then reads this piece, and
   no other one, record by record (`calipers.io.coco.walk`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import numpy as np

from calipers.io.coco import walk as walking
from calipers.io.coco.walk import MAX_DEPTH, SECTIONS, Outline, Record, Walker, depth
from calipers.io.source import Buffer, FileBytes, InputFile
from calipers.kernels import route
from calipers.kernels.route import RecordColumns

SLACK = 56  # brackets beyond the expected ones that cannot reach MAX_DEPTH
SPACE = b" \t\r\n"
SPACES = 1 << 12  # bytes that are looked at together for the end of white space
LONGEST_RECORD = 1 << 16  # bytes of a plain record: four numbers, ids and a score, and space
# Exactly one key, with what may stand around it.
GAP = re.compile(rb'\s*[,{]\s*"(?:[^"\\]|\\.)*"\s*:\s*')
# An escape can spell a key in another way, and hide that it is repeated. A key stands behind a
# brace or a comma; every text is looked at once, because nothing is given back (``*+``).
ESCAPED_KEY = re.compile(
    rb'[{,]\s*+"[^"\\]*+(?:\\[^u][^"\\]*+)*+\\u(?:[^"\\]|\\.)*+"\s*+:', re.DOTALL
)
COLON = ord(":")
KEY_SIGN = re.compile(rb'"\s*:')

T = TypeVar("T")


class Unreadable(Exception):
    """The fast roads cannot read this safely; it has to be read record by record."""


class Decodes(Protocol[T]):
    """Turns a piece into records: a decoder of msgspec, or one that chooses between several."""

    def decode(self, text: bytes, /) -> list[T]:
        """Return the records of a list."""


@dataclass(frozen=True)
class Piece:
    """Some whole records of a list, as text between brackets, and where they are in the file."""

    text: bytes
    start: int
    stop: int


def outline(input_file: InputFile) -> Outline:
    """Find the values of the top level without decoding them.

    Raises
    ------
    InputError
        Nothing of the file can be trusted; see `calipers.io.coco.walk.walk`.
    """
    data = input_file.data
    start, stop = _skip_space(data, 0), _rstrip(data, len(data))
    # A list is read only once: whatever is wrong with it is noticed while it is read.
    if data[start : start + 1] == b"[" and data[stop - 1 : stop] == b"]" and stop - start > 1:
        return Outline(True, {"": (start, stop)})
    # A large document goes through a window; its records are passed over by msgspec there too.
    if isinstance(data, FileBytes):
        return walking.walk(input_file.file, data)
    try:
        spans = _member_spans(data)
    except Unreadable:
        return walking.walk(input_file.file, data)
    for key, (first, last) in spans.items():
        if key not in SECTIONS and depth(data[first:last]) >= MAX_DEPTH:
            raise walking.depth_error(input_file.file)
    return Outline(False, spans)


def _member_spans(data: bytes) -> dict[str, tuple[int, int]]:
    """Return where the values of an object are, as msgspec finds them."""
    try:
        # Raw values point into the document: their addresses tell where they are.
        raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise Unreadable from None
    base = _address(data)
    spans = {}
    for key, value in raw.items():
        at = _address(value) - base
        spans[key] = (at, at + len(memoryview(value)))
    _no_gaps(data, spans)
    return spans


def _no_gaps(data: bytes, spans: dict[str, tuple[int, int]]) -> None:
    """Raise if a key is repeated: its first value leaves a gap that holds more than one key."""
    at = 0
    for start, stop in sorted(spans.values()):
        if start - at > 4096 or not GAP.fullmatch(data[at:start]):
            raise Unreadable
        at = stop


class RecordList(Generic[T]):
    """A list of objects that is read from its beginning to its end, a piece at a time.

    ``pointer`` is its place in the document. Whoever reads from it says by `advance` how many
    records were taken.
    """

    def __init__(self, input_file: InputFile, span: tuple[int, int], pointer: str) -> None:
        self.file, self.data, self.pointer = input_file.file, input_file.data, pointer
        self.at = _skip_space(self.data, _skip_space(self.data, span[0]) + 1)
        self.end = _rstrip(self.data, span[1]) - 1
        self.n = 0  # records that were read

    @property
    def is_over(self) -> bool:
        """Whether all records were read."""
        return self.at >= self.end

    def scan(self, required: int) -> tuple[RecordColumns, int, int] | None:
        """Return the columns of the next plain records, and where they begin and end in the file.

        None if the next record is not plain, or if the compiled kernels are not in use.
        """
        module = route.native()
        if module is None:
            return None
        start = self.at
        text = self.data[start : min(start + walking.PIECE + LONGEST_RECORD, self.end)]
        columns, length = route.coco_records(module, text, 0, walking.PIECE, len(text), required)
        # Where the text was cut off, the list need not end.
        if not len(columns.keys) or (length == len(text) and start + length < self.end):
            return None
        self.at += length
        self.n += len(columns.keys)
        # Between two records there is nothing but space and a comma.
        return columns, start, start + text.rfind(b"}", 0, length) + 1

    def decode(self, decoder: Decodes[T]) -> tuple[Piece, list[T], int]:
        """Return the next piece, its records, and where the next piece begins.

        The list goes on there after `advance`: the records may turn out to be unreadable.
        """
        proposals = list(walking.cuts(self.data, self.at, self.end))
        if self.end - self.at <= 4 * walking.PIECE:
            proposals.append((self.end, self.end))
        for cut, following in proposals:
            text = b"".join((b"[", self.data[self.at : cut], b"]"))
            try:
                records = decoder.decode(text)
            # Well-formed but unusual: no later cut would help. A syntax error may only be a wrong
            # cut.
            except msgspec.ValidationError:
                raise Unreadable from None
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                continue
            return Piece(text, self.at, cut), records, following
        raise Unreadable

    def advance(self, n: int, following: int) -> None:
        """Go on behind ``n`` records."""
        self.n += n
        self.at = following

    def read_carefully(self) -> list[Record]:
        """Return the records of about a piece, read one by one.

        Raises
        ------
        InputError
            The file is no JSON from here on.
        """
        walker = Walker(self.file, self.data, self.at)
        if self.n:
            walker.last_good = f"{self.pointer}/{self.n - 1}"
        with walker.typed_errors():
            records = list(walker.elements(self.pointer, self.n, self.at + walking.PIECE))
            # Only a list without a document around it can end before the end of the file.
            if walker.sign() == "]" and walker.byte != self.end:
                walker.expect("]")
                walker.end()
        self.advance(len(records), walker.byte)
        return records


def check_piece(piece: Piece, n: int, keys: dict[str, int], brackets: int) -> bool:
    """Rule out what msgspec does not see in ``n`` decoded records: repeated keys, broken text,
    depth.

    Returns whether the records hold nothing but those keys and numbers.

    Parameters
    ----------
    keys
        For every key that is read, the number of records that have it.
    brackets
        The number of opening brackets a plain record has.
    """
    text = piece.text
    _check_encoding(text)
    escapes = b"\\" in text
    # Two quotes for each key that is read and no others: nothing else can be in the piece.
    if not escapes and text.count(b'"') == 2 * sum(keys.values()):
        return True
    # A key inside a text counts too; then the piece is read record by record, only slowly.
    if any(text.count(b'"%s"' % key.encode()) != count for key, count in keys.items()):
        raise Unreadable
    # Looked for only where it can be: run lengths have backslashes, and no such escape.
    if escapes and b"\\u" in text and ESCAPED_KEY.search(text):
        raise Unreadable
    _check_depth(text, n * brackets)
    return False


def check_listed(piece: Piece, records: Sequence[dict[str, Any]]) -> None:
    """Rule out what msgspec does not see in image and category records, of which all keys are
    read.
    """
    text = piece.text
    _check_encoding(text)
    # Of a repeated key msgspec keeps the last value: there are fewer keys than the text has.
    n_keys = sum(map(len, records))
    if text.count(b"{") > len(records):
        n_keys = _count_keys(records)
    # A colon stands behind every key; those inside texts are told apart only if there are some.
    n_colons = int(np.count_nonzero(np.frombuffer(text, np.uint8) == COLON))
    if n_colons != n_keys and len(KEY_SIGN.findall(text)) != n_keys:
        raise Unreadable
    _check_depth(text, len(records))


def _count_keys(value: Any) -> int:
    """Count the keys of all objects in a value."""
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if isinstance(value, list) else 0


def _check_encoding(text: bytes) -> None:
    if not text.isascii():
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            raise Unreadable from None


def _check_depth(text: bytes, brackets: int) -> None:
    """Raise if a piece is nested deeply; ``brackets`` is how many plain records would have."""
    if text.count(b"[") + text.count(b"{") > brackets + SLACK and depth(text) > MAX_DEPTH:
        raise Unreadable


@dataclass(frozen=True)
class _Stretch:
    """A stretch of the file that was read at once: which records are in it, and where."""

    first: int  # number of its first record
    start: int
    stop: int
    records: Sequence[tuple[int, int]] | None = None  # their spans, if they were read one by one


class RecordTexts:
    """Returns the original text of a record by its number, for the few that are set aside."""

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.stretches: list[_Stretch] = []
        self.cache: tuple[int, list[msgspec.Raw]] = (-1, [])

    def add(
        self, first: int, start: int, stop: int, records: Sequence[Record] | None = None
    ) -> None:
        """Take note of records from number ``first`` on; ``records`` if they were read carefully.

        Texts are not kept: the few that are needed are cut out of the file again.
        """
        spans = None if records is None else [(record.start, record.stop) for record in records]
        self.stretches.append(_Stretch(first, start, stop, spans))

    def __call__(self, place: int) -> str:
        """Return the text of record ``place``."""
        k = bisect_right(self.stretches, place, key=lambda stretch: stretch.first) - 1
        stretch = self.stretches[k]
        if stretch.records is not None:
            start, stop = stretch.records[place - stretch.first]
            return walking.printable(walking.decoded(self.data[start:stop]))
        if self.cache[0] != k:
            text = b"[" + self.data[stretch.start : stretch.stop] + b"]"
            self.cache = (k, msgspec.json.decode(text, type=list[msgspec.Raw]))
        return bytes(self.cache[1][place - stretch.first]).decode("utf-8", "replace")


def _address(buffer: object) -> int:
    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])  # type: ignore[call-overload]


def _skip_space(data: Buffer, at: int) -> int:
    while at < len(data):
        piece = data[at : at + SPACES]
        n_spaces = len(piece) - len(piece.lstrip(SPACE))
        at += n_spaces
        if n_spaces < len(piece):
            break
    return at


def _rstrip(data: Buffer, stop: int) -> int:
    while stop > 0:
        piece = data[max(0, stop - SPACES) : stop]
        n_spaces = len(piece) - len(piece.rstrip(SPACE))
        stop -= n_spaces
        if n_spaces < len(piece):
            break
    return stop
