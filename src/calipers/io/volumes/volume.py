# SPDX-License-Identifier: Apache-2.0
"""`Volume`: the header of an image or volume on disk. Voxels are read on demand.

A `VolumeReader` per format makes a `Volume` from a `Request`; `calipers.io.volumes.open` chooses
the reader. What the readers share is here: limits that are checked before anything is allocated (a
header that claims more than its file can hold, or more than `Limits` allow, is an `InputError`),
streams that are read to their end, where their checksum is, and affines.

An affine (4, 4) takes the index x, y, z of a voxel to its centre in mm; right, anterior and
superior are positive (RAS). A voxel reaches half a step to either side of its centre. Arrays count
the other way round: ``[z, ]y, x``.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from calipers.arrays import F64, U8, Array
from calipers.errors import CalipersError, InputError
from calipers.io.archives import ArchiveMember
from calipers.io.source import (
    FileVersion,
    hash_file,
    open_regular,
    require_version,
    version_of,
)

Role = Literal["labels", "map", "image"]


# Deflate expands one byte to at most 1032 (zlib technical details); a header that claims more is
# wrong, or its file is truncated.
DEFLATE = 1032
SLACK = 4096  # bytes of headers that the comparison allows for

GZIP_MARK = b"\x1f\x8b"
# Bytes that are unpacked at a time.
STEP = 1 << 22
MOST_BEHIND = 1 << 24  # bytes after the voxels that are read for the sake of the checksum

# Cosine between two axes of a grid up to which they count as at right angles: headers round.
MOST_SHEAR = 1e-3

UNIT_TOLERANCE = 1e-2  # of the length of a direction that was written with few digits
DIRECTIONS = ("LR", "PA", "IS")  # towards the negative and the positive end of each axis in mm
# Corners differ more than centres when a direction is rounded, so they are what is compared.
TOLERANCE = 1e-3  # mm over the corners


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest volume that is read."""

    axes: int = 3  # 4: an axis of classes may come before z
    voxels: int = 2**31
    pixels: int = 250_000_000  # of one 2D image or slice
    bytes: int = 8 << 30  # unpacked
    ratio: int = 200  # unpacked to packed, of volumes that are larger than `spared`
    # Unpacked bytes up to which any ratio is fine: the labels of an empty volume pack 1000 to 1.
    spared: int = 1 << 30


DEFAULT = Limits()


@dataclass(frozen=True, slots=True)
class Request:
    """A file to open, and how to open it."""

    path: Path
    role: Role = "map"
    member: str | None = None  # of an archive
    segment: int | None = None  # of a DICOM segmentation
    channel: int | None = None  # of a file whose first axis counts channels
    limits: Limits = DEFAULT

    @property
    def file(self) -> str:
        """The path as messages show it."""
        return str(self.path)


