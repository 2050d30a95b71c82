# SPDX-License-Identifier: Apache-2.0
"""Files of anomaly networks: pictures or volumes in, maps as large as these out.

`open_normal` takes what the other networks take (a folder of pictures, with or without labels), and
also a folder of volumes (NIfTI, NRRD, npy, npz, ...): a network in 2D then sees every slice as an
image, and one in 3D the whole volume, scaled to a cube. Slices of a volume stay together in splits.
Without labels all images are normal; with a table of labels those with 0.

Bytes are what networks see. A volume of bytes is taken as it is; of other volumes the values
between its lowest and its highest thousandth are spread over 0 to 255.

`write_anomaly_maps` writes a folder per model with a file per picture (npz) or volume (NIfTI, on
the grid of the volume), under the name of the picture or volume, for ``calipers maps``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arrays import F32, I64, U8
from calipers.errors import InputError, UsageError
from calipers.io.source import list_files
from calipers.io.tables.columns import find_columns
from calipers.io.tables.table import YES_NO, delimited, open_table, texts
from calipers.io.volumes.open import extensions, open_volume, stem_of
from calipers.io.write_volume import write_volume
from calipers.results.files import write_atomically
from calipers.training.datasets.canvases import Canvases
from calipers.training.datasets.frames import Frames, prepare
from calipers.training.datasets.training_images import (
    BINARY,
    PICTURES,
    TABLE,
    TrainingImages,
    open_images,
)
from calipers.training.training_plan import TrainingPlan

OUTER = (0.1, 99.9)  # percentiles that become black and white
SLICE = "/slice-"  # between the name of a volume and the number of a slice
FLAT = 2  # axes


@dataclass(frozen=True)
class VolumeImages(TrainingImages):
    """Slices of volumes, or whole volumes, as images; ``files`` has the volumes by name."""

    files: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False


def open_normal(
    source: str, labels: str | None, canvases: Canvases | None, plan: TrainingPlan
) -> TrainingImages:
    """Return the images to learn from, or to look at."""
    folder = Path(source)
    volumes = _volumes_in(folder) if folder.is_dir() else {}
    if volumes:
        return _volume_images(folder, volumes, labels, whole=plan.dimensions > FLAT)
    if plan.dimensions > FLAT:
        ends = ", ".join(_volume_extensions())
        raise InputError("volumes", rule="no-bags", file=source, hint=f"they end in {ends}")
    return open_images(source, labels, canvases=canvases)


def _volume_extensions() -> tuple[str, ...]:
    return tuple(sorted(set(extensions()) - set(extensions(*PICTURES))))


def _volumes_in(folder: Path) -> dict[str, str]:
    """Return name -> path of the volumes of a folder; pictures are none."""
    ends = _volume_extensions()
    files = list_files(folder, holds="images").files
    volumes = {}
    for name, path in files.items():
        stem = stem_of(name)
        if name.lower().endswith(ends) and stem is not None:
            volumes[stem] = path
    return dict(sorted(volumes.items()))


def _volume_images(
    folder: Path, volumes: Mapping[str, str], labels: str | None, *, whole: bool
) -> VolumeImages:
    is_strange = _labels_of(labels, volumes)
    ids, patients, places, strange = [], [], [], []
    for name, path in volumes.items():
        shape = open_volume(path, role="image").shape
        if whole and len(shape) == FLAT:
            raise InputError("a volume", rule="volume-shape", file=path, value=f"{shape}")
        n_slices = 1 if whole or len(shape) == FLAT else shape[0]
        for z in range(n_slices):
            is_slice = not whole and len(shape) > FLAT
            ids.append(f"{name}{SLICE}{z:04d}" if is_slice else name)
            patients.append(name)
            places.append((path, z if is_slice else None))
            strange.append(is_strange.get(name, False))
    classes = (BINARY,) if labels is not None else ()
    findings = np.array(strange, np.bool_)[:, None][:, : len(classes)]
    return VolumeImages(
        name=folder.name or str(folder),
        ids=tuple(ids),
        classes=classes,
        findings=findings,
        boxes=(None,) * len(ids),
        box_labels=(np.zeros(0, np.int64),) * len(ids),
        patients=tuple(patients),
        picture=_picture_of(places),
        files=dict(volumes),
        whole=whole,
    )


def _picture_of(places: list[tuple[str, int | None]]) -> Callable[[int], U8]:
    # Slices of one volume are asked for one after the other.
    read = lru_cache(maxsize=2)(read_bytes)

    def picture(i: int) -> U8:
        path, z = places[i]
        volume = read(path)
        return volume if z is None else volume[z]

    return picture


def read_bytes(path: str) -> U8:
    """Return the values of an image or volume as bytes; see the top of this file."""
    array = open_volume(path, role="image").read()
    if array.dtype == np.uint8:
        return array
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError("finite values", rule="non-finite", file=path)
    low, high = np.percentile(values, OUTER)
    if high <= low:
        return np.zeros(values.shape, np.uint8)
    return np.asarray(np.round(np.clip((values - low) / (high - low), 0, 1) * 255), np.uint8)


def _labels_of(labels: str | None, volumes: Mapping[str, str]) -> dict[str, bool]:
    """Return volume -> whether a table says that it is not normal."""
    if labels is None:
        return {}
    table = open_table(Path(labels))
    columns = find_columns(table, TABLE)
    if "label" not in columns:
        raise TABLE["label"].missing(table)
    names, words = texts(table, columns["image"]), texts(table, columns["label"])
    is_strange: dict[str, bool] = {}
    for row, (name, word) in enumerate(zip(names, words)):
        stem = stem_of(name.strip()) or name.strip()
        if word.strip().lower() not in YES_NO:
            raise table.error(row, columns["label"], "flag", "0 (normal) or 1", word)
        if stem in volumes:
            is_strange[stem] = YES_NO[word.strip().lower()]
    missing = [name for name in volumes if name not in is_strange]
    if missing:
        raise InputError(
            "a row for every volume",
            rule="unknown-image",
            file=labels,
            value=missing[0],
            hint=f"{len(missing)} of {len(volumes)} volumes have none",
        )
    return is_strange


@dataclass(frozen=True)
class VolumeFrames(Frames):
    """Volumes scaled to cubes: ``pixels`` are (n, side, side, side)."""

    @property
    def channels(self) -> int:
        """Volumes are grey."""
        return 1


def prepare_normal(images: TrainingImages, plan: TrainingPlan, **options: Any) -> Frames:
    """Decode all images: squares of pictures and slices, or cubes of volumes."""
    if not (isinstance(images, VolumeImages) and images.whole):
        if plan.dimensions > FLAT:
            raise UsageError("a network in 3D takes a folder of volumes")
        return prepare(images, plan.side, **options)
    from scipy import ndimage

    progress = options.get("progress")
    cubes, sizes, rows = [], [], []
    broken: list[InputError] = []
    for i in range(len(images)):
        try:
            volume = images.picture(i)
        except InputError as error:
            broken.append(error)
            continue
        factors = [plan.side / n for n in volume.shape]
        cubes.append(ndimage.zoom(volume, factors, order=1, mode="nearest", grid_mode=True))
        sizes.append((volume.shape[2], volume.shape[1]))
        rows.append(i)
        if progress is not None:
            progress(i + 1, len(images))
    if 2 * len(broken) > len(images):
        raise broken[0]
    good: I64 = np.array(rows, np.int64)
    return VolumeFrames(
        images.take(good),
        np.stack(cubes).astype(np.uint8),
        np.array(sizes, np.float64),
        np.ones(len(rows)),
        tuple(broken),
    )


def write_anomaly_maps(stage: Path, frames: Frames, outputs: Mapping[str, F32]) -> None:
    """Write a folder per model with a map per picture or volume, and ``scores.csv``."""
    from calipers.training.anomaly import image_scores

    images = frames.images
    scores: dict[str, list[float]] = {}
    for model, maps in outputs.items():
        if isinstance(images, VolumeImages):
            _write_volumes(stage / model, frames, images, maps)
        else:
            for i, name in enumerate(images.ids):
                path = stage / model / f"{stem_of(name) or name}.npz"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_volume(path, map_of_picture(frames, i, maps[i]))
        own = image_scores(maps)
        scores[model] = [round(float(value), 6) for value in own]
    columns: dict[str, Any] = {"image": list(images.ids)}
    if images.classes:
        columns["label"] = images.positive.astype(int).tolist()
    write_atomically(stage / "scores.csv", delimited({**columns, **scores}))


def map_of_picture(frames: Frames, i: int, scores: F32) -> F32:
    """Return the map of a frame on the pixels of its picture, without the padding."""
    from PIL import Image

    width, height = (int(value) for value in frames.sizes[i])
    scale = float(frames.scales[i])
    part = scores[: max(1, round(height * scale)), : max(1, round(width * scale))]
    if part.shape == (height, width):
        return part
    picture = Image.fromarray(np.ascontiguousarray(part, np.float32))
    resized = picture.resize((width, height), Image.Resampling.BILINEAR)
    return np.clip(np.asarray(resized, np.float32), 0, 1)


def _write_volumes(folder: Path, frames: Frames, images: VolumeImages, maps: F32) -> None:
    from scipy import ndimage

    rows: dict[str, list[int]] = {}
    for i, name in enumerate(images.patients):
        rows.setdefault(name, []).append(i)
    suffix = ".nii.gz" if find_spec("nibabel") is not None else ".npz"
    for name, own in rows.items():
        volume = open_volume(images.files[name], role="image")
        if images.whole:
            factors = [n / m for n, m in zip(volume.shape, maps[own[0]].shape)]
            array = ndimage.zoom(maps[own[0]], factors, order=1, mode="nearest", grid_mode=True)
        else:
            slices = [map_of_picture(frames, i, maps[i]) for i in own]
            array = np.stack(slices) if len(volume.shape) > FLAT else slices[0]
        path = folder / f"{name}{suffix if array.ndim > FLAT else '.npz'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        array = np.clip(array, 0, 1).astype(np.float32)
        # The spacing follows from the affine, where there is one.
        spacing = None if volume.affine is not None else volume.spacing
        write_volume(path, array, spacing, volume.affine)


def without_labels(images: TrainingImages) -> TrainingImages:
    """Return the images as if nobody had looked at them: all are normal."""
    n = len(images)
    return replace(images, classes=(), findings=np.zeros((n, 0), np.bool_), boxes=(None,) * n)
