# SPDX-License-Identifier: Apache-2.0
"""The area under the per-region overlap (AUPRO): how much of each reference component is found per
false positive rate.

P. Bergmann, K. Batzner, M. Fauser, D. Sattlegger, C. Steger: The MVTec Anomaly Detection Dataset,
International Journal of Computer Vision 129, 2021.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.kernels.voxels import as_flags, as_scores

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Scores = NDArray[np.floating[Any]]
Arrays = NDArray[Any] | Sequence[NDArray[Any]]


def aupro(scores: Arrays, components: Arrays, limit: float = 0.3) -> float:
    """Return the area under the mean overlap of regions up to a false positive rate, divided by
    that rate.

    Parameters
    ----------
    scores
        The map of one sample, or a list with one per sample.
    components
        Whole numbers of the same shape: 0 outside of all components, else the component, unique
        inside of its sample.
    limit
        False positive rate up to which the area is taken, above 0 and at most 1.

    Notes
    -----
    At a threshold the overlap of a region is the share of its voxels with a score ``>=`` the
    threshold; the curve is its mean over all regions of all samples against the share of the voxels
    outside of regions, over all samples, with such a score. Operating points are the distinct
    scores and "none"; between neighbours the curve is a straight line, which is cut at ``limit``.
    Undefined (NaN) without regions or without voxels outside of them.

    The area under a mean is the mean of areas: a voxel of a region contributes the area under a
    ramp from (a, 0) to (b, 1) that stays at 1, with a and b the false positive rates just above its
    score and at its score. So one (partial) sort of the voxels outside of regions is all it takes.
    """
    pairs = _pairs_of(scores, components)
    inside, outside, region, n_regions = _collect(pairs)
    if not n_regions or not len(outside):
        return float("nan")
    return float(per_region(inside, outside, region, n_regions, limit).mean())


def per_region(inside: Scores, outside: Scores, region: I64, n_regions: int, limit: float) -> F64:
    """Return (n_regions,) the area of every region, divided by ``limit``; ``region`` (m,) is that
    of each voxel inside.

    The scores outside are put into another order, in place.
    """
    n = len(outside)
    # Scores below the one at which the limit is reached need no order: what lies there adds no
    # area.
    lowest = n - 1 - min(n - 1, math.ceil(limit * n))
    outside.partition(lowest)
    upper = outside[outside >= outside[lowest]]
    upper.sort()
    # Neighbours in score are neighbours in memory when they are looked up.
    order = np.argsort(inside)
    ascending = inside[order]
    before = (len(upper) - np.searchsorted(upper, ascending, side="right")) / n
    after = (len(upper) - np.searchsorted(upper, ascending, side="left")) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        cut = (limit - before) ** 2 / (2 * (after - before))
    areas = np.where(
        after <= limit, limit - (before + after) / 2, np.where(before < limit, cut, 0.0)
    )
    sums = np.bincount(region[order], weights=areas, minlength=n_regions)
    return np.asarray(sums / np.bincount(region, minlength=n_regions) / limit)


def _pairs_of(scores: Arrays, components: Arrays) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return one pair of arrays per sample."""
    if isinstance(scores, np.ndarray) and isinstance(components, np.ndarray):
        return [(scores, components)]
    return list(zip(scores, components, strict=True))


def _collect(pairs: list[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[Scores, Scores, I64, int]:
    """Return the scores inside and outside of regions, the region of the former, and how many
    regions there are.
    """
    if not pairs:
        return np.zeros(0), np.zeros(0), np.zeros(0, np.int64), 0
    inside, outside, region, n_regions = list[Scores](), list[Scores](), list[I64](), 0
    for scores, components in pairs:
        flat, labels = as_scores(scores), np.ascontiguousarray(components).reshape(-1)
        flags = as_flags(labels != 0)
        names, numbers = np.unique(labels[flags], return_inverse=True)
        inside.append(flat[flags])
        outside.append(flat[~flags])
        region.append(numbers + n_regions)
        n_regions += len(names)
    return np.concatenate(inside), np.concatenate(outside), np.concatenate(region), n_regions
