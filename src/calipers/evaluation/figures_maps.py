# SPDX-License-Identifier: Apache-2.0
"""Figures of maps: ROC and precision of all voxels, soft IoU by size, metrics at several levels.

A map gives every voxel a score; an evaluation of maps (`evaluate_maps`) has the figures here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64
from calipers.data.cohort import Cohort
from calipers.errors import UsageError
from calipers.evaluation.figures import (
    CurvePoints,
    at_level,
    finding,
    models_shown,
    points,
    precision_finding,
    reach,
    slot_of,
)
from calipers.evaluation.result import Evaluation
from calipers.metrics.maps import (
    MapMetric,
    Measure,
    SensitivityCurve,
    VoxelCurve,
    VoxelPrecisionCurve,
)
from calipers.show.figures import Axis, Curves, Dots, Forest, ForestRow, Mark, Scatter
from calipers.show.words import digits, plural, short_name, two_decimals, why
from calipers.statistics.comparison import max_t
from calipers.statistics.support import FEWEST_UNITS
from calipers.statistics.weights import bootstrap

# False positive rates of voxels; exact at 0.0001, 0.001, ..., 1.
RATES = tuple(10.0 ** (k / 8) for k in range(-32, 1))
SHOWN_RATES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
RECALLS = tuple(k / 100 for k in range(1, 101))
RARE = 1e-3  # the rate of false voxels at which models are compared in words
REPLICATES = 400  # behind the words on sizes
LEVELS = {
    "dataset": "all voxels",
    "batch": "mean of batches",
    "sample": "mean of samples",
    "slice": "mean of slices",
}
ON_BOUND = (
    "Where a curve is exactly 1 or 0, its band is an interval for small counts of {}, which is "
    "wide."
)


def voxel_roc(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Curves:
    """Return the share of reference voxels that are called against that of all other voxels."""
    names, curves = _points(evaluation, models, SensitivityCurve(RATES))
    at = int(np.abs(np.array(RATES) - RARE).argmin())
    shares = {model: curves.of_model[model][at].value for model in names}
    marks = tuple(int(np.abs(np.array(RATES) - rate).argmin()) for rate in SHOWN_RATES)
    label = "false positive rate: share of other voxels called positive"
    return Curves(
        finding(shares, "At one false voxel in 1,000", "of the reference voxels"),
        Axis(label, RATES[0], 1.0, log=True, ticks=SHOWN_RATES),
        Axis("share of reference voxels called positive", 0.0, 1.0),
        tuple(curves.line(model, slot_of(evaluation, model), marks=marks) for model in names),
        levels=SHOWN_RATES,
        note=_note(evaluation, curves),
    )


def voxel_precision(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Curves:
    """Return the precision of all voxels against recall.

    The mean over the reference voxels is AP/dataset.
    """
    names, curves = _points(evaluation, models, VoxelPrecisionCurve(RECALLS))
    return Curves(
        precision_finding({model: reach(RECALLS, curves.of_model[model]) for model in names}),
        Axis("recall of reference voxels", 0.0, 1.0),
        Axis("precision of voxels called positive", 0.0, 1.0),
        tuple(curves.line(model, slot_of(evaluation, model)) for model in names),
        levels=tuple(k / 10 for k in range(1, 11)),
        note=_note(evaluation, curves),
    )


def _points(
    evaluation: Evaluation, models: Sequence[str] | None, curve: VoxelCurve
) -> tuple[tuple[str, ...], CurvePoints]:
    _check_maps(evaluation)
    maps = evaluation.cohort.maps
    # A model without maps may be in the cohort for its objects.
    names = tuple(model for model in models_shown(evaluation, models) if model in maps)
    cases = {model: (curve, maps[model]) for model in names}
    return names, points(evaluation, curve.places.tolist(), cases)


def _check_maps(evaluation: Evaluation) -> None:
    if not evaluation.cohort.maps:
        raise UsageError("this figure needs maps: use evaluate_maps or calipers maps")


def _note(evaluation: Evaluation, curves: CurvePoints) -> str:
    sentences = [at_level(evaluation, is_curve=True)]
    estimates = [estimate for line in curves.of_model.values() for estimate in line]
    if any(e.value in (0.0, 1.0) and e.high - e.low > 0 for e in estimates):
        sentences.append(ON_BOUND.format(plural(evaluation.statistics["unit"])))
    sentences.append(_voxel_counts(evaluation))
    return " ".join(filter(None, sentences))


def _voxel_counts(evaluation: Evaluation) -> str:
    """Return how many voxels there are, of references and in all."""
    histograms = next(iter(evaluation.cohort.maps.values())).histograms
    inside, outside = int(histograms.positives.sum()), int(histograms.negatives.sum())
    return f"{inside:,} of {inside + outside:,} voxels belong to references, all images together."


@dataclass(frozen=True, slots=True)
class Softness:
    """The soft IoU of every reference under every model, and its size."""

    metric: str  # as the protocol calls it
    of_model: Mapping[str, F64]  # (n_references,)
    size: F64  # (n_references,)
    unit: str  # mm³, mm², voxels or pixels


def softness(evaluation: Evaluation) -> Softness | None:
    """Return the soft IoU of every reference, by the first such metric of the protocol that has
    values; None if there is none.
    """
    cohort = evaluation.cohort
    facts = cohort.references.facts
    for metric, measure in measures(evaluation):
        if measure.quantity != "softIoU":
            continue
        if len(cohort.models) == 1:
            names = dict.fromkeys(cohort.models, measure.key)
        else:
            names = {model: f"{measure.key} of {model}" for model in cohort.models}
        if all(name in facts for name in names.values()):
            values = {model: np.asarray(facts[name], np.float64) for model, name in names.items()}
            return Softness(metric, values, *sizes_of(cohort))
    return None


def sizes_of(cohort: Cohort) -> tuple[F64, str]:
    """Return the size of every reference and its unit: millimetres if all spacings are known."""
    references = cohort.references
    voxels = references.area
    if references.masks is not None:
        voxels = references.masks.voxels.astype(np.float64)
    voxel_size = np.prod(cohort.images.spacing, axis=1)[references.image]
    if len(voxel_size) and np.isfinite(voxel_size).all():
        return voxels * voxel_size, "mm³" if cohort.dimensions == 3 else "mm²"
    return voxels, "voxels" if cohort.dimensions == 3 else "pixels"


def soft_sizes(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Scatter:
    """Return the soft IoU of every reference against its size."""
    _check_maps(evaluation)
    soft = softness(evaluation)
    if soft is None or not len(soft.size):
        raise UsageError(
            "this figure needs references and a soft IoU: "
            "add a metric of the kind soft-instance-iou"
        )
    names = models_shown(evaluation, models)
    ids, image = evaluation.cohort.images.ids, evaluation.cohort.references.image
    image_names = tuple(short_name(ids[k]) for k in image.tolist())
    dots = []
    for model in names:
        slot, values = slot_of(evaluation, model), soft.of_model[model]
        dots.append(Dots(model, soft.size, values, names=image_names, slot=slot, quiet=True))
    what = "volume" if evaluation.cohort.dimensions == 3 else "area"
    return Scatter(
        _sizes_in_words(evaluation, soft, names),
        Axis(f"{what} of the reference ({soft.unit})", log=True),
        Axis(f"{soft.metric} of the reference", 0.0),
        tuple(dots),
        note=f"{len(soft.size)} references, each once per model. "
        "Halves are split at the median size.",
    )


def _sizes_in_words(evaluation: Evaluation, soft: Softness, models: Sequence[str]) -> str:
    """Return for which models small objects are localised worse, beyond chance."""
    small = _smaller_half(soft.size)
    classes = evaluation.cohort.classes
    what = plural(classes[0]) if len(classes) == 1 else "references"
    if not small.any():
        return f"All {what} have one size"
    clauses: dict[str, list[str]] = {}
    tested_models = models[:3]
    signs = _signs(evaluation, [soft.of_model[model] for model in tested_models], small)
    for model, sign in zip(tested_models, signs):
        values = soft.of_model[model]
        halves = f"{digits(values[small].mean(), 2)} against {digits(values[~small].mean(), 2)}"
        clauses.setdefault(sign, []).append(f"{short_name(model)} {halves}")
    findings = {
        "worse": f"Small {what} are localised worse",
        "better": f"Small {what} are localised better",
        "": "No effect of size is shown",
    }
    explanation = f"(mean {soft.metric} of the smaller half against the larger)"
    sentences = []
    for sign, text in findings.items():
        if sign in clauses:
            sentences.append(f"{text} {explanation}: {', '.join(clauses[sign])}")
    return "; ".join(sentences)


def _smaller_half(size: F64) -> NDArray[np.bool_]:
    """Return which sizes are at most the median, or below it if none is above; none if all are
    equal.
    """
    middle = np.median(size)
    small = size <= middle
    return size < middle if small.all() else small


def _signs(evaluation: Evaluation, values: Sequence[F64], small: NDArray[np.bool_]) -> list[str]:
    """Return, per model, whether the small half is ``worse`` or ``better``; "" if chance may
    explain it.

    The tests of the models are one family: paired replicates of the units, corrected by max-t.
    """
    units = evaluation.units
    if units.number < FEWEST_UNITS:
        return [""] * len(values)
    image, n = evaluation.cohort.references.image, evaluation.cohort.n_images
    # Sums and counts per image: a replicate is then a product with the weights of the images.
    columns = [np.bincount(image[half], minlength=n) for half in (small, ~small)]
    for of_model in values:
        for half in (small, ~small):
            columns.append(np.bincount(image[half], weights=of_model[half], minlength=n))
    table = np.stack(columns, axis=1).astype(np.float64)
    gaps = [_gaps(np.ones((1, n)) @ table)]
    for weights in bootstrap(units, REPLICATES, evaluation.protocol.seed):
        gaps.append(_gaps(weights @ table))
    observed, *replicates = gaps
    p = max_t(observed[0], np.concatenate(replicates), units.number, units.freedom)
    signs = []
    for gap, p_of_model in zip(observed[0].tolist(), p.tolist()):
        sign = ""
        if p_of_model < 1.0 - evaluation.protocol.level:
            sign = "worse" if gap > 0 else "better"
        signs.append(sign)
    return signs


def _gaps(sums: F64) -> F64:
    """Return (R, models): the mean of the larger half less that of the smaller; see `_signs`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        of_small = sums[:, 2::2] / sums[:, :1]
        of_large = sums[:, 3::2] / sums[:, 1:2]
        return np.asarray(of_large - of_small)


