"""Pairs of maps in plain Python, by definition: every pair of instances is looked at;
None where undefined.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

Map = Sequence[float]


def pairs_of(n_models: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(n_models) for j in range(i + 1, n_models)]


def midranks(row: Map) -> list[float]:
    return [sum(v < x for v in row) + (sum(v == x for v in row) + 1) / 2 for x in row]


def pearson(x: Map, y: Map) -> float | None:
    if len(set(x)) < 2 or len(set(y)) < 2:
        return None
    a, b = ([Fraction(v) for v in row] for row in (x, y))
    a, b = ([v - sum(row) / len(row) for v in row] for row in (a, b))
    xy, xx, yy = (sum(p * q for p, q in zip(*both)) for both in ((a, b), (a, a), (b, b)))
    return math.copysign(math.sqrt(xy * xy / (xx * yy)), xy)


def spearman(x: Map, y: Map) -> float | None:
    return pearson(midranks(x), midranks(y))


def kendall(x: Map, y: Map) -> tuple[float | None, float | None]:
    """tau-b and tau-a."""
    excess = untied_x = untied_y = total = 0
    for i, j in itertools.combinations(range(len(x)), 2):
        first, second = (x[i] > x[j]) - (x[i] < x[j]), (y[i] > y[j]) - (y[i] < y[j])
        excess += first * second
        untied_x += first != 0
        untied_y += second != 0
        total += 1
    size = math.sqrt(untied_x * untied_y)
    return excess / size if size else None, excess / total if total else None


def joint_counts(maps: Sequence[Map], threshold: float) -> tuple[list[int], list[int], list[int]]:
    """Positives of every map, of every pair, and how many instances are positive in exactly k
    maps.
    """
    positive = [[v >= threshold for v in row] for row in maps]
    called = [sum(column) for column in zip(*positive)]
    both = [sum(a and b for a, b in zip(positive[i], positive[j])) for i, j in pairs_of(len(maps))]
    return [sum(row) for row in positive], both, [called.count(k) for k in range(len(maps) + 1)]
