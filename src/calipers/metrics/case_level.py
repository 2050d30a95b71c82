# SPDX-License-Identifier: Apache-2.0
"""Metrics of whole images: does the highest score tell images with references from others.

``case-auroc``
    area under the ROC curve of the images. The score of an image is the highest score of its
    counted predictions and of forgiven duplicates; it is positive if it has a counted reference;
    equal scores are one point. An image without predictions lies below all scores (``silent =
    "lowest"``), or has the score 0 (``"zero"``), where scores are probabilities. Undefined without
    a positive or without a negative image. Per class: references and predictions of the class.
``picai-score``
    the mean of the average precision of the objects (``interpolation``, default tie-aware) and of
    the area above, by which the PI-CAI challenge ranks. Undefined where one of them is.

Ignored references make no image positive, and predictions on them none suspicious. The evidence is
`Matches`; `kernels.roc.CaseRanks` does the counting under weights.

References
----------
Saha et al., Artificial intelligence and radiologists in prostate cancer detection on MRI (PI-CAI),
Lancet Oncol 2024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calipers.arrays import F64, I64, Flags
from calipers.kernels.assignment import IGNORED
from calipers.kernels.roc import CaseRanks
from calipers.matching.matches import Matches
from calipers.metrics.base import Facts, MatchMetric, MetricPlan, Output, UnitMarks, check_choice
from calipers.metrics.ranking import AveragePrecision

# As for the AUROC of a monitor: `calipers.monitors.metrics`.
COST_OF_IMAGE = 0.75
SILENT = {"lowest": -np.inf, "zero": 0.0}


class CaseAuroc(MatchMetric):
    """The area under the ROC curve of images."""

    own_options: tuple[str, ...] = ("silent",)
    facts = Facts(
        id="case-auroc@1",
        short={"AUROC/case": {}},
        synonyms={"AUC": "AUROC/case", "AUROC": "AUROC/case"},
        trials="own",
        swap=False,
        word="AUROC of images",
        meaning=(
            "Whether the highest score of an image separates images with references from those "
            "without: the share of such pairs of images in the right order."
        ),
        page="explanation/instances.md#whole-images",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            check_choice(output, "silent", tuple(SILENT))
        names = self.facts.names
        self.facts = replace(
            self.facts,
            graded=frozenset(),
            error_costs=dict.fromkeys(names, COST_OF_IMAGE),
            shortfalls=frozenset(names),
        )

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names); several thresholds are averaged."""
        columns = []
        for output in self.outputs:
            of_views = []
            for view in evidence.indices(output.views):
                ranks = self._ranks(evidence, view, output)
                of_views.append(np.stack([of_class.area(weights) for of_class in ranks], axis=1))
            columns.append(np.mean(of_views, axis=0))
        return np.stack(columns, axis=2)

    def _ranks(self, evidence: Matches, view: int, output: Output) -> list[CaseRanks]:
        silent = SILENT[output.options.get("silent", "lowest")]
        key = ("ranks of cases", view, output.max_dets, silent)
        # The order of the images does not depend on the weights: ranked once for all replicates.
        if key not in evidence.kept:
            score, positive = cases(evidence, view, output.max_dets)
            evidence.kept[key] = [CaseRanks.of(s, p, silent) for s, p in zip(score.T, positive.T)]
        ranks: list[CaseRanks] = evidence.kept[key]
        return ranks

    def reasons(self, evidence: Matches) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: no image with a reference, or only such images."""
        values = self.value(evidence, np.ones((1, evidence.n_images), np.int64))[0]
        why = {}
        for row, k in np.argwhere(np.isnan(values)).tolist():
            output = self.outputs[k]
            _, positive = cases(evidence, evidence.indices(output.views)[0], output.max_dets)
            why[row, k] = "single_category" if positive[:, row].any() else "no_references"
        return why

    def trials(self, evidence: Matches) -> I64:
        """Return (1 + n_classes, n_names): images of the rarer kind."""
        columns = []
        for output in self.outputs:
            _, positive = cases(evidence, evidence.indices(output.views)[0], output.max_dets)
            columns.append(np.minimum(positive.sum(axis=0), (~positive).sum(axis=0)))
        return np.stack(columns, axis=1)

    def support(self, evidence: Matches, unit: I64, n_units: int) -> I64:
        """Return (1 + n_classes, n_names, 3): the rarer kind of units, twice, and units in a wrong
        order, of which no more than these are counted.

        An image is in a wrong order if an image of the other kind is level with it or on the wrong
        side of it.
        """
        table = np.zeros((1 + evidence.n_classes, len(self.outputs), 3), np.int64)
        for k, output in enumerate(self.outputs):
            score, positive = cases(evidence, evidence.indices(output.views)[0], output.max_dets)
            score = np.where(
                np.isneginf(score), SILENT[output.options.get("silent", "lowest")], score
            )
            # the highest score of a negative and the lowest of a positive image
            highest = np.where(positive, -np.inf, score).max(axis=0, initial=-np.inf)
            lowest = np.where(positive, score, np.inf).min(axis=0, initial=np.inf)
            two_kinds = positive.any(axis=0) & ~positive.all(axis=0)
            wrong = two_kinds & np.where(positive, score <= highest, score >= lowest)
            # An area rests on pairs, so the rarer kind of image bounds what is known.
            rarer = np.minimum(_units(positive, unit, n_units), _units(~positive, unit, n_units))
            # One image below all others puts many in a wrong order, and is one error.
            of_kinds = [_units(wrong & kind, unit, n_units) for kind in (positive, ~positive)]
            n_wrong = np.minimum(np.minimum(*of_kinds), rarer)
            table[:, k] = np.stack([rarer, rarer, n_wrong], axis=1)
        return table


class PicaiScore(CaseAuroc):
    """The mean of the average precision of objects and the area under the ROC curve of images."""

    own_options = ("silent", "interpolation")
    facts = Facts(
        id="picai-score@1",
        trials="own",
        swap=False,
        word="the PI-CAI score",
        meaning="The mean of the average precision of objects and the AUROC of images.",
        citations=(
            "Saha A, et al. Artificial intelligence and radiologists in prostate cancer detection "
            "on MRI (PI-CAI): an international, paired, non-inferiority, confirmatory study. "
            "Lancet Oncol 2024;25:879-887.",
        ),
        page="explanation/instances.md#whole-images",
    )

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        self.precision = AveragePrecision([_of_objects(plan) for plan in plans])

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        return 0.5 * (super().value(evidence, weights) + self.precision.value(evidence, weights))

    def support(self, evidence: Matches, unit: I64, n_units: int) -> I64:
        """Return the units behind the area; in error are those of the images or those of the
        objects, if more.
        """
        table = super().support(evidence, unit, n_units)
        of_objects = MatchMetric.support(self, evidence, unit, n_units)
        # A sum over both halves could count a unit twice.
        n_wrong = np.maximum(table[:, :, 2], of_objects[:, :, 2])
        table[:, :, 2] = np.minimum(n_wrong, table[:, :, 1])
        return table


def cases(evidence: Matches, view: int, max_dets: int) -> tuple[F64, Flags]:
    """Return (n_images, 1 + n_classes) scores and which images are positive: of any class, then of
    each.

    The score of an image without predictions is -inf. A forgiven duplicate is no mistake, but it
    makes its image as suspicious as any other prediction does.
    """
    shape = evidence.n_images, 1 + evidence.n_classes
    score, positive = np.full(shape, -np.inf), np.zeros(shape, np.bool_)
    suspicious = evidence.prediction_fate[view] != IGNORED
    if evidence.forgiven is not None:
        suspicious |= evidence.forgiven[view]
    predictions = np.flatnonzero(suspicious & (evidence.rank < max_dets))
    references = np.flatnonzero(evidence.reference_fate[view] != IGNORED)
    columns = evidence.prediction_label[predictions] + 1
    for column in (np.zeros_like(columns), columns):
        np.maximum.at(
            score, (evidence.prediction_image[predictions], column), evidence.score[predictions]
        )
    positive[evidence.reference_image[references], 0] = True
    positive[evidence.reference_image[references], 1 + evidence.reference_label[references]] = True
    return score, positive


def _units(marked: Flags, unit: I64, n_units: int) -> I64:
    """Return (n_columns,): units with a marked image, for (n_images, n_columns) marks."""
    image, column = np.nonzero(marked)
    marks = UnitMarks(n_units, marked.shape[1]).add(unit[image], column)
    return marks.counts()[1:]


def _of_objects(plan: MetricPlan) -> MetricPlan:
    options: dict[str, Any] = {key: value for key, value in plan.options.items() if key != "silent"}
    return replace(plan, options={"interpolation": "tie-aware", **options})
