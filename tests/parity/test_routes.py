"""The NumPy kernels and their compiled twins give the same bits: evidence, values, with any number
of threads.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from calipers.kernels import ranks, route
from calipers.matching.assign import match
from calipers.matching.matches import Matches, Pairs, View
from cases import KINDS, MODEL, cohort_of, evidence_of
from properties.suite import CASES, Case
from reference.matching import STRATEGIES
from seeds import batches, looped

pytestmark = pytest.mark.skipif(route.native() is None, reason="the native kernels were not built")


def assert_equal_bits(found: Any, expected: Any) -> None:
    for column in fields(expected):
        ours, theirs = getattr(found, column.name), getattr(expected, column.name)
        if isinstance(theirs, Pairs | Matches):
            assert_equal_bits(ours, theirs)
        else:
            np.testing.assert_array_equal(ours, theirs, err_msg=column.name)
            assert getattr(ours, "dtype", None) == getattr(theirs, "dtype", None), column.name


@looped("kind", KINDS)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("seeds", batches(3, default=1))
def test_evidence_and_values_of_every_metric(case: Case, kind: str, seeds: range) -> None:
    metric = case.metric()
    for seed in seeds:
        cohort = cohort_of(kind, seed, n_images=10)
        weights = np.random.default_rng(seed).integers(0, 4, (5, 10))
        weights[0] = 1
        with route.forced("numpy"):
            slow = evidence_of(metric, cohort)
            expected = metric.value(slow, weights)
        with route.forced("native"):
            fast = evidence_of(metric, cohort)
            assert_equal_bits(fast, slow)
            np.testing.assert_array_equal(metric.value(fast, weights), expected)
            np.testing.assert_array_equal(metric.value(slow, weights), expected)


@looped("kind", KINDS)
@pytest.mark.parametrize("strategy", [*STRATEGIES, "optimal"])
def test_matches_of_every_strategy_with_limits_and_without_classes(
    strategy: str, kind: str
) -> None:
    for within, limit, cut in (
        (True, 100, -np.inf),
        (True, 2, 0.3),
        (False, 100, -np.inf),
        (False, 3, 0.5),
    ):
        options = {
            "assignment": strategy,
            "within_class": within,
            "max_dets": limit,
            "score_cut": cut,
        }
        sizes = ((0.0, np.inf), (0.0, 1024.0), (1024.0, 9216.0))
        views = [
            View(threshold=t, size=size, **options) for size in sizes for t in (0.0, 0.3, 0.5, 1.0)
        ]
        cohort = cohort_of(kind, seed=7)
        with route.forced("numpy"):
            expected = match(cohort, MODEL, views)
        with route.forced("native"):
            assert_equal_bits(match(cohort, MODEL, views), expected)


def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.random.default_rng(1).integers(0, 4, (70, 300))
    cohort = cohort_of("crowds", seed=1, n_images=300)
    for case in CASES:
        metric = case.metric()
        with route.forced("numpy"):
            slow = evidence_of(metric, cohort)
            expected = metric.value(slow, weights[:5])
        for threads in ("1", "3", "8"):
            monkeypatch.setenv("CALIPERS_THREADS", threads)
            with route.forced("native"):
                fast = evidence_of(metric, cohort)
                assert_equal_bits(fast, slow)
                np.testing.assert_array_equal(metric.value(fast, weights)[:5], expected)


@pytest.mark.parametrize("threads", ["1", "2", "3", "8"])
def test_pairs_of_maps(monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    monkeypatch.setenv("CALIPERS_THREADS", threads)
    cuts = np.arange(0.1, 0.95, 0.1)
    for seed, n in enumerate((0, 1, 2, 63, 64, 65, 300, 1025, 4100, 20_000, 70_001)):
        rng = np.random.default_rng(seed)
        values = rng.random((5, n)) ** rng.choice([1, 30])
        values[1] = np.round(values[1], 2)
        values[2] = np.round(values[2], 1)
        values[3] = values[3] > 0.5
        values[4] = 0.5 if seed % 2 else values[0]
        found = {}
        for name in ("numpy", "native"):
            with route.forced(name):
                counts = ranks.joint_counts(values, cuts)
                found[name] = [ranks.correlations(values), ranks.midranks(values), *counts]
        for ours, theirs in zip(found["native"], found["numpy"]):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
