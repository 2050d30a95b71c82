# SPDX-License-Identifier: Apache-2.0
"""Brains for the benchmark of anomaly maps: the MNI152 template, deformed at random.

`read_template` reads T1, grey and white matter of the MNI152 template from the user's installation
of nilearn. `BrainSetting.volume` deforms it into one brain after the other: a small rotation,
scaling and shift, a smooth random displacement, and grey values with a bias field, another contrast
and noise. Half of the test brains get spheres, each of one grey value: one large, four small, which
are round because voxels are cubes.

There are two settings, after the two data sets of the paper. ``T1`` (for Cam-CAN) has the grey
values of the template; ``MOOD-like`` has those of a T2-like contrast, made of the tissues.
`calipers.studies.anomaly.brain_training` trains on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.arrays import F32, F64, Flags
from calipers.errors import InputError, UsageError
from calipers.io.source import hash_file
from calipers.io.volumes.open import open_volume
from calipers.synthetic.demo import stream
from calipers.synthetic.volumes import disc

Labels = NDArray[np.uint8]

SIDE, VOXEL = 64, 3.0  # voxels along every axis, and mm of each
RADII = (8.0, 3.5, 3.5, 3.5, 3.5)  # one large, four small, in voxels
APART = 2.5  # voxels between the rims of two spheres: they stay objects of their own
# Range of the difference between the grey value of a sphere and what was there (full range: 1).
CONTRAST = (0.18, 0.45)
FILES = {
    "t1": "mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz",
    "grey": "mni_icbm152_gm_tal_nlin_sym_09a_converted.nii.gz",
    "white": "mni_icbm152_wm_tal_nlin_sym_09a_converted.nii.gz",
}
INSTALL = "pip install nilearn==0.14.1"
TEMPLATE_SHAPE = (189, 233, 197)
CENTRE = (77.0, 117.0, 98.0)  # of the brain, z, y, x in voxels of the template
NOTICE = (
    "MNI152: ICBM 2009a nonlinear symmetric template, Copyright (C) 1993-2009 Louis Collins, "
    "McConnell Brain Imaging Centre, Montreal Neurological Institute, McGill University. "
    "Permission to use, copy, modify, and distribute this software and its documentation for any "
    "purpose and without fee is hereby granted, provided that the above copyright notice appear "
    "in all copies."
)
# Standard deviations of what makes brains differ.
TURN, SCALE, SHIFT = 3.0, 0.03, 1.0  # degrees, share, voxels
CONTROLS, AWAY = 7, 1.2  # points of the displacement per axis, and how far they move, voxels
BIAS_CONTROLS, BIAS, GAMMA = 4, 0.06, 0.1
NOISE = (0.01, 0.03)  # range of the standard deviation
T2_LIKE = {"white": 0.35, "grey": 0.55, "fluid": 0.95}
BRAIN = 0.5  # share of a voxel that is brain, from which it counts as inside


@dataclass(frozen=True)
class BrainTemplate:
    """The template in grey values of 0 to 1, ``z, y, x``, 1 mm, smoothed for voxels of 3 mm."""

    t1: F32
    t2: F32
    brain: F32
    files: tuple[dict[str, object], ...] = ()  # file, bytes, sha256


@dataclass(frozen=True)
class BrainVolume:
    """A brain in grey values of 0 to 1, ``z, y, x``, and its spheres, numbered from 1."""

    name: str
    image: F32
    labels: Labels


@dataclass(frozen=True, slots=True)
class VolumeCounts:
    """The number of volumes of each kind."""

    training: int  # normal
    calibration: int  # normal: they say which scores are usual
    test: int  # every second one with spheres


def read_template(folder: Path | None = None) -> BrainTemplate:
    """Read the template from the folder of nilearn's data; by default that of the installation."""
    folder = folder or installed_folder()
    if folder is None:
        raise UsageError(
            "the brains are those of nilearn (BSD-3; its MNI152 template may be used freely): "
            f"{INSTALL}"
        )
    parts, files = {}, []
    for name, file in FILES.items():
        path = folder / file
        values = np.asarray(open_volume(path).read(), np.float32)
        if values.shape != TEMPLATE_SHAPE:
            raise InputError(
                f"a template of {TEMPLATE_SHAPE} voxels",
                rule="shape-mismatch",
                file=file,
                value=values.shape,
                hint=f"install the version that was tested: {INSTALL}",
            )
        # The front of the head comes first, so that pictures show it above.
        parts[name] = np.ascontiguousarray(values[:, ::-1]) / np.float32(255)
        files.append({"file": file, "bytes": path.stat().st_size, "sha256": hash_file(path)})
    return template_of(parts["t1"], parts["grey"], parts["white"], files)


def template_of(
    t1: F32, grey: F32, white: F32, files: Sequence[dict[str, object]] = ()
) -> BrainTemplate:
    """Return the template of a T1 volume and its tissues; what is neither is fluid."""
    from scipy import ndimage

    brain = (t1 > 0.02).astype(np.float32)
    tissue = np.clip(grey + white, 0, 1)
    fluid = np.clip(brain - tissue, 0, 1)
    t2 = T2_LIKE["white"] * white + T2_LIKE["grey"] * grey + T2_LIKE["fluid"] * fluid
    smooth_t1, smooth_t2, smooth_brain = (
        np.asarray(ndimage.gaussian_filter(values, VOXEL / 3), np.float32)
        for values in (t1, t2 * brain, brain)
    )
    return BrainTemplate(smooth_t1, smooth_t2, smooth_brain, tuple(files))


