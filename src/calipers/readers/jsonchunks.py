# SPDX-License-Identifier: Apache-2.0
"""Fast JSON: the outline of a document, and long lists decoded piece by piece into typed records.

msgspec's records cost several times the file, so a long list is cut into pieces of a few megabytes
and every piece is turned into columns before the next one is read. A cut is made at ``}, {``. A
wrong cut (inside a text, or between objects of an inner list) leaves brackets or quotes open, so
the piece cannot decode and a later cut is tried: a piece that decodes was cut between two records.

Whatever is unusual ends in `Unreadable`; the careful reader then finds out what it was.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec
import numpy as np

PIECE = 2 << 20  # measured: smaller costs calls, larger leaves the cache
MAX_DEPTH = 64
SLACK = 56  # brackets beyond the expected ones that cannot reach MAX_DEPTH

CUT = re.compile(rb"\}\s*,\s*\{")
SPACE = b" \t\r\n"
GAP = re.compile(rb'\s*[,{]\s*"(?:[^"\\]|\\.)*"\s*:\s*')
ESCAPED_KEY = re.compile(rb'\\u[0-9a-fA-F]{4}[^"]*"\s*:')
TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
DEPTH_STEP = np.zeros(256, np.int8)
DEPTH_STEP[[ord("["), ord("{")]] = 1
DEPTH_STEP[[ord("]"), ord("}")]] = -1

Buffer = bytes | mmap.mmap
T = TypeVar("T")


class Unreadable(Exception):
    """The fast path cannot read this document safely; the careful reader has to."""


class Decodes(Protocol[T]):
    """Turns a piece into records: a decoder of msgspec, or one that chooses between several."""

    def decode(self, text: bytes, /) -> list[T]:
        """Return the records of a list."""


@dataclass(frozen=True)
class Outline:
    """Spans of the top-level values: ``{key: (start, stop)}``, or ``{"": ...}`` for a list."""

    is_list: bool
    spans: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Piece:
    """Some whole records of a list, as text between brackets, and where they are in the file."""

    text: bytes
    start: int
    stop: int


def outline(data: Buffer) -> Outline:
    """Find the values of the top level without decoding them."""
    start = _skip_space(data, 0)
    first = data[start : start + 1]
    if first == b"[":
        return Outline(True, {"": (start, len(data))})
    if first != b"{":
        raise Unreadable
    try:
        raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise Unreadable from None
    base = _address(data)
    spans = {}
    for key, value in raw.items():
        at = _address(value) - base
        spans[key] = (at, at + len(memoryview(value)))
    _no_gaps(data, spans)
    return Outline(False, spans)


def _no_gaps(data: Buffer, spans: dict[str, tuple[int, int]]) -> None:
    """Raise if a key is repeated: its first value leaves a gap that holds more than one key."""
    at = 0
    for start, stop in sorted(spans.values()):
        if start - at > 4096 or not GAP.fullmatch(data[at:start]):
            raise Unreadable
        at = stop


def decode_list(
    data: Buffer, span: tuple[int, int], decoder: Decodes[T]
) -> Iterator[tuple[Piece, list[T]]]:
    """Decode a list of objects piece by piece."""
    start, stop = _skip_space(data, span[0]), _rstrip(data, span[1])
    if stop - start < 2 or data[start : start + 1] != b"[" or data[stop - 1 : stop] != b"]":
        raise Unreadable
    at, end = _skip_space(data, start + 1), stop - 1
    while at < end:
        for cut, following in _cuts(data, at, end):
            text = b"".join((b"[", data[at:cut], b"]"))
            try:
                records = decoder.decode(text)
            except msgspec.ValidationError:
                raise Unreadable from None
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                continue
            yield Piece(text, at, cut), records
            at = following
            break
        else:
            raise Unreadable


def _cuts(data: Buffer, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Propose ends of a piece that starts at ``at``, each with the start of the next piece."""
    for length in (PIECE, PIECE + 1, 2 * PIECE, 4 * PIECE):
        match = CUT.search(data, at + length, end) if at + length < end else None
        if match:
            yield match.start() + 1, match.end() - 1
    yield end, end


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
    if not text.isascii():
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            raise Unreadable from None
    escapes = b"\\" in text
    if not escapes and text.count(b'"') == 2 * sum(keys.values()):
        return True
    # A key inside a text counts too; then the careful reader reads the file, only slowly.
    if any(text.count(b'"%s"' % key.encode()) != count for key, count in keys.items()):
        raise Unreadable
    if escapes and ESCAPED_KEY.search(text):
        raise Unreadable
    if text.count(b"[") + text.count(b"{") > n * brackets + SLACK and depth(text) > MAX_DEPTH:
        raise Unreadable
    return False


def depth(text: bytes) -> int:
    """Return how deeply the brackets of a JSON text are nested, without those inside texts."""
    steps = DEPTH_STEP[np.frombuffer(text, np.uint8)]
    if _range(steps) <= MAX_DEPTH:
        return _range(steps)
    return _range(DEPTH_STEP[np.frombuffer(TEXT.sub(b"", text), np.uint8)])


def _range(steps: np.ndarray[tuple[int], np.dtype[np.int8]]) -> int:
    level = np.cumsum(steps[steps != 0], dtype=np.int64)
    return int(level.max() - min(0, int(level.min()))) if len(level) else 0


class PieceTexts:
    """Returns the original text of a record by its number, for the few that are set aside."""

    def __init__(self, data: Buffer, pieces: Sequence[tuple[int, int, int]]) -> None:
        self.data, self.pieces = data, pieces  # (number of the first record, start, stop)
        self.firsts = np.array([first for first, _, _ in pieces], np.int64)
        self.cache: tuple[int, list[msgspec.Raw]] = (-1, [])

    def __call__(self, place: int) -> str:
        """Return the text of record ``place``."""
        k = int(np.searchsorted(self.firsts, place, side="right")) - 1
        first, start, stop = self.pieces[k]
        if self.cache[0] != k:
            text = b"[" + self.data[start:stop] + b"]"
            self.cache = (k, msgspec.json.decode(text, type=list[msgspec.Raw]))
        return bytes(self.cache[1][place - first]).decode("utf-8", "replace")


def _address(buffer: object) -> int:
    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])  # type: ignore[call-overload]


def _skip_space(data: Buffer, at: int) -> int:
    while at < len(data) and data[at] in SPACE:
        at += 1
    return at


def _rstrip(data: Buffer, stop: int) -> int:
    while stop > 0 and data[stop - 1] in SPACE:
        stop -= 1
    return stop
