# SPDX-License-Identifier: Apache-2.0
"""Check the masks and points of `Cohort.from_arrays` and turn them into columns."""

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
    masks = []
    for k, record in enumerate(records):
        if has(record, "masks"):
            masks.append(_masks(record["masks"], f"{where}[{k}]", dimensions))
        else:
            masks.append(no_masks(dimensions))
    return masks


def _masks(value: Any, where: str, dimensions: int) -> Masks:
    masks = value
    if not isinstance(masks, Masks):
        masks = Masks.from_dense(_stack(value, where, dimensions))
    if masks.dimensions != dimensions:
        raise InputError(
            f"{dimensions}D masks",
            rule="mask-shape",
            location=where,
            field="masks",
            value=f"{masks.dimensions}D masks",
        )
    empty = np.flatnonzero(masks.voxels == 0)
    if len(empty):
        raise InputError(
            "a mask with at least one pixel",
            rule="empty-mask",
            location=f"{where}['masks'][{int(empty[0])}]",
            field="masks",
            hint="remove the object, or give it its pixels",
        )
    return masks


def _stack(value: Any, where: str, dimensions: int) -> NDArray[Any]:
    """Return the (n, [d, ]h, w) array of 0 and 1."""
    expected = "masks of shape (n, height, width)"
    if dimensions == 3:
        expected = "masks of shape (n, depth, height, width)"
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
        message = ", ".join(map(str, values[:SHOWN].tolist()))
        if len(values) > SHOWN:
            message += ", ..."
        raise InputError(
            "a mask of 0 and 1",
            rule="mask-values",
            location=f"{where}['masks'][{k}]",
            field="masks",
            value=f"values {message}",
            hint="say which values are the object, such as array > 0; "
            "Masks.from_labels splits a label map",
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
