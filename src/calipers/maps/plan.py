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
from pathlib import Path
from typing import Any

import numpy as np

from calipers.data.maps import BINS
from calipers.engine.cost import PROCESS_BYTES, RunCost
from calipers.engine.store import RunPlan
from calipers.errors import UsageError
from calipers.evaluation.protocol import Protocol
from calipers.io.volumes.object_scores import PredictedLabels
from calipers.io.volumes.samples import SampleFiles
from calipers.maps.entries import ScoreTables, given_samples
from calipers.maps.evaluate import evaluate_maps
from calipers.maps.examine import MOST_ENTRIES
from calipers.metrics.maps import MapSettings

# Measured on volumes of 96^3 to 256^3 voxels: what examining a map needs beside the map itself.
WORKING_BYTES = 40  # per voxel, for one model at a time
MOST_BLOCKS = 10_000  # files of a stopped run, about
KEPT_BYTES = 400_000_000  # scores that are kept for exact values, at most
# Measured on 150 to 600 samples of 64^2 voxels: of every bin of a sample that holds a score.
ENTRY_BYTES = 80
HEADER_BYTES = 1_100  # of every file, measured with a million samples of two


def cost_of(
    samples: Sequence[SampleFiles],
    protocol: Protocol,
    *,
    labels: str | Sequence[int] = "binary",
    normalise: str | Mapping[str, str] = "none",
    predictions: str = "maps",
    scores: ScoreTables = None,
    measured: bool = False,
) -> RunCost:
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
        order = np.argsort(sizes, kind="stable")
        # Not with the scores of predicted labels: time does not depend on them.
        how: dict[str, Any] = {
            "labels": labels,
            "normalise": normalise,
            "predictions": predictions,
            "ci": False,
        }
        # The first evaluation of all loads modules, so the smallest sample is examined before.
        k = int(order[len(order) // 2])
        evaluate_maps([samples[int(order[0])]], protocol, **how)
        start = time.process_time()
        evaluate_maps([samples[k]], protocol, **how)
        seconds = (time.process_time() - start) * float(sizes.sum() / sizes[k])
    size = " x ".join(map(str, largest.labels.shape))
    n_models = len(samples[0].maps)
    # Many samples share wider bins, so that there never are more of them.
    entries = min(int(np.minimum(sizes, BINS).sum()), MOST_ENTRIES)
    kept_bytes = n_models * entries * ENTRY_BYTES
    header_bytes = len(samples) * len(list(samples[0].files())) * HEADER_BYTES
    return RunCost(
        work="maps",
        n_items=len(samples),
        unit="sample",
        n_models=n_models,
        n_blocks=-(-len(samples) // _block_size(len(samples))),
        file_bytes=file_bytes,
        fixed_bytes=PROCESS_BYTES + KEPT_BYTES + kept_bytes + header_bytes,
        job_bytes=int(sizes.max()) * (itemsize + WORKING_BYTES),
        largest=f"the largest sample is {largest.name}, {size} voxels",
        basis="from one sample; intervals and page are not included",
        shared_seconds=seconds,
        processes=True,
    )


def map_plan(
    samples: Sequence[Any],
    protocol: str | Path | Protocol = "anomaly",
    *,
    labels: str | Sequence[int] = "binary",
    normalise: str | Mapping[str, str] = "none",
    predictions: str = "maps",
    scores: ScoreTables = None,
    lenient: bool = False,
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
    items = [_fingerprint(entry) for entry in source.selected()]
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
            # Blocks of lenient runs may hold samples that were set aside.
            **({"lenient": True} if lenient else {}),
        },
        items=items,
        size=_block_size(len(items)),
        command=command,
    )


def _block_size(n_samples: int) -> int:
    """Return how many samples share a file of a stopped run: one, unless a folder would then have
    more files than a file system likes.
    """
    return max(1, n_samples // MOST_BLOCKS)


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
    words = [entry.name, f"resize={entry.resize}", f"place={entry.place}"]
    for volume in entry.files():
        if volume.channel is not None:
            words.append(f"channel={volume.channel}")
        # Notes name the segment that is read.
        words += volume.notes
        words += volume.trace()
    words += [f"{key}={value}" for key, value in sorted(entry.groups.items())]
    return " ".join(words)
