# SPDX-License-Identifier: Apache-2.0
"""The jackknife over models: a score without each model, and its t interval for other trainings.

K models have K (K - 1) / 2 pairs, but two pairs that share a model are dependent, so the number of
pairs is not a sample size. Leaving out one model at a time (the jackknife) gives K values and
K - 1 degrees of freedom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.results.estimate import number
from calipers.stability.pairs import BagPairs, bag_means, pair_scores
from calipers.stability.scores import SCORES
from calipers.statistics.intervals import MetricScale

F64 = NDArray[np.float64]
NAN = math.nan
FEWEST_MODELS = 3  # leaving one out must leave a pair


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """A score without each model, and its t interval over models; NaN with a reason where there is
    none.

    ``without[k]`` is the mean over bags without model k; ``error`` is sqrt((K - 1) / K sum (without
    - mean)^2); the interval is value -+ t(K - 1) error, on the scale of the score's limits. It
    describes other trainings of the same kind on these bags.
    """

    name: str
    models: tuple[str, ...]
    value: float
    without: tuple[float, ...]
    error: float
    low: float
    high: float
    level: float
    reason: str | None = None

    @property
    def most_different(self) -> str | None:
        """The model without which the score is highest: it agrees least with the others."""
        pairs = [pair for pair in zip(self.without, self.models) if pair[0] == pair[0]]
        return max(pairs)[1] if pairs else None

    def as_dict(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        method = "none" if self.reason else "jackknife-t"
        return {
            "metric": self.name,
            "value": number(self.value),
            "without": {model: number(value) for model, value in zip(self.models, self.without)},
            "error": number(self.error),
            "low": number(self.low),
            "high": number(self.high),
            "level": self.level,
            "method": method,
            "unit": "model",
            "n_units": len(self.models),
            "reason": self.reason,
        }


def leave_one_out(
    evidence: BagPairs,
    name: str,
    threshold_index: int,
    undefined: str,
    models: tuple[str, ...],
    level: float,
) -> LeaveOneOut:
    """Return a score of pairs of models without each model in turn."""
    scores = pair_scores(evidence, name, threshold_index, undefined)
    value = _mean(bag_means(scores))
    if evidence.n_models < FEWEST_MODELS:
        nothing = (NAN,) * evidence.n_models
        return LeaveOneOut(name, models, value, nothing, NAN, NAN, NAN, level, "too_few_units")
    without = []
    for k in range(evidence.n_models):
        without.append(_mean(bag_means(scores[:, evidence.without_model(k)])))
    error = jackknife_error(np.array(without))
    if not math.isfinite(error) or math.isnan(value):
        why = SCORES[name].reason if math.isnan(value) else "too_many_undefined"
        return LeaveOneOut(name, models, value, tuple(without), NAN, NAN, NAN, level, why)
    low, high = _around(value, error, len(without), level, SCORES[name].bounds)
    return LeaveOneOut(name, models, value, tuple(without), error, low, high, level)


def jackknife_error(without: F64) -> float:
    """Return the standard error of an estimate from its K values (K,) without one model each."""
    centred = without - without.mean()
    return float(np.sqrt((len(without) - 1) / len(without) * (centred**2).sum()))


def _around(
    value: float, error: float, n: int, level: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    from scipy.special import stdtrit

    if error == 0.0:  # all models are alike, or all differ alike; on a bound the scale has no slope
        return value, value
    half = float(stdtrit(n - 1, (1 + level) / 2)) * error
    low, high = MetricScale.of(bounds).around(np.array([value]), np.array([half]))
    return float(low[0]), float(high[0])


def _mean(values: F64) -> float:
    defined_values = values[~np.isnan(values)]
    return float(defined_values.mean()) if len(defined_values) else NAN
