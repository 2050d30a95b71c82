# SPDX-License-Identifier: Apache-2.0
"""What an evaluation costs at any size: stages are measured, a model adds them up, and a simulation
that replays the measured times checks the sum.

`python -m benchmarks.scale_model` prints three tables: time and bytes per image of every stage; what
10^6, 10^8 and 10^10 images take on 1 to 1,000 workers, stage by stage; and the same totals from the
simulation, with a real run beside its prediction. All seconds are of the processor, on one core, of
the compiled kernels: medical-like images (workload ``b100k``: 0.8 references and 3 predictions
each), the preset coco, one model.

The run that is modelled is ``evaluate --part I/N`` on N workers, then ``merge``. Every worker reads
all files, matches its own blocks of 16,384 images and writes them; the merge reads all files and all
blocks, and computes values and replicates. So reading and merging do not get shorter with more
workers, and matching does.
"""

from __future__ import annotations

import heapq
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for _name in ("CALIPERS_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

from benchmarks import workloads

KIND, CHECK = "b100k", "b"  # what is measured, and what the prediction is compared with
IMAGES = (10**6, 10**8, 10**10)
WORKERS = (1, 8, 100, 1000)
REPLICATES = 2000
MEASURED_REPLICATES = 128  # of which the time per replicate is taken
REPEATS = 3  # of which the least counts
MEMORY = 64e9  # bytes of the machine that merges


@dataclass(frozen=True)
class Stage:
    """One step of a run, per image."""

    name: str
    seconds: float
    bytes: float  # that it reads or leaves behind
    is_shared: bool  # whether workers share it


@dataclass(frozen=True)
class Measured:
    """The stages, and the times of single blocks for the simulation."""

    stages: tuple[Stage, ...]
    block_seconds: tuple[float, ...]  # of matching and writing one full block
    block_images: int

    def of(self, name: str) -> Stage:
        """Return a stage by its name."""
        return next(stage for stage in self.stages if stage.name == name)


def timed(work: Callable[[], Any], repeats: int = REPEATS) -> tuple[float, Any]:
    """Return the least processor time of some runs, and the result of the last."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        result = work()
        times.append(time.process_time() - began)
    return min(times), result


def measure(kind: str) -> Measured:
    """Measure all stages on a workload."""
    import calipers as cal
    from calipers.engine.encode import decoded, encoded
    from calipers.evaluation.collect import BLOCK, jobs_of, spans
    from calipers.evaluation.protocol import Protocol
    from calipers.statistics.estimates import Certainty, estimates
    from calipers.statistics.weights import Units

    protocol = Protocol.load("coco")
    with tempfile.TemporaryDirectory(prefix="calipers-scale-") as folder:
        paths = [Path(folder, name) for name in ("references.json", "results.json")]
        for path, document in zip(paths, workloads.to_coco(workloads.make(kind))):
            path.write_text(json.dumps(document))
        size = sum(path.stat().st_size for path in paths)
        reading, cohort = timed(lambda: cal.read(*paths))
    n = cohort.n_images
    ((model, recipe),) = jobs_of(cohort, protocol.compile()).values()
    matching, writing, fetching = [], [], []
    parts, stored = [], 0
    for start, stop in spans(n):
        seconds, part = timed(
            lambda start=start, stop=stop: recipe.collect(cohort.span(start, stop), model)
        )
        matching.append(seconds)
        seconds, data = timed(lambda part=part: encoded(part))
        writing.append(seconds)
        seconds, part = timed(lambda data=data: decoded(data))
        fetching.append(seconds)
        parts.append(part)
        stored += len(data)
    joining, evidence = timed(lambda: type(parts[0]).concat(parts))
    units = Units.of("image", None, n)

    def valued(replicates: int) -> Any:
        fresh = type(evidence).concat([*parts])  # knows nothing of an earlier run
        cases = [(metric, fresh) for metric in protocol.compile()]
        return estimates(cases, units, Certainty(replicates=replicates))

    values, _ = timed(lambda: valued(0))
    with_replicates, _ = timed(lambda: valued(MEASURED_REPLICATES), repeats=1)
    per_replicate = max(with_replicates - values, 0.0) / MEASURED_REPLICATES
    full = [k for k, (start, stop) in enumerate(spans(n)) if stop - start == BLOCK]
    stages = (
        Stage("read files", reading / n, size / n, False),
        Stage("match", sum(matching) / n, 0.0, True),
        Stage("write blocks", sum(writing) / n, stored / n, True),
        Stage("fetch blocks", (sum(fetching) + joining) / n, stored / n, False),
        Stage("values", max(values - joining, 0.0) / n, 0.0, False),
        Stage(f"{REPLICATES:,} replicates", per_replicate * REPLICATES / n, 0.0, False),
    )
    return Measured(stages, tuple(matching[k] + writing[k] for k in full), BLOCK)


def predicted(measured: Measured, n_images: int, n_workers: int) -> dict[str, float]:
    """Return the seconds of every stage; workers that share a stage divide its whole blocks."""
    n_blocks = -(-n_images // measured.block_images)
    # The slowest worker has the largest number of blocks.
    share = -(-n_blocks // n_workers) / n_blocks
    seconds = {}
    for stage in measured.stages:
        factor = share if stage.is_shared else 1.0
        seconds[stage.name] = stage.seconds * n_images * factor
    # Workers read before they match, and the merge reads once more.
    seconds["read files"] *= 2 if n_workers > 1 else 1
    return seconds


def simulated(measured: Measured, n_images: int, n_workers: int, seed: int = 0) -> float:
    """Return the seconds of a run in which every block takes the time of a measured one, drawn at
    random, and goes to the worker that is free first.
    """
    rng = np.random.default_rng(seed)
    n_blocks = -(-n_images // measured.block_images)
    reading = measured.of("read files").seconds * n_images
    times = rng.choice(np.array(measured.block_seconds), n_blocks)
    free = [reading] * min(n_workers, n_blocks)  # when each worker is free
    for seconds in times.tolist():
        heapq.heapreplace(free, free[0] + seconds)
    merging = sum(stage.seconds for stage in measured.stages if not stage.is_shared) * n_images
    if n_workers == 1:
        merging -= reading  # nothing is read twice
    return max(free) + merging


def as_time(seconds: float) -> str:
    """Return seconds in a unit that can be read."""
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def main() -> None:
    """Measure, and print the tables in Markdown."""
    measured = measure(KIND)
    print("| stage | µs per image | bytes per image | shared by workers |\n|---|---|---|---|")
    for stage in measured.stages:
        size = f"{stage.bytes:.0f}" if stage.bytes else "-"
        shared = "yes" if stage.is_shared else "no"
        print(f"| {stage.name} | {stage.seconds * 1e6:.2f} | {size} | {shared} |")
    fetch = measured.of("fetch blocks")
    print(f"\nThe merge holds all evidence: {MEMORY / fetch.bytes:.1e} images in 64 GB.\n")
    names = [stage.name for stage in measured.stages]
    print(f"| images | workers | {' | '.join(names)} | sum | simulated | longest |")
    print("|---" * (len(names) + 5) + "|")
    for n_images in IMAGES:
        for n_workers in WORKERS:
            seconds = predicted(measured, n_images, n_workers)
            total = sum(seconds.values())
            replayed = simulated(measured, n_images, n_workers)
            cells = [as_time(seconds[name]) for name in names]
            change = f"{as_time(replayed)} ({replayed / total - 1:+.1%})"
            longest = max(seconds, key=lambda name: seconds[name])
            row = [f"{n_images:.0e}", f"{n_workers}", *cells, as_time(total), change, longest]
            print(f"| {' | '.join(row)} |")
    check(measured)


def check(measured: Measured) -> None:
    """Print a real run of another size beside its prediction."""
    import calipers as cal

    data = workloads.make(CHECK)
    with tempfile.TemporaryDirectory(prefix="calipers-scale-") as folder:
        paths = [Path(folder, name) for name in ("references.json", "results.json")]
        for path, document in zip(paths, workloads.to_coco(data)):
            path.write_text(json.dumps(document))
        seconds, evaluation = timed(lambda: cal.evaluate(cal.read(*paths), "coco"))
    n = evaluation.cohort.n_images
    stages = predicted(measured, n, 1)
    del stages["write blocks"], stages["fetch blocks"]  # a run without parts keeps no blocks
    print(f"\n{n:,} images in one run: {seconds:.2f} s, predicted {sum(stages.values()):.2f} s")


if __name__ == "__main__":
    main()
