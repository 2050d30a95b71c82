# SPDX-License-Identifier: Apache-2.0
"""The base of all metrics on matches: views from plans, the numbers of images and objects behind a
value, and the reason of an undefined one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.assignment import MatchRecipe
from calipers.kernels.matching import HIT, IGNORED
from calipers.matches import COUNTED, Matches, View
from calipers.metrics.contract import (
    DERIVED_OPTION,
    MATCHING_OPTIONS,
    MetricPlan,
    UnitMarks,
    check_options,
)

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Sides = tuple[str, ...]  # of "references", "predictions" and "hits"


@dataclass(frozen=True)
class Output:
    """One named number: the views it averages over and its options."""

    name: str
    views: tuple[View, ...]
    max_dets: int
    options: Mapping[str, Any]


class MatchMetric:
    """Base of the metrics whose evidence is `Matches`."""

    own_options: tuple[str, ...] = ()
    needed: Sides = ("references",)  # without these there is no value; nothing: it always has one
    # a unit with these can be in error; nothing: every unit can
    tried: Sides = ("references", "predictions")
    # whose fates can be an error; of hits: how far they are off
    judged: Sides = ("references", "predictions")

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        for plan in plans:
            check_options(plan, self.own_options, matching=(*MATCHING_OPTIONS, DERIVED_OPTION))
        self.outputs = tuple(_output(plan) for plan in plans)
        self.recipe = MatchRecipe(
            tuple(dict.fromkeys(view for output in self.outputs for view in output.views))
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(output.name for output in self.outputs)

    @property
    def per_class(self) -> bool:
        """Whether there are values per class; not where the matching ignores classes."""
        return all(view.within_class for view in self.recipe.views)

    def counts(self, evidence: Matches, weights: I64) -> I64:
        """Return (1 + n_classes, n_names, 3): images, counted references, counted predictions."""
        table = np.zeros((1 + evidence.n_classes, len(self.outputs), 3), np.int64)
        table[:, :, 0] = weights.sum()
        for k, output in enumerate(self.outputs):
            # Thresholds change who is a hit, not who is counted, except for predictions on ignored
            # references.
            view = evidence.indices(output.views)[0]
            references, predictions = evidence.totals(weights[None], output.max_dets)
            table[1:, k, 1] = references[0, view, COUNTED]
            table[1:, k, 2] = predictions[0, view, COUNTED]
        table[0, :, 1:] = table[1:, :, 1:].sum(axis=0)
        return table

    def reasons(self, evidence: Matches) -> Mapping[tuple[int, int], str]:
        """Return why values without references (or without any object) are undefined."""
        table = self.counts(evidence, np.ones(evidence.n_images, np.int64))
        why = {}
        for row, name in np.argwhere(self.undefined(table)).tolist():
            why[row, name] = self.reason(int(table[row, name, 1]), int(table[row, name, 2]))
        return why

    def support(self, evidence: Matches, unit: I64, n_units: int) -> I64:
        """Return (1 + n_classes, n_names, 3): units with what is `needed`, with what is `tried`,
        with an error.
        """
        table = np.zeros((1 + evidence.n_classes, len(self.outputs), 3), np.int64)
        numbers: dict[tuple[Any, ...], list[I64]] = {}
        for k, output in enumerate(self.outputs):
            key = (tuple(evidence.indices(output.views)), output.max_dets, self.sides(output))
            if key not in numbers:
                numbers[key] = self._units(evidence, *key, (unit, n_units))
            table[:, k] = np.stack(numbers[key], axis=1)
        return table

    def sides(self, output: Output) -> tuple[Sides, Sides, Sides]:
        """Return whose units are needed, tried and judged for one of the numbers."""
        return self.needed, self.tried, self.judged

    def off(self, evidence: Matches) -> Flags:
        """Return (n_predictions,): which hits are an error because they could be nearer. Most
        metrics do not look.
        """
        return np.zeros(len(evidence.score), np.bool_)

    def _units(
        self,
        evidence: Matches,
        views: tuple[int, ...],
        max_dets: int,
        sides: tuple[Sides, Sides, Sides],
        units: tuple[I64, int],
    ) -> list[I64]:
        """Return the numbers of units per class row: needed, tried, in error."""
        unit, n_units = units
        of_reference, of_prediction = (
            unit[evidence.reference_image],
            unit[evidence.prediction_image],
        )
        within, fate = evidence.rank < max_dets, evidence.prediction_fate[views[0]]
        hits = (fate == HIT) & within
        valid = (evidence.reference_fate[views[0]] != IGNORED, (fate != IGNORED) & within, hits)
        missed = _missed_under(evidence, views, max_dets)
        wrong = (
            missed,
            wrong_under(evidence.prediction_fate, views) & within,
            hits & self.off(evidence),
        )

        def units_with(side: Sides, rows: tuple[Flags, Flags, Flags]) -> I64:
            marks = UnitMarks(n_units, evidence.n_classes)
            if "references" in side:
                marks.add(of_reference[rows[0]], evidence.reference_label[rows[0]])
            for name, flags in (("predictions", rows[1]), ("hits", rows[2])):
                if name in side:
                    marks.add(of_prediction[flags], evidence.prediction_label[flags])
            return marks.counts() if side else np.full(1 + evidence.n_classes, n_units, np.int64)

        return [
            units_with(sides[0], valid),
            units_with(sides[1], valid),
            units_with(sides[2], wrong),
        ]

    def undefined(self, table: I64) -> NDArray[np.bool_]:
        """Return which entries are undefined, from the counts behind them. Most need references."""
        return np.asarray(table[:, :, 1] == 0)

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry."""
        return "no_references"