def installed_folder() -> Path | None:
    """Return the folder of nilearn's data; None without nilearn."""
    spec = find_spec("nilearn")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "datasets" / "data"


@dataclass(frozen=True)
class BrainSetting:
    """A population of brains with one contrast."""

    name: str
    title: str
    template: BrainTemplate
    values: F32  # grey values of the template
    counts: VolumeCounts
    seed: int

    def normal(self, kind: str, n: int) -> list[F32]:
        """Return brains without spheres."""
        return [self._brain(f"{kind}-{k}")[0] for k in range(n)]

    def test_volumes(self) -> list[BrainVolume]:
        """Return test brains; every second one has one large and four small spheres."""
        return [self.test_volume(k) for k in range(self.counts.test)]

    def test_volume(self, k: int) -> BrainVolume:
        """Return one of the test brains, which is the same whether others are made or not."""
        name = volume_name(k)
        image, inside = self._brain(name)
        labels = np.zeros(image.shape, np.uint8)
        if k % 2 == 0:
            random = stream(self.seed, self.name, "spheres", name)
            image, labels = with_spheres(image, inside, random)
        return BrainVolume(name, image, labels)

    def _brain(self, name: str) -> tuple[F32, Flags]:
        """Return a deformed brain and where it is."""
        from scipy import ndimage

        random = stream(self.seed, self.name, name)
        places = _deformed_places(random)
        sampled = []
        for values in (self.values, self.template.brain):
            sampled.append(ndimage.map_coordinates(values, places, order=1, mode="constant"))
        image, share = sampled
        inside = share >= BRAIN
        # A bias of the coil, another contrast, and noise, which is never negative in MR.
        image = image ** np.exp(random.normal(0, GAMMA))
        image = image * np.exp(BIAS * _smooth_field(random, BIAS_CONTROLS))
        deviation = random.uniform(*NOISE)
        real, imaginary = random.normal(0, deviation, (2, *image.shape))
        image = np.hypot(image + real, imaginary)
        return np.clip(image, 0, 1).astype(np.float32), inside


def volume_name(k: int) -> str:
    """Return the name of a test brain, of which its random numbers depend too."""
    return f"test-{k:02d}"


def settings_of(template: BrainTemplate, counts: VolumeCounts, seed: int) -> list[BrainSetting]:
    """Return both settings."""
    t1 = "T1-like brains (for Cam-CAN)"
    mood = "T2-like brains and entries of a challenge (for MOOD)"
    return [
        BrainSetting("T1", t1, template, template.t1, counts, seed),
        BrainSetting("MOOD-like", mood, template, template.t2, counts, seed),
    ]


def _deformed_places(random: Generator) -> F64:
    """Return (3, z, y, x): where in the template the voxels of a brain come from."""
    from scipy.spatial.transform import Rotation

    steps = np.arange(SIDE) - (SIDE - 1) / 2
    grid = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"))
    turn = Rotation.from_euler("xyz", random.normal(0, TURN, 3), degrees=True).as_matrix()
    matrix = turn @ np.diag(random.normal(1, SCALE, 3))
    grid = np.einsum("ij,jzyx->izyx", matrix, grid)
    grid += random.normal(0, SHIFT, 3)[:, None, None, None]
    for axis in range(3):
        grid[axis] += AWAY * _smooth_field(random, CONTROLS)
    return np.asarray(VOXEL * grid + np.array(CENTRE)[:, None, None, None])


def _smooth_field(random: Generator, n: int) -> F64:
    """Return numbers of mean 0 and deviation about 1 that change smoothly over the volume."""
    from scipy.interpolate import CubicSpline

    # Cubic splines along one axis after the other: values of the controls, then of the voxels.
    basis = CubicSpline(np.arange(n), np.eye(n))(np.linspace(0, n - 1, SIDE))
    controls = random.standard_normal((n, n, n))
    return np.asarray(np.einsum("zi,yj,xk,ijk->zyx", basis, basis, basis, controls, optimize=True))


def with_spheres(image: F32, inside: Flags, random: Generator) -> tuple[F32, Labels]:
    """Return a volume with spheres of one grey value each, wholly inside the brain, and their
    labels.

    The grey value differs from the mean of what was there by at least `CONTRAST`, upwards or
    downwards.
    """
    from scipy import ndimage

    # Distance from the outside; the padding counts the border of the volume as outside.
    room = ndimage.distance_transform_edt(np.pad(inside, 1))[1:-1, 1:-1, 1:-1]
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


def _distance(shape: tuple[int, ...], centre: NDArray[np.int64]) -> F64:
    axes = np.meshgrid(
        *(np.arange(n) - c for n, c in zip(shape, centre)), indexing="ij", sparse=True
    )
    return np.asarray(np.sqrt(sum(axis.astype(np.float64) ** 2 for axis in axes)))
