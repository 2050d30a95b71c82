# SPDX-License-Identifier: Apache-2.0
"""Assignment of predictions to references, and the fate of every object under many views at once.

In come candidate pairs with their similarity (`PairList`) and the `Rules` of a protocol; out comes
what became of every reference and prediction (`Fates`): hit, duplicate, false alarm, missed or
ignored. `calipers.matching` calls `ranks` and `decide`, metrics call `totals`.

A view is a cut-off on the similarity and a set of ignored references. A cell is an image and class,
or an image where classes do not matter. The assignments (`by_score`, `by_overlap`, `many_to_one`,
`many_to_one_counted_first`, `per_reference_argmax`, `optimal`) take flat arrays

- ``reference``, ``prediction`` (P,): row numbers of both ends,
- ``similarity`` (P,),
- ``turn`` (n_predictions,): in which order predictions of one cell may choose, 0 first,

and return ``winner`` (n_predictions, n_views) int32: the pair that each prediction got, or -1; only
`by_score`, the one that is used most, yields the pairs that are granted and their views as bits
instead. Ignored references are only given to predictions that got no other; a crowd can be given
many times.

Sums over fates: under many views and replicates the fates of an object matter only through which
views count it and under which it is a hit. Few such patterns occur, so weights are summed up per
(class, pattern) first (`FateCells`) and spread over the views afterwards.

`ranks`, `decide`, `counts` and `totals` have compiled twins with the same bits: `kernels.route`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I8, I32, I64, U64, Flags
from calipers.kernels import boxes, ragged, route

IGNORED, HIT, DUPLICATE, FALSE_ALARM, MISSED = range(5)

NOT_YET, MAYBE = -1, -2  # found nobody; found somebody who was taken

# See native/kinds.h.
FULL_ROW = 255
MOST_KINDS = 30

# As a key of `FateTable.cells`: all objects, whatever their rank.
NO_LIMIT = -1

# Assignments that give a reference to several predictions: the first is the hit.
SEVERAL_TO_ONE = ("many-to-one", "many-to-one-counted-first")
# Assignments in which predictions of lower score never change the fate of higher ones.
CHOOSING_IN_TURN = ("by-score", *SEVERAL_TO_ONE)

RIVALS = 8  # predictions per cell, on average, up to which they are compared in pairs


class PairList(NamedTuple):
    """Candidate pairs, sorted by prediction."""

    reference: I32
    prediction: I32
    similarity: F64


class PredictionRanks(NamedTuple):
    """Predictions with their rank in their cell; with ``n_classes`` 0, cells are images."""

    label: I32
    score: F64
    rank: I32
    n_classes: int


class Rules(NamedTuple):
    """What decides the fates. Views share all but their cut-off and their size range."""

    assignment: str
    cutoffs: F64  # (V,) smallest admissible similarity
    size: I64  # (V,) which size range
    ranges: F64  # (A, 2) smallest and largest area of every size range
    reference_area: F64
    prediction_area: F64
    ignore: Flags  # (n_references,) references that no size range counts
    crowd: Flags  # (n_references,)

    @property
    def ignored(self) -> Flags:
        """(A, n_references) references that a size range does not count."""
        return self._left_out(self.reference_area) | self.ignore

    @property
    def outside(self) -> Flags:
        """(A, n_predictions) predictions that a size range does not count when unmatched."""
        return self._left_out(self.prediction_area)

    def _left_out(self, area: F64) -> Flags:
        low, high = self.ranges.T[:, :, None]
        return np.asarray((area < low) | (area > high))


class Fates(NamedTuple):
    """What became of every object; partner and similarity are those of the first view."""

    reference: I8  # (V, n_references)
    prediction: FateTable  # (V, n_predictions)
    partner: I32  # (n_predictions,) -1 without
    similarity: F64  # (n_predictions,) NaN without


def ranks(offsets: I64, label: I32, score: F64, n_classes: int) -> I32:
    """Return the place of every prediction in its cell, best score first, equal scores in input
    order.
    """
    native = route.native()
    if native is not None:
        return route.ranks(native, offsets, label, score, n_classes)
    rivals = boxes.rivals(offsets, label, n_classes, most=RIVALS * len(score))
    if rivals is None:
        cell = boxes.cells(offsets, label, n_classes)
        order = np.lexsort((-score, cell))
        rank = np.empty(len(order), np.int32)
        rank[order] = ragged.ranks_in_runs(cell[order])
        return rank
    other, mine = rivals
    # Cells are small as a rule, and counting who comes before is then cheaper than sorting.
    before = (score[other] > score[mine]) | ((score[other] == score[mine]) & (other < mine))
    return np.bincount(mine[before], minlength=len(score)).astype(np.int32)


def decide(
    pair_list: PairList,
    offsets: tuple[I64, I64],
    predictions: PredictionRanks,
    absent: Flags,
    rules: Rules,
) -> Fates:
    """Match under every view.

    ``offsets`` are those of references and predictions. ``absent`` predictions are beyond the
    allowed number or below the score cut: they are ignored and match nobody.
    """
    native = route.native()
    if native is not None:
        reference, numbered, partner, similarity = route.decide(
            native, pair_list, offsets, predictions, absent, rules
        )
        return Fates(reference, FateTable(*numbered), partner, similarity)
    candidates = _candidates(pair_list, absent, predictions, offsets[1], rules)
    # Views of one size range share these; they differ only in what is matched.
    unmatched = np.where(rules.outside | absent, np.int8(IGNORED), np.int8(FALSE_ALARM))
    reference = np.where(rules.ignored, np.int8(IGNORED), np.int8(MISSED))[rules.size]
    prediction = unmatched[rules.size]
    outcomes_of = _by_score if rules.assignment == "by-score" else _by_winner
    outcome, hit, first = outcomes_of(candidates, rules)
    reference[hit] = HIT
    before = prediction[:, candidates.who]
    # Who found nobody keeps the fate of the unmatched; a duplicate of a size that is not counted
    # stays ignored.
    stays = (outcome == NOT_YET) | ((outcome == MAYBE) & (before == IGNORED))
    after = np.where(outcome == MAYBE, np.int8(DUPLICATE), outcome)
    prediction[:, candidates.who] = np.where(stays, before, after)
    return Fates(reference, FateTable(prediction), *_partners(candidates, first, len(absent)))


def totals(
    table: FateTable,
    label: I32,
    rank: I32,
    limit: int,
    image: I64,
    weights: I64,
    n_classes: int,
    *,
    only_hits: bool = False,
) -> I64:
    """Return (R, V, 2, K): the weight of the hits, and of all counted objects, of every class.

    ``weights`` is (R, n_images). Objects with ``rank`` (n,) at or above the limit are left out; an
    empty one leaves nobody out; with ``only_hits`` those that hit nothing under any view may be
    left out.
    """
    if all_ones(weights):
        return counts(table, label, rank, limit, n_classes)
    native = route.native()
    cells = table.cells(label, rank, limit, image, n_classes, only_hits=only_hits)
    if native is not None and route.fit_lanes(weights, len(cells.cell)):
        return route.cell_totals(native, cells, weights)
    return cells.totals(weights)


def counts(table: FateTable, label: I32, rank: I32, limit: int, n_classes: int) -> I64:
    """Return the `totals` of one replicate in which every image counts once."""
    native = route.native()
    if native is not None:
        return route.counts(native, table, label, rank, limit, n_classes)
    fates = table.fates
    if len(rank) and limit <= rank.max(initial=0):
        rows = np.flatnonzero(rank < limit)
        fates, label = fates[:, rows], label[rows]
    return _plain_counts(fates, label, n_classes)[None]


def all_ones(weights: NDArray[np.integer]) -> bool:
    """Return whether weights (R, n_images) are one replicate in which every image counts once."""
    return len(weights) == 1 and bool((weights == 1).all())


class Candidates(NamedTuple):
    """The pairs above the lowest cut-off, and the predictions that have any, renumbered in input
    order.
    """

    reference: I64  # (P,)
    prediction: I64  # (P,) index into `who`
    similarity: F64  # (P,)
    who: I64  # rows of the predictions
    turn: I64  # per entry of `who`: its place in the queue of its cell
    cell: I64
    score: F64


def _candidates(
    pair_list: PairList, absent: Flags, p: PredictionRanks, offsets: I64, rules: Rules
) -> Candidates:
    rank, score, cell = p.rank, p.score, boxes.cells(offsets, p.label, p.n_classes)
    rows = np.flatnonzero(
        (pair_list.similarity >= rules.cutoffs.min()) & ~absent[pair_list.prediction]
    )
    reference, row = (
        pair_list.reference[rows].astype(np.int64),
        pair_list.prediction[rows].astype(np.int64),
    )
    new = np.diff(row, prepend=-1) != 0
    who = row[new]
    # Ranks count all predictions of a cell; turns count only those that have a candidate.
    queue = np.lexsort((rank[who], cell[who]))
    turn = np.empty(len(who), np.int64)
    turn[queue] = ragged.ranks_in_runs(cell[who][queue])
    return Candidates(
        reference, np.cumsum(new) - 1, pair_list.similarity[rows], who, turn, cell[who], score[who]
    )


def _by_score(c: Candidates, rules: Rules) -> tuple[I8, Flags, I64]:
    """Return (V, n_candidates) outcomes, (V, n_references) hits, and the pair of each candidate in
    the first view.
    """
    outcomes, hits, first = [], [], np.full(len(c.who), -1, np.int64)
    # Pairs are sorted by prediction: each prediction is one span, which `reduceat` needs.
    starts = np.flatnonzero(np.diff(c.prediction, prepend=-1))
    # A word has 64 bits; protocols with more views take several passes.
    for begin in range(0, len(rules.cutoffs), 64):
        cutoffs, size = rules.cutoffs[begin : begin + 64], rules.size[begin : begin + 64]
        ignored = pack(rules.ignored[size].T)
        near = views_from(cutoffs, c.similarity) & ~ignored[c.reference]
        reachable = np.bitwise_or.reduceat(near, starts) if len(starts) else np.zeros(0, np.uint64)
        hit_views, ignored_views = np.zeros(len(c.who), np.uint64), np.zeros(len(c.who), np.uint64)
        reference_hits = np.zeros(len(ignored), np.uint64)
        candidates = (c.reference, c.prediction, c.similarity, c.turn)
        for couples, granted in by_score(*candidates, cutoffs, ignored, rules.crowd):
            ref, one = c.reference[couples], c.prediction[couples]
            hit = granted & ~ignored[ref]
            hit_views[one] |= hit
            ignored_views[one] |= granted & ignored[ref]
            reference_hits[ref] |= hit
            if begin == 0:
                now = (granted & np.uint64(1)) > 0
                first[one[now]] = couples[now]
        n = len(cutoffs)
        outcome = np.where(unpack(reachable, n).T, np.int8(MAYBE), np.int8(NOT_YET))
        # A later line wins: a hit outranks an ignored match, and both outrank "was near".
        outcome[unpack(ignored_views, n).T] = IGNORED
        outcome[unpack(hit_views, n).T] = HIT
        outcomes.append(outcome)
        hits.append(unpack(reference_hits, n).T)
    return np.concatenate(outcomes), np.concatenate(hits), first


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
                # A crowd is never used up.
                reference_views[ref] |= np.where(crowd[ref], np.uint64(0), granted)
                yield pairs, granted


def _turns(reference: I64, prediction: I64, similarity: F64, turn: I64) -> list[list[I64]]:
    """Return, for every turn, the pairs as steps: everybody's favourite, everybody's second choice,
    ...
    """
    if not len(reference):
        return []
    # Of equally similar references the later comes first, as in pycocotools.
    order = np.lexsort((-reference, -similarity, prediction))
    who = prediction[order]
    start = np.flatnonzero(np.concatenate([[True], who[1:] != who[:-1]]))
    choice = np.arange(len(order)) - np.repeat(start, np.diff(np.append(start, len(order))))
    n_choices = int(choice.max()) + 1
    # One number per (turn, choice), so that one stable sort gives all steps in order.
    step = turn[who] * n_choices + choice
    by_step = np.argsort(step, kind="stable")
    cuts = np.searchsorted(step[by_step], np.arange((int(turn.max()) + 1) * n_choices + 1))
    pieces = []
    for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist()):
        pieces.append(order[by_step[first:last]])
    turns = []
    for k in range(0, len(pieces), n_choices):
        turns.append([piece for piece in pieces[k : k + n_choices] if len(piece)])
    return turns


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


def _by_winner(c: Candidates, rules: Rules) -> tuple[I8, Flags, I64]:
    """Return the same for the other assignments, which name a winning pair for each candidate and
    view.
    """
    ignored = rules.ignored[rules.size].T
    winner = _assign(c, ignored, rules)
    outcome = _outcomes(c, winner, rules)
    hit = np.zeros(ignored.T.shape, np.bool_)
    one, view = np.nonzero(outcome == HIT)
    hit[view, c.reference[winner[one, view]]] = True
    return outcome.T, hit, winner[:, 0].astype(np.int64)


def _assign(c: Candidates, ignored: Flags, rules: Rules) -> I32:
    """Return (n_candidates, V): the pair that each prediction got, or -1."""
    pairs = (c.reference, c.prediction, c.similarity)
    if rules.assignment == "by-overlap":
        return by_overlap(*pairs, c.score, rules.cutoffs, ignored, rules.crowd)
    if rules.assignment == "many-to-one":
        return many_to_one(*pairs, len(c.who), rules.cutoffs, rules.crowd)
    if rules.assignment == "many-to-one-counted-first":
        return many_to_one_counted_first(*pairs, len(c.who), rules.cutoffs, ignored, rules.crowd)
    if rules.assignment == "per-reference-argmax":
        return per_reference_argmax(*pairs, c.score, rules.cutoffs, ignored)
    return optimal(*pairs, c.cell, rules.cutoffs, ignored, rules.crowd)


def _outcomes(c: Candidates, winner: I32, rules: Rules) -> I8:
    """Return (n_candidates, V): hit, ignored, duplicate, or MAYBE and NOT_YET for those who got
    nobody.
    """
    if not len(winner):
        return np.zeros(winner.shape, np.int8)
    # Who has a near, counted reference but did not get one is a duplicate.
    starts = np.flatnonzero(np.diff(c.prediction, prepend=-1))
    similarity = np.where(rules.ignored[:, c.reference], -np.inf, c.similarity)
    nearest = np.maximum.reduceat(similarity, starts, axis=1)
    reachable = rules.cutoffs <= nearest[rules.size].T
    of_winner = np.full(winner.shape, HIT, np.int8)
    row, view = np.nonzero(winner >= 0)
    of_winner[row, view] = np.where(
        rules.ignored[rules.size[view], c.reference[winner[row, view]]], IGNORED, HIT
    )
    outcome = np.where(
        winner >= 0, of_winner, np.where(reachable, np.int8(MAYBE), np.int8(NOT_YET))
    )
    if rules.assignment in SEVERAL_TO_ONE:
        _only_first_is_hit(c, winner, outcome)
    return outcome


def _only_first_is_hit(c: Candidates, winner: I32, outcome: I8) -> None:
    """Of several hits of one reference only the first in the queue stays a hit; the others are
    duplicates.
    """
    for view in range(winner.shape[1]):
        hits = np.flatnonzero(outcome[:, view] == HIT)
        hits = hits[np.argsort(c.turn[hits], kind="stable")]
        _, first = np.unique(c.reference[winner[hits, view]], return_index=True)
        later = np.ones(len(hits), np.bool_)
        later[first] = False
        outcome[hits[later], view] = DUPLICATE


def _partners(c: Candidates, winner: I64, n: int) -> tuple[I32, F64]:
    partner, similarity = np.full(n, -1, np.int32), np.full(n, np.nan)
    hits = np.flatnonzero(winner >= 0)
    partner[c.who[hits]] = c.reference[winner[hits]]
    similarity[c.who[hits]] = c.similarity[winner[hits]]
    return partner, similarity


def many_to_one(
    reference: I64,
    prediction: I64,
    similarity: F64,
    n_predictions: int,
    cutoffs: F64,
    crowd: Flags,
) -> I32:
    """Every prediction takes its best reference, free or not, counted or not; of equal ones the
    first, as the development kit of PASCAL VOC; a crowd, which it does not know, comes last.
    """
    winner = np.full((n_predictions, len(cutoffs)), -1, np.int32)
    order = np.lexsort((reference, crowd[reference], -similarity, prediction))
    best = order[ragged.first_places(prediction[order])]
    fits = similarity[best, None] >= cutoffs
    winner[prediction[best]] = np.where(fits, best[:, None], -1)
    return winner


def many_to_one_counted_first(
    reference: I64,
    prediction: I64,
    similarity: F64,
    n_predictions: int,
    cutoffs: F64,
    ignored: Flags,
    crowd: Flags,
) -> I32:
    """Every prediction takes its best counted reference, free or not; who is near none of them
    takes its best ignored one.

    So evaluates LUNA16, where excluded findings lie inside most nodules: a candidate on a nodule
    is a hit even if an excluded finding is nearer. ``ignored`` is (n_references, V).
    """
    winner = np.full((n_predictions, len(cutoffs)), -1, np.int32)
    for view, cutoff in enumerate(cutoffs):
        near = np.flatnonzero(similarity >= cutoff)
        one, other = reference[near], prediction[near]
        keys = (one, crowd[one], -similarity[near], ignored[one, view], other)
        order = near[np.lexsort(keys)]
        best = order[ragged.first_places(prediction[order])]
        winner[prediction[best], view] = best
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
    order = _descending_order(reference, prediction, similarity, score)
    winner = np.full((len(score), len(cutoffs)), -1, np.int32)
    # Views of one size range count the same references and share a pass.
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
    order = _descending_order(reference, prediction, similarity, score)
    winner = np.full((len(score), len(cutoffs)), -1, np.int32)
    for view, cutoff in enumerate(cutoffs):
        for ignored_turn in (False, True):
            pairs = order[
                (ignored[reference[order], view] == ignored_turn) & (similarity[order] >= cutoff)
            ]
            pairs = pairs[winner[prediction[pairs], view] < 0]
            winners = pairs[ragged.first_places(reference[pairs])]
            # Pairs still descend in similarity, so the first claim on a prediction is the best one.
            winners = winners[ragged.first_places(prediction[winners])]
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
            # Crowds take whoever the one-to-one assignment left over.
            late = pairs[shared & (winner[prediction[pairs], view] < 0)]
            late = late[np.argsort(-similarity[late], kind="stable")]
            late = late[ragged.first_places(prediction[late])]
            winner[prediction[late], view] = late
    return winner


def _descending_order(reference: I64, prediction: I64, similarity: F64, score: F64) -> I64:
    """Return the pairs by descending similarity, then by score, then by rows."""
    order = np.argsort(-similarity, kind="stable")
    ordered = similarity[order]
    equal = np.zeros(len(order) + 1, np.bool_)
    equal[1:-1] = ordered[1:] == ordered[:-1]
    # Hardly any similarity occurs twice: the further keys are looked at only where one does.
    places = np.flatnonzero(equal[1:] | equal[:-1])
    ties = order[places]
    keys = (reference[ties], prediction[ties], -score[prediction[ties]], -similarity[ties])
    order[places] = ties[np.lexsort(keys)]
    return order


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
        mutual = np.flatnonzero(ragged.is_first(ref) & ragged.is_first(pred))
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


class FateTable:
    """Fates (V, n) with the numbering of their rows, which is made once and used by every sum over
    them.
    """

    def __init__(
        self,
        fates: I8,
        kind: NDArray[np.uint8] | None = None,
        kinds: NDArray[np.uint64] | None = None,
    ) -> None:
        self.fates = fates
        self._cells: dict[tuple[int, bool], FateCells] = {}
        self.numbering = None if kind is None or kinds is None else (kind, kinds)

    @classmethod
    def unnumbered(cls, fates: I8) -> FateTable:
        """Return a table in which every row stands for itself."""
        return cls(fates, np.full(fates.shape[1], FULL_ROW, np.uint8), np.zeros(0, np.uint64))

    @classmethod
    def joint_numbering(
        cls, parts: Sequence[FateTable]
    ) -> tuple[NDArray[np.uint8] | None, NDArray[np.uint64] | None]:
        """Return the numbering of the rows of all tables, one behind the other, if all have one."""
        numbers: dict[int, int] = {}
        kinds = []
        for part in parts:
            if part.numbering is None:
                return None, None
            kind, views = part.numbering
            number_of = np.full(FULL_ROW + 1, FULL_ROW, np.uint8)
            for k, pattern in enumerate(views.tolist()):
                if pattern in numbers or len(numbers) < MOST_KINDS:
                    number_of[k] = numbers.setdefault(pattern, len(numbers))
            kinds.append(number_of[kind])
        return np.concatenate(kinds), np.array(list(numbers), np.uint64)

    def cells(
        self,
        label: I32,
        rank: I32,
        limit: int,
        image: I64,
        n_classes: int,
        *,
        only_hits: bool = False,
    ) -> FateCells:
        """Return the cells of the objects, or of those that are a hit somewhere; made once for
        every limit.
        """
        everyone, key = (NO_LIMIT, False), (limit, only_hits)
        if everyone not in self._cells:
            self._cells[everyone] = cells_of(self.fates, label, image, n_classes)
        if key not in self._cells:
            below = self._cells[everyone].below(rank, limit)
            self._cells[key] = below.hitting() if only_hits else below
        return self._cells[key]

    @cached_property
    def arrays(self) -> tuple[I8, I32, NDArray[np.uint8], NDArray[np.uint64]]:
        """Rows of fates and the row of every object (`ragged.rows_by_object`), the kind of every
        object, and the views that each kind counts.
        """
        rows, place = ragged.rows_by_object(self.fates)
        if self.numbering is None:
            native = route.native()
            assert native is not None
            kind = np.empty(len(rows), np.uint8)
            kinds = native.row_kinds(rows, len(self.fates), kind, route.threads())
            self.numbering = kind[place] if len(place) else kind, np.frombuffer(kinds, np.uint64)
        return rows, place, *self.numbering


class FateCells(NamedTuple):
    """The cell of every object, and what each cell stands for."""

    cell: I32  # (n,)
    image: I32  # (n,)
    label: I64  # (n_cells,) ascending
    flags: Flags  # (n_cells, V * 2) whether it is a hit, whether it is counted
    n_classes: int

    def totals(self, weights: NDArray[np.integer]) -> I64:
        """Return (R, V, 2, K): the weight of the hits and of all counted objects, for weights (R,
        n_images).
        """
        result = np.zeros((self.n_classes, len(weights), self.flags.shape[1]))
        rows = [
            np.bincount(self.cell, weights=weight[self.image], minlength=len(self.label))
            for weight in weights
        ]
        sums = np.stack(rows) if rows else np.zeros((0, len(self.label)))
        bounds = np.searchsorted(self.label, np.arange(self.n_classes + 1)).tolist()
        for k, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:  # whole numbers: exact in whatever order the product adds them up
                result[k] = sums[:, start:stop] @ self.flags[start:stop].astype(np.float64)
        by_class = result.astype(np.int64).reshape(self.n_classes, len(weights), -1, 2)
        return by_class.transpose(1, 2, 3, 0)

    def below(self, rank: I32, limit: int) -> FateCells:
        """Return the cells without the objects whose rank is at or above the limit; an empty rank
        leaves nobody out.
        """
        if not len(rank) or limit > rank.max(initial=0):
            return self
        rows = rank < limit
        return self._replace(cell=self.cell[rows], image=self.image[rows])

    def hitting(self) -> FateCells:
        """Return the cells without the objects that hit nothing."""
        rows = np.asarray(self.flags[:, ::2].any(axis=1))[self.cell]
        return self._replace(cell=self.cell[rows], image=self.image[rows])


def cells_of(fates: I8, label: I32, image: I64, n_classes: int) -> FateCells:
    """Return the cells of objects with fates (V, n)."""
    by_object = np.ascontiguousarray(fates.T)
    hit, counts = by_object == HIT, by_object != IGNORED
    words = np.concatenate([_packed_words(hit), _packed_words(counts)], axis=1)
    pattern = label.astype(np.int64)
    for word in words.T:
        code = _codes(word)
        # The class leads the pattern, so that cells stay in the order of classes.
        pattern = _codes(pattern * (int(code.max(initial=0)) + 1) + code)
    first = np.zeros(int(pattern.max(initial=-1)) + 1, np.int64)
    first[pattern] = np.arange(len(pattern))  # any of the objects that share a cell
    flags = np.stack([hit[first], counts[first]], axis=2).reshape(len(first), 2 * len(fates))
    return FateCells(
        pattern.astype(np.int32),
        image.astype(np.int32),
        label[first].astype(np.int64),
        flags,
        n_classes,
    )


def _codes(values: NDArray[np.integer]) -> I64:
    """Return the place of every value among the distinct ones, in ascending order."""
    # There are few: looking them up is quicker than sorting all values with their places.
    distinct = np.unique(values)
    return np.searchsorted(distinct, values)


def _packed_words(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return (n, words): the flags of every row, 64 to a word."""
    packed = np.packbits(flags, axis=1)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


def _plain_counts(fates: I8, label: I32, n_classes: int) -> I64:
    """Return (V, 2, K): how many hits and how many counted objects every class has."""
    # NumPy sorts small integers by radix, which is several times faster.
    order = np.argsort(label.astype(np.min_scalar_type(n_classes)), kind="stable")
    ends = np.cumsum(np.bincount(label, minlength=n_classes)).tolist()
    by_class = np.take(fates, order, axis=1)
    result = np.empty((len(fates), 2, n_classes), np.int64)
    for k, flags in enumerate(
        ((by_class == HIT).view(np.int8), (by_class != IGNORED).view(np.int8))
    ):
        for c, (start, end) in enumerate(zip([0, *ends], ends)):
            result[:, k, c] = flags[:, start:end].sum(axis=1, dtype=np.int32)
    return result
