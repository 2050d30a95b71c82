# SPDX-License-Identifier: Apache-2.0
"""Synthetic samples for demo and tests: volumes with lesions, and maps of two models."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.results.delimited import delimited
from calipers.results.files import write_atomically
from calipers.synthetic.anatomy import stream
from calipers.synthetic.discs import soft_map
from calipers.synthetic.volumes import Torso, draw_volume, torso
from calipers.tables.samples import Sample

F32 = NDArray[np.float32]
CENTRES = ("North", "Harbour", "Valley")
VISITS = 2  # samples per patient
SPACING = (1.0, 1.0, 2.0)  # mm along x, y[, z]
HEALTHY = 4  # every fourth patient has no lesion
SMALL, LARGE = (2.2, 3.2), (4.5, 8.0)  # radii in mm at a side of 64
FALSE_ALARMS = 0.8  # mean per sample of the diffuse model
UNSEEN = 4.0  # radius below which the sharp model sees next to nothing
Write = Callable[[Path, NDArray[Any], Sequence[float] | None], None]


@dataclass(frozen=True, slots=True)
class LesionBlob:
    """A lesion: a sphere with bumps."""

    centre: tuple[float, ...]  # voxels, x, y[, z]
    radius: float  # mm
    phases: tuple[float, ...]  # where the bumps are


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
    >>> from calipers.synthetic import demo_samples
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
    parts = [_filled(blob, shape, spacing) for blob in blobs]
    lesion = np.max(parts, axis=0) if parts else np.zeros(shape, np.float32)
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
    towards *= random.uniform(0.0, 0.62) / np.linalg.norm(towards)
    centre = tuple(size * c for c in lung.inner(towards))
    return LesionBlob(centre, radius, tuple(random.uniform(0.0, 2.0 * np.pi, 3).tolist()))


def _apart(one: LesionBlob, other: LesionBlob) -> bool:
    """Whether two lesions stay apart, bumps and diagonals included."""
    steps = SPACING[: len(one.centre)]
    away = np.hypot.reduce([(a - b) * step for a, b, step in zip(one.centre, other.centre, steps)])
    return bool(away > 1.25 * (one.radius + other.radius) + 2.0 * max(steps))


def _filled(blob: LesionBlob, shape: tuple[int, ...], spacing: Sequence[float]) -> F32:
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
    bumps = sum(np.cos((k + 2) * angle + phase) / (k + 2) for k, phase in enumerate(blob.phases))
    distance = np.sqrt(sum(axis**2 for axis in grid))
    volume[tuple(window)] = np.clip(0.5 + blob.radius * (1.0 + 0.12 * bumps) - distance, 0.0, 1.0)
    return volume


def _sharp(
    parts: Sequence[F32], is_seen: Sequence[bool], shape: tuple[int, ...], random: Generator
) -> F32:
    values = np.zeros(shape, np.float32)
    for part, visible in zip(parts, is_seen):
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
    write_atomically(root / "samples.csv", delimited(columns))
    return len(columns.get("image", ()))


def _write_npz(path: Path, array: NDArray[Any], spacing: Sequence[float] | None) -> None:
    packed = io.BytesIO()
    if spacing is None:
        np.savez_compressed(packed, arr=array)
    else:
        np.savez_compressed(packed, arr=array, spacing=np.array(spacing, np.float64))
    write_atomically(path.with_name(path.name + ".npz"), packed.getvalue())