@dataclass(frozen=True, eq=False)
class Volume:
    """An image or volume whose header was read, but not its voxels.

    The affine takes the index ``x, y, z`` of a voxel to the place of its centre in mm: right,
    anterior and superior are positive. ``codes`` are the directions of the axes x, y[, z]. Both are
    None if the file does not have them.
    """

    file: str
    format: str
    shape: tuple[int, ...]  # [z, ]y, x
    dtype: np.dtype[Any]  # of what `read` gives
    reader: Callable[[], Array] = field(repr=False)
    spacing: tuple[float, ...] | None = None  # mm along x, y[, z]
    affine: F64 | None = field(default=None, repr=False)
    codes: str | None = None
    notes: tuple[str, ...] = ()
    parts: tuple[str, ...] = field(default=(), repr=False)  # files of a series; empty = one file
    channel: int | None = None  # the only channel of its file that this is
    sparse: bool = False  # whether slices without anything in them may be missing
    names: Mapping[int, str] = field(default_factory=dict, repr=False)  # of labels, if it has any
    member: ArchiveMember | None = field(default=None, repr=False)  # of an archive
    # Of its files when the header was read: voxels of another version would not fit to it.
    versions: tuple[FileVersion | None, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self.versions:
            object.__setattr__(self, "versions", self._versions())

    def _versions(self) -> tuple[FileVersion | None, ...]:
        if self.member is not None:
            return (self.member.version,)
        return tuple(map(version_of, self.parts or (self.file,)))

    def require_unchanged(self) -> None:
        """Raise if a file was changed or replaced since its header was read."""
        if self.member is not None:
            return  # who reads a member looks at its archive
        for file, version in zip(self.parts or (self.file,), self.versions):
            require_version(file, version, version_of(file))

    @property
    def dimensions(self) -> int:
        """2 or 3; 4 only where the limits allow it."""
        return len(self.shape)

    @property
    def size(self) -> tuple[int, ...]:
        """Width, height[, depth]."""
        return self.shape[::-1]

    def read(self) -> Array:
        """Return the voxels as an array ``[z, ]y, x`` in C order, with the slope and intercept of
        the header applied.

        Nothing is cached: a second call reads the file again.
        """
        # Decoders of other projects run here; whatever they raise becomes one message without
        # quotes.
        with guarded(self.file):
            try:
                array = self.reader()
            finally:
                # Asked after reading, and first: a decoder stumbles over bytes of another version.
                self.require_unchanged()
        if array.shape != self.shape:
            expected = f"voxels of the shape in the header, {shape_text(self.shape)}"
            raise InputError(
                expected, rule="volume-broken", file=self.file, value=shape_text(array.shape)
            )
        # Kernels expect C order; an array of Fortran order or of reversed slices is copied here.
        return np.ascontiguousarray(array)

    @cached_property
    def sha256(self) -> str:
        """The hash of the file; of a series, the hash of the hashes of its files in the order of
        the slices.
        """
        if self.member is not None:
            return hashlib.sha256(self.member.read()).hexdigest()
        content = "".join(hash_file(Path(part)) for part in self.parts or (self.file,))
        self.require_unchanged()
        return hashlib.sha256(content.encode()).hexdigest() if self.parts else content

    @cached_property
    def bytes(self) -> int:
        """The size on disk."""
        if self.member is not None:
            return self.member.packed
        return sum(Path(part).stat().st_size for part in self.parts or (self.file,))

    def trace(self) -> list[str]:
        """Return texts that change when a file does: names, sizes and times, not the content."""
        if self.member is not None:
            return [self.member.trace()]
        words = []
        for name in self.parts or (self.file,):
            facts = Path(name).stat()
            words.append(f"{Path(name).name}:{facts.st_size}:{facts.st_mtime_ns}")
        return words


class VolumeReader(ABC):
    """A format of images and volumes.

    A format is one class, and one line in `calipers.registry`; a package of others declares its own
    as an entry point of the group ``calipers.volumes``. `calipers.io.volumes.open` chooses the
    reader of a file.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # what messages call it
    extensions: ClassVar[tuple[str, ...]]  # in lower case, with the dot

    def recognises(self, name: str, head: bytes) -> bool:
        """Return whether a file has this format, by its name in lower case and its first bytes.

        The extension decides, unless a format has a mark in its first bytes and looks for that.
        """
        return name.endswith(self.extensions)

    @abstractmethod
    def open(self, request: Request) -> Volume:
        """Read the header of a file, or of the files of a folder."""

    def reads_folder(self, folder: Path) -> bool:
        """Return whether all files of a folder together are one volume of this format."""
        return False

    def misnamed(self, file: str) -> InputError | None:
        """Return the error for a file that has an extension of this format and is of no format;
        None: the general one.
        """
        return None


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as text, in the order of its axes: ``"64 x 512 x 512"``."""
    return " x ".join(str(n) for n in shape)


def check_extent(shape: tuple[int, ...], each: int, file: str, limits: Limits) -> None:
    """Raise for a shape ``[z, ]y, x`` with too few or too many axes, without voxels, or too large.

    A voxel has ``each`` bytes.
    """
    if not 2 <= len(shape) <= limits.axes:
        expected = "two or three axes" if limits.axes == 3 else f"two to {limits.axes} axes"
        hint = f"one channel or time point per file, {expected}; maps choose one with --channel N"
        raise InputError(
            expected, rule="volume-shape", file=file, value=shape_text(shape), hint=hint
        )
    if any(n < 1 for n in shape):
        raise InputError(
            "at least one voxel", rule="volume-shape", file=file, value=shape_text(shape)
        )
    # Python's integers do not overflow, so the product is safe whatever the header claims.
    voxels = math.prod(shape)
    if shape[-1] * shape[-2] > limits.pixels:
        raise _too_large(
            f"at most {limits.pixels:,} pixels in an image or slice", file, shape_text(shape)
        )
    if voxels > limits.voxels:
        raise _too_large(f"at most {limits.voxels:,} voxels", file, shape_text(shape))
    if voxels * each > limits.bytes:
        raise _too_large(f"at most {limits.bytes:,} bytes unpacked", file, voxels * each)


def check_packed(unpacked: int, packed: int, file: str, limits: Limits) -> None:
    """Raise if a packed file cannot hold what its header says, or looks like a zip bomb."""
    if unpacked > DEFLATE * packed + SLACK:
        raise InputError(
            f"a file that holds the {unpacked:,} bytes its header promises",
            rule="volume-broken",
            file=file,
            value=f"{packed:,} packed bytes",
            hint="the file is truncated, or its header is wrong",
        )
    if unpacked > limits.spared and unpacked > limits.ratio * packed:
        expected = (
            f"a compression of at most {limits.ratio} to 1 for more than {limits.spared:,} bytes"
        )
        raise _too_large(expected, file, f"{unpacked:,} from {packed:,}")


def check_stored(needed: int, stored: int, file: str) -> None:
    """Raise if a file that is not packed is shorter than its header says."""
    if stored < needed:
        raise InputError(
            f"{needed:,} bytes, as the header says",
            rule="volume-broken",
            file=file,
            value=f"{stored:,} bytes",
            hint="the file is truncated: copy it again",
        )


def _too_large(expected: str, file: str, value: object) -> InputError:
    return InputError(
        expected, rule="too-large", file=file, value=value, hint="crop it or split it"
    )


@contextmanager
def guarded(file: str) -> Iterator[None]:
    """Turn any exception of a decoder into a ``volume-broken`` error.

    The message of a decoder may quote a header with the name of a patient, so only the type of its
    exception is kept.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they may quote headers, too
            yield
    except CalipersError:
        raise
    except Exception as error:
        raise broken_file(file, type(error).__name__) from None


def broken_file(file: str, value: object, expected: str = "a whole file") -> InputError:
    """Return the error for a file that is truncated or damaged."""
    hint = "it may be truncated or damaged: copy it again, or open it with another program"
    return InputError(expected, rule="volume-broken", file=file, value=value, hint=hint)


def is_packed(path: Path) -> bool:
    """Return whether a file begins as gzip files do."""
    with open_regular(path, follow=True) as file:
        return file.read(len(GZIP_MARK)) == GZIP_MARK


def read_head(path: Path, count: int, *, packed: bool) -> bytes:
    """Return at most ``count`` bytes of the beginning, unpacked."""
    with open_regular(path, follow=True) as file:
        if not packed:
            return file.read(count)
        with gzip.GzipFile(fileobj=file) as stream:
            return stream.read(count)


def read_stored(path: Path, start: int, count: int) -> U8:
    """Return ``count`` bytes from ``start`` on."""
    with open_regular(path, follow=True) as file:
        file.seek(start)
        return fill(file, count, str(path))


def read_gzip(path: Path, start: int, skip: int, count: int, *, verify: bool = True) -> U8:
    """Return ``count`` bytes after ``skip`` of a gzip stream that begins at ``start``.

    ``verify``: read the few bytes to its end, where its checksum is.
    """
    with open_regular(path, follow=True) as file:
        file.seek(start)
        # Read, not sought, so that a stream that ends before its voxels is noticed here.
        with gzip.GzipFile(fileobj=file) as stream:
            while skip:
                step = stream.read(min(skip, STEP))
                if not step:
                    raise broken_file(str(path), "the end of the file", "voxels after the header")
                skip -= len(step)
            raw = fill(stream, count, str(path))
            if verify:
                drain(stream, str(path))
            return raw


def read_zlib(path: Path, start: int, count: int) -> U8:
    """Return the ``count`` bytes of a zlib stream from ``start`` to the end of the file, and verify
    its checksum.
    """
    raw, size = np.empty(count, np.uint8), 0
    decoder = zlib.decompressobj()
    with open_regular(path, follow=True) as file:
        file.seek(start)
        while not decoder.eof:
            packed = decoder.unconsumed_tail or file.read(STEP)
            if packed:
                # One byte more than is needed: it reveals a longer stream without unpacking it.
                step = decoder.decompress(packed, min(STEP, count - size) + 1)
            else:
                step = decoder.flush()
            if size + len(step) > count:
                raise broken_file(str(path), "more of them", f"{count:,} bytes of voxels")
            raw[size : size + len(step)] = np.frombuffer(step, np.uint8)
            size += len(step)
            if not packed:
                break
    if not decoder.eof or size < count:
        raise broken_file(str(path), f"{size:,} bytes", f"{count:,} bytes of voxels")
    return raw


def fill(stream: Any, count: int, file: str) -> U8:
    """Return the next ``count`` bytes of a stream, or raise."""
    raw = np.empty(count, np.uint8)
    view, size = memoryview(raw.data), 0
    while size < count:
        step = stream.readinto(view[size : size + STEP])
        if not step:
            raise broken_file(file, f"{size:,} bytes", f"{count:,} bytes of voxels")
        size += step
    return raw


def drain(stream: Any, file: str) -> None:
    """Read a compressed stream to its end, where its checksum is; a long rest is an error."""
    size = 0
    while step := stream.read(STEP):
        size += len(step)
        if size > MOST_BEHIND:
            raise InputError(
                "an end after the voxels",
                rule="too-large",
                file=file,
                value=f"more than {MOST_BEHIND:,} bytes behind them",
                hint="the header says less than the file holds",
            )


def affine_of(steps: ArrayLike, origin: ArrayLike, *, lps: bool) -> F64:
    """Return the affine of a grid from the steps (d, 3) along its axes and the centre of its first
    voxel.

    ``lps``: left and posterior are positive in the input, as in DICOM and ITK. A missing third step
    is the normal of the other two, one mm long.
    """
    along = np.asarray(steps, np.float64)
    if len(along) == 2:
        normal = np.cross(along[0], along[1])
        along = np.vstack([along, normal / (np.linalg.norm(normal) or 1.0)])
    affine = np.eye(4)
    affine[:3, :3] = along.T
    affine[:3, 3] = origin
    # Left and posterior change sign, superior does not: LPS and RAS share the third axis.
    if lps:
        affine[:2] *= -1.0
    return affine


def spacing_of(affine: F64, dimensions: int) -> tuple[float, ...] | None:
    """Return the distance of neighbouring voxels in mm along x, y[, z]; None if the axes are not
    at right angles.

    On a sheared grid, such as a series with a tilted gantry, steps along the axes do not add up to
    a distance in space. A metric in mm must then refuse, not compute something near it.
    """
    steps = affine[:3, :dimensions]
    lengths = np.linalg.norm(steps, axis=0)
    cosines = (steps / lengths).T @ (steps / lengths) - np.eye(dimensions)
    if np.abs(cosines).max() > MOST_SHEAR:
        return None
    return tuple(float(length) for length in lengths)


def axis_codes(affine: F64, dimensions: int = 3) -> str:
    """Return where the axes x, y[, z] point, such as ``"RAS"``: the nearest direction, each only
    once.

    Shear is removed first; the axis that is nearest to a direction is assigned first, as in
    nibabel.
    """
    steps = affine[:3, :3]
    # The rotation that is nearest to the steps; lengths are divided out first, or a long axis would
    # pull the others towards itself.
    u, _, vt = np.linalg.svd(
        steps / np.maximum(np.linalg.norm(steps, axis=0), np.finfo(float).tiny)
    )
    rotation = u @ vt
    near, letters = np.abs(rotation), [""] * 3
    for k in np.argsort(-near.max(axis=0), kind="stable"):
        row = int(near[:, k].argmax())
        letters[k] = DIRECTIONS[row][int(rotation[row, k] > 0)]
        # A direction that was assigned is out of the running for the other axes.
        near[row] = -1.0
    return "".join(letters[:dimensions])


def corners(affine: F64, size: tuple[int, ...]) -> F64:
    """Return the (8, 3) corners in mm of a grid of width, height[, depth]; a picture is one voxel
    deep.
    """
    lengths = (*size, 1)[:3]
    ends = np.array(list(product(*((-0.5, n - 0.5) for n in lengths))))
    return np.asarray(ends @ affine[:3, :3].T + affine[:3, 3])


def corner_distance(
    first: F64, second: F64, size: tuple[int, ...], other: tuple[int, ...] | None = None
) -> float:
    """Return the largest distance in mm between corresponding corners of two grids."""
    apart = corners(first, size) - corners(second, other or size)
    return float(np.sqrt((apart**2).sum(axis=1)).max())


def check_affine(affine: F64, file: str, source: str = "affine") -> F64:
    """Return an affine that is finite and has three axes, or raise."""
    if not np.isfinite(affine).all():
        raise InputError(
            "finite numbers", rule="affine", file=file, field=source, value="NaN or infinity"
        )
    steps = affine[:3, :3]
    lengths = np.linalg.norm(steps, axis=0)
    with np.errstate(all="ignore"):
        sound = (
            (lengths > 0).all()
            and np.isfinite(lengths).all()
            # The volume that the unit steps span: zero if the axes lie in a plane.
            and abs(np.linalg.det(steps / lengths)) > 1e-6
        )
    if not sound:
        expected = "three axes that span the space"
        raise InputError(
            expected, rule="affine", file=file, field=source, value=steps.round(6).tolist()
        )
    return affine


def check_directions(rows: F64, file: str, source: str) -> None:
    """Raise unless the rows are directions: vectors of length 1, as far as written digits tell.

    Formats that store lengths apart from directions would otherwise multiply the two.
    """
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(rows, axis=1)
    if not (np.abs(lengths - 1.0) <= UNIT_TOLERANCE).all():
        raise InputError(
            "directions of length 1",
            rule="affine",
            file=file,
            field=source,
            value=rows.round(6).tolist(),
            hint="correct the header: the spacing has a field of its own",
        )


def check_spacing(spacing: tuple[float, ...], file: str) -> tuple[float, ...]:
    """Return spacings that are finite and above zero, or raise."""
    if not all(np.isfinite(step) and step > 0 for step in spacing):
        expected = "spacings above zero"
        raise InputError(
            expected, rule="spacing", file=file, value=spacing, hint="correct the header"
        )
    return tuple(float(step) for step in spacing)
