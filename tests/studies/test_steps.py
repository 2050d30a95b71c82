"""The steps of studies: the same result on any workers, and a plan that names and times them."""

from __future__ import annotations

import json
import math
import os
import signal
from functools import cache, partial

import pytest

from calipers.engine.processes import Processes
from calipers.errors import InputError, UsageError
from calipers.studies.framework import STUDIES, StudyOptions, load_study, run_study, study_cost
from calipers.studies.steps import TICKS, StepSet, StudyStep, steps_cost
from executors import Shuffled


def roots(*numbers: float) -> StepSet[float]:
    steps = [StudyStep(f"root of {x:g}", math.sqrt, (x,), 1 + x) for x in numbers]
    return StepSet(tuple(steps), math.fsum)


def end_of_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@cache
def alone(study: str) -> str:
    return json.dumps(run_study(study, quick=True).as_dict(), sort_keys=True, default=str)


@pytest.mark.parametrize(("study", "jobs"), [("rodeo", 2), ("stability", 3)])
def test_threads_and_shuffled_steps_change_nothing(study: str, jobs: int) -> None:
    run = partial(run_study, study, quick=True, jobs=jobs)
    assert json.dumps(run().as_dict(), sort_keys=True, default=str) == alone(study)
    with Shuffled(jobs, seed=jobs) as executor:
        shuffled = run(executor=executor).as_dict()
    assert json.dumps(shuffled, sort_keys=True, default=str) == alone(study)
    assert executor.n_calls > 10


@pytest.mark.slow  # starts processes, for five studies
@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("study", STUDIES)
def test_any_workers_give_the_same_study(study: str, kind: str) -> None:
    for jobs in (2, 3):
        run = partial(run_study, study, quick=True, jobs=jobs)
        if kind == "threads":
            result = run()
        else:
            with Processes(jobs) as executor:
                result = run(executor=executor)
        assert json.dumps(result.as_dict(), sort_keys=True, default=str) == alone(study)


def test_every_study_has_its_heavy_work_in_steps() -> None:
    for name in STUDIES:
        steps = load_study(name).prepare(StudyOptions(quick=True), lambda *said: None).steps
        assert len(steps) > 3, name
        assert all(step.weight > 0 for step in steps), name


def test_the_count_is_that_of_the_weights() -> None:
    seen: list[tuple[str, int, int]] = []
    assert roots(1, 4).run(lambda *said: seen.append(said)) == 3.0
    part = TICKS * 2 // 7
    assert seen == [
        ("root of 1", 0, TICKS),
        ("root of 4", part, TICKS),
        ("root of 4", TICKS, TICKS),
    ]


def test_sets_are_joined_by_name() -> None:
    named = StepSet.of({"b": StudyStep("b", math.sqrt, (9.0,))}, dict)
    joined = StepSet.join({"first": roots(1, 4), "none": roots(), "named": named}, dict)
    assert joined.run(jobs=2) == {"first": 3.0, "none": 0.0, "named": {"b": 3.0}}


def test_a_step_that_ends_its_worker_is_named() -> None:
    steps = (*roots(4).steps, StudyStep("the deadly step", end_of_worker))
    with Processes(1) as executor, pytest.raises(InputError) as raised:
        StepSet(steps, sum).run(executor=executor)
    assert raised.value.location == "the deadly step"
    assert raised.value.rule == "worker-died"


def test_a_plan_counts_the_steps_by_kind() -> None:
    steps = (*roots(1, 4).steps, *roots(4).steps)
    cost = steps_cost(steps, work="study roots", alone_seconds=2.0, processes=True)
    assert cost.as_dict(1)["kinds"] == {"root of 1": 1, "root of 4": 2}
    assert cost.as_dict(1)["steps"] == 3
    assert cost.seconds(1) >= 2.0


def test_a_training_has_no_plan(monkeypatch) -> None:
    monkeypatch.setattr("calipers.studies.framework.find_spec", lambda name: name)
    with pytest.raises(UsageError, match="leave out --train"):
        study_cost("rodeo", StudyOptions(train=True))
