# SPDX-License-Identifier: Apache-2.0
"""Bootstrap intervals of a multiverse: would it look the same with other patients?

All configurations of a bootstrap sample see the same weights of the units (patients or images), so
that the effect of a choice is kept apart from the effect of chance. `multiverse` calls
`replicate_values`, then `robustness`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.estimation import units_for
from calipers.evaluation import Evaluation
from calipers.metrics.contract import Metric
from calipers.results.estimate import number
from calipers.sensitivity import rank_analysis
from calipers.statistics.estimates import weighed
from calipers.statistics.intervals import FEWEST_UNITS
from calipers.statistics.weights import BLOCK, Weights, bootstrap

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Progress = Callable[[int, int], None]
Span = tuple[float, float]

LEVEL = 0.95


@dataclass(frozen=True)
class Robustness:
    """Percentile intervals over bootstrap samples; NaN where too few samples have a value."""

    wins: tuple[Span, ...]  # of the share of configurations that each model wins
    # Share of bootstrap samples in which each model wins most configurations; t tied models get
    # 1/t each.
    leads: tuple[float, ...]
    kendall_w: Span
    difference: F64  # (configurations, 2) pointwise interval of best - second of the base
    replicates: int
    seed: int
    unit: str
    n_units: int
    level: float = LEVEL

    def as_dict(self, models: Sequence[str]) -> dict[str, Any]:
        """Return the intervals for JSON output."""
        wins = {model: [number(low), number(high)] for model, (low, high) in zip(models, self.wins)}
        return {
            "level": self.level,
            "replicates": self.replicates,
            "seed": self.seed,
            "unit": self.unit,
            "n_units": self.n_units,
            "wins": wins,
            "leads": dict(zip(models, self.leads)),
            "kendall_w": [number(end) for end in self.kendall_w],
        }


def replicate_values(
    evaluation: Evaluation,
    names: Sequence[str],
    replicates: int,
    seed: int,
    progress: Progress | None = None,
) -> F64 | None:
    """Return (replicates, metrics, models) pooled values of the named metrics.

    None if there are too few units to resample. The weights depend on the seed only, not on what is
    evaluated, so that parts of a multiverse can be resampled one by one.
    """
    cohort, metrics = evaluation.cohort, evaluation.protocol.compile()
    units = units_for(cohort, evaluation.protocol)
    if units.number < FEWEST_UNITS:
        return None
    cases = [
        (m, evaluation.evidence[model, m.recipe.key]) for model in cohort.models for m in metrics
    ]
    total, count = -(-replicates // BLOCK), 0

    def report_block() -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(count, total)

    parts = weighed(cases, bootstrap(units, replicates, seed), report_block, _pooled_values)
    column_of = {name: k for k, name in enumerate(names)}
    table = np.full((replicates, len(names), len(cohort.models)), np.nan)
    for k, ((metric, _), (values,)) in enumerate(zip(cases, parts)):
        columns = [column_of[name] for name in metric.facts.names]
        model = k // len(metrics)  # cases go model by model
        table[:, columns, model] = values
    return table


def _pooled_values(metric: Metric[Any], evidence: Any, weights: Weights) -> tuple[F64, ...]:
    return (metric.value(evidence, weights)[:, 0, :],)


def robustness(
    values: F64, pair: tuple[int, int], *, seed: int, unit: str, n_units: int
) -> Robustness:
    """Return the intervals of bootstrap values (B, configurations, models).

    ``pair`` are the two best models of the base. Within a bootstrap sample, configurations in which
    a model has no value are left out.
    """
    wins, agreement = [], []
    for sample in values:
        complete = sample[~np.isnan(sample).any(axis=1)]
        if len(complete):
            ranks = rank_analysis.ranks_of(complete)
            wins.append(rank_analysis.winners(ranks))
            agreement.append(rank_analysis.kendall_w(ranks))
    shares = np.array(wins).reshape(-1, values.shape[2])
    difference = values[:, :, pair[0]] - values[:, :, pair[1]]
    leaders = shares == shares.max(axis=1, keepdims=True)
    return Robustness(
        wins=tuple(span(column) for column in shares.T),
        leads=tuple((leaders / leaders.sum(axis=1, keepdims=True)).mean(axis=0).tolist()),
        kendall_w=span(np.array(agreement)),
        difference=np.array([span(column) for column in difference.T]),
        replicates=len(values),
        seed=seed,
        unit=unit,
        n_units=n_units,
    )


def span(sample: F64) -> Span:
    """Return the percentile interval of the defined values; NaN if fewer than half are defined."""
    values = sample[~np.isnan(sample)]
    if 2 * len(values) < len(sample) or not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
