# SPDX-License-Identifier: Apache-2.0
"""JSON value by value, with the scanner of the standard library: slow, but it tells what is wrong.

`calipers.io.coco.json` comes here with the few stretches of a file that msgspec cannot read.
`Walker.elements` reads the records of a stretch one by one, so that a record with NaN, a repeated
key or a broken text can be set aside by its place (`Record`). `walk` goes through a whole document
in the order of the file; it finds the values of the top level where msgspec does not, and raises
the error that names the first byte that is no JSON.

The file is never in memory as a whole: a window of text follows the place that is being read, and
grows only if a single value does not fit into it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from calipers.errors import InputError
from calipers.io.source import Buffer, InputFile, search

PIECE = 2 << 20  # measured: smaller costs calls, larger leaves the cache
WINDOW = 1 << 18  # bytes of text at a time; a larger value makes it grow
MARGIN = 64  # characters in view at least, for messages and to tell a cut value from a broken one
MAX_DEPTH = 64
LONGEST_INT = 400
# Stands for every whole number that is too long to convert.
BEYOND: int = 10**LONGEST_INT
SECTIONS = ("images", "annotations", "categories")

CUT = re.compile(rb"\}\s*,\s*\{")
WHITESPACE = re.compile(r"[ \t\r\n]*")
SURROGATE = re.compile("[\ud800-\udfff]")
TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
QUOTE = ord('"')
DEPTH_STEP = np.zeros(256, np.int8)
DEPTH_STEP[[ord("["), ord("{")]] = 1
DEPTH_STEP[[ord("]"), ord("}")]] = -1


@dataclass(frozen=True)
class Outline:
    """Spans of the top-level values: ``{key: (start, stop)}``, or ``{"": ...}`` for a list."""

    is_list: bool
    spans: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Record:
    """One value with what the scanner noticed on the way."""

    value: Any
    pointer: str
    text: str
    start: int  # bytes of the file
    stop: int
    repeated: tuple[str, ...]  # keys that occur twice in one object
    odd_number: bool  # NaN, Infinity, 1e999
    broken_text: bool  # bytes that are not UTF-8, or half a surrogate pair


def walk(file: str, data: Buffer) -> Outline:
    """Go through a whole document and find the values of its top level.

    Raises
    ------
    InputError
        ``json-syntax``, ``encoding``, ``depth`` and ``dup-key`` at the top level: nothing of such a
        file can be trusted.
    """
    return Walker(file, data).document()


def read_value(input_file: InputFile) -> Any:
    """Return the whole of a JSON file as one value, for formats of small files.

    Raises
    ------
    InputError
        ``json-syntax``, ``encoding``, ``depth``, ``dup-key`` or ``non-finite``, wherever it is.
    """
    file = input_file.file
    walker = Walker(file, input_file.data)
    with walker.typed_errors():
        value, _, text = walker.value()
        walker._check_depth(text, 0)
        repeated, odd_number = walker.repeated, walker.odd_number
        walker.end()
    if repeated:
        raise InputError("every key once", rule="dup-key", file=file, field=repeated[0])
    if odd_number:
        raise InputError("finite numbers", rule="non-finite", file=file)
    if SURROGATE.search(text) or ("\\u" in text and _half_pair(value)):
        raise InputError("text in UTF-8", rule="encoding", file=file)
    return value


def printable(text: str) -> str:
    """Return text that can be encoded: bytes that were not UTF-8 become U+FFFD."""
    return SURROGATE.sub("\ufffd", text)


def decoded(raw: bytes) -> str:
    """Return bytes of a file as text; those that are no UTF-8 become lone surrogates."""
    # So that they only spoil the record they are in.
    return raw.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def depth_error(file: str) -> InputError:
    """Return the error for brackets that are nested too deeply."""
    expected = f"at most {MAX_DEPTH} brackets inside each other"
    return InputError(expected, rule="depth", file=file, hint="is this COCO JSON?")


def depth(text: bytes) -> int:
    """Return how deeply the brackets of a JSON text are nested, without those inside texts."""
    steps = DEPTH_STEP[np.frombuffer(text, np.uint8)]
    if _range(steps) <= MAX_DEPTH:
        return _range(steps)
    # Run lengths are full of brackets and backslashes. Once pairs of backslashes are gone, every
    # quote without one before it begins or ends a text.
    plain = text.replace(b"\\\\", b"__")
    if b'\\"' in plain:
        return _range(DEPTH_STEP[np.frombuffer(TEXT.sub(b"", text), np.uint8)])
    signs = np.frombuffer(plain, np.uint8)
    n_quotes = np.cumsum(signs == QUOTE, dtype=np.uint8)  # odd inside of a text, also modulo 256
    return _range(np.where(n_quotes & 1, np.int8(0), DEPTH_STEP[signs]))


def _range(steps: np.ndarray[tuple[int], np.dtype[np.int8]]) -> int:
    # From the lowest level, because brackets inside texts may close more than they open.
    level = np.cumsum(steps[steps != 0], dtype=np.int64)
    return int(level.max() - min(0, int(level.min()))) if len(level) else 0


def cuts(data: Buffer, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Propose ends of a piece that starts at ``at``, each with the start of the next piece."""
    for length in (PIECE, PIECE + 1, 2 * PIECE, 4 * PIECE):
        place = search(CUT, data, at + length, end) if at + length < end else None
        if place:
            base, match = place
            yield base + match.start() + 1, base + match.end() - 1


