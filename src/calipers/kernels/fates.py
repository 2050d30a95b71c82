# SPDX-License-Identifier: Apache-2.0
"""From candidate pairs to the fate of every object under every view."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import compiled, matching, pairs, ragged, route
from calipers.kernels.matching import DUPLICATE, FALSE_ALARM, HIT, IGNORED, MISSED

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]
Flags = NDArray[np.bool_]

NOT_YET, MAYBE = -1, -2  # found nobody; found somebody who was taken
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
    ignored: Flags  # (A, n_references) references that a size range does not count
    outside: Flags  # (A, n_predictions) predictions that it does not count when unmatched
    crowd: Flags  # (n_references,)
    forgiven: bool  # many-to-one: further predictions on a reference are ignored, not duplicates


class Fates(NamedTuple):
    """What became of every object; partner and similarity are those of the first view."""

    reference: I8  # (V, n_references)
    prediction: compiled.FateTable  # (V, n_predictions)
    partner: I32  # (n_predictions,) -1 without
    similarity: F64  # (n_predictions,) NaN without


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


def ranks(offsets: I64, label: I32, score: F64, n_classes: int) -> I32:
    """Return the place of every prediction in its cell, best score first, equal scores in input
    order.
    """
    native = route.native()
    if native is not None:
        return compiled.ranks(native, offsets, label, score, n_classes)
    rivals = pairs.rivals(offsets, label, n_classes, most=RIVALS * len(score))
    if rivals is None:
        cell = pairs.cells(offsets, label, n_classes)
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
        return Fates(*compiled.decide(native, pair_list, offsets, predictions, absent, rules))
    candidates = _candidates(pair_list, absent, predictions, offsets[1], rules)
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
    return Fates(
        reference, compiled.FateTable(prediction), *_partners(candidates, first, len(absent))
    )


def _by_score(c: Candidates, rules: Rules) -> tuple[I8, Flags, I64]:
    """Return (V, n_candidates) outcomes, (V, n_references) hits, and the pair of each candidate in
    the first view.
    """
    outcomes, hits, first = [], [], np.full(len(c.who), -1, np.int64)
    starts = np.flatnonzero(np.diff(c.prediction, prepend=-1))
    for begin in range(0, len(rules.cutoffs), 64):
        cutoffs, size = rules.cutoffs[begin : begin + 64], rules.size[begin : begin + 64]
        ignored = matching.pack(rules.ignored[size].T)
        near = matching.views_from(cutoffs, c.similarity) & ~ignored[c.reference]
        reachable = np.bitwise_or.reduceat(near, starts) if len(starts) else np.zeros(0, np.uint64)
        hit_views, ignored_views = np.zeros(len(c.who), np.uint64), np.zeros(len(c.who), np.uint64)
        reference_hits = np.zeros(len(ignored), np.uint64)
        candidates = (c.reference, c.prediction, c.similarity, c.turn)
        for couples, granted in matching.by_score(*candidates, cutoffs, ignored, rules.crowd):
            ref, one = c.reference[couples], c.prediction[couples]
            hit = granted & ~ignored[ref]
            hit_views[one] |= hit
            ignored_views[one] |= granted & ignored[ref]
            reference_hits[ref] |= hit
            if begin == 0:
                now = (granted & np.uint64(1)) > 0
                first[one[now]] = couples[now]
        n = len(cutoffs)
        outcome = np.where(matching.unpack(reachable, n).T, np.int8(MAYBE), np.int8(NOT_YET))
        outcome[matching.unpack(ignored_views, n).T] = IGNORED
        outcome[matching.unpack(hit_views, n).T] = HIT
        outcomes.append(outcome)
        hits.append(matching.unpack(reference_hits, n).T)
    return np.concatenate(outcomes), np.concatenate(hits), first


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


def _candidates(
    pair_list: PairList, absent: Flags, p: PredictionRanks, offsets: I64, rules: Rules
) -> Candidates:
    rank, score, cell = p.rank, p.score, pairs.cells(offsets, p.label, p.n_classes)
    rows = np.flatnonzero(
        (pair_list.similarity >= rules.cutoffs.min()) & ~absent[pair_list.prediction]
    )
    reference, row = (
        pair_list.reference[rows].astype(np.int64),
        pair_list.prediction[rows].astype(np.int64),
    )
    new = np.diff(row, prepend=-1) != 0
    who = row[new]
    queue = np.lexsort((rank[who], cell[who]))
    turn = np.empty(len(who), np.int64)
    turn[queue] = ragged.ranks_in_runs(cell[who][queue])
    return Candidates(
        reference, np.cumsum(new) - 1, pair_list.similarity[rows], who, turn, cell[who], score[who]
    )


def _assign(c: Candidates, ignored: Flags, rules: Rules) -> I32:
    """Return (n_candidates, V): the pair that each prediction got, or -1."""
    pairs = (c.reference, c.prediction, c.similarity)
    if rules.assignment == "by-overlap":
        return matching.by_overlap(*pairs, c.score, rules.cutoffs, ignored, rules.crowd)
    if rules.assignment == "many-to-one":
        return matching.many_to_one(*pairs, len(c.who), rules.cutoffs)
    if rules.assignment == "per-reference-argmax":
        return matching.per_reference_argmax(*pairs, c.score, rules.cutoffs, ignored)
    return matching.optimal(*pairs, c.cell, rules.cutoffs, ignored, rules.crowd)


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
    if rules.assignment == "many-to-one":
        _only_first_is_hit(c, winner, outcome, IGNORED if rules.forgiven else DUPLICATE)
    return outcome


def _only_first_is_hit(c: Candidates, winner: I32, outcome: I8, other: int) -> None:
    """Of several hits of one reference only the first in the queue stays a hit."""
    for view in range(winner.shape[1]):
        hits = np.flatnonzero(outcome[:, view] == HIT)
        hits = hits[np.argsort(c.turn[hits], kind="stable")]
        _, first = np.unique(c.reference[winner[hits, view]], return_index=True)
        later = np.ones(len(hits), np.bool_)
        later[first] = False
        outcome[hits[later], view] = other


def _partners(c: Candidates, winner: I64, n: int) -> tuple[I32, F64]:
    partner, similarity = np.full(n, -1, np.int32), np.full(n, np.nan)
    got = np.flatnonzero(winner >= 0)
    partner[c.who[got]] = c.reference[winner[got]]
    similarity[c.who[got]] = c.similarity[winner[got]]
    return partner, similarity


def totals(
    table: compiled.FateTable,
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
    native = route.native()
    plain = len(weights) == 1 and bool((weights == 1).all())
    if not plain:
        cells = table.cells(label, rank, limit, image, n_classes, only_hits=only_hits)
        if native is not None and compiled.fit_lanes(weights, len(cells.cell)):
            return compiled.cell_totals(native, cells, weights)
        return cells.totals(weights)
    if native is not None:
        return compiled.totals(native, table, label, rank, limit, n_classes)
    fates = table.fates
    if len(rank) and limit <= rank.max(initial=0):
        rows = np.flatnonzero(rank < limit)
        fates, label = fates[:, rows], label[rows]
    return _counts(fates, label, n_classes)[None]


def _counts(fates: I8, label: I32, n_classes: int) -> I64:
    """Return (V, 2, K): how many hits and how many counted objects every class has."""
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
