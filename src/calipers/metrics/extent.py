# SPDX-License-Identifier: Apache-2.0
"""Panoptic quality: how many objects were found, and how well the found ones fit.

With TP hits, FP false alarms and duplicates, FN missed references, and s the similarity of a hit to
its reference:

- recognition quality ``RQ = TP / (TP + FP/2 + FN/2)``, which is F1,
- segmentation quality ``SQ = mean of s over the hits``,
- panoptic quality ``PQ = SQ x RQ = (sum of s) / (TP + FP/2 + FN/2)``.

Pooled values add the sums of all classes; ``average = "classes"`` takes the unweighted mean over
the classes that have a value. Without any object all three are undefined. Without a hit RQ and PQ
are 0 and SQ is undefined.

References
----------
Kirillov et al., Panoptic Segmentation, CVPR 2019.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calipers.matches import Matches
from calipers.metrics.contract import Facts, MetricPlan
from calipers.metrics.counts import FN, FP, TP, count_table, ratio
from calipers.metrics.matched import Output, Sides, class_mean
from calipers.metrics.paired import PairedMetric, check_choice

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

PARTS = ("PQ", "SQ", "RQ")
AVERAGES = ("pooled", "classes")
OBJECTS: Sides = ("references", "predictions")


class PanopticQuality(PairedMetric):
    """PQ, SQ or RQ, by the option ``part``."""

    own_options = ("part", "average")

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            check_choice(output, "part", PARTS)
            check_choice(output, "average", AVERAGES)
        self.facts = Facts(
            id="panoptic-quality@1",
            names=self.names,
            ids=tuple(f"panoptic-quality.{_part(output).lower()}@1" for output in self.outputs),
            per_class=self.per_class,
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


def _part(output: Output) -> str:
    return str(output.options.get("part", "PQ"))


def _over_classes(output: Output) -> bool:
    return bool(output.options.get("average", "pooled") == "classes")
