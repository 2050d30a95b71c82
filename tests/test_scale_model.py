"""The cost model of large evaluations adds up what was measured, and the simulation agrees."""

from __future__ import annotations

import pytest
from benchmarks.scale_model import Measured, Stage, predicted, simulated


def measured(spread: float = 0.0) -> Measured:
    stages = (
        Stage("read files", 4e-6, 500.0, "-"),
        Stage("match", 1e-6, 0.0, "workers"),
        Stage("values, plans", 2e-6, 0.0, "-"),
        Stage("replicates", 32e-6, 0.0, "threads"),
    )
    block = 1e-6 * 1000
    return Measured(stages, (block * (1 - spread), block, block * (1 + spread)), 1000, 1000.0)


def test_one_core_does_everything_once() -> None:
    assert predicted(measured(), 10**6, 1) == pytest.approx(
        {"read files": 4.0, "match": 1.0, "values, plans": 2.0, "replicates": 32.0}
    )


def test_workers_share_blocks_and_threads_replicates() -> None:
    seconds = predicted(measured(), 10**6, 100)
    assert seconds["match"] == pytest.approx(0.01)
    assert seconds["replicates"] == pytest.approx(1.0)  # 32 threads at most
    assert seconds["read files"] == pytest.approx(8.0)  # by the workers, and by the merge


def test_more_workers_than_blocks_are_idle() -> None:
    few = predicted(measured(), 3000, 1000)
    assert few["match"] == pytest.approx(1e-6 * 1000)


@pytest.mark.parametrize("n_cores", [1, 2, 8, 1000])
def test_the_simulation_agrees_with_the_model(n_cores: int) -> None:
    for n_images in (10**5, 10**6, 10**7):
        total = sum(predicted(measured(), n_images, n_cores).values())
        assert simulated(measured(0.3), n_images, n_cores) == pytest.approx(total, rel=0.05)
