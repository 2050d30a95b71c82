# SPDX-License-Identifier: Apache-2.0
"""A table that holds neither references nor predictions: any columns, one row per measurement."""

from __future__ import annotations

from pathlib import Path

from calipers.errors import InputError, raise_problems
from calipers.readers import columnar, delimited
from calipers.readers.source import Opened, open_source
from calipers.readers.tabular import Table


def read_plain(path: Path | str) -> tuple[Table, Opened]:
    """Return a table of a CSV, TSV or parquet file, every row of which fits the header, and the
    file itself.
    """
    opened = open_source(path)
    if opened.data[:1] in (b"{", b"["):
        hint = "references in JSON need predictions beside them"
        raise InputError(
            "a table (csv, tsv or parquet)",
            rule="format",
            file=opened.file,
            value="JSON",
            hint=hint,
        )
    is_parquet = opened.data[: len(columnar.MAGIC)] == columnar.MAGIC
    table = columnar.read_table(opened) if is_parquet else delimited.read_table(opened)
    raise_problems([problem.as_error(table.file) for problem in table.problems])
    return table, opened
