# SPDX-License-Identifier: Apache-2.0
"""The benchmark: algorithms run on volumes with inserted spheres, evaluated by all metrics.

Every test set is evaluated in three views: as volumes, as all their slices, and as only those
slices that contain a part of a sphere, which are the ones that the raters of the paper saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.studies.anomaly.algorithms import ALGORITHMS, calibrate
from calipers.studies.anomaly.measures import METRICS, metric_values
from calipers.studies.anomaly.volumes import (
    FULL,
    QUICK,
    ChestVolume,
    VolumeCounts,
    normal,
    test_volumes,
)
from calipers.studies.framework import Progress
from calipers.tables.samples import Sample

F32 = NDArray[np.float32]
Maps = Mapping[str, F32]
Values = Mapping[str, Mapping[str, float]]  # algorithm -> metric -> value

VOLUMES, SLICES, SEEN = "volumes", "all slices", "slices with an object"
VIEWS = (VOLUMES, SLICES, SEEN)
THRESHOLD = 0.5


@dataclass(frozen=True)
class ExampleSlice:
    """One slice of a test volume, for a picture."""

    title: str
    image: F32
    labels: NDArray[np.uint8]
    maps: Maps


@dataclass(frozen=True)
class Benchmark:
    """The values of all algorithms by all metrics."""

    algorithms: tuple[str, ...]
    skip_notes: tuple[str, ...]  # a line for each algorithm whose package is missing
    views: Mapping[str, Values]
    # algorithm -> share of its false positive voxels in slices without an object; NaN without any
    unseen_share: Mapping[str, float]
    example: ExampleSlice
    numbers: VolumeCounts
    slices: int
    slices_seen: int

    def column(
        self, view: str, metric: str, algorithms: Sequence[str] | None = None
    ) -> list[float]:
        """Return the values of a metric, in the order of the algorithms."""
        return [self.views[view][name][metric] for name in algorithms or self.algorithms]


def run_benchmark(
    seed: int = 0, *, quick: bool = False, progress: Progress = lambda what, step, total: None
) -> Benchmark:
    """Train all algorithms, run them, and evaluate their maps."""
    counts = QUICK if quick else FULL
    ready = [algorithm for algorithm in ALGORITHMS if algorithm.available]
    total = 2 * len(ready) + len(VIEWS)
    training = normal(seed, "training", counts.training)
    calibration = normal(seed, "calibration", counts.calibration)
    volumes = list(test_volumes(seed, counts.test))
    maps: dict[str, list[F32]] = {}
    for k, algorithm in enumerate(ready):
        progress(f"training {algorithm.name}", 2 * k, total)
        score = calibrate(algorithm.fit(training, seed), calibration)
        progress(f"running {algorithm.name}", 2 * k + 1, total)
        maps[algorithm.name] = [score(volume.image) for volume in volumes]
    cases: list[tuple[ChestVolume, Maps]] = []
    for k, volume in enumerate(volumes):
        cases.append((volume, _at_index(maps, k)))
    views = {}
    for k, view in enumerate(VIEWS):
        progress(f"evaluating {view}", 2 * len(ready) + k, total)
        views[view] = metric_values(samples_of(cases, view), METRICS)
    progress("benchmark", total, total)
    return Benchmark(
        algorithms=tuple(maps),
        skip_notes=_skip_notes(),
        views=views,
        unseen_share={name: _unseen_share(volumes, scores) for name, scores in maps.items()},
        example=_example_slice(cases),
        numbers=counts,
        slices=sum(len(volume.labels) for volume in volumes),
        slices_seen=sum(int(has_object(volume).sum()) for volume in volumes),
    )


def _at_index(maps: Mapping[str, Sequence[F32] | F32], k: int) -> dict[str, F32]:
    """Return the ``k``-th map, or the ``k``-th slice of the map, of every algorithm."""
    return {name: scores[k] for name, scores in maps.items()}


def _skip_notes() -> tuple[str, ...]:
    return tuple(
        f"{algorithm.name} was left out: it needs {algorithm.package} (extra {algorithm.extra!r})"
        for algorithm in ALGORITHMS
        if not algorithm.available
    )


def has_object(volume: ChestVolume) -> NDArray[np.bool_]:
    """Return (slices,): whether a slice contains a part of a sphere."""
    return np.asarray((volume.labels > 0).any(axis=(1, 2)))


def samples_of(cases: Sequence[tuple[ChestVolume, Maps]], view: str) -> Iterator[Sample]:
    """Yield the samples of a view: whole volumes, or slices as samples of their own."""
    for volume, maps in cases:
        labels = (volume.labels > 0).astype(np.uint8)
        if view == VOLUMES:
            yield Sample(volume.name, labels, maps)
            continue
        # The raters of the paper saw only slices with an object.
        slices = np.flatnonzero(has_object(volume)) if view == SEEN else np.arange(len(labels))
        for z in slices.tolist():
            yield Sample(f"{volume.name} {z:02d}", labels[z], _at_index(maps, z))


def _unseen_share(volumes: Sequence[ChestVolume], maps: Sequence[F32]) -> float:
    """Return the share of the false positive voxels that lie in slices without an object."""
    total = n_hidden = 0
    for volume, scores in zip(volumes, maps):
        false = ((scores >= THRESHOLD) & (volume.labels == 0)).sum(axis=(1, 2))
        total += int(false.sum())
        n_hidden += int(false[~has_object(volume)].sum())
    return n_hidden / total if total else float("nan")


def _example_slice(cases: Sequence[tuple[ChestVolume, Maps]]) -> ExampleSlice:
    """Return the slice of the first case with most spheres; with most voxels if several tie."""
    volume, maps = cases[0]
    areas = np.stack([(volume.labels == number).sum(axis=(1, 2)) for number in range(1, 6)])
    # The number of spheres counts first: a slice has fewer voxels than the factor.
    z = int(((areas > 0).sum(axis=0) * volume.labels[0].size + areas.sum(axis=0)).argmax())
    return ExampleSlice(f"slice {z}", volume.image[z], volume.labels[z], _at_index(maps, z))
