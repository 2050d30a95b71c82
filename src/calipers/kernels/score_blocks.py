# SPDX-License-Identifier: Apache-2.0
"""Ranking of voxels that are counted by score: each distinct score, or each bin of scores, is one operating point.

All functions take (R, B) counts by ascending score, of positive and of negative voxels, for R replicates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


class Blocks(NamedTuple):
    """The distinct scores, ascending, and how many positive and negative voxels have each."""

    values: NDArray[np.floating]
    positives: I64
    negatives: I64


def blocks(positives: NDArray[np.floating], negatives: NDArray[np.floating]) -> Blocks:
    """Count the scores (m,) of positive and (n,) of negative voxels by value."""
    found = [np.unique(side, return_counts=True) for side in (positives, negatives)]
    values = np.union1d(found[0][0], found[1][0])
    counts = []
    for side, number in found:
        table = np.zeros(len(values), np.int64)
        table[np.searchsorted(values, side)] = number
        counts.append(table)
    return Blocks(values, counts[0], counts[1])


def called(counts: NDArray[np.number]) -> F64:
    """Return (R, B): how many voxels have at least each score."""
    return np.cumsum(counts[:, ::-1], axis=1, dtype=np.float64)[:, ::-1]


def average_precision(positives: NDArray[np.number], negatives: NDArray[np.number]) -> F64:
    """Return (R,) sum over scores of the share of positives that have it, times the precision from it upwards."""
    hits, alarms = called(positives), called(negatives)
    total = hits[:, 0] if hits.shape[1] else np.zeros(len(hits))
    precision = np.divide(hits, hits + alarms, out=np.zeros_like(hits), where=hits > 0)
    area = (positives * precision).sum(axis=1)
    return np.divide(area, total, out=np.full(len(hits), np.nan), where=total > 0)


def auroc(positives: NDArray[np.number], negatives: NDArray[np.number]) -> F64:
    """Return (R,) the share of pairs of a positive and a negative that are ordered rightly, ties counting half."""
    hits = called(positives)
    total = hits[:, 0] if hits.shape[1] else np.zeros(len(hits))
    right = (negatives * (hits - 0.5 * positives)).sum(axis=1)
    pairs = total * negatives.sum(axis=1, dtype=np.float64)
    return np.divide(right, pairs, out=np.full(len(hits), np.nan), where=pairs > 0)


def overlap_at(
    positives: NDArray[np.number], negatives: NDArray[np.number], *, rate: float | None = None, dice: bool = True
) -> F64:
    """Return (R,) Dice or IoU of the called voxels with the positive ones.

    At the best of all scores; with a ``rate``, at the lowest score from which on at most that share of the negatives is
    called (0 if the highest score calls more).
    """
    hits, alarms = called(positives), called(negatives)
    if not hits.shape[1]:
        return np.full(len(hits), np.nan)
    total = hits[:, :1]
    sizes = hits + alarms + total
    with np.errstate(divide="ignore", invalid="ignore"):
        values = 2.0 * hits / sizes if dice else hits / (sizes - hits)
    if rate is None:
        best = values.max(axis=1)
    else:
        allowed = alarms <= rate * alarms[:, :1]
        first = np.argmax(allowed, axis=1)
        best = np.where(allowed.any(axis=1), values[np.arange(len(values)), first], 0.0)
    return np.where(total[:, 0] > 0, best, np.nan)


def score_at(values: NDArray[np.floating], positives: I64, negatives: I64, rate: float | None) -> float:
    """Return the score that `overlap_at` chooses: of the best Dice, or of a rate of false voxels; NaN if none."""
    hits, alarms = called(positives[None])[0], called(negatives[None])[0]
    if not len(hits):
        return float("nan")
    if rate is None:
        return float(values[np.argmax(2.0 * hits / (hits + alarms + hits[0]))]) if hits[0] else float("nan")
    allowed = alarms <= rate * alarms[0]
    return float(values[np.argmax(allowed)]) if allowed.any() else float("nan")
