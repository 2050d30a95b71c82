# SPDX-License-Identifier: Apache-2.0
"""Checks of plain arguments of public functions: numbers, flags, words, paths.

Each function takes the name of an argument and its value, returns the value in its plain type, and
raises a `UsageError` that names the argument otherwise. Called before anything is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from os import PathLike, fspath
from typing import Any

import numpy as np

from calipers.errors import UsageError, did_you_mean


def real(name: str, value: Any) -> float:
    """Return a number that is not NaN as float; text, yes and no, and arrays are none."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(
        value, bool | np.complexfloating | np.timedelta64
    )
    try:
        number = float(value) if is_number else math.nan
    except OverflowError:
        number = math.nan
    if math.isnan(number):
        raise UsageError(f"{name} is a number, not {shown(value)}")
    return number


def finite(name: str, value: Any) -> float:
    """Return a finite number as float."""
    number = math.nan if isinstance(value, float) and math.isnan(value) else real(name, value)
    if not math.isfinite(number):
        raise UsageError(f"{name} is a finite number, not {shown(value)}")
    return number


def whole(name: str, value: Any, low: int, high: int) -> int:
    """Return a whole number from low to high as int."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(
        value, bool | np.timedelta64
    )
    if not is_integer or not low <= int(value) <= high:
        raise UsageError(f"{name} is a whole number from {low} to {high}, not {shown(value)}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """Return yes or no as bool."""
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} is True or False, not {shown(value)}")
    return bool(value)


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return one of several words."""
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        raise UsageError(f"no {name} {shown(value)}; {did_you_mean(str(value)[:200], words)}")
    return value


def word(name: str, value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise UsageError(f"{name} is named by a text, not by {shown(value)}")
    return value


def several(name: str, value: Any) -> list[Any]:
    """Return the entries of a list, tuple, array or other sequence; a single word is none."""
    if (
        isinstance(value, str | bytes)
        or not isinstance(value, Iterable)
        or getattr(value, "shape", None) == ()
    ):
        raise UsageError(f"{name} takes several entries, such as a list, not {shown(value)}")
    return list(value)


def path(name: str, value: Any) -> str:
    """Return where a file is, as text."""
    if not isinstance(value, str | PathLike) or isinstance(fspath(value), bytes):
        raise UsageError(f"{name} is the path of a file, not {shown(value)}")
    return str(fspath(value))


def shown(value: Any) -> str:
    """Return a value as a message shows it: short, in one line, without half characters."""
    text = repr(value).encode("utf-8", "backslashreplace").decode("utf-8")
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:77]}..."
