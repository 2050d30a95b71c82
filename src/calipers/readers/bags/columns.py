# SPDX-License-Identifier: Apache-2.0
"""Names of the columns of tables about bags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calipers.readers.table_columns import column_of, missing_column
from calipers.readers.tabular import Table

BAG = ("bag", "bag_id", "image", "image_id", "case", "sample", "id", "file_name", "filename")
VALUE = ("value", "score", "probability")
LABEL = ("label", "positive", "bag_label")


def require_column(table: Table, aliases: Sequence[str], what: str) -> str:
    """Return the column with the first of these names; raise if there is none."""
    column = column_of(table, aliases)
    if column is None:
        hint = f"accepted names: {', '.join(aliases)}"
        raise missing_column(table, f"a column {what!r}", hint)
    return column


def rename_column(table: Table, old: str, new: str) -> Table:
    """Return a table in which one column has another name."""
    columns = {}
    for name, cells in table.columns.items():
        columns[new if name == old else name] = cells
    return replace(table, columns=columns)
