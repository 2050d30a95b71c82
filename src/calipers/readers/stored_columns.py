# SPDX-License-Identifier: Apache-2.0
"""Read columns of a parquet table that Calipers wrote, by name and kind; refuse all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError
from calipers.kernels import ragged
from calipers.readers.columnar import read_arrow
from calipers.readers.parts import text_column
from calipers.readers.source import InputFile
from calipers.tables.objects import Column

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
HINT = "this is not the table that Calipers wrote: take the folder from a backup, or evaluate again"


@dataclass(frozen=True)
class StoredColumns:
    """Some rows of a table, beginning with the row ``first`` of its file."""

    table: Any  # of arrow
    file: str
    first: int = 0

    @classmethod
    def read(cls, input_file: InputFile) -> StoredColumns:
        """Read a parquet file."""
        return cls(read_arrow(input_file, _different_names), input_file.file)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return list(self.table.column_names)

    def part(self, start: int, n: int) -> StoredColumns:
        """Return ``n`` rows from ``start`` on."""
        return StoredColumns(self.table.slice(start, n), self.file, self.first + start)

    def refuse(
        self, expected: str, rule: str, name: str, bad: Flags | None = None, value: object = None
    ) -> None:
        """Raise if any row is bad, naming the first of them; without ``bad`` raise at once."""
        if bad is not None and not bad.any():
            return
        where = ""
        if bad is not None:
            row = int(np.argmax(bad))
            where = f"row {self.first + row}"
            if value is None and name in self.names:
                value = self.table.column(name)[row].as_py()
        raise InputError(
            expected, rule=rule, file=self.file, location=where, field=name, value=value, hint=HINT
        )

    def numbers(self, name: str, *, missing: bool = False) -> F64:
        """Return finite numbers; null, if some may be missing, is NaN."""
        import pyarrow.types as kinds

        column = self._column(name, "numbers of 64 bits", kinds.is_float64, missing=missing)
        values = np.asarray(column.to_numpy(), np.float64)
        bad = np.isinf(values) if missing else ~np.isfinite(values)
        self.refuse("finite numbers", "non-finite", name, np.asarray(bad))
        return values

    def whole(self, name: str, *, missing: bool = False) -> I64:
        """Return whole numbers that are not negative; null, if some may be missing, is -1."""
        import pyarrow.types as kinds

        column = self._column(name, "whole numbers of 64 bits", kinds.is_int64, missing=missing)
        values = np.asarray(column.fill_null(-1).to_numpy(), np.int64)
        bad = values < (-1 if missing else 0)
        self.refuse("numbers that are not negative", "range", name, np.asarray(bad))
        return values

    def lists(self, name: str) -> tuple[I64, I64]:
        """Return (offsets, values) of lists of whole numbers."""
        import pyarrow.compute as pc
        import pyarrow.types as kinds

        def fits(kind: Any) -> bool:
            return bool(
                (kinds.is_list(kind) or kinds.is_large_list(kind))
                and kinds.is_int64(kind.value_type)
            )

        column = self._column(name, "lists of whole numbers of 64 bits", fits)
        values = pc.list_flatten(column)
        if values.null_count:
            self.refuse("lists without holes", "type", name)
        counts = np.asarray(pc.list_value_length(column).to_numpy(), np.int64)
        return ragged.from_counts(counts), np.asarray(values.to_numpy(), np.int64)

    def flags(self, name: str) -> Flags:
        """Return true or false for every row."""
        import pyarrow.types as kinds

        return np.asarray(self._column(name, "flags", kinds.is_boolean).to_numpy(), np.bool_)

    def texts(self, name: str) -> tuple[list[str], I64]:
        """Return the distinct texts of a column, and the number of its text for every row."""
        import pyarrow as pa
        import pyarrow.types as kinds

        column = self._column(
            name, "text", lambda kind: kinds.is_string(kind) or kinds.is_large_string(kind)
        )
        coded = pa.chunked_array(column.chunks, column.type).combine_chunks().dictionary_encode()
        if isinstance(coded, pa.ChunkedArray):
            coded = coded.unify_dictionaries().combine_chunks()
        return coded.dictionary.to_pylist(), np.asarray(coded.indices.to_numpy(), np.int64)

    def free(self, name: str) -> Column:
        """Return a column of the user: flags, numbers or text, in the kind that it had."""
        import pyarrow.types as kinds

        kind = self._column(name, "flags, numbers or text", lambda kind: True, missing=True).type
        if kinds.is_string(kind) or kinds.is_large_string(kind):
            return texts_column(*self.texts(name))
        plain = (
            kinds.is_integer(kind)
            or kinds.is_boolean(kind)
            or kinds.is_float32(kind)
            or kinds.is_float64(kind)
        )
        floating = kinds.is_floating(kind)
        column = self._column(name, "flags, numbers or text", lambda _: plain, missing=floating)
        return np.asarray(column.to_numpy())

    def _column(
        self, name: str, expected: str, fits: Callable[[Any], bool], *, missing: bool = False
    ) -> Any:
        if name not in self.names:
            self.refuse(f"the column {name!r}", "missing-column", "", value=self.names)
        column = self.table.column(name)
        if not fits(column.type):
            self.refuse(expected, "column-type", name, value=str(column.type))
        if column.null_count and not missing:
            self.refuse(
                f"{expected} in every row",
                "type",
                name,
                np.asarray(column.is_null().to_numpy(), np.bool_),
            )
        return column


def texts_column(names: list[str], codes: I64) -> Column:
    """Return the texts of codes as an array."""
    return text_column(names)[codes] if len(codes) else np.array([], np.str_)


def _different_names(schema: Any, file: str) -> None:
    for name in schema.names:
        if schema.names.count(name) > 1:
            raise InputError(
                "column names that differ", rule="dup-column", file=file, field=name, hint=HINT
            )
