"""Voxel metrics, slow and obvious: one threshold at a time, one voxel at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def bin_of(score: float) -> int:
    """Return the bin of a score: octaves of the distance to the nearer end, each in 1,024 steps."""
    if score in (0.0, 1.0):
        return int(score) * 65535
    distance = score if score < 0.5 else 1.0 - score
    fraction, exponent = math.frexp(
        distance
    )  # distance = fraction * 2 ** exponent, fraction in [.5, 1)
    raw = (exponent + 32) * 1024 + math.floor((2 * fraction - 1) * 1024)
    raw = min(max(raw, 1), 32767)
    return raw if score < 0.5 else 65535 - raw


def histogram(
    scores: Sequence[float], positive: Sequence[bool]
) -> dict[int, tuple[int, int, float, float]]:
    """Return bin -> (positives, negatives, lowest, highest)."""
    members: dict[int, list[tuple[float, bool]]] = {}
    for score, flag in zip(scores, positive):
        members.setdefault(bin_of(score), []).append((score, flag))
    return {
        b: (
            sum(flag for _, flag in found),
            sum(not flag for _, flag in found),
            min(score for score, _ in found),
            max(score for score, _ in found),
        )
        for b, found in sorted(members.items())
    }


def points(scores: Sequence[float], positive: Sequence[bool]) -> list[tuple[float, int, int]]:
    """Return (threshold, TP, FP) of every distinct score, descending."""
    pairs = list(zip(scores, positive))
    return [
        (t, sum(flag for s, flag in pairs if s >= t), sum(not flag for s, flag in pairs if s >= t))
        for t in sorted(set(scores), reverse=True)
    ]


def auroc(scores: Sequence[float], positive: Sequence[bool]) -> float:
    """Return the share of pairs in the right order, ties counting half."""
    high = [s for s, flag in zip(scores, positive) if flag]
    low = [s for s, flag in zip(scores, positive) if not flag]
    if not high or not low:
        return math.nan
    return sum((a > b) + 0.5 * (a == b) for a in high for b in low) / (len(high) * len(low))


def average_precision(scores: Sequence[float], positive: Sequence[bool]) -> float:
    """Return the sum over operating points of precision x recall gained."""
    n, total, before = sum(positive), 0.0, 0
    if not n:
        return math.nan
    for _, tp, fp in points(scores, positive):
        total += (tp - before) / n * tp / (tp + fp)
        before = tp
    return total


def best_overlap(scores: Sequence[float], positive: Sequence[bool]) -> tuple[float, float, float]:
    """Return the best Dice, the best IoU and their threshold, of equal ones the highest."""
    n = sum(positive)
    if not n:
        return math.nan, math.nan, math.nan
    found = [
        (tp / (n + fp), t, 2 * tp / (tp + fp + n)) for t, tp, fp in points(scores, positive) if tp
    ]
    iou, threshold, dice = max(found)
    return dice, iou, threshold


def dice_at_rate(
    scores: Sequence[float], positive: Sequence[bool], limit: float
) -> tuple[float, float]:
    """Return Dice and threshold of the largest set whose false positive rate is within the
    limit.
    """
    n, others = sum(positive), len(positive) - sum(positive)
    if not n or not others:
        return math.nan, math.nan
    allowed = [(t, tp, fp) for t, tp, fp in points(scores, positive) if fp / others <= limit]
    if not allowed:
        return 0.0, math.inf
    threshold, tp, fp = min(allowed)
    return 2 * tp / (tp + fp + n), threshold


def aupro(scores: Sequence[np.ndarray], components: Sequence[np.ndarray], limit: float) -> float:
    """Return the area under the mean overlap of regions up to a false positive rate,
    divided by it.
    """
    regions = [s[c == k] for s, c in zip(scores, components) for k in np.unique(c) if k != 0]
    outside = np.concatenate([s[c == 0] for s, c in zip(scores, components)] or [np.zeros(0)])
    if not regions or not len(outside):
        return math.nan
    thresholds = np.unique(np.concatenate([outside, *regions]))[::-1]
    rates = [0.0, *(float((outside >= t).mean()) for t in thresholds)]
    overlaps = [0.0, *(float(np.mean([(r >= t).mean() for r in regions])) for t in thresholds)]
    area = 0.0
    for k in range(1, len(rates)):
        x0, x1, y0, y1 = rates[k - 1], rates[k], overlaps[k - 1], overlaps[k]
        if x0 >= limit:
            break
        if x1 > limit:
            y1 = y0 + (y1 - y0) * (limit - x0) / (x1 - x0)
            x1 = limit
        area += (x1 - x0) * (y0 + y1) / 2
    return area / limit


def soft_iou(scores: np.ndarray, labels: np.ndarray, k: int, alpha: float, variant: str) -> float:
    """Return the soft overlap of object k: voxel by voxel over the object and the background."""
    py = p = y = fp = fn = 0.0
    for score, label in zip(scores.ravel().tolist(), labels.ravel().tolist()):
        if label not in (0, k):
            continue
        inside = float(label == k)
        py, p, y = py + score * inside, p + score, y + inside
        fp, fn = fp + score * (1 - inside), fn + (1 - score) * inside
    if variant == "tversky":
        return (py + 1e-5) / (alpha * p + (1 - alpha) * y + 1e-5)
    if variant == "jaccard":
        return (py + 1e-5) / (py + 2 * alpha * fp + 2 * (1 - alpha) * fn + 1e-5)
    return alpha * py / (0.5 * p + (1 - alpha) * y)
