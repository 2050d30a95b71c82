# SPDX-License-Identifier: Apache-2.0
"""Discs and spheres: objects whose size, place and overlap are known, and soft maps of them.

Arrays are ``[z, ]y, x``; centres and spacings are x, y[, z]. A voxel covers ``[x, x + 1)``: its
centre is at x + 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.synthetic.anatomy import stream

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]
ATTEMPTS = 2000  # places that are tried for one disc


@dataclass(frozen=True, slots=True)
class Disc:
    """A disc (2D) or sphere (3D) in voxels."""

    centre: tuple[float, ...]  # x, y[, z]
    radius: float

    def mask(self, shape: Sequence[int]) -> Flags:
        """Return where it is on a grid."""
        return disc(shape, self.centre, self.radius)


def disc(
    shape: Sequence[int],
    centre: Sequence[float],
    radius: float,
    spacing: Sequence[float] | None = None,
) -> Flags:
    """Return the mask of a disc or sphere.

    Parameters
    ----------
    shape
        Of the array, ``[z, ]y, x``.
    centre
        x, y[, z] in voxels.
    radius
        In voxels; in mm if a spacing is given.
    spacing
        mm per voxel along x, y[, z].

    Notes
    -----
    A voxel belongs to it if its centre is at most ``radius`` away. A small radius may hold no
    voxel.

    Examples
    --------
    >>> from calipers.synthetic.discs import disc
    >>> disc((3, 4), (1.5, 1.5), 1.0).astype(int)
    array([[0, 1, 0, 0],
           [1, 1, 1, 0],
           [0, 1, 0, 0]])
    """
    _check(shape, centre)
    mask = np.zeros(tuple(shape), np.bool_)
    steps = [1.0] * len(shape) if spacing is None else list(map(float, spacing))
    window, total = [], np.zeros(())
    for axis, (middle, step) in enumerate(zip(reversed(centre), reversed(steps))):
        reach = radius / step
        part = slice(
            max(0, math.floor(middle - reach)),
            max(0, min(shape[axis], math.ceil(middle + reach) + 1)),
        )
        away = (np.arange(part.start, part.stop) + 0.5 - middle) * step
        total = total[..., None] + away**2
        window.append(part)
    mask[tuple(window)] = total <= radius**2
    return mask


def scatter(
    n: int, shape: Sequence[int], radii: float | Sequence[float], seed: int = 0, gap: float = 1.0
) -> tuple[Disc, ...]:
    """Place discs or spheres at random, inside the grid and apart from each other.

    Parameters
    ----------
    radii
        One for all, or one each.
    gap
        Smallest distance between the rims of two discs. From 2 on, no voxels of two discs touch,
        not even at a corner.

    Notes
    -----
    Large ones are placed first. If one finds no room in 2000 attempts, that is a `UsageError`.
    """
    radius_list = [float(radii)] * n if isinstance(radii, int | float) else list(map(float, radii))
    if len(radius_list) != n:
        raise UsageError(f"{n} discs need {n} radii, not {len(radius_list)}")
    random = stream(seed, "scatter")
    side = np.array(shape[::-1], np.float64)
    discs: dict[int, Disc] = {}
    for k in sorted(range(n), key=lambda k: (-radius_list[k], k)):
        radius = radius_list[k]
        if 2 * radius > side.min():
            raise UsageError(f"a disc of radius {radius:g} does not fit into {tuple(shape)}")
        discs[k] = _free_place(radius, side, list(discs.values()), gap, random)
    return tuple(discs[k] for k in range(n))


def labelled(discs: Sequence[Disc], shape: Sequence[int]) -> NDArray[np.int32]:
    """Return a label map: 0 for background, k + 1 for disc k; the later one where discs overlap."""
    label_map = np.zeros(tuple(shape), np.int32)
    for k, one in enumerate(discs, start=1):
        label_map[one.mask(shape)] = k
    return label_map


def soft_map(
    mask: NDArray[Any], blur: float = 1.0, noise: float = 0.0, seed: int = 0
) -> NDArray[np.float32]:
    """Return scores in [0, 1] for a mask, or for any map in [0, 1].

    Parameters
    ----------
    blur
        Standard deviation of a Gaussian in voxels; 0 leaves edges sharp.
    noise
        Standard deviation of normal noise, which is added before values are cut to [0, 1].
    """
    from scipy import ndimage

    values = np.asarray(mask, np.float32)
    if blur > 0:
        values = ndimage.gaussian_filter(values, blur, mode="nearest", truncate=3.0)
    if noise > 0:
        values = values + noise * stream(seed, "noise").standard_normal(values.shape, np.float32)
    return np.clip(values, 0.0, 1.0).astype(np.float32)


def _free_place(
    radius: float, side: F64, others: Sequence[Disc], gap: float, random: np.random.Generator
) -> Disc:
    """Return a disc inside the grid and apart from the others, at a random place."""
    for _ in range(ATTEMPTS):
        centre = random.uniform(radius, side - radius)
        if all(math.dist(centre, other.centre) >= radius + other.radius + gap for other in others):
            return Disc(tuple(centre.tolist()), radius)
    raise UsageError(
        f"no room for a disc of radius {radius:g} beside {len(others)} others: "
        "fewer, smaller, less gap"
    )


def _check(shape: Sequence[int], centre: Sequence[float]) -> None:
    if len(shape) not in (2, 3) or len(centre) != len(shape):
        raise UsageError(
            f"shape and centre have 2 or 3 numbers each, not {len(shape)} and {len(centre)}"
        )
