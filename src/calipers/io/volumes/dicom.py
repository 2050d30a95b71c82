# SPDX-License-Identifier: Apache-2.0
"""Open DICOM files as volumes (extra ``dicom``): images, several frames, segmentations, series.

In come a file or the folder of a series, out goes a `Volume`, to `open_volume`; pictures of the
report decode single frames with `require_decoder` and `decode`. pydicom reads headers and pixels,
highdicom segmentations.

Slices are sorted by their place in space, along their normal, and must be evenly spaced: then they
form a volume with an affine. Positions are in LPS and mm (DICOM PS3.3, C.7.6.2) and become RAS.
Files that cannot be decoded are refused. A header names patients: only the elements that describe
pixels are read, and nothing is kept, logged or quoted but numbers.
"""

from __future__ import annotations

import logging
import math
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from calipers.arrays import F64, Array
from calipers.errors import InputError, UsageError
from calipers.io.source import open_regular
from calipers.io.volumes.dicom_syntax import (
    DEFLATED,
    require_better_decoder,
    require_decoder,
    transfer_syntax,
)
from calipers.io.volumes.volume import (
    Request,
    Volume,
    VolumeReader,
    affine_of,
    axis_codes,
    broken_file,
    check_affine,
    check_directions,
    check_extent,
    check_packed,
    check_spacing,
    check_stored,
    spacing_of,
)

# The last numbers of the UIDs of transfer syntaxes that may be lossy (DICOM PS3.6, table A-1).
LOSSY = ("4.50", "4.51", "4.81", "4.91", "4.93", "4.112", "4.203")
# The only elements that are read: none of them names a patient.
ELEMENTS = (
    "SOPClassUID",
    "SeriesInstanceUID",
    "Rows",
    "Columns",
    "NumberOfFrames",
    "SamplesPerPixel",
    "BitsAllocated",
    "PixelRepresentation",
    "PhotometricInterpretation",
    "RescaleSlope",
    "RescaleIntercept",
    "PixelSpacing",
    "ImagePositionPatient",
    "ImageOrientationPatient",
    "SpacingBetweenSlices",
    "SharedFunctionalGroupsSequence",
    "PerFrameFunctionalGroupsSequence",
)

WHOLE = np.dtype(np.uint16)
FRACTION = np.dtype(np.float32)

UNEVEN = 0.01  # of the distance of slices: positions are written with few digits
SAME = 1e-4  # of cosines and spacings

# SOP classes (DICOM PS3.4): Segmentation Storage and Label Map Segmentation Storage.
SEGMENTATION = "1.2.840.10008.5.1.4.1.1.66.4"
LABEL_MAP = "1.2.840.10008.5.1.4.1.1.66.7"
GREYS = ("MONOCHROME1", "MONOCHROME2")
MOST_FRAMES = 65_536
PIXELS = (0x7FE00008, 0x7FE00009, 0x7FE00010)  # floats of 32 and 64 bits, whole numbers
UNSTATED = 0xFFFFFFFF  # the length of pixels in fragments

# A file begins with a preamble of 128 bytes and this mark (DICOM PS3.10, 7.1).
MARK, MARK_AT = b"DICM", 128
MOST_SLICES = 65_536


class DicomReader(VolumeReader):
    """A DICOM file, or a folder with the slices of a series."""

    name, title = "dicom", "DICOM"
    extensions = (".dcm", ".dicom")

    def recognises(self, name: str, head: bytes) -> bool:
        """Recognise the mark behind the preamble."""
        return head[MARK_AT : MARK_AT + len(MARK)] == MARK

    def open(self, request: Request) -> Volume:
        """Open an image, several frames, a segmentation, or a series."""
        return open_series(request) if request.path.is_dir() else open_dicom(request)

    def reads_folder(self, folder: Path) -> bool:
        """Accept every folder: `open_series` says what is wrong with it."""
        return True

    def misnamed(self, file: str) -> InputError:
        """Return the error for a file without preamble."""
        expected = f"{MARK.decode()} at byte {MARK_AT}"
        hint = "the DICOM file has no preamble: write it again with one"
        return InputError(expected, rule="volume-format", file=file, hint=hint)


