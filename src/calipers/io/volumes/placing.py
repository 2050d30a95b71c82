# SPDX-License-Identifier: Apache-2.0
"""Put a volume with missing slices on a larger grid, by its place in space.

DICOM segmentations leave out slices without a segment, so two of them rarely have the same shape
and none has that of its image. `placed` returns such a volume on the grid of another one: the same
voxels at the same place in the patient, 0 elsewhere. Axes may be mirrored or exchanged between the
two, as they are between DICOM and NIfTI; nothing is interpolated. `common_grid` is the smallest
grid that holds two such volumes. `calipers.io.volumes.pairing` and `calipers.io.volumes.labels`
call them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from calipers.arrays import F64, I64, Array
from calipers.errors import InputError
from calipers.io.volumes.volume import (
    Limits,
    Volume,
    axis_codes,
    check_extent,
    corner_distance,
    shape_text,
    spacing_of,
)

APART = 1e-2  # mm between corners, up to which a rounded place is the same


class _Fit(NamedTuple):
    """How the index x, y, z of one grid becomes that of another: axes, signs, shift."""

    turn: I64  # (3, 3) a signed permutation
    shift: I64  # (3,)

    def corners(self, size: tuple[int, ...]) -> tuple[I64, I64]:
        """Return the lowest and the highest index of a grid of this size on the other one."""
        ends = np.array([[0, 0, 0], [n - 1 for n in size]]) @ self.turn.T + self.shift
        return ends.min(axis=0), ends.max(axis=0)


def placed(volume: Volume, grid: Volume) -> Volume:
    """Return a sparse volume on the grid of another one; any other volume as it is.

    Raises
    ------
    InputError
        The volume reaches beyond the grid.
    """
    if not volume.sparse or volume.affine is None or grid.affine is None:
        return volume
    fit = _fit(volume.affine, grid.affine, volume.size)
    # Another orientation or spacing is for `check_pair` to refuse: it says what differs.
    if fit is None:
        return volume
    low, high = fit.corners(volume.size)
    if (low < 0).any() or (high >= np.array(grid.size)).any():
        raise InputError(
            f"slices inside of {grid.file}, {shape_text(grid.shape)}",
            rule="shape-mismatch",
            file=volume.file,
            value=f"voxels {low.tolist()} to {high.tolist()} of it (x, y, z)",
            hint="empty slices are not stored: give the folder of the images, --geometry FOLDER "
            "(geometry=...) of evaluate or --images of maps, which say how large the volumes are",
        )
    return replace(
        volume,
        shape=grid.shape,
        affine=grid.affine,
        spacing=grid.spacing,
        codes=grid.codes,
        reader=partial(_read_placed, volume, fit, grid.shape),
        sparse=False,
    )


def common_grid(volume: Volume, other: Volume, limits: Limits) -> Volume:
    """Return a sparse volume on the smallest grid that holds it and another sparse one."""
    if not (volume.sparse and other.sparse) or volume.affine is None or other.affine is None:
        return volume
    fit = _fit(other.affine, volume.affine, other.size)
    if fit is None:
        return volume
    low, high = fit.corners(other.size)
    low = np.minimum(low, 0)
    high = np.maximum(high, np.array(volume.size) - 1)
    shape = tuple(int(n) for n in (high - low + 1)[::-1])
    check_extent(shape, volume.dtype.itemsize, volume.file, limits)
    shift = np.eye(4)
    shift[:3, 3] = low
    affine = volume.affine @ shift
    empty = replace(
        volume,
        shape=shape,
        affine=affine,
        spacing=spacing_of(affine, 3),
        codes=axis_codes(affine),
    )
    return placed(volume, empty)


def _fit(affine: F64, grid: F64, size: tuple[int, ...]) -> _Fit | None:
    """Return how one grid lies on another; None if voxels do not coincide."""
    between = np.linalg.inv(grid) @ affine
    turn, shift = np.rint(between[:3, :3]), np.rint(between[:3, 3])
    is_turn = bool((np.abs(turn).sum(axis=0) == 1).all() and (np.abs(turn).sum(axis=1) == 1).all())
    if not is_turn:
        return None
    exact = np.eye(4)
    exact[:3, :3], exact[:3, 3] = turn, shift
    if corner_distance(grid @ exact, affine, size) > APART:
        return None
    return _Fit(turn.astype(np.int64), shift.astype(np.int64))


def _read_placed(volume: Volume, fit: _Fit, shape: tuple[int, ...]) -> Array:
    source = volume.read().transpose(2, 1, 0)
    # Axis k of the grid is the axis of the source in which row k of the turn is not 0.
    source = source.transpose([int(np.flatnonzero(row)[0]) for row in fit.turn])
    backwards = tuple(int(k) for k in np.flatnonzero(fit.turn.sum(axis=1) < 0))
    source = np.flip(source, backwards)
    low, high = fit.corners(volume.size)
    target = np.zeros(shape[::-1], volume.dtype)
    target[tuple(slice(a, b + 1) for a, b in zip(low.tolist(), high.tolist()))] = source
    return target.transpose(2, 1, 0)
