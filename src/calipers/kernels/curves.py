# SPDX-License-Identifier: Apache-2.0
"""Precision-recall curves under integer weights, for many replicates and all classes in one call.

Predictions are sorted by class, then by descending score. Only hits matter for an average precision: precision is
highest at hits and recall moves only there. So the curve is held at the H hits of all classes: ``hits`` (R, H) is the
cumulative weight of hits inside the class, ``all`` (R, H) that of all counted predictions, ``offsets`` (K + 1,)
delimits the classes and ``positives`` (R, K) is the weight of the references. A weight of 2 gives the same as listing
the image twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

EPS = np.spacing(1)  # pycocotools adds it to every denominator; kept, for equal bits


def segment_cumsum(values: I64, offsets: I64) -> I64:
    """Return cumulative sums along the last axis that start anew at every offset."""
    total = np.cumsum(values, axis=-1)
    base = np.zeros((*values.shape[:-1], len(offsets) - 1), total.dtype)
    inside = offsets[:-1] > 0
    base[..., inside] = total[..., offsets[:-1][inside] - 1]
    return np.asarray(total - np.repeat(base, np.diff(offsets), axis=-1))


def block_ends(score: F64, offsets: I64) -> I64:
    """Return, for sorted scores, the last position of every run of equal scores inside its class."""
    n = len(score)
    if n == 0:
        return np.zeros(0, np.int64)
    last = np.ones(n, np.bool_)
    last[:-1] = score[1:] != score[:-1]
    inner = offsets[1:-1]
    last[inner[(inner > 0) & (inner < n)] - 1] = True
    ends = np.flatnonzero(last)
    return np.repeat(ends, np.diff(ends, prepend=-1))


def precision(hits: I64, every: I64) -> F64:
    """Return hits / (all + eps), in pycocotools' order of operations."""
    return np.asarray(hits / (every + EPS))


def envelope(values: F64, offsets: I64) -> F64:
    """Return the largest value at or after each position, class by class."""
    result = np.empty_like(values)
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist()):
        if start < stop:
            np.maximum.accumulate(values[:, start:stop][:, ::-1], axis=1, out=result[:, start:stop][:, ::-1])
    return result


def needed_hits(positives: I64, recalls: F64) -> I64:
    """Return (R, K, n): the smallest whole number of hits j with ``j / positives >= recall`` in float64.

    Searching whole numbers instead of rounded recalls gives the same answer and lets all classes be searched at once.
    """
    count = np.maximum(positives, 1)[..., None]
    j = np.ceil(recalls * count).astype(np.int64)
    j = np.where((j - 1) / count >= recalls, j - 1, j)
    return np.where(j / count < recalls, j + 1, j)


def precision_at(hits: I64, every: I64, offsets: I64, positives: I64, recalls: F64) -> F64:
    """Return (R, K, n): the interpolated precision at each recall; 0 where the recall is never reached."""
    best = envelope(precision(hits, every), offsets)
    needed = np.maximum(needed_hits(positives, recalls), 1)
    n_classes = len(offsets) - 1
    stride = int(max(positives.max(initial=0), hits.max(initial=0))) + 2
    base = np.arange(n_classes) * stride
    keys = hits + np.repeat(base, np.diff(offsets))
    wanted = np.minimum(needed, stride - 1) + base[:, None]
    found = np.empty(needed.shape)
    padded = np.concatenate([best, np.zeros((len(best), 1))], axis=1)
    ends = np.broadcast_to(offsets[1:, None], needed.shape[1:])
    for r in range(len(hits)):
        position = np.searchsorted(keys[r], wanted[r], side="left")
        position = np.where(position < ends, position, padded.shape[1] - 1)
        found[r] = padded[r, position]
    return found


def area(weight: I64, values: F64, offsets: I64, positives: I64) -> F64:
    """Return (R, K): the sum over hits of weight x value, divided by the references."""
    total = np.zeros(positives.shape)
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    for r in range(len(values)):
        total[r] = np.bincount(owner, weights=weight[r] * values[r], minlength=positives.shape[1])
    return np.asarray(np.divide(total, positives, out=np.full(total.shape, np.nan), where=positives > 0))


def sensitivity_at(hits: I64, false_alarms: I64, allowed: F64) -> I64:
    """Return (R, n): the most hits at an operating point with at most ``allowed`` (R, n) false alarms.

    ``hits`` and ``false_alarms`` (R, P) are cumulative at the attainable operating points, in descending score.
    """
    padded = np.concatenate([np.zeros((len(hits), 1), np.int64), hits], axis=1)
    found = np.empty(allowed.shape, np.int64)
    for r in range(len(hits)):
        found[r] = padded[r, np.searchsorted(false_alarms[r], allowed[r], side="right")]
    return found
