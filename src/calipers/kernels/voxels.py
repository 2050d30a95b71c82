# SPDX-License-Identifier: Apache-2.0
"""Histograms of voxel scores that keep their order, and figures with bounds from their sums.

In come scores in [0, 1] and flags of voxels; `histogram` counts them in 65,536 bins, however close
to 0 or 1 the scores crowd. A histogram of one volume is small, and histograms add up: what follows
from the order of the voxels of any number of volumes follows from the sum of their histograms.
`from_histograms` returns AUROC, average precision and overlap under many weightings at once. A bin
is treated as one score, or its voxels as mixed evenly: where bins hold one score the figures are
exact, else `bounds` encloses the exact ones.

`calipers.maps.examine` counts the maps when they are read, `calipers.data.maps` holds the
histograms, and `calipers.metrics.maps` pools them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I32, I64, Flags
from calipers.kernels import route

Scores = NDArray[np.floating[Any]]

BINS = 1 << 16
LAST = BINS - 1
HALF = BINS // 2
# 1,024 bins to an octave: see `bins_of`.
OCTAVES = 32  # on either side of .5
AT_ONCE = 1 << 18  # voxels whose intermediate arrays stay in the cache

Counts = I64 | F64

BINS_AT_ONCE = 1 << 17  # cells of a table whose intermediate arrays stay in the cache


class VoxelHistogram(NamedTuple):
    """The k bins of one array that are not empty, ascending."""

    bin: I32
    positives: I64
    negatives: I64
    lowest: F64  # smallest score in the bin
    highest: F64


class PooledFigures(NamedTuple):
    """The figures of R weightings; NaN where undefined."""

    auroc: F64  # (R,)
    ap: F64
    dice: F64  # the best over all bins
    iou: F64
    bin: I64  # the column from which on voxels are taken for the best overlap; -1 without positives
    rate_dice: F64  # Dice of the largest set whose false positive rate is within the limit


class HistogramSums(NamedTuple):
    """What the bins of R histograms sum up to; (R,) each, all but the precision and the bin numbers
    of voxels.
    """

    positives: F64
    negatives: F64
    right: F64  # pairs in the right order, ties counting half
    precision: F64  # sum over positives of the precision at their bin
    bin: F64  # of the best overlap, the highest of equal ones
    hits: F64  # positives at or above it
    alarms: F64  # negatives at or above it
    rate_hits: F64  # positives in the largest set whose false positive rate is within the limit
    rate_alarms: F64


class Bounds(NamedTuple):
    """Between which values AUROC and average precision lie, whatever the order inside of inexact
    bins.
    """

    auroc: tuple[float, float]
    ap: tuple[float, float]


def as_scores(values: NDArray[Any]) -> Scores:
    """Return values flat and contiguous, float32 or float64 as they came; half precision becomes
    float32.
    """
    kind = np.float32 if values.dtype in (np.float32, np.float16) else np.float64
    return np.asarray(np.ascontiguousarray(values, kind).reshape(-1))


def as_flags(positive: NDArray[Any]) -> Flags:
    """Return flags flat and contiguous."""
    return np.ascontiguousarray(positive, np.bool_).reshape(-1)


def histogram(values: NDArray[Any], positive: NDArray[Any]) -> VoxelHistogram:
    """Count the positive and the negative voxels of every bin, with the extremes of their scores.

    Parameters
    ----------
    values
        Scores in [0, 1], of any shape.
    positive
        Flags of the same shape: the voxels of references.

    Notes
    -----
    One pass. Where ``lowest`` equals ``highest`` all voxels of the bin have one score, and nothing
    is lost. No voxels give no bins.
    """
    flat, flags, native = as_scores(values), as_flags(positive), route.native()
    table = route.table(native, flat, flags, BINS) if native is not None else _table(flat, flags)
    bins = np.flatnonzero(table[0] + table[1])
    positives, negatives, lowest, highest = table
    return VoxelHistogram(
        bins.astype(np.int32), positives[bins], negatives[bins], lowest[bins], highest[bins]
    )


def _table(values: Scores, positive: Flags) -> tuple[I64, I64, F64, F64]:
    """Return (BINS,) positives, negatives, lowest and highest; inf and -inf in an empty bin."""
    counts = np.zeros(2 * BINS, np.int64)
    lowest, highest = np.full(BINS, np.inf, values.dtype), np.full(BINS, -np.inf, values.dtype)
    for start in range(0, values.size, AT_ONCE):
        piece = values[start : start + AT_ONCE] + values.dtype.type(0)  # -0.0 becomes 0.0
        code = _bin_numbers(piece)
        # Both kinds in one pass: odd places are positives.
        counts += np.bincount(2 * code + positive[start : start + AT_ONCE], minlength=2 * BINS)
        np.minimum.at(lowest, code, piece)
        np.maximum.at(highest, code, piece)
    return counts[1::2], counts[::2], lowest.astype(np.float64), highest.astype(np.float64)


def bins_of(values: NDArray[Any]) -> I32:
    """Return (m,) the bin of every score in [0, 1], in the order of the scores.

    Notes
    -----
    Below .5 an octave ``[2^-k, 2^(1-k))`` of the score has 1,024 bins of equal width, for k = 2 ...
    33; from .5 on the same holds for 1 - score, mirrored. Two scores in one bin therefore differ by
    less than 1/1,024 of the smaller distance to 0 or 1. The ends are special: 0 has bin 0 for
    itself, 1 has bin 65,535 for itself, and what lies within ``2^-33 (1 + 2/1024)``, about 1.2e-10,
    of either end without being there shares the bin beside it. Equal numbers have equal bins, be
    they float32 or float64: 1 - score is exact from .5 on. Scores outside of [0, 1] go to the first
    or last bin, NaN to the first; callers refuse both.
    """
    flat, native = as_scores(values), route.native()
    if native is not None:
        return route.bins_of(native, flat)
    bins = np.empty(flat.size, np.int32)
    for start in range(0, flat.size, AT_ONCE):
        bins[start : start + AT_ONCE] = _bin_numbers(flat[start : start + AT_ONCE])
    return bins


def _bin_numbers(values: Scores) -> I32:
    """Return the bins of a piece: exponent and ten bits of the fraction, read off the number as it
    is stored.
    """
    upper = values >= 0.5
    distance = np.where(upper, 1 - values, values)
    if values.dtype == np.float64:
        # Float64 has 52 bits of fraction, float32 23: ten stay, with the exponent above them.
        raw = (distance.view(np.int64) >> 42) - ((1023 - OCTAVES - 1) << 10)
    else:
        raw = (distance.view(np.int32) >> 13) - ((127 - OCTAVES - 1) << 10)
    raw = np.clip(raw, 1, HALF - 1).astype(np.int32)
    codes = np.where(upper, LAST - raw, raw)
    codes[values >= 1] = LAST
    # Written so that NaN goes to the first bin too.
    codes[~(values > 0)] = 0
    return np.asarray(codes, np.int32)


def from_histograms(
    positives: Counts, negatives: Counts, rate: float = 0.05, inexact: Flags | None = None
) -> PooledFigures:
    """Return the figures of R pooled histograms.

    Parameters
    ----------
    positives, negatives
        (R, B) voxels of either kind, bins ascending in score; whole numbers, also as floats.
    rate
        Largest false positive rate for ``rate_dice``.
    inexact
        (B,) whether a bin holds more than one score; without it every bin is one.

    Notes
    -----
    Definitions as in `voxel_ranking` with the bins in place of scores: AUROC is undefined (NaN)
    without positives or without negatives, AP and the best overlap without positives, ``rate_dice``
    without either. Of equally good bins the highest counts.

    The positives of an inexact bin have the precision in its middle, as if its p positives and n
    negatives were mixed evenly: ``(a + (p + 1) / 2) / (a + c + (p + 1) / 2 + n / 2)`` with a
    positives and c negatives above it. That lies within the `bounds`: the worst order has at most
    this in the mean, the best at least.
    """
    mixed = np.zeros(positives.shape[1], np.bool_) if inexact is None else inexact
    tables = (
        np.ascontiguousarray(positives, np.float64),
        np.ascontiguousarray(negatives, np.float64),
    )
    s = sums(*tables, mixed, rate)
    with np.errstate(divide="ignore", invalid="ignore"):
        auroc, ap = s.right / (s.positives * s.negatives), s.precision / s.positives
        dice, iou = (
            2 * s.hits / (s.hits + s.alarms + s.positives),
            s.hits / (s.alarms + s.positives),
        )
        rate_dice = 2 * s.rate_hits / (s.rate_hits + s.rate_alarms + s.positives)
    some = s.positives > 0
    dice, iou = (np.where(some, values, np.nan) for values in (dice, iou))
    return PooledFigures(
        auroc,
        ap,
        dice,
        iou,
        s.bin.astype(np.int64),
        np.where(some & (s.negatives > 0), rate_dice, np.nan),
    )


def sums(positives: F64, negatives: F64, inexact: Flags, rate: float) -> HistogramSums:
    """Walk down the bins of R histograms (R, B); for ``inexact`` (B,) see `from_histograms`."""
    native = route.native()
    if native is not None:
        return HistogramSums(*route.pooled(native, positives, negatives, inexact, rate))
    n, width = positives.shape
    columns = np.zeros((len(HistogramSums._fields), n))
    columns[HistogramSums._fields.index("bin")] = -1
    step = max(1, BINS_AT_ONCE // max(1, width))
    for first in range(0, n if width else 0, step):
        rows = slice(first, first + step)
        columns[:, rows] = _sums_of_block(
            positives[rows, ::-1], negatives[rows, ::-1], inexact[::-1], rate
        )
    return HistogramSums(*columns)


def _sums_of_block(positives: F64, negatives: F64, inexact: Flags, rate: float) -> HistogramSums:
    """Return the sums of a few histograms with bins descending in score; one bin after the other,
    as the twin does.
    """
    hits, alarms = np.cumsum(positives, axis=1), np.cumsum(negatives, axis=1)
    n_positives, n_negatives = hits[:, -1], alarms[:, -1]
    rows, last = np.arange(len(hits)), hits.shape[1] - 1
    # The last entry of cumsum, not sum: one bin after the other, as in the twin.
    right = np.cumsum(negatives * (hits - 0.5 * positives), axis=1)[:, -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = hits - np.where(inexact, 0.5 * (positives - 1), 0.0)
        beside = alarms - np.where(inexact, 0.5 * negatives, 0.0)
        terms = np.where(positives > 0, positives * (middle / (middle + beside)), 0.0)
        # IoU; Dice is best at the same bin. Bins descend, so argmax takes the highest of equal
        # ones.
        best = np.argmax(hits / (n_positives[:, None] + alarms), axis=1)
        within = np.count_nonzero(alarms / n_negatives[:, None] <= rate, axis=1)
    some, reached = n_positives > 0, np.maximum(within - 1, 0)
    return HistogramSums(
        n_positives,
        n_negatives,
        right,
        np.cumsum(terms, axis=1)[:, -1],
        np.where(some, last - best, -1),
        np.where(some, hits[rows, best], 0.0),
        np.where(some, alarms[rows, best], 0.0),
        np.where(within > 0, hits[rows, reached], 0.0),
        np.where(within > 0, alarms[rows, reached], 0.0),
    )


def bounds(positives: Counts, negatives: Counts, inexact: Flags) -> Bounds:
    """Return lowest and highest possible AUROC and average precision of the voxels behind a
    histogram.

    Parameters
    ----------
    positives, negatives
        (B,) voxels of either kind, bins ascending in score.
    inexact
        (B,) whether a bin holds more than one score, so that the order of its voxels is unknown.

    Notes
    -----
    AUROC: the pairs inside of an inexact bin are all wrong or all right. AP: with a positives and c
    negatives above an inexact bin of p and n, each of its positives has at most the precision ``(a
    + p) / (a + p + c)``, and the i-th from above has at least ``(a + i) / (a + i + c + n)``. The
    sum of the latter is ``p - (c + n) sum 1 / (a + c + n + i)``, and that sum is at most ``log(1 +
    p / (a + c + n + .5))``, because 1/x is convex. The bounds hold up to rounding, 1e-12, and
    coincide where no bin with positives is inexact (for AUROC: none with both kinds). NaN where
    undefined.
    """
    p, n = positives.astype(np.float64), negatives.astype(np.float64)
    hits, alarms = _at_or_above(p), _at_or_above(n)
    n_positives, n_negatives = float(p.sum()), float(n.sum())
    ties = p * n
    with np.errstate(divide="ignore", invalid="ignore"):
        # A sum of NumPy and no product of a library, whose order depends on the processor.
        least = (p * (n_negatives - alarms)).sum() + 0.5 * ties[~inexact].sum()
        most = least + ties[inexact].sum()
        area = np.array([least, most]) / (n_positives * n_negatives)
        tied = np.where(hits > 0, p * (hits / (hits + alarms)), 0.0)
        highest = np.where(hits > 0, p * (hits / (hits + alarms - n)), 0.0)
        lowest = p - alarms * np.log1p(p / (hits - p + alarms + 0.5))
        ap = (
            np.array([np.where(inexact, side, tied).sum() for side in (lowest, highest)])
            / n_positives
        )
    return Bounds((float(area[0]), float(area[1])), (float(ap[0]), float(ap[1])))


def _at_or_above(counts: F64) -> F64:
    """Return (B,): the voxels of a bin and of all bins above it."""
    return np.asarray(np.cumsum(counts[::-1])[::-1])
