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


class Ranked(NamedTuple):
    """Values sorted once: the order, where each group of equal values ends, and who is positive."""

    order: I64  # (n,)
    ends: I64  # (G,) positions in the order
    positive: Flags  # (n,) in the order
    values: F64  # (G,) ascending


class Points(NamedTuple):
    """What lies below each of G cuts, and the totals; a cut accepts its own value and all above."""

    positive_below: F64  # (R, G)
    negative_below: F64  # (R, G)
    positive: F64  # (R,)
    negative: F64  # (R,)


def ranked(values: F64, positive: Flags) -> Ranked:
    """Sort values, larger is more positive."""
    order = np.argsort(values, kind="stable")
    held = values[order]
    ends = np.flatnonzero(np.append(held[1:] != held[:-1], True))
    return Ranked(order, ends, positive[order], held[ends])


def points(ranks: Ranked, weights: NDArray[Any]) -> Points:
    """Return the cumulative weights of positives and negatives below each group, for (R, n)
    weights.
    """
    w = weights[:, ranks.order].astype(np.float64)
    below = []
    totals = []
    for chosen in (ranks.positive, ~ranks.positive):
        upto = np.cumsum(np.where(chosen, w, 0.0), axis=1)[:, ranks.ends]
        below.append(np.concatenate([np.zeros((len(w), 1)), upto[:, :-1]], axis=1))
        totals.append(upto[:, -1])
    return Points(below[0], below[1], totals[0], totals[1])


def area(found: Points) -> F64:
    """Return (R,) the share of pairs that are ordered rightly, ties counting half; NaN without a
    pair.
    """
    positive = np.diff(found.positive_below, axis=1, append=found.positive[:, None])
    negative = np.diff(found.negative_below, axis=1, append=found.negative[:, None])
    right = (positive * (found.negative_below + 0.5 * negative)).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(right / (found.positive * found.negative))


def youden(found: Points) -> F64:
    """Return (R, G) sensitivity + specificity - 1 at every cut; NaN without positives or negatives."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            found.negative_below / found.negative[:, None]
            - found.positive_below / found.positive[:, None]
        )


def best_cut(found: Points) -> I64:
    """Return (R,) the cut of the largest Youden index; of equal ones the lowest, which accepts
    most.
    """
    # Cross-multiplied, whole numbers tie exactly.
    scaled = (
        found.negative_below * found.positive[:, None]
        - found.positive_below * found.negative[:, None]
    )
    return np.asarray(np.argmax(scaled, axis=1))
