# SPDX-License-Identifier: Apache-2.0
"""Who belongs to whom: greedy and optimal assignment of candidate pairs, for many views at once.

A view is a cut-off on the similarity and a set of ignored references. Candidate pairs come as flat
arrays

- ``reference``, ``prediction`` (P,): row numbers of both ends,
- ``similarity`` (P,),
- ``turn`` (n_predictions,): in which order predictions of one cell (image and class) may choose, 0
  first,

and every function returns ``winner`` (n_predictions, n_views) int32: the pair that each prediction
got, or -1; only `by_score`, the one that is used most, yields the pairs that are granted and their
views as bits instead. Ignored references are only given to predictions that found no other; a crowd
can be given many times.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]
Flags = NDArray[np.bool_]

IGNORED, HIT, DUPLICATE, FALSE_ALARM, MISSED = range(5)


def by_score(
    reference: I64,
    prediction: I64,
    similarity: F64,
    turn: I64,
    cutoffs: F64,
    ignored: U64,
    crowd: Flags,
) -> Iterator[tuple[I64, U64]]:
    """Predictions choose in descending score, each its best free reference; of equal ones the
    later, as pycocotools.

    Works in turns: all cells at once, first everybody's first prediction, then the second. Views
    are the bits of one word: at most 64 cut-offs, and ``ignored`` (n_references,) says which views
    ignore a reference. Yields pairs and the views in which each of them is granted.
    """
    near = views_from(cutoffs, similarity)
    reference_views, prediction_views = (
        np.zeros(len(ignored), np.uint64),
        np.zeros(len(turn), np.uint64),
    )
    for steps in _turns(reference, prediction, similarity, turn):
        # Counted references first; ignored ones are for predictions that got none of them.
        for kind in (~ignored, ignored):
            for pairs in steps:
                ref, pred = reference[pairs], prediction[pairs]
                granted = near[pairs] & kind[ref] & ~reference_views[ref] & ~prediction_views[pred]
                if not granted.any():
                    continue
                prediction_views[pred] |= granted
                reference_views[ref] |= np.where(crowd[ref], np.uint64(0), granted)
                yield pairs, granted


def views_from(cutoffs: F64, similarity: F64) -> U64:
    """Return, for each similarity, the views whose cut-off it reaches, as bits."""
    order = np.argsort(cutoffs, kind="stable")
    reached = np.bitwise_or.accumulate(np.left_shift(np.uint64(1), order.astype(np.uint64)))
    steps = np.concatenate([np.zeros(1, np.uint64), reached])
    return steps[np.searchsorted(cutoffs[order], similarity, side="right")]


def pack(flags: Flags) -> U64:
    """Return (n,) words of (n, at most 64) flags."""
    words = np.zeros((len(flags), 8), np.uint8)
    packed = np.packbits(flags, axis=1, bitorder="little")
    words[:, : packed.shape[1]] = packed
    return words.view("<u8").astype(np.uint64).ravel()


def unpack(words: U64, n_views: int) -> Flags:
    """Return (n, n_views) flags of (n,) words."""
    little = words.astype("<u8").view(np.uint8).reshape(len(words), 8)
    return np.unpackbits(little, axis=1, bitorder="little", count=n_views).view(np.bool_)


def many_to_one(
    reference: I64, prediction: I64, similarity: F64, n_predictions: int, cutoffs: F64
) -> I32:
    """Every prediction takes its best reference, free or not, counted or not; of equal ones the
    later.
    """
    winner = np.full((n_predictions, len(cutoffs)), -1, np.int32)
    order = np.lexsort((-reference, -similarity, prediction))
    best = order[_first_of(prediction[order])]
    fits = similarity[best, None] >= cutoffs
    winner[prediction[best]] = np.where(fits, best[:, None], -1)
    return winner


def by_overlap(
    reference: I64,
    prediction: I64,
    similarity: F64,
    score: F64,
    cutoffs: F64,
    ignored: Flags,
    crowd: Flags,
) -> I32:
    """All pairs in descending similarity (ties: score, then rows), taken when both ends are free.

    A pair below a cut-off never blocks one above it, so one pass over the counted references serves
    all cut-offs.
    """
    order = _descending(reference, prediction, similarity, score)
    winner = np.full((len(score), len(cutoffs)), -1, np.int32)
    counted_passes: dict[bytes, I64] = {}
    for view, cutoff in enumerate(cutoffs):
        is_counted = ~ignored[reference[order], view]
        key = is_counted.tobytes()
        if key not in counted_passes:
            counted_passes[key] = _greedy(order[is_counted], reference, prediction, crowd)
        first = counted_passes[key]
        first = first[similarity[first] >= cutoff]
        winner[prediction[first], view] = first
        rest = order[~is_counted]
        rest = rest[(similarity[rest] >= cutoff) & (winner[prediction[rest], view] < 0)]
        second = _greedy(rest, reference, prediction, crowd)
        winner[prediction[second], view] = second
    return winner


def per_reference_argmax(
    reference: I64, prediction: I64, similarity: F64, score: F64, cutoffs: F64, ignored: Flags
) -> I32:
    """Every reference takes its most similar prediction; of two references for one prediction the
    more similar one gets it.

    The other reference stays without a prediction: it does not choose again.
    """
    order = _descending(reference, prediction, similarity, score)
    winner = np.full((len(score), len(cutoffs)), -1, np.int32)
    for view, cutoff in enumerate(cutoffs):
        for ignored_turn in (False, True):
            pairs = order[
                (ignored[reference[order], view] == ignored_turn) & (similarity[order] >= cutoff)
            ]
            pairs = pairs[winner[prediction[pairs], view] < 0]
            winners = pairs[_first_of(reference[pairs])]
            winners = winners[_first_of(prediction[winners])]
            winner[prediction[winners], view] = winners
    return winner


def optimal(
    reference: I64,
    prediction: I64,
    similarity: F64,
    cell: I64,
    cutoffs: F64,
    ignored: Flags,
    crowd: Flags,
) -> I32:
    """Most pairs above the cut-off first, then the largest total similarity (Hungarian method in
    every cell).

    ``cell`` (n_predictions,) names the image and class of a prediction.
    """
    winner = np.full((len(cell), len(cutoffs)), -1, np.int32)
    for view, cutoff in enumerate(cutoffs):
        for ignored_turn in (False, True):
            pairs = np.flatnonzero(
                (ignored[reference, view] == ignored_turn) & (similarity >= cutoff)
            )
            pairs = pairs[winner[prediction[pairs], view] < 0]
            shared = crowd[reference[pairs]]
            winners = _largest_total(pairs[~shared], reference, prediction, similarity, cell)
            winner[prediction[winners], view] = winners
            late = pairs[shared & (winner[prediction[pairs], view] < 0)]
            late = late[np.argsort(-similarity[late], kind="stable")]
            late = late[_first_of(prediction[late])]
            winner[prediction[late], view] = late
    return winner


def _turns(reference: I64, prediction: I64, similarity: F64, turn: I64) -> list[list[I64]]:
    """Return, for every turn, the pairs as steps: everybody's favourite, everybody's second choice,
    ...
    """
    if not len(reference):
        return []
    order = np.lexsort((-reference, -similarity, prediction))
    who = prediction[order]
    start = np.flatnonzero(np.concatenate([[True], who[1:] != who[:-1]]))
    choice = np.arange(len(order)) - np.repeat(start, np.diff(np.append(start, len(order))))
    n_choices = int(choice.max()) + 1
    step = turn[who] * n_choices + choice
    by_step = np.argsort(step, kind="stable")
    cuts = np.searchsorted(step[by_step], np.arange((int(turn.max()) + 1) * n_choices + 1))
    pieces = [order[by_step[cuts[k] : cuts[k + 1]]] for k in range(len(cuts) - 1)]
    turns = []
    for k in range(0, len(pieces), n_choices):
        turns.append([piece for piece in pieces[k : k + n_choices] if len(piece)])
    return turns


def _descending(reference: I64, prediction: I64, similarity: F64, score: F64) -> I64:
    return np.lexsort((reference, prediction, -score[prediction], -similarity))


def _first_of(key: I64) -> I64:
    """Return the positions at which each key occurs first, in ascending order."""
    if not len(key):
        return np.zeros(0, np.int64)
    first = np.empty(int(key.max()) + 1, np.int64)
    # The last write, which is the first occurrence, stays.
    first[key[::-1]] = np.arange(len(key))[::-1]
    return np.flatnonzero(first[key] == np.arange(len(key)))


def _greedy(order: I64, reference: I64, prediction: I64, crowd: Flags) -> I64:
    """Return the accepted ones of pairs that come in order of preference.

    A pair that is the first choice of both its ends is accepted by every greedy walk; accept all of
    those at once, drop what they block, repeat. Crowds are never used up: each of their pairs
    counts as a reference of its own.
    """
    accepted = []
    n_references = len(crowd)
    while len(order):
        ref, pred = reference[order], prediction[order]
        ref = np.where(crowd[ref], n_references + np.arange(len(order)), ref)
        mutual = np.intersect1d(_first_of(ref), _first_of(pred), assume_unique=True)
        accepted.append(order[mutual])
        busy_ref = np.zeros(n_references + len(order), np.bool_)
        busy_pred = np.zeros(int(pred.max()) + 1, np.bool_)
        busy_ref[ref[mutual]] = busy_pred[pred[mutual]] = True
        order = order[~(busy_ref[ref] | busy_pred[pred])]
    return np.concatenate(accepted) if accepted else np.zeros(0, np.int64)


def _largest_total(pairs: I64, reference: I64, prediction: I64, similarity: F64, cell: I64) -> I64:
    """Return the pairs of the best one-to-one assignment; only cells with conflicts are solved."""
    n_ref = int(reference[pairs].max(initial=-1)) + 1
    n_pred = int(prediction[pairs].max(initial=-1)) + 1
    alone = np.bincount(reference[pairs], minlength=n_ref)[reference[pairs]] == 1
    alone &= np.bincount(prediction[pairs], minlength=n_pred)[prediction[pairs]] == 1
    groups = [pairs[alone]]
    contested = pairs[~alone]
    contested = contested[np.argsort(cell[prediction[contested]], kind="stable")]
    for group in np.split(contested, np.flatnonzero(np.diff(cell[prediction[contested]])) + 1):
        if len(group):
            groups.append(_solve(group, reference[group], prediction[group], similarity[group]))
    return np.concatenate(groups)


def _solve(group: I64, reference: I64, prediction: I64, similarity: F64) -> I64:
    from scipy.optimize import linear_sum_assignment

    refs, row = np.unique(reference, return_inverse=True)
    preds, column = np.unique(prediction, return_inverse=True)
    spread = float(np.ptp(similarity)) + 1.0
    # One more pair must always outweigh any gain in similarity.
    worth = spread * (min(len(refs), len(preds)) + 1) + (similarity - similarity.min())
    gain = np.zeros((len(refs), len(preds)))
    pair = np.full(gain.shape, -1)
    gain[row, column], pair[row, column] = worth, group
    rows, columns = linear_sum_assignment(gain, maximize=True)
    matches = pair[rows, columns]
    return np.asarray(matches[matches >= 0])
