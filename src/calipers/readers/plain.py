# SPDX-License-Identifier: Apache-2.0
"""Read a table with neither references nor predictions: any columns, a row per measurement."""

from __future__ import annotations

from pathlib import Path

from calipers.errors import InputError, raise_problems
from calipers.readers import columnar, delimited
from calipers.readers.source import InputFile, open_source
from calipers.readers.tabular import Table


def read_plain(path: Path | str) -> tuple[Table, InputFile]:
    """Return the table of a CSV, TSV or parquet file, and the file; every row fits the header."""
    input_file = open_source(path)
    if input_file.data[:1] in (b"{", b"["):
        hint = "references in JSON need predictions beside them"
        raise InputError(
            "a table (csv, tsv or parquet)",
            rule="format",
            file=input_file.file,
            value="JSON",
            hint=hint,
        )
    is_parquet = input_file.data[: len(columnar.MAGIC)] == columnar.MAGIC
    table = columnar.read_table(input_file) if is_parquet else delimited.read_table(input_file)
    raise_problems([problem.as_error(table.file) for problem in table.problems])
    return table, input_file
