# SPDX-License-Identifier: Apache-2.0
"""Limits on volumes, checked before anything is allocated.

Readers call these functions with the sizes of a header; a header that claims more than its file can
hold, or more than `Limits` allow, is an `InputError`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from calipers.errors import InputError

# Deflate expands one byte to at most 1032 (zlib technical details); a header that claims more is
# wrong, or its file is truncated.
DEFLATE = 1032
SLACK = 4096  # bytes of headers that the comparison allows for


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


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as text, in the order of its axes: ``"64 x 512 x 512"``."""
    return " x ".join(str(n) for n in shape)


def check_extent(shape: tuple[int, ...], each: int, file: str, limits: Limits) -> None:
    """Raise for a shape ``[z, ]y, x`` with too few or too many axes, without voxels, or too large.

    A voxel has ``each`` bytes.
    """
    if not 2 <= len(shape) <= limits.axes:
        expected = "two or three axes" if limits.axes == 3 else f"two to {limits.axes} axes"
        hint = f"one channel or time point per file, {expected}"
        raise InputError(
            expected, rule="volume-shape", file=file, value=shape_text(shape), hint=hint
        )
    if any(n < 1 for n in shape):
        raise InputError(
            "at least one voxel", rule="volume-shape", file=file, value=shape_text(shape)
        )
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