def open_dicom(request: Request) -> Volume:
    """Return an image, or the volume of a file with several frames.

    Notes
    -----
    Values are rescaled by slope and intercept, and ``MONOCHROME1`` is not inverted. Frames that
    have positions are sorted by them and must be evenly spaced. Frames without positions stay in
    the order of the file, and the volume has no orientation.
    """
    # Segmentations are images to pydicom, but only highdicom knows which frame is which segment.
    header, encoding = header_of(request)
    # Before highdicom, which makes an entry for every frame that the header claims.
    frames = frames_of(header, request.file)
    if str(header.get("SOPClassUID")) in (SEGMENTATION, LABEL_MAP):
        places = len(header.get("PerFrameFunctionalGroupsSequence") or ())
        if places != frames:
            expected = f"a place of each of {frames} frames"
            raise InputError(expected, rule="dicom-series", file=request.file, value=places)
        return open_segments(request)
    plane = plane_of(header, request)
    shape = plane if frames == 1 else (frames, *plane)
    check_pixels(header, shape, encoding, request)
    order, affine, spacing = _place(header, frames, request.file)
    slope, inter = rescaling_of(header, request.file)
    stored = stored_dtype(header, request.file)
    # Rescaled values are fractions in general, and floats of 32 bits would round those of 32-bit
    # pixels.
    dtype = stored
    if (slope, inter) != (1.0, 0.0):
        dtype = np.dtype(np.float64)
    codes = None
    notes: tuple[str, ...] = ()
    if affine is not None:
        codes = axis_codes(affine, len(shape))
    elif frames > 1:
        notes = ("frames are in the order of the file: it has no positions",)
    return Volume(
        file=request.file,
        format="dicom",
        shape=shape,
        dtype=dtype,
        reader=partial(
            _read_dicom, request.path, stored, samples_of(header), (slope, inter), order
        ),
        spacing=spacing,
        affine=affine,
        codes=codes,
        notes=notes,
    )


def frames_of(header: Any, file: str) -> int:
    """Return the number of frames."""
    frames = int(header.get("NumberOfFrames") or 1)
    if not 1 <= frames <= MOST_FRAMES:
        raise InputError(f"1 to {MOST_FRAMES} frames", rule="too-large", file=file, value=frames)
    return frames


def plane_of(header: Any, request: Request) -> tuple[int, int]:
    """Return the rows and columns of a picture of one channel; only images may have several."""
    if samples_of(header) != 1 and request.role != "image":
        raise InputError("one channel", rule="volume-channels", file=request.file, value="colours")
    if str(header.get("PhotometricInterpretation")) not in GREYS and request.role != "image":
        raise InputError("shades of grey", rule="volume-channels", file=request.file)
    return int(header.get("Rows") or 0), int(header.get("Columns") or 0)


def stored_dtype(header: Any, file: str) -> np.dtype[Any]:
    """Return how a pixel is stored."""
    bits = int(header.get("BitsAllocated") or 0)
    signed = int(header.get("PixelRepresentation") or 0)
    if bits not in (8, 16, 32) or signed not in (0, 1):
        raise InputError(
            "pixels of 8, 16 or 32 bits", rule="volume-dtype", file=file, value=f"{bits} bits"
        )
    kind = "i" if signed else "u"
    return np.dtype(f"{kind}{bits // 8}")


@dataclass(frozen=True, slots=True)
class PixelEncoding:
    """Whether the pixels of a file are compressed, and how many bytes they have if that is said."""

    compressed: bool
    length: int | None


