# SPDX-License-Identifier: Apache-2.0
"""Arrow columns from NumPy arrays and texts, for the parquet files that Calipers writes.

`calipers.io.saved` and `calipers.evaluation.saved` make their columns here, `write_table` of
`calipers.io.tables.table` writes them. The columns are built from buffers, because a command that
saves its result would else wait longest for imports: ``pyarrow.array`` asks whether a value comes
from pandas, and imports pandas to find out; ``take`` and ``cast`` import ``pyarrow.compute``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import Column, Flags

TEXT = "text"
CHUNK = 1 << 30  # bytes of text in a column: arrow counts them with 31 bits
MOST_BYTES = 4  # of a character in UTF-8


def arrow_column(values: Any) -> Any:
    """Return an arrow array of a sequence; one that is of arrow already is returned as it is."""
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    # The two usual kinds of columns never reach `pa.array`, and so never import pandas.
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf":
        return _numbers(values, None)
    if isinstance(values, list | tuple) and values and set(map(type, values)) == {str}:
        return text_column_of(values, np.arange(len(values)))
    return pa.array(values)


def with_nulls(values: NDArray[Any]) -> Any:
    """Return numbers as an arrow array in which missing ones (NaN, or -1 for rows) are null."""
    missing = np.isnan(values) if values.dtype.kind == "f" else values < 0
    return _numbers(values, missing)


def as_arrow(column: Column) -> tuple[Any, str]:
    """Return a column of the user as an arrow array that keeps its values, and its kind.

    Flags and numbers stay what they are; everything else becomes text, an empty one for None.
    """
    kind, size = column.dtype.kind, column.dtype.itemsize
    if kind == "f" and size not in (4, 8):
        # Parquet has floats of 32 and 64 bits only; half precision widens without loss.
        column = column.astype(np.float32 if size < 4 else np.float64)
    if kind in "biuf":
        column = column.astype(column.dtype.newbyteorder("="))
        return _numbers(column, None), column.dtype.name
    texts = []
    for value in column.tolist():
        texts.append("" if value is None else str(value))
    return text_column_of(texts, np.arange(len(texts))), TEXT


def as_text(column: Any) -> Any:
    """Return an arrow column as text from which Python reads the same values."""
    return text_column_of([str(value) for value in column.to_pylist()], np.arange(len(column)))


def text_column_of(names: Sequence[str], codes: NDArray[np.integer]) -> Any:
    """Return the names of codes as a column of text, in chunks that arrow can hold."""
    import pyarrow as pa

    longest = max(map(len, names), default=0)
    # Even if all texts were as long as the longest, a chunk stays below the limit.
    step = max(1, CHUNK // max(1, MOST_BYTES * longest))
    parts = []
    for start in range(0, len(codes), step):
        chunk = codes[start : start + step].tolist()
        parts.append(_texts([names[code] for code in chunk]))
    return pa.chunked_array(parts, pa.string())


def constant_column(name: str, n: int) -> Any:
    """Return a column that says the same in every row."""
    import pyarrow as pa

    encoded = name.encode("utf-8")
    step = max(1, CHUNK // max(1, len(encoded)))
    parts = []
    # There may be a row per voxel, so no row gets an object of Python.
    for start in range(0, n, step):
        rows = min(step, n - start)
        offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(encoded))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(encoded * rows)]
        parts.append(pa.Array.from_buffers(pa.string(), rows, buffers))
    return pa.chunked_array(parts, pa.string())


def stack_columns(parts: Sequence[Any]) -> Any:
    """Return columns one below the other: arrow arrays, or NumPy arrays."""
    import pyarrow as pa

    chunks: list[Any] = []
    for part in parts:
        column = arrow_column(part)
        if isinstance(column, pa.ChunkedArray):
            chunks += column.chunks
        else:
            chunks.append(column)
    kind = chunks[0].type if chunks else pa.string()
    return pa.chunked_array(chunks, kind)


def _numbers(values: NDArray[Any], missing: Flags | None) -> Any:
    """Return flags or numbers as an arrow array that shares their memory where it can."""
    import pyarrow as pa

    values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    validity = None
    if missing is not None and missing.any():
        # Arrow counts a set bit as valid, lowest bit first.
        validity = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    if values.dtype == np.bool_:
        kind, data = pa.bool_(), np.packbits(values, bitorder="little")
    else:
        kind, data = pa.from_numpy_dtype(values.dtype), values
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(data)])


def _texts(texts: Sequence[str]) -> Any:
    """Return texts, less than 2 GB together in UTF-8, as an arrow array."""
    import pyarrow as pa

    together = "".join(texts)
    data = together.encode("utf-8")
    lengths = list(map(len, texts))
    if not together.isascii():
        lengths = [len(text.encode("utf-8")) for text in texts]
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.fromiter(lengths, np.int64, len(texts)), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)
