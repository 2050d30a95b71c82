# SPDX-License-Identifier: Apache-2.0
"""A schematic chest in cross-sections: what the volumes of the demo show below their maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.synthetic.anatomy import stream

F64 = NDArray[np.float64]
Voxels = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Ellipsoid:
    """Centre and half axes along x, y[, z], in fractions of the image."""

    centre: tuple[float, ...]
    half: tuple[float, ...]

    def depth(self, grid: tuple[Voxels, ...]) -> Voxels:
        """Return 1 at the centre, 0 on the surface, negative outside."""
        away = sum(((axis - c) / h) ** 2 for axis, c, h in zip(grid, self.centre, self.half))
        return np.asarray(1.0 - np.sqrt(away))

    def inner(self, at: F64) -> tuple[float, ...]:
        """Return the point at fractions -1..1 of the half axes."""
        return tuple(float(c + h * u) for c, h, u in zip(self.centre, self.half, at))


@dataclass(frozen=True, slots=True)
class Torso:
    """The chest of one patient."""

    body: Ellipsoid
    lungs: tuple[Ellipsoid, Ellipsoid]
    heart: Ellipsoid
    spine: Ellipsoid


def torso(seed: int, patient: str, dimensions: int) -> Torso:
    """Return the chest of a patient: the same for all samples of that patient."""
    random = stream(seed, "torso", patient)
    build, tilt = random.normal(1.0, 0.03), random.normal(0.0, 0.01)

    def part(x: float, y: float, z: float, across: float, deep: float, along: float) -> Ellipsoid:
        centre, half = (0.5 + x + tilt, 0.5 + y, 0.5 + z), (across * build, deep * build, along)
        return Ellipsoid(centre[:dimensions], half[:dimensions])

    return Torso(
        body=part(0.0, 0.0, 0.0, 0.46, 0.36, 2.0),
        lungs=(
            part(-0.20, -0.02, 0.0, 0.17, 0.25, 0.48),
            part(0.20, -0.01, 0.02, 0.16, 0.25, 0.47),
        ),
        heart=part(0.05, -0.12, 0.10, 0.14, 0.13, 0.24),
        spine=part(0.0, 0.24, 0.0, 0.055, 0.06, 2.0),
    )


def draw_volume(chest: Torso, lesions: NDArray[Any], random: Generator) -> NDArray[np.uint8]:
    """Return grey values of a chest with lesions, ``[z, ]y, x``.

    Parameters
    ----------
    lesions
        How much of a voxel is lesion, 0 to 1; it gives the shape too.
    """
    shape = lesions.shape
    grid = _grid(shape)
    heart = _soft(chest.heart.depth(grid), 0.06)
    air = np.maximum(*(_soft(lung.depth(grid), 0.05) for lung in chest.lungs)) * (1.0 - heart)
    shell = chest.body.depth(grid)
    body, fat = _soft(shell, 0.02), _soft(0.10 - shell, 0.02)
    ribs = np.exp(-(((shell - 0.17) / 0.03) ** 2)) * _stripes(grid) * (1.0 - air)
    grain = _texture(shape, random)
    density = 0.52 - 0.12 * fat + 0.06 * heart - 0.40 * air + 0.30 * ribs
    density = (
        density + 0.36 * _soft(chest.spine.depth(grid), 0.12) + 0.05 * grain * (0.4 + 0.6 * air)
    )
    density = density + (0.62 - density) * np.clip(lesions, 0.0, 1.0) * 0.85
    noisy = 0.03 + density * body + 0.012 * random.standard_normal(shape, np.float32)
    return np.asarray(np.round(255.0 * np.clip(noisy, 0.0, 1.0)), np.uint8)


def _grid(shape: tuple[int, ...]) -> tuple[Voxels, ...]:
    """Return the voxel centres along x, y[, z] in fractions of the image, ready to be combined."""
    axes = [(np.arange(n, dtype=np.float32) + 0.5) / np.float32(n) for n in shape]
    return tuple(reversed(np.meshgrid(*axes, indexing="ij", sparse=True)))


def _soft(depth: Voxels, width: float) -> Voxels:
    return np.asarray(0.5 + 0.5 * np.tanh(depth * (1.0 / width)))


def _stripes(grid: tuple[Voxels, ...]) -> Voxels:
    """Return ribs: they fall towards the front, so a cross-section cuts them in pieces."""
    along = grid[2] if len(grid) == 3 else np.float32(0.3)
    return np.asarray(
        0.5 + 0.5 * np.tanh(3.0 * np.cos(2.0 * np.pi * (7.0 * along + 2.5 * grid[1])))
    )


def _texture(shape: tuple[int, ...], random: Generator) -> Voxels:
    """Return smooth noise of mean 0 and deviation 1."""
    from scipy import ndimage

    smooth = ndimage.gaussian_filter(
        random.standard_normal(shape, np.float32), 1.2, mode="wrap", truncate=2.5
    )
    return np.asarray((smooth - smooth.mean()) / smooth.std())
