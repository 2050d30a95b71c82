# SPDX-License-Identifier: Apache-2.0
"""The JSON of COCO files: the outline of a document, long lists piece by piece, single records.

`calipers.io.coco.document` reads a list on the fastest of three roads that can read it:

1. Plain records, with numbers and nothing else, go from text to columns in compiled code
   (`RecordList.scan`).
2. Other records are decoded by msgspec (`RecordList.decode`). Its records cost several times the
   file, so a long list is cut into pieces of a few megabytes and every piece is turned into columns
   before the next one is read. A cut is made at ``}, {``. A wrong cut (inside a text, or between
   objects of an inner list) leaves brackets or quotes open, so the piece cannot decode and a later
   cut is tried: a piece that decodes was cut between two records.
3. Whatever is unusual ends in `Unreadable`. `read_carefully` then reads record by record with the
   scanner of the standard library: slow, but able to say what is wrong with each record. A record
   with NaN, a repeated key or a broken text can be set aside by its place, while everything around
   it is still read.
"""

from __future__ import annotations

import json
import mmap
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import numpy as np

from calipers.errors import InputError
from calipers.io.source import InputFile
from calipers.kernels import route
from calipers.kernels.route import RecordColumns

PIECE = 2 << 20  # measured: smaller costs calls, larger leaves the cache
MAX_DEPTH = 64
SLACK = 56  # brackets beyond the expected ones that cannot reach MAX_DEPTH

CUT = re.compile(rb"\}\s*,\s*\{")
SPACE = b" \t\r\n"
# Exactly one key, with what may stand around it.
GAP = re.compile(rb'\s*[,{]\s*"(?:[^"\\]|\\.)*"\s*:\s*')
# An escape can spell a key in another way, and hide that it is repeated.
ESCAPED_KEY = re.compile(rb'\\u[0-9a-fA-F]{4}[^"]*"\s*:')
TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
DEPTH_STEP = np.zeros(256, np.int8)
DEPTH_STEP[[ord("["), ord("{")]] = 1
DEPTH_STEP[[ord("]"), ord("}")]] = -1

Buffer = bytes | mmap.mmap
T = TypeVar("T")

WHITESPACE = re.compile(r"[ \t\r\n]*")
SURROGATE = re.compile("[\ud800-\udfff]")
LONGEST_INT = 400
# Stands for every whole number that is too long to convert.
BEYOND: int = 10**LONGEST_INT
SECTIONS = ("images", "annotations", "categories")


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


@dataclass
class CarefulDocument:
    """The outline of a document and the spans of its object records."""

    is_list: bool
    keys: list[str] = field(default_factory=list)
    images: list[Record] | None = None
    categories: list[Record] | None = None
    other: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    starts: array[int] = field(default_factory=lambda: array("q"))
    stops: array[int] = field(default_factory=lambda: array("q"))
    has_objects: bool = False

    def text_of(self, place: int) -> str:
        """Return the original text of object record ``place``."""
        return printable(self.text[self.starts[place] : self.stops[place]])


@dataclass(frozen=True)
class Record:
    """One value with what the scanner noticed on the way."""

    value: Any
    pointer: str
    text: str
    repeated: tuple[str, ...]  # keys that occur twice in one object
    odd_number: bool  # NaN, Infinity, 1e999
    broken_text: bool  # bytes that are not UTF-8, or half a surrogate pair


def outline(data: Buffer) -> Outline:
    """Find the values of the top level without decoding them."""
    start = _skip_space(data, 0)
    first = data[start : start + 1]
    if first == b"[":
        return Outline(True, {"": (start, len(data))})
    if first != b"{":
        raise Unreadable
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
    return Outline(False, spans)


def _no_gaps(data: Buffer, spans: dict[str, tuple[int, int]]) -> None:
    """Raise if a key is repeated: its first value leaves a gap that holds more than one key."""
    at = 0
    for start, stop in sorted(spans.values()):
        if start - at > 4096 or not GAP.fullmatch(data[at:start]):
            raise Unreadable
        at = stop


