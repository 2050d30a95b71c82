# SPDX-License-Identifier: Apache-2.0
"""The format ``parquet``: the tables of delimited text with typed columns.

An `InputFile` comes in, or an `InputFolder` of files that are parts of one table.
`calipers.io.tables.table.open_table` and `ParquetReader` get a `FileTable`
from `read_columnar`; `calipers.io.saved` gets an arrow table from `read_arrow`, with a check of its
own for the schema.

Sizes and types that a file declares are checked before it is unpacked, because a few bytes may
declare terabytes.
"""

from __future__ import annotations

import io
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np

from calipers.errors import InputError
from calipers.io.reader import Sniffed
from calipers.io.source import FileBytes, InputFile, InputFolder, open_source
from calipers.io.tables.objects import TableReader
from calipers.io.tables.table import MAGIC, Cells, FileTable, cell

MAX_ROWS = 50_000_000
MAX_BYTES = 8 << 30  # uncompressed
# Unpacked to packed; only asked of files that unpack to more than 64 MB. Constant columns of
# millions of rows are packed into a few bytes.
MAX_RATIO, SPARED = 200, 1 << 26
LONGEST_TEXT = 1 << 20  # bytes of a cell
SUFFIXES = (".parquet", ".pq")
SHOWN = 3  # columns that a message names


class ParquetReader(TableReader):
    """A row per object, as in delimited text: a file, or a folder of files that are one table."""

    name = "parquet"
    inputs = ("file", "folder")
    may_omit_empty = True

    def sniff(self, file: InputFile) -> Sniffed | None:
        """Recognise the first four bytes, or a folder whose tables are all parquet."""
        if isinstance(file, InputFolder):
            names = _parts(file)
            if not names:
                return None
            return Sniffed(self.name, "unknown", f"it holds {len(names)} parquet files")
        if file.data[: len(MAGIC)] != MAGIC:
            return None
        return Sniffed(self.name, "unknown", f"it begins with {MAGIC.decode()}")

    def table(self, file: InputFile) -> FileTable:
        """Read the columns."""
        if isinstance(file, InputFolder):
            return read_partitioned(file)
        return read_columnar(file)


@dataclass(frozen=True)
class PartitionedTable(FileTable):
    """The rows of several files, one below the other; places name the file."""

    parts: tuple[str, ...] = ()
    first_lines: tuple[int, ...] = ()  # of every part, ascending

    def locate(self, line: int, column: str) -> str:
        """Return file, row and column of a cell; rows count from 0 in every file."""
        k = bisect_right(self.first_lines, line) - 1
        place = super().locate(line - self.first_lines[k], column)
        return f"{self.parts[k]} {place}"


def read_partitioned(folder: InputFolder) -> FileTable:
    """Read the parquet files of a folder as one table, in the order of their names.

    Folders named ``centre=A`` below it add a column ``centre``, as Hive, Spark and pyarrow lay
    tables out.
    """
    names = _parts(folder)
    tables: list[dict[str, Cells]] = []
    first_lines, n_rows = [], 0
    for name in names:
        folder.count_file()
        part = read_columnar(open_source(folder.files[name]))
        columns = {**part.columns, **_folder_columns(name, len(part))}
        if tables and set(columns) != set(tables[0]):
            missing, new = set(tables[0]) - set(columns), set(columns) - set(tables[0])
            words = [f"no column {column}" for column in sorted(missing)[:SHOWN]]
            words += [f"a column {column}" for column in sorted(new)[:SHOWN]]
            raise InputError(
                f"the columns of {names[0]} in every file of the folder",
                rule="column-type",
                file=f"{folder.file}/{name}",
                value=", ".join(words),
                hint="all files of a folder are parts of one table",
            )
        tables.append(columns)
        first_lines.append(n_rows)
        n_rows += len(part)
        if n_rows > MAX_ROWS:
            raise InputError(
                f"at most {MAX_ROWS} rows", rule="too-large", file=folder.file, value=n_rows
            )
    merged = {}
    for column in tables[0]:
        merged[column] = _stacked([table[column] for table in tables])
    return PartitionedTable(
        folder.file,
        "parquet",
        merged,
        np.arange(n_rows),
        by_line=False,
        notes=[*folder.notes, f"{len(names)} parquet files are read as one table"],
        source=folder,
        parts=tuple(names),
        first_lines=tuple(first_lines),
    )


