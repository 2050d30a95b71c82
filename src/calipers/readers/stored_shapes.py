# SPDX-License-Identifier: Apache-2.0
"""Masks and points as columns of ``objects.parquet``: lists of runs, and coordinates.

`calipers.saving` writes them, `calipers.readers.stored_cohort` reads them back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.run_rules import sound_runs
from calipers.readers.stored_columns import StoredColumns
from calipers.tables import Cohort, Objects
from calipers.tables.masks import Masks
from calipers.tables.objects import SHAPES

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

STORED = "calipers.shapes"  # key of the metadata: which table has masks, which has points
MASK = ("mask_start", "mask_length", "mask_size")
POINT = ("point_x", "point_y", "point_z")


def shapes_of(cohort: Cohort) -> dict[str, str]:
    """Return the metadata that says which tables have masks and points; nothing if none has any."""

    def shape_names(table: Objects) -> list[str]:
        return [name for name in SHAPES if getattr(table, name) is not None]

    models = {name: shape_names(predictions) for name, predictions in cohort.models.items()}
    own = shape_names(cohort.references)
    if not own and not any(models.values()):
        return {}
    return {STORED: json.dumps({"references": own, "models": models})}


def shape_columns(tables: Sequence[Objects]) -> dict[str, list[Any]]:
    """Return the columns of masks and points, with an entry for each table: null where it has none.

    A mask is the list of the first voxels of its runs, the list of their lengths, and the size of
    its image.
    """
    columns: dict[str, list[Any]] = {}
    if any(table.masks is not None for table in tables):
        parts = [_mask_lists(table) for table in tables]
        columns.update(zip(MASK, map(list, zip(*parts))))
    if any(table.points is not None for table in tables):
        for axis, name in enumerate(POINT[: tables[0].dimensions]):
            columns[name] = [_coordinates(table, axis) for table in tables]
    return columns


def _mask_lists(table: Objects) -> list[Any]:
    import pyarrow as pa

    kind, masks = pa.large_list(pa.int64()), table.masks
    if masks is None:
        return [pa.nulls(len(table), kind)] * len(MASK)
    of_size = masks.dimensions * np.arange(len(masks) + 1)
    lists = (
        (masks.offsets, masks.start),
        (masks.offsets, masks.length),
        (of_size, masks.size.reshape(-1)),
    )
    return [
        pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))
        for offsets, values in lists
    ]


def _coordinates(table: Objects, axis: int) -> Any:
    import pyarrow as pa

    if table.points is None:
        return pa.nulls(len(table), pa.float64())
    return pa.array(table.points[:, axis])


def shapes_in(part: StoredColumns, path: tuple[str, ...], dimensions: int) -> dict[str, Any]:
    """Return the masks and points of a table, None for those it lacks.

    ``path`` is where the metadata speak of the table.
    """
    shapes: dict[str, Any] = dict.fromkeys(SHAPES)
    if STORED.encode() not in (part.table.schema.metadata or {}):  # a folder of boxes
        return shapes
    metadata = _shape_metadata(part)
    for key in path:
        metadata = metadata.get(key) if isinstance(metadata, dict) else None
    if not isinstance(metadata, list) or not all(name in SHAPES for name in metadata):
        part.refuse("a list of the shapes in the metadata", "missing-key", "", value="/".join(path))
    names = list(metadata or ())
    if "masks" in names:
        shapes["masks"] = _masks(part, dimensions)
    if "points" in names:
        shapes["points"] = _points(part, dimensions)
    return shapes


def _shape_metadata(part: StoredColumns) -> Any:
    try:
        return json.loads(part.table.schema.metadata[STORED.encode()])
    except (ValueError, RecursionError):
        return None


def _masks(part: StoredColumns, dimensions: int) -> Masks:
    offsets, start = part.lists(MASK[0])
    lengths, length = part.lists(MASK[1])
    sides, size = part.lists(MASK[2])
    uneven = np.diff(offsets) != np.diff(lengths)
    part.refuse("as many lengths as starts", "mask-runs", MASK[1], uneven)
    part.refuse(
        f"sizes of {dimensions} numbers", "mask-runs", MASK[2], np.diff(sides) != dimensions
    )
    masks = Masks(offsets, start, length, size.reshape(-1, dimensions))
    wrong = ~sound_runs(masks.offsets, masks.start, masks.length, masks.size)
    part.refuse("runs that ascend, inside of their image and rows", "mask-runs", MASK[0], wrong)
    return masks


def _points(part: StoredColumns, dimensions: int) -> F64:
    return np.stack([part.numbers(name) for name in POINT[:dimensions]], axis=1)
