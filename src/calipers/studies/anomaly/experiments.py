# SPDX-License-Identifier: Apache-2.0
"""The numbers that a run of the study of anomaly maps gives, and rankings by people.

`AnomalyRun` puts together the controlled experiments (`calipers.studies.anomaly.controlled`), the
benchmark on brains (`calipers.studies.anomaly.archive`) and a ranking of its algorithms by people,
which `read_ranking` reads from a file; claims, figures and tables take it. Every test set of the
benchmark is evaluated in three views: as volumes, as all their slices, and as only those slices
that contain a part of a sphere, which are the ones that the raters of the paper saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from calipers.arrays import F64
from calipers.errors import InputError, did_you_mean, raise_problems
from calipers.io.tables.table import FileTable, numbers, open_table, texts
from calipers.statistics.ranks import kendall_tau_b
from calipers.studies.anomaly.archive import Benchmark
from calipers.studies.anomaly.controlled import (
    AS_MANY,
    MOVES,
    RULES,
    ControlledExperiments,
    Response,
)
from calipers.studies.anomaly.measures import METRICS

COLUMNS = ("algorithm", "rank")
FEWEST = 3  # algorithms: with two a correlation is 1 or -1

HALF = RULES.limit("half")  # objects missed at which (d) is compared
SIZES = (0.8, 1.2)  # factors of the radius at which (b) is compared with the true size
DESIRED_CHANGES = {
    "a": "rise as small objects are found",
    "b": "lost at 0.8 and 1.2 of the radius, mean",
    "c": "lost with as many false objects as true ones",
    "d": "lost with half of the objects missed",
    "e": "rise as empty samples are added",
}


@dataclass(frozen=True)
class HumanRanking:
    """Ranks of algorithms, 1 for the best; equal ranks are allowed."""

    file: str  # its name, without folders
    ranks: Mapping[str, float]
    entry: Mapping[str, Any]  # file, bytes, sha256


@dataclass(frozen=True, slots=True)
class OrderAgreement:
    """Rank correlation of two orders; NaN if one of them ties everything."""

    tau: float  # Kendall's tau-b
    rho: float  # Spearman's rho, equal values share their mean rank
    n: int


def read_ranking(path: str | PathLike[str], algorithms: Sequence[str]) -> HumanRanking:
    """Read a table with the columns ``algorithm`` and ``rank``.

    ``algorithms`` are those that ran. At least three of them must be ranked, and no other one.
    """
    table = open_table(fspath(path))
    for column in COLUMNS:
        if column not in table.columns:
            raise InputError(
                "the columns algorithm and rank",
                rule="missing-column",
                file=table.file,
                value=list(table.names),
            )
    names, ranks = texts(table, "algorithm"), _ranks(table)
    _check_names(table, names, algorithms)
    if len(names) < FEWEST:
        raise InputError(
            f"ranks of at least {FEWEST} algorithms",
            rule="too-few-rows",
            file=table.file,
            value=len(names),
        )
    intake = table.intake("ranking", ())
    entry = {"file": intake.file, "bytes": intake.bytes, "sha256": intake.sha256}
    return HumanRanking(Path(table.file).name, dict(zip(names, ranks.tolist())), entry)


def _ranks(table: FileTable) -> F64:
    values, problems = numbers(table, "rank")
    raise_problems([problem.as_error(table.file) for problem in problems.values()])
    # NaN fails the comparison, so empty cells are reported as well.
    for row in np.flatnonzero(~(values >= 1) | ~np.isfinite(values)).tolist():
        at = table.locate(int(table.lines[row]), "rank")
        value = table.columns["rank"][row]
        raise InputError(
            "a rank of 1 or more",
            rule="range",
            file=table.file,
            location=at,
            field="rank",
            value=value,
        )
    return values


def _check_names(table: FileTable, names: Sequence[str], algorithms: Sequence[str]) -> None:
    for row, name in enumerate(names):
        at = table.locate(int(table.lines[row]), "algorithm")
        if name not in algorithms:
            raise InputError(
                "an algorithm that ran",
                rule="choice",
                file=table.file,
                location=at,
                value=name,
                hint=did_you_mean(name, algorithms),
            )
        if name in names[:row]:
            raise InputError(
                "one rank per algorithm", rule="dup-row", file=table.file, location=at, value=name
            )


def agreement(ranks: Sequence[float], values: Sequence[float]) -> OrderAgreement:
    """Return the rank correlation of ranks (small is good) and metric values (large is good).

    Examples
    --------
    >>> from calipers.studies.anomaly.experiments import agreement
    >>> agreement([1, 2, 3], [0.9, 0.5, 0.7])
    OrderAgreement(tau=0.333..., rho=0.5, n=3)
    """
    one, other = np.asarray(ranks, np.float64), -np.asarray(values, np.float64)
    if np.isnan(other).any():
        return OrderAgreement(float("nan"), float("nan"), len(one))
    return OrderAgreement(
        float(kendall_tau_b(one, other[None])[0]), _spearman(one, other), len(one)
    )


def _spearman(one: F64, other: F64) -> float:
    from scipy.stats import rankdata

    # Ranks minus their mean, which is (n + 1) / 2 with or without ties.
    x, y = (rankdata(values) - (len(values) + 1) / 2 for values in (one, other))
    norm = float(np.sqrt((x**2).sum() * (y**2).sum()))
    return float((x * y).sum() / norm) if norm > 0 else float("nan")


def tau_between(columns: Mapping[str, Sequence[float]]) -> F64:
    """Return (m, m): tau-b between the orders that the metrics give."""
    table = np.array(list(columns.values()), np.float64)
    return np.stack([kendall_tau_b(row, table) for row in table])


@dataclass(frozen=True)
class AnomalyRun:
    """The numbers of a run."""

    controlled: ControlledExperiments
    benchmarks: tuple[Benchmark, ...]  # T1 first, which a ranking by people is about
    ranking: HumanRanking | None
    seed: int
    no_brains: str = ""  # why figures show maps without the brains behind them

    @property
    def ranked(self) -> Benchmark:
        """The setting that a ranking by people is about."""
        return self.benchmarks[0]

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
            metric: agreement(ranks, self.ranked.column(view, metric, names)) for metric in METRICS
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
