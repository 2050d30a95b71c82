# SPDX-License-Identifier: Apache-2.0
"""Read JSON record by record: slow, but able to say what is wrong with each record.

The standard library's scanner reads one record at a time. A record with NaN, a repeated key or a
broken text can therefore be set aside by its place, while everything around it is still read. The
COCO reader comes here only when the fast path (`jsonchunks`) gives up.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from calipers.errors import InputError
from calipers.readers.jsonchunks import MAX_DEPTH, depth
from calipers.readers.source import InputFile

SPACE = re.compile(r"[ \t\r\n]*")
SURROGATE = re.compile("[\ud800-\udfff]")
LONGEST_INT = 400
BEYOND: int = 10**LONGEST_INT
SECTIONS = ("images", "annotations", "categories")


@dataclass(frozen=True)
class Record:
    """One value with what the scanner noticed on the way."""

    value: Any
    pointer: str
    text: str
    repeated: tuple[str, ...]  # keys that occur twice in one object
    odd_number: bool  # NaN, Infinity, 1e999
    broken_text: bool  # bytes that are not UTF-8, or half a surrogate pair


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
        match = SPACE.match(self.text, at)
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