def check_pixels(
    header: Any, shape: tuple[int, ...], encoding: PixelEncoding, request: Request
) -> None:
    """Raise for a picture that is too large, or larger than its file."""
    # Before anything is decoded: the header may claim any number of pixels.
    each = stored_dtype(header, request.file).itemsize * samples_of(header)
    check_extent(shape, each, request.file, request.limits)
    needed, stored = math.prod(shape) * each, request.path.stat().st_size
    if not encoding.compressed:
        check_stored(needed, stored, request.file)
        # Elements have an even length. More is another size or more frames than the header says,
        # of which pydicom would give the beginning; for less it would read on in what follows.
        length = needed if encoding.length is None else encoding.length
        is_subsampled = header.get("PhotometricInterpretation") == "YBR_FULL_422"
        is_too_short = length < needed and not is_subsampled
        if is_too_short or length > needed + needed % 2:
            raise InputError(
                f"{needed:,} bytes of pixels, as the header says",
                rule="volume-broken",
                file=request.file,
                value=f"{length:,} bytes",
                hint="rows, columns, frames or bits of the header are wrong: export it again",
            )
    elif needed > request.limits.spared:
        check_packed(needed, stored, request.file, request.limits)


def rescaling_of(header: Any, file: str) -> tuple[float, float]:
    """Return slope and intercept."""
    slope, inter = header.get("RescaleSlope"), header.get("RescaleIntercept")
    if slope is None and inter is None:
        return 1.0, 0.0
    slopes = numbers_of(1.0 if slope is None else slope, 1)
    intercepts = numbers_of(0.0 if inter is None else inter, 1)
    if slopes is None or intercepts is None or slopes[0] == 0.0:
        raise InputError(
            "a rescaling by finite numbers", rule="non-finite", file=file, field="RescaleSlope"
        )
    return slopes[0], intercepts[0]


def slice_of(header: Any, name: str, *groups: Any) -> SlicePlace | None:
    """Return the place of a picture, from the functional groups of its frame or else from its own
    elements; None if unknown.
    """

    def element_of(sequence: str, element: str, count: int) -> tuple[float, ...] | None:
        for group in groups:
            for item in group.get(sequence) or ():
                # The groups of the frame come before the shared ones, and both before the elements
                # of the file.
                if (values := numbers_of(item.get(element), count)) is not None:
                    return values
        return numbers_of(header.get(element), count)

    position = element_of("PlanePositionSequence", "ImagePositionPatient", 3)
    orientation = element_of("PlaneOrientationSequence", "ImageOrientationPatient", 6)
    spacing = element_of("PixelMeasuresSequence", "PixelSpacing", 2)
    if position is None or orientation is None or spacing is None or min(spacing) <= 0:
        return None
    return SlicePlace(name, position, orientation, spacing)


def _place(
    header: Any, frames: int, file: str
) -> tuple[list[int] | None, F64 | None, tuple[float, ...] | None]:
    """Return the order of the frames, the affine and the spacing, as far as they are known."""
    common = tuple(header.get("SharedFunctionalGroupsSequence") or ())
    each = tuple(header.get("PerFrameFunctionalGroupsSequence") or ())
    if each and len(each) != frames:
        raise InputError(
            f"a place of each of {frames} frames", rule="dicom-series", file=file, value=len(each)
        )
    # A file with one frame may place it in its own elements; several frames need a group each.
    if frames == 1 or each:
        slices = []
        for k in range(frames):
            groups = (*each[k : k + 1], *common)
            place = slice_of(header, f"frame {k + 1}", *groups)
            if place is not None:
                slices.append(place)
        if len(slices) == frames:
            order, affine = stack_slices(slices, file)
            if frames == 1:
                return None, affine, spacing_of(affine, 2)
            return order, affine, spacing_of(affine, 3)
    plane = numbers_of(header.get("PixelSpacing"), 2)
    between = numbers_of(header.get("SpacingBetweenSlices"), 1)
    if plane is None or (frames > 1 and between is None):
        return None, None, None
    # A negative distance states the direction of the frames, which is unknown here.
    depth = () if frames == 1 or between is None else (abs(between[0]),)
    return None, None, check_spacing((plane[1], plane[0], *depth), file)


