"""Variants of rank correlation on maps with and without ties, and what pooling by log-sum-exp is
near to.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calipers.studies.stability.experiments import printed_spearman, rank_shifts, soft_maximum, ties


@pytest.mark.parametrize("seed", range(3))
def test_the_printed_formula_is_right_without_ties_and_too_high_with_them(seed: int) -> None:
    one = ties(seed)
    assert one.formula["without ties"] == pytest.approx(one.spearman["without ties"], abs=1e-12)
    assert one.formula["with ties"] > one.spearman["with ties"] + 0.01
    assert one.tau_a["without ties"] == pytest.approx(one.tau_b["without ties"], abs=1e-12)
    assert one.tau_b["with ties"] > one.tau_a["with ties"] + 0.3
    assert one.zeros > 0.5


def test_the_formula_is_that_of_the_table() -> None:
    values = np.random.default_rng(0).permuted(np.tile(np.arange(30.0), (2, 1)), axis=1)
    assert printed_spearman(values) == pytest.approx(stats.spearmanr(*values).statistic)


def test_exchanges_displace_as_much_in_all() -> None:
    one = rank_shifts(256)
    ranks = np.arange(256.0)
    small = ranks.reshape(-1, 2, 8)[:, ::-1].ravel()
    assert np.abs(small - ranks).sum() == 8 * 256
    assert one.many_small[0] == pytest.approx(stats.spearmanr(ranks, small).statistic)
    assert one.few_large[0] < one.many_small[0]
    assert one.halved == pytest.approx((1.0, 1.0))


def test_log_sum_exp_stays_within_r_over_8_of_the_mean() -> None:
    for r in (0.1, 1.0, 4.0):
        assert 0 < soft_maximum(r, 0).from_mean <= r / 8
    assert soft_maximum(1.0, 0).from_max > soft_maximum(100.0, 0).from_max
