# SPDX-License-Identifier: Apache-2.0
"""TOML that users write, read within limits: protocols, recipes, grids, requirements.

`read_toml` takes a path and returns the text of a small regular file; `parse_toml` takes a text and
returns the document. Whatever is wrong is an `InputError` that names the file. The schema of a
document is the business of `calipers.results.schema`. `toml_lines` writes what these read.

tomllib recurses into brackets, needs time that grows with the square of the dots of a key, and
gives whole numbers of any length, which fail later, where they become floats. So all three are
limited here, far above what people write.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calipers.errors import InputError
from calipers.results.files import small_text

MAX_BYTES = 1 << 20
MOST_DOTS = 32  # of a key
LARGEST_INT = 2**63 - 1  # what the standard promises
# A word, a dot, a word, ...: it begins where no word goes on, so that the search stays linear.
LONG_KEY = re.compile(
    rf"""(?<![\w"'.-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){{{MOST_DOTS + 1}}}""", re.ASCII
)

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read_toml(path: Path | str, what: str = "a TOML file") -> str:
    """Return the text of a small regular file in UTF-8; ``what`` names it in messages."""
    return small_text(path, what, MAX_BYTES)


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """Return the document of a text."""
    if LONG_KEY.search(text):
        raise InputError(f"keys of at most {MOST_DOTS} dots", rule="depth", file=file)
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise InputError("fewer brackets inside each other", rule="depth", file=file) from None
    except ValueError as error:  # a syntax error, or a whole number with thousands of digits
        raise InputError("valid TOML", rule="toml-syntax", file=file, value=str(error)) from None
    _check_numbers(document, file)
    return document


def _check_numbers(document: dict[str, Any], file: str) -> None:
    """Raise for a whole number that no float can hold."""
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{place}.{key}".lstrip("."), entry) for key, entry in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{place}[{k}]", entry) for k, entry in enumerate(value)]
        elif isinstance(value, int) and abs(value) > LARGEST_INT:
            raise InputError(
                "whole numbers of at most 64 bits",
                rule="range",
                file=file,
                location=place,
                value=value,
            )


def toml_lines(entries: Mapping[str, Any]) -> list[str]:
    """Return a line per key; what is read back is equal."""
    return [f"{toml_key(key)} = {toml_value(value)}" for key, value in entries.items()]


def toml_key(key: str) -> str:
    """Return a key, in quotation marks where it needs them: names of models are any text."""
    return key if BARE_KEY.fullmatch(key) else toml_value(key)


def toml_value(value: Any) -> str:
    """Return a number, a text, a list or a table in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for the one control character that JSON leaves as it is.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, float):
        return repr(value)  # inf and -inf are TOML too
    if isinstance(value, Mapping):
        return "{ " + ", ".join(toml_lines(value)) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return str(value)
