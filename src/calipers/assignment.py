# SPDX-License-Identifier: Apache-2.0
"""Assignment: the fate and the partner of every object, for all views at once.

`match` turns a cohort and a model into `Matches`, the evidence of all metrics that count objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.criteria import Criterion, PairTable
from calipers.kernels import matching, ragged
from calipers.matches import Matches, Pairs, View
from calipers.tables import Cohort, Predictions, References

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Flags = NDArray[np.bool_]

DENSE_CELLS = 20_000_000  # above this many (image, class) cells a search is cheaper than a table


@dataclass(frozen=True)
class Candidates:
    """Pairs that may be matched, and the predictions that have any, renumbered 0..n-1 in input order."""

    reference: I64  # (P,)
    prediction: I64  # (P,) index into `who`
    similarity: F64  # (P,)
    who: I64  # rows of the predictions
    turn: I64  # per entry of `who`: its place in the queue of its cell
    cell: I64  # per entry of `who`
    score: F64  # per entry of `who`


def match(cohort: Cohort, model: str, views: Sequence[View]) -> Matches:
    """Match the predictions of a model with the references under every view.

    All views must share criterion, assignment, class rule and ``max_dets``: what differs is the threshold and the
    size range.
    """
    first = views[0]
    criterion: Criterion = registry.resolve("criterion", first.criterion)
    references, predictions = cohort.references, cohort.predictions(model)
    cell_of_reference, cell_of_prediction = _cells(cohort, predictions, first.within_class)
    order = np.lexsort((-predictions.score, cell_of_prediction))
    rank = np.empty(len(order), np.int32)
    rank[order] = ragged.ranks_in_runs(cell_of_prediction[order])
    pairs = _pairs(cohort, predictions, criterion, (cell_of_reference, cell_of_prediction))
    cutoffs = np.array([criterion.cutoff(view.threshold, strict=view.strict) for view in views])
    ignored = _ignored_references(references, views)
    absent = (rank >= first.max_dets) | (predictions.score < first.score_cut)
    candidates = _candidates(pairs, cutoffs.min(), rank, absent, cell_of_prediction, predictions.score)
    winner = registry.resolve("assignment", first.assignment)(candidates, cutoffs, ignored, references.crowd)
    reference_fate = np.where(ignored.T, np.int8(matching.IGNORED), np.int8(matching.MISSED))
    prediction_fate = _unmatched_fates(predictions, views, absent)
    fates = _fates(candidates, winner, cutoffs, ignored)
    if first.assignment == "many-to-one":
        fates = _only_first_is_hit(candidates, winner, fates, first.duplicates)
    _enter(reference_fate, prediction_fate, candidates, winner, fates)
    partner, similarity = _partners(candidates, winner[:, 0], len(predictions))
    return Matches(
        views=tuple(views),
        n_classes=len(cohort.classes),
        reference_offsets=references.offsets,
        prediction_offsets=predictions.offsets,
        reference_label=references.label,
        prediction_label=predictions.label,
        score=predictions.score,
        rank=rank,
        reference_fate=reference_fate,
        prediction_fate=prediction_fate,
        partner=partner,
        similarity=similarity,
        pairs=pairs,
    )


def by_score(candidates: Candidates, cutoffs: F64, ignored: Flags, crowd: Flags) -> I32:
    """Return the winners when predictions choose in descending score."""
    c = candidates
    return matching.by_score(c.reference, c.prediction, c.similarity, c.turn, cutoffs, ignored, crowd)


def many_to_one(candidates: Candidates, cutoffs: F64, ignored: Flags, crowd: Flags) -> I32:
    """Return the winners when a reference can be found many times."""
    c = candidates
    return matching.many_to_one(c.reference, c.prediction, c.similarity, len(c.who), cutoffs)


def by_overlap(candidates: Candidates, cutoffs: F64, ignored: Flags, crowd: Flags) -> I32:
    """Return the winners when the most similar pair is taken first."""
    c = candidates
    return matching.by_overlap(c.reference, c.prediction, c.similarity, c.score, cutoffs, ignored, crowd)


def per_reference_argmax(candidates: Candidates, cutoffs: F64, ignored: Flags, crowd: Flags) -> I32:
    """Return the winners when every reference chooses once."""
    c = candidates
    return matching.per_reference_argmax(c.reference, c.prediction, c.similarity, c.score, cutoffs, ignored)


def optimal(candidates: Candidates, cutoffs: F64, ignored: Flags, crowd: Flags) -> I32:
    """Return the winners of the largest one-to-one assignment."""
    c = candidates
    return matching.optimal(c.reference, c.prediction, c.similarity, c.cell, cutoffs, ignored, crowd)


def _cells(cohort: Cohort, predictions: Predictions, within_class: bool) -> tuple[I64, I64]:
    """Return the cell of every object: only objects of one cell can be matched."""
    references = cohort.references
    if not within_class:
        return references.image, predictions.image
    n = len(cohort.classes)
    return references.image * n + references.label, predictions.image * n + predictions.label


def _pairs(cohort: Cohort, predictions: Predictions, criterion: Criterion, cells: tuple[I64, I64]) -> Pairs:
    reference, prediction = _all_pairs(*cells)
    table = PairTable(cohort, predictions, reference, prediction)
    similarity = criterion.similarity(table)
    crowd = cohort.references.crowd
    if criterion.crowd is not None and crowd.any():
        similarity = np.where(crowd[reference], criterion.crowd(table), similarity)
    if np.isfinite(criterion.none):
        near = np.flatnonzero(similarity > criterion.none)
        reference, prediction, similarity = reference[near], prediction[near], similarity[near]
    image_of = np.searchsorted(predictions.offsets, prediction, side="right") - 1
    return Pairs(
        offsets=ragged.from_owner(image_of, cohort.n_images),
        reference=reference.astype(np.int32),
        prediction=prediction.astype(np.int32),
        similarity=similarity,
    )


def _all_pairs(cell_of_reference: I64, cell_of_prediction: I64) -> tuple[I64, I64]:
    """Return every (reference, prediction) of one cell, sorted by prediction, then reference."""
    order = np.argsort(cell_of_reference, kind="stable")
    n_cells = int(max(cell_of_reference.max(initial=-1), cell_of_prediction.max(initial=-1))) + 1
    if n_cells <= DENSE_CELLS:
        counts = np.bincount(cell_of_reference, minlength=n_cells)
        starts = (np.cumsum(counts) - counts)[cell_of_prediction]
        counts = counts[cell_of_prediction]
    else:
        starts, counts = ragged.matching_spans(cell_of_reference[order], cell_of_prediction)
    return order[ragged.spans(starts, counts)], np.repeat(np.arange(len(cell_of_prediction)), counts)


def _ignored_references(references: References, views: Sequence[View]) -> Flags:
    """Return (n_references, n_views): declared ignored, or of a size that the view does not count."""
    ranges = list(dict.fromkeys(view.size for view in views))
    outside = np.stack([(references.area < low) | (references.area > high) for low, high in ranges], axis=1)
    return (outside | references.ignore[:, None])[:, [ranges.index(view.size) for view in views]]


def _candidates(pairs: Pairs, cutoff: float, rank: I32, absent: Flags, cell: I64, score: F64) -> Candidates:
    kept = np.flatnonzero((pairs.similarity >= cutoff) & ~absent[pairs.prediction])
    reference, row = pairs.reference[kept].astype(np.int64), pairs.prediction[kept].astype(np.int64)
    new = np.concatenate([[True], row[1:] != row[:-1]]) if len(row) else np.zeros(0, np.bool_)
    who = row[new]
    queue = np.lexsort((rank[who], cell[who]))
    turn = np.empty(len(who), np.int64)
    turn[queue] = ragged.ranks_in_runs(cell[who][queue])
    return Candidates(reference, np.cumsum(new) - 1, pairs.similarity[kept], who, turn, cell[who], score[who])


def _unmatched_fates(predictions: Predictions, views: Sequence[View], absent: Flags) -> NDArray[np.int8]:
    """Return (n_views, n_predictions): false alarm; ignored if of another size or cut off."""
    ranges = list(dict.fromkeys(view.size for view in views))
    outside = [(predictions.area < low) | (predictions.area > high) | absent for low, high in ranges]
    fates = np.where(np.stack(outside), np.int8(matching.IGNORED), np.int8(matching.FALSE_ALARM))
    return fates[[ranges.index(view.size) for view in views]]


def _fates(candidates: Candidates, winner: I32, cutoffs: F64, ignored: Flags) -> NDArray[np.int8]:
    """Return (n_candidates, n_views): hit, ignored, duplicate, or -1 for those who keep their unmatched fate."""
    if not len(winner):
        return np.zeros(winner.shape, np.int8)
    partner = candidates.reference[winner]
    matched = np.where(ignored[partner, np.arange(len(cutoffs))], np.int8(matching.IGNORED), np.int8(matching.HIT))
    wanted = np.zeros(winner.shape, np.bool_)
    near = (candidates.similarity[:, None] >= cutoffs) & ~ignored[candidates.reference]
    starts = np.flatnonzero(np.diff(candidates.prediction, prepend=-1))
    np.logical_or.reduceat(near, starts, axis=0, out=wanted)
    return np.where(winner >= 0, matched, np.where(wanted, np.int8(matching.DUPLICATE), np.int8(-1)))


def _only_first_is_hit(
    candidates: Candidates, winner: I32, fates: NDArray[np.int8], duplicates: str
) -> NDArray[np.int8]:
    """Of several hits of one reference only the first in the queue stays a hit."""
    fates = fates.copy()
    other = matching.IGNORED if duplicates == "forgiven" else matching.DUPLICATE
    for view in range(winner.shape[1]):
        hits = np.flatnonzero(fates[:, view] == matching.HIT)
        hits = hits[np.argsort(candidates.turn[hits], kind="stable")]
        _, first = np.unique(candidates.reference[winner[hits, view]], return_index=True)
        later = np.ones(len(hits), np.bool_)
        later[first] = False
        fates[hits[later], view] = other
    return fates


def _enter(
    reference_fate: NDArray[np.int8],
    prediction_fate: NDArray[np.int8],
    candidates: Candidates,
    winner: I32,
    fates: NDArray[np.int8],
) -> None:
    """Write the fates of the candidates into the tables of all objects."""
    for view in range(winner.shape[1]):
        hits = winner[fates[:, view] == matching.HIT, view]
        reference_fate[view, candidates.reference[hits]] = matching.HIT
        row = prediction_fate[view]
        unmatched = row[candidates.who]
        # A duplicate of a size that is not counted stays ignored.
        stays = (fates[:, view] < 0) | ((winner[:, view] < 0) & (unmatched == matching.IGNORED))
        row[candidates.who] = np.where(stays, unmatched, fates[:, view])


def _partners(candidates: Candidates, winner: I32, n: int) -> tuple[I32, F64]:
    partner, similarity = np.full(n, -1, np.int32), np.full(n, np.nan)
    got = np.flatnonzero(winner >= 0)
    partner[candidates.who[got]] = candidates.reference[winner[got]]
    similarity[candidates.who[got]] = candidates.similarity[winner[got]]
    return partner, similarity


@dataclass(frozen=True)
class MatchRecipe:
    """The expensive half of every metric that counts objects: which views are needed of which matching.

    Recipes that differ only in thresholds and sizes are merged, so that geometry and matching happen once.
    """

    views: tuple[View, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """What two recipes must share to be served by one matching."""
        first = self.views[0]
        return ("matches", replace(first, threshold=0.0, strict=False, size=(0.0, np.inf)))

    def merge(self, other: MatchRecipe) -> MatchRecipe:
        """Return the recipe that serves both."""
        return MatchRecipe(tuple(dict.fromkeys((*self.views, *other.views))))

    def collect(self, cohort: Cohort, model: str) -> Matches:
        """Match the images of a cohort."""
        return match(cohort, model, self.views)
