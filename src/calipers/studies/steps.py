# SPDX-License-Identifier: Apache-2.0
"""The heavy steps of a study: independent of each other, so that any worker can do any of them.

A study is prepared before it runs (`calipers.studies.framework.Study.prepare`): it reads its data
and returns a `StepSet`, which is a sequence of `StudyStep` and the function that makes the result
of what they return. `StepSet.run` is the only place where the work of a study is done: by the
ordered map of the engine, on threads or on any executor. Each step has its own seed and results are
composed in the order of the steps, so that the workers never change a number.

Because the steps are known before the run, ``calipers study --plan`` can count them, and time the
smallest of every kind (`steps_cost`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from calipers.engine.cost import RunCost, peak_bytes
from calipers.engine.ordered_map import WorkerDied, in_order
from calipers.errors import InputError
from calipers.show.words import count_text

if TYPE_CHECKING:
    from concurrent.futures import Executor

Made = TypeVar("Made")
Progress = Callable[[str, int, int], None]  # description, steps finished, steps in total

AHEAD = 4  # steps per worker that wait or are under way
# The count of a run: a bar of whole numbers would stand still during small weights.
TICKS = 100_000
# A plan tries no further kind of step after so many seconds, and tries again what is quick.
TRIAL_SECONDS, QUICK_TRIAL = 5.0, 1.0


@dataclass(frozen=True, slots=True)
class StudyStep:
    """One heavy step; ``work`` and ``arguments`` can be pickled."""

    what: str  # for the line of progress: "figure 3"
    work: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    # How long it takes, compared with other steps: seconds on the machine it was measured on.
    weight: float = 1.0


@dataclass(frozen=True)
class StepSet(Generic[Made]):
    """Independent steps, and what makes one object of their results."""

    steps: tuple[StudyStep, ...]
    compose: Callable[[Sequence[Any]], Made]

    @classmethod
    def of(
        cls,
        steps: Mapping[Hashable, StudyStep],
        compose: Callable[[Mapping[Any, Any]], Made],
    ) -> StepSet[Made]:
        """Return steps with names, by which ``compose`` knows their results."""
        return cls(
            tuple(steps.values()), lambda results: compose(dict(zip(steps, results, strict=True)))
        )

    @classmethod
    def join(
        cls,
        sets: Mapping[str, StepSet[Any]],
        compose: Callable[[Mapping[str, Any]], Made],
    ) -> StepSet[Made]:
        """Return the steps of several sets; ``compose`` gets what each of the sets makes."""
        steps: list[StudyStep] = []
        for one in sets.values():
            steps += one.steps

        def compose_all(results: Sequence[Any]) -> Made:
            parts, first = {}, 0
            for name, one in sets.items():
                end = first + len(one.steps)
                parts[name] = one.compose(results[first:end])
                first = end
            return compose(parts)

        return cls(tuple(steps), compose_all)

    def run(
        self,
        progress: Progress = lambda what, step, total: None,
        *,
        jobs: int = 1,
        executor: Executor | None = None,
    ) -> Made:
        """Do all steps and return what they make.

        Parameters
        ----------
        jobs
            Number of threads; the result does not depend on it.
        executor
            Any `concurrent.futures.Executor` for the steps instead.
        """
        ends, total = _ends(self.steps)
        work = in_order(_result_of, self.steps, workers=jobs, executor=executor, ahead=AHEAD * jobs)
        results: list[Any] = []
        if self.steps:
            progress(self.steps[0].what, 0, TICKS)
        try:
            for result in work:
                results.append(result)
                k = len(results)
                following = self.steps[min(k, len(self.steps) - 1)].what
                progress(following, int(TICKS * ends[k - 1] / total), TICKS)
        except WorkerDied as error:
            raise InputError(
                "steps that fit into the memory of a worker",
                rule="worker-died",
                location=self.steps[error.item].what,
                value=error.how,
                hint="try fewer --jobs",
            ) from None
        return self.compose(results)


def _result_of(step: StudyStep) -> Any:
    return step.work(*step.arguments)


def _trial_seconds(step: StudyStep) -> float:
    """Do a step, and return the time of the processor that it takes."""
    start = time.process_time()
    _result_of(step)
    return time.process_time() - start


def _ends(steps: Sequence[StudyStep]) -> tuple[list[float], float]:
    """Return the sum of the weights up to the end of every step, and of all."""
    ends, total = [], 0.0
    for step in steps:
        total += step.weight
        ends.append(total)
    return ends, total


def steps_cost(
    steps: Sequence[StudyStep], *, work: str, alone_seconds: float, processes: bool
) -> RunCost:
    """Return what a run takes, from the smallest step of every kind.

    Parameters
    ----------
    alone_seconds
        Of the processor, for what comes before the steps.
    processes
        Whether jobs are processes.
    """
    # The kind that takes longest in all is tried first.
    kinds: dict[str, list[StudyStep]] = {}
    for step in steps:
        kinds.setdefault(step.what, []).append(step)
    weights = {kind: _ends(own)[1] for kind, own in kinds.items()}
    before = peak_bytes()
    seconds, tried, sampled = 0.0, 0.0, 0
    shared = 0.0
    for kind in sorted(kinds, key=weights.__getitem__, reverse=True):
        if seconds > TRIAL_SECONDS:
            break
        smallest = min(kinds[kind], key=lambda step: step.weight)
        spent = _trial_seconds(smallest)
        if spent < QUICK_TRIAL:  # the first of a kind loads modules and fills caches
            seconds += spent
            spent = _trial_seconds(smallest)
        seconds += spent
        shared += spent * weights[kind] / smallest.weight
        tried += weights[kind]
        sampled += 1
    total = sum(weights.values())
    largest = max(steps, key=lambda step: step.weight).what if steps else "no steps"
    return RunCost(
        work=work,
        n_items=len(steps),
        unit="step",
        n_models=0,
        n_blocks=len(steps),
        file_bytes=0,
        fixed_bytes=before,
        job_bytes=peak_bytes() - before,
        largest=f"the largest step is {largest}",
        basis=(
            f"from {count_text('step', sampled)}; training, claims, figures and the page are not "
            "included"
        ),
        alone_seconds=alone_seconds,
        shared_seconds=shared * total / tried if tried else 0.0,
        processes=processes,
        steps={kind: len(own) for kind, own in kinds.items()},
    )
