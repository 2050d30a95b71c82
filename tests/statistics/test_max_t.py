# SPDX-License-Identifier: Apache-2.0
"""Several tests from shared replicates: what the largest t of them allows to claim."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calipers.errors import UsageError
from calipers.statistics.comparison import (
    adjusted,
    bootstrap_p,
    max_t,
    simultaneous,
    superiority_p,
)

N_UNITS = 30


def replicates_of(random, correlation, n_tests, error=1.0, number=4000):
    """Return (B, m) normal replicates with one correlation between all tests.

    Scaled so that the standard error of ``statistics.comparison`` is ``error``.
    """
    shared = random.normal(size=(number, 1))
    own = random.normal(size=(number, n_tests))
    values = np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own
    values = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
    return error * values * np.sqrt((N_UNITS - 1) / N_UNITS)


def test_a_single_test_is_not_adjusted():
    random = np.random.default_rng(0)
    for t in (0.5, 1.5, 2.5, 3.5):
        d = np.array([t])
        replicates = d + replicates_of(random, 0.0, 1)
        alone = 2.0 * stats.t.sf(t, N_UNITS - 1)
        assert bootstrap_p(d, replicates, N_UNITS)[0] == pytest.approx(alone)
        assert max_t(d, replicates, N_UNITS)[0] == pytest.approx(alone)


def test_copies_of_one_test_cost_nothing_and_independent_ones_as_much_as_sidak():
    random = np.random.default_rng(1)
    d = np.full(8, 2.4)
    alone = 2.0 * stats.t.sf(2.4, N_UNITS - 1)
    copies = d + np.repeat(replicates_of(random, 0.0, 1), 8, axis=1)
    assert max_t(d, copies, N_UNITS) == pytest.approx(np.full(8, alone), rel=0.15)
    independent = max_t(d, d + replicates_of(random, 0.0, 8), N_UNITS)
    assert independent == pytest.approx(np.full(8, 1.0 - (1.0 - alone) ** 8), rel=0.15)
    # Between the two, and below Holm, which knows nothing of the dependence.
    alike = max_t(d, d + replicates_of(random, 0.8, 8), N_UNITS)
    assert (alike > alone).all()
    assert (alike < 0.8 * 8 * alone).all()


def test_adjusted_values_keep_the_order_and_lie_between_their_own_and_holm():
    random = np.random.default_rng(2)
    for _ in range(20):
        d = random.normal(0.0, 2.0, 12)
        replicates = d + replicates_of(random, random.random(), 12, number=300)
        p, values = bootstrap_p(d, replicates, N_UNITS), max_t(d, replicates, N_UNITS)
        assert (values >= p).all()
        assert (values <= adjusted(p, "holm")[0] + 1e-15).all()
        order = np.argsort(-np.abs(d / replicates.std(axis=0, ddof=1)))
        assert (np.diff(values[order]) >= 0.0).all()


def test_tests_that_were_rejected_leave_the_family():
    random = np.random.default_rng(3)
    d = np.array([9.0, 9.0, 9.0, 2.1])
    values = max_t(d, d + replicates_of(random, 0.0, 4), N_UNITS)
    assert values[3] == pytest.approx(2.0 * stats.t.sf(2.1, N_UNITS - 1), rel=0.15)
    assert (values[:3] < 0.001).all()


def test_the_best_of_several_useless_ones_is_rarely_called_useful():
    random = np.random.default_rng(4)
    n_sets, claims, naive = 400, 0, 0
    for _ in range(n_sets):
        # Ten monitors that only look at noise, on the same 30 patients.
        scores = random.normal(size=(N_UNITS, 10))
        drawn = random.integers(0, N_UNITS, (300, N_UNITS))
        d, replicates = scores.mean(axis=0), scores[drawn].mean(axis=1)
        claims += bool((max_t(d, replicates, N_UNITS, greater=True) < 0.05).any())
        naive += bool((superiority_p(d, replicates, N_UNITS) < 0.05).any())
    assert 0.02 <= claims / n_sets <= 0.085
    assert naive / n_sets > 0.25


def test_one_sided_values_are_large_for_what_is_worse():
    random = np.random.default_rng(5)
    d = np.array([-3.0, -0.5, 0.0, 0.5])
    values = max_t(d, d + replicates_of(random, 0.3, 4), N_UNITS, greater=True)
    assert (values > 0.3).all()
    assert values[0] == pytest.approx(1.0, abs=0.02)


def test_simultaneous_intervals_leave_out_zero_where_the_largest_test_rejects():
    random = np.random.default_rng(6)
    sides = set()
    for shift in np.linspace(1.5, 4.0, 30):
        d = np.array([shift, 0.3, -0.4, 0.1, 0.2])
        replicates = d + replicates_of(random, 0.4, 5, number=1000)
        low, high = simultaneous(d, replicates, N_UNITS, 0.95)
        assert (low < d).all()
        assert (d < high).all()
        rejected = bool(max_t(d, replicates, N_UNITS)[0] < 0.05)
        assert rejected == bool(low[0] > 0.0)
        sides.add(rejected)
    assert sides == {True, False}


def test_simultaneous_intervals_hold_together():
    random = np.random.default_rng(7)
    n_sets, together, single = 300, 0, 0
    for _ in range(n_sets):
        values = random.normal(size=(24, 6)) + random.normal(size=(24, 1))
        drawn = random.integers(0, 24, (300, 24))
        d, replicates = values.mean(axis=0), values[drawn].mean(axis=1)
        low, high = simultaneous(d, replicates, 24, 0.9)
        together += bool(((low <= 0.0) & (high >= 0.0)).all())
        alone = bootstrap_p(d, replicates, 24)
        single += bool((alone >= 0.1).all())
    assert 0.86 <= together / n_sets <= 0.95
    assert single < together


def test_undefined_tests_are_no_members_and_constant_ones_do_no_harm():
    random = np.random.default_rng(8)
    d = np.array([2.6, np.nan, 0.0, 1.0])
    replicates = d + replicates_of(random, 0.0, 4)
    replicates[:, 2] = 0.0
    values = max_t(d, replicates, N_UNITS)
    assert np.isnan(values[1])
    assert values[2] == 1.0
    without = max_t(d[[0, 3]], replicates[:, [0, 3]], N_UNITS)
    # Holm, which bounds both, counts the constant one.
    assert values[[0, 3]] == pytest.approx(without, rel=0.05)


def test_far_tails_are_bounded_by_bonferroni_and_by_the_number_of_replicates():
    random = np.random.default_rng(10)
    d = np.array([7.0, 6.9, 0.1])
    replicates = d + replicates_of(random, 0.0, 3, number=200)
    p, values = bootstrap_p(d, replicates, N_UNITS), max_t(d, replicates, N_UNITS)
    assert values[0] == pytest.approx(3.0 * p[0], rel=1e-6)
    assert values[1] == pytest.approx(max(values[0], 2.0 * p[1]), rel=1e-6)


@pytest.mark.parametrize("n_units", [6, 19])
def test_few_units_are_adjusted_as_holm_does(n_units):
    random = np.random.default_rng(n_units)
    d = random.normal(0.0, 3.0, 6)
    replicates = d + replicates_of(random, 0.9, 6, number=300)
    holm = adjusted(bootstrap_p(d, replicates, n_units))[0]
    assert max_t(d, replicates, n_units) == pytest.approx(holm)


def test_replicates_without_a_value_are_left_out():
    random = np.random.default_rng(9)
    d = np.array([2.2, 0.4])
    replicates = d + replicates_of(random, 0.5, 2)
    holes = replicates.copy()
    holes[::25, 0] = np.nan
    assert max_t(d, holes, N_UNITS) == pytest.approx(max_t(d, replicates, N_UNITS), rel=0.15)


def test_p_values_alone_cannot_be_corrected_by_max_t():
    with pytest.raises(UsageError, match="holm"):
        adjusted(np.array([0.01, 0.02]), "max-t")
