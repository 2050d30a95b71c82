# SPDX-License-Identifier: Apache-2.0
"""Synthetic volumes and slices: a schematic chest with lesions, and the maps of two models.

`demo_samples` yields samples for demo and tests one at a time, `write_samples` writes them. Lesions
are bumpy spheres in the lungs; the chest (`Torso`) is what pictures show below the maps.

Discs and spheres (`disc`, `scatter`, `labelled`) are objects whose size, place and overlap are
known, `soft_map` makes scores of a mask; tests and oracles use them.

Arrays are ``[z, ]y, x``; centres and spacings are x, y[, z]. A voxel covers ``[x, x + 1)``: its
centre is at x + 0.5. Shapes of the chest are fractions of the image.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.arrays import F32, F64, Flags
from calipers.data.maps import Sample
from calipers.errors import UsageError
from calipers.io.tables.table import delimited
from calipers.results.files import write_atomically
from calipers.synthetic.demo import stream

Voxels = NDArray[np.floating[Any]]

ATTEMPTS = 2000  # places that are tried for one disc

CENTRES = ("North", "Harbour", "Valley")
VISITS = 2  # samples per patient
SPACING = (1.0, 1.0, 2.0)  # mm along x, y[, z]
HEALTHY = 4  # every fourth patient has no lesion
SMALL, LARGE = (2.2, 3.2), (4.5, 8.0)  # radii in mm at a side of 64
FALSE_ALARMS = 0.8  # mean per sample of the diffuse model
UNSEEN = 4.0  # radius below which the sharp model sees next to nothing
Write = Callable[[Path, NDArray[Any], Sequence[float] | None], None]


def demo_samples(
    n: int = 24, dimensions: int = 3, size: int = 64, seed: int = 0
) -> Iterator[Sample]:
    """Return samples with lesions in the lungs, and the maps of two models, one at a time.

    ``sharp`` draws large lesions exactly and hardly sees small ones; it raises almost no false
    alarm. ``diffuse`` finds every lesion, but its maps are blurred beyond the rims, and it marks
    healthy places too.

    Parameters
    ----------
    n
        Samples; every patient has two, patients come from three centres, and every fourth one is
        healthy.
    dimensions
        2 for slices, 3 for volumes.
    size
        Voxels along every axis, at least 32.

    Notes
    -----
    Labels are 0 and 1; lesions do not touch. Sample k depends on the seed and on k alone. Voxels
    are 1 x 1 x 2 mm.

    Examples
    --------
    >>> from calipers.synthetic.volumes import demo_samples
    >>> sample = next(demo_samples(size=32))
    >>> sample.labels.shape, sorted(sample.maps), sample.spacing
    ((32, 32, 32), ['diffuse', 'sharp'], (1.0, 1.0, 2.0))
    """
    if dimensions not in (2, 3) or size < 32 or n < 1:
        raise UsageError(
            "demo_samples makes at least 1 sample of 2 or 3 dimensions "
            "and at least 32 voxels a side"
        )
    return (_sample(k, dimensions, size, seed) for k in range(n))


def _sample(k: int, dimensions: int, size: int, seed: int) -> Sample:
    patient, name = f"P{k // VISITS + 1:03d}", f"S{k + 1:03d}"
    chest, random = torso(seed, patient, dimensions), stream(seed, "sample", name)
    shape, spacing = (size,) * dimensions, SPACING[:dimensions]
    unit = size / 64.0
    blobs = [] if (k // VISITS) % HEALTHY == HEALTHY - 1 else _lesions(chest, size, random)
    parts = [_filled_share(blob, shape, spacing) for blob in blobs]
    lesion = np.max(parts, axis=0) if parts else np.zeros(shape, np.float32)
    # Draws happen in a fixed order: it belongs to the seed, and must not change.
    is_seen = [blob.radius >= UNSEEN * unit or random.random() < 0.1 for blob in blobs]
    return Sample(
        name=name,
        labels=(lesion >= 0.5).astype(np.uint8),
        maps={
            "sharp": _sharp(parts, is_seen, shape, random),
            "diffuse": _diffuse(blobs, chest, shape, spacing, random),
        },
        spacing=spacing,
        groups={"patient": patient, "centre": CENTRES[(k // VISITS) % len(CENTRES)]},
        image=draw_volume(chest, lesion, random),
    )


@dataclass(frozen=True, slots=True)
class LesionBlob:
    """A lesion: a sphere with bumps."""

    centre: tuple[float, ...]  # voxels, x, y[, z]
    radius: float  # mm
    phases: tuple[float, ...]  # where the bumps are


def _lesions(chest: Torso, size: int, random: Generator) -> list[LesionBlob]:
    """Return one or two large lesions and up to three small ones, apart from each other."""
    unit = size / 64.0
    radii = [random.uniform(*LARGE) for _ in range(int(random.integers(1, 3)))]
    radii += [random.uniform(*SMALL) for _ in range(int(random.integers(0, 4)))]
    lesions: list[LesionBlob] = []
    for radius in radii:
        for _ in range(50):
            blob = _random_blob(chest, radius * unit, size, random)
            if all(_apart(blob, other) for other in lesions):
                lesions.append(blob)
                break
    return lesions


def _random_blob(chest: Torso, radius: float, size: int, random: Generator) -> LesionBlob:
    lung = chest.lungs[int(random.integers(2))]
    towards = random.normal(size=len(lung.centre))
    # Away from the rim of the lung, so that lesions do not stick out.
    towards *= random.uniform(0.0, 0.62) / np.linalg.norm(towards)
    centre = tuple(size * c for c in lung.inner(towards))
    return LesionBlob(centre, radius, tuple(random.uniform(0.0, 2.0 * np.pi, 3).tolist()))


def _apart(one: LesionBlob, other: LesionBlob) -> bool:
    """Whether two lesions stay apart, bumps and diagonals included."""
    steps = SPACING[: len(one.centre)]
    away = np.hypot.reduce([(a - b) * step for a, b, step in zip(one.centre, other.centre, steps)])
    return bool(away > 1.25 * (one.radius + other.radius) + 2.0 * max(steps))


def _filled_share(blob: LesionBlob, shape: tuple[int, ...], spacing: Sequence[float]) -> F32:
    """Return how much of every voxel a lesion fills: 1 inside, 0.5 on its rim, 0 outside."""
    volume = np.zeros(shape, np.float32)
    window, away = [], []
    for axis, (middle, step) in enumerate(zip(reversed(blob.centre), reversed(spacing))):
        reach = 1.3 * blob.radius / step + 2.0
        part = slice(max(0, int(middle - reach)), min(shape[axis], int(middle + reach) + 2))
        window.append(part)
        away.append(((np.arange(part.start, part.stop) + 0.5 - middle) * step).astype(np.float32))
    grid = np.meshgrid(*away, indexing="ij", sparse=True)
    angle = np.arctan2(grid[-2], grid[-1])
    # Waves around the axis; higher ones are lower, so that the outline stays round.
    bumps = sum(np.cos((k + 2) * angle + phase) / (k + 2) for k, phase in enumerate(blob.phases))
    distance = np.sqrt(sum(axis**2 for axis in grid))
    volume[tuple(window)] = np.clip(0.5 + blob.radius * (1.0 + 0.12 * bumps) - distance, 0.0, 1.0)
    return volume


def _sharp(
    parts: Sequence[F32], is_seen: Sequence[bool], shape: tuple[int, ...], random: Generator
) -> F32:
    values = np.zeros(shape, np.float32)
    for part, visible in zip(parts, is_seen):
        # Unseen lesions leave a trace below any sensible threshold.
        height = random.uniform(0.85, 0.98) if visible else random.uniform(0.05, 0.25)
        values = np.maximum(values, np.float32(height) * part)
    return soft_map(values, 0.5, 0.02, seed=int(random.integers(1 << 31)))


def _diffuse(
    blobs: Sequence[LesionBlob],
    chest: Torso,
    shape: tuple[int, ...],
    spacing: Sequence[float],
    random: Generator,
) -> F32:
    """Return wide bells on lesions and on a few healthy places, each with a peak of its own."""
    size, values = shape[-1], np.zeros(shape, np.float32)
    false = [
        _random_blob(chest, random.uniform(2.0, 5.0) * size / 64.0, size, random)
        for _ in range(int(random.poisson(FALSE_ALARMS)))
    ]
    for k, blob in enumerate([*blobs, *false]):
        peak = random.uniform(0.70, 0.97) if k < len(blobs) else random.uniform(0.35, 0.75)
        shift = random.normal(0.0, 0.15 * blob.radius, len(shape)) / spacing
        centre = tuple(c + d for c, d in zip(blob.centre, shift.tolist()))
        values = np.maximum(
            values, np.float32(peak) * _bell(centre, 0.9 * blob.radius + 1.5, shape, spacing)
        )
    return soft_map(values, 0.0, 0.03, seed=int(random.integers(1 << 31)))


def _bell(
    centre: Sequence[float], width: float, shape: tuple[int, ...], spacing: Sequence[float]
) -> F32:
    """Return a Gaussian of height 1; ``width`` is its deviation in mm."""
    values = np.ones((), np.float32)
    for n, middle, step in zip(shape, reversed(centre), reversed(spacing)):
        away = (np.arange(n) + 0.5 - middle) * step / width
        values = values[..., None] * np.exp(-0.5 * away**2).astype(np.float32)
    return values


def write_samples(folder: Path | str, samples: Iterable[Sample], write: Write | None = None) -> int:
    """Write samples into the folders ``references``, ``images`` and one per model, a file per
    sample.

    Parameters
    ----------
    write
        Called with the path without suffix, the array and the spacing; None writes npz files that
        hold ``arr`` and ``spacing``.

    Returns
    -------
    n
        How many samples were written. ``samples.csv`` has a row for each: its name as ``image``,
        and its groups.
    """
    root, write = Path(folder), write or _write_npz
    columns: dict[str, list[Any]] = {}
    for sample in samples:
        arrays = {"references": sample.labels, **sample.maps}
        arrays |= {} if sample.image is None else {"images": sample.image}
        for part, array in arrays.items():
            (root / part).mkdir(parents=True, exist_ok=True)
            write(root / part / sample.name, array, sample.spacing)
        for name, value in {"image": sample.name, **sample.groups}.items():
            columns.setdefault(name, []).append(value)
    root.mkdir(parents=True, exist_ok=True)
    # Written last: a folder without the table is visibly unfinished.
    write_atomically(root / "samples.csv", delimited(columns))
    return len(columns.get("image", ()))


def _write_npz(path: Path, array: NDArray[Any], spacing: Sequence[float] | None) -> None:
    packed = io.BytesIO()
    if spacing is None:
        np.savez_compressed(packed, arr=array)
    else:
        np.savez_compressed(packed, arr=array, spacing=np.array(spacing, np.float64))
    write_atomically(path.with_name(path.name + ".npz"), packed.getvalue())


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
    >>> from calipers.synthetic.volumes import disc
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
        # Squares are summed axis by axis; only the window is computed.
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
    # Large ones find a place only as long as there is room.
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
        # Body and spine go on beyond the volume along z.
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
    # A lesion takes the place of what is there instead of adding to it.
    density = density + (0.62 - density) * np.clip(lesions, 0.0, 1.0) * 0.85
    # Air around the body is almost black, but not without noise.
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
