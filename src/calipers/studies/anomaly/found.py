# SPDX-License-Identifier: Apache-2.0
"""The numbers of a run, and how far each metric moves in the direction one would want.

`study.run` creates the `AnomalyRun`; claims, figures and tables read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.studies.anomaly.benchmark import Benchmark
from calipers.studies.anomaly.controlled import ControlledExperiments, Response
from calipers.studies.anomaly.measures import METRICS
from calipers.studies.anomaly.ranking import HumanRanking, OrderAgreement, agreement

F64 = NDArray[np.float64]

MOVES = 0.02  # a change below this is called none
EXACT = 1e-6  # a change below this is rounding
AS_MANY = 4.0  # false objects at which (c) is compared: as many as there are true ones
HALF = 2.0  # objects missed at which (d) is compared: half of them
SIZES = (0.8, 1.2)  # factors of the radius at which (b) is compared with the true size
DESIRED_CHANGES = {
    "a": "rise as small objects are found",
    "b": "lost at 0.8 and 1.2 of the radius, mean",
    "c": "lost with as many false objects as true ones",
    "d": "lost with half of the objects missed",
    "e": "rise as empty samples are added",
}


@dataclass(frozen=True)
class AnomalyRun:
    """The numbers of a run."""

    controlled: ControlledExperiments
    benchmark: Benchmark
    ranking: HumanRanking | None
    seed: int

    def ends(self, experiment: str, metrics: Sequence[str]) -> str:
        """Return "softIoU 0.333 to 0.949 (2D), 0.333 to 0.933 (3D); ...": first and last values."""
        parts = []
        for metric in metrics:
            both = [response.values[metric] for response in self.controlled.of(experiment)]
            words = [f"{v[0]:.3f} to {v[-1]:.3f} ({d})" for v, d in zip(both, ("2D", "3D"))]
            parts.append(f"{metric} {', '.join(words)}")
        return "; ".join(parts)

    def changes(self, experiment: str, metrics: Sequence[str]) -> F64:
        """Return (2, metrics): last minus first value, in 2D and in 3D."""
        responses = self.controlled.of(experiment)
        changes = np.empty((len(responses), len(metrics)))
        for row, response in enumerate(responses):
            changes[row] = [response.change(name) for name in metrics]
        return changes

    def agreements(self, view: str) -> dict[str, OrderAgreement]:
        """Return the agreement of every metric with the ranking by people; {} without a ranking."""
        if self.ranking is None:
            return {}
        names = list(self.ranking.ranks)
        ranks = list(self.ranking.ranks.values())
        return {
            metric: agreement(ranks, self.benchmark.column(view, metric, names))
            for metric in METRICS
        }


def desired_change(response: Response, metric: str) -> float:
    """Return how far a metric moves as one would want under one error; see `DESIRED_CHANGES`."""
    if response.experiment == "b":
        off_size = [response.at(metric, size) for size in SIZES]
        return response.at(metric, 1.0) - float(np.mean(off_size))
    if response.experiment in ("c", "d"):
        strength = AS_MANY if response.experiment == "c" else HALF
        return float(response.values[metric][0]) - response.at(metric, strength)
    return response.change(metric)


def scorecard(run: AnomalyRun, dimensions: str) -> F64:
    """Return (metrics, 5): `desired_change` in the experiments (a) to (e), in 2D or 3D."""
    responses = [run.controlled.responses[name, dimensions] for name in DESIRED_CHANGES]
    table = np.empty((len(METRICS), len(responses)))
    for row, metric in enumerate(METRICS):
        table[row] = [desired_change(response, metric) for response in responses]
    return table


def count_desired_changes(run: AnomalyRun, metric: str) -> int:
    """Return in how many of the five experiments a metric moves as desired, in 2D and in 3D."""
    # A reaction counts only if it is there in 2D and in 3D.
    row = METRICS.index(metric)
    both = [scorecard(run, name)[row] > MOVES for name in ("2D", "3D")]
    return int((both[0] & both[1]).sum())
