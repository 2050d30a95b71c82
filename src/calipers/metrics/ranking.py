# SPDX-License-Identifier: Apache-2.0
"""Average precision and average recall.

Average precision per class and threshold, then the mean over thresholds and over the classes that have references
(COCO leaves the others out). Interpolations:

``coco101``
    mean of the interpolated precision at recall 0, .01, ..., 1; equals pycocotools.
``voc11``
    the same at 0, .1, ..., 1 (VOC 2007).
``every-point``
    area under the interpolated curve (VOC 2010 and later).
``tie-aware``
    sum of recall gain x precision over distinct scores, without interpolation; independent of the order of equal
    scores.

``ties = "coco"`` walks through equal scores in input order, ``ties = "block"`` takes them as one operating point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.kernels import curves, matching, ragged
from calipers.matches import Matches, View
from calipers.metrics.contract import Facts, MetricPlan
from calipers.metrics.counts import ratio
from calipers.metrics.matched import MatchMetric, Output, class_mean

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

INTERPOLATIONS = ("coco101", "voc11", "every-point", "tie-aware")
RECALLS = {"coco101": np.linspace(0.0, 1.0, 101), "voc11": np.linspace(0.0, 1.0, 11)}


@dataclass(frozen=True)
class Ranked:
    """The predictions of some matches in the order of a curve: by class, then descending score."""

    order: I64  # (N,) rows of the predictions
    offsets: I64  # (K + 1,) classes
    ends: I64  # (N,) position at which the operating point of each prediction is read off
    weight: I64  # (R, N)

    @classmethod
    def of(cls, evidence: Matches, weights: I64, max_dets: int, ties: str) -> Ranked:
        """Sort once; all views share the order."""
        order = evidence.score_order
        if evidence.rank.max(initial=0) >= max_dets:
            order = order[evidence.rank[order] < max_dets]
        label = evidence.prediction_label[order].astype(np.min_scalar_type(evidence.n_classes))
        order = order[np.argsort(label, kind="stable")]
        offsets = ragged.from_counts(np.bincount(label, minlength=evidence.n_classes))
        ends = np.arange(len(order))
        if ties == "block":
            ends = curves.block_ends(evidence.score[order], offsets)
        return cls(order, offsets, ends, weights[:, evidence.prediction_image[order]])


@dataclass(frozen=True)
class Curve:
    """One view as a curve at its hits; see `calipers.kernels.curves`."""

    offsets: I64
    hits: I64
    every: I64
    weight: I64
    positives: I64

    @classmethod
    def of(cls, evidence: Matches, view: View, ranked: Ranked, positives: I64) -> Curve:
        """Accumulate the weights of hits and of counted predictions."""
        fate = evidence.prediction_fate[evidence.index(view)][ranked.order]
        where = np.flatnonzero(fate == matching.HIT)
        n_classes = len(ranked.offsets) - 1
        owner = np.searchsorted(ranked.offsets, where, side="right") - 1
        offsets = ragged.from_counts(np.bincount(owner, minlength=n_classes))
        ends = ranked.ends[where]
        counted = ranked.weight * (fate != matching.IGNORED)
        total = np.cumsum(counted, axis=1)
        start = ranked.offsets[owner]
        before = np.where(start > 0, total[:, start - 1], 0)
        weight = ranked.weight[:, where]
        running = curves.segment_cumsum(weight, offsets)
        # With blocks, all hits up to the end of the block count at once.
        upto = np.searchsorted(where, ends, side="right") - 1
        return cls(offsets, running[:, upto], total[:, ends] - before, weight, positives)


class AveragePrecision(MatchMetric):
    """The area under the precision-recall curve, in four interpolations."""

    own_options = ("interpolation",)

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            name = output.options.get("interpolation", "coco101")
            if name not in INTERPOLATIONS:
                raise UsageError(
                    f"metric {output.name!r}: no interpolation {name!r}; {did_you_mean(name, INTERPOLATIONS)}"
                )
        kinds = "+".join(dict.fromkeys(o.options.get("interpolation", "coco101") for o in self.outputs))
        self.facts = Facts(id=f"ap.{kinds}@1", names=self.names, swap=False)

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        rankings: dict[tuple[int, str], Ranked] = {}
        known: dict[tuple[View, int, str, str], F64] = {}
        columns = []
        for output in self.outputs:
            interpolation = output.options.get("interpolation", "coco101")
            ties = "block" if interpolation == "tie-aware" else output.options["ties"]
            setting = (output.max_dets, ties)
            if setting not in rankings:
                rankings[setting] = Ranked.of(evidence, weights, *setting)
            values = []
            for view in output.views:
                key = (view, *setting, interpolation)
                if key not in known:
                    positives = weigh_references(evidence, view, weights)
                    curve = Curve.of(evidence, view, rankings[setting], positives)
                    known[key] = average_precision(curve, interpolation)
                values.append(known[key])
            columns.append(np.mean(values, axis=0))
        return class_mean(np.stack(columns, axis=2))

    def precisions(self, evidence: Matches, output: Output, weights: I64) -> F64:
        """Return (R, n_views, n_classes, n_recalls): the array that pycocotools calls ``precision``."""
        ranked = Ranked.of(evidence, weights, output.max_dets, output.options["ties"])
        recalls = RECALLS[output.options.get("interpolation", "coco101")]
        found = []
        for view in output.views:
            curve = Curve.of(evidence, view, ranked, weigh_references(evidence, view, weights))
            found.append(curves.precision_at(curve.hits, curve.every, curve.offsets, curve.positives, recalls))
        return np.stack(found, axis=1)


def average_precision(curve: Curve, interpolation: str) -> F64:
    """Return (R, K); NaN for a class without references."""
    c = curve
    if interpolation in RECALLS:
        found = curves.precision_at(c.hits, c.every, c.offsets, c.positives, RECALLS[interpolation])
        return np.where(c.positives > 0, found.mean(axis=2), np.nan)
    values = curves.precision(c.hits, c.every)
    if interpolation == "every-point":
        values = curves.envelope(values, c.offsets)
    return curves.area(c.weight, values, c.offsets, c.positives)


class AverageRecall(MatchMetric):
    """The largest recall reached with at most ``max_dets`` predictions per image and class, mean over thresholds."""

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.facts = Facts(id="ar.coco@1", names=self.names)

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        columns = []
        for output in self.outputs:
            inside = evidence.rank < output.max_dets
            values = []
            for view in output.views:
                hit = (evidence.prediction_fate[evidence.index(view)] == matching.HIT) & inside
                found = weigh(evidence.prediction_label, evidence.prediction_image, hit, weights, evidence.n_classes)
                positives = weigh_references(evidence, view, weights)
                values.append(ratio(found.astype(np.float64), positives))
            columns.append(np.mean(values, axis=0))
        return class_mean(np.stack(columns, axis=2))


def weigh_references(evidence: Matches, view: View, weights: I64) -> I64:
    """Return (R, K): the weight of the counted references of each class."""
    counted = evidence.reference_fate[evidence.index(view)] != matching.IGNORED
    return weigh(evidence.reference_label, evidence.reference_image, counted, weights, evidence.n_classes)


def weigh(label: NDArray[np.int32], image: I64, chosen: Flags, weights: I64, n_classes: int) -> I64:
    """Return (R, K): the weight of the chosen objects of each class."""
    label, image = label[chosen], image[chosen]
    rows = [np.bincount(label, weights=row[image], minlength=n_classes) for row in weights]
    return np.array(rows).astype(np.int64).reshape(len(weights), n_classes)