def decode(file: BinaryIO, index: int | None = None) -> Array:
    """Return the pixels of a file as they are stored: all frames, or the one at ``index``."""
    import warnings

    from PIL import Image
    from pydicom import dcmread
    from pydicom.pixels import pixel_array

    # An encapsulated picture may be larger than the header of the DICOM file claims.
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    syntax = transfer_syntax(file)
    file.seek(0)
    # pydicom looks for the pixels of a file before it unpacks it; its size was checked before.
    source = dcmread(file) if syntax == DEFLATED else file
    try:
        return np.asarray(pixel_array(source, index=index))
    except (RuntimeError, NotImplementedError) as error:
        file.seek(0)
        require_better_decoder(file, str(getattr(file, "name", "")))
        raise error


def samples_of(header: Any) -> int:
    """Return the number of channels of a pixel."""
    return int(header.get("SamplesPerPixel") or 1)


def read_pixels(path: Path, stored: np.dtype[Any], samples: int) -> Array:
    """Return all pixels of a file as they are stored; several channels become grey."""
    with open_regular(path, follow=True) as file, silent_logs():
        array = decode(file)
    # By the header, not by the shape: frames of three columns look like colours.
    if samples > 1:
        # Only images have colours, and they are only shown: a plain mean is grey enough.
        array = array.mean(axis=-1)
    return array.astype(stored, copy=False)


def _read_dicom(
    path: Path,
    stored: np.dtype[Any],
    samples: int,
    rescaling: tuple[float, float],
    order: list[int] | None,
) -> Array:
    array = read_pixels(path, stored, samples)
    if order is not None and order != list(range(len(order))):
        array = array[order]
    return rescale(array, rescaling)


def rescale(array: Array, rescaling: tuple[float, float]) -> Array:
    """Return values times slope plus intercept; unchanged if these are one and zero."""
    if rescaling == (1.0, 0.0):
        return array
    values = array.astype(np.float64)
    values *= rescaling[0]
    values += rescaling[1]
    return values


def open_series(request: Request) -> Volume:
    """Return the volume whose slices are the DICOM files of a folder.

    Notes
    -----
    Slices are sorted along their normal. They must be of one series, size, orientation and spacing,
    and evenly spaced.
    """
    file = request.file
    paths = _slices(request)
    if len(paths) == 1 and _has_frames(replace(request, path=paths[0])):
        return open_dicom(replace(request, path=paths[0]))
    # All headers before any pixel: a folder with two series is refused at once.
    headers = [header_of(replace(request, path=path)) for path in paths]
    first = headers[0][0]
    plane, stored = plane_of(first, request), stored_dtype(first, file)
    for path, (header, encoding) in zip(paths, headers):
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
        check_pixels(header, plane, encoding, one)
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
        reader=partial(_read_series, slice_paths, (stored, samples_of(first)), scalings, shape),
        spacing=spacing_of(affine, 3),
        affine=affine,
        codes=axis_codes(affine),
        parts=tuple(map(str, slice_paths)),
    )


def _has_frames(request: Request) -> bool:
    """Return whether a file is a volume by itself: a segmentation, or several frames."""
    header, _ = header_of(request)
    is_segmentation = str(header.get("SOPClassUID")) in (SEGMENTATION, LABEL_MAP)
    return is_segmentation or frames_of(header, request.file) > 1


def _slices(request: Request) -> list[Path]:
    """Return the DICOM files of a folder in the order of their names.

    A link that leads out of the folder is an error.
    """
    # File names say nothing about the order of slices: they only make the list reproducible.
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


