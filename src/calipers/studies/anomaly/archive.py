# SPDX-License-Identifier: Apache-2.0
"""What algorithms gave on brains with spheres, kept so that it can be judged without PyTorch.

An archive is one npz file: for each setting the values of all metrics, what else claims need, and
some slices with their maps; and a member ``about`` with the command, the seed, the versions, the
hashes of the template and its notice. `calipers.studies.anomaly.brain_training` makes one, and
`shipped_brains` is the one that comes with Calipers. Whole maps are too large to ship: with
``--keep`` they are left in the folder, a file per algorithm.

The slices are rounded to bytes, scores and grey values alike; numbers are kept as they are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F32
from calipers.io.source import require_file
from calipers.results.files import write_atomically
from calipers.studies.anomaly.brains import VolumeCounts
from calipers.studies.kept_archives import archive_arrays

ARCHIVE_SCHEMA = "calipers.anomaly-archive/1"
FILE = "brains.npz"
VOLUMES, SLICES, SEEN = "volumes", "all slices", "slices with an object"
VIEWS = (VOLUMES, SLICES, SEEN)

Maps = Mapping[str, F32]
Values = Mapping[str, Mapping[str, float]]  # algorithm -> metric -> value


@dataclass(frozen=True)
class ExampleSlice:
    """One slice of a test volume, with the maps of all algorithms."""

    title: str
    image: F32
    labels: NDArray[np.uint8]
    maps: Maps


@dataclass(frozen=True, slots=True)
class AlgorithmRecord:
    """An algorithm of a setting, and what it found."""

    name: str
    about: str  # the score of a voxel, in words
    kind: str  # "network on slices", "network on volumes" or "without a network"
    seconds: float  # processor time of training, and of the maps of all test volumes
    # share of its false positive voxels in slices without an object; NaN without any
    unseen_share: float
    large: float  # share of the voxels of large spheres with a score of 0.5 or more
    small: float
    dice: tuple[float, ...]  # pooled Dice at `thresholds`


@dataclass(frozen=True)
class Benchmark:
    """The values of all algorithms by all metrics in one setting."""

    name: str
    title: str
    records: tuple[AlgorithmRecord, ...]
    views: Mapping[str, Values]
    # of volumes: algorithm -> metric -> bounds of the 95 % interval, None without one
    intervals: Mapping[str, Mapping[str, tuple[float, float] | None]]
    examples: tuple[ExampleSlice, ...]
    counts: VolumeCounts
    slices: int
    slices_seen: int
    thresholds: tuple[float, ...]  # of `AlgorithmRecord.dice`

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The names of the algorithms."""
        return tuple(record.name for record in self.records)

    @property
    def large(self) -> list[float]:
        """Of every algorithm: the share of the voxels of large spheres that it finds."""
        return [record.large for record in self.records]

    @property
    def small(self) -> list[float]:
        """The same of small spheres."""
        return [record.small for record in self.records]

    def column(
        self, view: str, metric: str, algorithms: Sequence[str] | None = None
    ) -> list[float]:
        """Return the values of a metric, in the order of the algorithms."""
        return [self.views[view][name][metric] for name in algorithms or self.algorithms]


@dataclass(frozen=True)
class AnomalyArchive:
    """Both settings of a run."""

    benchmarks: tuple[Benchmark, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: Path | str) -> None:
        """Write the archive; the same archive gives the same bytes."""
        arrays: dict[str, Any] = {}
        entries = []
        for b, bench in enumerate(self.benchmarks):
            images = np.stack([one.image for one in bench.examples])
            labels = np.stack([one.labels for one in bench.examples])
            maps = np.stack([np.stack(list(one.maps.values())) for one in bench.examples])
            arrays |= {f"{b}-images": _as_bytes(images), f"{b}-labels": labels.astype(np.uint8)}
            arrays[f"{b}-maps"] = _as_bytes(maps)
            counts = {name: getattr(bench.counts, name) for name in VolumeCounts.__slots__}
            records = []
            for record in bench.records:
                facts = {name: getattr(record, name) for name in AlgorithmRecord.__slots__}
                records.append(facts)
            entries.append(
                {
                    "name": bench.name,
                    "title": bench.title,
                    "records": records,
                    "views": bench.views,
                    "intervals": bench.intervals,
                    "examples": [one.title for one in bench.examples],
                    "counts": counts,
                    "slices": bench.slices,
                    "slices_seen": bench.slices_seen,
                    "thresholds": bench.thresholds,
                }
            )
        document = {"schema": ARCHIVE_SCHEMA, "about": dict(self.about), "benchmarks": entries}
        text = json.dumps(_without_nan(document), indent=1, allow_nan=False).encode()
        sink = io.BytesIO()
        np.savez_compressed(sink, about=np.frombuffer(text, np.uint8), **arrays)
        write_atomically(Path(path), sink.getvalue())

    @classmethod
    def read(cls, path: Path | str) -> AnomalyArchive:
        """Read an archive."""
        require_file(path)
        what = "an archive of the study of anomaly maps"
        hint = "make one: calipers study anomaly --train --keep DIR"
        benchmarks = []
        with archive_arrays(Path(path), str(path), what, hint) as content:
            document = json.loads(bytes(content["about"]))
            if document.get("schema") != ARCHIVE_SCHEMA:
                raise KeyError("schema")
            for b, entry in enumerate(document["benchmarks"]):
                arrays = {name: content[f"{b}-{name}"] for name in ("images", "labels", "maps")}
                benchmarks.append(_benchmark(entry, arrays))
            about = document["about"]
        return cls(tuple(benchmarks), about)


def _as_bytes(values: F32) -> NDArray[np.uint8]:
    return np.round(255 * np.clip(values, 0, 1)).astype(np.uint8)


def _without_nan(value: Any) -> Any:
    """Return a document in which NaN, which JSON has no number for, is null."""
    if isinstance(value, Mapping):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _benchmark(entry: Mapping[str, Any], arrays: Mapping[str, Any]) -> Benchmark:
    records = []
    for facts in entry["records"]:
        numbers = {name: _number(facts[name]) for name in ("unseen_share", "large", "small")}
        dice = tuple(map(_number, facts["dice"]))
        records.append(AlgorithmRecord(**{**facts, **numbers, "dice": dice}))
    views: dict[str, dict[str, dict[str, float]]] = {}
    for view, table in entry["views"].items():
        views[view] = {}
        for algorithm, values in table.items():
            views[view][algorithm] = {metric: _number(value) for metric, value in values.items()}
    intervals: dict[str, dict[str, tuple[float, float] | None]] = {}
    for algorithm, bounds in entry["intervals"].items():
        intervals[algorithm] = {}
        for metric, pair in bounds.items():
            intervals[algorithm][metric] = None if pair is None else (pair[0], pair[1])
    names = [record.name for record in records]
    examples = []
    for k, title in enumerate(entry["examples"]):
        image, *maps = (
            values.astype(np.float32) / np.float32(255)
            for values in (arrays["images"][k], *arrays["maps"][k])
        )
        examples.append(ExampleSlice(title, image, arrays["labels"][k], dict(zip(names, maps))))
    return Benchmark(
        name=entry["name"],
        title=entry["title"],
        records=tuple(records),
        views=views,
        intervals=intervals,
        examples=tuple(examples),
        counts=VolumeCounts(**entry["counts"]),
        slices=entry["slices"],
        slices_seen=entry["slices_seen"],
        thresholds=tuple(entry["thresholds"]),
    )


def shipped_brains() -> Path:
    """Return the archive that comes with Calipers."""
    return Path(str(resources.files("calipers").joinpath("studies", "anomaly", FILE)))
