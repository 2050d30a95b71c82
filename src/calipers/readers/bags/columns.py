# SPDX-License-Identifier: Apache-2.0
"""Which column of a table about bags is what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calipers.readers.table_columns import column_of, missing_column
from calipers.readers.tabular import Table

BAG = ("bag", "bag_id", "image", "image_id", "case", "sample", "id", "file_name", "filename")
VALUE = ("value", "score", "probability")
LABEL = ("label", "positive", "bag_label")


def require_column(table: Table, aliases: Sequence[str], what: str) -> str:
    """Return the column with the first of these names, or say which are known."""
    found = column_of(table, aliases)
    if found is None:
        hint = f"names that are known: {', '.join(aliases)}"
        raise missing_column(table, f"a column {what!r}", hint)
    return found


def renamed(table: Table, old: str, new: str) -> Table:
    """Return a table in which one column has another name."""
    return replace(
        table,
        columns={new if name == old else name: cells for name, cells in table.columns.items()},
    )
