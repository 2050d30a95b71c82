# SPDX-License-Identifier: Apache-2.0
"""Limits that hold before anything is allocated: what a header says is compared with what its file
can hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from calipers.errors import InputError

# bytes that one packed byte can stand for at most: what says more is cut off, or lies
DEFLATE = 1032
SLACK = 4096  # bytes of headers that such a comparison leaves open


@dataclass(frozen=True, slots=True)
class Limits:
    """What one volume may be at most."""

    axes: int = 3  # 4: an axis of classes may come before z
    voxels: int = 2**31
    pixels: int = 250_000_000  # of one 2D image or slice
    bytes: int = 8 << 30  # unpacked
    ratio: int = 200  # unpacked to packed, of volumes that are larger than `spared`
    spared: int = (
        1 << 30
    )  # unpacked bytes up to which the ratio is free: labels of an empty volume pack 1000 to 1


DEFAULT = Limits()


def said(shape: tuple[int, ...]) -> str:
    """Return a shape in words, in the order of its axes."""
    return " x ".join(str(n) for n in shape)


def check_extent(shape: tuple[int, ...], each: int, file: str, limits: Limits) -> None:
    """Raise for a shape ``[z, ]y, x`` that is none, is empty or is too large; a voxel has ``each``
    bytes.
    """
    if not 2 <= len(shape) <= limits.axes:
        wanted = "two or three axes" if limits.axes == 3 else f"two to {limits.axes} axes"
        hint = f"one channel or time point per file, {wanted}"
        raise InputError(wanted, rule="volume-shape", file=file, value=said(shape), hint=hint)
    if any(n < 1 for n in shape):
        raise InputError("a voxel at least", rule="volume-shape", file=file, value=said(shape))
    voxels = math.prod(shape)
    if shape[-1] * shape[-2] > limits.pixels:
        raise _too_large(
            f"at most {limits.pixels:,} pixels in an image or slice", file, said(shape)
        )
    if voxels > limits.voxels:
        raise _too_large(f"at most {limits.voxels:,} voxels", file, said(shape))
    if voxels * each > limits.bytes:
        raise _too_large(f"at most {limits.bytes:,} bytes unpacked", file, voxels * each)


def check_packed(unpacked: int, packed: int, file: str, limits: Limits) -> None:
    """Raise if a packed file cannot hold what its header says, or would unpack like a bomb."""
    if unpacked > DEFLATE * packed + SLACK:
        raise InputError(
            f"a file that holds the {unpacked:,} bytes of its header",
            rule="volume-broken",
            file=file,
            value=f"{packed:,} packed bytes",
            hint="it is cut off, or its header is wrong",
        )
    if unpacked > limits.spared and unpacked > limits.ratio * packed:
        expected = (
            f"at most {limits.ratio} bytes unpacked for a packed one beyond {limits.spared:,} bytes"
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
            hint="was the copy cut off?",
        )


def _too_large(expected: str, file: str, value: object) -> InputError:
    return InputError(
        expected, rule="too-large", file=file, value=value, hint="crop it or split it"
    )
