"""Curve kernels against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calipers.kernels import curves
from calipers.kernels.assignment import DUPLICATE, FALSE_ALARM, HIT, IGNORED, FateTable

pytestmark = pytest.mark.usefixtures("kernel_route")

OFFSETS = np.array([0, 3, 3, 8, 10])


def test_segment_cumsum_starts_anew_in_every_class() -> None:
    values = np.arange(1, 11)[None, :]
    assert curves.segment_cumsum(values, OFFSETS).tolist() == [[1, 3, 6, 4, 9, 15, 22, 30, 9, 19]]


def test_segment_cumsum_of_nothing() -> None:
    assert curves.segment_cumsum(np.zeros((2, 0), np.int64), np.array([0, 0])).shape == (2, 0)


def test_envelope_looks_ahead_inside_the_class_only() -> None:
    values = np.array([[0.5, 0.2, 0.3, 0.1, 0.9, 0.4, 0.6, 0.2, 1.0, 0.0]])
    assert curves.envelope(values, OFFSETS).tolist() == [
        [0.5, 0.3, 0.3, 0.9, 0.9, 0.6, 0.6, 0.2, 1.0, 0.0]
    ]


def test_block_ends_stop_at_equal_scores_of_another_class() -> None:
    score = np.array([0.9, 0.5, 0.5, 0.5, 0.5, 0.4, 0.4, 0.1, 0.7, 0.7])
    assert curves.block_ends(score, OFFSETS).tolist() == [0, 2, 2, 4, 4, 6, 6, 7, 9, 9]
    assert curves.block_ends(np.zeros(0), np.array([0, 0])).tolist() == []


@given(st.integers(1, 5000), st.floats(0.0, 1.0))
def test_needed_hits_is_the_first_whole_number_that_reaches_the_recall(
    positives: int, recall: float
) -> None:
    found = curves.needed_hits(np.array([[positives]]), np.array([recall]))[0, 0, 0]
    assert found / positives >= recall
    assert found == 1 or (found - 1) / positives < recall


def test_needed_hits_on_the_hundred_and_one_points() -> None:
    recalls = np.linspace(0.0, 1.0, 101)
    for positives in (*range(1, 1500), 99_999, 1_000_003):
        found = curves.needed_hits(np.array([[positives]]), recalls)[0, 0]
        assert (found / positives >= recalls).all()
        assert found[0] == 1  # a recall of 0 is read off at the first hit
        assert ((found - 1) / positives < recalls)[1:].all()


def curve_of(offsets: list[int], hits: list[int], every: list[int]) -> curves.Curve:
    counts = [np.array([values]) for values in (hits, every)]
    return curves.Curve(np.array(offsets), *counts, weight=np.ones_like(counts[0]))


def test_precision_at_reads_each_class_apart() -> None:
    c = curve_of([0, 2, 3], [1, 2, 1], [1, 4, 2])
    needed = curves.needed_hits(np.array([[2, 4]]), np.array([0.0, 0.5, 0.6, 1.0]))
    found = curves.precision_at(c, needed)
    assert found[0] == pytest.approx(np.array([[1, 1, 0.5, 0.5], [0.5, 0, 0, 0]]), abs=1e-15)


def test_area_is_undefined_without_references() -> None:
    found = curves.area(curve_of([0, 1, 1], [1], [2]), np.array([[2, 0]]), enveloped=True)
    assert found[0, 0] == 0.25
    assert np.isnan(found[0, 1])


def test_ranking_sorts_by_class_then_descending_score_then_input_order() -> None:
    score, label = np.array([0.5, 0.9, 0.5, 0.7, 0.5]), np.array([1, 0, 0, 1, 1], np.int32)
    single = curves.ranking(score, label, 3, blocks=False)
    assert single.order.tolist() == [1, 2, 3, 0, 4]
    assert single.offsets.tolist() == [0, 2, 5, 5]
    # Every prediction is an operating point of its own.
    assert single.ends.tolist() == []
    assert single.ends_of(np.arange(5)).tolist() == [0, 1, 2, 3, 4]
    assert curves.ranking(score, label, 3, blocks=True).ends.tolist() == [0, 1, 2, 4, 4]


@pytest.mark.parametrize("kind", ["spread", "tied", "alike", "equal"])
def test_many_predictions_are_sorted_like_few(kind: str) -> None:
    # More than are sorted at a time: first they are parted by the beginnings of their scores.
    n, rng = 700_000, np.random.default_rng(4)
    scores = {
        "spread": lambda: rng.normal(0, 1e3, n),
        "tied": lambda: np.round(rng.normal(0, 1, n), 2),  # with -0.0 and 0.0
        "alike": lambda: 0.75 + 1e-9 * rng.random(n),  # all in one part
        "equal": lambda: np.ones(n),
    }
    score, label = scores[kind](), (rng.random(n) < 0.1).astype(np.int32)
    expected = np.lexsort((np.arange(n), -score, label))
    for blocks in (False, True):
        ranked = curves.ranking(score, label, 3, blocks=blocks)
        np.testing.assert_array_equal(ranked.order, expected)
        if blocks:
            last = curves.block_ends(score[expected], ranked.offsets)
            np.testing.assert_array_equal(ranked.ends, last)


def problem_of(
    fates: list[int], score: list[float], weights: list[list[int]]
) -> curves.CurveProblem:
    """One class on one image."""
    ranked = curves.ranking(np.array(score), np.zeros(len(score), np.int32), 1, blocks=True)
    image = np.zeros(len(score), np.int64)
    return curves.CurveProblem(
        FateTable(np.array([fates], np.int8)), [0], ranked, lambda: image, np.array(weights)
    )


def test_hits_at_takes_the_best_point_within_the_limit() -> None:
    fates = [HIT, FALSE_ALARM, HIT, DUPLICATE, FALSE_ALARM, HIT, HIT, IGNORED]
    problem = problem_of(fates, [0.9, 0.8, 0.8, 0.7, 0.6, 0.5, 0.5, 0.4], [[1], [2]])
    allowed = np.array([[0.0, 0.9, 1.0, 2.9, 3.0, 100.0]])
    found = curves.hits_at(problem, np.concatenate([allowed, 2 * allowed]))
    assert found[0, 0, 0].tolist() == [1, 1, 2, 2, 4, 4]
    assert found[1].tolist() == (2 * found[0]).tolist()


def test_hits_without_predictions_are_zero() -> None:
    assert curves.hits_at(problem_of([], [], [[1]]), np.array([[1.0]])).tolist() == [[[[0]]]]
