# SPDX-License-Identifier: Apache-2.0
"""Put examined samples together into a cohort: objects with masks, and the evidence of maps.

`evaluate_maps` adds one sample after the other to `ModelMaps` and calls `cohort_of` at the end.
"""

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


class ModelMaps:
    """The evidence of the maps of one model, collected sample by sample."""

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
    gathered: Mapping[str, ModelMaps],
    exact: Mapping[str, Mapping[str, float] | None],
    measures: Sequence[Measure],
    *,
    label: str,
    batch: int,
    intake: Intake,
) -> Cohort:
    """Put examined samples together; ``gathered`` has the maps of every model in the same order."""
    d = len(samples[0].size)
    columns = _columns([sample.references for sample in samples], d)
    n = len(columns["label"])
    facts = {"voxels": columns["masks"].voxels}
    for model, maps in gathered.items():
        for key in maps.soft[0]:
            # facts belong to references, which all models share: the model goes into the name
            name = key if len(gathered) == 1 else f"{key} of {model}"
            facts[name] = np.concatenate([soft[key] for soft in maps.soft])
    nobody = np.zeros(n, np.bool_)
    models, tables = {}, {}
    for model, maps in gathered.items():
        models[model] = _predictions(maps.objects, d)
        tables[model] = _maps(maps, columns["offsets"], exact.get(model), measures, batch)
    return Cohort(
        images=_images(samples, d),
        classes=(label,),
        references=References(
            **columns,
            area=columns["masks"].voxels.astype(np.float64),
            ignore=nobody,
            crowd=nobody,
            facts=facts,
        ),
        models=models,
        intake=intake,
        maps=tables,
    )


def _images(samples: Sequence[Examined], d: int) -> Images:
    no_spacing = (np.nan,) * d
    groups = {}
    for name in dict.fromkeys(name for sample in samples for name in sample.groups):
        groups[name] = _column([sample.groups.get(name, "") for sample in samples])
    return Images(
        ids=tuple(sample.name for sample in samples),
        size=np.array([sample.size for sample in samples], np.float64),
        spacing=np.array([sample.spacing or no_spacing for sample in samples], np.float64),
        groups=groups,
    )


def _column(values: Sequence[Any]) -> NDArray[Any]:
    for value in values:
        if not isinstance(value, int | float | np.number) or isinstance(value, bool):
            return np.array([str(value) for value in values])
    return np.array(values)


def _columns(parts: Sequence[SampleObjects], d: int) -> dict[str, Any]:
    """Return the columns that references and predictions have in common."""
    counts = np.array([len(part) for part in parts], np.int64)
    masks = []
    for part in parts:  # masks without objects may come without dimensions
        masks.append(part.masks if len(part) else no_masks(d))
    boxes = np.concatenate([part.boxes.reshape(-1, 2 * d) for part in parts])
    return {
        "offsets": ragged.from_counts(counts),
        "boxes": boxes,
        "extent": np.prod(boxes[:, d:] - boxes[:, :d], axis=1),
        "label": np.zeros(len(boxes), np.int32),
        "place": ragged.positions(counts),
        "masks": Masks.concat(masks),
        "points": np.concatenate([part.points.reshape(-1, d) for part in parts]),
    }


def _predictions(parts: Sequence[SampleObjects], d: int) -> Predictions:
    columns = _columns(parts, d)
    voxels = columns["masks"].voxels
    return Predictions(
        **columns,
        area=voxels.astype(np.float64),
        score=np.concatenate([part.score for part in parts]),
        scored=True,
        facts={"voxels": voxels},
    )


def _maps(
    gathered: ModelMaps,
    offsets: NDArray[np.int64],
    exact: Mapping[str, float] | None,
    measures: Sequence[Measure],
    batch: int,
) -> Maps:
    histograms = gathered.histograms.settled()
    sums = {}
    for key in gathered.sums[0]:
        sums[key] = np.array([of_sample[key] for of_sample in gathered.sums])
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
            voxels = Tables(histograms.take(members)).pooled(one, references[members])
            value = float(value_of(voxels, measure)[0])
        else:
            value = float(parts[members, 0].sum() / parts[members, 1].sum())
        if value == value:
            table[members] = value / len(members), 1.0 / len(members)
    return table
