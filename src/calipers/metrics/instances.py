# SPDX-License-Identifier: Apache-2.0
"""Metrics of instances: F1 per sample, overlap and distance of matched pairs, panoptic quality.

``instance-f1``
    F1 of the objects of every image, then the mean over images; an image without objects counts 1,
    one with objects on one side only 0. So it rises when normal images without a false alarm are
    added, which the F1 of all objects (``average = "pooled"``) does not. Undefined without images
    (pooled: without objects).
``instance-iou``
    mean or median (``summary``) over the references of the similarity to their partner, 0 if
    missed; option ``over = "hits"``: over the found ones only. Undefined without references
    (without hits).
``centre-distance``
    mean or median (``summary``) of the distance of the hits from their partner. Undefined without
    hits.
``panoptic-quality``
    how many objects were found, and how well the found ones fit. With TP hits, FP false alarms and
    duplicates, FN missed references, and s the similarity of a hit to its reference, by ``part``:
    recognition quality ``RQ = TP / (TP + FP/2 + FN/2)``, which is F1; segmentation quality ``SQ =
    mean of s over the hits``; panoptic quality ``PQ = SQ x RQ = (sum of s) / (TP + FP/2 + FN/2)``.
    Pooled values add the sums of all classes; ``average = "classes"`` takes the unweighted mean
    over the classes that have a value. Without any object all three are undefined. Without a hit RQ
    and PQ are 0 and SQ is undefined.

A median under weights is that of the values repeated as often as their image weighs. The evidence
is `Matches`.

References
----------
Kirillov et al., Panoptic Segmentation, CVPR 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64
from calipers.kernels.assignment import IGNORED
from calipers.kernels.resampling import SumTable
from calipers.matching.matches import Matches, View
from calipers.metrics.base import (
    REVISITING,
    SUMMARIES,
    Facts,
    MatchMetric,
    MetricPlan,
    Output,
    PairedMetric,
    Sides,
    check_choice,
    class_mean,
    median_tables,
    medians,
    with_pooled,
)
from calipers.metrics.counts import FN, FP, TP, count_table, ratio, unit_counts

AVERAGES = ("sample", "pooled")
OVER = ("references", "hits")
OBJECTS: Sides = ("references", "predictions")
HITS: Sides = ("hits",)

PARTS = ("PQ", "SQ", "RQ")
PANOPTIC_AVERAGES = ("pooled", "classes")


class InstanceF1(MatchMetric):
    """2 TP / (2 TP + FP + FN) of every image, averaged over images; or of all images together."""

    own_options = ("average",)
    facts = Facts(
        id="instance-f1@1",
        short={"F1/image": {}},
        trials="images",
        word="F1 per image",
        meaning=(
            "F1 of the objects of each image, averaged over images; an image without references "
            "and predictions counts 1, so normal images without a false alarm raise it. Pooled: F1 "
            "of all objects."
        ),
        citations=(REVISITING,),
        page="explanation/instances.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            check_choice(output, "average", AVERAGES)
        ids = tuple(f"instance-f1.{_average(output)}@1" for output in self.outputs)
        self.facts = replace(self.facts, ids=ids)

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names); several thresholds are averaged."""
        columns = []
        for output in self.outputs:
            of_view = _f1_of_samples if _average(output) == "sample" else _f1_of_all
            columns.append(
                np.mean(
                    [of_view(evidence, v, output.max_dets, weights) for v in output.views], axis=0
                )
            )
        return np.stack(columns, axis=2)

    def sides(self, output: Output) -> tuple[Sides, Sides, Sides]:
        """Return whose units are needed, tried and judged: per sample every unit has a value."""
        return ((), (), OBJECTS) if _average(output) == "sample" else (OBJECTS, OBJECTS, OBJECTS)

    def undefined(self, table: I64) -> NDArray[np.bool_]:
        """Return where there is no image, or pooled no object."""
        # Per sample an empty image counts 1, so only a cohort without images has no value.
        pooled = np.array([_average(output) == "pooled" for output in self.outputs])
        return np.asarray((table[:, :, 0] == 0) | (pooled & (table[:, :, 1:] == 0).all(axis=2)))

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry."""
        return "no_objects"


class InstanceIou(PairedMetric):
    """The similarity that references reach, 0 if missed; or that of the hits."""

    own_options = ("over", "summary")
    facts = Facts(
        id="instance-iou@1",
        short={"IoU/instance": {}},
        word="instance IoU",
        meaning=(
            "The overlap that references reach with their prediction, 0 for missed ones; or of the "
            "hits only."
        ),
        page="explanation/instances.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            check_choice(output, "over", OVER)
        # The id says what is averaged: a change of options is another number.
        parts = [f"instance-iou.{_over(output)}" for output in self.outputs]
        self.facts = _with_summaries(self, parts)

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        columns = []
        for output in self.outputs:
            over_hits = _over(output) == "hits"
            if _summary(output) == "mean":
                counts = count_table(
                    evidence, output.views[0], output.max_dets, weights, negatives=False
                )
                # Missed references add 0 to the sum and 1 to the number.
                number = counts[..., TP] if over_hits else counts[..., TP] + counts[..., FN]
                columns.append(
                    ratio(with_pooled(self.sums(evidence, output, weights)), with_pooled(number))
                )
            elif over_hits:
                columns.append(self.hit_medians(evidence, output, weights))
            else:
                columns.append(self._reference_medians(evidence, output, weights))
        return np.stack(columns, axis=2)

    def _reference_medians(self, evidence: Matches, output: Output, weights: I64) -> F64:
        key = ("medians of references", output.max_dets)
        if key not in evidence.kept:
            rows, reached = self.hits(evidence, output), np.zeros(len(evidence.reference_label))
            # Median over references: those that nobody found stay at 0.
            reached[evidence.partner[rows]] = self.measure(evidence)[rows]
            rows_of_references = np.flatnonzero(evidence.reference_fate[0] != IGNORED)
            image, label = (
                evidence.reference_image[rows_of_references],
                evidence.reference_label[rows_of_references],
            )
            evidence.kept[key] = median_tables(
                reached[rows_of_references], image, label, evidence.n_classes
            )
        return medians(evidence.kept[key], weights)

    def sides(self, output: Output) -> tuple[Sides, Sides, Sides]:
        """Return whose units are needed, tried and judged."""
        if _over(output) == "hits":
            return HITS, HITS, HITS
        return ("references",), ("references",), ("references", "hits")

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry."""
        return super().reason(n_references, n_predictions) if n_references else "no_references"


