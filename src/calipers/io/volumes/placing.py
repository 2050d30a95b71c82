# SPDX-License-Identifier: Apache-2.0
"""Put a volume on the grid of another one, by its place in space.

DICOM segmentations leave out slices without a segment, so two of them rarely have the same shape
and none has that of its image. `placed` returns such a volume on the grid of another one: the same
voxels at the same place in the patient, 0 elsewhere. Axes may be mirrored or exchanged between the
two, as they are between DICOM and NIfTI; nothing is interpolated. `common_grid` is the smallest
grid that holds two such volumes, and `on_one_grid` does this for the files of a sample.

Crops, turned and shifted volumes and those of another spacing are resampled, if the caller says
``place`` (``--place``): `check_place` compares two headers and says what will happen, `on_grid`
resamples the voxels. The grid of the references stays as it is; a voxel of it that the prediction
does not reach is 0: nothing was predicted there. ``"nearest"`` takes the voxel whose cell a centre
of the grid lies in, and on a border the next one, as SimpleITK does; ``"linear"`` interpolates
between centres, and up to the border of the volume has the values of the outermost voxels.

`calipers.io.volumes.pairing`, `calipers.io.volumes.samples` and `calipers.io.volumes.labels` call
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np

from calipers.arrays import F64, I64, Array
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.io.volumes.volume import (
    TOLERANCE,
    Limits,
    Volume,
    axis_codes,
    check_extent,
    corner_distance,
    shape_text,
    spacing_of,
)

Place = Literal["nearest", "linear"]
# Parts of a voxel to which places are rounded, so that the last digits decide nothing on a border.
SNAP = 2.0**20
FLAT = 1e-6  # voxels by which an axis may lean towards another one and still count as parallel
SAMPLED = 24  # places along an axis at which the overlap of two headers is looked at
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


def on_one_grid(
    labels: Volume, maps: Mapping[str, Volume | None], image: Volume | None, limits: Limits
) -> tuple[Volume, dict[str, Volume | None], Volume | None]:
    """Put volumes that lack empty slices on the grid of their image, or of a volume that lacks
    none, or on one that holds all of them.
    """
    volumes = [labels, *(volume for volume in maps.values() if volume is not None)]
    if not any(volume.sparse for volume in volumes):
        return labels, dict(maps), image
    whole = [volume for volume in (image, *volumes) if volume is not None and not volume.sparse]
    if whole:
        grid = whole[0]
    else:
        grid = labels
        for other in volumes[1:]:
            # Sparse as before, so that the next one may extend it further.
            grid = replace(common_grid(grid, other, limits), sparse=True)
    placed_maps: dict[str, Volume | None] = {}
    for model, volume in maps.items():
        placed_maps[model] = None if volume is None else placed(volume, grid)
    return placed(labels, grid), placed_maps, image


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


# Resampling


def check_way(place: str | None, resize: str | None = None) -> None:
    """Raise for an unknown way of placing, or one beside a way of resizing."""
    if resize is not None and place is not None:
        raise UsageError(
            "resize and place exclude each other: place puts volumes of any shape and spacing on "
            "the grid of their labels"
        )
    if place is not None and place not in get_args(Place):
        raise UsageError(f"no way of placing {place!r}; {did_you_mean(place, get_args(Place))}")


def is_on_grid(volume: Volume, grid: Volume) -> bool:
    """Return whether a volume has the shape and place of another one."""
    if volume.shape != grid.shape:
        return False
    if volume.affine is None or grid.affine is None:
        return True
    return corner_distance(volume.affine, grid.affine, grid.size) <= TOLERANCE


def can_place(volume: Volume, grid: Volume) -> bool:
    """Return whether both have an affine, by which one can be put on the grid of the other."""
    has_affines = volume.affine is not None and grid.affine is not None
    return has_affines and len(volume.shape) == len(grid.shape)


def check_place(volume: Volume, grid: Volume, place: str) -> tuple[str, ...]:
    """Return what is to be said about a volume that is put on another grid.

    Raises
    ------
    InputError
        The two have no place in common.
    """
    inside, covered = _share_inside(volume, grid), _share_inside(grid, volume)
    if inside == covered == 0.0:
        raise InputError(
            f"a place within {grid.file}",
            rule="affine",
            file=volume.file,
            value="no voxel of it",
            hint="its affine puts it elsewhere: was it saved with the affine of its image?",
        )
    notes = [f"predictions placed on the grid of their references by their affines ({place})"]
    if inside < 1.0:
        notes.append("placed predictions that reach beyond their references, and are cut there")
    if covered < 1.0:
        notes.append("placed predictions that do not reach all of their references: 0 elsewhere")
    return tuple(notes)


def is_cut(volume: Volume, grid: Volume) -> bool:
    """Return whether a volume reaches beyond a reference that stores no empty slices.

    What lies there are false alarms of the image, which placing would cut off.
    """
    return grid.sparse and _share_inside(volume, grid) < 1.0


def with_place_hint(error: InputError, volume: Volume, grid: Volume) -> InputError:
    """Return the error on a volume that lies elsewhere than its reference, with the option that
    puts it there, if its affine may do that.
    """
    if error.rule not in ("affine", "shape-mismatch", "spacing") or not can_place(volume, grid):
        return error
    try:
        check_place(volume, grid, "nearest")
    except InputError:
        return error
    if is_cut(volume, grid):
        return error
    hint = "if its affine is right, --place nearest (place=) puts it on that grid"
    assert volume.affine is not None
    assert grid.affine is not None
    # Resizing is for volumes of one extent, and would only be refused.
    apart = corner_distance(grid.affine, volume.affine, grid.size, volume.size)
    if error.hint and not ("--resize" in error.hint and apart > TOLERANCE):
        hint = f"{error.hint}; {hint}"
    return error.with_hint(error.rule, hint)


def on_grid(array: Array, volume: Volume, grid: Volume, place: str) -> Array:
    """Return the voxels of a volume, or scores made of them, on the grid of another one.

    Labels keep their type; ``"linear"`` returns floats.
    """
    assert volume.affine is not None
    assert grid.affine is not None
    source = array.reshape((1,) * (3 - array.ndim) + array.shape)
    shape = (1,) * (3 - len(grid.shape)) + grid.shape
    between = _between(volume.affine, grid.affine)
    if source.dtype not in (np.float32, np.float64) and place == "linear":
        source = source.astype(np.float32)
    turn = between[:3, :3]
    # How far an axis of the grid leads along each axis of the source, over all of its length.
    reach = np.abs(turn) * np.array(shape[::-1])
    axes = reach.argmax(axis=1)
    rest = reach.copy()
    rest[np.arange(3), axes] = 0.0
    if rest.max() < FLAT and len(set(axes.tolist())) == 3:
        result = _by_axis(source, shape, between, axes, place)
    else:
        result = _by_slice(source, shape, between, place)
    return result.reshape(grid.shape)


def regridded(volume: Volume, grid: Volume) -> Volume:
    """Return a label volume on the grid of another one; its voxels are resampled when read."""

    def read() -> Array:
        return on_grid(volume.read(), volume, grid, "nearest")

    return replace(
        volume,
        shape=grid.shape,
        affine=grid.affine,
        spacing=grid.spacing,
        codes=grid.codes,
        reader=read,
        sparse=False,
    )


def _between(affine: F64, grid: F64) -> F64:
    """Return the matrix from the index x, y, z of the grid to that of the source."""
    return np.asarray(np.linalg.inv(affine) @ grid)


def _snapped(places: F64) -> F64:
    return np.asarray(np.rint(places * SNAP) / SNAP)


def _share_inside(volume: Volume, grid: Volume) -> float:
    """Return the share of the voxels of a volume whose centres lie within another one, by a sample
    of them.
    """
    assert volume.affine is not None
    assert grid.affine is not None
    size = np.array((*volume.size, 1)[:3])
    steps = [np.unique(np.linspace(0, n - 1, min(n, SAMPLED)).round()) for n in size]
    index = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, 3)
    between = _between(grid.affine, volume.affine)
    places = _snapped(index @ between[:3, :3].T + between[:3, 3])
    return float(_is_inside(places, np.array((*grid.size, 1)[:3])).all(axis=1).mean())


def _is_inside(places: F64, sides: Array | int) -> Array:
    return np.asarray((places >= -0.5) & (places < sides - 0.5))


def _by_axis(source: Array, shape: tuple[int, ...], between: F64, axes: Array, place: str) -> Array:
    """Resample along one axis after the other: the axes of both grids are parallel."""
    result, order = source, []
    covered: list[Array] = []
    # Axis k of an index x, y, z is axis 2 - k of an array.
    for k in range(3):
        n_new, step = shape[2 - axes[k]], between[k, axes[k]]
        places = _snapped(step * np.arange(n_new) + between[k, 3])
        covered.append(_is_inside(places, source.shape[2 - k]))
        result = _along(result, 2 - k, places, place)
    for axis in range(3):
        # The axis of the source that runs along this axis of the grid.
        order.append(2 - int(np.flatnonzero(axes == 2 - axis)[0]))
    result = np.ascontiguousarray(result.transpose(order))
    for k in range(3):
        outside = [slice(None)] * 3
        outside[2 - int(axes[k])] = np.flatnonzero(~covered[k])  # type: ignore[call-overload]
        result[tuple(outside)] = 0
    return result


def _along(array: Array, axis: int, places: F64, place: str) -> Array:
    last = array.shape[axis] - 1
    if place == "nearest":
        index = np.clip(np.floor(places + 0.5), 0, last).astype(np.int64)
        return np.take(array, index, axis=axis)
    places = np.clip(places, 0, last)
    low = np.minimum(np.floor(places), max(last - 1, 0)).astype(np.int64)
    shares = (places - low).astype(array.dtype)
    shares = shares.reshape([-1 if k == axis else 1 for k in range(array.ndim)])
    lower = np.take(array, low, axis=axis)
    upper = np.take(array, np.minimum(low + 1, last), axis=axis)
    return np.asarray(lower * (1 - shares) + upper * shares)


def _by_slice(source: Array, shape: tuple[int, ...], between: F64, place: str) -> Array:
    """Resample slice by slice, whatever the angle: memory grows by a slice of places only."""
    from scipy import ndimage

    result = np.zeros(shape, source.dtype)
    x, y = np.meshgrid(np.arange(shape[2]), np.arange(shape[1]))
    flat = np.stack([x.ravel(), y.ravel()], axis=1) @ between[:3, :2].T + between[:3, 3]
    size = np.array(source.shape[::-1])
    for z in range(shape[0]):
        places = _snapped(flat + z * between[:3, 2])
        inside = np.flatnonzero(_is_inside(places, size).all(axis=1))
        own = places[inside]
        if place == "nearest":
            index = np.floor(own + 0.5).astype(np.int64)
            values = source[index[:, 2], index[:, 1], index[:, 0]]
        else:
            values = ndimage.map_coordinates(source, own[:, ::-1].T, order=1, mode="nearest")
        result[z].reshape(-1)[inside] = values
    return result