def _read_series(
    paths: list[Path],
    pixel: tuple[np.dtype[Any], int],
    scalings: list[tuple[float, float]],
    shape: Any,
) -> Array:
    stored, samples = pixel
    plain = all(scaling == (1.0, 0.0) for scaling in scalings)
    volume = np.empty(shape, stored if plain else np.float64)
    for k, path in enumerate(paths):
        values = read_pixels(path, stored, samples)
        if values.shape != shape[1:]:
            raise broken_file(str(path), values.shape, "a slice of the size of the others")
        volume[k] = values if plain else rescale(values, scalings[k])
    return volume


@dataclass(frozen=True, slots=True)
class SlicePlace:
    """Where a slice is, in LPS and mm, and what messages call it."""

    name: str
    position: tuple[float, ...]  # centre of its first pixel
    orientation: tuple[float, ...]  # directions of its rows and its columns
    spacing: tuple[float, ...]  # between rows, between columns


def stack_slices(slices: Sequence[SlicePlace], file: str) -> tuple[list[int], F64]:
    """Return the order of the slices by position, and the affine of their volume; raise if they do
    not form one.

    The order is along the normal of the slices, so that x, y, z is right-handed wherever x, y and
    the normal are.
    """
    first = slices[0]
    across, down = np.array(first.orientation[:3]), np.array(first.orientation[3:])
    check_directions(np.array([across, down]), file, "ImageOrientationPatient")
    for other in slices[1:]:
        geometry = other.orientation + other.spacing
        if not np.allclose(geometry, first.orientation + first.spacing, rtol=0, atol=SAME):
            value = f"{first.name} and {other.name} differ"
            raise _no_volume("slices of one orientation and spacing", file, value)
    # Only the distance along the normal orders slices: positions as numbers, instance numbers and
    # file names may run against it.
    normal = np.cross(across, down)
    positions = np.array([one.position for one in slices])
    along = positions @ normal
    order = [int(k) for k in np.argsort(along, kind="stable")]
    if len(slices) == 1:
        step = normal
    else:
        gaps = np.diff(along[order])
        _check_gaps(gaps, [slices[k].name for k in order], file)
        # The mean step, because single positions are rounded; a gantry tilt stays in it.
        step = (positions[order[-1]] - positions[order[0]]) / (len(order) - 1)
        straight = positions[order[0]] + np.arange(len(order))[:, None] * step
        if np.abs(positions[order] - straight).max() > max(UNEVEN * gaps.mean(), 1e-3):
            raise _no_volume(
                "slices in one line", file, "slices that are shifted relative to each other"
            )
    steps = np.array([across * first.spacing[1], down * first.spacing[0], step])
    return order, check_affine(
        affine_of(steps, positions[order[0]], lps=True), file, "position and orientation"
    )


def _check_gaps(gaps: F64, names: list[str], file: str) -> None:
    # The median: with one slice missing the mean would blame all the other gaps.
    usual = float(np.median(gaps))
    for k, gap in enumerate(gaps.tolist()):
        if gap < 1e-3:
            value = f"{names[k]} and {names[k + 1]} at one place"
            raise _no_volume(
                "one slice per position", file, value, "split time points and echoes into folders"
            )
        if abs(gap - usual) > max(UNEVEN * usual, 1e-3):
            value = f"{gap:.4g} mm between {names[k]} and {names[k + 1]}, {usual:.4g} mm elsewhere"
            raise _no_volume("slices at even distances", file, value, "is a slice missing?")


def _no_volume(
    expected: str, file: str, value: str, hint: str = "one series per volume"
) -> InputError:
    return InputError(expected, rule="dicom-series", file=file, value=value, hint=hint)