class RecordList(Generic[T]):
    """A list of objects that is read from its beginning to its end, a piece at a time."""

    def __init__(self, data: Buffer, span: tuple[int, int]) -> None:
        start, stop = _skip_space(data, span[0]), _rstrip(data, span[1])
        if stop - start < 2 or data[start : start + 1] != b"[" or data[stop - 1 : stop] != b"]":
            raise Unreadable
        self.data = data
        self.at, self.end = _skip_space(data, start + 1), stop - 1

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
        columns, self.at = route.coco_records(
            module, self.data, start, start + PIECE, self.end, required
        )
        if not len(columns.keys):
            return None
        # Between two records there is nothing but space and a comma.
        return columns, start, self.data.rfind(b"}", start, self.at) + 1

    def decode(self, decoder: Decodes[T]) -> tuple[Piece, list[T]]:
        """Return the next piece and its records."""
        for cut, following in _cuts(self.data, self.at, self.end):
            text = b"".join((b"[", self.data[self.at : cut], b"]"))
            try:
                records = decoder.decode(text)
            # Well-formed but unusual: no later cut would help. A syntax error may only be a wrong
            # cut.
            except msgspec.ValidationError:
                raise Unreadable from None
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                continue
            piece = Piece(text, self.at, cut)
            self.at = following
            return piece, records
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
    # Two quotes for each key that is read and no others: nothing else can be in the piece.
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
    # From the lowest level, because brackets inside texts may close more than they open.
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


def read_carefully(input_file: InputFile, take: Callable[[Record, int], None]) -> CarefulDocument:
    """Read a whole document; pass every object record (annotation or result) to ``take``.

    Raises
    ------
    InputError
        ``json-syntax``, ``depth`` and ``dup-key`` at the top level: nothing of such a file can be
        trusted.
    """
    data = bytes(input_file.data)
    if depth(data) > MAX_DEPTH:
        raise InputError(
            f"at most {MAX_DEPTH} brackets inside each other",
            rule="depth",
            file=input_file.file,
            hint="is this COCO JSON?",
        )
    # Bytes that are no UTF-8 become lone surrogates, so that they only spoil the record they are
    # in.
    text = data.decode("utf-8", "surrogateescape")
    walker = _Walker(input_file.file, text, take)
    try:
        return walker.document()
    except json.JSONDecodeError as error:
        raise walker.syntax_error(error.pos, error.msg) from None
    except RecursionError:
        raise InputError(
            "fewer brackets inside each other", rule="depth", file=input_file.file
        ) from None


def printable(text: str) -> str:
    """Return text that can be encoded: bytes that were not UTF-8 become U+FFFD."""
    return SURROGATE.sub("\ufffd", text)


