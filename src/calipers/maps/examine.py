# SPDX-License-Identifier: Apache-2.0
"""Examine the maps of one sample after the other, and make a cohort of the evidence.

`maps.evaluate` calls `examine` for every sample, adds what comes out to `ModelEvidence`,
`GatheredHistograms` and `ExactScores`, drops the arrays, and calls `cohort_of` at the end.

*Objects* of a sample are the connected components of its labels (or its label values), and of the
voxels that a map calls. They come with masks, so that every metric on objects works on maps.

*Measures* leave two numbers per sample: the sum of its values (of one sample, or of the slices that
have one) and how many there are. At the level of the data set with a given threshold they are the
parts of the ratio itself.

*Voxels* are counted by score (`SampleHistogram`); the histograms of all samples are kept within a
limit of memory, in wider bins if need be. As long as the scores of all voxels fit into memory too
(`ExactScores`), the values of the whole data set come from these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I32, I64, Flags, joined, joined_columns
from calipers.data.cohort import Cohort, Images, Intake
from calipers.data.group_columns import group_column
from calipers.data.maps import BINS, COUNTED, Histograms, Maps, Sample, measured
from calipers.data.masks import Masks, no_masks
from calipers.data.objects import Predictions, References
from calipers.errors import InputError
from calipers.kernels import ragged, voxel_ranking, voxels
from calipers.kernels.voxel_ranking import RankingFigures, Sides, VoxelOverlap
from calipers.metrics.maps import AXES, MapSettings, Measure, Tables, value_of

Scores = NDArray[np.floating]
Pair = tuple[float, float]

FINEST = 2.0**-32  # shares are held in such steps, so that sums of many are exact in any order

# of the histograms of a model, 640 MB; with more, neighbouring bins are joined
MOST_ENTRIES = 20_000_000
MOST_WAITING = 1_000_000  # of these, bins of samples that wait to be joined

MOST_BYTES = 400_000_000  # of all models together


def examine(sample: Sample, plan: MapPlan) -> Examined:
    """Examine one sample under all models."""
    references = references_of(sample.labels, plan.settings, instances=plan.instances)
    positive = sample.labels != 0
    voxels = references.masks.voxels
    voxel_list = expanded(references.masks)
    models = {}
    for model, scores in sample.maps.items():
        view = MapView(scores, positive, voxel_list, voxels, sample.objects.get(model))
        models[model] = _examined_map(view, plan, plan.thresholds[model])
    return Examined(sample.name, sample.size, sample.spacing, sample.groups, references, models)


@dataclass(frozen=True)
class Examined:
    """The evidence of one sample."""

    name: str
    size: NDArray[np.int64]
    spacing: tuple[float, ...] | None
    groups: Mapping[str, Any]
    references: SampleObjects
    models: Mapping[str, ExaminedMap]


@dataclass(frozen=True)
class ExaminedMap:
    """The evidence of one map."""

    objects: SampleObjects
    histogram: SampleHistogram
    sums: Mapping[str, tuple[float, float]]
    soft: Mapping[str, F64]  # key of a soft IoU -> (n_references,)
    # scores of positive and of negative voxels, and the object of every positive one
    scores: tuple[NDArray[np.floating], NDArray[np.floating], I64] | None


@dataclass(frozen=True)
class MapPlan:
    """Settings and measures for every sample."""

    settings: MapSettings
    measures: tuple[Measure, ...]
    thresholds: Mapping[str, float]  # model -> the score from which on a voxel is part of an object
    # whether every value of the labels is an object; else they are components
    instances: bool = False
    predicted_instances: bool = False  # the same of predicted labels, where there are any
    keep: bool = False  # whether the scores of all voxels are handed on, for values without bins


def _examined_map(view: MapView, plan: MapPlan, threshold: float) -> ExaminedMap:
    soft = [measure for measure in plan.measures if measure.quantity == "softIoU"]
    if view.labels is None:
        objects = predictions_of(view.scores, threshold, plan.settings)
    else:
        masks = _masks_of(view.labels, plan.settings, instances=plan.predicted_instances)
        objects = scored_objects(view.scores, masks, plan.settings)
    voxel_scores = None
    if plan.keep:
        flat = view.scores.reshape(-1)
        voxel_scores = (flat[view.objects.index], view.scores[~view.positive], view.objects.owner)
    return ExaminedMap(
        objects=objects,
        histogram=histogram(view),
        sums=sums(view, plan.measures, plan.settings.slices),
        soft={measure.key: soft_measures(view, measure) for measure in soft},
        scores=voxel_scores,
    )


@dataclass(frozen=True)
class SampleObjects:
    """Objects of one sample, with the place of each: its centroid, of predictions weighted by the
    scores.
    """

    masks: Masks
    boxes: F64  # (n, 4|6)
    points: F64  # (n, 2|3)
    score: F64  # (n,) 1 for references
    small: int = 0  # objects left out for their size

    def __len__(self) -> int:
        return len(self.masks)


def references_of(
    labels: NDArray[np.integer], settings: MapSettings, *, instances: bool
) -> SampleObjects:
    """Return the objects of a label array: its values, or the connected components of what is not
    0.
    """
    masks = _masks_of(labels, settings, instances=instances)
    return SampleObjects(masks, masks.boxes(), masks.centroids(), np.ones(len(masks)))


def _masks_of(labels: NDArray[np.integer], settings: MapSettings, *, instances: bool) -> Masks:
    if instances:
        return Masks.from_labels(labels)
    return Masks.from_components(labels, settings.connectivity)


def predictions_of(
    scores: NDArray[np.floating], threshold: float, settings: MapSettings
) -> SampleObjects:
    """Return the connected components of the voxels whose score is at least the threshold."""
    masks = Masks.from_components(scores >= threshold, settings.connectivity)
    return scored_objects(scores, masks, settings)


def scored_objects(
    scores: NDArray[np.floating], masks: Masks, settings: MapSettings
) -> SampleObjects:
    """Return the predicted objects of these masks, with their scores on the map."""
    # Small ones are counted, so that the report can say what was left out.
    large = masks.voxels >= settings.least
    small = len(masks) - int(large.sum())
    masks = masks[large] if small else masks
    features = measured(scores, masks)
    score = features.highest if settings.score == "max" else features.mean
    return SampleObjects(masks, features.boxes, features.centroids, score, small)


@dataclass(frozen=True)
class Expanded:
    """Every voxel of every object: its index in the sample, and the object it belongs to."""

    index: I64
    owner: I64
    n: int

    def sums(self, flat: NDArray[np.floating]) -> F64:
        """Return (n,) the sum of a map over every object."""
        sums = np.bincount(self.owner, weights=flat[self.index], minlength=self.n)
        return np.asarray(sums.astype(np.float64))  # without objects NumPy counts in whole numbers


def expanded(masks: Masks) -> Expanded:
    """List the voxels of the masks of one sample."""
    return Expanded(
        ragged.spans(masks.start, masks.length), np.repeat(masks.owner, masks.length), len(masks)
    )


@dataclass(frozen=True)
class MapView:
    """One map beside its references."""

    scores: Scores  # [z, ]y, x
    positive: Flags  # of the same shape
    objects: Expanded  # the voxels of the references
    voxels: I64  # (n,) of every reference
    # of predicted objects, of the same shape; None: objects are cut out of the scores
    labels: NDArray[np.integer] | None = None

    @cached_property
    def soft_sums(self) -> voxel_ranking.SoftSums:
        """What every soft IoU of this map is made of."""
        flat = self.scores.reshape(-1)
        of_objects = self.objects.sums(flat)
        # The difference may fall below 0 by rounding where the background is empty.
        background = max(float(flat.sum(dtype=np.float64)) - float(of_objects.sum()), 0.0)
        return voxel_ranking.SoftSums(of_objects, self.voxels, background)


class SampleHistogram(NamedTuple):
    """The voxels of one sample, counted by score; entries by ascending bin."""

    bin: I32
    positives: I64
    negatives: I64
    overlap: F64
    lowest: F64
    highest: F64


def histogram(view: MapView) -> SampleHistogram:
    """Count the voxels of a map by score, and share every object out among its voxels."""
    counts = count_voxels(view.scores, view.positive)
    entry = np.searchsorted(counts.bin, voxels.bins_of(view.scores.reshape(-1)[view.objects.index]))
    share = np.bincount(
        entry, weights=1.0 / view.voxels[view.objects.owner], minlength=len(counts.bin)
    )
    return counts._replace(overlap=np.round(share / FINEST) * FINEST)


def count_voxels(scores: Scores, positive: Flags) -> SampleHistogram:
    """Count the voxels of a map by score, whatever objects they belong to: there is no overlap."""
    counts = voxels.histogram(scores.reshape(-1), positive.reshape(-1))
    overlap = np.zeros(len(counts.bin))
    return SampleHistogram(
        counts.bin, counts.positives, counts.negatives, overlap, counts.lowest, counts.highest
    )


def sums(view: MapView, measures: Sequence[Measure], slices: str) -> dict[str, Pair]:
    """Return sum and number of every measure on a sample, except those that need the voxels of
    several samples together.
    """
    pairs: dict[str, Pair] = {}
    for level in ("sample", "slice"):
        of_ranks = [
            measure
            for measure in measures
            if measure.level == level and measure.quantity != "softIoU"
        ]
        if of_ranks:
            pairs |= _at_level(view, of_ranks, level, slices)
    for measure in measures:
        if measure.quantity == "softIoU":
            totals = view.soft_sums
            value = voxel_ranking.per_sample(totals, measure.alpha, _variant(measure))
            pairs[measure.key] = _mean_parts(np.array([value]))
            if measure.is_graded:
                scores = 0.0 if len(totals.voxels) else totals.background
                pairs[measure.empty_key] = scores, float(totals.voxels.sum())
        elif measure.level in ("dataset", "batch") and measure.threshold is not None:
            pairs[measure.key] = _overlap_parts(view, measure)
    return pairs


def soft_measures(view: MapView, measure: Measure) -> F64:
    """Return the soft IoU of every reference."""
    return voxel_ranking.per_object(view.soft_sums, measure.alpha, _variant(measure))


def _variant(measure: Measure) -> voxel_ranking.Variant:
    return cast(voxel_ranking.Variant, measure.variant)


def _at_level(
    view: MapView, measures: Sequence[Measure], level: str, slices: str
) -> dict[str, Pair]:
    """Return the measures of one level; a sample or slice without a positive voxel has no value."""
    if not view.objects.n:
        return {measure.key: (0.0, 0.0) for measure in measures}
    volume = level == "slice" and view.scores.ndim == 3  # a picture is one slice
    if volume:
        axis = view.scores.ndim - 1 - AXES.index(slices)
        # Slices without a positive voxel have no value: they need not be sorted.
        some = np.flatnonzero(view.positive.any(axis=tuple(k for k in range(3) if k != axis)))
        sides = voxel_ranking.slices(
            view.scores.take(some, axis), view.positive.take(some, axis), axis
        )
    else:
        sides = voxel_ranking.sides(view.scores, view.positive)
    ranking = voxel_ranking.ranking_figures(sides)
    return {
        measure.key: _mean_parts(_values(view, measure, sides, ranking)) for measure in measures
    }


def _values(view: MapView, measure: Measure, sides: Sides, ranking: RankingFigures) -> F64:
    """Return a measure of every sample or slice."""
    if measure.quantity == "AUPRO":
        return _aupro(view, sides, measure.limit)
    return figure_of(measure, sides, ranking)


def figure_of(measure: Measure, sides: Sides, ranking: RankingFigures) -> F64:
    """Return (G,) a measure of ranked voxels, except the overlap of regions."""
    if measure.quantity in ("AP", "AUROC"):
        return ranking.ap if measure.quantity == "AP" else ranking.auroc
    overlap: VoxelOverlap | RankingFigures = ranking  # the best of all thresholds
    if measure.threshold is not None:
        overlap = voxel_ranking.at_threshold(sides, measure.threshold)
    elif measure.rate is not None:
        overlap = voxel_ranking.at_false_positive_rate(sides, measure.rate)
    return overlap.dice if measure.quantity == "Dice" else overlap.iou


def _aupro(view: MapView, sides: Sides, limit: float) -> F64:
    """Return (1,) the area under the overlap of regions of one sample."""
    if not view.objects.n or not len(sides.negatives):
        return np.full(1, np.nan)
    positives = view.scores.reshape(-1)[view.objects.index]
    # a copy: the kernel puts it into another order, and other measures need it sorted
    negatives = sides.negatives.copy()
    areas = voxel_ranking.per_region(
        positives, negatives, view.objects.owner, view.objects.n, limit
    )
    return np.full(1, areas.mean())


def _mean_parts(values: F64) -> Pair:
    defined_values = values[~np.isnan(values)]
    return float(defined_values.sum()), float(len(defined_values))


def _overlap_parts(view: MapView, measure: Measure) -> Pair:
    """Return numerator and denominator of Dice or IoU at a threshold."""
    # `or` only for the type: the caller has checked that there is a threshold.
    call = view.scores >= (measure.threshold or 0.0)
    n_called, n_positive = int(call.sum()), int(view.positive.sum())
    n_common = int((call & view.positive).sum())
    if measure.quantity == "Dice":
        return 2.0 * n_common, float(n_called + n_positive)
    return float(n_common), float(n_called + n_positive - n_common)


class GatheredHistograms:
    """The histograms of the maps of one model. Where they grow too large, bins are joined on the
    way.
    """

    def __init__(self) -> None:
        self._parts = [_no_histograms()]
        self._waiting: list[SampleHistogram] = []
        self._entries = self._n_waiting = 0  # bins, of all and of those that wait

    def add(self, histogram: SampleHistogram) -> None:
        """Add one more sample."""
        self._waiting.append(histogram)
        self._entries += len(histogram.bin)
        self._n_waiting += len(histogram.bin)
        if self._entries > MOST_ENTRIES:
            self.settled()
        elif self._n_waiting > MOST_WAITING:
            self._join()

    def _join(self) -> None:
        """Join the samples that wait: each holds the extremes of its bins, all of them one."""
        self._parts.append(_joint_histograms(self._waiting))
        self._waiting.clear()
        self._n_waiting = 0

    def settled(self) -> Histograms:
        """Return the histograms of all samples so far, in bins wide enough for the memory."""
        self._join()
        histograms = Histograms.concat(self._parts)
        self._parts.clear()
        # Down to a half, so that the next sample does not join bins again.
        while len(histograms.bin) > MOST_ENTRIES // 2:
            histograms = histograms.coarsened(histograms.shift + 1)
        self._parts, self._entries = [histograms], len(histograms.bin)
        return histograms


def _no_histograms() -> Histograms:
    nothing = np.zeros(0, np.int64)
    columns = (nothing.astype(np.int32), nothing, nothing, np.zeros(0))
    return Histograms(
        np.zeros(1, np.int64), *columns, np.full(BINS, np.inf), np.full(BINS, -np.inf)
    )


def _joint_histograms(parts: Sequence[SampleHistogram]) -> Histograms:
    """Return the histograms of several samples, with the extremes of every bin."""
    nothing = _no_histograms()
    if not parts:
        return nothing
    lowest, highest = nothing.lowest, nothing.highest
    for part in parts:  # a bin occurs once in a sample, so that no entry is overwritten
        lowest[part.bin] = np.minimum(lowest[part.bin], part.lowest)
        highest[part.bin] = np.maximum(highest[part.bin], part.highest)
    columns = joined_columns(parts, ("bin", *COUNTED))
    offsets = ragged.from_counts(np.array([len(part.bin) for part in parts], np.int64))
    return Histograms(offsets=offsets, lowest=lowest, highest=highest, **columns)


class ExactScores:
    """The scores of all voxels of every model; dropped as a whole when they become too many."""

    def __init__(self, *, needed: bool = True) -> None:
        self._parts: dict[str, list[tuple[Scores, Scores, I64]]] = {}
        self._bytes = 0
        self.given_up = not needed  # whether scores need not be handed over

    def add(self, model: str, scores: tuple[Scores, Scores, I64] | None) -> None:
        """Take the voxels of one sample: scores of positive and negative ones, and of the former,
        the object. None comes from a run that had given up: its samples alone were too many.
        """
        if self.given_up:
            return
        if scores is None:
            self._give_up()
            return
        self._bytes += sum(part.nbytes for part in scores)
        if self._bytes > MOST_BYTES:
            self._give_up()
            return
        self._parts.setdefault(model, []).append(scores)

    def _give_up(self) -> None:
        # All or nothing: values of some samples would pass for those of all.
        self.given_up = True
        self._parts.clear()

    def values(self, model: str, measures: Sequence[Measure], batch: int) -> ExactValues | None:
        """Return the values of the measures on all voxels of the data set and of every batch of
        samples, and free the scores.
        """
        parts = self._parts.pop(model, None)
        if not parts:
            return None
        in_batches = [measure for measure in measures if measure.ranked_in_batches]
        of_batches = []
        if in_batches:
            for start in range(0, len(parts), batch):
                of_batches.append(_exact_values(parts[start : start + batch], in_batches))
        pooled = [measure for measure in measures if measure.pooled]
        return ExactValues(_exact_values(parts, pooled) if pooled else {}, of_batches)


class ExactValues(NamedTuple):
    """Values that come from all scores, not from histograms; measure -> value."""

    dataset: Mapping[str, float]
    batches: Sequence[Mapping[str, float]]  # in the order of the samples


def _exact_values(
    parts: Sequence[tuple[Scores, Scores, I64]], measures: Sequence[Measure]
) -> dict[str, float]:
    """Return the values of the measures on the voxels of some samples together."""
    positives, negatives, region = _joint_scores(parts)
    values = {}
    for measure in measures:
        if measure.quantity == "AUPRO":
            values[measure.key] = _exact_aupro(positives, negatives, region, measure.limit)
    negatives.sort()  # only now: AUPRO puts them into an order of its own
    positives.sort()
    ends = (np.array([0, len(positives)]), np.array([0, len(negatives)]))
    sides = voxel_ranking.Sides(positives, negatives, *ends)
    ranking = voxel_ranking.ranking_figures(sides)
    for measure in measures:
        if measure.key not in values:
            values[measure.key] = float(figure_of(measure, sides, ranking)[0])
    return values


def _joint_scores(parts: Sequence[tuple[Scores, Scores, I64]]) -> tuple[Scores, Scores, I64]:
    """Return the voxels of all samples; regions are numbered consecutively."""
    positives = np.concatenate([part[0] for part in parts])
    negatives = np.concatenate([part[1] for part in parts])
    kind = np.result_type(positives, negatives)
    n_regions = [int(part[2].max(initial=-1)) + 1 for part in parts]
    before = np.cumsum([0, *n_regions])
    region = np.concatenate([part[2] + n for part, n in zip(parts, before)])
    return positives.astype(kind, copy=False), negatives.astype(kind, copy=False), region


def _exact_aupro(positives: Scores, negatives: Scores, region: I64, limit: float) -> float:
    if not len(region) or not len(negatives):
        return float("nan")
    return float(
        voxel_ranking.per_region(positives, negatives, region, int(region.max()) + 1, limit).mean()
    )


class AlikeCheck:
    """Raise unless samples share models and number of axes, and have names that differ."""

    def __init__(self) -> None:
        self.first: Examined | None = None
        self.names: set[str] = set()

    def __call__(self, sample: Examined) -> None:
        """Compare one more sample with those before it."""
        first = self.first = self.first or sample
        if len(sample.size) != len(first.size):
            raise InputError(
                f"{len(first.size)} axes, as {first.name!r} has",
                rule="volume-shape",
                location=sample.name,
                value=len(sample.size),
            )
        if list(sample.models) != list(first.models):
            raise InputError(
                f"the models {', '.join(first.models)}, as {first.name!r} has",
                rule="models",
                location=sample.name,
                value=list(sample.models),
            )
        if sample.name in self.names:
            raise InputError(
                "unique names of samples",
                rule="dup-image",
                location=sample.name,
                value=sample.name,
            )
        self.names.add(sample.name)


class ModelEvidence:
    """The evidence of the maps of one model, collected sample by sample."""

    def __init__(self) -> None:
        self.objects: list[SampleObjects] = []
        self.sums: list[Mapping[str, tuple[float, float]]] = []
        self.soft: list[Mapping[str, F64]] = []
        self.histograms = GatheredHistograms()
        self.highest = 0.0  # of all scores

    def add(self, examined: ExaminedMap) -> None:
        """Take one more sample; the scores of its voxels are not kept here."""
        self.objects.append(examined.objects)
        self.sums.append(examined.sums)
        self.soft.append(examined.soft)
        self.histograms.add(examined.histogram)
        self.highest = max(self.highest, float(examined.histogram.highest.max(initial=0.0)))


def cohort_of(
    samples: Sequence[Examined],
    gathered: Mapping[str, ModelEvidence],
    exact: Mapping[str, ExactValues | None],
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
        tables[model] = _map_evidence(maps, columns["offsets"], exact.get(model), measures, batch)
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
    return Images(
        ids=tuple(sample.name for sample in samples),
        size=np.array([sample.size for sample in samples], np.float64),
        spacing=np.array([sample.spacing or no_spacing for sample in samples], np.float64),
        groups=group_columns([sample.groups for sample in samples]),
    )


def group_columns(groups: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the columns of samples with these groups; a group that a sample lacks is empty."""
    columns = {}
    for name in dict.fromkeys(name for of_sample in groups for name in of_sample):
        values = [of_sample.get(name) for of_sample in groups]
        columns[name] = group_column(values, "samples", name)
    return columns


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
        score=joined(parts, "score"),
        scored=True,
        facts={"voxels": voxels},
    )


