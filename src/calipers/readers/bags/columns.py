# SPDX-License-Identifier: Apache-2.0
"""Which column of a table about bags is what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calipers.errors import InputError
from calipers.readers.tabular import Table

BAG = ("bag", "bag_id", "image", "image_id", "case", "sample", "id", "file_name", "filename")
VALUE = ("value", "score", "probability")
LABEL = ("label", "positive", "bag_label")


def column_of(table: Table, aliases: Sequence[str]) -> str | None:
    """Return the column with the first of these names, whatever its case; None if there is none."""
    lower = {name.lower(): name for name in table.names}
    return next((lower[alias] for alias in aliases if alias in lower), None)


def require_column(table: Table, aliases: Sequence[str], what: str) -> str:
    """Return the column with the first of these names, or say which are known."""
    found = column_of(table, aliases)
    if found is None:
        hint = f"names that are known: {', '.join(aliases)}"
        raise InputError(
            f"a column {what!r}",
            rule="missing-column",
            file=table.file,
            location="1",
            value=list(table.names),
            hint=hint,
        )
    return found


def renamed(table: Table, old: str, new: str) -> Table:
    """Return a table in which one column has another name."""
    return replace(table, columns={new if name == old else name: cells for name, cells in table.columns.items()})
