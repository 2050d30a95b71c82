"""Samples one after the other: in order, few in memory at a time, and errors are not swallowed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from calipers.data.maps import Sample
from calipers.engine.leniency import Leniency
from calipers.maps.entries import given_samples
from calipers.maps.evaluate import SampleTask, SampleWorkers
from calipers.maps.examine import ExactScores, MapPlan, examine
from calipers.metrics.maps import MapSettings, Measure


class Counter:
    """Counts the samples that are being held."""

    def __init__(self) -> None:
        self.now = self.most = self.loaded = 0
        self.lock = threading.Lock()

    def load(self, k: int) -> Any:
        with self.lock:
            self.now += 1
            self.loaded += 1
            self.most = max(self.most, self.now)
        return k

    def work(self, k: Any) -> int:
        with self.lock:
            self.now -= 1
        return 10 * k


def work_on_samples(load: Iterable[Any], work: Callable[[Any], Any], jobs: int) -> Iterator[Any]:
    tasks = (SampleTask(one, work, Leniency()) for one in load)
    source = given_samples([], labels="binary", normalise="none")
    return SampleWorkers(jobs, None, None, Leniency()).in_order(tasks, source)


@pytest.mark.parametrize("jobs", [0, 1, 2, 5])
def test_results_come_in_order_and_few_samples_are_held(jobs: int) -> None:
    counter = Counter()
    found = list(work_on_samples((partial(counter.load, k) for k in range(20)), counter.work, jobs))
    assert found == [10 * k for k in range(20)]
    assert counter.most <= max(1, jobs)


@pytest.mark.parametrize("jobs", [1, 3])
def test_work_is_not_done_far_ahead(jobs: int) -> None:
    counter = Counter()
    stream = work_on_samples((partial(counter.load, k) for k in range(100)), counter.work, jobs)
    assert next(stream) == 0
    assert counter.loaded <= jobs
    stream.close()  # type: ignore[attr-defined]
    assert counter.loaded <= 2 * jobs


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_ends_the_work(jobs: int) -> None:
    counter = Counter()

    def loaders() -> Iterator[Any]:
        for k in range(100):
            yield partial(counter.load, k)

    def work(k: int) -> int:
        if k == 4:
            raise ValueError("the fifth")
        return k

    stream, found = work_on_samples(loaders(), work, jobs), list[int]()
    with pytest.raises(ValueError, match="the fifth"):
        found.extend(stream)
    assert found == [0, 1, 2, 3]
    assert counter.loaded < 12


def test_what_is_left_of_a_sample() -> None:
    labels = np.array([[1, 0, 0], [0, 0, 1]])
    scores = np.array([[0.9, 0.1, 0.6], [0.0, 0.2, 0.7]])
    measures = (Measure("AP", "sample"), Measure("softIoU", "sample"))
    sample = Sample("s", labels, {"m": scores}, groups={"centre": "N"})
    found = examine(sample, MapPlan(MapSettings(), measures, {"m": 0.5}, keep=True))
    assert (found.name, found.size.tolist(), found.groups) == ("s", [3, 2], {"centre": "N"})
    assert found.references.boxes.tolist() == [[0, 0, 1, 1], [2, 1, 3, 2]]
    of_model = found.models["m"]
    assert of_model.objects.boxes.tolist() == [[0, 0, 1, 1], [2, 0, 3, 2]]
    assert of_model.objects.score.tolist() == [0.9, 0.7]
    assert of_model.sums["AP/sample"] == (1.0, 1.0)
    assert len(of_model.soft["softIoU/sample@tversky,0.5"]) == 2
    assert of_model.scores is not None
    positives, negatives, owner = of_model.scores
    assert (sorted(positives), sorted(negatives)) == ([0.7, 0.9], [0.0, 0.1, 0.2, 0.6])
    assert owner.tolist() == [0, 1]
    assert examine(sample, MapPlan(MapSettings(), measures, {"m": 0.5})).models["m"].scores is None


def test_scores_are_given_up_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    part = (np.array([0.5]), np.array([0.25, 0.75]), np.array([0]))
    exact = ExactScores()
    exact.add("a", part)
    values = exact.values("a", (Measure("AUROC"),), batch=1)
    assert (values.dataset, values.batches) == ({"AUROC/dataset": 0.5}, [])
    assert exact.values("a", (Measure("AUROC"),), batch=1) is None  # they were let go
    monkeypatch.setattr("calipers.maps.examine.MOST_BYTES", 40)
    exact = ExactScores()
    exact.add("a", part)
    assert not exact.given_up
    exact.add("b", part)
    assert exact.given_up
    exact.add("b", part)
    for model in ("a", "b"):
        assert exact.values(model, (Measure("AUROC"),), batch=1) is None
    assert ExactScores(needed=False).given_up
