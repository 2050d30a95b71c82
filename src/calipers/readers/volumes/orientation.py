# SPDX-License-Identifier: Apache-2.0
"""Place voxels in the patient: affines, directions of axes, and the distance between two grids.

An affine (4, 4) takes the index x, y, z of a voxel to its centre in mm; right, anterior and
superior are positive. A voxel reaches half a step to either side of its centre.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.errors import InputError

F64 = NDArray[np.float64]
DIRECTIONS = ("LR", "PA", "IS")  # towards the negative and the positive end of each axis in mm
TOLERANCE = 1e-3  # mm over the corners


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
    if lps:
        affine[:2] *= -1.0
    return affine


def spacing_of(affine: F64, dimensions: int) -> tuple[float, ...]:
    """Return the distance of neighbouring voxels in mm along x, y[, z]."""
    return tuple(float(n) for n in np.linalg.norm(affine[:3, :dimensions], axis=0))


def axis_codes(affine: F64, dimensions: int = 3) -> str:
    """Return where the axes x, y[, z] point, such as ``"RAS"``: the nearest direction, each only
    once.

    Shear is removed first; the axis that is nearest to a direction is assigned first, as in
    nibabel.
    """
    steps = affine[:3, :3]
    u, _, vt = np.linalg.svd(
        steps / np.maximum(np.linalg.norm(steps, axis=0), np.finfo(float).tiny)
    )
    rotation = u @ vt
    near, letters = np.abs(rotation), [""] * 3
    for k in np.argsort(-near.max(axis=0), kind="stable"):
        row = int(near[:, k].argmax())
        letters[k] = DIRECTIONS[row][int(rotation[row, k] > 0)]
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
            and abs(np.linalg.det(steps / lengths)) > 1e-6
        )
    if not sound:
        expected = "three axes that span the space"
        raise InputError(
            expected, rule="affine", file=file, field=source, value=steps.round(6).tolist()
        )
    return affine


def check_spacing(spacing: tuple[float, ...], file: str) -> tuple[float, ...]:
    """Return spacings that are finite and above zero, or raise."""
    if not all(np.isfinite(step) and step > 0 for step in spacing):
        expected = "spacings above zero"
        raise InputError(
            expected, rule="spacing", file=file, value=spacing, hint="correct the header"
        )
    return tuple(float(step) for step in spacing)
