# SPDX-License-Identifier: Apache-2.0
"""Algorithms without networks that learn from normal volumes and score the voxels of others.

Each one is small and well known, and they fail in other ways than the networks of
`calipers.studies.anomaly.brain_training`, which runs both. Raw scores are 0 or more, on any scale;
`calibrate` maps those of algorithms and networks alike to [0, 1]. One of them works on patches of
volumes as rows of numbers, appearance in a few principal components and position (`Patches`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F32
from calipers.synthetic.demo import stream

SIDE = 5  # voxels of a patch along every axis
STRIDE = 2  # voxels from one patch to the next
PATCH_COMPONENTS = 10
LEARNED_PATCHES = 20_000  # patches from which components are learned

Score = Callable[[F32], F32]  # a volume -> how unusual every voxel is
Fit = Callable[[Sequence[F32], int], Score]  # normal volumes and a seed
SMOOTH = 1.0  # voxels: deviation of the Gaussian that residuals are smoothed with
COMPONENTS = 24  # of slices
NEIGHBOURS, LEARNED = 3, 12_000  # of a patch; patches that are remembered
PLACE = 6.0  # weight of a patch's place against its look
USUAL, RARE = 0.99, 0.999  # shares of normal voxels below a score of 0.01 and of 0.5
FLOOR = 1e-6  # lower limit of scales, to avoid a division by 0


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
    # Some patches of every volume: all of them would take too much memory.
    n_each = max(1, LEARNED_PATCHES // len(volumes))
    samples = []
    for volume in volumes:
        rows = _cut_patches(volume)
        samples.append(rows[:: max(1, len(rows) // n_each)])
    subset = np.concatenate(samples)
    mean = subset.mean(axis=0)
    centred = subset - mean
    _, vectors = np.linalg.eigh(centred.T @ centred)
    patches = Patches(mean, np.asarray(vectors[:, ::-1][:, :PATCH_COMPONENTS].T, np.float32), place)
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


def calibrate(score: Score, normal: Sequence[F32]) -> Score:
    """Return scores in [0, 1] by the rule ``calibrated odds``: odds are a power of the raw score.

    One in 1000 voxels of normal volumes reaches a score of 0.5, one in 100 a score of 0.01. These
    volumes are not used for training. The map is increasing, so the ranks of voxels do not change.
    """
    raw = np.concatenate([score(volume).ravel() for volume in normal])
    usual, rare = (max(float(value), FLOOR) for value in np.quantile(raw, (USUAL, RARE)))
    # The odds are (score / rare) ** power: 1 at `rare`, and 1 to 99 at `usual`.
    # The lower limit keeps the power finite if both quantiles agree.
    power = np.log(USUAL / (1.0 - USUAL)) / max(np.log(rare / usual), 0.05)

    def calibrated_score(volume: F32) -> F32:
        odds = np.power(np.maximum(score(volume).astype(np.float64), 0.0) / rare, power)
        return np.asarray(1.0 - 1.0 / (1.0 + odds), np.float32)

    return calibrated_score


def local_contrast(volumes: Sequence[F32], seed: int) -> Score:
    """Compare a voxel with its surroundings: difference of Gaussians of 1 and 4 voxels, divided by
    the local standard deviation.
    """

    def contrast(volume: F32) -> F32:
        around, square = _smooth(volume, 4.0), _smooth(volume**2, 4.0)
        deviation = np.sqrt(np.maximum(square - around**2, 0.0)) + 0.05
        return np.asarray(np.abs(_smooth(volume) - around) / deviation, np.float32)

    return contrast


def atlas(volumes: Sequence[F32], seed: int) -> Score:
    """Fit mean and standard deviation at every voxel, without registration; the score is the
    absolute z-score.
    """
    smooth = np.stack([_smooth(volume) for volume in volumes])
    mean = smooth.mean(axis=0)
    deviation = np.sqrt(_smooth(smooth.var(axis=0, ddof=1), 1.5)) + np.float32(0.02)
    return lambda volume: np.abs(_smooth(volume) - mean) / deviation


def slice_components(volumes: Sequence[F32], seed: int) -> Score:
    """Fit principal components of slices; the score is the residual of the reconstruction."""
    rows = np.concatenate([volume.reshape(len(volume), -1) for volume in volumes])
    mean = rows.mean(axis=0)
    axes = _principal(rows - mean, COMPONENTS)

    def residual(volume: F32) -> F32:
        flat = volume.reshape(len(volume), -1) - mean
        residual_rows = flat - (flat @ axes.T) @ axes
        return np.abs(_smooth(residual_rows.reshape(volume.shape)))

    return residual


def nearest_patches(volumes: Sequence[F32], seed: int) -> Score:
    """Remember patches with their places; the score is the mean distance to the nearest ones."""
    from scipy.spatial import cKDTree

    patches, rows = learn_patches(volumes, place=PLACE)
    selection = stream(seed, "nearest").choice(len(rows), min(LEARNED, len(rows)), replace=False)
    tree = cKDTree(rows[selection])

    def distance(volume: F32) -> F32:
        distances, _ = tree.query(patches.of(volume), k=NEIGHBOURS, workers=1)
        return at_all_voxels(np.asarray(distances).mean(axis=1), volume.shape)

    return distance


# Name -> how it is fitted, and the score of a voxel in words.
CLASSICAL: Mapping[str, tuple[Fit, str]] = {
    "local-contrast": (local_contrast, "grey value against its surroundings"),
    "atlas": (atlas, "z-score at the same place in normal volumes"),
    "slice-pca": (slice_components, "what principal components of slices leave over"),
    "nearest-patch": (nearest_patches, "distance to the nearest patches of normal volumes"),
}


def _smooth(volume: F32, deviation: float = SMOOTH) -> F32:
    from scipy import ndimage

    return np.asarray(
        ndimage.gaussian_filter(volume, deviation, mode="nearest", truncate=3.0), np.float32
    )


def _principal(rows: F32, n: int) -> F32:
    """Return (n, features) the leading principal axes of centred rows."""
    if rows.shape[0] < rows.shape[1]:
        # Fewer rows than features: the small matrix has the same axes at less cost.
        _, left_vectors = np.linalg.eigh(rows @ rows.T)
        axes = left_vectors[:, ::-1][:, :n].T @ rows
        return np.asarray(
            axes / np.maximum(np.linalg.norm(axes, axis=1, keepdims=True), FLOOR), np.float32
        )
    _, vectors = np.linalg.eigh(rows.T @ rows)
    return np.asarray(vectors[:, ::-1][:, :n].T, np.float32)
