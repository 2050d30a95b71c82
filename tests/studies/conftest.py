"""Quick runs of studies and of their parts, for all tests that only read them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from calipers.studies.anomaly.controlled import ControlledExperiments, controlled_steps
from calipers.studies.framework import StudyResult, run_study
from calipers.studies.rodeo.claims import RodeoRun
from calipers.studies.rodeo.data import examples, simulate_cohort
from calipers.studies.rodeo.experiments import sweep_steps


@dataclass
class Counted:
    """What a run said about its progress: what, how much of how much."""

    steps: list[tuple[str, int, int]] = field(default_factory=list)

    def __call__(self, what: str, done: int, total: int) -> None:
        self.steps.append((what, done, total))


@pytest.fixture(scope="session")
def rodeo() -> StudyResult:
    return run_study("rodeo", quick=True, runs=3)


@pytest.fixture(scope="session")
def small_rodeo() -> tuple[RodeoRun, Counted]:
    """The experiments of that study on few images, and how they went on."""
    cohort, counted = simulate_cohort(60, 0), Counted()
    sweeps = sweep_steps(cohort, runs=2, seed=0, quick=True).run(counted)
    return RodeoRun(sweeps, examples(), cohort, 0), counted


@pytest.fixture(scope="session")
def controlled() -> tuple[ControlledExperiments, Counted]:
    """The controlled experiments of the study of anomaly metrics, and how they went on."""
    counted = Counted()
    return controlled_steps(quick=True).run(counted), counted
