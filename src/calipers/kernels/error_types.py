# SPDX-License-Identifier: Apache-2.0
"""TIDE error types: what kind of mistake every prediction is, and which references were missed.

In come pairs of any classes that are similar enough, and the objects; out comes `Types`, the kind
of every object. `calipers.metrics.error_types` is the caller; there is a compiled twin.

In every image predictions choose in descending score: each takes the most similar free reference of
its class, if it is at least ``foreground`` similar; of equal ones the earlier. Every other
prediction is, by the first that holds,

1. ``LOC``: its most similar reference of its class is between ``background`` and ``foreground``,
   both included;
2. ``CLS``: its most similar reference of another class is at least at ``foreground``;
3. ``DUP``: a taken reference of its class is at least at ``foreground``;
4. ``BKG``: no reference is above ``background``;
5. ``BOTH``: neither place nor class is right.

Without counted references everything is ``BKG``. A mistake of kind LOC or CLS on a reference that
nobody took could be mended into a hit; of several on one reference only the one with the highest
score. References that are neither taken nor mendable are ``MISS``.

D. Bolya, S. Foley, J. Hays, J. Hoffman: TIDE: A General Toolbox for Identifying Object Detection
Errors, ECCV 2020.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calipers.arrays import F64, I8, I32, I64, Flags
from calipers.kernels import assignment, ragged, route
from calipers.kernels.assignment import PairList

ABSENT, RIGHT, CLS, LOC, BOTH, DUP, BKG, MISS, MENDABLE = range(9)


class TypedObjects(NamedTuple):
    """References and predictions, rows by image."""

    reference_offsets: I64
    prediction_offsets: I64
    reference_label: I32
    prediction_label: I32
    rank: I32  # (n_predictions,) place in the image, highest score first
    absent: Flags  # (n_predictions,) beyond the allowed number or below the score cut
    ignored: Flags  # (n_references,) regions in which predictions do not count


class Types(NamedTuple):
    """The kind of every object."""

    reference: I8  # (n_references,) RIGHT, MISS, MENDABLE, or ABSENT if it is ignored
    prediction: I8  # (n_predictions,) RIGHT, CLS, LOC, BOTH, DUP, BKG, or ABSENT
    # (n_predictions,) not RIGHT, and in an ignored region of its class: typed, but not counted
    covered: Flags
    mended: (
        Flags  # (n_predictions,) whether mending it makes it a hit; if not, mending takes it away
    )
    partner: I32  # (n_predictions,) the reference that made it what it is; -1 for BKG and ABSENT
    similarity: F64  # (n_predictions,) to the partner, NaN without


def error_types(
    pairs: PairList, objects: TypedObjects, background: float, foreground: float
) -> Types:
    """Return the kinds of all objects.

    ``pairs`` of any classes that are at least ``background`` similar, sorted by prediction, then
    reference; the similarity to an ignored region is what decides whether a prediction lies in it:
    above ``foreground``.
    """
    native = route.native()
    if native is not None:
        return Types(*route.error_types(native, pairs, objects, background, foreground))
    reference, prediction = pairs.reference.astype(np.int64), pairs.prediction.astype(np.int64)
    here = np.flatnonzero((pairs.similarity >= background) & ~objects.absent[prediction])
    reference, prediction, similarity = reference[here], prediction[here], pairs.similarity[here]
    same = objects.reference_label[reference] == objects.prediction_label[prediction]
    inside = objects.ignored[reference]
    regions = inside & same & (similarity > foreground)
    near = _Near(reference[~inside], prediction[~inside], similarity[~inside], len(objects.absent))
    same = same[~inside]
    pair = _match(near, same & (near.similarity >= foreground), objects)
    types = _kinds(near, same, pair, objects, (background, foreground))
    types.covered[prediction[regions]] = True
    types.covered[types.prediction == RIGHT] = False
    return types


class _Near(NamedTuple):
    """Pairs with counted references."""

    reference: I64
    prediction: I64
    similarity: F64
    n_predictions: int

    def best(self, flags: Flags) -> I64:
        """Return (n_predictions,) the most similar pair with a flag, of equal ones the earlier; -1
        without.
        """
        rows = np.flatnonzero(flags)
        rows = rows[
            np.lexsort((self.reference[rows], -self.similarity[rows], self.prediction[rows]))
        ]
        pair = np.full(self.n_predictions, -1, np.int64)
        pair[self.prediction[rows[::-1]]] = rows[::-1]  # the last write, which is the best, stays
        return pair

    def reached(self, pair: I64) -> F64:
        """Return the similarity of pairs, 0 for -1."""
        return np.where(pair < 0, 0.0, np.append(self.similarity, 0.0)[pair])


def _match(near: _Near, candidates: Flags, objects: TypedObjects) -> I64:
    """Return (n_predictions,) the pair that each prediction got, or -1."""
    rows, n = np.flatnonzero(candidates), len(objects.reference_label)
    pair = np.full(near.n_predictions, -1, np.int64)
    # Of equal references `by_score` takes the later one: counted from the end that is the earlier
    # one.
    ends = n - 1 - near.reference[rows], near.prediction[rows]
    nobody, crowd = np.zeros(n, np.uint64), np.zeros(n, np.bool_)
    walk = assignment.by_score(
        *ends, near.similarity[rows], objects.rank.astype(np.int64), np.zeros(1), nobody, crowd
    )
    for pairs, granted in walk:
        matches = rows[pairs[granted > 0]]
        pair[near.prediction[matches]] = matches
    return pair


def _kinds(
    near: _Near, same: Flags, matches: I64, objects: TypedObjects, limits: tuple[float, float]
) -> Types:
    """Return the kinds, without looking at ignored regions."""
    background, foreground = limits
    is_matched = np.zeros(len(objects.ignored), np.bool_)
    is_matched[near.reference[matches[matches >= 0]]] = True
    alike, other, anybody = near.best(same), near.best(~same), near.best(np.ones_like(same))
    double = near.best(same & is_matched[near.reference])
    some = np.diff(
        ragged.from_owner(
            ragged.owners(objects.reference_offsets)[~objects.ignored], _n_images(objects)
        )
    )
    kind = np.full(len(matches), BOTH, np.int8)
    partner = anybody.copy()
    # From the last rule to the first: the first that holds stays.
    for code, pair, holds in (
        (BKG, np.full_like(matches, -1), near.reached(anybody) <= background),
        (DUP, double, near.reached(double) >= foreground),
        (CLS, other, near.reached(other) >= foreground),
        (LOC, alike, (near.reached(alike) >= background) & (near.reached(alike) <= foreground)),
        (BKG, np.full_like(matches, -1), some[ragged.owners(objects.prediction_offsets)] == 0),
        (RIGHT, matches, matches >= 0),
        (ABSENT, np.full_like(matches, -1), objects.absent),
    ):
        kind[holds], partner[holds] = code, pair[holds]
    whom = np.where(partner < 0, -1, np.append(near.reference, -1)[partner])
    open_to = ((kind == LOC) | (kind == CLS)) & ~np.append(is_matched, True)[whom]
    mended = _first_of_each(whom, np.flatnonzero(open_to), objects.rank)
    reference = np.where(objects.ignored, np.int8(ABSENT), np.int8(MISS))
    reference[whom[open_to]] = MENDABLE
    reference[is_matched] = RIGHT
    similarity = np.where(partner < 0, np.nan, np.append(near.similarity, np.nan)[partner])
    return Types(
        reference, kind, np.zeros(len(matches), np.bool_), mended, whom.astype(np.int32), similarity
    )


def _first_of_each(whom: I64, rows: I64, rank: I32) -> Flags:
    """Return which predictions are the first among those with the same partner."""
    first = np.zeros(len(whom), np.bool_)
    rows = rows[np.lexsort((rank[rows], whom[rows]))]
    first[rows[np.flatnonzero(np.diff(whom[rows], prepend=-1))]] = True
    return first


def _n_images(objects: TypedObjects) -> int:
    return len(objects.reference_offsets) - 1
