# SPDX-License-Identifier: Apache-2.0
"""From examined samples to a cohort: objects with masks, and per model what is left of its maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.engine.sample_histograms import GatheredHistograms
from calipers.engine.sample_objects import SampleObjects
from calipers.engine.samples import Examined, ExaminedMap
from calipers.kernels import ragged
from calipers.metrics.measures import Measure
from calipers.metrics.pooling import Tables, value_of
from calipers.tables import Cohort, Images, Intake, Predictions, References
from calipers.tables.maps import Histograms, Maps
from calipers.tables.masks import Masks, no_masks

F64 = NDArray[np.float64]


class Gathered:
    """What is left of the maps of one model, gathered sample by sample."""

    def __init__(self) -> None:
        self.objects: list[SampleObjects] = []
        self.sums: list[Mapping[str, tuple[float, float]]] = []
        self.soft: list[Mapping[str, F64]] = []
        self.histograms = GatheredHistograms()

    def add(self, examined: ExaminedMap) -> None:
        """Take one more sample; the scores of its voxels are not kept here."""
        self.objects.append(examined.objects)
        self.sums.append(examined.sums)
        self.soft.append(examined.soft)
        self.histograms.add(examined.histogram)


def cohort_of(
    samples: Sequence[Examined],
    gathered: Mapping[str, Gathered],
    exact: Mapping[str, Mapping[str, float] | None],
    measures: Sequence[Measure],
    *,
    label: str,
    batch: int,
    intake: Intake,
) -> Cohort:
    """Put examined samples together; ``gathered`` has the maps of every model, in the same order."""
    d = len(samples[0].size)
    references = [sample.references for sample in samples]
    shared = _shared(references, d)
    n = len(shared["label"])
    facts = {"voxels": shared["masks"].voxels}
    for model, maps in gathered.items():
        for key in maps.soft[0]:
            name = key if len(gathered) == 1 else f"{key} of {model}"
            facts[name] = np.concatenate([soft[key] for soft in maps.soft])
    nobody = np.zeros(n, np.bool_)
    return Cohort(
        images=_images(samples, d),
        classes=(label,),
        references=References(
            **shared,
            area=shared["masks"].voxels.astype(np.float64),
            ignore=nobody,
            crowd=nobody,
            facts=facts,
        ),
        models={model: _predictions(maps.objects, d) for model, maps in gathered.items()},
        intake=intake,
        maps={
            model: _maps(maps, shared["offsets"], exact.get(model), measures, batch)
            for model, maps in gathered.items()
        },
    )


def _images(samples: Sequence[Examined], d: int) -> Images:
    unknown = (np.nan,) * d
    names = list(dict.fromkeys(name for sample in samples for name in sample.groups))
    return Images(
        ids=tuple(sample.name for sample in samples),
        size=np.array([sample.size for sample in samples], np.float64),
        spacing=np.array([sample.spacing or unknown for sample in samples], np.float64),
        groups={
            name: _column([sample.groups.get(name, "") for sample in samples]) for name in names
        },
    )


def _column(values: Sequence[Any]) -> NDArray[Any]:
    numbers = all(
        isinstance(value, int | float | np.number) and not isinstance(value, bool)
        for value in values
    )
    return np.array(values if numbers else [str(value) for value in values])


def _shared(parts: Sequence[SampleObjects], d: int) -> dict[str, Any]:
    """Return the columns that references and predictions have alike."""
    counts = np.array([len(part) for part in parts], np.int64)
    boxes = np.concatenate([part.boxes.reshape(-1, 2 * d) for part in parts])
    return {
        "offsets": ragged.from_counts(counts),
        "boxes": boxes,
        "extent": np.prod(boxes[:, d:] - boxes[:, :d], axis=1),
        "label": np.zeros(len(boxes), np.int32),
        "place": ragged.positions(counts),
        "masks": Masks.concat([part.masks if len(part) else no_masks(d) for part in parts]),
        "points": np.concatenate([part.points.reshape(-1, d) for part in parts]),
    }


def _predictions(parts: Sequence[SampleObjects], d: int) -> Predictions:
    shared = _shared(parts, d)
    voxels = shared["masks"].voxels
    return Predictions(
        **shared,
        area=voxels.astype(np.float64),
        score=np.concatenate([part.score for part in parts]),
        scored=True,
        facts={"voxels": voxels},
    )


def _maps(
    gathered: Gathered,
    offsets: NDArray[np.int64],
    exact: Mapping[str, float] | None,
    measures: Sequence[Measure],
    batch: int,
) -> Maps:
    histograms = gathered.histograms.settled()
    sums = {key: np.array([found[key] for found in gathered.sums]) for key in gathered.sums[0]}
    references = np.diff(offsets)
    for measure in measures:
        if measure.level == "batch":
            parts = sums.get(measure.key)
            sums[measure.key] = _by_batch(histograms, references, measure, batch, parts)
    return Maps(
        sums,
        references,
        np.array([len(part) for part in gathered.objects], np.int64),
        histograms,
        exact,
    )


def _by_batch(
    histograms: Histograms,
    references: NDArray[np.int64],
    measure: Measure,
    batch: int,
    parts: F64 | None,
) -> F64:
    """Return (n, 2): batches of samples in the order of the input, each with the value of its
    voxels together.

    Every sample carries an equal share of its batch, so that the sum over samples counts a batch
    once. ``parts`` are the numerators and denominators of the samples, where the threshold is a
    given number. A batch without a positive voxel has no value.
    """
    table = np.zeros((len(references), 2))
    for start in range(0, len(references), batch):
        members = np.arange(start, min(start + batch, len(references)))
        if not references[members].any():
            continue
        if parts is None:
            one = np.ones((1, len(members)), np.int64)
            counted = Tables(histograms.take(members)).pooled(one, references[members])
            value = float(value_of(counted, measure)[0])
        else:
            value = float(parts[members, 0].sum() / parts[members, 1].sum())
        if value == value:
            table[members] = value / len(members), 1.0 / len(members)
    return table
