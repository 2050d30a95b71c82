"""Agreement of several raters in plain Python: lists of ratings per item, None for no rating."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, permutations, product

Item = Sequence[int | None]
Distance = Callable[[int, int], float]


def given(item: Item) -> list[int]:
    return [rating for rating in item if rating is not None]


def observed(items: Sequence[Item], partial: Distance) -> float:
    """Mean over items of the mean agreement of its pairs."""
    shares = []
    for item in items:
        pairs = list(combinations(given(item), 2))
        if pairs:
            shares.append(sum(partial(a, b) for a, b in pairs) / len(pairs))
    return sum(shares) / len(shares)


def shares(items: Sequence[Item], categories: Sequence[int]) -> list[float]:
    rated = [given(item) for item in items if given(item)]
    return [sum(item.count(k) / len(item) for item in rated) / len(rated) for k in categories]


def fleiss(items: Sequence[Item], categories: Sequence[int], partial: Distance) -> float:
    p = shares(items, categories)
    chance = sum(
        p[k] * p[m] * partial(a, b) for (k, a), (m, b) in product(enumerate(categories), repeat=2)
    )
    return (observed(items, partial) - chance) / (1 - chance)


def gwet(items: Sequence[Item], categories: Sequence[int], partial: Distance) -> float:
    p, q = shares(items, categories), len(categories)
    total = sum(partial(a, b) for a, b in product(categories, repeat=2))
    chance = total / (q * (q - 1)) * sum(x * (1 - x) for x in p)
    return (observed(items, partial) - chance) / (1 - chance)


def conger(items: Sequence[Item], categories: Sequence[int], partial: Distance) -> float:
    """Chance is the mean over pairs of raters of the agreement that their own habits would give."""
    columns = [[rating for rating in column if rating is not None] for column in zip(*items)]
    margins = [[column.count(k) / len(column) for k in categories] for column in columns]
    pairs = list(combinations(margins, 2))
    chance = 0.0
    for first, second in pairs:
        for (k, a), (m, b) in product(enumerate(categories), repeat=2):
            chance += first[k] * second[m] * partial(a, b) / len(pairs)
    return (observed(items, partial) - chance) / (1 - chance)


def alpha(items: Sequence[Item], scale: str) -> float:
    """One minus observed over expected disagreement of pairable ratings,
    each pair in both orders.
    """
    kept = [given(item) for item in items if len(given(item)) >= 2]
    pooled = [rating for item in kept for rating in item]

    def distance(a: int, b: int) -> float:
        if scale == "nominal":
            return float(a != b)
        if scale == "interval":
            return float((a - b) ** 2)
        low, high = min(a, b), max(a, b)
        between = sum(low <= rating <= high for rating in pooled)
        return (between - (pooled.count(a) + pooled.count(b)) / 2) ** 2

    n = len(pooled)
    seen = (
        sum(
            sum(distance(a, b) for a, b in permutations(item, 2)) / (len(item) - 1) for item in kept
        )
        / n
    )
    expected = sum(distance(a, b) for a, b in permutations(pooled, 2)) / (n * (n - 1))
    return 1 - seen / expected
