# SPDX-License-Identifier: Apache-2.0
"""The data of the study of anomaly maps: chests with spheres, and discs for controlled experiments.

`test_volumes` gives the volumes of the benchmark: chests that differ slightly, half of them with
spheres. `place_discs` and `sample` give the samples of the controlled experiments: references and
model maps of discs and spheres. All centres are centres of voxels, so that discs of one radius have
the same number of voxels and closed forms are exact. `calipers.studies.anomaly.experiments` calls
both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.arrays import F32, Flags
from calipers.data.maps import Sample
from calipers.synthetic.demo import stream
from calipers.synthetic.volumes import Disc, disc, draw_volume, scatter, torso

Labels = NDArray[np.uint8]

SIDE = 48  # voxels along every axis
RADII = (6.5, 3.0, 3.0, 3.0, 3.0)  # one large, four small, in voxels
APART = 2.5  # voxels between the rims of two spheres: they stay objects of their own
# Range of the difference between the grey value of a sphere and what was there (full range: 1).
CONTRAST = (0.18, 0.45)

# voxels left free around every disc: after rounding of centres no two touch, not even at a corner
LAYOUT_APART = 2.0


@dataclass(frozen=True, slots=True)
class VolumeCounts:
    """The number of volumes of each kind."""

    training: int  # normal
    calibration: int  # normal: they say which scores are usual
    test: int  # every second one with spheres


FULL, QUICK = VolumeCounts(20, 6, 24), VolumeCounts(5, 2, 4)


@dataclass(frozen=True)
class ChestVolume:
    """A chest in grey values of 0 to 1, ``[z, ]y, x``, and its spheres, numbered from 1."""

    name: str
    image: F32
    labels: Labels


def normal(seed: int, kind: str, n: int) -> list[F32]:
    """Return volumes without spheres."""
    return [_chest(seed, f"{kind}-{k}") for k in range(n)]


def test_volumes(seed: int, n: int) -> Iterator[ChestVolume]:
    """Yield volumes; every second one has one large and four small spheres."""
    for k in range(n):
        name = f"test-{k}"
        image, labels = _chest(seed, name), np.zeros((SIDE,) * 3, np.uint8)
        if k % 2 == 0:
            image, labels = with_spheres(image, stream(seed, "spheres", name))
        yield ChestVolume(name, image, labels)


test_volumes.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it by its name


def _chest(seed: int, name: str) -> F32:
    chest = draw_volume(
        torso(seed, name, 3), np.zeros((SIDE,) * 3, np.float32), stream(seed, "chest", name)
    )
    return chest.astype(np.float32) / np.float32(255.0)


def with_spheres(image: F32, random: Generator) -> tuple[F32, Labels]:
    """Return a volume with spheres of one grey value each, wholly inside the body, and their
    labels.

    The grey value differs from the mean of what was there by at least `CONTRAST`, upwards or
    downwards.
    """
    from scipy import ndimage

    slices = []
    for one in image:
        slices.append(ndimage.binary_fill_holes(ndimage.binary_opening(one > 0.2, iterations=2)))
    # Distance from the outside of the body; the padding counts the border of the volume as outside.
    room = ndimage.distance_transform_edt(np.pad(np.stack(slices), 1))[1:-1, 1:-1, 1:-1]
    image_with_spheres, labels = image.copy(), np.zeros(image.shape, np.uint8)
    away = np.full(image.shape, np.inf)  # from the rims of the spheres that are there
    for number, radius in enumerate(RADII, start=1):
        places = np.argwhere((room >= radius + 1.0) & (away >= radius + APART))
        centre = places[int(random.integers(len(places)))]
        mask = disc(image.shape, tuple(centre[::-1] + 0.5), radius)
        image_with_spheres[mask] = _grey(float(image[mask].mean()), random)
        labels[mask] = number
        away = np.minimum(away, _distance(image.shape, centre) - radius)
    return image_with_spheres, labels


def _grey(mean: float, random: Generator) -> np.float32:
    step = random.uniform(*CONTRAST)
    up = random.random() < 0.5
    # Where the step would leave the range of grey values, it goes the other way.
    if mean + step > 1.0 or (not up and mean - step >= 0.0):
        step = -step
    return np.float32(np.clip(mean + step, 0.0, 1.0))


def _distance(shape: tuple[int, ...], centre: NDArray[np.int64]) -> NDArray[np.float64]:
    axes = np.meshgrid(
        *(np.arange(n) - c for n, c in zip(shape, centre)), indexing="ij", sparse=True
    )
    return np.asarray(np.sqrt(sum(axis.astype(np.float64) ** 2 for axis in axes)))


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