class Walker:
    """Reads the values of a file one after another.

    ``byte`` is the place in the file, ``char`` the same place in the window of text.
    """

    def __init__(self, file: str, data: Buffer, at: int = 0) -> None:
        self.file, self.data = file, data
        self.repeated: list[str] = []
        self.odd_number = False
        self.last_good = ""
        self.scan = json.JSONDecoder(
            object_pairs_hook=self._pairs,
            parse_constant=self._constant,
            parse_float=self._float,
            parse_int=_whole,
        ).raw_decode
        self.jump(at)

    def jump(self, at: int) -> None:
        """Go on at another byte of the file."""
        self.byte = at
        self._load(WINDOW)

    def document(self) -> Outline:
        """Return the spans of the values of the top level."""
        with self.typed_errors():
            outline = self._document()
            self.end()
        return outline

    @contextmanager
    def typed_errors(self) -> Iterator[None]:
        """Turn what the scanner raises into errors with the place in the file."""
        try:
            yield
        except json.JSONDecodeError as error:
            if depth(_encoded(self.text[self.char :])) > MAX_DEPTH:
                raise depth_error(self.file) from None
            raise self._syntax_error(error) from None
        except RecursionError:
            raise depth_error(self.file) from None

    def end(self) -> None:
        """Raise if the file goes on."""
        if self.sign():
            raise self._broken("text after the end of the document")

    def elements(self, pointer: str, first: int, stop: int) -> Iterator[Record]:
        """Yield the records from this place until one begins behind ``stop`` or the list ends.

        The next of them is number ``first`` of the list called ``pointer``.
        """
        level = 2 if pointer else 1
        number = first
        while True:
            where = f"{pointer}/{number}"
            value, start, text = self.value()
            self._check_depth(text, level)
            broken = bool(SURROGATE.search(text)) or ("\\u" in text and _half_pair(value))
            yield Record(
                value, where, text, start, self.byte, tuple(self.repeated), self.odd_number, broken
            )
            self.last_good = where
            number += 1
            if self.sign() == "]":
                return
            self.expect(",")
            self.sign()
            # A list that ends with a comma is broken, which reading on will tell.
            if self.byte >= stop and self.sign() != "]":
                return

    def value(self) -> tuple[Any, int, str]:
        """Return the value at this place, where it begins, and its text; go on behind it."""
        self.sign()
        while True:
            # The hooks of the scanner report into these while one value is read.
            self.repeated, self.odd_number = [], False
            try:
                value, stop = self.scan(self.text, self.char)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string")
                cut |= error.pos > len(self.text) - MARGIN
                if self.is_last or not cut:
                    raise
            else:
                # A number at the end of the window may go on behind it.
                if self.is_last or stop < len(self.text):
                    break
            self._load(WINDOW if self.char else 2 * self.size)
        start, text = self.byte, self.text[self.char : stop]
        self._pass(text)
        return value, start, text

    def sign(self) -> str:
        """Pass over white space; return the next character, "" at the end of the file."""
        while True:
            match = WHITESPACE.match(self.text, self.char)
            if match:
                self._pass(match.group())
            if self.is_last or self.char <= len(self.text) - MARGIN:
                return self.text[self.char : self.char + 1]
            self._load(WINDOW)

    def expect(self, sign: str) -> None:
        """Pass over one character, or raise."""
        if self.sign() != sign:
            raise self._broken(f"{sign!r} was expected")
        self._pass(sign)

    def _load(self, size: int) -> None:
        """Make the window begin at this place."""
        raw = self.data[self.byte : self.byte + size]
        self.text, self.char, self.size = decoded(raw), 0, size
        self.is_last = self.byte + size >= len(self.data)

    def _pass(self, text: str) -> None:
        self.char += len(text)
        self.byte += len(text) if text.isascii() else len(_encoded(text))

    def _document(self) -> Outline:
        sign = self.sign()
        start = self.byte
        if sign == "[":
            self._list("")
            return Outline(True, {"": (start, self.byte)})
        if sign != "{":
            raise self._broken("a list or an object was expected")
        spans: dict[str, tuple[int, int]] = {}
        self.expect("{")
        if self.sign() == "}":
            self.expect("}")
            return Outline(False, spans)
        while True:
            key = self._key()
            if key in spans:
                raise InputError(
                    "every key once", rule="dup-key", file=self.file, location=f"/{key}", field=key
                )
            spans[key] = self._member(key)
            if self.sign() == "}":
                self.expect("}")
                return Outline(False, spans)
            self.expect(",")

    def _key(self) -> str:
        if self.sign() != '"':
            raise self._broken("a key in double quotes was expected")
        key, _, _ = self.value()
        self.expect(":")
        return str(key)

    def _member(self, key: str) -> tuple[int, int]:
        """Pass over the value of a key of the top level, and return where it is."""
        sign = self.sign()
        start = self.byte
        if key in SECTIONS and sign == "[":
            self._list(f"/{key}")
        else:
            _, _, text = self.value()
            self._check_depth(text, 1)
        return start, self.byte

    def _check_depth(self, text: str, level: int) -> None:
        """Raise if a value that is ``level`` brackets deep is nested too deeply."""
        room = MAX_DEPTH - level
        # Few brackets cannot be deep; only then they are counted one by one.
        if text.count("[") + text.count("{") > room and depth(_encoded(text)) > room:
            raise depth_error(self.file)

    def _list(self, pointer: str) -> None:
        """Pass over a list of records."""
        self.expect("[")
        number = 0
        if self.sign() != "]":
            while True:
                n_sound = self._sound_records()
                number += n_sound
                if n_sound:
                    self.last_good = f"{pointer}/{number - 1}"
                for _ in self.elements(pointer, number, self.byte + PIECE):
                    number += 1
                if self.text[self.char : self.char + 1] == "]":
                    break
        self.expect("]")

    def _sound_records(self) -> int:
        """Pass over whole pieces of sound records, and return how many these are."""
        number = 0
        while True:
            for cut, following in cuts(self.data, self.byte, len(self.data)):
                text = b"".join((b"[", self.data[self.byte : cut], b"]"))
                try:
                    number += len(msgspec.json.decode(text, type=list[msgspec.Raw]))
                except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                    continue
                self.jump(following)
                break
            else:
                return number

    def _broken(self, message: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self.text, self.char)

    def _syntax_error(self, error: json.JSONDecodeError) -> InputError:
        """Return the error for a document that is no JSON from a place in the window on."""
        at = error.pos
        passed = _encoded(self.text[self.char : at])
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
            location=f"byte {self.byte + len(passed)}",
            value=printable(f"{error.msg}: {following}"),
            hint=hint,
        )

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
