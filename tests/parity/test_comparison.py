"""Comparison and ranking against SciPy and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.stats._resampling import BootstrapResult

from calipers.statistics import comparison as paired
from calipers.statistics.comparison import adjusted, signed_rank_p
from calipers.statistics.ranks import kendall_tau_b
from calipers.statistics.weights import Units
from seeds import looped
from shares import Ratio, sides

METRIC = Ratio()
A = np.array([-1.64, -0.80, -0.97, -1.06, -1.35, -0.46, -1.31, -1.16, 0.38, 0.29])
B = np.array([0.72, 0.10, 0.43, -0.32, 0.11, -1.64, -0.71, -1.88, -1.94, -0.92])


def mean_difference(x, y, axis=-1):
    return np.mean(x, axis=axis) - np.mean(y, axis=axis)


def exact_p(a, b):
    trades = paired.traded([METRIC], *sides(a, b), Units.of("image", None, len(a)), 0, 0)[0][:, 0]
    return paired.permutation_p(np.array([np.mean(a) - np.mean(b)]), trades, exact=True)[0]


def test_exact_sign_flips_of_one_example():
    peer = stats.permutation_test(
        (A, B), mean_difference, permutation_type="samples", n_resamples=np.inf
    )
    assert exact_p(A, B) == peer.pvalue == 0.669921875


@looped("seed", range(12))
def test_exact_sign_flips(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 13))
    a, b = rng.normal(0.3, 1.0, n), rng.normal(0.0, 1.0, n)
    if seed % 2:
        a, b = a.round(0), b.round(0)
    peer = stats.permutation_test(
        (a, b), mean_difference, permutation_type="samples", n_resamples=np.inf
    )
    # SciPy doubles the smaller tail; the flips come in pairs of opposite sign, so that this is the
    # same.
    assert exact_p(a, b) == pytest.approx(peer.pvalue, abs=1e-12)


def test_percentile_interval_and_error_of_the_same_resamples():
    n, units = 25, Units.of("image", None, 25)
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.4, 1.0, n), rng.normal(0.0, 1.0, n)
    one, other = paired.bootstrapped([METRIC], sides(a, b), units, 999, 3)
    replicates = (one[0] - other[0])[:, 0]
    given = BootstrapResult(
        confidence_interval=None, bootstrap_distribution=replicates[:, 0], standard_error=None
    )
    peer = stats.bootstrap(
        (a, b),
        mean_difference,
        paired=True,
        method="percentile",
        n_resamples=0,
        bootstrap_result=given,
    )
    d = np.array([a.mean() - b.mean()])
    ours = paired.judge(d, replicates, None, units, 0.95).intervals[0]
    assert ours.percentile == pytest.approx(tuple(peer.confidence_interval), abs=1e-14)
    error = peer.standard_error * np.sqrt(n / (n - 1))
    half = stats.t.ppf(0.975, n - 1) * error
    assert (ours.low, ours.high) == pytest.approx((d[0] - half, d[0] + half), abs=1e-12)
    p = paired.bootstrap_p(d, replicates, n)[0]
    assert p == pytest.approx(2 * stats.t.sf(abs(d[0]) / error, n - 1), rel=1e-10)


def test_the_bootstrap_approaches_the_paired_t_test():
    rng = np.random.default_rng(4)
    a, b = rng.normal(0.3, 1.0, 40), rng.normal(0.0, 1.0, 40)
    one, other = paired.bootstrapped([METRIC], sides(a, b), Units.of("image", None, 40), 20000, 0)
    p = paired.bootstrap_p(np.array([a.mean() - b.mean()]), (one[0] - other[0])[:, 0], 40)[0]
    assert p == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=0.05)


@pytest.mark.parametrize(("ours", "theirs"), [("holm", "holm"), ("bh", "fdr_bh")])
def test_corrections(ours, theirs):
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    rng = np.random.default_rng(0)
    families = [np.array([0.01, 0.04, 0.03, 0.005, 0.5])]
    families += [rng.random(int(rng.integers(1, 30))) ** 3 for _ in range(30)]
    families += [rng.integers(1, 6, 12) / 50 for _ in range(10)]  # with ties
    for p in families:
        assert np.allclose(
            adjusted(p, ours)[0], multitest.multipletests(p, method=theirs)[1], rtol=1e-13
        )


@looped("seed", range(10))
def test_kendall_tau_b(seed):
    rng = np.random.default_rng(seed)
    one, others = rng.integers(1, 5, 6).astype(float), rng.integers(1, 5, (20, 6)).astype(float)
    peer = [stats.kendalltau(one, other, variant="b").statistic for other in others]
    assert np.allclose(kendall_tau_b(one, others), peer, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize("n", [1, 3, 6, 20, 50, 51, 120])
@pytest.mark.parametrize("digits", [9, 0])
def test_signed_ranks(n, digits):
    rng = np.random.default_rng(n)
    d = (rng.normal(0.3, 1.0, n) * 2).round(digits)
    left = np.abs(d[d != 0])
    if not len(left):
        assert signed_rank_p(d, np.ones((1, n), np.uint8)).tolist() == [[1.0, 1.0]]
        return
    exact = len(np.unique(left)) == len(left) <= 50
    options = {
        "zero_method": "wilcox",
        "correction": False,
        "method": "exact" if exact else "asymptotic",
    }
    peer = [stats.wilcoxon(d, alternative=side, **options).pvalue for side in ("greater", "less")]
    assert np.allclose(signed_rank_p(d, np.ones((1, n), np.uint8))[0], peer, rtol=1e-11)
