# SPDX-License-Identifier: Apache-2.0
"""Open a folder with the slices of one DICOM series as one volume (extra ``dicom``)."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calipers.errors import InputError
from calipers.readers.source import open_regular
from calipers.readers.volumes.dicom import (
    SEGMENTATION,
    check_pixels,
    frames_of,
    plane_of,
    read_pixels,
    rescale,
    rescaling_of,
    slice_of,
    stored_dtype,
)
from calipers.readers.volumes.dicom_files import header_of
from calipers.readers.volumes.dicom_stack import SlicePlace, stack_slices
from calipers.readers.volumes.limits import check_extent
from calipers.readers.volumes.orientation import axis_codes, spacing_of
from calipers.readers.volumes.streams import broken_file
from calipers.readers.volumes.volume import Array, Request, Volume

MARK, MARK_AT = b"DICM", 128
MOST_SLICES = 65_536


def open_series(request: Request) -> Volume:
    """Return the volume whose slices are the DICOM files of a folder.

    Notes
    -----
    Slices are sorted along their normal. They must be of one series, size, orientation and spacing,
    and evenly spaced.
    """
    file = request.file
    paths = _slices(request)
    headers = [header_of(replace(request, path=path)) for path in paths]
    first = headers[0][0]
    plane, stored = plane_of(first, request), stored_dtype(first, file)
    for path, (header, compressed) in zip(paths, headers):
        one = replace(request, path=path)
        if str(header.get("SOPClassUID")) == SEGMENTATION or frames_of(header, str(path)) > 1:
            value = f"several frames in {path.name}"
            raise InputError("a slice per file", rule="dicom-series", file=file, value=value)
        if header.get("SeriesInstanceUID") != first.get("SeriesInstanceUID"):
            value = f"another one in {path.name}"
            hint = "one series per folder"
            raise InputError("one series", rule="dicom-series", file=file, value=value, hint=hint)
        if plane_of(header, one) != plane or stored_dtype(header, str(path)) != stored:
            value = f"another one in {path.name}"
            raise InputError(
                "one size and kind of pixels", rule="dicom-series", file=file, value=value
            )
        check_pixels(header, plane, compressed, one)
    shape = (len(paths), *plane)
    check_extent(shape, stored.itemsize, file, request.limits)
    slices = [_place_of(path, header, file) for path, (header, _) in zip(paths, headers)]
    order, affine = stack_slices(slices, file)
    scalings = [rescaling_of(headers[k][0], file) for k in order]
    plain = all(scaling == (1.0, 0.0) for scaling in scalings)
    slice_paths = [paths[k] for k in order]
    return Volume(
        file=file,
        format="dicom-series",
        shape=shape,
        dtype=stored if plain else np.dtype(np.float64),
        reader=partial(_read, slice_paths, stored, scalings, shape),
        spacing=spacing_of(affine, 3),
        affine=affine,
        codes=axis_codes(affine),
        parts=tuple(map(str, slice_paths)),
    )


def _slices(request: Request) -> list[Path]:
    """Return the DICOM files of a folder in the order of their names.

    A link that leads out of the folder is an error.
    """
    root = request.path.resolve()
    paths: list[Path] = []
    names = sorted(name for name in os.listdir(root) if not name.startswith("."))
    if len(names) > MOST_SLICES:
        raise InputError(
            f"at most {MOST_SLICES} slices", rule="too-large", file=request.file, value=len(names)
        )
    for path in (root / name for name in names):
        if not path.is_file():
            continue
        if path.is_symlink() and root not in path.resolve().parents:
            raise InputError(
                "files inside of the folder",
                rule="outside-root",
                file=request.file,
                value=path.name,
            )
        with open_regular(path, follow=True) as file:
            if file.read(MARK_AT + len(MARK))[MARK_AT:] == MARK:
                paths.append(path)
    if not paths:
        hint = "a folder is read as the slices of one DICOM series; to read many samples, use pair"
        raise InputError(
            "DICOM files in the folder",
            rule="not-a-file",
            file=request.file,
            value="none",
            hint=hint,
        )
    return paths


def _place_of(path: Path, header: Any, file: str) -> SlicePlace:
    place = slice_of(header, path.name)
    if place is None:
        expected = "position, orientation and spacing of every slice"
        raise InputError(
            expected, rule="dicom-series", file=file, value=f"{path.name} lacks one of them"
        )
    return place


def _read(
    paths: list[Path], stored: np.dtype[Any], scalings: list[tuple[float, float]], shape: Any
) -> Array:
    plain = all(scaling == (1.0, 0.0) for scaling in scalings)
    volume = np.empty(shape, stored if plain else np.float64)
    for k, path in enumerate(paths):
        values = read_pixels(path, stored)
        if values.shape != shape[1:]:
            raise broken_file(str(path), values.shape, "a slice of the size of the others")
        volume[k] = values if plain else rescale(values, scalings[k])
    return volume
