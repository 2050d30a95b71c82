"""Intervals equal SciPy's on the same resamples, those of proportions statsmodels'; replicates
equal pycocotools'.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

import calipers as cal
from calipers.statistics import few_errors
from calipers.statistics import weights as w
from calipers.statistics.intervals import intervals
from calipers.statistics.support import Support
from calipers.statistics.weights import Units
from coco_peer import NAMES
from parity.test_pycocotools import pycocotools_of
from random_cohorts import random_cohort
from reference import resampling

PLACES = {"percentile": 1e-12, "basic": 1e-12, "bca": 1e-8}


def skewed(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).beta(2.0, 5.0, n)


def mean(x: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.mean(x, axis=axis)


def square_of_mean(x: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.mean(x, axis=axis) ** 2


@pytest.mark.parametrize("level", [0.9, 0.95])
@pytest.mark.parametrize("statistic", [mean, square_of_mean])
@pytest.mark.parametrize("method", PLACES)
def test_on_the_same_resamples(method: str, statistic, level: float) -> None:
    for seed in range(15):
        x = skewed(seed, 12 + 3 * seed)
        peer = stats.bootstrap(
            (x,),
            statistic,
            n_resamples=999,
            method=method,
            confidence_level=level,
            vectorized=True,
            rng=seed,
        )
        n = len(x)
        jackknife = np.array([statistic(np.delete(x, k)) for k in range(n)])[:, None]
        (ours,) = intervals(
            np.array([statistic(x)]),
            peer.bootstrap_distribution[:, None],
            [Support(n)],
            level=level,
            method=method,
            jackknife=jackknife,
        )
        theirs = peer.confidence_interval
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=PLACES[method])


def test_our_resamples_give_the_interval_of_scipys(kernel_route: str) -> None:
    """Other random numbers, the same distribution: bounds differ by their Monte-Carlo errors."""
    x = skewed(1, 40)
    blocks = w.bootstrap(Units.of("image", None, 40), 8000, 0)
    replicates = np.concatenate([block @ x / 40 for block in blocks])
    jackknife = ((x.sum() - x) / 39)[:, None]
    for method in PLACES:
        (ours,) = intervals(
            np.array([x.mean()]),
            replicates[:, None],
            [Support(40)],
            method=method,
            jackknife=jackknife,
        )
        theirs = stats.bootstrap(
            (x,), np.mean, n_resamples=8000, method=method, rng=1
        ).confidence_interval
        assert ours.low == pytest.approx(theirs.low, abs=6 * ours.mc_error[0])
        assert ours.high == pytest.approx(theirs.high, abs=6 * ours.mc_error[1])


def test_where_scipy_has_nan_units_are_counted() -> None:
    x = np.full(20, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = stats.bootstrap(
            (x,), np.mean, n_resamples=99, method="bca", rng=0
        ).confidence_interval
    assert np.isnan(theirs.low)
    (ours,) = intervals(
        np.array([0.5]),
        np.full((99, 1), 0.5),
        [Support(20)],
        method="bca",
        jackknife=np.full((20, 1), 0.5),
    )
    assert (ours.method, ours.flags) == ("jeffreys-t", ("identical_units",))
    assert ours.low < 0.5 < ours.high


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_proportions(level: float) -> None:
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    peers = ((few_errors.wilson, "wilson"), (few_errors.clopper_pearson, "beta"))
    for n in (1, 2, 5, 10, 30, 101, 1000):
        for k in sorted({0, 1, n // 3, n // 2, n - 1, n}):
            for ours, theirs in peers:
                expected = proportion.proportion_confint(k, n, alpha=1 - level, method=theirs)
                assert ours(k, n, level) == pytest.approx(expected, abs=1e-12), (k, n, theirs)


def really_repeated(cohort: cal.Cohort, weight: np.ndarray) -> np.ndarray:
    """The twelve numbers of pycocotools on a data set in which images are listed as often as their
    weight says.
    """
    many = cohort.take(resampling.repeated(weight))
    r, p = many.references, many.predictions("model-1")

    def records(table, **columns) -> list[dict]:
        low, high = np.split(table.boxes, 2, axis=1)
        boxes = np.concatenate([low, high - low], axis=1).tolist()
        lists = {name: column.tolist() for name, column in columns.items()}
        return [
            {"image": int(table.image[k]) + 1, "label": int(table.label[k]), "box": boxes[k]}
            | {name: values[k] for name, values in lists.items()}
            for k in range(len(table))
        ]

    truth = records(r, area=r.area, crowd=r.crowd.astype(int))
    peer = pycocotools_of(many.n_images, len(many.classes), truth, records(p, score=p.score))
    return np.where(peer.stats < 0, np.nan, peer.stats)


@pytest.mark.parametrize("seed", range(4))
def test_a_bootstrap_replicate_is_pycocotools_on_repeated_images(
    kernel_route: str, seed: int
) -> None:
    cohort = random_cohort(25, 3, seed=seed, crowd_share=0.1, declared_areas=True)
    metrics = cal.Protocol.load("coco").compile()
    evidence = {metric.recipe.key: metric.recipe.collect(cohort, "model-1") for metric in metrics}
    (block,) = w.bootstrap(Units.of("image", None, 25), 6, seed)
    found = np.concatenate(
        [metric.value(evidence[metric.recipe.key], block)[:, 0] for metric in metrics], axis=1
    )
    names = [name for metric in metrics for name in metric.facts.names]
    assert sorted(names) == sorted(NAMES)
    for weight, values in zip(np.array(block, np.int64), found):
        expected = dict(zip(NAMES, really_repeated(cohort, weight)))
        np.testing.assert_allclose(values, [expected[name] for name in names], rtol=0, atol=1e-12)