class _Walker:
    def __init__(self, file: str, text: str, take: Callable[[Record, int], None]) -> None:
        self.file, self.text, self.take = file, text, take
        self.repeated: list[str] = []
        self.odd_number = False
        self.last_good = ""
        self.scan = json.JSONDecoder(
            object_pairs_hook=self._pairs,
            parse_constant=self._constant,
            parse_float=self._float,
            parse_int=_whole,
        ).raw_decode

    def document(self) -> CarefulDocument:
        at = self._space(0)
        if self.text[at : at + 1] == "[":
            document = CarefulDocument(True, text=self.text, has_objects=True)
            at = self._objects(at, "", document)
        elif self.text[at : at + 1] == "{":
            document = CarefulDocument(False, text=self.text)
            at = self._members(at, document)
        else:
            raise json.JSONDecodeError("a list or an object was expected", self.text, at)
        at = self._space(at)
        if at < len(self.text):
            raise json.JSONDecodeError("text after the end of the document", self.text, at)
        return document

    def _members(self, at: int, document: CarefulDocument) -> int:
        at = self._space(at + 1)
        if self.text[at : at + 1] == "}":
            return at + 1
        while True:
            if self.text[at : at + 1] != '"':
                raise json.JSONDecodeError("a key in double quotes was expected", self.text, at)
            key, at = self.scan(self.text, at)
            if key in document.keys:
                raise InputError(
                    "every key once", rule="dup-key", file=self.file, location=f"/{key}", field=key
                )
            document.keys.append(key)
            at = self._space(self._expect(":", self._space(at)))
            at = self._space(self._section(key, at, document))
            if self.text[at : at + 1] == "}":
                return at + 1
            at = self._space(self._expect(",", at))

    def _section(self, key: str, at: int, document: CarefulDocument) -> int:
        is_list = self.text[at : at + 1] == "["
        if key == "annotations" and is_list:
            document.has_objects = True
            return self._objects(at, "/annotations", document)
        if key in ("images", "categories") and is_list:
            records: list[Record] = []
            at = self._elements(at, f"/{key}", lambda record, _start, _stop: records.append(record))
            setattr(document, key, records)
            return at
        document.other[key], at = self.scan(self.text, at)
        return at

    def _objects(self, at: int, pointer: str, document: CarefulDocument) -> int:
        def keep(record: Record, start: int, stop: int) -> None:
            self.take(record, len(document.starts))
            document.starts.append(start)
            document.stops.append(stop)

        return self._elements(at, pointer, keep)

    def _elements(self, at: int, pointer: str, keep: Callable[[Record, int, int], None]) -> int:
        at = self._space(at + 1)
        if self.text[at : at + 1] == "]":
            return at + 1
        k = 0
        while True:
            # The hooks of the scanner report into these while one record is read.
            self.repeated, self.odd_number = [], False
            where = f"{pointer}/{k}"
            value, stop = self.scan(self.text, at)
            raw = self.text[at:stop]
            broken = bool(SURROGATE.search(raw)) or ("\\u" in raw and _half_pair(value))
            keep(Record(value, where, raw, tuple(self.repeated), self.odd_number, broken), at, stop)
            self.last_good = where
            at, k = self._space(stop), k + 1
            if self.text[at : at + 1] == "]":
                return at + 1
            at = self._space(self._expect(",", at))

    def _space(self, at: int) -> int:
        match = WHITESPACE.match(self.text, at)
        return match.end() if match else at

    def _expect(self, sign: str, at: int) -> int:
        if self.text[at : at + 1] != sign:
            raise json.JSONDecodeError(f"{sign!r} was expected", self.text, at)
        return at + 1

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            names: set[str] = set()
            for key, _ in pairs:
                if key in names:
                    self.repeated.append(key)
                names.add(key)
        return members

    def _constant(self, name: str) -> float:
        self.odd_number = True
        return float(name)

    def _float(self, digits: str) -> float:
        value = float(digits)
        self.odd_number |= value in (float("inf"), float("-inf"))
        return value

    def syntax_error(self, at: int, message: str) -> InputError:
        """Return the error for a document that is no JSON from position ``at`` on."""
        offset = len(self.text[:at].encode("utf-8", "surrogateescape"))
        sign = self.text[at : at + 1]
        expected, rule = "valid JSON", "json-syntax"
        if sign == "\0" or SURROGATE.match(sign):
            expected, rule = "text in UTF-8 without NUL", "encoding"
        following = self.text[at : at + 20] if sign else "end of file"
        hint = "was the file cut off, or is it another format?"
        if self.last_good:
            hint = f"the last whole record is {self.last_good}; {hint}"
        return InputError(
            expected,
            rule=rule,
            file=self.file,
            location=f"byte {offset}",
            value=printable(f"{message}: {following}"),
            hint=hint,
        )


def _whole(digits: str) -> int:
    # Python refuses to convert very long numbers; all of them are beyond every range checked later.
    if len(digits) <= LONGEST_INT:
        return int(digits)
    return -BEYOND if digits.startswith("-") else BEYOND


def _half_pair(value: Any) -> bool:
    """Return whether a text anywhere in the value holds half of a surrogate pair."""
    if isinstance(value, str):
        return bool(SURROGATE.search(value))
    if isinstance(value, dict):
        return any(_half_pair(key) or _half_pair(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_half_pair, value))
