# SPDX-License-Identifier: Apache-2.0
"""Analyse the ranks of models under many configurations: agreement, winners, and which choice moves
them.

All functions take arrays of shape (configurations, models). The multiverse and its bootstrap call
them.
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
    """Return (n, m) ranks of the models in every configuration.

    The highest value has rank 1; tied models share the mean of their ranks.
    """
    above = (values[:, None, :] > values[:, :, None]).sum(axis=2)
    equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    return np.asarray(1.0 + above + (equal - 1) / 2.0)


def kendall_w(ranks: F64) -> float:
    """Return Kendall's W, corrected for ties: 1 if all configurations agree, near 0 at random.

    NaN for fewer than two configurations or models, or if all ranks are tied.
    """
    m, n = ranks.shape
    if m < 2 or n < 2:
        return float("nan")
    deviation = ((ranks.sum(axis=0) - m * (n + 1) / 2.0) ** 2).sum()
    # Each of t tied models has t equal ranks: the sum of t^2 - 1 over them is t^3 - t, the usual
    # correction of a group of ties.
    equal = (ranks[:, :, None] == ranks[:, None, :]).sum(axis=2)
    ties = float((equal**2 - 1).sum())
    maximum = m**2 * (n**3 - n) - m * ties
    if maximum <= 0:
        return float("nan")
    return float(12.0 * deviation / maximum)


def mean_tau(ranks: F64, seed: int = 0) -> float:
    """Return the mean Kendall tau-b over pairs of configurations, or over a random sample of them.

    Pairs in which one configuration ties all models have no tau and are left out.
    """
    n = len(ranks)
    first, second = np.triu_indices(n, 1)
    if len(first) > MOST_PAIRS:
        generator = np.random.Generator(np.random.Philox(key=[seed, 0x746175]))  # "tau" in ASCII
        sample = generator.choice(len(first), MOST_PAIRS, replace=False)
        first, second = first[sample], second[sample]
    a, b = np.triu_indices(ranks.shape[1], 1)
    order = np.sign(ranks[:, a] - ranks[:, b])  # (n, pairs of models)
    concordance = (order[first] * order[second]).sum(axis=1)
    untied = (order != 0).sum(axis=1).astype(np.float64)
    size = np.sqrt(untied[first] * untied[second])
    defined = size > 0
    if not defined.any():
        return float("nan")
    return float((concordance[defined] / size[defined]).mean())


def explained(outcome: F64, levels: Sequence[str | None]) -> float:
    """Return eta squared: the share of an outcome's variance between the levels of one choice.

    The level is None where the choice has no effect. Such configurations count in the total
    variance, but not between levels: what sets them apart is another choice.
    """
    total = ((outcome - outcome.mean()) ** 2).sum()
    effective = np.array([level is not None for level in levels])
    if not total > 0 or not effective.any():
        return 0.0
    names = np.array([level for level in levels if level is not None])
    code = np.unique(names, return_inverse=True)[1]
    part, n = outcome[effective], np.bincount(code)
    mean = np.bincount(code, weights=part) / n
    return float((n * (mean - part.mean()) ** 2).sum() / total)


def winners(ranks: F64) -> F64:
    """Return (n_models,) the share of configurations that each model wins; t tied winners get 1/t
    each.
    """
    first = ranks == ranks.min(axis=1, keepdims=True)
    return np.asarray((first / first.sum(axis=1, keepdims=True)).mean(axis=0))


def better(values: F64) -> F64:
    """Return (m, m): the share of configurations in which the row's model beats the column's."""
    return np.asarray((values[:, :, None] > values[:, None, :]).mean(axis=0))


def nearest_flip(
    values: F64, configurations: Sequence[Mapping[str, Any]], base: int, pair: tuple[int, int]
) -> int | None:
    """Return the configuration with the fewest changes from the base that reverses a pair.

    Of several, the one whose numbers lie nearest to those of the base; None if the order never
    reverses.
    """
    a, b = pair
    sign = np.sign(values[:, a] - values[:, b])
    reversals = np.flatnonzero(sign == -sign[base])
    if not len(reversals) or values[base, a] == values[base, b]:
        return None

    def distance(k: int) -> tuple[int, float]:
        changes = changes_of(configurations[base], configurations[k])
        numbers = [(x, y) for x, y in changes.values() if _is_number(x) and _is_number(y)]
        return len(changes), sum(abs(x - y) for x, y in numbers)

    return int(min(reversals.tolist(), key=distance))


def changes_of(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the choices that two configurations make differently.

    A choice that only one of them has came with its metric, and does not count.
    """
    shared = [name for name in one if name in other]
    return {name: (one[name], other[name]) for name in shared if one[name] != other[name]}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
