# SPDX-License-Identifier: Apache-2.0
"""The base of the metrics on the similarity of hits to their references: one view each, and
weighted sums and medians of similarities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calipers import registry
from calipers.assignment import PairRecipe
from calipers.criteria import Criterion
from calipers.errors import UsageError, did_you_mean
from calipers.kernels.matching import HIT
from calipers.kernels.sums import MedianTable, SumTable
from calipers.matches import Matches
from calipers.metrics.contract import MetricPlan
from calipers.metrics.matched import MatchMetric, Output

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

ROUNDING = 1e-9  # of coordinates: a hit that is nearer than this to perfect is perfect
SUMMARIES = ("mean", "median")


class PairedMetric(MatchMetric):
    """Base of the metrics on the similarities of hits.

    Each has one threshold: partners and similarities are those of one view. The measure is the
    overlap of a hit; a metric on distances says so with ``distance``.
    """

    distance = False

    def __init__(self, plans: Sequence[MetricPlan]) -> None:
        super().__init__(plans)
        for output in self.outputs:
            _check_one_threshold(output)
            _check_criterion(output, distance=self.distance)
        views = {output.views for output in self.outputs}
        if len(views) > 1:
            raise UsageError(f"{', '.join(self.names)}: metrics on pairs share their matching")
        self.recipe = PairRecipe(self.outputs[0].views)

    def measure(self, evidence: Matches) -> F64:
        """Return (n_predictions,): the overlap with the partner, or the distance from it; NaN
        without one.
        """
        return -evidence.similarity if self.distance else np.minimum(evidence.similarity, 1.0)

    def off(self, evidence: Matches) -> Flags:
        """Return (n_predictions,): which are not quite where their partner is."""
        with np.errstate(invalid="ignore"):
            measure = self.measure(evidence)
            return np.asarray(measure > ROUNDING if self.distance else measure < 1.0 - ROUNDING)

    def hits(self, evidence: Matches, output: Output) -> I64:
        """Return the rows of the predictions that are hits."""
        return np.flatnonzero(
            (evidence.prediction_fate[0] == HIT) & (evidence.rank < output.max_dets)
        )

    def sums(self, evidence: Matches, output: Output, weights: I64) -> F64:
        """Return (R, n_classes): the weighted sums of the measure over the hits of every class."""
        key = ("sums of hits", output.max_dets)
        if key not in evidence.kept:
            rows = self.hits(evidence, output)
            image, label = evidence.prediction_image[rows], evidence.prediction_label[rows]
            evidence.kept[key] = SumTable.of(
                self.measure(evidence)[rows], image, label, evidence.n_classes
            )
        table: SumTable = evidence.kept[key]
        return table.sums(weights)

    def hit_medians(self, evidence: Matches, output: Output, weights: I64) -> F64:
        """Return (R, 1 + n_classes): the weighted medians of the measure over all hits and those of
        every class.
        """
        key = ("medians of hits", output.max_dets)
        if key not in evidence.kept:
            rows = self.hits(evidence, output)
            image, label = evidence.prediction_image[rows], evidence.prediction_label[rows]
            evidence.kept[key] = median_tables(
                self.measure(evidence)[rows], image, label, evidence.n_classes
            )
        return medians(evidence.kept[key], weights)

    def reasons(self, evidence: Matches) -> Mapping[tuple[int, int], str]:
        """Return why values are undefined: nothing there, one side missing, or nothing hit."""
        weights = np.ones(evidence.n_images, np.int64)
        table, values = self.counts(evidence, weights), self.value(evidence, weights[None])[0]
        why = {}
        for row, k in np.argwhere(np.isnan(values)).tolist():
            why[row, k] = self.reason(int(table[row, k, 1]), int(table[row, k, 2]))
        return why

    def value(self, evidence: Matches, weights: I64) -> F64:
        """Return (R, 1 + n_classes, n_names)."""
        raise AssertionError("every metric on pairs has a value")

    def reason(self, n_references: int, n_predictions: int) -> str:
        """Return the reason of an undefined entry; ``no_positives``: no prediction is a hit."""
        if not n_references:
            return "no_references" if n_predictions else "no_objects"
        return "no_positives" if n_predictions else "no_predictions"


def median_tables(
    values: F64, image: I64, label: NDArray[np.integer], n_classes: int
) -> list[MedianTable]:
    """Return the tables for the medians of all values, then of those of every class."""
    tables = [MedianTable.of(values, image)]
    for c in range(n_classes):
        rows = np.flatnonzero(label == c)
        tables.append(MedianTable.of(values[rows], image[rows]))
    return tables


def medians(tables: Sequence[MedianTable], weights: I64) -> F64:
    """Return (R, number of tables)."""
    return np.stack([table.medians(weights) for table in tables], axis=1)


def with_pooled(per_class: F64) -> F64:
    """Return (R, 1 + n_classes) sums or counts: those of all classes, then each."""
    return np.concatenate([per_class.sum(axis=1, keepdims=True), per_class], axis=1)


def check_choice(output: Output, option: str, choices: Sequence[str]) -> None:
    """Raise unless an option is absent or one of the choices."""
    value = output.options.get(option, choices[0])
    if value not in choices:
        raise UsageError(
            f"metric {output.name!r}: no {option} {value!r}; {did_you_mean(str(value), choices)}"
        )


def _check_one_threshold(output: Output) -> None:
    if len(output.views) != 1:
        raise UsageError(
            f"metric {output.name!r} ({len(output.views)} thresholds): pairs are matched at one "
            "threshold; give the metric one of its own"
        )


def _check_criterion(output: Output, *, distance: bool) -> None:
    """Raise unless the criterion measures a distance, or an overlap from 0 to 1."""
    name = output.views[0].criterion
    criterion: Criterion = registry.resolve("criterion", name)
    overlap = not criterion.distance and not criterion.yes_no and criterion.none == 0
    if distance:
        fits, kind = criterion.distance, "a distance, such as centre-distance"
    else:
        fits, kind = overlap, "an overlap from 0 to 1, such as box-iou"
    if not fits:
        raise UsageError(
            f"metric {output.name!r}: needs a criterion that measures {kind}, not {name}"
        )
