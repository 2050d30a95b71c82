# SPDX-License-Identifier: Apache-2.0
"""What an evaluation costs at any size: stages are measured, a model adds them up, and a simulation
that replays the measured times checks the sum.

`python -m benchmarks.scale_model` prints two tables in Markdown: time and bytes per image of every
stage; and what 10^6, 10^8 and 10^10 images take on 1 to 1,000 cores, stage by stage, with the total
of the simulation beside that of the model. A last line has a real run and its prediction. Seconds
are of the processor, of the compiled kernels: medical-like images (workload ``b100k``: 0.8
references and 3 predictions each), the preset coco, one model, 2,000 replicates.

What is modelled: ``evaluate --part I/N`` on as many workers as there are cores, then ``merge`` on
one machine with up to 32 of them. Every worker reads all files, then matches blocks of 16,384
images and writes them. The merge reads all files and all blocks and computes values; only the
replicates are shared between its threads.
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

import numpy as np

from benchmarks import workloads
from benchmarks.contest import peak_memory
from benchmarks.rows import ONE_THREAD

KIND, CHECK = "b100k", "b"  # what is measured, and what the prediction is compared with
IMAGES = (10**6, 10**8, 10**10)
CORES = (1, 8, 100, 1000)
THREADS = 32  # of the machine that merges, at most
REPLICATES = 2000
FEW, MANY = 128, 640  # replicates between which the time of one is measured
REPEATS = 3  # of which the least counts


@dataclass(frozen=True)
class Stage:
    """One step of a run, per image."""

    name: str
    seconds: float
    bytes: float  # that it reads or leaves behind
    shared: str  # "workers", "threads" of the merging machine, or "-"


@dataclass(frozen=True)
class Measured:
    """The stages, and the times of single blocks for the simulation."""

    stages: tuple[Stage, ...]
    block_seconds: tuple[float, ...]  # of matching and writing one full block
    block_images: int
    memory: float  # bytes per image of one process that reads and evaluates

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
    from calipers.engine.encoding import decoded, encoded
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
    few, _ = timed(lambda: valued(FEW))
    many, _ = timed(lambda: valued(MANY))
    per_replicate = max(many - few, 0.0) / (MANY - FEW)
    preparing = max(few - FEW * per_replicate - values, 0.0)
    full = [k for k, (start, stop) in enumerate(spans(n)) if stop - start == BLOCK]
    stages = (
        Stage("read files", reading / n, size / n, "-"),
        Stage("match", sum(matching) / n, 0.0, "workers"),
        Stage("write blocks", sum(writing) / n, stored / n, "workers"),
        Stage("fetch blocks", (sum(fetching) + joining) / n, stored / n, "-"),
        Stage("values, plans", (max(values - joining, 0.0) + preparing) / n, 0.0, "-"),
        Stage("replicates", per_replicate * REPLICATES / n, 0.0, "threads"),
    )
    blocks = tuple(matching[k] + writing[k] for k in full)
    return Measured(stages, blocks, BLOCK, memory_per_image(kind, n))


def memory_per_image(kind: str, n_images: int) -> float:
    """Return by how many bytes per image a process grows that evaluates a cohort."""
    code = (
        "from benchmarks import workloads\nimport calipers\n"
        f"c = workloads.to_cohort(workloads.make({kind!r}))\n"
        "calipers.evaluate(c, 'coco', ci=False)\n"
    )
    empty = "from benchmarks import workloads\nimport calipers\nworkloads.make('b882')\n"
    used = peak_memory(code, **ONE_THREAD) - peak_memory(empty, **ONE_THREAD)
    return used * 2**20 / n_images


def predicted(measured: Measured, n_images: int, n_cores: int) -> dict[str, float]:
    """Return the seconds of every stage."""
    n_blocks = -(-n_images // measured.block_images)
    # The slowest worker has the largest number of blocks.
    workers = n_blocks / -(-n_blocks // n_cores)
    sharing = {"workers": workers, "threads": min(n_cores, THREADS), "-": 1}
    seconds = {}
    for stage in measured.stages:
        seconds[stage.name] = stage.seconds * n_images / sharing[stage.shared]
    # Workers read before they match, and the merge reads once more.
    seconds["read files"] *= 2 if n_cores > 1 else 1
    return seconds


def simulated(measured: Measured, n_images: int, n_cores: int, seed: int = 0) -> float:
    """Return the seconds of a run in which every block takes the time of a measured one, drawn at
    random; workers have the blocks of their parts, and the merge begins after the last of them.
    """
    rng = np.random.default_rng(seed)
    n_blocks = -(-n_images // measured.block_images)
    n_workers = min(n_cores, n_blocks)
    times = rng.choice(np.array(measured.block_seconds), n_blocks)
    # A part is a run of blocks: number k of n goes from k * n_blocks / n on.
    first = np.arange(n_workers) * n_blocks // n_workers
    slowest = float(np.add.reduceat(times, first).max())
    reading = measured.of("read files").seconds * n_images
    alone = sum(stage.seconds for stage in measured.stages if stage.shared == "-") * n_images
    # Blocks of 64 replicates go to the thread that is free first.
    block = measured.of("replicates").seconds * n_images / REPLICATES * 64
    free = [0.0] * min(n_cores, THREADS)
    for _ in range(-(-REPLICATES // 64)):
        heapq.heapreplace(free, free[0] + block)
    return slowest + alone + max(free) + (reading if n_cores > 1 else 0.0)


def as_time(seconds: float) -> str:
    """Return seconds in a unit that can be read."""
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def main() -> None:
    """Measure, and print the tables in Markdown."""
    os.environ.update(ONE_THREAD)
    measured = measure(KIND)
    print("| stage | µs per image | bytes per image | shared by |\n|---|---|---|---|")
    for stage in measured.stages:
        size = f"{stage.bytes:.0f}" if stage.bytes else "-"
        print(f"| {stage.name} | {stage.seconds * 1e6:.2f} | {size} | {stage.shared} |")
    print(f"\nA process grows by {measured.memory:.0f} bytes per image.\n")
    names = [stage.name for stage in measured.stages]
    print(f"| images | cores | {' | '.join(names)} | sum | simulated | longest |")
    print("|---" * (len(names) + 5) + "|")
    for n_images in IMAGES:
        for n_cores in CORES:
            seconds = predicted(measured, n_images, n_cores)
            total = sum(seconds.values())
            replayed = simulated(measured, n_images, n_cores)
            cells = [as_time(seconds[name]) for name in names]
            change = f"{as_time(replayed)} ({replayed / total - 1:+.1%})"
            longest = max(seconds, key=lambda name: seconds[name])
            row = [f"{n_images:.0e}", f"{n_cores}", *cells, as_time(total), change, longest]
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
