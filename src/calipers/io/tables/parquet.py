# SPDX-License-Identifier: Apache-2.0
"""The format ``parquet``: the tables of delimited text with typed columns.

An `InputFile` comes in. `calipers.io.tables.table.open_table` and `ParquetReader` get a `FileTable`
from `read_columnar`; `calipers.io.saved` gets an arrow table from `read_arrow`, with a check of its
own for the schema.

Sizes and types that a file declares are checked before it is unpacked, because a few bytes may
declare terabytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from calipers.errors import InputError
from calipers.io.reader import Sniffed
from calipers.io.source import FileBytes, InputFile
from calipers.io.tables.objects import TableReader
from calipers.io.tables.table import MAGIC, Cells, FileTable

MAX_ROWS = 50_000_000
MAX_BYTES = 8 << 30  # uncompressed
# Unpacked to packed; only asked of files that unpack to more than 64 MB. Constant columns of
# millions of rows are packed into a few bytes.
MAX_RATIO, SPARED = 200, 1 << 26
LONGEST_TEXT = 1 << 20  # bytes of a cell


class ParquetReader(TableReader):
    """A row per object, as in delimited text."""

    name = "parquet"

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the first four bytes."""
        if file.data[: len(MAGIC)] != MAGIC:
            return None
        return Sniffed(self.name, "unknown", f"it begins with {MAGIC.decode()}")

    def table(self, file: InputFile) -> FileTable:
        """Read the columns."""
        return read_columnar(file)


def read_columnar(input_file: InputFile) -> FileTable:
    """Read a parquet file into a table, after its declared sizes and column types were checked."""
    columns = {}
    with _arrow_errors(input_file.file):
        table = _read_arrow(input_file, _check_schema)
        for name in table.column_names:
            # pandas writes its row labels as a column of this name.
            if not name.startswith("__index"):
                columns[name] = _cells(table.column(name))
    return FileTable(
        input_file.file,
        "parquet",
        columns,
        np.arange(table.num_rows),
        by_line=False,
        notes=list(input_file.notes),
        source=input_file,
    )


def read_arrow(input_file: InputFile, check: Callable[[Any, str], None]) -> Any:
    """Read a parquet file into an arrow table, after its declared sizes and, by ``check``, its
    schema were checked.
    """
    with _arrow_errors(input_file.file):
        return _read_arrow(input_file, check)


@contextmanager
def _arrow_errors(file: str) -> Iterator[None]:
    """Turn the exceptions of arrow for a broken file into an `InputError`."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise InputError(
            "a parquet file", rule="parquet-syntax", file=file, value=str(error).split("\n")[0]
        ) from None


def _read_arrow(input_file: InputFile, check: Callable[[Any, str], None]) -> Any:
    import pyarrow.parquet as pq

    data = input_file.data
    source = data.stream() if isinstance(data, FileBytes) else io.BytesIO(data)
    file = pq.ParquetFile(source)
    _check_sizes(file.metadata, input_file)
    schema = file.schema_arrow
    check(schema, input_file.file)
    texts = _text_columns(schema)
    # Texts stay numbers into the list of different texts until their sizes are known: a text of a
    # megabyte may stand in every row for a few bits.
    table = pq.ParquetFile(source, read_dictionary=texts).read()
    # Offsets and UTF-8 inside a column are not checked on reading, and the kernels trust them.
    table.validate(full=True)
    return _unpacked(table, schema, texts, input_file)


def _text_columns(schema: Any) -> list[str]:
    import pyarrow.types as kinds

    names = []
    for column in schema:
        kind = column.type.value_type if kinds.is_dictionary(column.type) else column.type
        if kinds.is_string(kind) or kinds.is_large_string(kind):
            names.append(column.name)
    return names


def _unpacked(table: Any, schema: Any, texts: list[str], input_file: InputFile) -> Any:
    """Return the table with its texts as the schema has them, if they are not too long."""
    import pyarrow.compute as pc

    total = 0
    for name in texts:
        column = table.column(name)
        for chunk in column.chunks:
            lengths = pc.binary_length(chunk.dictionary).to_numpy(zero_copy_only=False)
            codes = chunk.indices.drop_null().to_numpy(zero_copy_only=False)
            total += int(lengths[codes].sum()) if len(codes) else 0
            if lengths.max(initial=0) > LONGEST_TEXT or _is_bomb(total, input_file.size):
                raise InputError(
                    f"texts of at most {LONGEST_TEXT:,} bytes, and no {MAX_RATIO} times the file",
                    rule="too-large",
                    file=input_file.file,
                    field=name,
                    value=f"{max(total, int(lengths.max())):,} bytes",
                )
        field = schema.field(name)
        if column.type != field.type:
            place = table.schema.get_field_index(name)
            table = table.set_column(place, field, column.cast(field.type))
    return table


def _is_bomb(unpacked: int, packed: int) -> bool:
    return unpacked > MAX_BYTES or unpacked > max(SPARED, MAX_RATIO * packed)


def _check_sizes(metadata: Any, input_file: InputFile) -> None:
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    # Codes of equal values take no space in a file, but eight bytes each in memory.
    in_memory = 8 * max(metadata.num_rows, 0) * metadata.num_columns
    unpacked = max(in_memory, sum(group.total_byte_size for group in groups))
    if metadata.num_rows > MAX_ROWS or metadata.num_rows < 0:
        raise InputError(
            f"at most {MAX_ROWS} rows",
            rule="too-large",
            file=input_file.file,
            value=metadata.num_rows,
        )
    if _is_bomb(unpacked, input_file.size):
        raise InputError(
            f"at most {MAX_RATIO} times the file, and {MAX_BYTES} bytes, unpacked",
            rule="too-large",
            file=input_file.file,
            value=unpacked,
        )


def _check_schema(schema: Any, file: str) -> None:
    """Refuse column names that occur twice, and columns of other kinds than numbers and text."""
    import pyarrow.types as kinds

    plain_kinds = (
        kinds.is_integer,
        kinds.is_floating,
        kinds.is_boolean,
        kinds.is_string,
        kinds.is_large_string,
        kinds.is_decimal,
        kinds.is_null,
        kinds.is_string_view,
    )
    names = [name.strip().lower() for name in schema.names]
    for k, column in enumerate(schema):
        if names[k] in names[:k]:
            raise InputError(
                "column names that differ", rule="dup-column", file=file, field=column.name
            )
        # A dictionary is only a way to store repeated values.
        kind = column.type.value_type if kinds.is_dictionary(column.type) else column.type
        if not any(is_kind(kind) for is_kind in plain_kinds):
            raise InputError(
                "numbers, flags or text",
                rule="column-type",
                file=file,
                field=column.name,
                value=str(column.type),
            )


def _cells(column: Any) -> Cells:
    """Return texts as a list (null is an empty cell), numbers as an array (null is NaN)."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kinds.is_boolean(column.type):
        column = column.cast(pa.int8())
    if kinds.is_decimal(column.type):
        column = column.cast(pa.float64())
    if kinds.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy())
    if kinds.is_floating(column.type):
        return np.asarray(column.to_numpy(), np.float64)
    # Whole numbers with holes become text: as floats, long ids would lose digits.
    cells = []
    for cell in column.to_pylist():
        cells.append("" if cell is None else str(cell))
    return cells
