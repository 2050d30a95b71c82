# SPDX-License-Identifier: Apache-2.0
"""Maps in figures: ROC and precision of all voxels, soft IoU against size, and one metric at
several levels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.estimation import units_for
from calipers.evaluation import Evaluation
from calipers.metrics.measures import Measure
from calipers.metrics.voxel_points import SensitivityCurve, VoxelCurve, VoxelPrecisionCurve
from calipers.metrics.voxels import MapMetric
from calipers.plots.curves import CurvePoints, finding, points, precision_finding, reach, slot_of
from calipers.plots.figures import Axis, Curves, Dots, Forest, ForestRow, Mark, Scatter
from calipers.plots.words import at_level, short_name, why
from calipers.statistics.intervals import FEWEST_UNITS
from calipers.statistics.weights import bootstrap, plural
from calipers.tables import Cohort

F64 = NDArray[np.float64]

RATES = tuple(
    10.0 ** (k / 8) for k in range(-32, 1)
)  # of false voxels; exact at 0.0001, 0.001, ..., 1
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
ON_BOUND = "Where a curve is exactly 1 or 0, its band is that of the share of {} without error, which is wide."


def voxel_roc(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Curves:
    """Return the share of reference voxels that are called against that of all other voxels."""
    models_shown, curves = _points(evaluation, models, SensitivityCurve(RATES))
    at = int(np.abs(np.array(RATES) - RARE).argmin())
    shares = {model: curves.of_model[model][at].value for model in models_shown}
    marks = tuple(int(np.abs(np.array(RATES) - rate).argmin()) for rate in SHOWN_RATES)
    return Curves(
        finding(shares, "At one false voxel in 1,000", "of the reference voxels"),
        Axis(
            "false positive rate: share of other voxels called",
            RATES[0],
            1.0,
            log=True,
            ticks=SHOWN_RATES,
        ),
        Axis("share of reference voxels called", 0.0, 1.0),
        tuple(
            curves.line(model, slot_of(evaluation, model), marks=marks) for model in models_shown
        ),
        levels=SHOWN_RATES,
        note=_note(evaluation, curves),
    )


def voxel_precision(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Curves:
    """Return the precision of all voxels against recall; the mean over the reference voxels is
    AP/dataset.
    """
    models_shown, curves = _points(evaluation, models, VoxelPrecisionCurve(RECALLS))
    return Curves(
        precision_finding(
            {model: reach(RECALLS, curves.of_model[model]) for model in models_shown}
        ),
        Axis("recall of reference voxels", 0.0, 1.0),
        Axis("precision of called voxels", 0.0, 1.0),
        tuple(curves.line(model, slot_of(evaluation, model)) for model in models_shown),
        levels=tuple(k / 10 for k in range(1, 11)),
        note=_note(evaluation, curves),
    )


def _points(
    evaluation: Evaluation, models: Sequence[str] | None, curve: VoxelCurve
) -> tuple[tuple[str, ...], CurvePoints]:
    _check_maps(evaluation)
    names = evaluation.models if models is None else tuple(models)
    models_shown = tuple(
        model for model in names if model in evaluation.cohort.maps
    )  # others may have objects only
    cases = {model: (curve, evaluation.cohort.maps[model]) for model in models_shown}
    return models_shown, points(evaluation, curve.places.tolist(), cases)


def _check_maps(evaluation: Evaluation) -> None:
    if not evaluation.cohort.maps:
        raise UsageError("this figure needs maps: use evaluate_maps or calipers maps")


def _note(evaluation: Evaluation, curves: CurvePoints) -> str:
    every = [estimate for line in curves.of_model.values() for estimate in line]
    wide = any(e.value in (0.0, 1.0) and e.high - e.low > 0 for e in every)
    unit = plural(evaluation.statistics["unit"])
    sentences = (
        at_level(evaluation),
        ON_BOUND.format(unit) if wide else "",
        _voxel_counts(evaluation),
    )
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
    """Return the soft IoU of every reference, under the first of the protocol's variants; None if
    there is none.
    """
    cohort = evaluation.cohort
    for plan in evaluation.protocol.metrics:
        if plan.kind == "soft-instance-iou":
            key = Measure.of("softIoU", plan).key
            names = {
                model: key if len(cohort.models) == 1 else f"{key} of {model}"
                for model in cohort.models
            }
            if all(name in cohort.references.facts for name in names.values()):
                values = {
                    model: np.asarray(cohort.references.facts[name], np.float64)
                    for model, name in names.items()
                }
                return Softness(plan.name, values, *sizes_of(cohort))
    return None


def sizes_of(cohort: Cohort) -> tuple[F64, str]:
    """Return the size of every reference and its unit: millimetres where the spacing of all their
    images is known.
    """
    references = cohort.references
    voxels = (
        references.area if references.masks is None else references.masks.voxels.astype(np.float64)
    )
    one = np.prod(cohort.images.spacing, axis=1)[references.image]
    if len(one) and np.isfinite(one).all():
        return voxels * one, "mm³" if cohort.dimensions == 3 else "mm²"
    return voxels, "voxels" if cohort.dimensions == 3 else "pixels"


def soft_sizes(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Scatter:
    """Return the soft IoU of every reference against its size."""
    _check_maps(evaluation)
    soft = softness(evaluation)
    if soft is None or not len(soft.size):
        raise UsageError(
            "this figure needs references and a soft IoU: add a metric of the kind soft-instance-iou"
        )
    models_shown = evaluation.models if models is None else tuple(models)
    ids, image = evaluation.cohort.images.ids, evaluation.cohort.references.image
    names = tuple(short_name(ids[k]) for k in image.tolist())
    dots = tuple(
        Dots(m, soft.size, soft.of_model[m], names=names, slot=slot_of(evaluation, m), quiet=True)
        for m in models_shown
    )
    what = "volume" if evaluation.cohort.dimensions == 3 else "area"
    return Scatter(
        _sizes_in_words(evaluation, soft, models_shown),
        Axis(f"{what} of the reference ({soft.unit})", log=True),
        Axis(f"{soft.metric} of the reference", 0.0),
        dots,
        note=f"{len(soft.size)} references, each once per model. Halves are split at the median size.",
    )


def _sizes_in_words(evaluation: Evaluation, soft: Softness, models: Sequence[str]) -> str:
    """Return whether small objects are localised worse: for models of which more than chance says
    so.
    """
    small = soft.size <= np.median(soft.size)
    what = (
        plural(evaluation.cohort.classes[0])
        if len(evaluation.cohort.classes) == 1
        else "references"
    )
    if small.all():
        return f"All {what} have one size"
    clauses: dict[str, list[str]] = {}
    for model in models[:3]:
        values = soft.of_model[model]
        sign = _sign(evaluation, values, small)
        halves = (
            f"{short_name(model)} {values[small].mean():.2g} against {values[~small].mean():.2g}"
        )
        clauses.setdefault(sign, []).append(halves)
    words = {
        "worse": f"Small {what} are localised worse (mean {soft.metric} of the smaller half against the larger)",
        "better": f"Small {what} are localised better (mean {soft.metric} of the smaller half against the larger)",
        "": f"No effect of size is shown (mean {soft.metric} of the smaller half against the larger)",
    }
    return "; ".join(
        f"{words[sign]}: {', '.join(clauses[sign])}" for sign in words if sign in clauses
    )


def _sign(evaluation: Evaluation, values: F64, small: NDArray[np.bool_]) -> str:
    """Return whether 95 % of bootstrap replicates over the units agree on which half is better; ""
    if they do not.
    """
    units = units_for(evaluation.cohort, evaluation.protocol)
    if units.number < FEWEST_UNITS:
        return ""
    image, n = evaluation.cohort.references.image, evaluation.cohort.n_images
    sums = [
        np.bincount(image[half], weights=weight[half], minlength=n)
        for half in (small, ~small)
        for weight in (values, np.ones(len(values)))
    ]
    gaps = []
    for weights in bootstrap(units, REPLICATES, evaluation.protocol.seed):
        with np.errstate(invalid="ignore", divide="ignore"):
            of_small, n_small, of_large, n_large = (weights @ column for column in sums)
            gaps.append(of_large / n_large - of_small / n_small)
    low, high = np.nanquantile(np.concatenate(gaps), (0.025, 0.975))
    return "worse" if low > 0 else "better" if high < 0 else ""


def measures(evaluation: Evaluation) -> list[tuple[str, Measure]]:
    """Return the metrics on maps with what they measure, in the order of the protocol."""
    kinds = [metric for metric in evaluation.protocol.compile() if isinstance(metric, MapMetric)]
    measure_of = {
        name: measure
        for metric in kinds
        for name, measure in zip(metric.facts.names, metric.measures)
    }
    return [(name, measure_of[name]) for name in evaluation.metrics if name in measure_of]


def level_rows(evaluation: Evaluation) -> list[tuple[str, Measure]]:
    """Return the metrics that are stated at more than one level, those of one quantity together."""
    alike: dict[tuple[object, ...], list[tuple[str, Measure]]] = {}
    for name, measure in measures(evaluation):
        alike.setdefault((measure.quantity, measure.at, measure.limit), []).append((name, measure))
    order = list(LEVELS)
    return [
        entry
        for group in alike.values()
        if len({measure.level for _, measure in group}) > 1
        for entry in sorted(group, key=lambda item: order.index(item[1].level))
    ]


def levels(evaluation: Evaluation, *, models: Sequence[str] | None = None) -> Forest:
    """Return the same quantity over all voxels, and as the mean of samples and of slices."""
    _check_maps(evaluation)
    metrics = level_rows(evaluation)
    if not metrics:
        raise UsageError(
            "no metric of this protocol is stated at several levels: add one with level = 'sample'"
        )
    models_shown = evaluation.models if models is None else tuple(models)
    maps = evaluation.cohort.maps[models_shown[0]]
    rows = []
    for name, measure in metrics:
        estimates = [evaluation.get(name, model=model) for model in models_shown]
        marks = tuple(Mark(e.value, e.low, e.high, why(e)) for e in estimates)
        number = (
            "" if measure.level == "dataset" else f"{round(maps.sums[measure.key][:, 1].sum())}"
        )
        rows.append(ForestRow(f"{measure.quantity}, {LEVELS[measure.level]}", number, marks))
    return Forest(
        _levels_in_words(evaluation, metrics, models_shown),
        Axis("value", 0.0, 1.0),
        models_shown,
        tuple(rows),
        n="values",
        slots=tuple(slot_of(evaluation, model) for model in models_shown),
        note=at_level(evaluation),
    )


def _levels_in_words(
    evaluation: Evaluation, metrics: Sequence[tuple[str, Measure]], models: Sequence[str]
) -> str:
    """Return where the levels differ most."""
    best: tuple[float, str] = (-1.0, "The levels have no values")
    for model in models:
        for quantity in dict.fromkeys(measure.quantity for _, measure in metrics):
            values = {
                LEVELS[measure.level]: evaluation.get(name, model=model).value
                for name, measure in metrics
                if measure.quantity == quantity
            }
            defined = {words: value for words, value in values.items() if not math.isnan(value)}
            if len(defined) > 1:
                difference = max(defined.values()) - min(defined.values())
                text = ", ".join(f"{value:.2f} ({words})" for words, value in defined.items())
                if difference > best[0]:
                    best = (
                        difference,
                        f"The {quantity} of {short_name(model)} depends on the level: {text}",
                    )
                    if difference < 0.005:
                        best = (
                            difference,
                            f"The levels hardly differ: {quantity} of {short_name(model)} is {text}",
                        )
    return best[1]
