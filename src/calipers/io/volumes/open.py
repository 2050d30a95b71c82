# SPDX-License-Identifier: Apache-2.0
"""`open_volume`: recognise the format of a file and read its header.

A path comes in, a `Volume` goes out, to `calipers.io.volumes.pairing` and the readers of bags and
pictures. Formats are plug-ins: a `VolumeReader` each, by one line in `calipers.registry` or from
another package. The first bytes decide; the extension decides where these say nothing. `extensions`
and `stem_of` tell the name of a sample from the name of its file.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from os import PathLike
from pathlib import Path

import numpy as np

from calipers import errors, registry
from calipers.arrays import Array
from calipers.errors import InputError
from calipers.io.archives import find_member
from calipers.io.source import (
    PICKLES,
    open_regular,
    require_file,
    require_version,
    version_of,
)
from calipers.io.volumes.numpy import open_member
from calipers.io.volumes.volume import (
    DEFAULT,
    Limits,
    Request,
    Role,
    Volume,
    VolumeReader,
    guarded,
    shape_text,
)

HEAD = 4096  # bytes by which a format is recognised


def open_volume(
    path: str | PathLike[str],
    *,
    member: str | None = None,
    segment: int | None = None,
    channel: int | None = None,
    dimensions: int = 3,
    role: Role = "map",
    limits: Limits = DEFAULT,
) -> Volume:
    """Return what the header of an image or volume says; its voxels are not read.

    Parameters
    ----------
    path
        NIfTI (extra ``volumes``), NRRD, MetaImage, npy, npz, PNG, TIFF, BMP, JPEG, WebP; DICOM
        (extra ``dicom``): an image, several frames, a segmentation, or a folder with the slices of
        one series. An array in a zip or tar archive is ``maps.zip/case1.npy``.
    member
        The array of an npz archive, if it has several.
    segment
        The number of a segment of a DICOM segmentation; None: all, each voxel with the number of
        its segment.
    channel
        The number of a channel, from 0, of a file with a channel axis: the first one of an array
        ``c, [z, ]y, x``, the last one of NIfTI.
    dimensions
        The number of axes of a volume without that of channels.
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
    where = Path(errors.path("path", path))
    if channel is not None:
        limits = replace(limits, axes=4)
    inside = find_member(where)
    if inside is not None:
        with guarded(str(where)):
            volume = open_member(inside, limits)
    else:
        volume = _opened(Request(where, role, member, segment, channel, limits))
    return volume if channel is None else _channel_of(volume, channel, dimensions)


def _opened(request: Request) -> Volume:
    reader = _reader_of(request.path)
    version = version_of(request.path)
    with guarded(request.file):
        volume = reader.open(request)
    # A reader of another package may break its promise: the message then names the package.
    with registry.blaming("volume format", reader.name):
        if not isinstance(volume, Volume):
            raise TypeError(f"open() gave {type(volume).__name__}, no Volume")
    # A folder of a series changes when a file is added, which is none of it.
    if not request.path.is_dir():
        require_version(request.file, version, version_of(request.path))
    return volume


def _channel_of(volume: Volume, channel: int, dimensions: int) -> Volume:
    """Return one channel of a volume; one that its reader chose already has no axis for it."""
    if volume.channel == channel:
        return volume
    shape = volume.shape
    if len(shape) != dimensions + 1 or channel >= shape[0]:
        raise InputError(
            f"an array with channels first, {dimensions + 1} axes, and a channel {channel}",
            rule="volume-channels",
            file=volume.file,
            value=shape_text(shape),
        )
    # A function by name: workers in other processes receive it.
    reader = partial(_read_channel, volume, channel)
    return replace(volume, shape=shape[1:], reader=reader, channel=channel)


def _read_channel(volume: Volume, channel: int) -> Array:
    return np.asarray(volume.read()[channel])


def volume_readers() -> Iterator[VolumeReader]:
    """Yield the readers of all formats in the order in which they are asked."""
    for name in registry.known("volume format"):
        yield registry.reader("volume format", name, VolumeReader)


@cache
def extensions(*formats: str) -> tuple[str, ...]:
    """Return the extensions of some formats, or of all, longest first.

    The name of a sample is what stands before its extension, so ``.nii.gz`` comes before ``.gz``.
    """
    names: list[str] = []
    for reader in volume_readers():
        if not formats or reader.name in formats:
            names += reader.extensions
    return tuple(sorted(names, key=len, reverse=True))


def stem_of(name: str) -> str | None:
    """Return a file name without the extension of a volume; None if it has none."""
    base = name.rpartition("/")[2]
    for extension in extensions():
        if name.lower().endswith(extension) and len(extension) < len(base):
            return name[: -len(extension)]
    return None


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _reader_of(path: Path) -> VolumeReader:
    """Return the first reader that recognises a file, or that reads a folder."""
    if _is_folder(path):
        return next(reader for reader in volume_readers() if reader.reads_folder(path))
    require_file(path)
    with open_regular(path, follow=True) as file:
        head = file.read(HEAD)
    name = path.name.lower()
    if _is_pickle(head):  # whatever it is called
        raise _unreadable(name, head, str(path))
    # The order of the registry decides between readers that both recognise a file.
    for reader in volume_readers():
        with registry.blaming("volume format", reader.name):
            if reader.recognises(name, head):
                return reader
    raise _unreadable(name, head, str(path))


def _is_pickle(head: bytes) -> bool:
    # The PROTO opcode and the versions 2 to 5 of the protocol; DICOM may begin with any 128 bytes.
    is_dicom = head[128:132] == b"DICM"
    return len(head) > 1 and head[0] == 0x80 and head[1] in range(2, 6) and not is_dicom


def _unreadable(name: str, head: bytes, file: str) -> InputError:
    if name.endswith(PICKLES) or _is_pickle(head):
        hint = "a pickle can run any program: save the arrays with numpy.save or numpy.savez"
        return InputError(
            "an array or a volume", rule="pickle", file=file, value="a pickle", hint=hint
        )
    titles = []
    value: object = head[:8]
    for reader in volume_readers():
        titles.append(reader.title)
        if name.endswith(reader.extensions):
            error = reader.misnamed(file)
            if error is not None:
                return error
            value = f"another format, by its first bytes {head[:8]!r}"
    return InputError(", ".join(titles), rule="volume-format", file=file, value=value)
