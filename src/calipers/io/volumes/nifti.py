# SPDX-License-Identifier: Apache-2.0
"""Open NIfTI-1 and NIfTI-2 files of one piece, packed or not (extra ``volumes``).

nibabel parses the header; the voxels are read here, after the sizes were compared with the file.
`NiftiReader` gives a volume with its place in the patient, to `open_volume`; `open_planes` gives
single slices without it, to the pictures of the report.

The standard is that of the NIfTI-1 data format (Cox et al., 2004): x runs fastest in the file, the
sform places the voxels if its code is above zero, else the qform.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arrays import F64, Array
from calipers.errors import InputError, UsageError
from calipers.io.volumes.volume import (
    TOLERANCE,
    Request,
    Volume,
    VolumeReader,
    axis_codes,
    broken_file,
    check_affine,
    check_extent,
    check_packed,
    check_spacing,
    check_stored,
    corner_distance,
    is_packed,
    read_gzip,
    read_head,
    read_stored,
    shape_text,
    spacing_of,
)

# By the length of the header, which is the first number of a file: the class in nibabel, the magic
# bytes and their place.
HEADERS = {
    348: ("Nifti1Header", b"n+1\0", 344),
    540: ("Nifti2Header", b"n+2\0\r\n\x1a\n", 4),
}
MOST_BEFORE = 100_000_000  # bytes before the voxels
MOST_CODE = 5  # of what a form is relative to: 5 is another template
STEP_TOLERANCE = 1e-3  # relative; headers hold floats of 32 bits, some of them rounded
# By the code of the unit: unknown (taken for mm), metre, mm, micron.
MILLIMETRES = {0: 1.0, 1: 1000.0, 2: 1.0, 3: 0.001}


class NiftiReader(VolumeReader):
    """NIfTI of one piece, packed or not; packed files hide its mark, so the extension tells it."""

    name, title = "nifti", "NIfTI"
    extensions = (".nii.gz", ".nii")

    def open(self, request: Request) -> Volume:
        """Open the volume."""
        return open_nifti(request)


def open_nifti(request: Request) -> Volume:
    """Return the volume of a NIfTI file.

    Notes
    -----
    The affine is the sform, else the qform. A file that has both is an error if a corner of the
    volume moves by more than 1e-3 mm between them. A file with neither has a spacing and no
    orientation. Sides of voxels are those of the affine; a note says where pixdim differs. Lengths
    are converted to mm. Axes beyond the third must have length one, except for a fourth one where
    the limits allow it.
    """
    file = request.file
    header, voxels, notes = _checked_voxels(request)
    voxels = _chosen_channel(voxels, request.channel, file)
    size, shape = voxels.size, voxels.size[::-1]
    affine, spacing = _place(header, size[:3], file)
    if affine is not None:
        notes = [*notes, *_notes_on_steps(header, affine, len(size[:3]))]
    dtype = voxels.stored.newbyteorder("=")
    if voxels.scaled:
        dtype = np.dtype(np.float64)
    codes = None
    if affine is not None:
        codes = axis_codes(affine, len(size[:3]))
    return Volume(
        file=file,
        format="nifti",
        shape=shape,
        dtype=dtype,
        reader=partial(_read, request.path, voxels),
        spacing=spacing,
        affine=affine,
        codes=codes,
        notes=tuple(notes),
        channel=request.channel,
    )


def open_planes(request: Request) -> tuple[tuple[int, ...], Callable[[int], Array]]:
    """Return the shape ``[z, ]y, x`` of a file, and a function that reads one slice (y, x) of it.

    Where the volume lies in the patient is not looked at. Only the slice is kept in memory.
    """
    _, voxels, _ = _checked_voxels(request)
    return voxels.size[::-1], partial(_read_plane, request.path, voxels)


@dataclass(frozen=True, slots=True)
class _Voxels:
    """Where the voxels are and how they are stored; axes x, y, z."""

    packed: bool
    offset: int
    size: tuple[int, ...]
    stored: np.dtype[Any]
    slope: float
    inter: float
    is_last: bool = True  # whether the file ends with these voxels

    @property
    def scaled(self) -> bool:
        return (self.slope, self.inter) != (1.0, 0.0)

    @property
    def end(self) -> int:
        """The place of the first byte after the voxels."""
        return self.offset + math.prod(self.size) * self.stored.itemsize


def _checked_voxels(request: Request) -> tuple[Any, _Voxels, list[str]]:
    """Return the header, where the voxels are, and notes; the file is as large as the header
    says.
    """
    path, file = request.path, request.file
    packed = is_packed(path)
    # Other programs go by the name, so a file that needs renaming is refused rather than read.
    if packed != path.name.lower().endswith(".gz"):
        kind = "packed with gzip" if packed else "not packed with gzip"
        hint = "rename it: .nii is plain, .nii.gz is packed"
        raise InputError(
            "a name that fits the content", rule="volume-format", file=file, value=kind, hint=hint
        )
    header = _header(read_head(path, max(HEADERS), packed=packed), file)
    size, notes = _size(header, file, request.limits.axes)
    voxels = _voxels(header, size, packed, file)
    check_extent(size[::-1], voxels.stored.itemsize, file, request.limits)
    # The size of a packed file only bounds what it may hold; a plain one has to hold it all.
    needed = voxels.end
    on_disk = path.stat().st_size
    if packed:
        check_packed(needed, on_disk, file, request.limits)
    else:
        check_stored(needed, on_disk, file)
        if on_disk > needed:
            notes.append(f"{on_disk - needed} bytes after the voxels were not read")
    return header, voxels, notes


def _header(start: bytes, file: str) -> Any:
    try:
        import nibabel
    except ImportError:
        raise UsageError(
            f'{file}: NIfTI files need nibabel: pip install "calipers[volumes]"'
        ) from None
    # The length of the header tells the byte order: it is 348 or 540 in one of the two.
    for order, word in (("<", "little"), (">", "big")):
        length = int.from_bytes(start[:4], word)  # type: ignore[arg-type]
        if length not in HEADERS:
            continue
        name, mark, place = HEADERS[length]
        if len(start) < length:
            raise broken_file(file, f"{len(start)} bytes", f"a header of {length} bytes")
        if start[place : place + len(mark)] != mark:
            hint = "pairs of .hdr and .img are not read: convert them to one .nii.gz"
            raise InputError(
                "a NIfTI file of one piece", rule="volume-format", file=file, hint=hint
            )
        return getattr(nibabel, name)(start[:length], endianness=order, check=False)
    raise InputError("a NIfTI header", rule="volume-format", file=file, value=start[:4])


def _size(header: Any, file: str, most: int) -> tuple[tuple[int, ...], list[str]]:
    """Return the lengths along x, y[, z], and a note if further axes of length one were dropped.

    A fourth length that is not one stays if ``most`` is 4.
    """
    dim = [int(n) for n in header["dim"]]
    if not 1 <= dim[0] <= 7:
        raise broken_file(file, dim[0], "one to seven axes")
    size = tuple(dim[1 : 1 + dim[0]])
    # Maps with an axis of classes have it fourth, behind x, y and z.
    # Vectors of ITK have them fifth, behind one point in time.
    if most == 4 and len(size) == 5 and size[3] == 1 and size[4] != 1:
        return (*size[:3], size[4]), []
    if most == 4 and any(n != 1 for n in size[3:4]) and all(n == 1 for n in size[4:]):
        if len(size) == 4:
            return size, []
        return size[:4], [f"axes of length one after the fourth were dropped: {shape_text(size)}"]
    if any(n != 1 for n in size[3:]):
        hint = "one volume per file: split channels and time points; maps choose a channel with "
        hint += "--channel N (channel=N)"
        raise InputError(
            "two or three axes", rule="volume-shape", file=file, value=shape_text(size), hint=hint
        )
    if len(size) <= 3:
        return size, []
    return size[:3], [f"axes of length one after the third were dropped: {shape_text(size)}"]


def _chosen_channel(voxels: _Voxels, channel: int | None, file: str) -> _Voxels:
    """Return one channel of voxels with four axes; channels follow each other in the file."""
    if channel is None:
        return voxels
    if len(voxels.size) < 4:
        raise InputError(
            "channels along a fourth axis",
            rule="volume-channels",
            file=file,
            value=shape_text(voxels.size),
        )
    count = voxels.size[3]
    if channel >= count:
        raise InputError(
            f"a channel from 0 to {count - 1}", rule="volume-channels", file=file, value=channel
        )
    length = math.prod(voxels.size[:3]) * voxels.stored.itemsize
    return replace(
        voxels,
        offset=voxels.offset + channel * length,
        size=voxels.size[:3],
        is_last=channel == count - 1,
    )


def _voxels(header: Any, size: tuple[int, ...], packed: bool, file: str) -> _Voxels:
    stored = np.dtype(header.get_data_dtype())
    if stored.kind not in "uif" or stored.itemsize > 8:
        raise InputError("a number per voxel", rule="volume-dtype", file=file, value=str(stored))
    # A float in NIfTI-1, so it may be fractional or far away in a broken file.
    offset = float(header["vox_offset"])
    if not header.sizeof_hdr <= offset <= MOST_BEFORE or not offset.is_integer():
        raise InputError(
            "voxels soon after the header", rule="volume-broken", file=file, value=offset
        )
    slope, inter = float(header["scl_slope"]), float(header["scl_inter"])
    # The standard's signs for values that are stored unscaled.
    if slope == 0.0 or math.isnan(slope):
        slope, inter = 1.0, 0.0
    if not (math.isfinite(slope) and math.isfinite(inter)):
        value = f"slope {slope}, intercept {inter}"
        raise InputError(
            "a finite scaling of values",
            rule="non-finite",
            file=file,
            field="scl_slope",
            value=value,
        )
    return _Voxels(packed, int(offset), size, stored, slope, inter)


def _place(
    header: Any, size: tuple[int, ...], file: str
) -> tuple[F64 | None, tuple[float, ...] | None]:
    """Return the affine in mm if there is one, and the spacing in mm."""
    # The lower three bits are the unit of space, the next three that of time.
    unit = MILLIMETRES.get(int(header["xyzt_units"]) & 7)
    if unit is None:
        raise InputError("metre, mm or micron", rule="spacing", file=file, field="xyzt_units")
    scale = np.diag([unit, unit, unit, 1.0])
    for name in ("sform_code", "qform_code"):
        # Some programs take any number above zero for a form, others none that they do not know.
        if not 0 <= int(header[name]) <= MOST_CODE:
            expected = f"a number from 0 to {MOST_CODE}"
            value = int(header[name])
            raise InputError(expected, rule="affine", file=file, field=name, value=value)
    forms: dict[str, F64] = {}
    if int(header["sform_code"]) > 0:
        forms["sform"] = check_affine(scale @ header.get_sform(), file, "sform")
    if int(header["qform_code"]) > 0:
        forms["qform"] = check_affine(scale @ _qform(header, file), file, "qform")
    # Programs differ in which form they prefer: if the two disagree, they would show different
    # places.
    if len(forms) == 2:
        _check_forms(forms["sform"], forms["qform"], size, file)
    if not forms:
        pixdim = tuple(abs(float(step)) * unit for step in header["pixdim"][1 : 1 + len(size)])
        return None, check_spacing(pixdim, file)
    affine = next(iter(forms.values()))
    return affine, spacing_of(affine, len(size))


def _notes_on_steps(header: Any, affine: F64, dimensions: int) -> list[str]:
    """Return what to say if the voxels of the affine have other sides than the header says."""
    unit = MILLIMETRES[int(header["xyzt_units"]) & 7]
    stated = np.abs(np.asarray(header["pixdim"][1 : 1 + dimensions], np.float64)) * unit
    steps = np.linalg.norm(affine[:3, :dimensions], axis=0)
    if np.allclose(stated, steps, rtol=STEP_TOLERANCE, atol=0):
        return []
    sides = " x ".join(f"{step:.4g}" for step in steps)
    others = " x ".join(f"{step:.4g}" for step in stated)
    return [f"the voxels measure {sides} mm by the affine, which was used, and {others} by pixdim"]


def _qform(header: Any, file: str) -> F64:
    try:
        return np.asarray(header.get_qform(), np.float64)
    except Exception as error:  # a quaternion longer than one, a spacing below zero
        kind = type(error).__name__
        raise InputError(
            "a valid rotation", rule="affine", file=file, field="qform", value=kind
        ) from None


def _check_forms(sform: F64, qform: F64, size: tuple[int, ...], file: str) -> None:
    distance = corner_distance(sform, qform, size)
    if distance <= TOLERANCE:
        return
    forms = f"sform {axis_codes(sform)}, qform {axis_codes(qform)}"
    raise InputError(
        "a sform and a qform that agree",
        rule="affine",
        file=file,
        value=f"{forms}, corners up to {distance:.3g} mm apart",
        hint="keep the right one of the two: in nibabel, image.set_qform(image.get_sform())",
    )


def _read(path: Path, voxels: _Voxels) -> Array:
    count = math.prod(voxels.size) * voxels.stored.itemsize
    return _values(path, voxels, 0, count).reshape(voxels.size[::-1])


def _read_plane(path: Path, voxels: _Voxels, place: int) -> Array:
    """Return the slice (y, x) at a place along z; x runs fastest in the file, z slowest."""
    width, height = voxels.size[:2]
    count = width * height * voxels.stored.itemsize
    return _values(path, voxels, place * count, count).reshape(height, width)


def _values(path: Path, voxels: _Voxels, start: int, count: int) -> Array:
    """Return the voxels of ``count`` bytes from ``start`` on, scaled."""
    start += voxels.offset
    if voxels.packed:
        # The checksum is behind the last voxel: a single slice or channel does without it.
        is_last = voxels.is_last and start + count == voxels.end
        raw = read_gzip(path, 0, start, count, verify=is_last)
    else:
        raw = read_stored(path, start, count)
    array: Array = raw.view(voxels.stored)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not voxels.scaled:
        return array
    values = array.astype(np.float64)
    values *= voxels.slope
    values += voxels.inter
    return values
