"""Matching kernels on flat arrays: properties that hold whatever the numbers are."""

from __future__ import annotations

import numpy as np
import pytest

from calipers.kernels import assignment

NO_PAIRS = np.zeros(0, np.int64)


def random_pairs(seed: int, ties: bool) -> tuple[np.ndarray, ...]:
    """One cell with 6 references and 7 predictions, about half of all pairs."""
    random = np.random.default_rng(seed)
    prediction, reference = np.divmod(np.flatnonzero(random.random(42) < 0.5), 6)
    similarity = random.random(len(reference))
    similarity = similarity.round(1) if ties else similarity
    ignored = np.repeat(random.random((6, 1)) < 0.3, 3, axis=1)
    crowd = ignored[:, 0] & (random.random(6) < 0.3)
    present, prediction = np.unique(prediction, return_inverse=True)
    score = random.random(len(present)).round(1)
    turn = np.empty(len(score), np.int64)
    turn[np.argsort(-score, kind="stable")] = np.arange(len(score))
    return reference, prediction, similarity, score, turn, ignored, crowd


CUTOFFS = np.array([0.0, 0.3, 0.7])


def winners_by_score(
    reference, prediction, similarity, turn, cutoffs, ignored, crowd
) -> np.ndarray:
    """The grants of the score order as a table: which pair each prediction got in each view."""
    winner = np.full((len(turn), len(cutoffs)), -1, np.int32)
    rules = (cutoffs, assignment.pack(ignored), crowd)
    for pairs, granted in assignment.by_score(reference, prediction, similarity, turn, *rules):
        which, view = np.nonzero(assignment.unpack(granted, len(cutoffs)))
        winner[prediction[pairs[which]], view] = pairs[which]
    return winner


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("strategy", ["by_score", "by_overlap", "per_reference_argmax", "optimal"])
def test_winners_are_admissible_and_one_to_one_but_for_crowds(strategy: str, ties: bool) -> None:
    for seed in range(60):
        reference, prediction, similarity, score, turn, ignored, crowd = random_pairs(seed, ties)
        if strategy == "by_score":
            winner = winners_by_score(
                reference, prediction, similarity, turn, CUTOFFS, ignored, crowd
            )
        elif strategy == "per_reference_argmax":
            winner = assignment.per_reference_argmax(
                reference, prediction, similarity, score, CUTOFFS, ignored
            )
        elif strategy == "optimal":
            cell = np.zeros(len(score), np.int64)
            winner = assignment.optimal(
                reference, prediction, similarity, cell, CUTOFFS, ignored, crowd
            )
        else:
            winner = assignment.by_overlap(
                reference, prediction, similarity, score, CUTOFFS, ignored, crowd
            )
        assert winner.shape == (len(score), 3)
        for view, cutoff in enumerate(CUTOFFS):
            got = np.flatnonzero(winner[:, view] >= 0)
            pairs = winner[got, view]
            assert (prediction[pairs] == got).all()
            assert (similarity[pairs] >= cutoff).all()
            used = reference[pairs][~crowd[reference[pairs]]]
            assert len(set(used.tolist())) == len(used)


@pytest.mark.parametrize("strategy", ["by_score", "by_overlap", "optimal"])
def test_nobody_is_left_with_a_free_counted_reference(strategy: str) -> None:
    for seed in range(60):
        reference, prediction, similarity, score, turn, ignored, crowd = random_pairs(seed, True)
        if strategy == "optimal":
            last, call = np.zeros(len(score), np.int64), assignment.optimal
        else:
            last = turn if strategy == "by_score" else score
            call = winners_by_score if strategy == "by_score" else assignment.by_overlap
        winner = call(reference, prediction, similarity, last, CUTOFFS, ignored, crowd)
        for view, cutoff in enumerate(CUTOFFS):
            used = set(reference[winner[winner[:, view] >= 0, view]].tolist())
            for r, p, s in zip(reference, prediction, similarity):
                if s >= cutoff and winner[p, view] < 0 and not ignored[r, view]:
                    assert r in used


def test_no_candidates() -> None:
    none, flags = np.zeros(0), np.zeros((2, 3), np.bool_)
    crowd = np.zeros(2, np.bool_)
    for winner in (
        winners_by_score(NO_PAIRS, NO_PAIRS, none, NO_PAIRS, CUTOFFS, flags, crowd),
        assignment.by_overlap(NO_PAIRS, NO_PAIRS, none, none, CUTOFFS, flags, crowd),
        assignment.many_to_one(NO_PAIRS, NO_PAIRS, none, 0, CUTOFFS, crowd),
        assignment.many_to_one_counted_first(NO_PAIRS, NO_PAIRS, none, 0, CUTOFFS, flags, crowd),
        assignment.optimal(NO_PAIRS, NO_PAIRS, none, NO_PAIRS, CUTOFFS, flags, crowd),
        assignment.per_reference_argmax(NO_PAIRS, NO_PAIRS, none, none, CUTOFFS, flags),
    ):
        assert winner.shape == (0, 3)


def test_one_more_pair_outweighs_any_similarity() -> None:
    # References 0, 1; predictions 0, 1. The best single pair (0, 0) would leave both others alone.
    reference, prediction = np.array([0, 1, 0]), np.array([0, 0, 1])
    similarity = np.array([1.0, 0.1, 0.1])
    flags = np.zeros((2, 1), np.bool_)
    cell = np.zeros(2, np.int64)
    winner = assignment.optimal(
        reference, prediction, similarity, cell, np.array([0.05]), flags, flags[:, 0]
    )
    assert winner[:, 0].tolist() == [1, 2]


def test_negative_similarities_can_be_matched_optimally() -> None:
    reference, prediction = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    similarity = np.array([-5.0, -30.0, -8.0, -9.0])  # distances with their sign turned
    flags = np.zeros((2, 1), np.bool_)
    cell = np.zeros(2, np.int64)
    winner = assignment.optimal(
        reference, prediction, similarity, cell, np.array([-40.0]), flags, flags[:, 0]
    )
    assert winner[:, 0].tolist() == [0, 3]
