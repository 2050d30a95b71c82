# SPDX-License-Identifier: Apache-2.0
"""Sort slices by their place in space, and compute the affine of the volume that they form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calipers.errors import InputError
from calipers.readers.volumes.orientation import affine_of, check_affine
from calipers.readers.volumes.volume import F64

UNEVEN = 0.01  # of the distance of slices: positions are written with few digits
SAME = 1e-4  # of cosines and spacings


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
    for other in slices[1:]:
        geometry = other.orientation + other.spacing
        if not np.allclose(geometry, first.orientation + first.spacing, rtol=0, atol=SAME):
            value = f"{first.name} and {other.name} differ"
            raise _no_volume("slices of one orientation and spacing", file, value)
    normal = np.cross(across, down)
    positions = np.array([one.position for one in slices])
    along = positions @ normal
    order = [int(k) for k in np.argsort(along, kind="stable")]
    if len(slices) == 1:
        step = normal
    else:
        gaps = np.diff(along[order])
        _check_gaps(gaps, [slices[k].name for k in order], file)
        step = (positions[order[-1]] - positions[order[0]]) / (len(order) - 1)
        straight = positions[order[0]] + np.arange(len(order))[:, None] * step
        if np.abs(positions[order] - straight).max() > max(UNEVEN * gaps.mean(), 1e-3):
            raise _no_volume(
                "slices in one line", file, "slices that are shifted against each other"
            )
    steps = np.array([across * first.spacing[1], down * first.spacing[0], step])
    return order, check_affine(
        affine_of(steps, positions[order[0]], lps=True), file, "position and orientation"
    )


def _check_gaps(gaps: F64, names: list[str], file: str) -> None:
    usual = float(np.median(gaps))
    for k, gap in enumerate(gaps.tolist()):
        if gap < 1e-3:
            value = f"{names[k]} and {names[k + 1]} at one place"
            raise _no_volume(
                "one slice at a place", file, value, "split time points and echoes into folders"
            )
        if abs(gap - usual) > max(UNEVEN * usual, 1e-3):
            value = f"{gap:.4g} mm between {names[k]} and {names[k + 1]}, {usual:.4g} mm elsewhere"
            raise _no_volume("slices at even distances", file, value, "is a slice missing?")


def _no_volume(
    expected: str, file: str, value: str, hint: str = "one series per volume"
) -> InputError:
    return InputError(expected, rule="dicom-series", file=file, value=value, hint=hint)
