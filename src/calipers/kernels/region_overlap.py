# SPDX-License-Identifier: Apache-2.0
"""The area under the per-region overlap curve, from voxels that are counted by score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def area_to_limit(overlap: F64, regions: F64, negatives: F64, limit: float) -> F64:
    """Return (R,) the mean overlap of regions over false positive rates from 0 to ``limit``.

    Parameters
    ----------
    overlap
        (R, B) by ascending score: summed over the regions, the share of a region that has just this
        score.
    regions
        (R,) how many regions there are.
    negatives
        (R, B) voxels outside of all regions with this score.
    limit
        The largest rate.

    Notes
    -----
    The curve is linear between the points of different scores, and cut at the limit by
    interpolation. NaN without a region or without a voxel outside of them. Shares that do not quite
    add up to the number of regions, because they were rounded, are taken relative to their sum: the
    curve ends at 1.
    """
    start = np.zeros((len(overlap), 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        height = np.concatenate([start, np.cumsum(overlap[:, ::-1], axis=1)], axis=1)
        height /= height[:, -1:]
        fallen = np.concatenate([start, np.cumsum(negatives[:, ::-1], axis=1)], axis=1)
        rate = fallen / fallen[:, -1:]
        width = np.diff(rate, axis=1)
        inside = np.minimum(rate[:, 1:], limit) - np.minimum(rate[:, :-1], limit)
        share = np.where(width > 0, inside / width, 0.0)
        area = inside * (height[:, :-1] + 0.5 * share * np.diff(height, axis=1))
        areas = np.minimum(area.sum(axis=1) / limit, 1.0)
    return np.where((regions > 0) & (fallen[:, -1] > 0), areas, np.nan)
