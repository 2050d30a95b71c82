# SPDX-License-Identifier: Apache-2.0
"""Correlations between stability scores over bags: do two scores rank the bags alike?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calipers.errors import UsageError, did_you_mean
from calipers.kernels.pairwise import midranks
from calipers.results.estimate import number

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

METHODS = ("spearman", "pearson")


@dataclass(frozen=True)
class ScoreCorrelation:
    """Correlations of scores over bags, each over the bags on which both are defined.

    A value is NaN where fewer than two bags have both scores or one of them is constant. APJ = AJ /
    (2 - AJ), so the rank correlation of the two is 1 over single pairs: over bags, which are means
    of pairs, it is near 1 for that reason alone.
    """

    method: str
    names: tuple[str, ...]
    values: F64  # (n_names, n_names)
    n: I64  # (n_names, n_names) bags

    def __getitem__(self, pair: tuple[str, str]) -> float:
        """Return the correlation of two scores."""
        for name in pair:
            if name not in self.names:
                raise UsageError(f"no score {name!r}; {did_you_mean(name, self.names)}")
        return float(self.values[self.names.index(pair[0]), self.names.index(pair[1])])

    def as_dict(self) -> dict[str, Any]:
        """Return the table for JSON."""
        values = [list(map(number, row)) for row in self.values.tolist()]
        return {
            "method": self.method,
            "names": list(self.names),
            "values": values,
            "n": self.n.tolist(),
        }


def correlate(names: tuple[str, ...], table: F64, method: str) -> ScoreCorrelation:
    """Return the correlations of the columns of (B, n_names)."""
    if method not in METHODS:
        raise UsageError(f"no correlation {method!r}; {did_you_mean(method, METHODS)}")
    size = len(names)
    values, n = np.full((size, size), np.nan), np.zeros((size, size), np.int64)
    for i in range(size):
        for j in range(i, size):
            n[i, j] = n[j, i] = int((~np.isnan(table[:, i]) & ~np.isnan(table[:, j])).sum())
            values[i, j] = values[j, i] = correlation(table[:, i], table[:, j], method)
    return ScoreCorrelation(method, names, values, n)


def correlation(first: F64, second: F64, method: str = "spearman") -> float:
    """Return the correlation of two columns over the bags on which both are defined.

    NaN for fewer than two such bags, or if a column is constant on them.
    """
    defined = ~np.isnan(first) & ~np.isnan(second)
    pair = np.stack([first[defined], second[defined]])
    if pair.shape[1] < 2 or (pair == pair[:, :1]).all(axis=1).any():
        return float("nan")
    if method == "spearman":
        pair = midranks(pair)
    centred = pair - pair.mean(axis=1, keepdims=True)
    size = np.sqrt((centred**2).sum(axis=1))
    if not size.all():  # differences so small that their squares are 0
        return float("nan")
    # rounding may lead beyond -1 or 1
    return float(np.clip((centred[0] * centred[1]).sum() / (size[0] * size[1]), -1.0, 1.0))