def wrong_under(fate: NDArray[np.int8], views: Sequence[int]) -> NDArray[np.bool_]:
    """Return (n,): who is missed, a duplicate or a false alarm under any of the views."""
    wrong = np.zeros(fate.shape[1], np.bool_)
    for view in views:
        wrong |= fate[view] > HIT
    return wrong


def _missed_under(evidence: Matches, views: Sequence[int], max_dets: int) -> NDArray[np.bool_]:
    """Return (n_references,): who is missed under any of the views, or is of an image and class
    with a cut hit.

    A reference that only a prediction beyond the limit finds is missed; which one it is does not
    matter to its unit.
    """
    wrong = wrong_under(evidence.reference_fate, views)
    if max_dets > evidence.rank.max(initial=-1):  # no prediction is beyond the limit
        return wrong
    n_cells = evidence.n_images * evidence.n_classes
    reference = evidence.reference_image * evidence.n_classes + evidence.reference_label
    prediction = evidence.prediction_image * evidence.n_classes + evidence.prediction_label
    for view in views:
        valid = evidence.reference_fate[view] != IGNORED
        beyond = (evidence.prediction_fate[view] == HIT) & (evidence.rank >= max_dets)
        short = np.bincount(prediction[beyond], minlength=n_cells) > 0
        wrong |= valid & short[reference]
    return wrong


def class_mean(per_class_values: F64) -> F64:
    """Prepend the mean over classes that have a value: (R, C, names) -> (R, 1 + C, names).

    A class that is undefined is left out, as in COCO; the result says how many references stand
    behind it.
    """
    is_defined = ~np.isnan(per_class_values)
    total = np.where(is_defined, per_class_values, 0.0).sum(axis=1, keepdims=True)
    number = is_defined.sum(axis=1, keepdims=True)
    mean = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    return np.concatenate([mean, per_class_values], axis=1)


def _output(plan: MetricPlan) -> Output:
    o = plan.options
    views = tuple(
        View(
            criterion=o["criterion"],
            assignment=o["assignment"],
            threshold=threshold,
            size=tuple(o["size"]),
            max_dets=o["match_dets"],
            within_class=o["classes"] == "within",
            strict=o["strict"],
            score_cut=o["score_cut"],
            duplicates=o["duplicates"],
        )
        for threshold in o["thresholds"]
    )
    return Output(plan.name, views, o["max_dets"], o)
