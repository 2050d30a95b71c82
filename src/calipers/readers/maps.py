# SPDX-License-Identifier: Apache-2.0
"""Score maps from files: npy, npz, PNG and TIFF; and the sizes of pictures. Limits hold before anything is unpacked."""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError
from calipers.readers.source import require_file

MAP_SUFFIXES = (".npy", ".npz", ".png", ".tif", ".tiff")
PICTURES = ("PNG", "TIFF")  # JPEG is lossy: its maps have values that no model gave
SIZED = ("PNG", "JPEG", "BMP", "TIFF", "WEBP")
MOST_PIXELS = 250_000_000
MOST_VOXELS = 1 << 31
MOST_BYTES = 8 << 30  # unpacked
MOST_RATIO = 200  # unpacked to packed
SPACING = "spacing"  # a member of an npz beside the map
WHITE = {"1": 1.0, "L": 255.0, "I;16": 65535.0, "I;16B": 65535.0, "I;16L": 65535.0, "F": 1.0}


def load_map(path: Path | str) -> NDArray[Any]:
    """Return the array of a file.

    Notes
    -----
    Arrays of npy and npz files come as they are stored; an npz holds one array, and maybe ``spacing``. Grey pictures of
    8 or 16 bits are divided by 255 or 65535, so that white is 1. Colours cannot be turned back into scores and are
    refused, and so are arrays of Python objects, files that are cut off, and files that unpack to far more than they
    should.
    """
    path = require_file(path)
    suffix = path.suffix.lower()
    if suffix not in MAP_SUFFIXES:
        hint = f"maps are read from {', '.join(MAP_SUFFIXES)}"
        raise InputError("a map", rule="format", file=str(path), value=suffix, hint=hint)
    with _opened(path) as file:
        if suffix == ".npy":
            return _read_npy(file, str(path), path.stat().st_size)
        return _read_npz(file, str(path)) if suffix == ".npz" else _read_picture(file, str(path))


def size_of(path: Path | str) -> tuple[int, ...]:
    """Return width and height of a picture from its header; rotation by EXIF is ignored."""
    path = require_file(path)
    with _opened(path) as file:
        image = _picture(file, str(path), SIZED)
        return int(image.size[0]), int(image.size[1])


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file; whatever a decoder raises becomes one kind of error."""
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield file
    except InputError:
        raise
    except Exception as error:
        hint = "write it again: it may be truncated or damaged"
        kind = type(error).__name__
        raise InputError("a whole file", rule="map-broken", file=str(path), value=kind, hint=hint) from None


def _read_npy(file: Any, name: str, held: int, member: str = "") -> NDArray[Any]:
    """Return an array; ``held`` bytes are all there are, so a header cannot promise more."""
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject or dtype.kind not in "buif":
        hint = "save an array of numbers; objects are never unpickled"
        raise InputError("numbers", rule="type", file=name, location=member, value=str(dtype), hint=hint)
    n = math.prod(shape)
    if n > MOST_VOXELS:
        raise _too_large(name, shape)
    if n * dtype.itemsize > held:
        promised = f"{shape} of {dtype}, {held} bytes"
        raise InputError("as many bytes as the header says", rule="map-broken", file=name, value=promised)
    data = file.read(n * dtype.itemsize)
    values = np.frombuffer(data, dtype, n).reshape(shape, order="F" if fortran else "C")
    return np.ascontiguousarray(values)


def _read_npz(file: BinaryIO, name: str) -> NDArray[Any]:
    with zipfile.ZipFile(file) as packed:
        members = [member for member in packed.infolist() if member.filename != f"{SPACING}.npy"]
        if len(members) != 1 or not members[0].filename.endswith(".npy"):
            found = [member.filename for member in members[:10]]
            hint = f"one array per file, and {SPACING!r} if you like"
            raise InputError("one array", rule="map-shape", file=name, value=found, hint=hint)
        member = members[0]
        if member.file_size > min(MOST_BYTES, MOST_RATIO * max(member.compress_size, 1 << 16)):
            said = f"{member.compress_size} bytes that unpack to {member.file_size}"
            raise InputError(f"at most {MOST_RATIO} times its size", rule="too-large", file=name, value=said)
        with packed.open(member) as unpacked:
            return _read_npy(unpacked, name, member.file_size, member.filename)


def _read_picture(file: BinaryIO, name: str) -> NDArray[Any]:
    image = _picture(file, name, PICTURES)
    if getattr(image, "n_frames", 1) > 1:
        raise InputError("one frame", rule="map-shape", file=name, value=f"{image.n_frames} frames")
    if image.mode not in WHITE:
        hint = "colours cannot be turned back into scores: save the map itself, as npy or as a grey picture"
        raise InputError("a grey picture", rule="map-values", file=name, value=image.mode, hint=hint)
    image.load()
    return np.asarray(image).astype(np.float64) / WHITE[image.mode]


def _picture(file: BinaryIO, name: str, formats: tuple[str, ...]) -> Any:
    from PIL import Image, UnidentifiedImageError

    warnings.simplefilter("error", Image.DecompressionBombWarning)
    try:
        image = Image.open(file, formats=formats)
    except UnidentifiedImageError:
        raise InputError(" or ".join(formats), rule="format", file=name) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_large(name, None) from None
    if image.size[0] * image.size[1] > MOST_PIXELS:
        raise _too_large(name, image.size)
    return image


def _too_large(name: str, shape: Any) -> InputError:
    wanted = f"at most {MOST_PIXELS:,} pixels, or {MOST_VOXELS:,} voxels"
    return InputError(wanted, rule="too-large", file=name, value=shape)