def _map_evidence(
    gathered: ModelEvidence,
    offsets: NDArray[np.int64],
    exact: ExactValues | None,
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
            batch_values = None
            if exact is not None and measure.ranked_in_batches:
                batch_values = [of_batch[measure.key] for of_batch in exact.batches]
            sums[measure.key] = _by_batch(
                histograms, references, measure, batch, parts, batch_values
            )
    return Maps(
        sums,
        references,
        np.array([len(part) for part in gathered.objects], np.int64),
        histograms,
        None if exact is None else exact.dataset,
    )


def _by_batch(
    histograms: Histograms,
    references: NDArray[np.int64],
    measure: Measure,
    batch: int,
    parts: F64 | None,
    batch_values: Sequence[float] | None,
) -> F64:
    """Return (n, 2): batches of samples in the order of the input, each with the value of its
    voxels together.

    Every sample carries an equal share of its batch, so that the sum over samples counts a batch
    once. ``parts`` are the numerators and denominators of the samples, where the threshold is a
    given number; ``batch_values`` are the values of the batches, where all scores were kept. A
    batch without a positive voxel has no value.
    """
    table = np.zeros((len(references), 2))
    for number, start in enumerate(range(0, len(references), batch)):
        members = np.arange(start, min(start + batch, len(references)))
        if not references[members].any():
            continue
        if batch_values is not None:
            value = batch_values[number]
        elif parts is None:
            one = np.ones((1, len(members)), np.int64)
            voxels = Tables(histograms.take(members)).pooled(one, references[members])
            value = float(value_of(voxels, measure)[0])
        else:
            value = float(parts[members, 0].sum() / parts[members, 1].sum())
        # A batch of NaN has no value: its entries stay 0.
        if value == value:
            table[members] = value / len(members), 1.0 / len(members)
    return table
