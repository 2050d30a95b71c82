# SPDX-License-Identifier: Apache-2.0
"""`open_volume`: recognise the format of a file and read its header.

The first bytes decide; the extension decides where these say nothing.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path

from calipers.errors import InputError
from calipers.io.source import open_regular, require_file
from calipers.io.volumes.volume import DEFAULT, Limits, Request, Role, Volume, guarded

PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib")
# Longest first: the name of a sample is what stands before its extension.
EXTENSIONS = (
    ".nii.gz",
    ".nii",
    ".nrrd",
    ".nhdr",
    ".mha",
    ".mhd",
    ".npy",
    ".npz",
    ".png",
    ".tiff",
    ".tif",
    ".bmp",
    ".jpeg",
    ".jpg",
    ".webp",
    ".dcm",
    ".dicom",
)
DICOM_MARK, MARK_AT = b"DICM", 128
HEAD = MARK_AT + len(DICOM_MARK)


def open_volume(
    path: str | PathLike[str],
    *,
    member: str | None = None,
    segment: int | None = None,
    role: Role = "map",
    limits: Limits = DEFAULT,
) -> Volume:
    """Return what the header of an image or volume says; its voxels are not read.

    Parameters
    ----------
    path
        NIfTI (extra ``volumes``), NRRD, MetaImage, npy, npz, PNG, TIFF, BMP, JPEG, WebP; DICOM
        (extra ``dicom``): an image, several frames, a segmentation, or a folder with the slices of
        one series.
    member
        The array of an npz archive, if it has several.
    segment
        The number of a segment of a DICOM segmentation; None: all, each voxel with the number of
        its segment.
    role
        What the voxels are. Lossy formats are refused for labels; images may have colours, which
        become grey.
    limits
        The largest volume that is read; checked before anything is allocated.

    Raises
    ------
    InputError
        The file has none of these formats, is broken or too large, or has an invalid geometry.
    """
    where = Path(fspath(path))
    request = Request(where, role, member, segment, limits)
    if _is_folder(where):
        from calipers.io.volumes.dicom import open_series

        with guarded(request.file):
            return open_series(request)
    require_file(where)
    with open_regular(where, follow=True) as file:
        head = file.read(HEAD)
    opener = _opener(where.name.lower(), head, request.file)
    with guarded(request.file):
        return opener(request)


def stem_of(name: str) -> str | None:
    """Return a file name without the extension of a volume; None if it has none."""
    base = name.rpartition("/")[2]
    for extension in EXTENSIONS:
        if name.lower().endswith(extension) and len(extension) < len(base):
            return name[: -len(extension)]
    return None


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _opener(name: str, head: bytes, file: str) -> Callable[[Request], Volume]:
    """Return the function that opens a file, by its first bytes or else by its extension."""
    from calipers.io.volumes import itk, nifti, numpy, pictures

    if head.startswith(b"\x93NUMPY"):
        return numpy.open_npy
    if head[:4] in (b"PK\3\4", b"PK\5\6") and not name.endswith(PICKLES):
        return numpy.open_npz
    if head[MARK_AT:] == DICOM_MARK:
        from calipers.io.volumes.dicom import open_dicom

        return open_dicom
    if name.endswith((".nii", ".nii.gz")):
        return nifti.open_nifti
    if head.startswith(itk.MARK):
        return itk.open_nrrd
    if name.endswith((".mha", ".mhd")):
        return itk.open_metaimage
    if pictures.format_of(head) is not None:
        return pictures.open_picture
    raise _unreadable(name, head, file)


def _unreadable(name: str, head: bytes, file: str) -> InputError:
    pickled = len(head) > 1 and head[0] == 0x80 and head[1] in range(2, 6)
    if name.endswith(PICKLES) or pickled:
        hint = "a pickle can run any program: save the arrays with numpy.save or numpy.savez"
        return InputError(
            "an array or a volume", rule="pickle", file=file, value="a pickle", hint=hint
        )
    if name.endswith((".dcm", ".dicom")):
        expected = f"{DICOM_MARK.decode()} at byte {MARK_AT}"
        hint = "the DICOM file has no preamble: write it again with one"
        return InputError(expected, rule="volume-format", file=file, hint=hint)
    formats = "NIfTI, NRRD, MetaImage, npy, npz, PNG, TIFF, BMP, JPEG, WebP or DICOM"
    value: object = head[:8]
    if stem_of(name) is not None:
        value = f"another format, by its first bytes {head[:8]!r}"
    return InputError(formats, rule="volume-format", file=file, value=value)
