# SPDX-License-Identifier: Apache-2.0
"""The discs and spheres of the controlled experiments on anomaly maps.

`place_discs` and `sample` give references and model maps. All centres are centres of voxels, so
that discs of one radius have the same number of voxels and closed forms are exact.
`calipers.studies.anomaly.controlled` calls both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calipers.arrays import Flags
from calipers.data.maps import Sample
from calipers.synthetic.volumes import Disc, scatter

# voxels left free around every disc: after rounding of centres no two touch, not even at a corner
LAYOUT_APART = 2.0


@dataclass(frozen=True, slots=True)
class Setting:
    """A grid and the sizes of its objects, in voxels."""

    shape: tuple[int, ...]
    large: float
    small: float
    equal: float  # radius where all objects are alike

    @property
    def name(self) -> str:
        """2D or 3D."""
        return f"{len(self.shape)}D"

    @property
    def object(self) -> str:
        """The name of the objects."""
        return "disc" if len(self.shape) == 2 else "sphere"


SETTINGS = (
    Setting((128, 128), large=14.0, small=5.0, equal=8.0),
    Setting((48, 48, 48), large=9.0, small=5.0, equal=5.0),
)


def place_discs(
    shape: Sequence[int], radii: Sequence[float], seed: int, free: float = LAYOUT_APART
) -> tuple[Disc, ...]:
    """Return discs at random places inside the grid, at least ``2 * free - 1.8`` voxels apart."""
    positions = scatter(len(radii), shape, [radius + free for radius in radii], seed, gap=0.0)
    discs = []
    for one, radius in zip(positions, radii):
        discs.append(Disc(tuple(np.floor(one.centre) + 0.5), radius))
    return tuple(discs)


def disc_mask(discs: Sequence[Disc], shape: Sequence[int]) -> Flags:
    """Return the union of discs as a mask."""
    mask = np.zeros(tuple(shape), np.bool_)
    for one in discs:
        mask |= one.mask(shape)
    return mask


def peel_disc(one: Disc, shape: Sequence[int], n: int) -> Flags:
    """Return a disc without its ``n`` outermost voxels; of voxels at the same distance the later
    ones are removed first.
    """
    mask = one.mask(shape)
    index = np.argwhere(mask)
    distance = ((index[:, ::-1] + 0.5 - np.array(one.centre)) ** 2).sum(axis=1)
    core = index[np.argsort(distance, kind="stable")[: len(index) - n]]
    result = np.zeros_like(mask)
    result[tuple(core.T)] = True
    return result


def sample(name: str, references: Flags, masks: Mapping[str, Flags]) -> Sample:
    """Return a sample whose maps are 1 in the mask of each model and 0 elsewhere."""
    maps = {model: flags.astype(np.float32) for model, flags in masks.items()}
    return Sample(name, references.astype(np.uint8), maps)


def empty(name: str, shape: Sequence[int], models: Sequence[str]) -> Sample:
    """Return a sample without objects and without anything found."""
    nothing = np.zeros(tuple(shape), np.bool_)
    return sample(name, nothing, dict.fromkeys(models, nothing))
