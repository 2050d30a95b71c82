# SPDX-License-Identifier: Apache-2.0
"""Average precision and average recall.

Average precision per class and threshold, then the mean over thresholds and over the classes that
have references (COCO leaves the others out). Interpolations:

``coco101``
    mean of the interpolated precision at recall 0, .01, ..., 1; equals pycocotools.
``voc11``
    the same at 0, .1, ..., 1 (VOC 2007).
``every-point``
    area under the interpolated curve (VOC 2010 and later).
``tie-aware``
    sum of recall gain x precision over distinct scores, without interpolation; independent of the
    order of equal scores.

``ties = "coco"`` walks through equal scores in input order, ``ties = "block"`` takes them as one
operating point.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.kernels import curves
from calipers.matches import COUNTED, HITS, Matches
from calipers.metrics.contract import Facts, MetricPlan
from calipers.metrics.counts import ratio
from calipers.metrics.matched import MatchMetric, Output, class_mean

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Setting = tuple[int, str, str]  # max_dets, ties, interpolation

INTERPOLATIONS = ("coco101", "voc11", "every-point", "tie-aware")
RECALLS = {"coco101": np.linspace(0.0, 1.0, 101), "voc11": np.linspace(0.0, 1.0, 11)}


class AveragePrecision(MatchMetric):
    """The area under the precision-recall curve, in four interpolations."""

    own_options = ("interpolation",)

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            name = output.options.get("interpolation", "coco101")
            if name not in INTERPOLATIONS:
                hint = did_you_mean(name, INTERPOLATIONS)
                raise UsageError(f"metric {output.name!r}: no interpolation {name!r}; {hint}")
        interpolations = [_setting(output)[2] for output in self.outputs]
        self.facts = Facts(
            id="ap@1",
            names=self.names,
            ids=tuple(f"ap.{interpolation}@1" for interpolation in interpolations),
            per_class=self.per_class,
            swap=False,
            class_means=frozenset(self.names),
            rough=frozenset(
                name for name, kind in zip(self.names, interpolations) if kind in RECALLS
            ),
        )

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        # Views that share a setting are computed in one go, each once for all outputs.
        views_of: dict[Setting, dict[int, None]] = {}
        requests = [(_setting(output), evidence.indices(output.views)) for output in self.outputs]
        for setting, views in requests:
            views_of.setdefault(setting, {}).update(dict.fromkeys(views))
        tables = {}
        for setting, distinct in views_of.items():
            values = _average_precisions(evidence, weights, list(distinct), setting)
            for k, view in enumerate(distinct):
                tables[setting, view] = values[:, k]
        columns = []
        for setting, views in requests:
            columns.append(np.mean([tables[setting, view] for view in views], axis=0))
        return class_mean(np.stack(columns, axis=2))

    def precisions(self, evidence: Matches, output: Output, weights: I64) -> F64:
        """Return (R, n_views, n_classes, n_recalls): the array that pycocotools calls
        ``precision``.
        """
        max_dets, ties, interpolation = _setting(output)
        problem = evidence.curves(
            evidence.indices(output.views), weights, max_dets, blocks=ties == "block"
        )
        weight = problem.ordered_weights()
        positives = evidence.reference_totals(weights)[:, :, COUNTED]
        precisions = []
        for view in problem.views:
            fates = problem.table.fates[view][problem.ranked.order]
            curve = curves.curve(fates, problem.ranked, weight)
            needed = curves.needed_hits(positives[:, view], RECALLS[interpolation])
            precisions.append(curves.precision_at(curve, needed))
        return np.stack(precisions, axis=1)


def _setting(output: Output) -> Setting:
    interpolation = output.options.get("interpolation", "coco101")
    return (
        output.max_dets,
        "block" if interpolation == "tie-aware" else output.options["ties"],
        interpolation,
    )


def _average_precisions(evidence: Matches, weights: I64, views: list[int], setting: Setting) -> F64:
    """Return (R, n_views, K) of views that share how predictions are ranked and averaged."""
    max_dets, ties, interpolation = setting
    problem = evidence.curves(views, weights, max_dets, blocks=ties == "block")
    positives = evidence.reference_totals(weights)[:, problem.views, COUNTED]
    enveloped = interpolation != "tie-aware"
    return curves.average_precision(
        problem, positives, RECALLS.get(interpolation), enveloped=enveloped
    )


class AverageRecall(MatchMetric):
    """The largest recall reached with at most ``max_dets`` predictions per image and class, mean
    over thresholds.
    """

    tried = judged = ("references",)

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.facts = Facts(
            id="ar.coco@1",
            names=self.names,
            per_class=self.per_class,
            class_means=frozenset(self.names),
        )

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        positives = evidence.reference_totals(weights)[:, :, COUNTED]
        columns = []
        for output in self.outputs:
            index = evidence.indices(output.views)
            hits = evidence.prediction_totals(weights, output.max_dets, only_hits=True)[
                :, index, HITS
            ]
            columns.append(ratio(hits.astype(np.float64), positives[:, index]).mean(axis=1))
        return class_mean(np.stack(columns, axis=2))
