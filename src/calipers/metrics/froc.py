# SPDX-License-Identifier: Apache-2.0
"""FROC: sensitivity at a given number of false alarms per image, and the mean over several such
points.

The value at x is the highest sensitivity of an attainable operating point with at most x false
alarms per image; equal scores are one operating point. Option ``rates`` lists the points (default
1/8 ... 8, whose mean is the FROC score of LUNA16 and others). Pooled values rank the predictions of
all classes together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError
from calipers.kernels import curves
from calipers.matches import COUNTED, Matches, View
from calipers.metrics.contract import Facts, MetricPlan
from calipers.metrics.counts import ratio
from calipers.metrics.matched import MatchMetric

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

RATES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


class Froc(MatchMetric):
    """Sensitivity at fixed false-alarm rates."""

    own_options = ("rates",)

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            rates = output.options.get("rates", RATES)
            is_list = isinstance(rates, list | tuple) and len(rates) > 0
            if not is_list or not all(
                isinstance(rate, int | float) and rate >= 0 for rate in rates
            ):
                raise UsageError(
                    f"metric {output.name!r}: rates is a list of false alarms per image, at least "
                    f"0 each, got {rates!r}"
                )
        self.facts = Facts(id="froc@1", names=self.names, per_class=self.per_class, swap=False)

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        columns = []
        for output in self.outputs:
            rates = np.array(output.options.get("rates", RATES), np.float64)
            values = [
                self._view(evidence, view, output.max_dets, weights, rates) for view in output.views
            ]
            columns.append(np.mean(values, axis=0))
        return np.stack(columns, axis=2)

    def _view(self, evidence: Matches, view: View, max_dets: int, weights: I64, rates: F64) -> F64:
        """Return (R, 1 + n_classes): mean sensitivity over the rates; all classes ranked together,
        then each alone.
        """
        index = evidence.index(view)
        positives = evidence.reference_totals(weights)[:, index, COUNTED]
        n_alarms = allowed_alarms(weights.sum(axis=1)[:, None], rates)
        columns = []
        # pooled values rank all classes together, which is not the mean over classes
        for pooled, total in ((True, positives.sum(axis=1, keepdims=True)), (False, positives)):
            problem = evidence.curves([index], weights, max_dets, blocks=True, pooled=pooled)
            hits = curves.hits_at(problem, n_alarms)[:, 0]
            columns.append(ratio(hits.mean(axis=2), total))
        return np.concatenate(columns, axis=1)


def allowed_alarms(n_images: I64, rates: F64) -> F64:
    """Return (R, n): the most false alarms k with ``k / n_images <= rate``; 0.29 x 100 is a little
    less than 29.
    """
    n = np.maximum(n_images, 1)
    most = np.floor(n * rates)
    most = np.where(most / n > rates, most - 1, most)
    return np.where((most + 1) / n <= rates, most + 1, most)
