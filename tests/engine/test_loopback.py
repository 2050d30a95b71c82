"""A real Dask scheduler and two worker processes on this machine: every verb on the engine has the
result of a run without them, also if a worker is lost.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calipers as cal
from random_cohorts import random_cohort

pytestmark = pytest.mark.slow  # starts processes that take seconds to begin

N_MAPS = 24
COUNTED = ("ended", "started", "command", "seconds")  # differ from run to run


@dataclass
class LoopbackCluster:
    """The address of a scheduler, and its workers."""

    address: str
    workers: list[subprocess.Popen[bytes]]


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    pytest.importorskip("distributed", reason="needs calipers[dask]")
    file = tmp_path_factory.mktemp("cluster") / "scheduler.json"
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    with ExitStack() as stack:
        words = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common]
        stack.enter_context(running(*words))
        # Without a nanny, which would replace a worker that dies.
        words = ["distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *common]
        workers = [stack.enter_context(running(*words)) for _ in range(2)]
        deadline = time.monotonic() + 120
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        wait_for_workers(address, 2)
        yield LoopbackCluster(address, workers)


def wait_for_workers(address: str, number: int) -> None:
    from distributed import Client

    with Client(address, timeout=60) as client:
        client.wait_for_workers(number, timeout=120)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loopback")
    for name in ("labels", "a", "b", "c"):
        (folder / name).mkdir()
    for k in range(N_MAPS):
        rng = np.random.default_rng(k)
        labels = np.zeros((24, 24, 24), np.uint8)
        labels[2:5, 3 : 5 + k % 4, 3:9] = k % 5 > 0
        np.save(folder / "labels" / f"s{k:02}.npy", labels)
        for model in "abc":
            scores = np.clip(0.5 * labels + 0.4 * rng.random(labels.shape), 0, 1)
            np.save(folder / model / f"s{k:02}.npy", scores.astype(np.float32))
    cohort = random_cohort(40_000, 2, seed=3, models=2, objects=1.0)
    cal.write(cohort, folder / "references.json")
    for model in cohort.models:
        cal.write(cohort, folder / f"{model}.json", what=model)
    return folder


VERBS = {
    "evaluate": "evaluate references.json model-1.json --preset overview --replicates 100",
    "maps": "maps labels ours=a --replicates 100",
    "stability": "stability a b c --replicates 100",
    "sweep": "sweep references.json model-1.json --over threshold=0.3,0.5 --metric F1@0.5",
    "multiverse": "multiverse references.json model-1.json model-2.json --replicates 100",
    "monitor": "monitor references.json model-1.json --alarm max-score --replicates 100",
}


def plain(value: Any) -> Any:
    """A document without what says when and how it was made."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key not in COUNTED}
    return [plain(item) for item in value] if isinstance(value, list) else value


def start(folder: Path, words: str, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "calipers", *words.split(), "--json", "--quiet", *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def result_of(process: subprocess.Popen[bytes]) -> Any:
    out, said = process.communicate(timeout=600)
    assert process.returncode == 0, said.decode()
    return plain(json.loads(out))


@pytest.mark.parametrize("verb", VERBS)
def test_a_cluster_gives_the_same_result(cluster: LoopbackCluster, folder: Path, verb: str) -> None:
    words = VERBS[verb]
    here = result_of(start(folder, words))
    there = result_of(start(folder, words, "--engine", "dask", "--scheduler", cluster.address))
    assert there == here


def test_a_lost_worker_changes_nothing(cluster: LoopbackCluster, folder: Path) -> None:
    """The last test of the file: one of the two workers is gone afterwards."""
    here = result_of(start(folder, VERBS["maps"]))
    output = folder / "lost"
    address = ("--engine", "dask", "--scheduler", cluster.address)
    process = start(folder, VERBS["maps"], *address, "-o", str(output))
    blocks = output.with_name("lost.blocks")
    deadline = time.monotonic() + 300
    while not list(blocks.glob("*.npz")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    n_before = len(list(blocks.glob("*.npz")))
    assert n_before < N_MAPS, "the worker was killed too late to be missed"
    there = result_of(process)
    assert there["rows"] == here["rows"]
