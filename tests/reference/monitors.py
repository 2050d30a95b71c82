"""Slow, obvious twins of what is measured of monitors: lists, loops and all orders of ties."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations


def repeated(values: Sequence[float], weights: Sequence[int]) -> list[float]:
    """Return every value as often as its weight says."""
    return [value for value, weight in zip(values, weights) for _ in range(weight)]


def auroc(alarm: Sequence[float], wanted: Sequence[bool]) -> float:
    """Return the share of pairs in the right order."""
    bad = [a for a, w in zip(alarm, wanted) if w]
    good = [a for a, w in zip(alarm, wanted) if not w]
    right = sum(1.0 if b > g else 0.5 if b == g else 0.0 for b in bad for g in good)
    return right / (len(bad) * len(good))


def counts(
    alarm: Sequence[float], wanted: Sequence[bool], threshold: float
) -> tuple[int, int, int, int]:
    """Return TP, FP, FN, TN if all images from a threshold on are rejected."""
    tp = sum(a >= threshold and w for a, w in zip(alarm, wanted))
    fp = sum(a >= threshold and not w for a, w in zip(alarm, wanted))
    return tp, fp, sum(wanted) - tp, len(wanted) - sum(wanted) - fp


def aupr(alarm: Sequence[float], wanted: Sequence[bool]) -> float:
    """Return the sum of precision times step of recall."""
    area, before = 0.0, 0
    for threshold in sorted(set(alarm), reverse=True):
        tp, fp, _, _ = counts(alarm, wanted, threshold)
        area += (tp - before) / sum(wanted) * tp / (tp + fp)
        before = tp
    return area


def fpr_at_tpr(alarm: Sequence[float], wanted: Sequence[bool], least: float = 0.95) -> float:
    """Return the smallest FPR over the thresholds that reject at least this share of the wanted
    images.
    """
    found = []
    for threshold in set(alarm):
        tp, fp, fn, tn = counts(alarm, wanted, threshold)
        if tp / (tp + fn) >= least:
            found.append(fp / (fp + tn))
    return min(found)


def best_f1(alarm: Sequence[float], wanted: Sequence[bool]) -> float:
    """Return the largest F1 over the thresholds."""
    found = []
    for threshold in set(alarm):
        tp, fp, fn, _ = counts(alarm, wanted, threshold)
        found.append(2 * tp / (2 * tp + fp + fn))
    return max(found)


def aurc_of_order(losses: Sequence[float]) -> float:
    """Return the mean risk over all coverages, images being accepted in this order."""
    return sum(sum(losses[: k + 1]) / (k + 1) for k in range(len(losses))) / len(losses)


def augrc_of_order(losses: Sequence[float]) -> float:
    """Return the mean generalised risk over all coverages."""
    n = len(losses)
    return sum(sum(losses[: k + 1]) / n for k in range(n)) / n


def over_all_orders(alarm: Sequence[float], losses: Sequence[float], area: object) -> float:
    """Return the mean of an area over all orders of the images that agree with the alarm scores."""
    assert callable(area)
    orders = [
        order for order in permutations(range(len(alarm))) if _rising([alarm[k] for k in order])
    ]
    return float(sum(area([losses[k] for k in order]) for order in orders) / len(orders))


def best_aurc(losses: Sequence[float]) -> float:
    """Return the smallest area that any order has."""
    return aurc_of_order(sorted(losses))


def mean_f1(
    hits: Sequence[Sequence[int]],
    said: Sequence[Sequence[int]],
    real: Sequence[Sequence[int]],
    classes: str,
) -> list[float]:
    """Return the score of every image from its counts per class."""
    found = []
    for h, d, x in zip(hits, said, real):
        if classes == "micro":
            h, d, x = [sum(h)], [sum(d)], [sum(x)]
        each = [2 * a / (b + c) if b + c else 1.0 for a, b, c in zip(h, d, x)]
        kept = [value for value, b, c in zip(each, d, x) if classes != "present" or b + c]
        found.append(sum(kept) / len(kept) if kept else 1.0)
    return found


def _rising(values: Sequence[float]) -> bool:
    return all(a <= b for a, b in pairwise(values))