class CentreDistance(PairedMetric):
    """The distance of matched pairs, in the unit of the criterion. Lower is better."""

    own_options = ("summary",)
    needed = tried = judged = HITS
    distance = True
    facts = Facts(
        id="centre-distance@1",
        bounds=(0.0, float("inf")),
        higher_is_better=False,
        meaning="How far the hits are from the centre of their reference.",
        page="explanation/instances.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.facts = _with_summaries(self, ["centre-distance"] * len(self.outputs))

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        columns = []
        for output in self.outputs:
            if _summary(output) == "median":
                columns.append(self.hit_medians(evidence, output, weights))
                continue
            number = count_table(
                evidence, output.views[0], output.max_dets, weights, negatives=False
            )[..., TP]
            columns.append(
                ratio(with_pooled(self.sums(evidence, output, weights)), with_pooled(number))
            )
        return np.stack(columns, axis=2)


class PanopticQuality(PairedMetric):
    """PQ, SQ or RQ, by the option ``part``."""

    own_options = ("part", "average")
    facts = Facts(
        id="panoptic-quality@1",
        short={"PQ": {}, "SQ": {"part": "SQ"}, "RQ": {"part": "RQ"}},
        meaning=(
            "Recognition quality (RQ) is F1, segmentation quality (SQ) is the mean overlap of the "
            "hits, and panoptic quality (PQ) is their product."
        ),
        citations=("Kirillov A, et al. Panoptic segmentation. CVPR 2019, 9404-9413.",),
        page="explanation/instances.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            check_choice(output, "part", PARTS)
            check_choice(output, "average", PANOPTIC_AVERAGES)
        self.facts = replace(
            self.facts,
            ids=tuple(f"panoptic-quality.{_part(output).lower()}@1" for output in self.outputs),
            class_means=frozenset(output.name for output in self.outputs if _over_classes(output)),
        )

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        columns = []
        for output in self.outputs:
            counts = count_table(
                evidence, output.views[0], output.max_dets, weights, negatives=False
            )
            sums = self.sums(evidence, output, weights)
            # Per class first; pooled is the quality of the sums, not the mean of qualities.
            classes = quality(_part(output), counts, sums)
            if _over_classes(output):
                columns.append(class_mean(classes[:, :, None])[:, :, 0])
            else:
                pooled = quality(
                    _part(output),
                    counts.sum(axis=1, keepdims=True),
                    sums.sum(axis=1, keepdims=True),
                )
                columns.append(np.concatenate([pooled, classes], axis=1))
        return np.stack(columns, axis=2)

    def sides(self, output: Output) -> tuple[Sides, Sides, Sides]:
        """Return whose units are needed, tried and judged: SQ looks at hits only, RQ at fates only,
        PQ at both.
        """
        if _part(output) == "SQ":
            return ("hits",), ("hits",), ("hits",)
        return OBJECTS, OBJECTS, (*OBJECTS, "hits") if _part(output) == "PQ" else OBJECTS


def _f1_of_samples(evidence: Matches, view: View, max_dets: int, weights: I64) -> F64:
    """Return (R, 1 + n_classes): the weighted mean over images."""
    key = ("what samples lack to an F1 of 1", view, max_dets)
    if key not in evidence.kept:
        n = evidence.n_images
        counts = unit_counts(evidence, view, max_dets, np.arange(n), n)
        # Only what is missing to 1 is stored: perfect images and images without objects need none.
        lacking = 1.0 - f1(np.concatenate([counts.sum(axis=1, keepdims=True), counts], axis=1))
        image, column = np.nonzero(lacking > 0)  # NaN, without objects, lacks nothing
        evidence.kept[key] = SumTable.of(
            lacking[image, column], image, column, 1 + evidence.n_classes
        )
    table: SumTable = evidence.kept[key]
    sums, number = table.sums(weights), weights.sum(axis=1, dtype=np.float64)[:, None]
    return 1.0 - ratio(sums, np.broadcast_to(number, sums.shape))


def _f1_of_all(evidence: Matches, view: View, max_dets: int, weights: I64) -> F64:
    """Return (R, 1 + n_classes): F1 of the objects of all images."""
    counts = count_table(evidence, view, max_dets, weights, negatives=False)
    return f1(np.concatenate([counts.sum(axis=1, keepdims=True), counts], axis=1))


def f1(counts: F64) -> F64:
    """Return 2 TP / (2 TP + FP + FN) of counts (..., 4 or more); NaN without objects."""
    hits = 2.0 * counts[..., TP]
    return ratio(hits, hits + counts[..., FP] + counts[..., FN])


def quality(part: str, counts: F64, sums: F64) -> F64:
    """Return the values (...) of counts (..., 4) and sums of similarities (...); NaN where
    undefined.
    """
    hits = counts[..., TP]
    if part == "SQ":
        return ratio(sums, hits)
    # Kirillov et al. 2019, equation 1: PQ = SQ x RQ, so that the number of hits cancels
    everything = hits + 0.5 * (counts[..., FP] + counts[..., FN])
    return ratio(sums if part == "PQ" else hits, everything)


def _with_summaries(metric: PairedMetric, parts: Sequence[str]) -> Facts:
    """Return the facts with an id for every mean or median; a median moves in steps."""
    for output in metric.outputs:
        check_choice(output, "summary", SUMMARIES)
    ids = []
    for part, output in zip(parts, metric.outputs):
        ids.append(f"{part}.{_summary(output)}@1")
    rough = [output.name for output in metric.outputs if _summary(output) == "median"]
    return replace(metric.facts, ids=tuple(ids), rough=frozenset(rough))


def _average(output: Output) -> str:
    return str(output.options.get("average", "sample"))


def _over(output: Output) -> str:
    return str(output.options.get("over", "references"))


def _summary(output: Output) -> str:
    return str(output.options.get("summary", "mean"))


def _part(output: Output) -> str:
    return str(output.options.get("part", "PQ"))


def _over_classes(output: Output) -> bool:
    return bool(output.options.get("average", "pooled") == "classes")
