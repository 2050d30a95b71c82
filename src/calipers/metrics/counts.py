# SPDX-License-Identifier: Apache-2.0
"""Counts at a threshold and the metrics that are formulas of them: sensitivity, PPV and others.

With TP hits, FP false alarms and duplicates, FN missed references of a class, TN images where the
class is neither referenced nor predicted:

- ``sensitivity`` TP / (TP + FN), ``ppv`` TP / (TP + FP),
- ``f-beta`` (1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP),
- ``accuracy`` (TP + TN) / (TP + TN + FP + FN), ``false-alarms`` FP / images,
- ``count`` one of the four.

Pooled values add the counts of all classes, ``average = "classes"`` takes the unweighted mean over
the classes that have a value. The evidence is `Matches`; `count_table` counts under weights and
`unit_counts` unit by unit, for other metrics too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calipers.arrays import F64, I64
from calipers.errors import UsageError
from calipers.kernels import assignment
from calipers.matching.matches import COUNTED, HITS, Matches, View
from calipers.metrics.base import Facts, MatchMetric, MetricPlan, check_number, class_mean

# Images x classes whose flags are in memory together.
CELLS_AT_ONCE = 2_000_000
TP, FP, FN, TN, IMAGES = range(5)


def count_table(
    evidence: Matches, view: View, max_dets: int, weights: I64, *, negatives: bool
) -> F64:
    """Return (R, n_classes, 4): weighted TP, FP, FN and, with ``negatives``, TN of a view (else
    0).
    """
    k = evidence.index(view)
    references, predictions = (table[:, k] for table in evidence.totals(weights, max_dets))
    hits = predictions[:, HITS]
    # Hits are counted on the side of predictions: a limit of predictions turns the others into
    # misses.
    alarms, missed = predictions[:, COUNTED] - hits, references[:, COUNTED] - hits
    silent = true_negatives(evidence, k, max_dets, weights) if negatives else np.zeros_like(hits)
    return np.stack([hits, alarms, missed, silent], axis=2).astype(np.float64)


def unit_counts(evidence: Matches, view: View, max_dets: int, unit: I64, n_units: int) -> F64:
    """Return (n_units, n_classes, 5): TP, FP, FN of every unit; TN and images are left at 0."""
    k, n_classes = evidence.index(view), evidence.n_classes
    table = np.zeros((n_units, n_classes, 5))
    prediction = unit[evidence.prediction_image] * n_classes + evidence.prediction_label
    reference = unit[evidence.reference_image] * n_classes + evidence.reference_label
    fate, within = evidence.prediction_fate[k], evidence.rank < max_dets
    for entry, cells in (
        (TP, prediction[(fate == assignment.HIT) & within]),
        (FP, prediction[(fate > assignment.HIT) & within]),
        (FN, reference[evidence.reference_fate[k] != assignment.IGNORED]),
    ):
        table[:, :, entry] = np.bincount(cells, minlength=n_units * n_classes).reshape(
            n_units, n_classes
        )
    table[:, :, FN] -= table[:, :, TP]  # so far it has all counted references
    return table


def true_negatives(evidence: Matches, view: int, max_dets: int, weights: I64) -> I64:
    """Return (R, n_classes): the weight of the images on which a class is neither referenced nor
    predicted.

    Sums of whole numbers below 2^53 are exact in float64 in any order, so the product gives the
    same bits everywhere.
    """
    n_classes = evidence.n_classes
    predictions = (evidence.prediction_fate[view] != assignment.IGNORED) & (
        evidence.rank < max_dets
    )
    references = evidence.reference_fate[view] != assignment.IGNORED
    keys = np.concatenate(
        [
            evidence.prediction_image[predictions] * n_classes
            + evidence.prediction_label[predictions],
            evidence.reference_image[references] * n_classes + evidence.reference_label[references],
        ]
    )
    total = np.zeros((len(weights), n_classes))
    step = max(1, CELLS_AT_ONCE // n_classes)
    for start in range(0, evidence.n_images, step):
        stop = min(start + step, evidence.n_images)
        absent = np.ones((stop - start) * n_classes)
        absent[
            keys[(keys >= start * n_classes) & (keys < stop * n_classes)] - start * n_classes
        ] = 0.0
        total += weights[:, start:stop].astype(np.float64) @ absent.reshape(stop - start, n_classes)
    return total.astype(np.int64)


class CountMetric(MatchMetric):
    """Base of the metrics that are a formula on TP, FP, FN, TN."""

    negatives = False  # whether the formula looks at TN
    default_average: Literal["pooled", "classes"] = "pooled"
    own_options: tuple[str, ...] = ("average",)

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            if output.options.get("average", "pooled") not in ("pooled", "classes"):
                raise UsageError(f"metric {output.name!r}: average is 'pooled' or 'classes'")
        # The statistics must know which values lose classes in a replicate.
        means = [output.name for output in self.outputs if self._over_classes(output.options)]
        self.facts = replace(self.facts, class_means=frozenset(means))

    def formula(self, counts: F64, n_images: F64, options: Any) -> F64:
        """Return the value for counts (..., 4) and the weighted number of images, broadcast against
        (...).
        """
        raise AssertionError("every count metric has a formula")

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        tables: dict[tuple[View, int], F64] = {}
        n_images = evidence.image_totals(weights).astype(np.float64)[:, None]
        columns = []
        for output in self.outputs:
            values = []
            # Several thresholds are averaged; names that share a view share its counts.
            for view in output.views:
                key = (view, output.max_dets)
                if key not in tables:
                    tables[key] = count_table(evidence, *key, weights, negatives=self.negatives)
                values.append(self._rows(tables[key], n_images, output.options))
            columns.append(np.mean(values, axis=0))
        return np.stack(columns, axis=2)

    def linear(self, options: Any) -> tuple[F64, F64] | None:
        """Return the coefficients of TP, FP, FN, TN and images in numerator and denominator; None
        if the metric is no such ratio.
        """
        return None

    def ratio_parts(
        self, evidence: Matches, unit: I64, n_units: int, k: int
    ) -> tuple[F64, F64] | None:
        """Return numerator and denominator of every unit, (n_units, 1 + n_classes) each; None if it
        is no ratio.
        """
        output = self.outputs[k]
        parts = self.linear(output.options)
        # A mean of ratios, over classes or thresholds, is no ratio of sums over units.
        if parts is None or self._over_classes(output.options) or len(output.views) > 1:
            return None
        table = unit_counts(evidence, output.views[0], output.max_dets, unit, n_units)
        table = np.concatenate([table.sum(axis=1, keepdims=True), table], axis=1)
        images = np.bincount(unit, minlength=n_units).astype(np.float64)
        table[:, :, IMAGES] = images[:, None]
        return table @ parts[0], table @ parts[1]

    def proportion_of(self, evidence: Matches) -> list[list[float | None]]:
        """Return (1 + n_classes, n_names): how many objects a value is a share of; None for a mean
        of shares.
        """
        # All images in one unit: its denominator is that of the value.
        nobody = np.zeros(evidence.n_images, np.int64)
        columns: list[list[float | None]] = []
        for k in range(len(self.outputs)):
            parts = self.ratio_parts(evidence, nobody, 1, k)
            if parts is None:
                columns.append([None] * (1 + evidence.n_classes))
            else:
                columns.append(parts[1][0].tolist())
        return [list(row) for row in zip(*columns)]

    def _over_classes(self, options: Any) -> bool:
        """Return whether the pooled value is the mean over classes."""
        return bool(options.get("average", self.default_average) == "classes")

    def _rows(self, counts: F64, n_images: F64, options: Any) -> F64:
        """Return (R, 1 + n_classes) of one view."""
        classes = self.formula(counts, n_images, options)
        if self._over_classes(options):
            return class_mean(classes[:, :, None])[:, :, 0]
        # The formula of the sums, not the mean of the formulas: large classes count more.
        pooled = self.formula(counts.sum(axis=1, keepdims=True), n_images, options)
        return np.concatenate([pooled, classes], axis=1)


class Sensitivity(CountMetric):
    """TP / (TP + FN): the share of references that were found. Undefined without references."""

    tried = judged = ("references",)
    facts = Facts(
        id="sensitivity@1",
        short={"sensitivity": {}},
        synonyms={"recall": "sensitivity", "TPR": "sensitivity", "sens": "sensitivity"},
        proportion=True,
        meaning="The share of references that were found.",
        page="explanation/counts.md",
    )

    def formula(self, counts: F64, n_images: F64, options: Any) -> F64:
        """Return TP / (TP + FN)."""
        return ratio(counts[..., TP], counts[..., TP] + counts[..., FN])

    def linear(self, options: Any) -> tuple[F64, F64]:
        """Return TP and TP + FN."""
        return np.array([1.0, 0, 0, 0, 0]), np.array([1.0, 0, 1, 0, 0])


class PositivePredictiveValue(CountMetric):
    """TP / (TP + FP): the share of predictions that are right. Undefined without predictions."""

    needed = tried = judged = ("predictions",)
    facts = Facts(
        id="ppv@1",
        short={"PPV": {}},
        synonyms={"precision": "PPV"},
        proportion=True,
        trials="predictions",
        word="positive predictive value",
        meaning="The share of predictions that are right.",
        page="explanation/counts.md",
    )

    def formula(self, counts: F64, n_images: F64, options: Any) -> F64:
        """Return TP / (TP + FP)."""
        return ratio(counts[..., TP], counts[..., TP] + counts[..., FP])

    def linear(self, options: Any) -> tuple[F64, F64]:
        """Return TP and TP + FP."""
        return np.array([1.0, 0, 0, 0, 0]), np.array([1.0, 1, 0, 0, 0])

    def undefined(self, table: I64) -> NDArray[np.bool_]:
        """Return where there are no predictions."""
        return np.asarray(table[:, :, 2] == 0)

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry."""
        return "no_predictions" if n_references else "no_objects"


