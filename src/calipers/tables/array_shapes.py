# SPDX-License-Identifier: Apache-2.0
"""Masks and points that come as arrays, one entry of a record per object: checked, and turned into
columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError
from calipers.tables.masks import Masks, no_masks

F64 = NDArray[np.float64]
SHOWN = 10  # distinct values in a message
Record = Mapping[str, Any]


def count(value: Any) -> int:
    """Return how many entries a value has: 0 for None, 1 for what has no length."""
    try:
        return 0 if value is None else len(value)
    except TypeError:
        return 1


def has(record: Record, key: str) -> bool:
    """Return whether a record has something under a key: not None, and not of length 0."""
    return count(record.get(key)) > 0


def dimensions_of(record: Record) -> int | None:
    """Return 2 or 3 as the masks of a record say; None if it has none."""
    if not has(record, "masks"):
        return None
    masks = record["masks"]
    if isinstance(masks, Masks):
        return masks.dimensions
    try:
        return 3 if np.ndim(masks[0]) == 3 else 2
    except (TypeError, ValueError, LookupError):  # no list of arrays: `masks_of` will say where
        return 2


def masks_of(records: Sequence[Record], where: str, dimensions: int) -> list[Masks] | None:
    """Return the masks of every record; None if no record has the key."""
    if all(record.get("masks") is None for record in records):
        return None
    nothing = no_masks(dimensions)
    return [
        _masks(record["masks"], f"{where}[{k}]", dimensions) if has(record, "masks") else nothing
        for k, record in enumerate(records)
    ]


def _masks(value: Any, where: str, dimensions: int) -> Masks:
    masks = (
        value if isinstance(value, Masks) else Masks.from_dense(_stack(value, where, dimensions))
    )
    if masks.dimensions != dimensions:
        message, field = f"{masks.dimensions}D masks", "masks"
        raise InputError(
            f"{dimensions}D masks", rule="mask-shape", location=where, field=field, value=message
        )
    empty = np.flatnonzero(masks.voxels == 0)
    if len(empty):
        place, hint = (
            f"{where}['masks'][{int(empty[0])}]",
            "remove the object, or give it its pixels",
        )
        raise InputError(
            "a mask with at least one pixel",
            rule="empty-mask",
            location=place,
            field="masks",
            hint=hint,
        )
    return masks


def _stack(value: Any, where: str, dimensions: int) -> NDArray[Any]:
    """Return the (n, [d, ]h, w) array of 0 and 1."""
    expected = f"masks of shape (n, {'depth, ' if dimensions == 3 else ''}height, width)"
    try:
        array = np.asarray(value)
    except ValueError:
        message = f"{count(value)} arrays of different shapes"
        raise InputError(
            expected, rule="mask-shape", location=where, field="masks", value=message
        ) from None
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == np.bool_):
        raise InputError(
            "arrays of 0 and 1", rule="type", location=where, field="masks", value=value
        )
    if array.ndim != dimensions + 1:
        raise InputError(
            expected, rule="mask-shape", location=where, field="masks", value=array.shape
        )
    _check_values(array, where)
    return array


def _check_values(array: NDArray[Any], where: str) -> None:
    if array.dtype == np.bool_:
        return
    odd = (array != 0) & (array != 1)
    if odd.any():
        k = int(np.argwhere(odd)[0, 0])
        values = np.unique(array[k])
        message = ", ".join(str(value) for value in values[:SHOWN].tolist()) + (
            ", ..." if len(values) > SHOWN else ""
        )
        raise InputError(
            "a mask of 0 and 1",
            rule="mask-values",
            location=f"{where}['masks'][{k}]",
            field="masks",
            value=f"values {message}",
            hint="say which values are the object, such as array > 0; Masks.from_labels splits a label map",
        )


def points_of(value: Any, n: int, where: str, dimensions: int) -> F64:
    """Return the (n, d) points of a record."""
    try:
        points = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "numbers", rule="type", location=where, field="points", value=value
        ) from None
    if points.size == 0 and n == 0:
        return np.zeros((0, dimensions))
    if points.shape != (n, dimensions):
        expected = f"points of shape ({n}, {dimensions}), one per object"
        raise InputError(
            expected, rule="point-shape", location=where, field="points", value=points.shape
        )
    odd = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(odd):
        place = f"{where}['points'][{int(odd[0])}]"
        raise InputError(
            "finite coordinates",
            rule="non-finite",
            location=place,
            field="points",
            value=points[odd[0]],
        )
    return points
