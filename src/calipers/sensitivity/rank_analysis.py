# SPDX-License-Identifier: Apache-2.0
"""What the ranks of models under many configurations say: agreement, winners, and which choice
moves them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

MOST_PAIRS = 20_000  # of configurations, for the mean tau


def ranks_of(values: F64) -> F64:
    """Return (n, m) ranks of the models in every configuration: 1 is the highest value, equal ones
    share the mean.
    """
    above = (values[:, None, :] > values[:, :, None]).sum(axis=2)
    equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    return np.asarray(1.0 + above + (equal - 1) / 2.0)


def kendall_w(ranks: F64) -> float:
    """Return Kendall's W, corrected for ties: 1 if all configurations order the models alike, near
    0 if at random.

    NaN for fewer than two configurations or models, or if all ranks are tied.
    """
    m, n = ranks.shape
    if m < 2 or n < 2:
        return float("nan")
    spread = ((ranks.sum(axis=0) - m * (n + 1) / 2.0) ** 2).sum()
    equal = (ranks[:, :, None] == ranks[:, None, :]).sum(axis=2)
    tied = float((equal**2 - 1).sum())  # t^3 - t of every group of t tied models
    bottom = m**2 * (n**3 - n) - m * tied
    return float(12.0 * spread / bottom) if bottom > 0 else float("nan")


def mean_tau(ranks: F64, seed: int = 0) -> float:
    """Return the mean Kendall tau-b over pairs of configurations; of many pairs a random sample.

    Pairs in which one configuration ties all models have no tau and are left out.
    """
    n = len(ranks)
    first, second = np.triu_indices(n, 1)
    if len(first) > MOST_PAIRS:
        drawn = np.random.Generator(np.random.Philox(key=[seed, 0x746175])).choice(
            len(first), MOST_PAIRS, replace=False
        )
        first, second = first[drawn], second[drawn]
    a, b = np.triu_indices(ranks.shape[1], 1)
    order = np.sign(ranks[:, a] - ranks[:, b])  # (n, pairs of models)
    together = (order[first] * order[second]).sum(axis=1)
    untied = (order != 0).sum(axis=1).astype(np.float64)
    size = np.sqrt(untied[first] * untied[second])
    known = size > 0
    return float((together[known] / size[known]).mean()) if known.any() else float("nan")


def explained(outcome: F64, levels: Sequence[str | None]) -> float:
    """Return the share of the variance of an outcome that lies between the levels of one choice:
    eta squared.

    Where a choice has no effect its level is None. Such configurations count in the whole variance,
    but what sets them apart is another choice.
    """
    total = ((outcome - outcome.mean()) ** 2).sum()
    here = np.array([level is not None for level in levels])
    if not total > 0 or not here.any():
        return 0.0
    code = np.unique(
        np.array([level for level in levels if level is not None]), return_inverse=True
    )[1]
    part, n = outcome[here], np.bincount(code)
    mean = np.bincount(code, weights=part) / n
    return float((n * (mean - part.mean()) ** 2).sum() / total)


def winners(ranks: F64) -> F64:
    """Return (n_models,) the share of configurations that each model wins; models that tie share
    one.
    """
    first = ranks == ranks.min(axis=1, keepdims=True)
    return np.asarray((first / first.sum(axis=1, keepdims=True)).mean(axis=0))


def better(values: F64) -> F64:
    """Return (m, m): in which share of configurations the model of the row is better than that of
    the column.
    """
    return np.asarray((values[:, :, None] > values[:, None, :]).mean(axis=0))


def nearest_flip(
    values: F64, configurations: Sequence[Mapping[str, Any]], base: int, pair: tuple[int, int]
) -> int | None:
    """Return the configuration with fewest other choices than the base in which a pair has the
    other order.

    Of several, the one whose numbers lie nearest; None if the order never turns.
    """
    a, b = pair
    turned = np.flatnonzero(
        np.sign(values[:, a] - values[:, b]) == -np.sign(values[base, a] - values[base, b])
    )
    if not len(turned) or values[base, a] == values[base, b]:
        return None

    def distance(k: int) -> tuple[int, float]:
        changes = changes_of(configurations[base], configurations[k])
        return len(changes), sum(
            abs(x - y) for x, y in changes.values() if _number(x) and _number(y)
        )

    return int(min(turned.tolist(), key=distance))


def changes_of(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the choices that two configurations make differently.

    Choices that matter to one of their metrics only came with the metric, and are not counted.
    """
    return {
        name: (one[name], other[name]) for name in one if name in other and one[name] != other[name]
    }


def _number(value: Any) -> bool:
    return isinstance(value, int | float)
