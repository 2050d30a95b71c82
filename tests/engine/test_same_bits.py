"""Whatever works on the blocks, and in whatever order they are done: the same bits.

By default every kind of work runs on one, two, three and eight workers, as threads and on an
executor that shuffles and pickles; processes and Dask clusters are slow.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import calipers as cal
from calipers.arrays import BlockCache
from calipers.evaluation import collect
from calipers.monitors.baselines import picture_features
from executors import Shuffled
from random_cohorts import random_cohort

WORKERS = (1, 2, 3, 8)
FEW = replace(cal.Protocol.load("overview").only(["F1@0.5"]), replicates=200)
BLOCK = 16  # images, instead of 16,384: a small cohort then has several blocks


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect, "BLOCK", BLOCK)
        yield


@pytest.fixture(scope="module")
def cohort() -> cal.Cohort:
    return random_cohort(100, 3, seed=5, models=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels, and the maps of two trainings."""
    folder = tmp_path_factory.mktemp("bits")
    for name in ("labels", "a", "b"):
        (folder / name).mkdir()
    for k in range(12):
        rng = np.random.default_rng(k)
        labels = np.zeros((10, 10), np.uint8)
        labels[2:5, 3 : 5 + k % 4] = k % 5 > 0
        np.save(folder / "labels" / f"s{k:02}.npy", labels)
        for model in "ab":
            scores = np.clip(0.5 * labels + 0.4 * rng.random(labels.shape), 0, 1)
            np.save(folder / model / f"s{k:02}.npy", scores.astype(np.float32))
    return folder


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def of_evaluate(cohort: cal.Cohort, folder: Path, **how: Any) -> Any:
    return cal.evaluate(cohort, FEW, **how).as_dict()["rows"]


def of_compare(cohort: cal.Cohort, folder: Path, **how: Any) -> Any:
    how.pop("executor", None)  # replicates are drawn where the result is written
    ev = cal.evaluate(cohort, FEW, ci=False)
    tests = [ev.compare(test=test, per_class=True, **how) for test in ("bootstrap", "permutation")]
    return [*[test.as_dict() for test in tests], ev.rank(**how)]


def of_sweep(cohort: cal.Cohort, folder: Path, **how: Any) -> Any:
    return cal.sweep(cohort, "F1@0.5", {"threshold": [0.3, 0.5]}, **how).to_json()


def of_oracle(cohort: cal.Cohort, folder: Path, **how: Any) -> Any:
    over = {"position-noise.sigma": [0, 0.4]}
    return cal.sweep(cohort, "F1@0.5", over, runs=3, **how).to_json()


def of_multiverse(cohort: cal.Cohort, folder: Path, **how: Any) -> Any:
    grid = {"metric": ["F1"], "criterion": ["box-iou"], "threshold": [0.3, 0.5]}
    return cal.multiverse(cohort, grid, replicates=100, **how).as_dict()


def of_scope(cohort: cal.Cohort, folder: Path, **how: Any) -> Any:
    return cal.scope_scores(cohort, model=next(iter(cohort.models)), **how).score.tolist()


def of_pictures(cohort: cal.Cohort, folder: Path, **how: Any) -> Any:
    some = cohort.span(0, 12)
    return picture_features(some, sorted((folder / "a").iterdir()), **how).values.tolist()


def of_stability(cohort: cal.Cohort, folder: Path, **how: Any) -> Any:
    from calipers.stability.read import read_bags

    bags = read_bags({model: folder / model for model in "ab"})
    return cal.stability(bags, replicates=100, **how).as_dict()["rows"]


def of_objects(cohort: cal.Cohort, folder: Path, **how: Any) -> Any:
    from calipers.stability import objects_evidence
    from calipers.stability.objects import object_stability

    how.pop("executor", None)  # threads only
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects_evidence, "AT_ONCE", 100)
        return object_stability(cohort, replicates=100, **how).as_dict()["rows"]


def of_maps(cohort: cal.Cohort, folder: Path, **how: Any) -> Any:
    samples = cal.read_maps(folder / "labels", {"ours": folder / "a"})
    return cal.evaluate_maps(samples, ci=False, **how).as_dict()["rows"]


WORK: tuple[Callable[..., Any], ...] = (
    of_evaluate,
    of_compare,
    of_sweep,
    of_oracle,
    of_multiverse,
    of_scope,
    of_pictures,
    of_stability,
    of_objects,
    of_maps,
)


def name_of(work: Callable[..., Any]) -> str:
    return work.__name__.removeprefix("of_")


@pytest.mark.parametrize("work", WORK, ids=name_of)
def test_threads_and_shuffled_blocks(
    cohort: cal.Cohort, folder: Path, work: Callable[..., Any]
) -> None:
    run = partial(work, cohort, folder)
    expected = digest(run())
    for number in WORKERS:
        assert digest(run(jobs=number)) == expected, f"{number} threads"
        with Shuffled(number, seed=number) as executor:
            assert digest(run(jobs=number, executor=executor)) == expected, f"{number} shuffled"
        assert executor.n_calls > 1 or work in (of_compare, of_objects)


def test_a_thread_never_takes_what_another_one_computed() -> None:
    """The other thread works on its own block between the two looks of the first."""
    cache, block, other = BlockCache(), np.ones((2, 3)), np.zeros((2, 3))

    def compute() -> str:
        thread = Thread(target=lambda: cache.get(other, lambda: "of the other"))
        thread.start()
        thread.join()
        return "own"

    assert [cache.get(block, compute), cache.get(block, compute)] == ["own", "own"]
    assert cache.get(other, lambda: "again") == "again"
    assert cache.get(block, lambda: "anew") == "anew"  # only the last block of a thread is known


def test_threads_do_not_share_the_totals_of_a_block(cohort: cal.Cohort) -> None:
    (metric,) = FEW.compile()
    evidence = metric.recipe.collect(cohort, "model-1")
    block, other = np.full((2, 1, cohort.n_images), 2)
    known = evidence._known_totals(block)
    thread = Thread(target=lambda: evidence.totals(other))
    thread.start()
    thread.join()
    assert evidence._known_totals(block) is known


@contextmanager
def dask(number: int) -> Iterator[Executor]:
    from calipers.engine.cluster import dask_cluster

    with dask_cluster(workers=number) as cluster:
        yield cluster.executor


@pytest.mark.slow  # starts processes
@pytest.mark.parametrize("number", WORKERS)
@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_processes_and_clusters(cohort: cal.Cohort, folder: Path, kind: str, number: int) -> None:
    from calipers.engine.processes import Processes

    if kind == "dask":
        pytest.importorskip("distributed", reason="needs calipers[dask]")
    opened: Any = Processes if kind == "processes" else dask
    with opened(number) as executor:
        for work in WORK:
            run = partial(work, cohort, folder)
            assert digest(run(jobs=number, executor=executor)) == digest(run()), name_of(work)
