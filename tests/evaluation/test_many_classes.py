"""Thousands of classes: the same numbers from less memory and less time."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import calipers
from calipers.data.cohort import Cohort
from calipers.evaluation import collect
from calipers.evaluation.protocol import Protocol
from calipers.statistics import intervals


def cohort_of(n_classes: int) -> Cohort:
    """Return a cohort with a hit of every class, each on one of 60 images, and a common class."""
    random = np.random.default_rng(n_classes)
    references, predictions = [], []
    for image in range(60):
        label = np.array([0, *range(image, n_classes, 60)])
        corner = random.integers(0, 60, (len(label), 2)).astype(np.float64)
        box, score = np.hstack([corner, corner + 20.0]), random.random(len(label)).round(2)
        references.append({"boxes": box, "labels": label})
        predictions.append(
            {"boxes": box + np.array([2.0, 0.0, 2.0, 0.0]), "labels": label, "scores": score}
        )
    names = [f"c{k}" for k in range(n_classes)]
    return Cohort.from_arrays(references, predictions, classes=names)


def evaluation_of(cohort: Cohort, preset: str = "coco") -> str:
    """Return the evaluation with few replicates, as JSON."""
    protocol = replace(Protocol.load(preset), replicates=200)
    return calipers.evaluate(cohort, protocol).to_json()


@pytest.mark.parametrize("preset", ["coco", "overview", "voc2012", "oms"])
def test_rounds_of_metrics_give_the_bits_of_all_at_once(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort = cohort_of(70)
    once = evaluation_of(cohort, preset)
    monkeypatch.setattr(collect, "MOST_KEPT", 1)
    rounds = evaluation_of(cohort, preset)
    assert rounds == once


def test_classes_without_an_interval_do_not_change_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cohort = cohort_of(70)
    few = evaluation_of(cohort)
    monkeypatch.setattr(intervals, "MOST_WITH_INTERVAL", -1.0)
    assert evaluation_of(cohort) == few


def test_memory_of_many_classes() -> None:
    cohort = cohort_of(1500)
    tracemalloc.start()
    evaluation_of(cohort)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # It was 350 MB when the totals of a block were in memory three times.
    assert peak < 290e6