class FBeta(CountMetric):
    """(1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP), option ``beta`` (1). Undefined only without any
    object.
    """

    own_options = ("average", "beta")
    needed = ("references", "predictions")
    facts = Facts(
        id="f-beta@1",
        short={"F1": {"beta": 1}, "F2": {"beta": 2}},
        synonyms={"F-score": "F1", "F1-score": "F1", "F-measure": "F1"},
        word="F scores",
        meaning="Sensitivity and PPV in one number; beta above 1 gives sensitivity more weight.",
        page="explanation/counts.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for plan in plans:
            check_number(plan, "beta", above=0.0)

    def formula(self, counts: F64, n_images: F64, options: Any) -> F64:
        """Return F-beta in the form without 0/0."""
        square = float(options.get("beta", 1.0)) ** 2
        hits = (1.0 + square) * counts[..., TP]
        return ratio(hits, hits + square * counts[..., FN] + counts[..., FP])

    def linear(self, options: Any) -> tuple[F64, F64]:
        """Return (1 + b^2) TP and its sum with b^2 FN + FP."""
        square = float(options.get("beta", 1.0)) ** 2
        return np.array([1.0 + square, 0, 0, 0, 0]), np.array([1.0 + square, 1, square, 0, 0])

    def undefined(self, table: I64) -> NDArray[np.bool_]:
        """Return where there is neither a reference nor a prediction."""
        return np.asarray((table[:, :, 1] == 0) & (table[:, :, 2] == 0))

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry."""
        return "no_objects"


class ImageCountMetric(CountMetric):
    """Base of the count metrics to which an image without objects counts too. Undefined only
    without images.
    """

    needed: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()

    def undefined(self, table: I64) -> NDArray[np.bool_]:
        """Return where there is no image."""
        return np.asarray(table[:, :, 0] == 0)

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry."""
        return "no_objects"


class Accuracy(ImageCountMetric):
    """(TP + TN) / (TP + TN + FP + FN) per class, total = class mean: the acc@IoU of Wang et al.
    (ChestX-ray8).

    High without any prediction, because true negatives dominate: shown for comparison with the
    literature.
    """

    negatives = True
    default_average = "classes"
    facts = Facts(
        id="accuracy@1",
        short={"accuracy": {}},
        trials="images",
        meaning=(
            "Correct decisions among all decisions, including images without the class: high even "
            "without any prediction when findings are rare."
        ),
        page="explanation/counts.md",
    )

    def formula(self, counts: F64, n_images: F64, options: Any) -> F64:
        """Return the accuracy."""
        return ratio(counts[..., TP] + counts[..., TN], counts.sum(axis=-1))


class FalseAlarmsPerImage(ImageCountMetric):
    """FP / number of images."""

    judged = ("predictions",)
    facts = Facts(
        id="false-alarms@1",
        short={"FP/image": {}},
        synonyms={"FPPI": "FP/image", "FPI": "FP/image", "FP": "FP/image"},
        bounds=(0.0, float("inf")),
        counts_events=True,
        higher_is_better=False,
        word="false alarms per image",
        meaning="Predictions that are wrong, including duplicates, per image.",
        page="explanation/counts.md",
    )

    def formula(self, counts: F64, n_images: F64, options: Any) -> F64:
        """Return false alarms per image."""
        return ratio(counts[..., FP], np.broadcast_to(n_images, counts[..., FP].shape))

    def linear(self, options: Any) -> tuple[F64, F64]:
        """Return FP and the images."""
        return np.array([0.0, 1, 0, 0, 0]), np.array([0.0, 0, 0, 0, 1])


class Count(CountMetric):
    """A plain count; option ``of`` = TP, FP, FN or TN."""

    negatives = True
    needed: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    own_options = ("average", "of")
    kinds = ("TP", "FP", "FN", "TN")
    mistakes = ("FP", "FN")
    facts = Facts(
        id="count@1",
        bounds=(0.0, float("inf")),
        counts_events=True,
        per_image=False,
        word="counts",
        meaning="A plain count; fewer false alarms (FP) and missed references (FN) are better.",
        page="explanation/counts.md",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            if output.options.get("of") not in self.kinds:
                raise UsageError(f"metric {output.name!r}: of is one of {', '.join(self.kinds)}")
        costs = [output.name for output in self.outputs if output.options["of"] in self.mistakes]
        self.facts = replace(self.facts, costs=frozenset(costs))

    def formula(self, counts: F64, n_images: F64, options: Any) -> F64:
        """Return the count."""
        return counts[..., self.kinds.index(options["of"])]

    def undefined(self, table: I64) -> NDArray[np.bool_]:
        """Return nothing: a count is always defined."""
        return np.zeros(table.shape[:2], np.bool_)


def ratio(numerator: F64, denominator: F64 | I64) -> F64:
    """Return the quotient, NaN where the denominator is 0."""
    # In C order, whatever the counts have: means over classes add up in the order of memory.
    quotient = np.empty(np.shape(numerator))
    # Dividing everywhere costs a third of dividing where it is allowed.
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(numerator, denominator, out=quotient)
    np.copyto(quotient, np.nan, where=~(np.asarray(denominator) > 0))
    return quotient
