# SPDX-License-Identifier: Apache-2.0
"""Made pictures and volumes with anomalies of several kinds, to try anomaly networks on.

`normal_images` gives chests that differ slightly. `strange_images` gives others, each with one
anomaly of a known kind and place:

- ``spot``: a soft spot, brighter or darker than what is there;
- ``missing``: a ball in which all structure is replaced by the mean of its rim, so that edges and
  grain are gone;
- ``texture``: stripes of a few voxels that leave the mean grey value as it is;
- ``deformation``: a bulge that moves what is there outwards and adds nothing.

They differ in what sees them: a spot changes grey values, a missing part does not need to, texture
changes neither the mean nor the place of anything, and a deformation only places. `write_anomalies`
writes folders as a user would have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from calipers.arrays import F32, U8
from calipers.errors import UsageError
from calipers.io.tables.table import delimited
from calipers.io.write_volume import write_volume
from calipers.results.files import write_atomically
from calipers.synthetic.demo import stream
from calipers.synthetic.volumes import draw_volume, torso

KINDS = ("spot", "missing", "texture", "deformation")
RADIUS = (0.06, 0.12)  # of the side
CONTRAST = (0.12, 0.3)
STRIPES, AMPLITUDE = (2.5, 5.0), (0.06, 0.14)  # period in voxels; of 1
BULGE = 0.45  # of the radius, how far the middle moves outwards
LARGER = 1.5  # a deformation needs room


@dataclass(frozen=True)
class StrangeImage:
    """An image of bytes with an anomaly, and where it is."""

    name: str
    kind: str
    image: U8  # [z, ]y, x
    labels: U8


def normal_images(n: int, seed: int = 0, *, side: int = 64, dimensions: int = 2) -> list[U8]:
    """Return chests without anomalies."""
    return [_chest(seed, f"normal-{k}", side, dimensions) for k in range(n)]


def strange_images(
    n: int,
    seed: int = 0,
    *,
    side: int = 64,
    dimensions: int = 2,
    kinds: Sequence[str] = KINDS,
) -> list[StrangeImage]:
    """Return n chests of every kind of anomaly, the kinds in turn."""
    strange = [kind for kind in kinds if kind not in KINDS]
    if strange:
        raise UsageError(f"no kind of anomaly {strange[0]!r}; known: {', '.join(KINDS)}")
    images = []
    for k in range(n):
        for kind in kinds:
            name = f"{kind}-{k:03d}"
            chest = _chest(seed, name, side, dimensions).astype(np.float32) / np.float32(255)
            image, labels = _with_anomaly(chest, kind, stream(seed, "anomaly", name))
            eight_bits: U8 = np.round(255 * np.clip(image, 0, 1)).astype(np.uint8)
            images.append(StrangeImage(name, kind, eight_bits, labels))
    return images


def _chest(seed: int, name: str, side: int, dimensions: int) -> U8:
    chest = torso(seed, name, dimensions)
    nothing = np.zeros((side,) * dimensions, np.float32)
    return draw_volume(chest, nothing, stream(seed, "chest", name))


def _with_anomaly(image: F32, kind: str, random: Generator) -> tuple[F32, U8]:
    side = image.shape[-1]
    radius = random.uniform(*RADIUS) * side * (LARGER if kind == "deformation" else 1.0)
    # Inside of the body: the middle half of the picture.
    centre = random.uniform(0.3, 0.7, image.ndim) * side
    axes = np.meshgrid(*(np.arange(n) + 0.5 for n in image.shape), indexing="ij", sparse=True)
    away = np.sqrt(sum((axis - c) ** 2 for axis, c in zip(axes, centre)))
    inside = away < radius
    change = {
        "spot": _spot,
        "missing": _missing,
        "texture": _texture,
        "deformation": _deformation,
    }
    result = change[kind](image, away / radius, axes, centre, random)
    return np.asarray(result, np.float32), inside.astype(np.uint8)


def _spot(image: F32, depth: F32, axes: object, centre: object, random: Generator) -> F32:
    step = random.uniform(*CONTRAST)
    # Away from the nearer end of the grey values, so that nothing is cut off.
    if float(image[depth < 1].mean()) > 0.5:
        step = -step
    return np.asarray(image + step * np.clip(1.5 * (1 - depth), 0, 1))


def _missing(image: F32, depth: F32, axes: object, centre: object, random: Generator) -> F32:
    rim = float(image[(depth >= 1) & (depth < 1.3)].mean())
    share = np.clip(4 * (1 - depth), 0, 1)
    return np.asarray(image * (1 - share) + rim * share)


def _texture(image: F32, depth: F32, axes, centre, random: Generator) -> F32:  # type: ignore[no-untyped-def]
    direction = random.standard_normal(image.ndim)
    direction /= np.linalg.norm(direction)
    along = sum(axis * d for axis, d in zip(axes, direction))
    wave = np.sin(2 * np.pi * along / random.uniform(*STRIPES) + random.uniform(0, 2 * np.pi))
    strength = random.uniform(*AMPLITUDE) * np.clip(3 * (1 - depth), 0, 1)
    inside = depth < 1
    # The mean stays: stripes cut by the rim need not have a mean of 0.
    return np.asarray(image + strength * (wave - wave[inside].mean()))


def _deformation(image: F32, depth: F32, axes, centre, random: Generator) -> F32:  # type: ignore[no-untyped-def]
    from scipy import ndimage

    # A place at a share t of the radius shows what was at t (1 - BULGE (1 - t)^2).
    factor = 1 - BULGE * np.clip(1 - depth, 0, 1) ** 2
    sources = []
    for axis, c in zip(np.broadcast_arrays(*axes), centre):
        sources.append(c + (axis - c) * factor - 0.5)
    return np.asarray(ndimage.map_coordinates(image, sources, order=1, mode="nearest"))


def write_anomalies(
    folder: Path | str,
    *,
    n_normal: int = 200,
    n_strange: int = 10,
    seed: int = 0,
    side: int = 64,
    dimensions: int = 2,
) -> Path:
    """Write ``normal`` (to learn from), ``test`` with ``references`` (label images), and
    ``test.csv`` with the kind of every test image; a fifth of these are normal.

    Pictures are PNG files, volumes npz.
    """
    root = Path(folder)
    suffix = ".png" if dimensions == 2 else ".npz"
    for k, image in enumerate(normal_images(n_normal, seed, side=side, dimensions=dimensions)):
        _write(root / "normal" / f"normal-{k:03d}{suffix}", image)
    strange = strange_images(n_strange, seed, side=side, dimensions=dimensions)
    others = normal_images(n_strange, seed + 1, side=side, dimensions=dimensions)
    nothing = np.zeros((side,) * dimensions, np.uint8)
    for k, image in enumerate(others):
        strange.append(StrangeImage(f"none-{k:03d}", "none", image, nothing))
    for one in strange:
        _write(root / "test" / f"{one.name}{suffix}", one.image)
        _write(root / "references" / f"{one.name}{suffix}", one.labels)
    columns: dict[str, list[Any]] = {
        "image": [one.name for one in strange],
        "kind": [one.kind for one in strange],
        "label": [int(one.kind != "none") for one in strange],
    }
    write_atomically(root / "test.csv", delimited(columns))
    return root


def _write(path: Path, array: U8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_volume(path, array)