def measures(evaluation: Evaluation) -> list[tuple[str, Measure]]:
    """Return the metrics on maps with what they measure, in the order of the protocol."""
    measure_of: dict[str, Measure] = {}
    for metric in evaluation.protocol.compile():
        if isinstance(metric, MapMetric):
            measure_of.update(zip(metric.facts.names, metric.measures))
    return [(name, measure_of[name]) for name in evaluation.metrics if name in measure_of]


def level_rows(evaluation: Evaluation) -> list[tuple[str, Measure]]:
    """Return the metrics that are stated at more than one level, grouped by quantity."""
    groups: dict[tuple[object, ...], list[tuple[str, Measure]]] = {}
    for name, measure in measures(evaluation):
        key = (measure.quantity, measure.at, measure.limit)
        groups.setdefault(key, []).append((name, measure))
    order = list(LEVELS)
    rows: list[tuple[str, Measure]] = []
    for group in groups.values():
        if len({measure.level for _, measure in group}) > 1:
            rows += sorted(group, key=lambda row: order.index(row[1].level))
    return rows


def levels(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Forest:
    """Return the same quantity over all voxels, and as the mean of samples and of slices."""
    _check_maps(evaluation)
    metrics = level_rows(evaluation)
    if not metrics:
        raise UsageError(
            "no metric of this protocol is stated at several levels: add one with level = 'sample'"
        )
    names = models_shown(evaluation, models)
    maps = evaluation.cohort.maps[names[0]]
    rows = []
    for metric, measure in metrics:
        estimates = [evaluation.get(metric, model=model) for model in names]
        marks = tuple(Mark(e.value, e.low, e.high, why(e)) for e in estimates)
        number = ""
        if measure.level != "dataset":
            number = f"{round(maps.sums[measure.key][:, 1].sum())}"
        rows.append(ForestRow(f"{measure.quantity}, {LEVELS[measure.level]}", number, marks))
    return Forest(
        _levels_in_words(evaluation, metrics, names),
        Axis("value", 0.0, 1.0),
        names,
        tuple(rows),
        n="values",
        slots=tuple(slot_of(evaluation, model) for model in names),
        note=at_level(evaluation),
    )


def _levels_in_words(
    evaluation: Evaluation, metrics: Sequence[tuple[str, Measure]], models: Sequence[str]
) -> str:
    """Return where the levels differ most."""
    largest, title = -1.0, "The levels have no values"
    quantities = dict.fromkeys(measure.quantity for _, measure in metrics)
    for model in models:
        for quantity in quantities:
            values = _level_values(evaluation, metrics, model, quantity)
            if len(values) < 2:
                continue
            difference = max(values.values()) - min(values.values())
            if difference > largest:
                largest = difference
                text = ", ".join(
                    f"{two_decimals(value)} ({words})" for words, value in values.items()
                )
                name = f"{quantity} of {short_name(model)}"
                title = f"The {name} depends on the level: {text}"
                if difference < 0.005:
                    title = f"The levels hardly differ: {name} is {text}"
    return title


def _level_values(
    evaluation: Evaluation, metrics: Sequence[tuple[str, Measure]], model: str, quantity: str
) -> dict[str, float]:
    """Return level -> value of one quantity, without undefined values."""
    values = {}
    for metric, measure in metrics:
        if measure.quantity == quantity:
            value = evaluation.get(metric, model=model).value
            if not math.isnan(value):
                values[LEVELS[measure.level]] = value
    return values
