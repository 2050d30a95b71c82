# SPDX-License-Identifier: Apache-2.0
"""What a run is expected to take: blocks, bytes, memory and time, before it begins.

Every verb with ``--plan`` makes a `RunCost` and prints it (`calipers.cli.engine`): `maps.plan` and
`stability.analyse` from the headers of files and a few samples, `evaluation.image_cost` for verbs
that work on boxes, from the first images. ``--max-memory`` asks it how many jobs fit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calipers.errors import UsageError

SCHEMA = "calipers.cost/1"
PROCESS_BYTES = 150_000_000  # of a process with everything imported


@dataclass(frozen=True)
class RunCost:
    """What a run is expected to take."""

    work: str  # the verb
    n_items: int
    unit: str  # what an item is called: sample, image, trial, step
    n_models: int  # 0 where the work is not counted by models
    n_blocks: int
    file_bytes: int
    fixed_bytes: int  # of memory, whatever the number of jobs
    job_bytes: int  # for every job
    largest: str  # what decides the memory, in words
    basis: str  # what the time was measured on, and what is not in it
    alone_seconds: float | None = None  # work that jobs do not share; None: not measured
    shared_seconds: float | None = None  # of the processor, for work that jobs share
    processes: bool = False  # whether jobs are processes
    # How many items there are of every kind, where they differ.
    steps: Mapping[str, int] = field(default_factory=dict)

    def memory(self, jobs: int) -> int:
        """Return the bytes that ``jobs`` items at a time need."""
        n_workers = jobs if self.processes and jobs > 1 else 0
        return self.fixed_bytes + n_workers * PROCESS_BYTES + jobs * self.job_bytes

    def seconds(self, jobs: int) -> float:
        """Return how long the run takes with so many jobs."""
        return (self.alone_seconds or 0.0) + (self.shared_seconds or 0.0) / jobs

    def jobs_within(self, limit: int, jobs: int) -> int:
        """Return how many of ``jobs`` fit into a limit of memory; at least one is needed."""
        while jobs > 1 and self.memory(jobs) > limit:
            jobs -= 1
        if self.memory(jobs) > limit:
            raise UsageError(
                f"one {self.unit} at a time needs about {self.memory(1) / 1e9:.1f} GB "
                f"({self.largest}), more than --max-memory allows"
            )
        return jobs

    def as_dict(self, jobs: int) -> dict[str, Any]:
        """Return the plan of a run with so many jobs for JSON."""
        kinds = {"kinds": dict(self.steps)} if self.steps else {}
        return {
            "schema": SCHEMA,
            "work": self.work,
            f"{self.unit}s": self.n_items,
            **kinds,
            "models": self.n_models,
            "blocks": self.n_blocks,
            "file_bytes": self.file_bytes,
            "jobs": jobs,
            "memory_bytes": self.memory(jobs),
            "cpu_seconds": self.seconds(1),
            "seconds": self.seconds(jobs),
            "largest": self.largest,
            "basis": self.basis,
        }


class Stopwatch:
    """The time of the processor that a trial takes, and which part of it jobs can share.

    It is given to the trial as its progress: what comes before a call of it is work on blocks.
    """

    def __init__(self) -> None:
        self.seconds = self.shared = 0.0
        self._start = time.process_time()
        self._last = self._start

    def __call__(self, step: int, total: int) -> None:
        """Take note that a block is done."""
        now = time.process_time()
        self.shared += now - self._last
        self._last = now

    def stop(self) -> None:
        """Take note that the trial is over."""
        self.seconds = time.process_time() - self._start


def peak_bytes() -> int:
    """Return the most memory that this process has had so far."""
    try:
        import resource
    except ImportError:  # Windows has no such account
        return PROCESS_BYTES
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
