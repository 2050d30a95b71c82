# SPDX-License-Identifier: Apache-2.0
"""Algorithms that learn from normal volumes and give the voxels of other volumes an anomaly score.

Each one is small and well known, and they fail in different ways, which is what the metrics are
compared on. Raw scores are 0 or more, on any scale; `calibrate` maps them to [0, 1].
`calipers.studies.anomaly.benchmark` trains and runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from calipers.studies.anomaly.patches import at_all_voxels, learn_patches
from calipers.synthetic.anatomy import stream

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Score = Callable[[F32], F32]  # a volume -> how unusual every voxel is
Fit = Callable[[Sequence[F32], int], Score]  # normal volumes and a seed

SMOOTH = 1.0  # voxels: deviation of the Gaussian that residuals are smoothed with
COMPONENTS = 24  # of slices
NEIGHBOURS, LEARNED = 3, 12_000  # of a patch; patches that are remembered
PLACE = 6.0  # weight of a patch's place against its look
USUAL, RARE = 0.99, 0.999  # shares of normal voxels below a score of 0.01 and of 0.5
FLOOR = 1e-6  # lower limit of scales, to avoid a division by 0


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm: name, description, and the function that trains it."""

    name: str
    about: str
    fit: Fit
    package: str = ""  # required package besides NumPy and SciPy
    extra: str = ""  # extra of Calipers that installs the package

    @property
    def available(self) -> bool:
        """Whether the required package is installed."""
        return not self.package or find_spec(self.package) is not None


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


def intensity(volumes: Sequence[F32], seed: int) -> Score:
    """Fit mean and standard deviation of all grey values; the score is the absolute z-score."""
    mean, deviation = _moments(volumes)
    return lambda volume: np.abs(_smooth((volume - mean) / deviation))


def local_contrast(volumes: Sequence[F32], seed: int) -> Score:
    """Compare a voxel with its surroundings: difference of Gaussians of 1 and 4 voxels, divided by
    the local standard deviation.
    """

    def contrast(volume: F32) -> F32:
        around, square = _smooth(volume, 4.0), _smooth(volume**2, 4.0)
        deviation = np.sqrt(np.maximum(square - around**2, 0.0)) + 0.05
        return np.asarray(np.abs(_smooth(volume) - around) / deviation, np.float32)

    return contrast


def pyramid(volumes: Sequence[F32], seed: int) -> Score:
    """Split volumes into bands of a Gaussian pyramid; the score is the largest band relative to its
    usual size.
    """
    bands_of_volumes = [_bands(volume) for volume in volumes]
    scales = [_scale(bands) for bands in zip(*bands_of_volumes)]

    def residual(volume: F32) -> F32:
        sizes = [np.abs(_smooth(band)) / scale for band, scale in zip(_bands(volume), scales)]
        return np.asarray(np.max(sizes, axis=0), np.float32)

    return residual


def median_residual(volumes: Sequence[F32], seed: int) -> Score:
    """Subtract from slices their median over 11 x 11 pixels, which small spheres do not change."""
    from scipy import ndimage

    def residual(volume: F32) -> F32:
        return np.abs(_smooth(volume - ndimage.median_filter(volume, (1, 11, 11), mode="nearest")))

    return residual


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


def mahalanobis(volumes: Sequence[F32], seed: int) -> Score:
    """Fit a Gaussian of three filter responses at every voxel; score by Mahalanobis distance."""
    features = np.stack([_responses(volume) for volume in volumes])  # (n, z, y, x, 3)
    mean = features.mean(axis=0)
    centred = features - mean
    # Few volumes give a noisy covariance, so it is smoothed over voxels and regularised.
    spread = np.einsum("nzyxi,nzyxj->zyxij", centred, centred) / max(len(volumes) - 1, 1)
    for i, j in np.ndindex(3, 3):
        spread[..., i, j] = _smooth(spread[..., i, j], 1.5)
    inverse = np.linalg.inv(spread + 4e-4 * np.eye(3, dtype=np.float32))

    def distance(volume: F32) -> F32:
        away = _responses(volume) - mean
        squares = np.einsum("zyxi,zyxij,zyxj->zyx", away, inverse, away)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)), np.float32)

    return distance


def forest(volumes: Sequence[F32], seed: int) -> Score:
    """Isolate patches by random cuts, without their places; patches that few cuts isolate are
    unusual.
    """
    from calipers.studies.anomaly.forest import fit_forest

    patches, rows = learn_patches(volumes)
    selection = stream(seed, "forest").choice(len(rows), min(LEARNED, len(rows)), replace=False)
    unusual = fit_forest(rows[selection], seed)

    def calibrated_score(volume: F32) -> F32:
        return at_all_voxels(unusual(patches.of(volume)), volume.shape)

    return calibrated_score


def autoencoder(volumes: Sequence[F32], seed: int) -> Score:
    """Train a small convolutional autoencoder on slices; the score is the residual."""
    from calipers.studies.anomaly.autoencoder import fit_autoencoder

    reproduce = fit_autoencoder(np.concatenate(list(volumes)), seed)
    return lambda volume: np.abs(_smooth(volume - reproduce(volume)))


ALGORITHMS = (
    Algorithm("intensity", "z-score of the grey value over all voxels", intensity),
    Algorithm("local-contrast", "grey value against its surroundings", local_contrast),
    Algorithm("median-residual", "difference from the median of the surroundings", median_residual),
    Algorithm("pyramid", "largest deviation of a band of a Gaussian pyramid", pyramid),
    Algorithm("atlas", "z-score at the same place in normal volumes", atlas),
    Algorithm("slice-pca", "what principal components of slices leave over", slice_components),
    Algorithm(
        "nearest-patch", "distance to the nearest patches of normal volumes", nearest_patches
    ),
    Algorithm("mahalanobis", "Mahalanobis distance of filter responses", mahalanobis),
    Algorithm("isolation-forest", "random cuts that isolate a patch", forest, "sklearn", "studies"),
    Algorithm(
        "autoencoder", "what a small autoencoder does not reproduce", autoencoder, "torch", "train"
    ),
)


def _moments(volumes: Sequence[F32]) -> tuple[float, float]:
    values = np.stack(volumes)
    return float(values.mean(dtype=np.float64)), max(float(values.std(dtype=np.float64)), FLOOR)


def _smooth(volume: F32, deviation: float = SMOOTH) -> F32:
    from scipy import ndimage

    return np.asarray(
        ndimage.gaussian_filter(volume, deviation, mode="nearest", truncate=3.0), np.float32
    )


def _bands(volume: F32) -> list[F32]:
    """Return the differences between consecutive levels of a Gaussian pyramid."""
    # Widths double from level to level, as in a pyramid, but without subsampling.
    levels = [volume, *(_smooth(volume, width) for width in (1.5, 3.0, 6.0))]
    return [fine - coarse for fine, coarse in pairwise(levels)]


def _scale(bands: Sequence[F32]) -> F32:
    """Return the usual size of a band at every voxel; the constant keeps quiet places above 0."""
    usual = np.sqrt(np.mean([_smooth(band) ** 2 for band in bands], axis=0))
    return np.asarray(_smooth(usual, 2.0) + 0.02, np.float32)


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


def _responses(volume: F32) -> F32:
    """Return (z, y, x, 3): a smoothed volume, a smoother one, and the size of its gradient."""
    from scipy import ndimage

    fine = _smooth(volume)
    edges = ndimage.gaussian_gradient_magnitude(volume, SMOOTH, mode="nearest", truncate=3.0)
    return np.stack([fine, _smooth(volume, 2.5), np.asarray(edges, np.float32)], axis=-1)
