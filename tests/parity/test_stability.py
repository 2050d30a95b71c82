"""Scores of pairs of maps against SciPy and scikit-learn, on both routes; to 1e-12."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import stats
from sklearn.metrics import cohen_kappa_score, jaccard_score, matthews_corrcoef

import calipers as cal
from calipers.kernels import ranks
from kernel_routes import native_by_default
from reference.pairwise import pairs_of
from seeds import looped_seeds

# The peer takes most of the time, and `test_routes.py` holds pairs of maps to the same bits on both
# routes.
pytestmark = native_by_default

TOLERANCE = 1e-12


def random_maps(seed: int) -> np.ndarray:
    """Two to twenty maps that share something: without ties, with few levels, binary, sparse, some
    of them constant.
    """
    rng = np.random.default_rng(seed)
    k, n = int(rng.choice([2, 3, 5, 20])), int(rng.choice([2, 3, 10, 64, 65, 200, 1100]))
    common = rng.random(n)
    values = np.clip(common + rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=(k, n)), 0, 1)
    kind = seed % 6
    if kind == 1:
        values = np.round(values, 1)
    elif kind == 2:
        values = np.round(values)
    elif kind == 3:
        values[:: 1 + k // 2] = rng.choice([0.0, 0.3, 1.0])
    elif kind == 4:
        values[rng.random((k, n)) < 0.7] = 0.0
    elif kind == 5:
        values = values.astype(np.float32).astype(np.float64) ** 20
    return values


def some_pairs(n_models: int, seed: int) -> list[tuple[int, tuple[int, int]]]:
    """At most five pairs with their number: the peers are slow, and twenty models have 190."""
    pairs = list(enumerate(pairs_of(n_models)))
    return [pairs[k] for k in np.random.default_rng(seed).permutation(len(pairs))[:5]]


def tau_a(x: np.ndarray, y: np.ndarray) -> float:
    """Return concordant less discordant pairs over all, every pair looked at."""
    both = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
    return float(both.sum() / (len(x) * (len(x) - 1)))


@looped_seeds(120, default=100)
def test_correlations(seed: int) -> None:
    values = random_maps(seed)
    found = ranks.correlations(values)
    for p, (i, j) in some_pairs(len(values), seed):
        x, y = values[i], values[j]
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # SciPy warns of constant maps and of nearly constant ones
            peers = stats.pearsonr(x, y)[0], stats.spearmanr(x, y)[0], stats.kendalltau(x, y)[0]
        constant = np.ptp(x) == 0 or np.ptp(y) == 0
        expected = [*(np.nan if constant else peer for peer in peers), tau_a(x, y)]
        np.testing.assert_allclose(found[:, p], expected, rtol=0, atol=TOLERANCE)


@looped_seeds(120, default=100)
def test_scores_of_binary_maps(seed: int) -> None:
    values, cut = random_maps(seed), 0.5
    n = values.shape[1]
    ones, both, _ = ranks.joint_counts(values, np.array([cut]))
    first, second = ranks.pair_index(len(values))
    n11, n10, n01 = both[0], ones[0, first] - both[0], ones[0, second] - both[0]
    found = cal.agreement_scores(n00=n - n11 - n10 - n01, n01=n01, n10=n10, n11=n11)
    aj, pj, mcc = found["AJ"], found["PJ"], found["MCC"]
    for p, (i, j) in some_pairs(len(values), seed):
        x, y = values[i] >= cut, values[j] >= cut
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kappa = np.nan if (x == y[0]).all() and (y == y[0]).all() else cohen_kappa_score(x, y)
            jaccard = jaccard_score(x, y) if (x | y).any() else np.nan
            matthews = (
                np.nan
                if x.all() or y.all() or not (x.any() and y.any())
                else matthews_corrcoef(x, y)
            )
        np.testing.assert_allclose(
            [aj[p], pj[p], mcc[p]], [kappa, jaccard, matthews], rtol=0, atol=TOLERANCE
        )
