"""Volumes as other libraries read them: the judge of every format of volumes and pictures."""

from __future__ import annotations

import io
import itertools
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

# Array [z, ]y, x, spacing along x, y[, z], and the affine from an index x, y, z to RAS in mm.
Voxels = tuple[Any, tuple[float, ...] | None, Any]
MILLIMETRES = (0, 2)  # units of a NIfTI header that leave its numbers as they are


def same_voxels(suffix: str, content: bytes, volume: Any, array: Any) -> None:
    """Raise unless a peer reads the same voxels and the same spacing, or refuses the file."""
    try:
        theirs, spacing, affine = PEERS[suffix](content)
    except Exception:
        return
    assert np.array_equal(np.squeeze(theirs), np.squeeze(array), equal_nan=True)
    if spacing is not None and volume.spacing is not None:
        assert np.allclose(spacing[: len(volume.spacing)], volume.spacing, rtol=1e-4)
    if affine is not None and volume.affine is not None:
        # At every corner: a large origin or a small turn counts as much as it moves a voxel.
        size = [*volume.size, 1][:3]
        corners = np.array(list(itertools.product(*((0, side) for side in size), (1,)))).T
        places, others = volume.affine @ corners, affine @ corners
        assert np.allclose(places, others, rtol=1e-4, atol=1e-2), f"{volume.affine}, not {affine}"


def _npy(content: bytes) -> Voxels:
    return np.load(io.BytesIO(content), allow_pickle=False), None, None


def _npz(content: bytes) -> Voxels:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        (name,) = archive.files
        return archive[name], None, None


def _pillow(content: bytes) -> Voxels:
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        if image.mode != "L" or content[24] != 8:  # other bits are stretched, see `Coding`
            raise ValueError
        return np.asarray(image), None, None


def _tifffile(content: bytes) -> Voxels:
    import tifffile

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        pages = [page.asarray() for page in file.pages]
    if any(page.dtype.kind not in "uf" for page in pages):
        raise ValueError
    return np.stack(pages), None, None


def _nibabel(content: bytes) -> Voxels:
    import gzip

    import nibabel

    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    image = nibabel.Nifti1Image.from_bytes(content)
    header = image.header
    if int(header["xyzt_units"]) & 7 not in MILLIMETRES:
        raise ValueError
    spacing = tuple(float(step) for step in header.get_zooms()[:3])
    has_place = int(header["sform_code"]) > 0 or int(header["qform_code"]) > 0
    affine = image.affine if has_place else None
    if has_place:
        # Other sides of voxels than those of the affine are noted.
        spacing = tuple(nibabel.affines.voxel_sizes(image.affine).tolist())
    return np.asanyarray(image.dataobj).T, spacing, affine


def _itk(suffix: str) -> Callable[[bytes], Voxels]:
    def read(content: bytes) -> Voxels:
        import SimpleITK as sitk

        sitk.ProcessObject.SetGlobalWarningDisplay(False)
        with tempfile.NamedTemporaryFile(suffix=suffix, delete=False) as file:
            file.write(content)
        try:
            image = sitk.ReadImage(file.name)
        finally:
            os.unlink(file.name)
        if image.GetNumberOfComponentsPerPixel() != 1:
            raise ValueError
        array, spacing = sitk.GetArrayFromImage(image), image.GetSpacing()
        if image.GetDimension() != 3:
            return array, spacing, None
        affine = np.eye(4)
        affine[:3, :3] = np.reshape(image.GetDirection(), (3, 3)) * spacing
        affine[:3, 3] = image.GetOrigin()
        # Left and posterior are positive to ITK.
        return array, spacing, np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine

    return read


def _pydicom(content: bytes) -> Voxels:
    import pydicom
    from pydicom.pixels import apply_rescale

    data = pydicom.dcmread(io.BytesIO(content))
    if data.get("SamplesPerPixel", 1) != 1 or data.PhotometricInterpretation != "MONOCHROME2":
        raise ValueError
    steps = data.get("PixelSpacing")
    spacing = None if steps is None else (float(steps[1]), float(steps[0]))
    return apply_rescale(data.pixel_array, data), spacing, None


PEERS: dict[str, Callable[[bytes], Voxels]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".png": _pillow,
    ".tif": _tifffile,
    ".nii": _nibabel,
    ".nii.gz": _nibabel,
    ".nrrd": _itk(".nrrd"),
    ".mha": _itk(".mha"),
    ".dcm": _pydicom,
}