def _parts(folder: InputFolder) -> list[str]:
    """Return the files of a table in a folder; none if other tables or annotations lie there.

    Names that begin with a dot or an underline are marks of the programs that write such folders.
    """
    names = []
    for name in folder.files:
        if name.rpartition("/")[2].startswith((".", "_")):
            continue
        if not name.lower().endswith(SUFFIXES):
            return []
        names.append(name)
    return names


def _folder_columns(name: str, n_rows: int) -> dict[str, Cells]:
    """Return the columns that the folders of a file are named after."""
    columns: dict[str, Cells] = {}
    for folder in name.split("/")[:-1]:
        key, sign, value = folder.partition("=")
        if sign and key:
            columns[key] = [unquote(value)] * n_rows
    return columns


def _stacked(cells: Sequence[Cells]) -> Cells:
    """Return the cells of all files: numbers if all are numbers, else texts."""
    arrays = [part for part in cells if isinstance(part, np.ndarray)]
    if len(arrays) == len(cells):
        return np.concatenate(arrays)
    texts: list[str] = []
    for part in cells:
        if isinstance(part, np.ndarray):
            texts += [cell(value) for value in part.tolist()]
        else:
            texts += part
    return texts


def read_columnar(input_file: InputFile) -> FileTable:
    """Read a parquet file into a table, after its declared sizes and column types were checked."""
    columns = {}
    with _arrow_errors(input_file.file):
        table = _read_arrow(input_file, _check_schema)
        for k, name in enumerate(table.column_names):
            input_file.advance(k, table.num_columns, step="converting")
            # pandas writes its row labels as a column of this name.
            if not name.startswith("__index"):
                columns[name] = _cells(table.column(name), name, input_file.file)
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
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = input_file.data
    with data.stream() if isinstance(data, FileBytes) else io.BytesIO(data) as source:
        file = pq.ParquetFile(source)
        _check_sizes(file.metadata, input_file)
        schema = file.schema_arrow
        check(schema, input_file.file)
        texts = _text_columns(schema)
        # Texts stay numbers into the list of different texts until their sizes are known: a text of
        # a megabyte may stand in every row for a few bits.
        file = pq.ParquetFile(source, read_dictionary=texts)
        # Group by group, so that millions of rows can be counted while they are read.
        groups = []
        for k in range(file.num_row_groups):
            input_file.advance(k, file.num_row_groups)
            groups.append(file.read_row_group(k))
        table = pa.concat_tables(groups) if groups else file.read()
        input_file.advance(len(groups), max(1, len(groups)))
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
            raise InputError("unique column names", rule="dup-column", file=file, field=column.name)
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


def _cells(column: Any, name: str, file: str) -> Cells:
    """Return texts as a list (null is an empty cell), numbers as an array (null is NaN)."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kinds.is_boolean(column.type):
        column = column.cast(pa.int8())
    if kinds.is_decimal(column.type):
        # Arrow divides, which may miss the nearest number in the last digit: 9.20 is 9.2.
        values = [math.nan if value is None else float(value) for value in column.to_pylist()]
        return np.array(values, np.float64)
    if kinds.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy())
    if kinds.is_floating(column.type):
        return np.asarray(column.to_numpy(), np.float64)
    # Whole numbers with holes become text: as floats, long ids would lose digits.
    cells = []
    for value in column.to_pylist():
        cells.append("" if value is None else str(value))
    if "\0" in "".join(cells):
        # NumPy drops NUL at the end of a text: two patients would become one.
        raise InputError("text without NUL", rule="encoding", file=file, field=name)
    return cells
