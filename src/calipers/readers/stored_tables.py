# SPDX-License-Identifier: Apache-2.0
"""Turn a cohort into columns of parquet that keep every bit: a row per image, a row per object.

`calipers.saving` writes them, `calipers.readers.stored_cohort` reads them back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.tables import Cohort, Objects, Predictions, References
from calipers.tables.objects import Column

OBJECTS, IMAGES = "objects.parquet", "images.parquet"
KINDS = ("reference", "prediction")
CORNERS = {2: ("x0", "y0", "x1", "y1"), 3: ("x0", "y0", "z0", "x1", "y1", "z1")}
SIDES = ("width", "height", "depth")
SPACINGS = ("spacing_x", "spacing_y", "spacing_z")
# Prefixes of the users' column names, so that none can be taken for one of ours.
GROUP, FACT = "group_", "fact_"
FACTS = "calipers.facts"  # key of the metadata: which table has which facts, and of which kind
TEXT = "text"
CHUNK = 1 << 30  # bytes of text in a column: arrow counts them with 31 bits


def image_columns(cohort: Cohort) -> dict[str, Any]:
    """Return one row per image: id, size, spacing and groups; unknown lengths are null."""
    images, d = cohort.images, cohort.dimensions
    columns = {"image": text_column_of(images.ids, np.arange(len(images)))}
    for k in range(d):
        columns[SIDES[k]] = with_nulls(images.size[:, k])
    for k in range(d):
        columns[SPACINGS[k]] = with_nulls(images.spacing[:, k])
    for name, column in images.groups.items():
        columns[GROUP + name], _ = as_arrow(column)
    return columns


def object_columns(cohort: Cohort, table: References | Predictions) -> dict[str, Any]:
    """Return the columns that both kinds of objects have; null where they do not apply."""
    ignore: Any = np.ma.MaskedArray(np.zeros(len(table), np.bool_), mask=True)
    crowd, score = ignore, np.full(len(table), np.nan)
    if isinstance(table, Predictions):
        score = table.score
    else:
        ignore, crowd = table.ignore, table.crowd
    corners = {}
    for k, name in enumerate(CORNERS[table.dimensions]):
        corners[name] = with_nulls(table.boxes[:, k])
    return {
        "image": text_column_of(cohort.images.ids, table.image),
        "class": text_column_of(cohort.classes, table.label),
        "score": with_nulls(score),
        **corners,
        "area": with_nulls(table.area),
        "extent": with_nulls(table.extent),
        "ignore": ignore,
        "crowd": crowd,
        "place": with_nulls(table.place),
    }


def fact_columns(tables: Sequence[Objects]) -> dict[str, list[Any]]:
    """Return the facts of several tables as columns with an entry for each table.

    The entry is null where a table has no such fact. A fact of different kinds in two tables is
    written as text; `facts_of` keeps the kinds.
    """
    import pyarrow as pa

    names: dict[str, None] = {}
    for table in tables:
        names.update(dict.fromkeys(table.facts))
    columns: dict[str, list[Any]] = {}
    for name in names:
        arrays = {}
        for k, table in enumerate(tables):
            if name in table.facts:
                arrays[k], _ = as_arrow(table.facts[name])
        kinds = {array.type for array in arrays.values()}
        kind = kinds.pop() if len(kinds) == 1 else pa.string()
        parts = []
        for k, table in enumerate(tables):
            if k not in arrays:
                parts.append(pa.nulls(len(table), kind))
            elif arrays[k].type == kind:
                parts.append(arrays[k])
            else:
                parts.append(as_text(arrays[k]))
        columns[FACT + name] = parts
    return columns


def facts_of(cohort: Cohort) -> dict[str, str]:
    """Return the metadata that says which table has which facts, and of which kind they were."""

    def kinds(table: Objects) -> dict[str, str]:
        return {name: as_arrow(column)[1] for name, column in table.facts.items()}

    models = {name: kinds(predictions) for name, predictions in cohort.models.items()}
    return {FACTS: json.dumps({"references": kinds(cohort.references), "models": models})}


def as_arrow(column: Column) -> tuple[Any, str]:
    """Return a column of the user as an arrow array that keeps its values, and its kind.

    Flags and numbers stay what they are; everything else becomes text, an empty one for None.
    """
    import pyarrow as pa

    kind, size = column.dtype.kind, column.dtype.itemsize
    if kind == "f" and size not in (4, 8):
        column = column.astype(np.float32 if size < 4 else np.float64)
    if kind in "biuf":
        column = column.astype(column.dtype.newbyteorder("="))
        return pa.array(column), column.dtype.name
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

    longest = max((len(name.encode("utf-8")) for name in names), default=0)
    step = max(1, CHUNK // max(1, longest))
    is_small = len(names) * longest < CHUNK
    dictionary = pa.array(names, pa.string() if is_small else pa.large_string())
    parts = []
    for start in range(0, len(codes), step):
        chunk = pa.array(codes[start : start + step])
        parts.append(dictionary.take(chunk).cast(pa.string()))
    return pa.chunked_array(parts, pa.string())


def constant_column(name: str, n: int) -> Any:
    """Return a column that says the same in every row."""
    return text_column_of([name], np.zeros(n, np.int64))


def stack_columns(parts: Sequence[Any]) -> Any:
    """Return columns one below the other: arrow arrays, or NumPy arrays that may be masked."""
    import pyarrow as pa

    chunks: list[Any] = []
    for part in parts:
        column = part if isinstance(part, pa.Array | pa.ChunkedArray) else pa.array(part)
        if isinstance(column, pa.ChunkedArray):
            chunks += column.chunks
        else:
            chunks.append(column)
    kind = chunks[0].type if chunks else pa.string()
    return pa.chunked_array(chunks, kind)


def with_nulls(values: NDArray[Any]) -> Any:
    """Return numbers with missing ones (NaN, or -1 for rows) masked: they become null."""
    missing = np.isnan(values) if values.dtype.kind == "f" else values < 0
    return np.ma.MaskedArray(values, mask=missing)


def kinds_of(metadata: Mapping[bytes, bytes] | None) -> Any:
    """Return the kinds of facts in the metadata of a file; None if `facts_of` did not write it."""
    try:
        return json.loads((metadata or {})[FACTS.encode()])
    except (KeyError, ValueError, RecursionError):
        return None
