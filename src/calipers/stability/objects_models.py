# SPDX-License-Identifier: Apache-2.0
"""Models in object stability: select them, compare pairs of them, leave one of them out.

`ObjectStability` calls `pair_matrix` and `leave_one_out`; `object_stability` and
`detections_as_bags` call `select_models`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.arguments import several
from calipers.errors import InputError, UsageError
from calipers.kernels.pairwise import pair_index
from calipers.results.estimate import number
from calipers.stability.objects_evidence import ObjectPairs
from calipers.stability.objects_strata import Strata, mean_of_defined, pair_cells
from calipers.tables import Cohort

F64 = NDArray[np.float64]
NAN = math.nan
MEANS = ("agreement", "mean-iou")
SHARES = ("found-by-all", "found-by-some", "found-by-none")
FEWEST_MODELS = 3


def select_models(cohort: Cohort, models: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the models to compare: at least two different ones."""
    if not isinstance(cohort, Cohort):
        kind = type(cohort).__name__
        raise UsageError(
            f"object stability takes a cohort, not {kind}: make one with calipers.read"
        )
    if isinstance(models, str):
        raise UsageError(f"models takes several names, such as [{models!r}, ...]")
    names = tuple(cohort.models) if models is None else tuple(several("models", models))
    for name in names:
        cohort.predictions(name)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"model {twice!r} is named twice")
    if len(names) < 2:
        raise InputError(
            "the predictions of two or more models on the same images",
            rule="one-model",
            location="models",
            value=", ".join(names) or "none",
            hint="stability compares models that were trained alike: "
            "give their predictions as further models",
        )
    return names


@dataclass(frozen=True, slots=True)
class ObjectLeaveOneOut:
    """A number without each of the models, and its jackknife interval for other trainings."""

    metric: str
    value: float  # with all models
    without: Mapping[str, float]  # model -> value of the others
    standard_error: float  # jackknife over models
    low: float  # t interval over models
    high: float
    level: float
    reason: str | None  # why there is no interval

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return {
            "metric": self.metric,
            "value": number(self.value),
            "without": {name: number(value) for name, value in self.without.items()},
            "standard_error": number(self.standard_error),
            "low": number(self.low),
            "high": number(self.high),
            "level": self.level,
            "n_models": len(self.without),
            "reason": self.reason,
        }


def dense_pairs(evidence: ObjectPairs) -> tuple[F64, F64]:
    """Return (n_images, P) agreement and mean IoU of every pair of models, NaN where undefined."""
    cells = pair_cells(evidence, Strata.whole(evidence))
    shape = evidence.n_images, len(pair_index(evidence.n_models)[0])
    agreement, iou = np.full(shape, np.nan), np.full(shape, np.nan)
    agreement[cells.image], iou[cells.image] = cells.agreement, cells.iou
    return agreement, iou


def pair_matrix(evidence: ObjectPairs) -> F64:
    """Return (K, K) the mean agreement of two models over the images on which at least one of them
    predicts something.
    """
    one, other = pair_index(evidence.n_models)
    matrix = np.full((evidence.n_models, evidence.n_models), np.nan)
    matrix[one, other] = matrix[other, one] = mean_of_defined(dense_pairs(evidence)[0].T)
    return matrix


def leave_one_out(
    evidence: ObjectPairs, models: tuple[str, ...], metric: str, level: float
) -> ObjectLeaveOneOut:
    """Return a number without each of the models.

    The jackknife's standard error is ``sqrt((K - 1) / K * sum((v_m - mean)^2))`` over the values
    without model m; its interval is a t interval with K - 1 degrees of freedom, cut at 0 and 1. It
    needs three models. Shares of references found by all, some or none have no such interval: with
    one model less they are another quantity, not the same one from less data.
    """
    everyone = np.ones(len(models), np.bool_)
    value = _value_of_models(evidence, metric, everyone)
    if len(models) < FEWEST_MODELS:
        return ObjectLeaveOneOut(
            metric, value, dict.fromkeys(models, NAN), NAN, NAN, NAN, level, "too_few_units"
        )
    without = np.zeros(len(models))
    for m in range(len(models)):
        others = everyone & (np.arange(len(models)) != m)
        without[m] = _value_of_models(evidence, metric, others)
    by_model = dict(zip(models, without.tolist()))
    if metric in SHARES or np.isnan(without).any():
        reason = "not_requested" if metric in SHARES else "no_objects"
        return ObjectLeaveOneOut(metric, value, by_model, NAN, NAN, NAN, level, reason)
    from scipy.special import stdtrit

    n = len(models)
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    half = float(stdtrit(n - 1, (1 + level) / 2)) * error
    low, high = max(0.0, value - half), min(1.0, value + half)
    return ObjectLeaveOneOut(metric, value, by_model, error, low, high, level, None)


def _value_of_models(evidence: ObjectPairs, metric: str, models: NDArray[np.bool_]) -> float:
    """Return a number of some of the models, (K,) flags."""
    if metric in SHARES:
        times, most = evidence.references.by_model[:, models].sum(axis=1), int(models.sum())
        kinds = {"all": times == most, "none": times == 0, "some": (times > 0) & (times < most)}
        return float(kinds[metric.removeprefix("found-by-")].mean()) if len(times) else NAN
    one, other = pair_index(evidence.n_models)
    table = dense_pairs(evidence)[MEANS.index(metric)]
    of_images = mean_of_defined(table[:, models[one] & models[other]])
    return float(mean_of_defined(of_images[None])[0])
