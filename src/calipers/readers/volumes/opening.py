# SPDX-License-Identifier: Apache-2.0
"""`open_volume`: which format a file has, and its header."""

from __future__ import annotations

import stat
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path

from calipers.errors import InputError
from calipers.readers.source import open_regular, require_file
from calipers.readers.volumes.limits import DEFAULT, Limits
from calipers.readers.volumes.streams import guarded
from calipers.readers.volumes.volume import Request, Role, Volume

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
        What the voxels are. Labels are refused where a format has losses; images may have colours,
        and become grey.
    limits
        What a volume may be at most. They hold before anything is allocated.

    Raises
    ------
    InputError
        The file is none of these, broken, too large, or has no place in space that makes sense.
    """
    where = Path(fspath(path))
    request = Request(where, role, member, segment, limits)
    if _is_folder(where):
        from calipers.readers.volumes.dicom_series import open_series

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
    lower = name.lower()
    found = next((end for end in EXTENSIONS if lower.endswith(end)), None)
    return name[: -len(found)] if found and len(found) < len(name.rpartition("/")[2]) else None


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _opener(name: str, head: bytes, file: str) -> Callable[[Request], Volume]:
    """Return what opens a file: judged by its first bytes, and by its name where these say nothing."""
    from calipers.readers.volumes import metaimage, nifti, nrrd, numpy_files, pictures

    if head.startswith(b"\x93NUMPY"):
        return numpy_files.open_npy
    if head[:4] in (b"PK\3\4", b"PK\5\6") and not name.endswith(PICKLES):
        return numpy_files.open_npz
    if head[MARK_AT:] == DICOM_MARK:
        from calipers.readers.volumes.dicom import open_dicom

        return open_dicom
    if name.endswith((".nii", ".nii.gz")):
        return nifti.open_nifti
    if head.startswith(nrrd.MARK):
        return nrrd.open_nrrd
    if name.endswith((".mha", ".mhd")):
        return metaimage.open_metaimage
    if pictures.format_of(head) is not None:
        return pictures.open_picture
    raise _refused(name, head, file)


def _refused(name: str, head: bytes, file: str) -> InputError:
    pickled = len(head) > 1 and head[0] == 0x80 and head[1] in range(2, 6)
    if name.endswith(PICKLES) or pickled:
        hint = "opening one runs whatever program it holds: save the arrays with numpy.save or numpy.savez"
        return InputError(
            "an array or a volume", rule="pickle", file=file, value="a pickle", hint=hint
        )
    if name.endswith((".dcm", ".dicom")):
        expected = f"{DICOM_MARK.decode()} at byte {MARK_AT}"
        hint = "a DICOM file without preamble: write it anew with one"
        return InputError(expected, rule="volume-format", file=file, hint=hint)
    known = "NIfTI, NRRD, MetaImage, npy, npz, PNG, TIFF, BMP, JPEG, WebP or DICOM"
    value = (
        head[:8] if stem_of(name) is None else f"something else, by its first bytes {head[:8]!r}"
    )
    return InputError(known, rule="volume-format", file=file, value=value)
