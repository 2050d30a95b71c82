# SPDX-License-Identifier: Apache-2.0
"""AUROC, average precision and overlap from histograms of voxels under many weightings at once, and bounds for them.

A bin is treated as one score. Where that is so the figures are exact; else `bounds` encloses the exact ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import ragged

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Flags = NDArray[np.bool_]
Counts = I64 | F64

AT_ONCE = 1 << 17  # cells of a table whose intermediate arrays stay in the cache


class Pooled(NamedTuple):
    """The figures of R weightings; NaN where undefined."""

    auroc: F64  # (R,)
    ap: F64
    dice: F64  # the best over all bins
    iou: F64
    bin: I64  # the column from which on voxels are taken for the best overlap; -1 without positives
    rate_dice: F64  # Dice of the largest set whose false positive rate is within the limit


class Bounds(NamedTuple):
    """Between which values AUROC and average precision lie, whatever the order inside of inexact bins."""

    auroc: tuple[float, float]
    ap: tuple[float, float]


def pool(offsets: I64, bin: I32, counts: I64, weights: NDArray[np.generic], n_bins: int) -> F64:
    """Return (R, n_bins): the weighted sum over images of their sparse counts.

    Parameters
    ----------
    offsets
        (n + 1,) entries of each image.
    bin, counts
        (m,) column and number of voxels of every entry.
    weights
        (R, n) whole numbers.

    Notes
    -----
    Exact as long as the sums are below 2^53. Number the bins that occur and give their number for ``n_bins``: the table
    of all images is held at once.
    """
    n = len(offsets) - 1
    dense = np.zeros((n, n_bins))
    dense[ragged.owners(offsets), bin] = counts
    return np.asarray(weights.astype(np.float64) @ dense)


def from_histograms(positives: Counts, negatives: Counts, rate: float = 0.05, inexact: Flags | None = None) -> Pooled:
    """Return the figures of R pooled histograms, ascending in score.

    Parameters
    ----------
    positives, negatives
        (R, B) voxels of either kind in every bin; whole numbers, also as floats.
    rate
        Largest false positive rate for ``rate_dice``.
    inexact
        (B,) whether a bin holds more than one score. Its positives then have the mean of the precision above it and
        from it upwards, as if both kinds lay evenly in it; without it every bin is one score.

    Notes
    -----
    Definitions as in `voxel_ranking` with the bins in place of scores: AUROC is undefined (NaN) without positives or
    without negatives, AP and the best overlap without positives, ``rate_dice`` without either. Of equally good bins the
    highest counts.
    """
    n, width = positives.shape
    auroc, ap, dice, iou, rate_dice = np.full((5, n), np.nan)
    found = Pooled(auroc, ap, dice, iou, np.full(n, -1), rate_dice)
    step = max(1, AT_ONCE // max(1, width))
    for first in range(0, n if width else 0, step):
        rows = slice(first, first + step)
        part = _figures(positives[rows].astype(np.float64), negatives[rows].astype(np.float64), rate, inexact)
        for column, values in zip(found, part):
            column[rows] = values
    return found


def _figures(positives: F64, negatives: F64, rate: float, inexact: Flags | None) -> Pooled:
    """Return the figures of a few histograms."""
    hits, alarms = _at_or_above(positives), _at_or_above(negatives)
    n_positives, n_negatives = hits[:, :1], alarms[:, :1]
    rows = np.arange(len(hits))
    with np.errstate(divide="ignore", invalid="ignore"):
        below = n_negatives - alarms
        right = (positives * (below + 0.5 * negatives)).sum(axis=1)
        auroc = right / (n_positives * n_negatives)[:, 0]
        precision = np.where(hits > 0, hits / (hits + alarms), 0.0)
        if inexact is not None:
            above = np.append(precision[:, 1:], precision[:, -1:], axis=1)
            seen = np.append((hits + alarms)[:, 1:] > 0, np.zeros((len(hits), 1), np.bool_), axis=1)
            precision = np.where(inexact & seen, 0.5 * (above + precision), precision)
        ap = (positives * precision).sum(axis=1) / n_positives[:, 0]
        overlap = hits / (n_positives + alarms)
        best = overlap.shape[1] - 1 - np.argmax(overlap[:, ::-1], axis=1)
        dice = 2 * hits / (hits + alarms + n_positives)
        taken = np.argmax(alarms / n_negatives <= rate, axis=1)  # the first, so the largest set
        none = ~(alarms[rows, taken] / n_negatives[:, 0] <= rate)  # not even the highest bin
    defined = n_positives[:, 0] > 0
    at_rate = np.where(none, 0.0, dice[rows, taken])
    return Pooled(
        auroc,
        ap,
        np.where(defined, dice[rows, best], np.nan),
        np.where(defined, overlap[rows, best], np.nan),
        np.where(defined, best, -1),
        np.where(defined & (n_negatives[:, 0] > 0), at_rate, np.nan),
    )


def _at_or_above(counts: F64) -> F64:
    """Return (R, B): the voxels of a bin and of all bins above it."""
    return np.asarray(np.cumsum(counts[:, ::-1], axis=1)[:, ::-1])


def bounds(positives: Counts, negatives: Counts, inexact: Flags) -> Bounds:
    """Return lowest and highest possible AUROC and average precision of the voxels behind a histogram.

    Parameters
    ----------
    positives, negatives
        (B,) voxels of either kind, bins ascending in score.
    inexact
        (B,) whether a bin holds more than one score, so that the order of its voxels is unknown.

    Notes
    -----
    AUROC: the pairs inside of an inexact bin are all wrong or all right. AP: with a positives and c negatives above an
    inexact bin of p and n, each of its positives has at most the precision ``(a + p) / (a + p + c)``, and the i-th from
    above has at least ``(a + i) / (a + i + c + n)``. The sum of the latter is ``p - (c + n) sum 1 / (a + c + n + i)``,
    and that sum is at most ``log(1 + p / (a + c + n + .5))``, because 1/x is convex. The bounds hold up to rounding,
    1e-12, and coincide where no bin with positives is inexact (for AUROC: none with both kinds). NaN where undefined.
    """
    p, n = positives.astype(np.float64), negatives.astype(np.float64)
    hits, alarms = _at_or_above(p[None])[0], _at_or_above(n[None])[0]
    n_positives, n_negatives = float(p.sum()), float(n.sum())
    ties = p * n
    with np.errstate(divide="ignore", invalid="ignore"):
        least = p @ (n_negatives - alarms) + 0.5 * ties[~inexact].sum()
        most = least + ties[inexact].sum()
        area = np.array([least, most]) / (n_positives * n_negatives)
        tied = np.where(hits > 0, p * (hits / (hits + alarms)), 0.0)
        highest = np.where(hits > 0, p * (hits / (hits + alarms - n)), 0.0)
        lowest = p - alarms * np.log1p(p / (hits - p + alarms + 0.5))
        ap = np.array([np.where(inexact, side, tied).sum() for side in (lowest, highest)]) / n_positives
    return Bounds((float(area[0]), float(area[1])), (float(ap[0]), float(ap[1])))
