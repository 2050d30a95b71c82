# SPDX-License-Identifier: Apache-2.0
"""Patches of volumes as rows of numbers: appearance in a few principal components, and position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

SIDE = 5  # voxels of a patch along every axis
STRIDE = 2  # voxels from one patch to the next
COMPONENTS = 10
LEARNED = 20_000  # patches from which components are learned


@dataclass(frozen=True)
class Patches:
    """The principal components of patches, learned from normal volumes."""

    mean: F32  # (SIDE^3,)
    axes: F32  # (components, SIDE^3)
    # weight of the place, in units of the largest deviation of a component; 0 = the place plays no
    # part
    place: float

    def of(self, volume: F32) -> F32:
        """Return one row per patch, in the order of the voxels of a grid with stride `STRIDE`."""
        rows = _cut_patches(volume)
        looks = (rows - self.mean) @ self.axes.T
        if not self.place:
            return np.asarray(looks, np.float32)
        return np.asarray(
            np.concatenate([looks, self.place * places(volume.shape)], axis=1), np.float32
        )


def learn_patches(volumes: Sequence[F32], place: float = 0.0) -> tuple[Patches, F32]:
    """Learn the components of patches from normal volumes; return them and the patch rows."""
    rows = np.concatenate([_cut_patches(volume) for volume in volumes])
    subset = rows[:: max(1, len(rows) // LEARNED)]
    mean = subset.mean(axis=0)
    centred = subset - mean
    _, vectors = np.linalg.eigh(centred.T @ centred)
    patches = Patches(mean, np.asarray(vectors[:, ::-1][:, :COMPONENTS].T, np.float32), place)
    return patches, np.concatenate([patches.of(volume) for volume in volumes])


def places(shape: tuple[int, ...]) -> F32:
    """Return (n, 3): positions of the patches, each axis from -1 to 1."""
    axes = [np.linspace(-1.0, 1.0, len(range(0, n, STRIDE)), dtype=np.float32) for n in shape]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(shape))


def at_all_voxels(values: NDArray[np.floating], shape: tuple[int, ...]) -> F32:
    """Interpolate the scores of patches linearly between their centres."""
    from scipy import ndimage

    coarse = np.asarray(values, np.float32).reshape([len(range(0, n, STRIDE)) for n in shape])
    at = np.meshgrid(*(np.arange(n, dtype=np.float32) / STRIDE for n in shape), indexing="ij")
    return np.asarray(ndimage.map_coordinates(coarse, at, order=1, mode="nearest"), np.float32)


def _cut_patches(volume: F32) -> F32:
    """Return (patches, SIDE^3): all patches of a volume, padded at its edges."""
    # Edges are repeated, so that every voxel of the grid has a patch.
    half = SIDE // 2
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(volume, half, mode="edge"), (SIDE,) * volume.ndim
    )
    return np.ascontiguousarray(
        windows[(slice(None, None, STRIDE),) * volume.ndim].reshape(-1, SIDE**volume.ndim)
    )
