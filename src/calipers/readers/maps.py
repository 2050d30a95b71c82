# SPDX-License-Identifier: Apache-2.0
"""Read score maps from files, one map or a stack with one per class; and the sizes of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError
from calipers.readers.volumes.limits import Limits
from calipers.readers.volumes.opening import open_volume
from calipers.readers.volumes.pictures import PALETTE, picture_size
from calipers.readers.volumes.volume import Volume

MAP_SUFFIXES = (".npy", ".npz", ".png", ".tif", ".tiff", ".nii", ".nii.gz")
# No JPEG: it is lossy, so its maps would have values that no model gave.
FORMATS = ("npy", "npz", "png", "tiff", "nifti")
# The value of white in a picture, by type.
WHITE = {"bool": 1.0, "uint8": 255.0, "uint16": 65535.0, "float32": 1.0}
STACKED = Limits(axes=4)  # an axis of classes before those of a volume


def load_map(path: Path | str) -> NDArray[Any]:
    """Return the array of a file.

    Notes
    -----
    Arrays of npy and npz files come as they are stored; an npz holds one array, and maybe
    ``spacing`` and ``affine``. Those of NIfTI files (extra ``volumes``) become ``[class, ]z, y,
    x``, with slope and intercept applied. Grey pictures of 8 or 16 bits are divided by 255 or
    65535, so that white is 1. Colours cannot be turned back into scores and are refused, and so are
    arrays of Python objects, files that are cut off, and files that unpack to far more than they
    should.
    """
    name = str(path)
    if not name.lower().endswith(MAP_SUFFIXES):
        hint = f"maps are read from {', '.join(MAP_SUFFIXES)}"
        raise InputError(
            "a map", rule="volume-format", file=name, value=Path(path).suffix, hint=hint
        )
    volume = open_volume(path, limits=STACKED)
    if volume.format not in FORMATS:
        expected = f"one of the formats {', '.join(FORMATS)}"
        raise InputError(
            expected,
            rule="volume-format",
            file=name,
            value=volume.format,
            hint="the name says otherwise",
        )
    if volume.format not in ("png", "tiff"):
        return volume.read()
    white = _white(volume)
    return volume.read().astype(np.float64) / white


def size_of(path: Path | str) -> tuple[int, ...]:
    """Return width, height[, depth] of a picture or volume from its header, without EXIF turns."""
    return picture_size(Path(path)) or open_volume(path, role="image").size


def _white(volume: Volume) -> float:
    """Return what stands for 1 in a picture of one page, or say why it holds no scores."""
    if volume.dimensions != 2:
        raise InputError(
            "one page", rule="map-shape", file=volume.file, value=f"{volume.shape[0]} pages"
        )
    if PALETTE in volume.notes:
        hint = (
            "colours cannot be turned back into scores: "
            "save the map itself, as npy or as a grey picture"
        )
        raise InputError(
            "a grey picture", rule="volume-channels", file=volume.file, value="a palette", hint=hint
        )
    if volume.dtype.name not in WHITE:
        expected = "8 or 16 bits, or floats"
        raise InputError(expected, rule="volume-dtype", file=volume.file, value=volume.dtype.name)
    return WHITE[volume.dtype.name]
