"""Matches as evidence: choosing images and joining parts never changes what is known about an
image.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from calipers.kernels.assignment import FULL_ROW, HIT, IGNORED, FateTable
from calipers.matching.assign import match
from calipers.matching.matches import HITS, Matches, View
from cases import MODEL, cohort_of

pytestmark = pytest.mark.usefixtures("kernel_route")

VIEWS = (View(threshold=0.3), View(threshold=0.6), View(threshold=0.3, size=(0.0, 1024.0)))
COLUMNS = (
    "reference_label",
    "prediction_label",
    "score",
    "rank",
    "partner",
    "similarity",
    "reference_offsets",
)


def assert_same(a: Matches, b: Matches) -> None:
    for name in (*COLUMNS, "prediction_offsets", "reference_fate", "prediction_fate"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    for name in ("reference", "prediction", "similarity"):
        np.testing.assert_array_equal(getattr(a.pairs, name), getattr(b.pairs, name), err_msg=name)
    assert a.views == b.views
    assert a.n_classes == b.n_classes


@pytest.mark.parametrize("images", [[], [4], [0, 1, 2], [11, 3, 7, 0], list(range(12))])
@pytest.mark.parametrize("kind", ["plain", "crowds", "mostly empty", "volumes"])
def test_take_equals_matching_the_chosen_images(kind: str, images: list[int]) -> None:
    cohort = cohort_of(kind, seed=1)
    chosen = np.array(images, np.int64)
    assert_same(match(cohort, MODEL, VIEWS).take(chosen), match(cohort.take(chosen), MODEL, VIEWS))


def test_an_image_may_be_taken_twice() -> None:
    matches = match(cohort_of("plain", seed=1), MODEL, VIEWS)
    twice = matches.take(np.array([5, 5]))
    once = matches.take(np.array([5]))
    assert_same(twice, Matches.concat([once, once]))


@pytest.mark.parametrize("cuts", [[6], [1, 2, 11], [0], [12]])
def test_parts_join_to_the_whole(cuts: list[int]) -> None:
    cohort = cohort_of("ignored", seed=2)
    bounds = [0, *cuts, 12]
    parts = [match(cohort.span(a, b), MODEL, VIEWS) for a, b in itertools.pairwise(bounds)]
    joined, whole = Matches.concat(parts), match(cohort, MODEL, VIEWS)
    assert_same(joined, whole)
    weights = np.random.default_rng(0).integers(0, 4, (3, 12))
    for block in (weights, np.ones((1, 12), np.int64)):
        for ours, theirs in zip(joined.totals(block, 2), whole.totals(block, 2)):
            np.testing.assert_array_equal(ours, theirs)


def test_joined_tables_keep_the_numbers_of_their_rows() -> None:
    counted = [np.array(views, np.uint64) for views in ([5, 2], [2, 7], range(100, 130))]
    kinds = [np.array(kind, np.uint8) for kind in ([0, 1, FULL_ROW], [1, 0], [0, 26, 27])]
    parts = []
    for kind, views in zip(kinds, counted):
        parts.append(FateTable(np.zeros((8, len(kind)), np.int8), kind, views))
    fates = np.concatenate([part.fates for part in parts], axis=1)
    table = FateTable(fates, *FateTable.joint_numbering(parts))
    assert table.numbering is not None
    kind, views = table.numbering
    # 5, 2 and 7, then as many of the others as there are numbers left.
    assert views.tolist() == [5, 2, 7, *range(100, 127)]
    assert kind.tolist() == [0, 1, FULL_ROW, 2, 1, 3, 29, FULL_ROW]
    assert FateTable.joint_numbering([*parts, FateTable(parts[0].fates)]) == (None, None)


def test_partners_point_at_a_reference_of_the_same_image() -> None:
    matches = match(cohort_of("plain", seed=3), MODEL, VIEWS).take(np.array([7, 2, 9]))
    matched = np.flatnonzero(matches.partner >= 0)
    assert len(matched) > 0
    np.testing.assert_array_equal(
        matches.prediction_image[matched], matches.reference_image[matches.partner[matched]]
    )
    hits = np.flatnonzero(matches.prediction_fate[0] == HIT)
    assert (matches.reference_fate[0, matches.partner[hits]] == HIT).all()
    assert np.isnan(matches.similarity[matches.partner < 0]).all()


def test_rank_counts_within_image_and_class_by_descending_score() -> None:
    matches = match(cohort_of("tied scores", seed=4), MODEL, VIEWS)
    cell = matches.prediction_image * matches.n_classes + matches.prediction_label
    for c in np.unique(cell):
        rows = np.flatnonzero(cell == c)
        in_turn = sorted(rows, key=lambda row: -matches.score[row])
        assert [matches.rank[row] for row in in_turn] == list(range(len(rows)))


@pytest.mark.parametrize("max_dets", [1, 2, 100])
def test_ranking_holds_the_best_of_every_cell(max_dets: int) -> None:
    matches = match(cohort_of("tied scores", seed=4), MODEL, VIEWS)
    kept = np.flatnonzero(matches.rank < max_dets)
    problem = matches.curves(
        VIEWS, np.ones((1, matches.n_images), np.int64), max_dets, blocks=False
    )
    chosen = kept[problem.ranked.order]
    assert chosen.tolist() == sorted(
        kept, key=lambda row: (matches.prediction_label[row], -matches.score[row], row)
    )


def test_totals_count_hits_and_counted_objects_by_class_and_weight() -> None:
    matches = match(cohort_of("ignored", seed=4), MODEL, VIEWS)
    weights = np.random.default_rng(0).integers(0, 4, (3, matches.n_images))
    for max_dets in (1, 100):
        references, predictions = matches.totals(weights, max_dets)
        for r, view, entry, c in np.ndindex(references.shape):
            chosen = matches.reference_label == c
            chosen &= _entry(matches.reference_fate[view], entry)
            assert (
                references[r, view, entry, c] == weights[r, matches.reference_image[chosen]].sum()
            )
            chosen = (matches.prediction_label == c) & (matches.rank < max_dets)
            chosen &= _entry(matches.prediction_fate[view], entry)
            assert (
                predictions[r, view, entry, c] == weights[r, matches.prediction_image[chosen]].sum()
            )


def _entry(fate: np.ndarray, entry: int) -> np.ndarray:
    return fate == HIT if entry == HITS else fate != IGNORED


def test_pairs_are_sorted_by_prediction_and_lie_in_one_image_and_class() -> None:
    cohort = cohort_of("crowded images", seed=4)
    pairs = match(cohort, MODEL, VIEWS).pairs
    predictions = cohort.predictions(MODEL)
    assert (np.diff(pairs.prediction) >= 0).all()
    np.testing.assert_array_equal(
        cohort.references.image[pairs.reference], predictions.image[pairs.prediction]
    )
    np.testing.assert_array_equal(
        cohort.references.label[pairs.reference], predictions.label[pairs.prediction]
    )
    assert (pairs.similarity > 0).all()
