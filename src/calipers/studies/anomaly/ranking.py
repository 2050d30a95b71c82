# SPDX-License-Identifier: Apache-2.0
"""A ranking of algorithms by people, read from a file, and the agreement of orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import InputError, did_you_mean, raise_problems
from calipers.readers.delimited import read_table
from calipers.readers.source import open_source
from calipers.readers.tabular import Table, numbers, texts
from calipers.statistics.ranks import kendall_tau_b

F64 = NDArray[np.float64]

COLUMNS = ("algorithm", "rank")
FEWEST = 3  # algorithms: with two a correlation is 1 or -1


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
    source = open_source(fspath(path))
    table = read_table(source)
    raise_problems([problem.as_error(table.file) for problem in table.problems])
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
    entry = {"file": source.file, "bytes": source.size, "sha256": source.sha256}
    return HumanRanking(Path(table.file).name, dict(zip(names, ranks.tolist())), entry)


def _ranks(table: Table) -> F64:
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


def _check_names(table: Table, names: Sequence[str], algorithms: Sequence[str]) -> None:
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
    >>> from calipers.studies.anomaly.ranking import agreement
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
