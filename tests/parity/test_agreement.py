"""Agreement against scikit-learn, irrCAC, krippendorff and statsmodels on random tables."""

from __future__ import annotations

import numpy as np
import pytest

import calipers as cal
from calipers.agreement.decisions import mcnemar_exact, swapped_gains
from calipers.agreement.raters import Panel, coefficients
from calipers.kernels import roc
from calipers.statistics.comparison import permutation_p
from seeds import looped, looped_seeds


def calls(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 200))
    reference = rng.random(n) < rng.uniform(0.1, 0.9)
    reference[:2] = True, False
    decision = np.where(rng.random(n) < 0.7, reference, rng.random(n) < 0.5)
    decision[2:4] = True, False
    return decision, reference


def scores(decision, reference):
    cells = [(a & b).sum() for a in (~decision, decision) for b in (~reference, reference)]
    return cal.agreement_scores(*cells)


@looped("seed", range(120))
def test_scikit_learn_on_tables(seed):
    from sklearn import metrics

    decision, reference = calls(seed)
    found = scores(decision, reference)
    expected = {
        "kappa": metrics.cohen_kappa_score(reference, decision),
        "MCC": metrics.matthews_corrcoef(reference, decision),
        "balanced-accuracy": metrics.balanced_accuracy_score(reference, decision),
        "accuracy": metrics.accuracy_score(reference, decision),
        "sensitivity": metrics.recall_score(reference, decision),
        "PPV": metrics.precision_score(reference, decision),
        "positive-agreement": metrics.f1_score(reference, decision),
        "negative-agreement": metrics.f1_score(~reference, ~decision),
        "Jaccard": metrics.jaccard_score(reference, decision),
        "specificity": metrics.recall_score(~reference, ~decision),
        "NPV": metrics.precision_score(~reference, ~decision),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)


@looped("seed", range(100))
def test_scikit_learn_on_areas(seed):
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    _, reference = calls(seed)
    values = np.round(rng.random(len(reference)) + 0.3 * reference, int(rng.integers(0, 4)))
    weights = rng.integers(0, 4, (3, len(reference)))
    weights[:, :2] = 1
    found = roc.operating(values, reference, weights).auroc()
    expected = [roc_auc_score(reference, values, sample_weight=w) for w in weights]
    assert found == pytest.approx(expected, abs=1e-12)


def panel(seed):
    """Ratings of 4 categories by some raters, one fifth missing;
    every category and rater occurs.
    """
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(8, 40)), int(rng.integers(2, 6)))
    codes = np.where(
        rng.random(shape) < 0.6, rng.integers(0, 4, (shape[0], 1)), rng.integers(0, 4, shape)
    )
    codes[rng.random(shape) < 0.2] = -1
    codes[:4, :] = np.arange(4)[:, None]
    codes = codes[(codes >= 0).any(axis=1)]
    table = np.where(codes < 0, np.nan, codes + 1.0)
    return codes, table


def ours(codes, scale):
    found = coefficients(Panel(codes, np.arange(1.0, 5.0), scale), np.ones((1, len(codes)), int))
    return {name: float(value[0]) for name, value in found.items()}


@looped("seed", range(100))
def test_krippendorff(seed):
    package = pytest.importorskip("krippendorff")
    codes, table = panel(seed)
    for scale in ("nominal", "ordinal", "interval"):
        expected = package.alpha(reliability_data=table.T, level_of_measurement=scale)
        assert ours(codes, scale)["alpha"] == pytest.approx(expected, abs=1e-10)


# irrCAC takes 50 ms for a table; krippendorff sees all hundred.
@looped_seeds(100, default=30)
def test_irrcac(seed):
    raw, pandas = pytest.importorskip("irrCAC.raw"), pytest.importorskip("pandas")
    codes, table = panel(seed)
    for scale, weights in (
        ("nominal", "identity"),
        ("ordinal", "ordinal"),
        ("interval", "quadratic"),
    ):
        # The categories are named because recent pandas makes the package count a missing rating as
        # one.
        peer = raw.CAC(
            pandas.DataFrame(table), weights=weights, categories=[1.0, 2.0, 3.0, 4.0], digits=12
        )
        gwet = "AC1" if scale == "nominal" else "AC2"
        expected = {
            name: getattr(peer, method)()["est"]["coefficient_value"]
            for name, method in ((gwet, "gwet"), ("Fleiss", "fleiss"), ("Conger", "conger"))
        }
        found = ours(codes, scale)
        assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-9)


def test_irrcac_on_its_own_example():
    pytest.importorskip("irrCAC")
    from irrCAC.datasets import raw_4raters

    table = raw_4raters().to_numpy()
    codes = np.where(np.isnan(table), -1, table - 1).astype(int)
    found = coefficients(
        Panel(codes, np.arange(1.0, 6.0), "nominal"), np.ones((1, len(codes)), int)
    )
    assert {name: round(float(found[name][0]), 5) for name in ("AC1", "alpha", "Fleiss")} == {
        "AC1": 0.77544,
        "alpha": 0.74342,
        "Fleiss": 0.76117,
    }


@looped("seed", range(60))
def test_two_raters_are_a_table(seed):
    """With two raters and two categories the coefficients of panels are those of 2x2 tables."""
    decision, reference = calls(seed)
    table = scores(decision, reference)
    codes = np.stack([decision, reference], axis=1).astype(int)
    found = coefficients(Panel(codes, np.arange(2.0), "nominal"), np.ones((1, len(codes)), int))
    for name, twin in (
        ("Conger", "kappa"),
        ("Fleiss", "Scott-pi"),
        ("alpha", "alpha"),
        ("AC1", "AC1"),
        ("po", "po"),
    ):
        assert float(found[name][0]) == pytest.approx(table[twin], abs=1e-12)


def swap_p(gain, replicates, seed):
    return permutation_p(
        gain.sum(axis=0), swapped_gains(gain, replicates, seed), exact=len(gain) <= 16
    )[0]


@pytest.mark.parametrize(
    ("only_a", "only_b"), [(0, 0), (1, 0), (5, 5), (2, 9), (30, 12), (0, 14), (8, 7)]
)
def test_mcnemar_of_statsmodels(only_a, only_b):
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    found = mcnemar_exact(only_a, only_b)
    if only_a + only_b:
        expected = tables.mcnemar([[7, only_a], [only_b, 3]], exact=True).pvalue
        assert found == pytest.approx(expected, abs=1e-12)
    else:
        assert found == 1
    # Every unit with one rating: swapping units is McNemar's test.
    gain = np.array([1] * only_a + [-1] * only_b + [0] * 2, np.int64)[:, None]
    if len(gain) <= 16:
        assert swap_p(gain, 100, 0) == pytest.approx(found, abs=1e-12)


def test_random_swaps_come_near_mcnemar():
    gain = np.array([1] * 20 + [-1] * 9, np.int64)[:, None]
    assert swap_p(gain, 4000, 1) == pytest.approx(mcnemar_exact(20, 9), abs=0.02)


def test_exact_swaps_equal_scipy():
    from scipy.stats import permutation_test

    gain = np.array([3, -1, 2, 2, -2, 1, 4, -1], np.int64)
    expected = permutation_test(
        (gain, np.zeros_like(gain)),
        lambda a, b: float((a - b).sum()),
        permutation_type="samples",
        n_resamples=np.inf,
    ).pvalue
    assert swap_p(gain[:, None], 100, 0) == pytest.approx(expected, abs=1e-12)
