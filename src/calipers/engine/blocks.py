# SPDX-License-Identifier: Apache-2.0
"""Collect evidence over blocks of images. Called by `evaluate` and everything that matches.

Blocks depend on the data, never on the number of workers, and evidence is joined in block order:
the result has the same bits on one thread and on many. Any `concurrent.futures.Executor` works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from calipers.metrics.contract import Evidence, Recipe
from calipers.tables import Cohort

BLOCK = 16384  # images

Progress = Callable[[int, int], None]  # (blocks done, blocks in all)
Job = tuple[str, Recipe[Any]]  # model, recipe


def spans(n_images: int, block: int | None = None) -> list[tuple[int, int]]:
    """Return the (start, stop) of every block; no images are one empty block."""
    block = BLOCK if block is None else block
    return [(start, min(start + block, n_images)) for start in range(0, max(n_images, 1), block)]


def collect(
    cohort: Cohort,
    jobs: Mapping[Any, Job],
    *,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> dict[Any, Evidence]:
    """Collect the evidence of several (model, recipe) jobs over all blocks of a cohort.

    Parameters
    ----------
    jobs
        Any key -> (model, recipe); the result has the same keys.
    workers
        Threads to use when no executor is given; 1 works in this thread.
    progress
        Called after every block.
    """
    blocks = spans(cohort.n_images)
    tasks = []
    for key, (model, recipe) in jobs.items():
        tasks += [(key, model, recipe, span) for span in blocks]
    parts: dict[Any, list[Evidence]] = {key: [] for key in jobs}
    for n_done, evidence in enumerate(_run(cohort, tasks, workers, executor), start=1):
        parts[tasks[n_done - 1][0]].append(evidence)
        if progress is not None:
            progress(n_done, len(tasks))
    return {key: _join(evidence) for key, evidence in parts.items()}


def _run(
    cohort: Cohort,
    tasks: Sequence[tuple[Any, str, Recipe[Any], tuple[int, int]]],
    workers: int,
    executor: Executor | None,
) -> Iterator[Evidence]:
    """Yield the evidence of the tasks in their order."""
    if executor is None and workers <= 1:
        for _, model, recipe, span in tasks:
            block = cohort if span == (0, cohort.n_images) else cohort.span(*span)
            yield _work(block, model, recipe)
        return
    pool: AbstractContextManager[Executor] = (
        nullcontext(executor) if executor else ThreadPoolExecutor(workers)
    )
    with pool as running:
        futures: list[Future[Evidence]] = [
            running.submit(_work, cohort.span(*span), model, recipe)
            for _, model, recipe, span in tasks
        ]
        try:
            for future in futures:
                yield future.result()
        finally:  # after an error or an interrupt the remaining blocks are not needed
            for future in futures:
                future.cancel()


def _work(block: Cohort, model: str, recipe: Recipe[Any]) -> Evidence:
    evidence: Evidence = recipe.collect(block, model)
    return evidence


def _join(parts: Sequence[Evidence]) -> Evidence:
    return parts[0] if len(parts) == 1 else type(parts[0]).concat(parts)
