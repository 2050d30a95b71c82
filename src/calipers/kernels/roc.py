# SPDX-License-Identifier: Apache-2.0
"""The area under the ROC curve and the best cut, under many weightings at once; equal values are
one point.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


class ScoreOrder(NamedTuple):
    """Values sorted once: the order, where each group of equal values ends, and who is positive."""

    order: I64  # (n,)
    ends: I64  # (G,) positions in the order
    positive: Flags  # (n,) in the order
    values: F64  # (G,) ascending


class RocPoints(NamedTuple):
    """What lies below each of G cuts, and the totals; a cut accepts its own value and all above."""

    positive_below: F64  # (R, G)
    negative_below: F64  # (R, G)
    positive: F64  # (R,)
    negative: F64  # (R,)


def score_order(values: F64, positive: Flags) -> ScoreOrder:
    """Sort values, larger is more positive."""
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    ends = np.flatnonzero(np.append(ascending[1:] != ascending[:-1], True))
    return ScoreOrder(order, ends, positive[order], ascending[ends])


def points(ranks: ScoreOrder, weights: NDArray[Any]) -> RocPoints:
    """Return the cumulative weights of positives and negatives below each group, for (R, n)
    weights.
    """
    w = weights[:, ranks.order].astype(np.float64)
    below = []
    totals = []
    for flags in (ranks.positive, ~ranks.positive):
        upto = np.cumsum(np.where(flags, w, 0.0), axis=1)[:, ranks.ends]
        below.append(np.concatenate([np.zeros((len(w), 1)), upto[:, :-1]], axis=1))
        totals.append(upto[:, -1])
    return RocPoints(below[0], below[1], totals[0], totals[1])


def area(roc_points: RocPoints) -> F64:
    """Return (R,) the share of pairs that are ordered rightly, ties counting half; NaN without a
    pair.
    """
    positive = np.diff(roc_points.positive_below, axis=1, append=roc_points.positive[:, None])
    negative = np.diff(roc_points.negative_below, axis=1, append=roc_points.negative[:, None])
    right = (positive * (roc_points.negative_below + 0.5 * negative)).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(right / (roc_points.positive * roc_points.negative))


def youden(roc_points: RocPoints) -> F64:
    """Return (R, G) sensitivity + specificity - 1 at every cut; NaN without either kind."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            roc_points.negative_below / roc_points.negative[:, None]
            - roc_points.positive_below / roc_points.positive[:, None]
        )


def best_cut(roc_points: RocPoints) -> I64:
    """Return (R,) the cut of the largest Youden index; of equal ones the lowest, which accepts
    most.
    """
    # Cross-multiplied, whole numbers tie exactly.
    scaled = (
        roc_points.negative_below * roc_points.positive[:, None]
        - roc_points.positive_below * roc_points.negative[:, None]
    )
    return np.asarray(np.argmax(scaled, axis=1))
