# SPDX-License-Identifier: Apache-2.0
"""The names of the classes of a YOLO data set: `read_names` of a ``data.yaml`` or ``classes.txt``.

`calipers.io.annotations.yolo` calls it. Of YAML only what such files hold is read: the key
``names`` with a list in brackets, a list of lines with dashes, or lines ``0: name``. This needs no
YAML library, of which none stops aliases that grow without bounds; everything else of the language
(anchors, tags, several documents) is refused where it would matter, and not looked at elsewhere.
"""

from __future__ import annotations

import re

from calipers.errors import InputError
from calipers.io.annotations.yolo import YAML_SUFFIXES
from calipers.io.source import InputFile

MOST_NAMES = 4096
MOST_BYTES = 1 << 21  # enough for the longest names
LONGEST_NAME = 256
KEY = re.compile(r"names\s*:(?:\s+(.*))?$")
# Repetitions give nothing back (``*+``), so that no text takes longer than it is long.
NUMBERED = re.compile(r"""(\d{1,9}|'\d{1,9}'|"\d{1,9}")\s*+:(?:\s++(.*))?$""")
QUOTED = re.compile(r"""(?:'((?:[^']|'')*+)'|"([^"\\]*+)")\s*+(?:#.*)?$""")
COMMENT = re.compile(r"(?:^|\s)#.*$")
_SCALAR = r"""('(?:[^']|'')*+'\s*+|"[^"\\]*+"\s*+|[^\s,'"\[\]{}#&*!|>%@`][^,'"\[\]{}#]*+)"""
# One entry of a list in brackets or braces, and the comma or bracket behind it.
ENTRY = re.compile(rf"\s*+{_SCALAR}([,\]])")
NUMBERED_ENTRY = re.compile(rf"\s*+(\d{{1,9}})\s*+:\s*+{_SCALAR}([,}}])")
LIST_END = re.compile(r"\s*+\]")
# Signs with which a plain text cannot begin in YAML, or which mean more than a text.
RESERVED = tuple("&*!|>%@`{}[],'\"")


def read_names(file: InputFile) -> list[str] | None:
    """Return the names of the classes by their number; None for a YAML file without ``names``.

    Raises
    ------
    InputError
        The names cannot be read, are repeated, or do not count from 0 without a gap.
    """
    if len(file.data) > MOST_BYTES:
        raise _broken(file, 0, f"at most {MOST_BYTES} bytes", "too-large")
    try:
        lines = file.data[:].decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise _broken(file, 0, "text in UTF-8", rule="encoding") from None
    if file.file.lower().endswith(YAML_SUFFIXES):
        names = _from_yaml(file, lines)
    else:
        names = {k: name.strip() for k, name in enumerate(_without_blank_end(lines))}
    if names is None:
        return None
    if list(names) != list(range(len(names))):
        raise _broken(file, 0, "names numbered 0, 1, 2, ... without a gap")
    texts = list(names.values())
    if not texts or len(texts) > MOST_NAMES:
        raise _broken(file, 0, f"1 to {MOST_NAMES} names of classes")
    for name in texts:
        if not name or len(name) > LONGEST_NAME:
            raise _broken(file, 0, f"names of 1 to {LONGEST_NAME} characters")
    repeated = next((name for k, name in enumerate(texts) if name in texts[:k]), None)
    if repeated is not None:
        raise _broken(file, 0, f"every name once, but {repeated!r} is repeated", "dup-category")
    return texts


def _without_blank_end(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


def _from_yaml(file: InputFile, lines: list[str]) -> dict[int, str] | None:
    keys = [line for line in lines if KEY.match(line)]
    if len(keys) > 1:
        raise _broken(file, 0, "one key names", "dup-key")
    for number, line in enumerate(lines, 1):
        match = KEY.match(line)
        if match is None:
            continue
        rest = COMMENT.sub("", match[1] or "").strip()
        if not rest:
            return _block(file, lines[number:], number)
        # A list in brackets may go on over several lines.
        text = "\n".join([match[1], *(COMMENT.sub("", text) for text in lines[number:])])
        if rest[0] == "[":
            return _flow_list(file, text, number)
        if rest[0] == "{":
            return _flow_map(file, text, number)
        raise _broken(file, number, "a list of names")
    return None


def _flow_list(file: InputFile, text: str, number: int) -> dict[int, str]:
    """Return the names of ``[a, b, 'c d']``."""
    names: dict[int, str] = {}
    at = text.index("[") + 1
    # A comma may stand behind the last name.
    while not LIST_END.match(text, at):
        match = ENTRY.match(text, at)
        if match is None:
            raise _broken(file, number, "a list of names such as [polyp, 'other thing']")
        names[len(names)] = _plain(match[1])
        at = match.end()
        if match[2] == "]":
            _check_end(file, text, at, number)
            return names
    _check_end(file, text, text.index("]", at) + 1, number)
    return names


def _flow_map(file: InputFile, text: str, number: int) -> dict[int, str]:
    """Return the names of ``{0: a, 1: b}``."""
    names: dict[int, str] = {}
    at = text.index("{") + 1
    while True:
        match = NUMBERED_ENTRY.match(text, at)
        if match is None or int(match[1]) in names:
            raise _broken(file, number, "names such as {0: polyp, 1: 'other thing'}")
        names[int(match[1])] = _plain(match[2])
        at = match.end()
        if match[3] == "}":
            _check_end(file, text, at, number)
            return names


def _check_end(file: InputFile, text: str, at: int, number: int) -> None:
    """Raise if something stands on the line behind the bracket that closes a list of names."""
    rest = COMMENT.sub("", text[at:].split("\n", 1)[0]).strip()
    if rest:
        raise _broken(file, number, "nothing behind the list of names")


def _block(file: InputFile, lines: list[str], first: int) -> dict[int, str]:
    """Return the names on lines ``- a`` or ``0: a``, until a line that is neither."""
    names: dict[int, str] = {}
    for number, line in enumerate(lines, first + 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        numbered = NUMBERED.match(text)
        if text.startswith("- "):
            key, name = len(names), text[2:]
        elif numbered and line[:1] in (" ", "\t"):
            key, name = int(numbered[1].strip("'\"")), numbered[2] or ""
        elif line[:1] in (" ", "\t", "-"):
            raise _broken(file, number, "a name behind a dash, or behind its number and a colon")
        else:
            break
        if key in names:
            raise _broken(file, number, "every number once")
        names[key] = _scalar(file, name.strip(), number)
    return names


def _scalar(file: InputFile, text: str, number: int) -> str:
    if QUOTED.match(text):
        return _plain(text)
    if text.startswith(RESERVED):
        raise _broken(file, number, "a plain or quoted name")
    return COMMENT.sub("", text).strip()


def _plain(text: str) -> str:
    """Return the text of a scalar without its quotes."""
    match = QUOTED.match(text.strip())
    if match is None:
        return text.strip()
    single, double = match.groups()
    return double if single is None else single.replace("''", "'")


def _broken(file: InputFile, number: int, expected: str, rule: str = "class-names") -> InputError:
    return InputError(
        expected,
        rule=rule,
        file=file.file,
        location=f"line {number}" if number else "",
        hint="or write the names into classes.txt, one in a line",
    )
