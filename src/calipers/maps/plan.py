# SPDX-License-Identifier: Apache-2.0
"""What an evaluation of maps will do, before it does it: its items, its memory, its time.

- `map_plan` lists everything that decides the result of a sample, so that a stopped run can go on
  and parts can be merged (`calipers.engine.store`).
- `cost_of` estimates memory and time from the headers of the files and from one sample, for
  ``--plan`` and ``--max-memory``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calipers.engine.store import RunPlan
from calipers.errors import UsageError
from calipers.evaluation.protocol import Protocol
from calipers.io.volumes.object_scores import PredictedLabels
from calipers.io.volumes.samples import SampleFiles
from calipers.maps.evaluate import ScoreTables, evaluate_maps, given_samples
from calipers.metrics.maps import MapSettings

# Measured on volumes of 96^3 to 256^3 voxels: what examining a map needs beside the map itself.
WORKING_BYTES = 40  # per voxel, for one model at a time
BASE_BYTES = 150_000_000  # of a process with everything imported
KEPT_BYTES = 400_000_000  # scores that are kept for exact values, at most


@dataclass(frozen=True)
class Cost:
    """What a run is expected to take."""

    n_samples: int
    n_models: int
    file_bytes: int
    largest: str  # name of the largest sample
    largest_shape: tuple[int, ...]
    sample_bytes: int  # memory of the largest sample while it is examined
    seconds: float | None  # of the processor for all samples; None: not measured

    def memory(self, jobs: int) -> int:
        """Return the bytes that ``jobs`` samples at a time need."""
        processes = jobs + 1 if jobs > 1 else 1
        return processes * BASE_BYTES + KEPT_BYTES + jobs * self.sample_bytes

    def jobs_within(self, limit: int, jobs: int) -> int:
        """Return how many of ``jobs`` fit into a limit of memory; at least one is needed."""
        while jobs > 1 and self.memory(jobs) > limit:
            jobs -= 1
        if self.memory(jobs) > limit:
            raise UsageError(
                f"one sample at a time needs about {self.memory(1) / 1e9:.1f} GB ({self.largest}), "
                f"more than --max-memory allows"
            )
        return jobs


def cost_of(
    samples: Sequence[SampleFiles],
    protocol: Protocol,
    *,
    labels: str | Sequence[int] = "binary",
    normalise: str | Mapping[str, str] = "none",
    predictions: str = "maps",
    scores: ScoreTables = None,
    measured: bool = False,
) -> Cost:
    """Estimate what an evaluation takes, from headers; ``measured`` examines one sample for the
    time.

    The sample of median size is examined, because the first one may be an odd one.
    """
    sizes = np.array([np.prod(sample.labels.shape) for sample in samples], np.int64)
    largest = samples[int(sizes.argmax())]
    itemsize = sum(volume.dtype.itemsize for volume in largest.files())
    file_bytes = sum(volume.bytes for sample in samples for volume in sample.files())
    seconds = None
    if measured:
        k = int(np.argsort(sizes, kind="stable")[len(sizes) // 2])
        start = time.process_time()
        # Not with the scores of predicted labels: time does not depend on them.
        evaluate_maps(
            [samples[k]],
            protocol,
            labels=labels,
            normalise=normalise,
            predictions=predictions,
            ci=False,
        )
        seconds = (time.process_time() - start) * float(sizes.sum() / sizes[k])
    return Cost(
        n_samples=len(samples),
        n_models=len(samples[0].maps),
        file_bytes=file_bytes,
        largest=largest.name,
        largest_shape=largest.labels.shape,
        sample_bytes=int(sizes.max()) * (itemsize + WORKING_BYTES),
        seconds=seconds,
    )


def map_plan(
    samples: Sequence[Any],
    protocol: str | Path | Protocol = "anomaly",
    *,
    labels: str | Sequence[int] = "binary",
    normalise: str | Mapping[str, str] = "none",
    predictions: str = "maps",
    scores: ScoreTables = None,
    command: Sequence[str] = (),
) -> RunPlan:
    """Return what decides the result of every sample, for a store; samples are those of
    `calipers.read_maps`.

    Files are compared by name, size and time of their last change, not by their content: reading
    all of it would take as long as the work itself.
    """
    from calipers import __version__

    protocol = Protocol.load(protocol)
    settings = protocol.maps or MapSettings()
    source = given_samples(samples, labels=labels, normalise=normalise)
    source = source.with_predictions(predictions, scores, settings)
    if settings.tuning:
        _, source = source.split(settings.tuning)
    document = protocol.as_dict()
    return RunPlan(
        work="maps",
        settings={
            "calipers": __version__,
            "numpy": np.__version__,
            "maps": document.get("maps"),
            "metrics": document["metrics"],
            "labels": str(labels),
            "normalise": str(normalise),
            **_predicted(source.predicted),
        },
        items=[_fingerprint(entry) for entry in source.selected()],
        command=command,
    )


def _predicted(predicted: PredictedLabels | None) -> dict[str, str]:
    """Return what decides the objects of predicted labels: their meaning, and their scores."""
    if predicted is None:
        return {}
    tables = {model: table.sha256 for model, table in predicted.scores.items()}
    return {"predicted": str(predicted.meaning), "scores": str(tables)}


def _fingerprint(entry: Any) -> str:
    """Return a line that changes when a file of a sample does."""
    if not hasattr(entry, "files"):
        raise UsageError("only samples that are read from files can be stored: use read_maps")
    words = [entry.name, f"resize={entry.resize}"]
    for volume in entry.files():
        if volume.channel is not None:
            words.append(f"channel={volume.channel}")
        # Notes name the segment that is read.
        words += volume.notes
        for name in volume.parts or (volume.file,):
            facts = Path(name).stat()
            words.append(f"{Path(name).name}:{facts.st_size}:{facts.st_mtime_ns}")
    words += [f"{key}={value}" for key, value in sorted(entry.groups.items())]
    return " ".join(words)
