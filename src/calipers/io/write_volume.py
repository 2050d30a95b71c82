# SPDX-License-Identifier: Apache-2.0
"""Write an array to a file that `open_volume` reads again: NumPy, PNG, TIFF and NIfTI.

Files are written atomically, and equal arrays give equal bytes. The verbs that make maps or labels
(`predict`, `corrupt`, the synthetic data) call `write_volume`; it is the way back of
`calipers.io.volumes`.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from calipers.arrays import F64, Array
from calipers.errors import UsageError
from calipers.io.volumes.open import stem_of
from calipers.io.volumes.volume import check_affine, check_spacing
from calipers.results.files import write_atomically

SUFFIXES = (".npy", ".npz", ".png", ".tif", ".tiff", ".nii", ".nii.gz")
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # zip archives have dates; always this one
# Kinds of NumPy by the mode of Pillow that stores them without loss.
PICTURES = {"u1": "L", "u2": "I;16", "f4": "F"}


def write_volume(
    path: str | PathLike[str],
    array: Array,
    spacing: Sequence[float] | None = None,
    affine: F64 | None = None,
) -> None:
    """Write an array ``[z, ]y, x`` so that `open_volume` gives it back.

    Parameters
    ----------
    path
        ``.npy``, ``.npz``, ``.png`` (2D, up to 16 bits), ``.tif`` (a page per slice), ``.nii`` or
        ``.nii.gz`` (extra ``volumes``).
    spacing
        mm along x, y[, z]: npz and NIfTI.
    affine
        (4, 4), from the index x, y, z to mm, RAS: npz and NIfTI. The spacing follows from it.
    """
    target = Path(fspath(path))
    suffixes = [suffix for suffix in SUFFIXES if target.name.lower().endswith(suffix)]
    suffix = max(suffixes, key=len, default="")
    if not suffix or stem_of(target.name) is None:
        raise UsageError(f"cannot write {target.name!r}; known: {', '.join(SUFFIXES)}")
    values = np.ascontiguousarray(array)
    if values.ndim not in (2, 3) or values.dtype.kind not in "buif" or values.dtype.itemsize > 8:
        raise UsageError(
            "a volume is an array of numbers with two or three axes, "
            f"not of shape {values.shape} and type {values.dtype}"
        )
    if affine is not None:
        affine = check_affine(np.asarray(affine, np.float64), str(target))
    if spacing is not None:
        spacing = check_spacing(tuple(spacing), str(target))
    if suffix in (".npy", ".png", ".tif", ".tiff"):
        if affine is not None or spacing is not None:
            raise UsageError(f"{suffix} files hold no spacing and no affine; write .npz or .nii.gz")
        content = _npy(values) if suffix == ".npy" else _picture(values, suffix)
    elif suffix == ".npz":
        content = _npz(values, spacing, affine)
    else:
        content = _nifti(values, spacing, affine)
        if suffix == ".nii.gz":
            content = gzip.compress(content, compresslevel=6, mtime=0)
    write_atomically(target, content)


def _npy(values: Array) -> bytes:
    sink = io.BytesIO()
    npy.write_array(sink, values, allow_pickle=False)
    return sink.getvalue()


def _npz(values: Array, spacing: Sequence[float] | None, affine: F64 | None) -> bytes:
    members = {"array": values}
    if affine is not None:
        members["affine"] = affine
    elif spacing is not None:
        members["spacing"] = np.array(spacing, np.float64)
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            # With a plain name `writestr` would store the time of writing, and equal results would
            # differ.
            info = zipfile.ZipInfo(f"{name}.npy", LONG_AGO)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, _npy(member))
    return sink.getvalue()


def _picture(values: Array, suffix: str) -> bytes:
    from PIL import Image

    stored = values.astype(np.uint8) if values.dtype == np.bool_ else values
    kind = stored.dtype.newbyteorder("<").str[1:]
    if kind not in PICTURES or (suffix == ".png" and (kind == "f4" or values.ndim != 2)):
        content = "8 or 16 bits, or 32-bit floats"
        if suffix == ".png":
            content = "two axes and 8 or 16 bits"
        raise UsageError(
            f"{suffix} files hold {content}, not shape {values.shape} of {values.dtype}"
        )
    planes = stored[None] if values.ndim == 2 else stored
    pages = [Image.fromarray(plane) for plane in planes]
    options: dict[str, Any] = {}
    if suffix != ".png":
        options = {
            "compression": "tiff_adobe_deflate",
            "save_all": True,
            "append_images": pages[1:],
        }
    sink = io.BytesIO()
    pages[0].save(sink, format="PNG" if suffix == ".png" else "TIFF", **options)
    return sink.getvalue()


def _nifti(values: Array, spacing: Sequence[float] | None, affine: F64 | None) -> bytes:
    try:
        import nibabel
    except ImportError:
        raise UsageError('NIfTI files need nibabel: pip install "calipers[volumes]"') from None
    stored = values.astype(np.uint8) if values.dtype == np.bool_ else values
    if stored.dtype == np.float16:
        stored = stored.astype(np.float32)
    # NIfTI counts x first, our arrays count it last.
    image = nibabel.Nifti1Image(stored.T, affine, dtype=stored.dtype)
    image.header.set_xyzt_units("mm")
    if affine is not None:
        image.header.set_sform(affine, code=1)
        image.header.set_qform(None, code=0)
    else:
        # A spacing alone says nothing about orientation, so neither form may claim one (code 0).
        image.header.set_sform(None, code=0)
        image.header.set_qform(None, code=0)
        image.header.set_zooms(spacing or (1.0,) * values.ndim)
    return bytes(image.to_bytes())
