# SPDX-License-Identifier: Apache-2.0
"""What algorithms gave on brains with spheres, kept so that it can be judged without PyTorch.

An archive is one npz file: for each setting the values of all metrics, what else claims need, and
the maps and spheres of some slices; and a member ``about`` with the command, the seed, the versions
and the hashes of the template. `calipers.studies.anomaly.brain_training` makes one, and
`shipped_brains` is the one that comes with Calipers. Whole maps are too large to ship: with
``--keep`` they are left in the folder, a file per algorithm.

The brains themselves are not in an archive, because the template is not ours: `with_brains` makes
the slices anew from the template, with the seed of the archive, and checks that they are the same.

The scores of slices are rounded to bytes; numbers are kept as they are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F32
from calipers.errors import InputError
from calipers.io.source import require_file
from calipers.results.files import write_atomically
from calipers.studies.anomaly.brains import (
    INSTALL,
    BrainTemplate,
    VolumeCounts,
    settings_of,
    volume_name,
)
from calipers.studies.kept_archives import archive_arrays

ARCHIVE_SCHEMA = "calipers.anomaly-archive/2"
WITH_IMAGES = "calipers.anomaly-archive/1"  # of before, with the slices themselves
FILE = "brains.npz"
VOLUMES, SLICES, SEEN = "volumes", "all slices", "slices with an object"
VIEWS = (VOLUMES, SLICES, SEEN)
# How far the mean grey value of a slice that is made anew may be from that of the archive. Not a
# hash of the pixels: processors round differently, and brains of other seeds are farther apart.
SAME_GREY = 1e-4

Maps = Mapping[str, F32]
Values = Mapping[str, Mapping[str, float]]  # algorithm -> metric -> value


@dataclass(frozen=True)
class ExampleSlice:
    """One slice of a test volume, with the maps of all algorithms."""

    volume: int  # its number among the test volumes
    z: int
    labels: NDArray[np.uint8]
    maps: Maps
    grey: float = float("nan")  # mean of the image; NaN in an archive of before
    image: F32 | None = None  # None: not in the archive, see `with_brains`

    @property
    def title(self) -> str:
        """What is shown, in words."""
        return f"{volume_name(self.volume)}, slice {self.z}"


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
            labels = np.stack([one.labels for one in bench.examples])
            maps = np.stack([np.stack(list(one.maps.values())) for one in bench.examples])
            arrays |= {f"{b}-labels": labels.astype(np.uint8), f"{b}-maps": _as_bytes(maps)}
            examples = []
            for one in bench.examples:
                examples.append({"volume": one.volume, "slice": one.z, "grey": one.grey})
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
                    "examples": examples,
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
            if document.get("schema") not in (ARCHIVE_SCHEMA, WITH_IMAGES):
                raise KeyError("schema")
            for b, entry in enumerate(document["benchmarks"]):
                arrays = {name: content[f"{b}-{name}"] for name in ("labels", "maps")}
                if document["schema"] == WITH_IMAGES:
                    arrays["images"] = content[f"{b}-images"]
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


def _from_bytes(values: NDArray[np.uint8]) -> F32:
    return values.astype(np.float32) / np.float32(255)


def _example(entry: Any, labels: NDArray[np.uint8], maps: Maps) -> ExampleSlice:
    # Archives with images have a title, "test-00, slice 36", instead of numbers.
    if isinstance(entry, str):
        volume, z = entry.removeprefix("test-").split(", slice ")
        return ExampleSlice(int(volume), int(z), labels, maps)
    grey = _number(entry["grey"])
    return ExampleSlice(int(entry["volume"]), int(entry["slice"]), labels, maps, grey)


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
    for k, example in enumerate(entry["examples"]):
        maps = {name: _from_bytes(values) for name, values in zip(names, arrays["maps"][k])}
        examples.append(_example(example, arrays["labels"][k], maps))
        if "images" in arrays:
            examples[k] = replace(examples[k], image=_from_bytes(arrays["images"][k]))
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


def with_brains(
    bench: Benchmark, about: Mapping[str, Any], template: BrainTemplate, n: int | None = None
) -> Benchmark:
    """Return a benchmark whose first ``n`` examples (None: all) show their brains.

    Brains that an archive does not hold are made anew from the template, with its seed.

    Raises
    ------
    InputError
        ``template-differs``: the template, or what is made of it, is not that of the archive.
    """
    examples = list(bench.examples)
    missing = [k for k, one in enumerate(examples[:n]) if one.image is None]
    if not missing:
        return bench
    _check_template(about, template)
    settings = settings_of(template, bench.counts, int(about["seed"]))
    setting = next(one for one in settings if one.name == bench.name)
    for k in missing:
        example = examples[k]
        volume = setting.test_volume(example.volume)
        image = volume.image[example.z]
        grey = float(image.mean(dtype=np.float64))
        is_same = np.array_equal(volume.labels[example.z], example.labels)
        if not is_same or not abs(grey - example.grey) <= SAME_GREY:
            raise InputError(
                f"brains as those of the archive (mean grey value {example.grey:.4f})",
                rule="template-differs",
                location=f"{bench.name}, {example.title}",
                value=f"{grey:.4f}",
                hint=f"install the template that was tested: {INSTALL}",
            )
        examples[k] = replace(example, image=image)
    return replace(bench, examples=tuple(examples))


def _check_template(about: Mapping[str, Any], template: BrainTemplate) -> None:
    hashes = {entry["file"]: entry["sha256"] for entry in about.get("template", ())}
    for entry in template.files:
        expected = hashes.get(entry["file"], entry["sha256"])
        if entry["sha256"] != expected:
            raise InputError(
                f"the template of the archive, with sha256 {expected[:12]}...",
                rule="template-differs",
                file=str(entry["file"]),
                value=f"{str(entry['sha256'])[:12]}...",
                hint=f"install the version that was tested: {INSTALL}",
            )


def shipped_brains() -> Path:
    """Return the archive that comes with Calipers."""
    return Path(str(resources.files("calipers").joinpath("studies", "anomaly", FILE)))
