# SPDX-License-Identifier: Apache-2.0
"""Whole curves as families of numbers: a point of a curve is a metric like any other, and gets its
interval likewise.

They are drawn, not listed in protocols. The mean of `PrecisionCurve` over 101 recalls is the
average precision (``coco101``); a point of `FrocCurve` is the FROC at that rate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calipers.kernels import curves
from calipers.matches import COUNTED, Matches, View
from calipers.metrics.contract import Facts, MetricPlan
from calipers.metrics.counts import ratio
from calipers.metrics.froc import Froc, allowed_alarms
from calipers.metrics.matched import MatchMetric, class_mean

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


class FrocCurve(Froc):
    """Sensitivity at many rates of false alarms, all classes ranked together."""

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.rates = np.array([output.options["rates"][0] for output in self.outputs], np.float64)
        self.facts = Facts(id="froc@1", names=self.names, per_class=False, swap=False)

    @classmethod
    def of(cls, view: View, rates: Sequence[float]) -> FrocCurve:
        """Return the curve of a view at some rates."""
        return cls([plan_of(view, f"FROC@{rate:g}", rates=(rate,)) for rate in rates])

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1, n_rates)."""
        output = self.outputs[0]
        index = evidence.index(output.views[0])
        positives = evidence.reference_totals(weights)[:, index, COUNTED].sum(axis=1)[:, None, None]
        problem = evidence.curves([index], weights, output.max_dets, blocks=True, pooled=True)
        hits = curves.hits_at(problem, allowed_alarms(weights.sum(axis=1)[:, None], self.rates))[
            :, 0
        ]
        return ratio(hits.astype(np.float64), np.broadcast_to(positives, hits.shape))


class PrecisionCurve(MatchMetric):
    """Interpolated precision at many recalls, mean over the classes that have references."""

    own_options = ("recall",)

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.recalls = np.array([output.options["recall"] for output in self.outputs], np.float64)
        self.facts = Facts(id="precision@1", names=self.names, per_class=False, swap=False)

    @classmethod
    def of(cls, view: View, recalls: Sequence[float], ties: str = "block") -> PrecisionCurve:
        """Return the curve of a view at some recalls."""
        return cls(
            [plan_of(view, f"precision@{recall:g}", recall=recall, ties=ties) for recall in recalls]
        )

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1, n_recalls)."""
        output = self.outputs[0]
        index = evidence.index(output.views[0])
        problem = evidence.curves(
            [index], weights, output.max_dets, blocks=output.options["ties"] == "block"
        )
        positives = evidence.reference_totals(weights)[:, index, COUNTED]
        precisions = curves.precisions(problem, curves.needed_hits(positives, self.recalls))
        return class_mean(np.where(positives[:, :, None] > 0, precisions, np.nan))[:, :1]


def plan_of(view: View, name: str, **options: object) -> MetricPlan:
    """Return the plan of one number that looks at matches through ``view``."""
    matching = {
        "criterion": view.criterion,
        "assignment": view.assignment,
        "thresholds": (view.threshold,),
        "size": view.size,
        "max_dets": view.max_dets,
        "match_dets": view.max_dets,
        "classes": "within" if view.within_class else "ignore",
        "strict": view.strict,
        "score_cut": view.score_cut,
        "duplicates": view.duplicates,
        "ties": "block",
    }
    return MetricPlan(name, "curve", {**matching, **options})
