# SPDX-License-Identifier: Apache-2.0
"""The schema ``calipers.requirements/1``: which keys a file of requirements has, of which type, in
which range.
"""

from __future__ import annotations

import hashlib
import math
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from calipers.errors import InputError, did_you_mean
from calipers.results.requirements import Requirement, Requirements

SCHEMA = "calipers.requirements/1"
MAX_BYTES = 1 << 20
LONGEST_ID = 80
LARGEST = 1 << 53  # whole numbers up to here are floats too
TOP = ("schema", "name", "requirement")
STATISTICS = ("low", "high", "value")


def read_text(path: Path) -> str:
    """Return the text of a small regular file in UTF-8, or raise."""
    file = str(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(
                "a TOML file", rule="not-a-file", file=file, value="a folder, device or pipe"
            )
        if status.st_size > MAX_BYTES:
            raise InputError(
                f"at most {MAX_BYTES} bytes", rule="too-large", file=file, value=status.st_size
            )
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "text in UTF-8", rule="encoding", file=file, location=f"byte {error.start}"
        ) from None
    except FileNotFoundError:
        raise InputError("a file of requirements", rule="not-found", file=file) from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            "a readable file", rule="not-readable", file=file, value=str(error)
        ) from None


def parse(text: str, file: str) -> Requirements:
    """Return the requirements of a TOML text; whatever is wrong is an error that names the key."""
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise InputError("fewer brackets inside each other", rule="depth", file=file) from None
    except ValueError as error:  # a syntax error, or a whole number with thousands of digits
        raise InputError("valid TOML", rule="toml-syntax", file=file, value=str(error)) from None
    _check_keys(document, TOP, file, "")
    if document.get("schema") != SCHEMA:
        raise InputError(
            f'schema = "{SCHEMA}"',
            rule="schema",
            file=file,
            field="schema",
            value=document.get("schema"),
        )
    if not isinstance(document.get("name", ""), str):
        raise InputError("text", rule="type", file=file, location="name", value=document["name"])
    tables = document.get("requirement", [])
    if not isinstance(tables, list):
        raise InputError(
            "[[requirement]] tables", rule="type", file=file, location="requirement", value=tables
        )
    if not tables:
        raise InputError("at least one [[requirement]]", rule="no-requirement", file=file)
    entries = [_requirement(table, file, f"requirement[{k}]") for k, table in enumerate(tables)]
    _each_once(entries, file)
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return Requirements(tuple(entries), document.get("name", ""), file, digest)


def _requirement(table: Any, file: str, where: str) -> Requirement:
    if not isinstance(table, dict):
        raise InputError(
            "a [[requirement]] table", rule="type", file=file, location=where, value=table
        )
    _check_keys(table, KEYS, file, where)
    for key in ("id", "metric"):
        if key not in table:
            raise InputError(f"the key {key!r}", rule="missing-key", file=file, location=where)
    for key, value in table.items():
        KEYS[key](value, file, f"{where}.{key}")
    _agree(table, file, where)
    arguments = dict(table)
    if "class" in arguments:  # a keyword of Python
        arguments["label"] = arguments.pop("class")
    return Requirement(**arguments)


def _agree(table: Mapping[str, Any], file: str, where: str) -> None:
    """Raise for keys that are fine one by one and make no sense together."""
    low, high = table.get("at_least"), table.get("at_most")
    if low is None and high is None:
        hint = "at_least = 0.8 demands that the lower bound of the interval reaches 0.8"
        raise InputError(
            "at_least, at_most or both", rule="no-limit", file=file, location=where, hint=hint
        )
    if low is not None and high is not None and low > high:
        value = f"at_least {low:g}, at_most {high:g}"
        raise InputError(
            "at_least <= at_most", rule="contradiction", file=file, location=where, value=value
        )
    if table.get("statistic") == "value" and "level" in table:
        hint = 'a limit on the value looks at no interval: leave out level, or statistic = "value"'
        raise InputError(
            "a level only for a bound", rule="contradiction", file=file, location=where, hint=hint
        )


def _each_once(entries: Iterable[Requirement], file: str) -> None:
    ids: set[str] = set()
    for k, entry in enumerate(entries):
        if entry.id in ids:
            where = f"requirement[{k}].id"
            raise InputError(
                "every id once", rule="dup-requirement", file=file, location=where, value=entry.id
            )
        ids.add(entry.id)


def _check_keys(table: Mapping[str, Any], keys: Iterable[str], file: str, where: str) -> None:
    for key in table:
        if key not in keys:
            raise InputError(
                "a key of the schema of requirements",
                rule="unknown-key",
                file=file,
                location=f"{where}.{key}" if where else key,
                value=key,
                hint=did_you_mean(key, keys),
            )


def _id(value: Any, file: str, where: str) -> None:
    _text(value, file, where)
    if not value.isprintable() or value != value.strip() or len(value) > LONGEST_ID:
        expected = f"an id of at most {LONGEST_ID} characters, in one line, without space around it"
        raise InputError(expected, rule="requirement-id", file=file, location=where, value=value)


def _text(value: Any, file: str, where: str) -> None:
    if not isinstance(value, str) or not value:
        raise InputError("text", rule="type", file=file, location=where, value=value)


def _group(value: Any, file: str, where: str) -> None:
    if not isinstance(value, dict) or not value:
        hint = "leave group out for all images"
        expected = 'a table of columns, such as { centre = "C1" }'
        raise InputError(expected, rule="type", file=file, location=where, value=value, hint=hint)
    for column, name in value.items():
        if not isinstance(name, str):
            hint = 'names of groups are text: put them in quotes; "*" is every one'
            raise InputError(
                "text", rule="type", file=file, location=f"{where}.{column}", value=name, hint=hint
            )


def _statistic(value: Any, file: str, where: str) -> None:
    if value not in STATISTICS:
        hint = did_you_mean(str(value), STATISTICS)
        expected = "one of " + ", ".join(STATISTICS)
        raise InputError(expected, rule="choice", file=file, location=where, value=value, hint=hint)


def _limit(value: Any, file: str, where: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError("a number", rule="type", file=file, location=where, value=value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(
            "a finite number", rule="non-finite", file=file, location=where, value=value
        )
    if abs(value) > LARGEST:
        raise InputError(
            "a number up to 2^53", rule="range", file=file, location=where, value=value
        )


def _count(value: Any, file: str, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError("a whole number", rule="type", file=file, location=where, value=value)
    if not 1 <= value <= LARGEST:
        raise InputError(
            "a whole number from 1 on", rule="range", file=file, location=where, value=value
        )


def _level(value: Any, file: str, where: str) -> None:
    _limit(value, file, where)
    if not 0 < value < 1:
        hint = f"did you mean {value / 100:g}?" if 1 < value < 100 else ""
        raise InputError(
            "a level between 0 and 1",
            rule="range",
            file=file,
            location=where,
            value=value,
            hint=hint,
        )


KEYS: Mapping[str, Callable[[Any, str, str], None]] = {
    "id": _id,
    "text": _text,
    "metric": _text,
    "model": _text,
    "class": _text,
    "group": _group,
    "statistic": _statistic,
    "at_least": _limit,
    "at_most": _limit,
    "min_images": _count,
    "min_units": _count,
    "min_references": _count,
    "level": _level,
}
