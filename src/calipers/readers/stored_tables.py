# SPDX-License-Identifier: Apache-2.0
"""A cohort as columns of parquet that keep every bit: a row per image, and a row per object.

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
GROUP, FACT = (
    "group_",
    "fact_",
)  # before the names that users gave, so that none can be taken for one of ours
FACTS = "calipers.facts"  # key of the metadata: which table has which facts, and of which kind
TEXT = "text"
CHUNK = 1 << 30  # bytes of text in a column: arrow counts them with 31 bits


def image_columns(cohort: Cohort) -> dict[str, Any]:
    """Return one row per image: id, size, spacing and groups; unknown lengths are null."""
    images, d = cohort.images, cohort.dimensions
    return {
        "image": text_column_of(images.ids, np.arange(len(images))),
        **{name: with_nulls(images.size[:, k]) for k, name in enumerate(SIDES[:d])},
        **{name: with_nulls(images.spacing[:, k]) for k, name in enumerate(SPACINGS[:d])},
        **{GROUP + name: as_arrow(column)[0] for name, column in images.groups.items()},
    }


def object_columns(cohort: Cohort, table: References | Predictions) -> dict[str, Any]:
    """Return what makes the objects of one table: image, class, score, corners, areas, flags and
    places.
    """
    nothing = np.ma.MaskedArray(np.zeros(len(table), np.bool_), mask=True)
    is_predictions = isinstance(table, Predictions)
    return {
        "image": text_column_of(cohort.images.ids, table.image),
        "class": text_column_of(cohort.classes, table.label),
        "score": with_nulls(
            table.score if isinstance(table, Predictions) else np.full(len(table), np.nan)
        ),
        **{name: with_nulls(table.boxes[:, k]) for k, name in enumerate(CORNERS[table.dimensions])},
        "area": with_nulls(table.area),
        "extent": with_nulls(table.extent),
        "ignore": nothing if is_predictions else table.ignore,  # type: ignore[union-attr]
        "crowd": nothing if is_predictions else table.crowd,  # type: ignore[union-attr]
        "place": with_nulls(table.place),
    }


def fact_columns(tables: Sequence[Objects]) -> dict[str, list[Any]]:
    """Return the facts of several tables as columns with an entry for each table; null where a
    table has no such fact.

    A fact that is of different kinds in two tables is written as text; `facts_of` keeps what it
    was.
    """
    import pyarrow as pa

    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for table in tables for name in table.facts):
        parts = [
            as_arrow(table.facts[name])[0] if name in table.facts else None for table in tables
        ]
        kinds = {column.type for column in parts if column is not None}
        kind = kinds.pop() if len(kinds) == 1 else pa.string()
        columns[FACT + name] = [
            pa.nulls(len(table), kind)
            if column is None
            else column
            if column.type == kind
            else as_text(column)
            for table, column in zip(tables, parts)
        ]
    return columns


def facts_of(cohort: Cohort) -> dict[str, str]:
    """Return the metadata that says which table has which facts, and of which kind they were."""

    def kinds(table: Objects) -> dict[str, str]:
        return {name: as_arrow(column)[1] for name, column in table.facts.items()}

    models = {name: kinds(predictions) for name, predictions in cohort.models.items()}
    return {FACTS: json.dumps({"references": kinds(cohort.references), "models": models})}


def as_arrow(column: Column) -> tuple[Any, str]:
    """Return a column that a user gave as an arrow array that keeps its values, and its kind.

    Flags and numbers stay what they are; everything else becomes text, an empty one for None.
    """
    import pyarrow as pa

    kind, size = column.dtype.kind, column.dtype.itemsize
    if kind == "f" and size not in (4, 8):
        column = column.astype(np.float32 if size < 4 else np.float64)
    if kind in "biuf":
        column = column.astype(column.dtype.newbyteorder("="))
        return pa.array(column), column.dtype.name
    return text_column_of(
        ["" if value is None else str(value) for value in column.tolist()], np.arange(len(column))
    ), TEXT


def as_text(column: Any) -> Any:
    """Return an arrow column as text from which Python reads the same values."""
    return text_column_of([str(value) for value in column.to_pylist()], np.arange(len(column)))


def text_column_of(names: Sequence[str], codes: NDArray[np.integer]) -> Any:
    """Return the names of codes as a column of text, in chunks that arrow can hold."""
    import pyarrow as pa

    longest = max((len(name.encode("utf-8")) for name in names), default=0)
    step = max(1, CHUNK // max(1, longest))
    dictionary = (
        pa.array(names, pa.string())
        if len(names) * longest < CHUNK
        else pa.array(names, pa.large_string())
    )
    parts = [
        dictionary.take(pa.array(codes[k : k + step])).cast(pa.string())
        for k in range(0, len(codes), step)
    ]
    return pa.chunked_array(parts, pa.string())


def constant_column(name: str, n: int) -> Any:
    """Return a column that says the same in every row."""
    return text_column_of([name], np.zeros(n, np.int64))


def stack_columns(parts: Sequence[Any]) -> Any:
    """Return columns one below the other: arrow arrays, or arrays of numbers with some of them
    masked.
    """
    import pyarrow as pa

    chunks: list[Any] = []
    for part in parts:
        column = part if isinstance(part, pa.Array | pa.ChunkedArray) else pa.array(part)
        chunks += column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return pa.chunked_array(chunks, chunks[0].type) if chunks else pa.chunked_array([], pa.string())


def with_nulls(values: NDArray[Any]) -> Any:
    """Return the numbers with missing ones (NaN, or -1 for rows) masked: null in parquet, whatever
    the others are.
    """
    missing = np.isnan(values) if values.dtype.kind == "f" else values < 0
    return np.ma.MaskedArray(values, mask=missing)


def kinds_of(metadata: Mapping[bytes, bytes] | None) -> Any:
    """Return the facts that the metadata of a file tells of; None if it is not as `facts_of` writes
    it.
    """
    try:
        return json.loads((metadata or {})[FACTS.encode()])
    except (KeyError, ValueError, RecursionError):
        return None
