"""Threads share the work of matching and of resampling, and change no bit."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.metrics.base import Metric
from calipers.statistics import estimates


@pytest.mark.parametrize("preset", ["overview", "rodeo"])
def test_any_number_of_threads_gives_the_same_bits(preset: str) -> None:
    cohort = cal.demo_cohort().take(np.arange(24))
    one, many = (cal.evaluate(cohort, preset, by=("centre",), jobs=jobs) for jobs in (1, 3))
    assert one.to_json() == many.to_json()


def test_a_multiverse_is_resampled_by_threads_too() -> None:
    cohort = cal.demo_cohort().take(np.arange(30))
    grid: Any = {"metric": ["F1"], "criterion": ["box-iou"], "threshold": [0.3, 0.5]}
    one, two = (cal.multiverse(cohort, grid, replicates=200, jobs=jobs) for jobs in (1, 3))
    assert one.to_json() == two.to_json()


def test_blocks_of_replicates_are_worked_on_by_several_threads(monkeypatch: Any) -> None:
    threads, both = set(), threading.Barrier(2, timeout=20)
    value = estimates._values

    def noted(metric: Metric[Any], evidence: Any, weights: Any) -> Any:
        if threading.current_thread() not in threads:
            threads.add(threading.current_thread())
            both.wait()  # passes only if two threads are here at the same time
        return value(metric, evidence, weights)

    monkeypatch.setattr(estimates, "_values", noted)
    cohort = cal.demo_cohort().take(np.arange(20))
    cal.evaluate(cohort, "overview", jobs=2)
    assert len(threads) == 2
