"""Ranks over configurations: hand values, formulas written out, and SciPy's tau-b."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau, rankdata

from calipers.sensitivity.result import (
    better,
    changes_of,
    explained,
    kendall_w,
    mean_tau,
    nearest_flip,
    ranks_of,
    winners,
)
from seeds import looped

# Three judges, four models, of Kendall's own form: rank sums 6, 4, 9, 11.
JUDGES = np.array([[2.0, 1, 3, 4], [1, 2, 3, 4], [3, 1, 4, 2]])


def random_values(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    levels = int(rng.choice([2, 4, 1000]))
    return rng.integers(0, levels, (int(rng.integers(2, 9)), int(rng.integers(2, 6)))).astype(float)


def w_by_the_formula(ranks: np.ndarray) -> float:
    """12 S / (m^2 (n^3 - n) - m T), one group of ties after the other."""
    m, n = ranks.shape
    sums = [sum(row[k] for row in ranks) for k in range(n)]
    s = sum((total - sum(sums) / n) ** 2 for total in sums)
    t = sum(
        float(np.sum(row == value)) ** 3 - np.sum(row == value)
        for row in ranks
        for value in set(row.tolist())
    )
    bottom = m * m * (n**3 - n) - m * t
    return 12 * s / bottom if bottom > 0 else float("nan")


def test_the_highest_value_has_rank_one_and_equal_values_share_the_mean():
    assert ranks_of(np.array([[0.9, 0.1, 0.5], [0.5, 0.5, 0.1], [1.0, 1.0, 1.0]])).tolist() == [
        [1, 3, 2],
        [1.5, 1.5, 3],
        [2, 2, 2],
    ]


@looped("seed", range(60))
def test_ranks_are_those_of_scipy(seed):
    values = random_values(seed)
    assert np.array_equal(ranks_of(values), rankdata(-values, axis=1))


def test_w_of_a_hand_example():
    # sums 6, 4, 10, 10: S = 1.5^2 + 3.5^2 + 2.5^2 + 2.5^2 = 27; 12 * 27 / (9 * 60) = 0.6
    assert kendall_w(JUDGES) == pytest.approx(0.6, abs=1e-15)


def test_w_is_one_if_all_agree_and_zero_if_two_oppose():
    assert kendall_w(np.tile([1.0, 2, 3], (5, 1))) == pytest.approx(1.0)
    assert kendall_w(np.array([[1.0, 2, 3], [3, 2, 1]])) == 0


@pytest.mark.parametrize("ranks", [[[1.0, 2.0]], [[1.0], [1.0]], [[1.5, 1.5], [1.5, 1.5]]])
def test_w_of_one_configuration_one_model_or_ties_only_is_undefined(ranks):
    assert np.isnan(kendall_w(np.array(ranks)))


@looped("seed", range(60))
def test_w_with_ties_follows_the_formula(seed):
    ranks = ranks_of(random_values(seed))
    assert kendall_w(ranks) == pytest.approx(w_by_the_formula(ranks), abs=1e-12, nan_ok=True)


@looped("seed", range(60))
def test_the_mean_tau_is_that_of_scipy(seed):
    ranks = ranks_of(random_values(seed))
    taus = [kendalltau(one, other).statistic for one, other in combinations(ranks, 2)]
    known = [tau for tau in taus if not np.isnan(tau)]
    assert mean_tau(ranks) == pytest.approx(
        np.mean(known) if known else np.nan, abs=1e-12, nan_ok=True
    )


def test_the_mean_tau_of_many_configurations_is_that_of_a_sample():
    ranks = ranks_of(np.random.default_rng(0).random((300, 4)))
    assert mean_tau(ranks) == mean_tau(ranks)
    every = np.mean(
        [kendalltau(one, other).statistic for one, other in combinations(ranks[:40], 2)]
    )
    assert mean_tau(ranks) == pytest.approx(every, abs=0.06)
    assert np.isnan(mean_tau(ranks[:1]))


def test_eta_squared_of_hand_examples():
    outcome = np.array([1.0, 1, 3, 3])
    assert explained(outcome, ["x", "x", "y", "y"]) == 1
    assert explained(outcome, ["x", "y", "x", "y"]) == 0
    assert explained(outcome, ["x", "x", "x", "y"]) == pytest.approx((3 * (5 / 3 - 2) ** 2 + 1) / 4)
    assert explained(np.ones(4), ["x", "x", "y", "y"]) == 0


def test_configurations_without_the_choice_count_in_the_whole_variance_only():
    outcome = np.array([1.0, 3, 2, 2, 5])
    parts = explained(outcome, ["x", "y", None, None, None])
    assert parts == pytest.approx(2 / ((outcome - outcome.mean()) ** 2).sum())
    assert explained(outcome, [None] * 5) == 0


def test_models_that_tie_share_a_win():
    assert winners(
        ranks_of(np.array([[1.0, 0, 0], [1, 1, 0], [0, 0, 0]]))
    ).tolist() == pytest.approx([(1 + 1 / 2 + 1 / 3) / 3, (1 / 2 + 1 / 3) / 3, 1 / 9])


def test_better_counts_wins_of_pairs_and_ties_are_no_wins():
    assert better(np.array([[1.0, 0], [0, 1], [2, 1], [1, 1]])).tolist() == [[0, 0.5], [0.25, 0]]


def test_the_nearest_flip_has_fewest_changes_and_then_the_nearest_numbers():
    each = [
        {"metric": "AP", "threshold": 0.5, "classes": "within"},
        {"metric": "AP", "threshold": 0.1, "classes": "within"},
        {"metric": "AP", "threshold": 0.4, "classes": "within"},
        {"metric": "AP", "threshold": 0.5, "classes": "ignore"},
        {"metric": "F1", "threshold": 0.4, "classes": "within"},
    ]
    values = np.array([[2.0, 1], [0, 1], [0, 1], [2, 1], [0, 1]])
    assert nearest_flip(values, each, 0, (0, 1)) == 2
    assert nearest_flip(values[:, ::-1], each, 0, (0, 1)) == 2
    assert nearest_flip(values[[0, 3]], each[:2], 0, (0, 1)) is None
    assert nearest_flip(np.ones((5, 2)), each, 0, (0, 1)) is None


def test_a_tie_is_no_flip():
    assert nearest_flip(np.array([[2.0, 1], [1, 1]]), [{"t": 1}, {"t": 2}], 0, (0, 1)) is None


def test_choices_that_come_with_a_metric_are_no_changes():
    one, other = {"metric": "AP", "interpolation": "voc11"}, {"metric": "F1", "average": "pooled"}
    assert changes_of(one, other) == {"metric": ("AP", "F1")}