def open_segments(request: Request) -> Volume:
    """Return the label volume of a segmentation, or one of its segments.

    Notes
    -----
    Without ``segment`` each voxel holds the number of its segment; overlapping and fractional
    segments are errors then, unless there is only one. With ``segment`` a voxel is 1 inside and 0
    outside, or the fraction. Segmentations often leave out empty slices: the volume then begins
    with the first stored slice and ends with the last.
    """
    with silent_logs("highdicom"), _told_queries(request.path):
        image = _segmentation(request.path)
        numbers = [int(n) for n in image.segment_numbers]
        if request.segment is not None and request.segment not in numbers:
            expected = f"one of the segments {numbers[:20]}"
            raise InputError(
                expected, rule="volume-member", file=request.file, value=request.segment
            )
        fractional = str(image.segmentation_type.value) == "FRACTIONAL"
        if fractional and len(numbers) == 1:
            # There is nothing to choose.
            request = replace(request, segment=numbers[0])
        if fractional and request.segment is None:
            hint = f"say which segment: {numbers[:20]}"
            raise InputError(
                "whole segments",
                rule="volume-member",
                file=request.file,
                value="fractions",
                hint=hint,
            )
        if max(numbers, default=0) > np.iinfo(WHOLE).max:
            raise InputError(
                "numbers of segments below 65,536", rule="too-large", file=request.file
            )
        geometry = image.get_volume_geometry()
        names = _segment_names(image, numbers, request.segment)
    if geometry is None:
        expected = "frames of one orientation at even distances"
        raise InputError(
            expected,
            rule="dicom-series",
            file=request.file,
            hint="export the segmentation as NIfTI",
        )
    shape = tuple(int(n) for n in geometry.spatial_shape)
    dtype = FRACTION if fractional else WHOLE
    check_extent(shape, dtype.itemsize, request.file, request.limits)
    flipped, affine = _ras_affine(np.asarray(geometry.affine), shape[0])
    affine = check_affine(affine, request.file)
    reader = partial(_read_segments, request.path, request.segment, dtype, flipped)
    note = f"{len(numbers)} segments; slices without a segment may be missing"
    if request.segment is not None:
        note = f"segment {request.segment}; slices without a segment may be missing"
    return Volume(
        file=request.file,
        format="dicom-seg",
        shape=shape,
        dtype=dtype,
        reader=reader,
        spacing=spacing_of(affine, 3),
        affine=affine,
        codes=axis_codes(affine),
        notes=(note,),
        sparse=True,
        names=names,
    )


def _segment_names(image: Any, numbers: Sequence[int], segment: int | None) -> dict[int, str]:
    """Return the labels of segments by their values in the volume: a single segment has 1."""
    names = {}
    for number in numbers if segment is None else [segment]:
        description = image.get_segment_description(number)
        label = str(getattr(description, "SegmentLabel", "") or "").strip()
        if label:
            names[number if segment is None else 1] = label
    return names


