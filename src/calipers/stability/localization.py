# SPDX-License-Identifier: Apache-2.0
"""Stable is not correct: compare every model with the reference, and positive with negative bags.

Over the annotated positive bags, with n11 the positive instances of the reference that a model
calls positive:

``DICE``, ``Jaccard``, ``accuracy``
    2 n11 / (called + reference); n11 / (called + reference - n11); whether the Jaccard index is at
    least 0.1. Per bag, then the mean over bags. Never undefined: such a bag has a positive
    instance.
``AUC``
    area under the ROC curve of all bags, positive and negative; equal scores count half. Undefined
    if there is only one kind.

The row of all models is the mean over models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.metrics.contract import Metric
from calipers.results import Estimate, Row
from calipers.stability.cases import BagAuroc, Cases, CaseScores
from calipers.stability.metric import BagMean, BagValues
from calipers.stability.pairs import BagPairs
from calipers.stability.plan import ALL_MODELS, StabilityPlan
from calipers.stability.pooling import check_pooling
from calipers.statistics.estimates import estimates

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

MEASURES = ("DICE", "Jaccard", "accuracy")
AUC = "AUC"
LEAST_JACCARD = 0.1


@dataclass(frozen=True)
class Localization:
    """The models against the reference."""

    models: tuple[str, ...]
    places: I64  # (A,) which of the used bags are annotated and positive
    ids: tuple[str, ...]  # of these
    values: Mapping[str, F64]  # measure -> (A, K)
    rows: tuple[Row, ...]
    least_jaccard: float
    pooling: str  # how bag scores were made of maps; "given" if they came with the bags
    missing: Mapping[str, str]  # measure -> why it is not there: one of results.REASONS

    def get(self, metric: str, model: str = ALL_MODELS) -> Estimate:
        """Return the estimate of one model, or of the mean over models."""
        for row in self.rows:
            if (row.metric, row.model) == (metric, model):
                return row.estimate
        if metric in self.missing:
            raise UsageError(f"there is no {metric}: {self.missing[metric].replace('_', ' ')}")
        metrics = dict.fromkeys(row.metric for row in self.rows)
        if metric not in metrics:
            raise UsageError(f"no {metric!r} of {model!r}; {did_you_mean(metric, metrics)}")
        raise UsageError(f"no {metric!r} of {model!r}; {did_you_mean(model, self.models)}")

    def has(self, metric: str) -> bool:
        """Return whether the result has a measure."""
        return any(row.metric == metric for row in self.rows)

    def of_models(self, metric: str) -> F64:
        """Return (K,): the values of the models."""
        return np.array([self.get(metric, model).value for model in self.models])

    def mean(self, metric: str) -> float:
        """Return the mean over models."""
        return float(self.of_models(metric).mean())

    def sd(self, metric: str, ddof: int = 0) -> float:
        """Return the standard deviation over models; ``ddof`` 0 as the published tables have it."""
        if len(self.models) <= ddof:
            return float("nan")
        return float(self.of_models(metric).std(ddof=ddof))

    def per_bag(self, metric: str = "DICE", ddof: int = 0) -> tuple[F64, F64]:
        """Return (A,) means and (A,) standard deviations over models, of every annotated positive
        bag.
        """
        if metric not in self.values:
            raise UsageError(f"no {metric!r} per bag; {did_you_mean(metric, MEASURES)}")
        return self.values[metric].mean(axis=1), self.values[metric].std(axis=1, ddof=ddof)


def localization(
    evidence: BagPairs,
    plan: StabilityPlan,
    cases: Cases,
    pooling: str = "max",
    least_jaccard: float = LEAST_JACCARD,
) -> Localization:
    """Compare every model with the reference; intervals resample bags or patients."""
    check_pooling(pooling)
    if not 0 <= least_jaccard <= 1:
        raise UsageError(f"the least Jaccard index lies in [0, 1], got {least_jaccard:g}")
    places = np.flatnonzero(evidence.truth > 0)
    here = evidence.take(places)
    values = measures(here, here.at(plan.threshold), least_jaccard)
    missing: dict[str, str] = {}
    if len(places):
        rows = _measure_rows(here, values, plan, places)
    else:
        rows, missing = [], dict.fromkeys(MEASURES, "no_references")
    if cases.two_kinds:
        rows += _auc_rows(cases, plan, pooling)
    else:
        missing[AUC] = "no_references" if cases.positive is None else "single_category"
    return Localization(
        models=plan.models,
        places=places,
        ids=tuple(plan.ids[i] for i in places),
        values=values,
        rows=tuple(rows),
        least_jaccard=least_jaccard,
        pooling=pooling if cases.bag_scores is None else "given",
        missing=missing,
    )


def measures(evidence: BagPairs, threshold_index: int, least_jaccard: float) -> dict[str, F64]:
    """Return every measure (A, K) of annotated bags with a positive instance."""
    hit = evidence.hits[:, threshold_index].astype(np.float64)
    total = evidence.ones[:, threshold_index] + evidence.truth[:, None].astype(np.float64)
    jaccard = hit / (total - hit)
    # A threshold of 0 is strict: a bag without any overlap is not localised.
    correct = jaccard >= least_jaccard if least_jaccard > 0 else jaccard > 0
    return {"DICE": 2 * hit / total, "Jaccard": jaccard, "accuracy": correct.astype(np.float64)}


def _measure_rows(
    here: BagPairs, values: Mapping[str, F64], plan: StabilityPlan, places: I64
) -> list[Row]:
    ones = here.ones[:, here.at(plan.threshold)]
    n_called = np.concatenate([ones, ones.sum(axis=1, keepdims=True)], axis=1)
    names = (*plan.models, ALL_MODELS)
    cases: list[tuple[Metric[Any], BagValues]] = []
    for name in MEASURES:
        table = np.concatenate([values[name], values[name].mean(axis=1, keepdims=True)], axis=1)
        reasons = ["no_references"] * len(names)
        metric = BagMean(names, [_id(name)] * len(names), (0.0, 1.0), 1.0, reasons)
        cases.append((cast("Metric[Any]", metric), BagValues.of(table, here.truth, n_called)))
    rows = []
    for name, estimates_of in zip(
        MEASURES, estimates(cases, plan.units.take(places), plan.certainty)
    ):
        rows += _rows(name, names, estimates_of[0])
    return rows


def _auc_rows(cases: Cases, plan: StabilityPlan, pooling: str) -> list[Row]:
    assert cases.positive is not None
    evidence = CaseScores(cases.scores(pooling), cases.positive)
    names = (*plan.models, ALL_MODELS)
    metric = cast("Metric[Any]", BagAuroc(names, evidence))
    return _rows(AUC, names, estimates([(metric, evidence)], cases.units, plan.certainty)[0][0])


def _rows(metric: str, names: tuple[str, ...], values: list[Estimate]) -> list[Row]:
    rows = []
    for name, estimate in zip(names, values):
        rows.append(Row(name, metric, _id(metric), None, None, estimate))
    return rows


def _id(metric: str) -> str:
    return f"stability.{metric}@1"
