"""Rankings of cases that can be counted on fingers, of models in perfect order,
and of pure noise.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calipers.statistics import ranks
from calipers.statistics.weights import Units, bootstrap

CASES = ranks.METHODS[1:]


def standing(values, method, replicates=300, *, higher=True, **rule):
    values = np.asarray(values, np.float64)
    units = Units.of("case", None, len(values))
    return ranks.standing_of_cases(
        values, bootstrap(units, replicates, 0), ranks.Rule(method, higher, **rule)
    )


def test_equal_values_share_the_better_rank():
    scores = np.array([[0.5, 0.9, 0.5, 0.1], [1.0, 1.0, 1.0, 1.0], [0.5, np.nan, 0.1, 0.2]])
    found = ranks.ranks(scores, higher_wins=True)
    assert found[:2].tolist() == [[2, 1, 2, 4], [1, 1, 1, 1]]
    assert np.isnan(found[2]).all()
    assert ranks.ranks(scores[:1], higher_wins=False).tolist() == [[2, 4, 2, 1]]


def test_tau():
    one = np.array([1.0, 2.0, 3.0])
    others = np.array([[1, 2, 3], [3, 2, 1], [1, 1, 3], [1, 1, 1]], np.float64)
    found = ranks.kendall_tau_b(one, others)
    assert found[:2].tolist() == [1.0, -1.0]
    assert found[2] == pytest.approx(2 / np.sqrt(3 * 2))
    assert np.isnan(found[3])


VALUES = np.array([[0.9, 0.5, 0.1], [0.6, 0.7, 0.2], [0.9, 0.8, 0.3], [0.1, 0.6, 0.5]])


@pytest.mark.parametrize(
    ("method", "scores"),
    [
        ("mean-then-rank", [0.625, 0.65, 0.275]),
        ("median-then-rank", [0.75, 0.65, 0.25]),
        ("quantile-then-rank", [0.1, 0.5, 0.1]),
        ("rank-then-mean", [(1 + 2 + 1 + 3) / 4, (2 + 1 + 2 + 1) / 4, (3 + 3 + 3 + 2) / 4]),
        ("rank-then-median", [1.5, 1.5, 3.0]),
        ("test-then-rank", [0.0, 0.0, 0.0]),  # four cases show nothing
    ],
)
def test_what_is_ranked(method, scores):
    found = standing(VALUES, method, quantile=0.0)
    assert np.allclose(found.scores, scores, atol=1e-15)
    flipped = standing(-VALUES, method, higher=False, quantile=1.0)
    order = ranks.ranks(found.scores[None], higher_wins=found.higher_wins)
    assert np.array_equal(order, ranks.ranks(flipped.scores[None], higher_wins=flipped.higher_wins))


@pytest.mark.parametrize("method", CASES)
def test_a_weight_of_two_is_a_case_listed_twice(method):
    rng = np.random.default_rng(4)
    values, rule = rng.normal(size=(14, 4)).round(1), ranks.Rule(method, True)
    weights = rng.integers(0, 3, (6, 14))
    cases = ranks.ranks(values, higher_wins=True) if method.startswith("rank-then") else values
    found = ranks.aggregated(cases, weights, rule)
    for r in range(6):
        listed = np.repeat(cases, weights[r], axis=0)
        alone = ranks.aggregated(listed, np.ones((1, len(listed)), np.uint8), rule)[0]
        assert np.allclose(found[r], alone, atol=1e-14)
    assert np.array_equal(found, ranks.aggregated(cases, weights.astype(np.uint8), rule))


def test_no_case_drawn_is_undefined():
    for method in ("mean-then-rank", "median-then-rank"):
        found = ranks.aggregated(VALUES, np.zeros((1, 4), np.uint8), ranks.Rule(method, True))
        assert np.isnan(found).all()


@pytest.mark.parametrize("method", CASES)
def test_models_in_perfect_order_stay_so(method):
    rng = np.random.default_rng(0)
    base = rng.normal(size=(40, 1))
    found = standing(base - np.arange(5.0) * 0.5 + rng.normal(0.0, 0.01, (40, 5)), method)
    tau, kept = ranks.agreement(found, 0.95)
    assert (tau.mean, tau.low, kept) == (1.0, 1.0, 1.0)
    pairs, family = ranks.significance_map("abcde", found, 0.95)
    assert family == 20
    assert [(pair.better, pair.worse) for pair in pairs if pair.significant] == [
        (a, b) for k, a in enumerate("abcde") for b in "abcde"[k + 1 :]
    ]
    places = ranks.places("abcde", found, 0.95)
    assert [place.model for place in places] == list("abcde")
    assert [place.rank for place in places] == [1, 2, 3, 4, 5]
    assert all(place.shares[place.rank - 1] == 1.0 for place in places)


def test_noise_is_ranked_by_luck():
    taus, kept, claims = [], [], 0
    for seed in range(10):
        values = np.random.default_rng(seed).normal(size=(50, 5))
        found = standing(values, "mean-then-rank", 200)
        tau, share = ranks.agreement(found, 0.95)
        taus.append(tau.mean)
        kept.append(share)
        claims += sum(pair.significant for pair in ranks.significance_map("abcde", found, 0.95)[0])
    assert 0.3 < np.mean(taus) < 0.7
    assert 0.4 < np.mean(kept) < 0.8
    assert claims <= 3


def test_shares_of_a_model_add_up_and_bound_its_ranks():
    values = np.random.default_rng(3).normal(size=(30, 4))
    for place in ranks.places("abcd", standing(values, "rank-then-mean"), 0.9):
        assert sum(place.shares) == pytest.approx(1.0)
        assert 1 <= place.low <= place.median <= place.high <= 4


def test_all_tied_has_no_tau_but_a_winner():
    found = standing(np.ones((12, 3)), "mean-then-rank", 50)
    tau, kept = ranks.agreement(found, 0.95)
    assert np.isnan(tau.mean)
    assert tau.undefined == 50
    assert kept == 1.0
    assert [place.rank for place in ranks.places("abc", found, 0.95)] == [1, 1, 1]
    assert not any(pair.significant for pair in ranks.significance_map("abc", found, 0.95)[0])


def test_two_models_agree_or_not():
    values = np.random.default_rng(5).normal(size=(20, 2))
    found = standing(values, "mean-then-rank", 200)
    full = ranks.ranks(found.scores[None], higher_wins=True)[0]
    assert set(ranks.kendall_tau_b(full, ranks.defined_ranks(found))) == {-1.0, 1.0}


def test_undefined_replicates_are_left_out_and_too_many_are_a_reason():
    theta, replicates = np.array([0.5, 0.4]), np.random.default_rng(0).random((100, 2))
    replicates[:4, 0] = np.nan
    found = ranks.standing_of_values(theta, replicates, 30, higher_is_better=True)
    assert len(ranks.defined_ranks(found)) == 96
    assert ranks.missing_reason(30, found) is None
    replicates[:6, 0] = np.nan
    assert ranks.missing_reason(30, found) == "too_many_undefined"
    assert ranks.missing_reason(4, found) == "too_few_units"
    assert ranks.missing_reason(1, found) == "one_unit"


def test_data_set_metrics_are_tested_by_the_bootstrap():
    rng = np.random.default_rng(0)
    theta = np.array([0.3, 0.5, 0.7])
    replicates = theta + rng.normal(0.0, 0.02, (400, 3))
    for higher in (True, False):
        found = ranks.standing_of_values(theta, replicates, 40, higher_is_better=higher)
        pairs, family = ranks.significance_map("abc", found, 0.95)
        claims = {(pair.better, pair.worse) for pair in pairs if pair.significant}
        assert family == 6
        assert claims == (
            {("c", "b"), ("c", "a"), ("b", "a")} if higher else {("a", "b"), ("a", "c"), ("b", "c")}
        )
    few = ranks.standing_of_values(theta, replicates, 4, higher_is_better=True)
    assert np.isnan(few.p).all()


def test_every_stratum_takes_a_degree_of_freedom_from_the_map():
    rng = np.random.default_rng(0)
    theta = np.array([0.5, 0.52])
    replicates = theta + rng.normal(0.0, 0.01, (400, 2))
    found = ranks.standing_of_values(theta, replicates, 12, higher_is_better=True, freedom=8)
    error = np.std(replicates[:, 1] - replicates[:, 0], ddof=1) * np.sqrt(12 / 8)
    assert found.p[1, 0] == pytest.approx(stats.t.sf(0.02 / error, 8))
    assert found.p[0, 1] == pytest.approx(stats.t.cdf(0.02 / error, 8))
    few = ranks.standing_of_values(theta, replicates, 12, higher_is_better=True, freedom=3)
    assert np.isnan(few.p).all()
    assert ranks.missing_reason(12, found, 8) is None
    assert ranks.missing_reason(12, few, 3) == "too_few_units"
