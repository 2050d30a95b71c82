# SPDX-License-Identifier: Apache-2.0
"""Would the multiverse look alike with other patients? Its shares under bootstrap weights of the
units.

All configurations of a replicate see the same weights, so what a choice does and what chance does
are told apart.
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
    """Percentile intervals over replicates; NaN where too few replicates have a value."""

    wins: tuple[Span, ...]  # of the share of configurations that each model wins
    leads: tuple[
        float, ...
    ]  # share of replicates in which each model wins most configurations; ties share one
    kendall_w: Span
    difference: F64  # (configurations, 2) interval of best - second of the base, by itself
    replicates: int
    seed: int
    unit: str
    n_units: int
    level: float = LEVEL

    def as_dict(self, models: Sequence[str]) -> dict[str, Any]:
        """Return the intervals for JSON output."""
        return {
            "level": self.level,
            "replicates": self.replicates,
            "seed": self.seed,
            "unit": self.unit,
            "n_units": self.n_units,
            "wins": {
                model: [number(low), number(high)] for model, (low, high) in zip(models, self.wins)
            },
            "leads": dict(zip(models, self.leads)),
            "kendall_w": [number(end) for end in self.kendall_w],
        }


def replicated(
    evaluation: Evaluation,
    names: Sequence[str],
    replicates: int,
    seed: int,
    progress: Progress | None = None,
) -> F64 | None:
    """Return (replicates, metrics, models) pooled values of metrics by name; None for too few units
    to draw from.

    Replicates of one seed have the same weights, whatever is evaluated under them.
    """
    cohort, metrics = evaluation.cohort, evaluation.protocol.compile()
    units = units_for(cohort, evaluation.protocol)
    if units.number < FEWEST_UNITS:
        return None
    cases = [
        (m, evaluation.evidence[model, m.recipe.key]) for model in cohort.models for m in metrics
    ]
    total, done = -(-replicates // BLOCK), 0

    def told() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    parts = weighed(cases, bootstrap(units, replicates, seed), told, _pooled)
    place = {name: k for k, name in enumerate(names)}
    found = np.full((replicates, len(names), len(cohort.models)), np.nan)
    for k, ((metric, _), (values,)) in enumerate(zip(cases, parts)):
        columns = [place[name] for name in metric.facts.names]
        found[:, columns, k // len(metrics)] = values
    return found


def _pooled(metric: Metric[Any], evidence: Any, weights: Weights) -> tuple[F64, ...]:
    return (metric.value(evidence, weights)[:, 0, :],)


def robustness(
    values: F64, pair: tuple[int, int], *, seed: int, unit: str, n_units: int
) -> Robustness:
    """Return what replicates (B, configurations, models) say; ``pair`` are the two best models of
    the base.

    In a replicate, configurations in which a model has no value are left out.
    """
    wins, agreement = [], []
    for one in values:
        known = one[~np.isnan(one).any(axis=1)]
        if len(known):
            ranks = rank_analysis.ranks_of(known)
            wins.append(rank_analysis.winners(ranks))
            agreement.append(rank_analysis.kendall_w(ranks))
    shares = np.array(wins).reshape(-1, values.shape[2])
    apart = values[:, :, pair[0]] - values[:, :, pair[1]]
    most = shares == shares.max(axis=1, keepdims=True)
    return Robustness(
        wins=tuple(span(column) for column in shares.T),
        leads=tuple((most / most.sum(axis=1, keepdims=True)).mean(axis=0).tolist()),
        kendall_w=span(np.array(agreement)),
        difference=np.array([span(column) for column in apart.T]),
        replicates=len(values),
        seed=seed,
        unit=unit,
        n_units=n_units,
    )


def span(sample: F64) -> Span:
    """Return the percentile interval of the known values; NaN if fewer than half are known."""
    known = sample[~np.isnan(sample)]
    if 2 * len(known) < len(sample) or not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
