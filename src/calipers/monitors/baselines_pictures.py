# SPDX-License-Identifier: Apache-2.0
"""Simple features of pictures: brightness, contrast, sharpness, histogram, colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import shown
from calipers.errors import InputError, UsageError, did_you_mean
from calipers.readers.listing import list_files
from calipers.tables import Cohort

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Array = NDArray[Any]
Picture = Array | str | PathLike[str]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BINS = 64
FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP")
# pixels; larger pictures are reduced, which costs less and makes sharpness comparable
LARGEST_SIDE = 512
LEAST_ENERGY = 1e-8  # of gradients: the log of a picture of one value is finite
NAMES = (
    "mean",
    "sd",
    *(f"q{100 * share:.0f}" for share in QUANTILES),
    "log-gradient",
    "log-laplacian",
    "entropy",
    "red",
    "blue",
)


@dataclass(frozen=True, eq=False)
class Features:
    """Numbers that describe every image: those of `picture_features`, or your own, such as
    embeddings.
    """

    names: tuple[str, ...]
    values: F64  # (n, d), finite

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.names) or not self.names:
            raise UsageError(
                f"features are a row per image, a column per name; got shape {self.values.shape}"
            )
        if not np.isfinite(self.values).all():
            row = int(np.flatnonzero(~np.isfinite(self.values).all(axis=1))[0])
            raise InputError("finite features", rule="non-finite", location=f"features[{row}]")

    def take(self, rows: I64) -> Features:
        """Return the features of some images."""
        return Features(self.names, self.values[rows])


Pictures = str | PathLike[str] | Mapping[str, Picture] | Sequence[Picture] | Array | Features


def picture_features(cohort: Cohort, images: Pictures) -> Features:
    """Return the features of the picture of every image of a cohort.

    Parameters
    ----------
    images
        A folder, in which a picture is found by ``file_name`` or id, as a path, a name, or a name
        without extension; id -> array or file; or one array or file per image. `Features` are
        returned as they are.

    Raises
    ------
    InputError
        An image without a picture, with several, or with pixels that are no numbers; the message
        names it.

    Notes
    -----
    Whole numbers are divided by the largest of their type. A picture with a side of more than 512
    pixels is reduced to the means of blocks of k pixels along every axis, k the least whole number
    that brings its longest side to 512 or below; what is left over at the far edges is left out.
    Grey is the mean of the channels. ``log-gradient`` is the log of the mean squared difference of
    neighbours, summed over the axes; ``log-laplacian`` the log of the variance of the sum of second
    differences; both with 1e-8 added. ``entropy`` is that of a histogram of 64 bins, in bits,
    between 0 and 1 if all values lie there, else between the lowest and the highest. ``red`` and
    ``blue`` are the means of these channels minus that of grey, 0 for grey pictures. A picture of
    one value has entropy and ``sd`` 0.
    """
    if isinstance(images, Features):
        if len(images.values) != cohort.n_images:
            raise UsageError(
                f"features of {len(images.values)} images, the cohort has {cohort.n_images}"
            )
        return images
    rows = [features_of(picture, name) for name, picture in _pictures(cohort, images)]
    return Features(NAMES, np.array(rows, np.float64).reshape(-1, len(NAMES)))


def features_of(picture: Picture, name: str = "picture") -> F64:
    """Return the features of one picture: ``(y, x)``, ``(y, x, 3)`` in colour, or a volume ``(z, y,
    x)``.
    """
    array = _opened(picture) if isinstance(picture, str | PathLike) else np.asarray(picture)
    file = fspath(picture) if isinstance(picture, str | PathLike) else "<arrays>"
    if array.dtype.kind not in "biuf" or array.ndim not in (2, 3) or not array.size:
        value = f"{array.dtype} of shape {array.shape}"
        raise InputError(
            "a picture of numbers", rule="picture-format", file=file, field=name, value=value
        )
    coloured = array.ndim == 3 and array.shape[-1] == 3
    values = _scaled(array, array.ndim - int(coloured))
    if not np.isfinite(values).all():
        raise InputError("pixels that are finite", rule="non-finite", file=file, field=name)
    grey = values.mean(axis=2) if coloured else values
    channels = values.mean(axis=(0, 1))[[0, 2]] - grey.mean() if coloured else np.zeros(2)
    sharpness = np.log(np.array([_gradient(grey), float(_laplacian(grey).var())]) + LEAST_ENERGY)
    spread = [grey.mean(), grey.std(), *np.quantile(grey, QUANTILES)]
    return np.concatenate([spread, sharpness, [_entropy(grey)], channels])


def _scaled(array: Array, axes: int) -> F64:
    """Return a picture in floats, whole numbers divided by the largest of their type, reduced if it
    is large.
    """
    unit = float(np.iinfo(array.dtype).max) if array.dtype.kind in "iu" else 1.0
    step = -(-max(array.shape[:axes]) // LARGEST_SIDE)
    if step > 1:
        exact = np.int64 if array.dtype.kind in "biu" else np.float64
        for axis in range(axes):
            across = min(step, array.shape[axis])
            n = array.shape[axis] // across
            whole = array[(slice(None),) * axis + (slice(n * across),)]
            blocks = whole.reshape(*whole.shape[:axis], n, across, *whole.shape[axis + 1 :])
            array = blocks.sum(axis=axis + 1, dtype=exact)
            unit *= across
    return array.astype(np.float64) / unit


def _gradient(grey: F64) -> float:
    steps = [np.diff(grey, axis=axis) for axis in range(grey.ndim)]
    return float(sum((step**2).mean() for step in steps if step.size))


def _laplacian(grey: F64) -> F64:
    """Return the sum of second differences; the picture goes on beyond its edges as it is there."""
    padded = np.pad(grey, 1, mode="edge")
    inner = tuple(slice(1, -1) for _ in range(grey.ndim))
    total = np.zeros(grey.shape)
    for axis in range(grey.ndim):
        total += (np.roll(padded, 1, axis) + np.roll(padded, -1, axis))[inner] - 2.0 * grey
    return total


def _entropy(grey: F64) -> float:
    low, high = float(grey.min()), float(grey.max())
    within = (0.0, 1.0) if low >= 0.0 and high <= 1.0 else (low, high)
    share = np.histogram(grey, BINS, within)[0] / grey.size
    share = share[share > 0]
    return float(-(share * np.log2(share)).sum())


def _opened(path: str | PathLike[str]) -> Array:
    """Return the pixels of a file; of pictures in colour all three channels."""
    from calipers.readers.volumes import open_volume
    from calipers.readers.volumes.streams import guarded

    volume = open_volume(path, role="image")  # the limits hold before anything is decoded
    if volume.format.upper() not in FORMATS or volume.dimensions != 2:
        return volume.read()
    from PIL import Image

    with guarded(volume.file), Image.open(Path(path), formats=FORMATS) as image:
        if image.mode in ("RGB", "RGBA", "P", "CMYK", "YCbCr"):
            return np.asarray(image.convert("RGB"))
    return volume.read()


def _pictures(cohort: Cohort, images: Any) -> Iterator[tuple[str, Picture]]:
    """Yield the id and the picture of every image."""
    ids = cohort.images.ids
    if isinstance(images, str | PathLike):
        yield from zip(ids, _picture_files(cohort, Path(fspath(images))))
    elif isinstance(images, Mapping):
        for name in ids:
            if name not in images:
                hint = did_you_mean(name, list(map(str, images))[:1000])[:300]
                raise InputError(
                    "a picture of every image", rule="no-picture", value=name, hint=hint
                )
            yield name, images[name]
    else:
        if not hasattr(images, "__len__") or getattr(images, "shape", None) == ():
            raise UsageError(f"pictures are a folder, arrays or files, not {shown(images)}")
        if len(images) != len(ids):
            raise UsageError(
                f"one picture per image: {len(images)} pictures, the cohort has {len(ids)} images"
            )
        yield from ((name, images[k]) for k, name in enumerate(ids))


def _picture_files(cohort: Cohort, folder: Path) -> Iterator[str]:
    """Yield the file of every image; raise where a name fits several files."""
    files = list_files(folder, holds="pictures").files
    file_names = cohort.images.groups.get("file_name")
    by_base, by_stem = _unique(files, _base), _unique(files, _stem)
    for k, image in enumerate(cohort.images.ids):
        names = [image]
        if file_names is not None and file_names[k]:
            names.insert(0, str(file_names[k]))
        # In this order: the whole path, then the name, then the name without its extension.
        keys: list[tuple[Mapping[str, str], str]] = []
        for name in names:
            base = _base(name)
            keys += [(files, name), (by_base, base), (by_stem, base)]
        path = next((table[key] for table, key in keys if table.get(key)), None)
        if path is None:
            hint = "a file is found by the column file_name or by the id"
            if any(key in table for table, key in keys):
                hint = "its name fits several files"
            raise InputError(
                "a picture of every image",
                rule="no-picture",
                file=str(folder),
                value=image,
                hint=hint,
            )
        yield path


def _base(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]


def _stem(name: str) -> str:
    from calipers.readers.volumes.opening import stem_of

    base = _base(name)
    return stem_of(base) or base


def _unique(files: Mapping[str, str], key: Any) -> dict[str, str]:
    """Return name -> file, and an empty text where a name stands for several."""
    times = Counter(map(key, files))
    table = {}
    for name, path in files.items():
        short = key(name)
        table[short] = path if times[short] == 1 else ""
    return table
