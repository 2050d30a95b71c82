# SPDX-License-Identifier: Apache-2.0
"""Algorithms that learn from normal volumes and give the voxels of other volumes an anomaly score.

Each one is small and well known, and they fail in different ways, which is what the metrics are
compared on. Raw scores are 0 or more, on any scale; `calibrate` maps them to [0, 1].
`calipers.studies.anomaly.experiments` trains and runs `ALGORITHMS`.

Some work on patches of volumes as rows of numbers, appearance in a few principal components and
position (`Patches`); one is a small convolutional autoencoder of slices (extra ``train``: PyTorch).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F32
from calipers.synthetic.demo import stream

EPOCHS, BATCH, RATE = 12, 32, 2e-3
CHANNELS, CODE = (8, 16, 32), 48  # of the layers, and numbers that a slice is squeezed into

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


def fit_autoencoder(slices: F32, seed: int) -> Callable[[F32], F32]:
    """Train on slices (n, height, width) whose sides are multiples of 8.

    Returns the function that reproduces slices.
    """
    import torch
    from torch import nn

    with _seeded(seed):
        net = _network(slices.shape[1] // 8, slices.shape[2] // 8)
        data = torch.from_numpy(np.ascontiguousarray(slices))[:, None]
        steps = EPOCHS * -(-len(data) // BATCH)
        optimiser = torch.optim.Adam(net.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
        for _ in range(EPOCHS):
            for part in torch.randperm(len(data)).split(BATCH):
                optimiser.zero_grad()
                nn.functional.mse_loss(net(data[part]), data[part]).backward()
                optimiser.step()
                schedule.step()
    net.eval()

    def reproduce(volume: F32) -> F32:
        with _seeded(seed), torch.no_grad():
            batch = torch.from_numpy(np.ascontiguousarray(volume))[:, None]
            reproduction: F32 = net(batch)[:, 0].numpy()
        return reproduction

    return reproduce


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed PyTorch and use one thread, for bit-identical training; restore both at the end."""
    import torch

    # Several threads would add floating-point numbers in varying order.
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)


def _network(height: int, width: int):  # type: ignore[no-untyped-def]  # PyTorch is not there when types are checked
    """Return an encoder of three steps, a code, and a decoder of three steps."""
    from torch import nn

    encoder, decoder = [], []
    sizes = (1, *CHANNELS)
    for n_few, n_many in pairwise(sizes):
        encoder += [nn.Conv2d(n_few, n_many, 3, stride=2, padding=1), nn.ReLU()]
    for n_many, n_few in zip(sizes[:0:-1], sizes[-2::-1]):
        decoder += [nn.Upsample(scale_factor=2), nn.Conv2d(n_many, n_few, 3, padding=1), nn.ReLU()]
    last = CHANNELS[-1]
    to_code = [nn.Flatten(), nn.Linear(last * height * width, CODE)]
    from_code = [
        nn.Linear(CODE, last * height * width),
        nn.ReLU(),
        nn.Unflatten(1, (last, height, width)),
    ]
    return nn.Sequential(*encoder, *to_code, *from_code, *decoder[:-1])


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
    subset = rows[:: max(1, len(rows) // LEARNED_PATCHES)]
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
    from calipers.studies.anomaly.figures import fit_forest

    patches, rows = learn_patches(volumes)
    selection = stream(seed, "forest").choice(len(rows), min(LEARNED, len(rows)), replace=False)
    unusual = fit_forest(rows[selection], seed)

    def calibrated_score(volume: F32) -> F32:
        return at_all_voxels(unusual(patches.of(volume)), volume.shape)

    return calibrated_score


def autoencoder(volumes: Sequence[F32], seed: int) -> Score:
    """Train a small convolutional autoencoder on slices; the score is the residual."""

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
