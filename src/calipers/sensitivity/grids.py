# SPDX-License-Identifier: Apache-2.0
"""Read the grid of a multiverse from TOML.

``[grid]`` has a list of values per choice, ``[base]`` the configuration that the others are
compared with.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calipers.errors import InputError, UsageError, did_you_mean
from calipers.sensitivity.configurations import DEFAULT, Value, check_grid

SCHEMA = "calipers.grid/1"
TOP = ("schema", "grid", "base")


def load_grid(file: str | Path) -> tuple[dict[str, list[Value]], dict[str, Value]]:
    """Return the grid and the base of a TOML file.

    Choices that the file does not name keep their default values.
    """
    name = str(file)
    try:
        document = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError("valid TOML", rule="toml-syntax", file=name, value=str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            "a readable TOML file", rule="not-found", file=name, value=str(error)
        ) from None
    _check(document, name)
    return dict(document.get("grid", {})), dict(document.get("base", {}))


def _check(document: Mapping[str, Any], file: str) -> None:
    for key in document:
        if key not in TOP:
            # The usual slip: a choice at the top level instead of in its table.
            hint = f"write {key} under [grid]" if key in DEFAULT else did_you_mean(key, TOP)
            raise InputError(
                f"one of {', '.join(TOP)}", rule="unknown-key", file=file, field=key, hint=hint
            )
    if document.get("schema") != SCHEMA:
        raise InputError(
            f'schema = "{SCHEMA}"',
            rule="schema",
            file=file,
            field="schema",
            value=document.get("schema"),
        )
    for key in ("grid", "base"):
        if not isinstance(document.get(key, {}), dict):
            raise InputError("a table", rule="type", file=file, location=key, value=document[key])
    try:
        check_grid({**DEFAULT, **document.get("grid", {})})
    except UsageError as error:
        raise InputError(
            "a grid", rule="grid", file=file, location="grid", value=str(error)
        ) from None
