# SPDX-License-Identifier: Apache-2.0
"""Connected components of a mask, and what is measured on each."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Connectivity = Literal["full", "edges", "faces"]
CONNECTIVITIES: tuple[Connectivity, ...] = get_args(Connectivity)


def components(mask: Flags, connectivity: Connectivity) -> tuple[NDArray[np.int32], int]:
    """Return the number of the component of every voxel, 0 where there is none, and how many there are.

    Parameters
    ----------
    connectivity
        ``"full"``: voxels that share a corner are neighbours (8 in 2D, 26 in 3D); ``"edges"``: an edge (18 in 3D; in
        2D the same as faces); ``"faces"``: a side (4 and 6).

    Notes
    -----
    Components are numbered from 1 in the order of their first voxel.
    """
    from scipy import ndimage

    reach = {"faces": 1, "edges": mask.ndim - 1, "full": mask.ndim}[connectivity]
    labels, n = ndimage.label(mask, ndimage.generate_binary_structure(mask.ndim, reach))
    return np.asarray(labels, np.int32), int(n)


def bounds(labels: NDArray[np.int32]) -> F64:
    """Return (n, 4|6) boxes around the components 1..n: low corners, then high ones, x before y, half-open."""
    from scipy import ndimage

    found = ndimage.find_objects(labels)
    low = [[side.start for side in reversed(part)] for part in found]
    high = [[side.stop for side in reversed(part)] for part in found]
    corners = np.array([low, high], np.float64).reshape(2, -1, labels.ndim)
    return np.concatenate([corners[0], corners[1]], axis=1)


def sums(labels: NDArray[np.int32], values: F64, n: int) -> F64:
    """Return (n,) sums of the values over the components 1..n, added in the order of the voxels."""
    return np.asarray(np.bincount(labels.ravel(), values.ravel(), n + 1)[1:], np.float64)


def sizes(labels: NDArray[np.int32], n: int) -> I64:
    """Return (n,) numbers of voxels of the components 1..n."""
    return np.asarray(np.bincount(labels.ravel(), minlength=n + 1)[1:], np.int64)


def maxima(labels: NDArray[np.int32], values: F64, n: int) -> F64:
    """Return (n,) largest values on the components 1..n."""
    found = np.full(n + 1, -np.inf)
    np.maximum.at(found, labels.ravel(), values.ravel())
    return found[1:]


def window(mask: Flags) -> tuple[slice, ...] | None:
    """Return the smallest box that holds the mask, axis by axis; None if the mask is empty."""
    found = []
    for axis in range(mask.ndim):
        filled = np.flatnonzero(mask.any(axis=tuple(k for k in range(mask.ndim) if k != axis)))
        if not len(filled):
            return None
        found.append(slice(int(filled[0]), int(filled[-1]) + 1))
    return tuple(found)
