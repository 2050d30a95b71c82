# SPDX-License-Identifier: Apache-2.0
"""Scores of voxels in 65,536 bins that keep their order, however close to 0 or 1 the scores crowd.

A histogram of one volume is small, and histograms add up: what follows from the order of the voxels
of any number of volumes follows from the sum of their histograms, exactly where a bin holds one
score, within a bound elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled_voxels, route

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Flags = NDArray[np.bool_]
Scores = NDArray[np.floating[Any]]

BINS = 1 << 16
LAST = BINS - 1
HALF = BINS // 2
OCTAVES = 32  # on either side of .5
AT_ONCE = 1 << 18  # voxels whose intermediate arrays stay in the cache


class VoxelHistogram(NamedTuple):
    """The k bins of one array that are not empty, ascending."""

    bin: I32
    positives: I64
    negatives: I64
    lowest: F64  # smallest score in the bin
    highest: F64


def as_scores(values: NDArray[Any]) -> Scores:
    """Return values flat and contiguous, float32 or float64 as they came; half precision becomes
    float32.
    """
    kind = np.float32 if values.dtype in (np.float32, np.float16) else np.float64
    return np.asarray(np.ascontiguousarray(values, kind).reshape(-1))


def as_flags(positive: NDArray[Any]) -> Flags:
    """Return flags flat and contiguous."""
    return np.ascontiguousarray(positive, np.bool_).reshape(-1)


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
        return compiled_voxels.bins_of(native, flat)
    bins = np.empty(flat.size, np.int32)
    for start in range(0, flat.size, AT_ONCE):
        bins[start : start + AT_ONCE] = _codes(flat[start : start + AT_ONCE])
    return bins


def _codes(values: Scores) -> I32:
    """Return the bins of a piece: exponent and ten bits of the fraction, read off the number as it
    is stored.
    """
    upper = values >= 0.5
    distance = np.where(upper, 1 - values, values)
    if values.dtype == np.float64:
        raw = (distance.view(np.int64) >> 42) - ((1023 - OCTAVES - 1) << 10)
    else:
        raw = (distance.view(np.int32) >> 13) - ((127 - OCTAVES - 1) << 10)
    raw = np.clip(raw, 1, HALF - 1).astype(np.int32)
    codes = np.where(upper, LAST - raw, raw)
    codes[values >= 1] = LAST
    codes[~(values > 0)] = 0
    return np.asarray(codes, np.int32)


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
    table = (
        compiled_voxels.table(native, flat, flags, BINS)
        if native is not None
        else _table(flat, flags)
    )
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
        code = _codes(piece)
        counts += np.bincount(2 * code + positive[start : start + AT_ONCE], minlength=2 * BINS)
        np.minimum.at(lowest, code, piece)
        np.maximum.at(highest, code, piece)
    return counts[1::2], counts[::2], lowest.astype(np.float64), highest.astype(np.float64)
