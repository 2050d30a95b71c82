# SPDX-License-Identifier: Apache-2.0
"""Columns of groups, such as patient or centre: one value per image, bag or sample.

`group_column` makes an array of what a caller hands in: a list, an array or a column of a table of
pandas. Values are compared to find the images of one patient, so none may become another on the
way. NumPy would read the patients 1 and "1" as one, also "a" and "a\\0", NaN and "nan", True and 1,
and whole numbers that a float does not hold. Values of several kinds become texts; those that would
become one are refused, and so is what cannot be compared at all.

What comes out is flags, numbers or texts, which are the kinds that a saved evaluation stores. Dates
become texts. An entry that is missing (None, NaN, the mark of pandas) is NaN among floats, which
evaluation shows as unknown, and an empty text otherwise; whole numbers with gaps become texts, so
that they stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np

from calipers.arrays import Column, host_array
from calipers.errors import InputError

RULE = "group-value"
MOST_EXACT = 1 << 53  # the last whole number up to which a float holds all


def group_column(values: Any, where: str, name: str) -> Column:
    """Return the column ``name`` of groups.

    Parameters
    ----------
    values
        One value per image; an array of another shape comes back as it is, for the caller to say
        how many are needed.
    where
        What the values belong to, as a message names it: the k-th is at ``where[k]``.

    Raises
    ------
    InputError
        A value is none that can be compared, or two are of different kinds.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        hint = "fill them, or leave these images out"
        raise _refuse("values for all entries", where, name, "an array with masked entries", hint)
    if isinstance(values, list | tuple):
        return _from_values(values, where, name)
    try:
        array = host_array(values)
    except ValueError as error:
        raise _refuse("one value per image", where, name, str(error)) from None
    if array.ndim != 1:
        return array
    if is_group_column(array):
        return array
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind == "M":
        return np.where(np.isnat(array), "", array.astype(str))
    return _from_values(array.tolist(), where, name)


def is_group_column(column: Any) -> bool:
    """Return whether `group_column` has nothing to do."""
    if not isinstance(column, np.ndarray) or isinstance(column, np.ma.MaskedArray):
        return False
    # Half and long floats are none that a saved evaluation stores.
    return column.dtype.kind in "biuU" or column.dtype in (np.float32, np.float64)


def joined_group_columns(parts: Sequence[Column], name: str) -> Column:
    """Return the columns of several cohorts as one.

    Raises
    ------
    InputError
        Values of different kinds would become the same text.
    """
    if len({part.dtype.kind for part in parts}) == 1:
        return np.concatenate(parts)
    return _from_values([value for part in parts for value in part.tolist()], "images", name)


def _from_values(values: Sequence[Any], where: str, name: str) -> Column:
    kinds = set()
    missing = []
    if set(map(type, values)) == {str}:  # nearly always, and cohorts may have a million images
        return _texts(values, where, name)
    values = [_scalar(value) for value in values]
    for k, value in enumerate(values):
        kind = _kind_of(value)
        if kind == "":
            missing.append(k)
        elif kind is None:
            is_several = isinstance(value, list | tuple | np.ndarray)
            expected = "one value per image" if is_several else "a text, a number, a flag or a date"
            rule = "group-shape" if is_several else RULE
            raise _refuse(expected, f"{where}[{k}]", name, value, rule=rule)
        else:
            kinds.add(kind)
    if len(kinds) > 1:
        return _mixed(values, where, name)
    kind = next(iter(kinds), "texts")
    if kind == "numbers":
        return _numbers(values, missing, where, name)
    if kind == "flags" and not missing:
        return np.array(values, np.bool_)
    # A text of a class of its own, such as that of an enumeration, stays what it holds.
    entries = [value if kind == "texts" else str(value) for value in values]
    for k in missing:
        entries[k] = ""
    return _texts(entries, where, name)


def _mixed(values: Sequence[Any], where: str, name: str) -> Column:
    """Return values of several kinds as texts; refuse two that would become one."""
    texts: dict[tuple[str, Any], str] = {}  # one text for numbers that are equal, such as 1 and 1.0
    kind_of_text: dict[str, str] = {}
    entries = []
    for k, value in enumerate(values):
        kind = _kind_of(value)
        if not kind:
            entries.append("")
            continue
        text = texts.setdefault((kind, value), str(value))
        if kind_of_text.setdefault(text, kind) != kind:
            expected = f"values that are not the same text as one of the {kind_of_text[text]}"
            hint = "write all values as texts"
            raise _refuse(expected, f"{where}[{k}]", name, value, hint)
        entries.append(text)
    return _texts(entries, where, name)


def _texts(entries: Sequence[str], where: str, name: str) -> Column:
    for k, entry in enumerate(entries):
        if "\0" in entry:  # NumPy drops it at the end of a text
            raise _refuse("a text without the character NUL", f"{where}[{k}]", name, entry)
    return np.array(entries, np.str_)


def _scalar(value: Any) -> Any:
    """Return the value in an array or tensor without dimensions; anything else as it is."""
    is_boxed = getattr(value, "shape", None) == () and callable(getattr(value, "item", None))
    return value.item() if is_boxed and not isinstance(value, np.generic) else value


def _kind_of(value: Any) -> str | None:
    """Return the kind of a value; nothing for a missing one, None for what is no value."""
    if isinstance(value, str):
        return "texts"
    if isinstance(value, bool | np.bool_):
        return "flags"
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # the marks of pandas
        return ""
    if isinstance(value, np.timedelta64):  # a whole number to NumPy
        return None
    if isinstance(value, int | float | np.integer | np.floating):
        return "" if value != value else "numbers"
    if isinstance(value, np.datetime64):
        return "" if np.isnat(value) else "dates"
    return "dates" if isinstance(value, date) else None


def _numbers(values: Sequence[Any], missing: Sequence[int], where: str, name: str) -> Column:
    gaps = set(missing)
    numbers = [value for k, value in enumerate(values) if k not in gaps]
    is_whole = [isinstance(number, int | np.integer) for number in numbers]
    if all(is_whole):
        if gaps:
            return np.array(["" if k in gaps else str(value) for k, value in enumerate(values)])
        array = np.array(values)
        if array.dtype.kind in "iu":
            return array
    # As floats: every whole number among them must be one that a float holds.
    for k, value in enumerate(values):
        if isinstance(value, int | np.integer) and abs(int(value)) > MOST_EXACT:
            hint = "write all values as texts"
            expected = "whole numbers up to 2^53 in size"
            raise _refuse(expected, f"{where}[{k}]", name, value, hint)
    return np.array([np.nan if k in gaps else float(value) for k, value in enumerate(values)])


def _refuse(
    expected: str, location: str, name: str, value: Any, hint: str = "", rule: str = RULE
) -> InputError:
    return InputError(expected, rule=rule, location=location, field=name, value=value, hint=hint)
