"""Resampling by hand: draws one at a time, sums one object at a time,
intervals one formula at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

EPS = np.spacing(1)


def draws(seed: int, replicate: int, n: int) -> np.ndarray:
    """Return how often each of n units is drawn in a replicate."""
    random = np.random.Generator(np.random.Philox(key=np.array([seed, replicate], np.uint64)))
    return np.bincount(random.integers(0, n, n), minlength=n)


def two_level(parent: Sequence[int], random: np.random.Generator) -> list[int]:
    """Return how often each unit is drawn if parents are drawn, each with all its units."""
    names = sorted(set(parent))
    drawn = [names[random.integers(len(names))] for _ in names]
    return [drawn.count(own) for own in parent]


def every_swap(n: int) -> set[tuple[int, ...]]:
    """Return all ways in which n units trade places or not."""
    return set(product((0, 1), repeat=n))


def repeated(weights: Sequence[int]) -> np.ndarray:
    """Return every position as often as its weight says, copies side by side."""
    return np.repeat(np.arange(len(weights)), weights)


def average_precision(
    predictions: Sequence[tuple[float, bool, int]],
    positives: int,
    recalls: int,
    *,
    blocks: bool,
    enveloped: bool,
) -> float:
    """Return the AP of one class from (score, is a hit, weight) of the counted predictions,
    in input order.
    """
    if positives == 0:
        return math.nan
    ordered = sorted((p for p in predictions if p[2]), key=lambda p: -p[0])
    points, hits, every = [], 0, 0
    for k, (score, hit, weight) in enumerate(ordered):
        copies = [weight] if blocks else [1] * weight
        for copy in copies:
            hits, every = hits + copy * hit, every + copy
            last = k + 1 == len(ordered) or ordered[k + 1][0] != score
            if last or not blocks:
                points.append((hits, hits / (every + EPS)))
    if recalls:
        wanted = np.linspace(0.0, 1.0, recalls).tolist()
        best = [
            max((p for j, p in points if j > 0 and j / positives >= recall), default=0.0)
            for recall in wanted
        ]
        return math.fsum(best) / recalls
    total, before = [], 0
    for k, (hits, precision) in enumerate(points):
        height = max(p for _, p in points[k:]) if enveloped else precision
        total.append(height * (hits - before))
        before = hits
    return math.fsum(total) / positives


def hits_at(predictions: Sequence[tuple[float, bool, int]], allowed: float) -> int:
    """Return the most hits at a score, from there on upwards, with at most so many false alarms;
    0 for no score.
    """
    best = 0
    for cut in {score for score, _, _ in predictions}:
        taken = [(hit, weight) for score, hit, weight in predictions if score >= cut]
        if sum(weight for hit, weight in taken if not hit) <= allowed:
            best = max(best, sum(weight for hit, weight in taken if hit))
    return best


def recalls_reached(hits: int, positives: int, n: int) -> int:
    """Return how many of n evenly spaced recalls are at most hits / positives."""
    return int((np.linspace(0.0, 1.0, n) <= hits / positives).sum())


def level_sum(values: Sequence[float], counts: Sequence[int]) -> float:
    """Return the sum of value x count, equal neighbours put together, from the last one on."""
    levels: list[list[float]] = []
    for value, count in zip(reversed(values), reversed(counts)):
        if levels and levels[-1][0] == value:
            levels[-1][1] += count
        else:
            levels.append([value, count])
    total = 0.0
    for value, count in levels:
        total += value * count
    return total


def totals(
    fates: np.ndarray, label: Sequence[int], weight: Sequence[int], n_classes: int
) -> np.ndarray:
    """Return (V, 2, K): the weight of the hits (fate 1) and of everything counted (fate not 0)."""
    found = np.zeros((len(fates), 2, n_classes), np.int64)
    for view, row in enumerate(fates):
        for fate, own, w in zip(row, label, weight):
            found[view, 0, own] += w * (fate == 1)
            found[view, 1, own] += w * (fate != 0)
    return found


def bca(
    theta: float, replicates: Sequence[float], jackknife: Sequence[float], level: float
) -> tuple[float, float]:
    """Return the bias-corrected and accelerated interval as Efron and Tibshirani (1993,
    chapter 14) write it.
    """
    from scipy.stats import norm

    below = sum((t < theta) + 0.5 * (t == theta) for t in replicates) / len(replicates)
    mean = sum(jackknife) / len(jackknife)
    cubes, squares = (
        sum((mean - t) ** 3 for t in jackknife),
        sum((mean - t) ** 2 for t in jackknife),
    )
    z0, a = norm.ppf(below), cubes / (6 * squares**1.5)
    at = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        z = z0 + norm.ppf(tail)
        at.append(norm.cdf(z0 + z / (1 - a * z)))
    low, high = np.quantile(replicates, at)
    return float(low), float(high)


def ratio_error(top: Sequence[float], bottom: Sequence[float]) -> float:
    """Return the standard error of sum(top) / sum(bottom) over independent units,
    to first order.
    """
    n, total = len(top), sum(bottom)
    ratio = sum(top) / total
    residuals = [a - ratio * b for a, b in zip(top, bottom)]
    return math.sqrt(n / (n - 1) * sum(r * r for r in residuals)) / total