@contextmanager
def _told_queries(path: Path) -> Iterator[None]:
    """Raise an error that helps where highdicom, which keeps a database of the frames of a file,
    cannot ask it: the header indexes them by other attributes than those of the standard.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise InputError(
            "a DICOM segmentation whose frames can be looked up by segment and position",
            rule="volume-broken",
            file=str(path),
            value=str(error),
            hint="the file is whole, but its header indexes the frames in another way: export it "
            "anew with another program, or as NIfTI",
        ) from None


def _segmentation(path: Path) -> Any:
    try:
        import highdicom
    except ImportError:
        raise UsageError(
            f'{path}: DICOM segmentations need highdicom: pip install "calipers[dicom]"'
        ) from None
    from pydicom.datadict import tag_for_keyword

    with open_regular(path, follow=True) as file:
        is_deflated = transfer_syntax(file) == DEFLATED
    # Single frames cannot be found in a deflated file.
    try:
        return highdicom.seg.segread(path, lazy_frame_retrieval=not is_deflated)
    except AttributeError as error:
        keyword = re.search(r"attribute '(\w+)'", str(error))
        # A word of the dictionary tells nothing of a patient.
        if keyword is None or tag_for_keyword(keyword[1]) is None:
            raise
        raise InputError(
            "a complete DICOM segmentation",
            rule="volume-broken",
            file=str(path),
            value=f"no {keyword[1]}",
            hint="the program that wrote it left out what the standard requires: export it anew "
            "with another one, or as NIfTI",
        ) from None


def _ras_affine(affine: F64, depth: int) -> tuple[bool, F64]:
    """Return whether slices are to be reversed, and the affine for the index x, y, z in RAS.

    The affine of highdicom is for z, y, x in LPS, and its slices may run against their normal;
    those of a series run along it.
    """
    x, y, z, origin = affine[:3, 2], affine[:3, 1], affine[:3, 0], affine[:3, 3]
    flipped = bool(np.cross(x, y) @ z < 0)
    if flipped:
        origin, z = origin + (depth - 1) * z, -z
    return flipped, affine_of([x, y, z], origin, lps=True)


def _read_segments(path: Path, segment: int | None, dtype: np.dtype[Any], flipped: bool) -> Array:
    voxels = _voxels(path, segment, dtype)
    return voxels[::-1] if flipped else voxels


def _voxels(path: Path, segment: int | None, dtype: np.dtype[Any]) -> Array:
    with silent_logs("highdicom"), _told_queries(path):
        image = _segmentation(path)
        if segment is not None:
            volume = image.get_volume(segment_numbers=[segment], dtype=dtype)
            return np.asarray(volume.array)[..., 0]
        try:
            return np.asarray(image.get_volume(combine_segments=True, dtype=dtype).array)
        except RuntimeError:
            hint = f"read them one by one: segment={int(image.segment_numbers[0])} and so on"
            raise InputError(
                "segments that do not overlap", rule="volume-member", file=str(path), hint=hint
            ) from None


def header_of(request: Request) -> tuple[Any, PixelEncoding]:
    """Return the elements of a file that describe its pixels, and how these are stored."""
    try:
        import pydicom  # noqa: F401  # only whether it is there
    except ImportError:
        raise UsageError(
            f'{request.file}: DICOM files need pydicom: pip install "calipers[dicom]"'
        ) from None
    with open_regular(request.path, follow=True) as file, silent_logs():
        syntax, name = require_decoder(file, request.file)
        if request.role == "labels" and str(syntax).endswith(LOSSY):
            hint = "save labels without compression losses"
            raise InputError(
                "labels without compression losses",
                rule="lossy",
                file=request.file,
                value=name,
                hint=hint,
            )
        header, length = _elements(file)
    return header, PixelEncoding(bool(syntax.is_compressed) or syntax == DEFLATED, length)


def _elements(file: BinaryIO) -> tuple[Any, int | None]:
    """Return the elements before the pixels, and how many bytes these have; None if that is not
    stated.
    """
    from pydicom.filereader import read_partial
    from pydicom.tag import Tag

    lengths: list[int] = []

    def at_pixels(tag: Any, vr: str | None, length: int) -> bool:
        if int(tag) not in PIXELS:
            return False
        lengths.append(length)
        return True

    header = read_partial(file, at_pixels, specific_tags=[Tag(name) for name in ELEMENTS])
    stated = lengths and lengths[0] != UNSTATED
    return header, lengths[0] if stated else None


def numbers_of(element: Any, count: int) -> tuple[float, ...] | None:
    """Return the ``count`` finite numbers of an element; None if it is absent or has others."""
    if element is None or isinstance(element, str):
        return None
    values = [element] if isinstance(element, int | float) else list(element)
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        return None
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        return None
    return numbers


@contextmanager
def silent_logs(*names: str) -> Iterator[None]:
    """Keep pydicom, and the loggers ``names``, from logging: their warnings quote elements."""
    loggers = [logging.getLogger(name) for name in ("pydicom", *names)]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)  # a level also holds for the loggers below it
    try:
        yield
    finally:
        for logger, level in zip(loggers, before):
            logger.setLevel(level)
