# SPDX-License-Identifier: Apache-2.0
"""Columns that options of `calipers monitor` name: COLUMN of yes and no, or COLUMN=VALUE,VALUE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, UsageError, did_you_mean

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

ALL = "all"
YES_NO = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
MOST_NAMED = 12


@dataclass(frozen=True)
class Choice:
    """A column, and its values that mean yes; without values the column itself says yes and no."""

    column: str
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Choice:
        """Return the choice of ``COLUMN`` or ``COLUMN=VALUE,VALUE``."""
        column, sign, values = text.partition("=")
        if not column or (sign and not values):
            raise UsageError(f"expected COLUMN or COLUMN=VALUE,..., got {text!r}")
        if not sign:
            return cls(column)
        return cls(column, tuple(value.strip() for value in values.split(",")))


def flags_by(
    columns: Mapping[str, NDArray[Any]], text: str, option: str, images: Sequence[str]
) -> Flags:
    """Return one flag per image."""
    choice = Choice.of(text)
    cells = [_word(cell) for cell in _column(columns, choice.column, option).tolist()]
    if choice.values:
        there = set(cells)
        for value in choice.values:
            if value not in there:
                raise UsageError(
                    f"{option}: {choice.column} is {value!r} on no image; "
                    f"{_suggestion(value, sorted(there))}"
                )
        return np.array([cell in choice.values for cell in cells], np.bool_)
    for image, cell in zip(images, cells):
        if cell.lower() not in YES_NO:
            words = ", ".join(sorted({word for word in cells if word})[:MOST_NAMED])
            hint = (
                f"or say which values are meant, {option} {choice.column}=VALUE,VALUE; there are "
                f"{words}"
            )
            where, expected = f"image {image!r}", "0 or 1, true or false"
            place = {"file": f"{option} {choice.column}", "location": where, "field": choice.column}
            raise InputError(expected, rule="flag", value=cell, hint=hint, **place)
    return np.array([YES_NO[cell.lower()] for cell in cells], np.bool_)


def numbers_by(
    columns: Mapping[str, NDArray[Any]], name: str, option: str, images: Sequence[str]
) -> F64:
    """Return one number per image."""
    column = _column(columns, name, option)
    values = np.empty(len(column))
    for k, cell in enumerate(column.tolist()):
        try:
            values[k] = float(cell)
        except (TypeError, ValueError):
            where = f"image {images[k]!r}"
            place = {"file": f"{option} {name}", "location": where, "field": name}
            raise InputError("a number for every image", rule="type", value=cell, **place) from None
    return values


def _column(columns: Mapping[str, NDArray[Any]], name: str, option: str) -> NDArray[Any]:
    if name not in columns:
        suggestion = did_you_mean(name, columns) if columns else "the files have no further column."
        raise UsageError(
            f"{option}: no column {name!r} in the files of alarms or among the groups; {suggestion}"
        )
    return np.asarray(columns[name])


def _word(cell: Any) -> str:
    """Return a cell as the text that a user would write: 1 for 1.0, and for True."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "" if cell is None else str(cell).strip()


def _suggestion(value: str, there: Sequence[str]) -> str:
    return did_you_mean(value, there[:MOST_NAMED])
