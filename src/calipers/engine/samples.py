# SPDX-License-Identifier: Apache-2.0
"""Examine samples one after the other, keeping only their evidence, which becomes a cohort.

The objects of the cohort are connected components with their masks, so that every metric on objects
works on maps; `Cohort.maps` has the evidence of the metrics on voxels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.engine import sample_measures
from calipers.engine.sample_measures import MapView, VoxelHistogram
from calipers.engine.sample_objects import SampleObjects, expanded, predictions_of, references_of
from calipers.metrics.map_settings import MapSettings
from calipers.metrics.measures import Measure
from calipers.tables.samples import Sample

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@dataclass(frozen=True)
class MapPlan:
    """Settings and measures for every sample."""

    settings: MapSettings
    measures: tuple[Measure, ...]
    thresholds: Mapping[str, float]  # model -> the score from which on a voxel is part of an object
    # whether every value of the labels is an object; else they are components
    instances: bool = False
    keep: bool = False  # whether the scores of all voxels are handed on, for values without bins


@dataclass(frozen=True)
class ExaminedMap:
    """The evidence of one map."""

    objects: SampleObjects
    histogram: VoxelHistogram
    sums: Mapping[str, tuple[float, float]]
    soft: Mapping[str, F64]  # key of a soft IoU -> (n_references,)
    # scores of positive and of negative voxels, and the object of every positive one
    scores: tuple[NDArray[np.floating], NDArray[np.floating], I64] | None


@dataclass(frozen=True)
class Examined:
    """The evidence of one sample."""

    name: str
    size: NDArray[np.int64]
    spacing: tuple[float, ...] | None
    groups: Mapping[str, Any]
    references: SampleObjects
    models: Mapping[str, ExaminedMap]


def examine(sample: Sample, plan: MapPlan) -> Examined:
    """Examine one sample under all models."""
    references = references_of(sample.labels, plan.settings, instances=plan.instances)
    positive = sample.labels != 0
    voxels = references.masks.voxels
    voxel_list = expanded(references.masks)
    models = {}
    for model, scores in sample.maps.items():
        view = MapView(scores, positive, voxel_list, voxels)
        models[model] = _examined_map(view, plan, plan.thresholds[model])
    return Examined(sample.name, sample.size, sample.spacing, sample.groups, references, models)


def _examined_map(view: MapView, plan: MapPlan, threshold: float) -> ExaminedMap:
    soft = [measure for measure in plan.measures if measure.quantity == "softIoU"]
    voxel_scores = None
    if plan.keep:
        flat = view.scores.reshape(-1)
        voxel_scores = (flat[view.objects.index], view.scores[~view.positive], view.objects.owner)
    return ExaminedMap(
        objects=predictions_of(view.scores, threshold, plan.settings),
        histogram=sample_measures.histogram(view),
        sums=sample_measures.sums(view, plan.measures, plan.settings.slices),
        soft={measure.key: sample_measures.soft(view, measure) for measure in soft},
        scores=voxel_scores,
    )


def in_order(
    load: Iterable[Callable[[], Sample]], work: Callable[[Sample], Any], jobs: int
) -> Iterator[Any]:
    """Yield the work on every sample, in order; at most ``jobs`` samples are in memory at once."""

    def load_and_work(one: Callable[[], Sample]) -> Any:
        return work(one())

    if jobs <= 1:
        yield from map(load_and_work, load)
        return
    with ThreadPoolExecutor(jobs) as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for one in load:
                waiting.append(pool.submit(load_and_work, one))
                if len(waiting) >= jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # after an error or an interrupt nobody waits for the rest
            for future in waiting:
                future.cancel()
