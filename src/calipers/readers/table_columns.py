# SPDX-License-Identifier: Apache-2.0
"""Find a column of a table by the user's choice or by known names, or raise for a missing one."""

from __future__ import annotations

from collections.abc import Sequence

from calipers.errors import InputError, did_you_mean
from calipers.readers.tabular import Table


def column_of(table: Table, aliases: Sequence[str]) -> str | None:
    """Return the column with the first of these names, whatever its case; None if there is none."""
    lower = {name.lower(): name for name in reversed(table.names)}
    return next((lower[alias] for alias in aliases if alias in lower), None)


def find_column(table: Table, what: str, choice: str | None, aliases: Sequence[str]) -> str | None:
    """Return the column that the user chose, which has to exist, else the one with a known name."""
    if choice is not None:
        return existing_column(table, what, choice)
    return column_of(table, aliases)


def existing_column(table: Table, what: str, name: str) -> str:
    """Return the name of a column that exists, or say which is near."""
    if name in table.names:
        return name
    raise missing_column(table, f"the column {name!r} ({what})", did_you_mean(name, table.names))


def missing_column(table: Table, expected: str, hint: str = "") -> InputError:
    """Return the error of a table without a column, which shows those that it has."""
    return InputError(
        expected,
        rule="missing-column",
        file=table.file,
        location="1",
        value=list(table.names),
        hint=hint,
    )
