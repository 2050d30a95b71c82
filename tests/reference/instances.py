"""Panoptic quality, instance F1, IoU and distance, and case-level AUROC from fates, by looking at
every object.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from reference.matching import Fates, Similarity
from reference.plain import Thing


def hit_similarities(
    references: Sequence[Thing],
    predictions: Sequence[Thing],
    fates: Fates,
    similarity: Similarity,
    label: int | None,
) -> dict[int, float]:
    """Return reference row -> similarity of the prediction that hits it."""
    return {
        fates.partner[p.row]: similarity(references[fates.partner[p.row]], p)
        for p in predictions
        if fates.prediction[p.row] == "hit" and label in (None, p.label)
    }


def tallies(
    references: Sequence[Thing],
    predictions: Sequence[Thing],
    fates: Fates,
    label: int | None,
    image: int | None = None,
) -> tuple[int, int, int]:
    """Return TP, FP, FN of a class or of all, on an image or on all."""

    def among(things: Sequence[Thing], said: dict[int, str], *words: str) -> int:
        chosen = [t for t in things if label in (None, t.label) and image in (None, t.image)]
        return sum(said[thing.row] in words for thing in chosen)

    hits = among(predictions, fates.prediction, "hit")
    alarms = among(predictions, fates.prediction, "false alarm", "duplicate")
    return hits, alarms, among(references, fates.reference, "missed")


def panoptic(
    hits: int, alarms: int, missed: int, similarities: Sequence[float]
) -> tuple[float, float, float]:
    """Return PQ, SQ, RQ."""
    if hits + alarms + missed == 0:
        return math.nan, math.nan, math.nan
    recognition = hits / (hits + alarms / 2 + missed / 2)
    if not hits:
        return 0.0, math.nan, 0.0
    segmentation = sum(similarities) / hits
    return segmentation * recognition, segmentation, recognition


def f1_of(hits: int, alarms: int, missed: int) -> float:
    """Return F1; 1 if there is nothing on either side."""
    return 2 * hits / (2 * hits + alarms + missed) if hits + alarms + missed else 1.0


def summary(values: Sequence[float], how: str) -> float:
    """Return mean or median; NaN of nothing."""
    if not values:
        return math.nan
    return statistics.median(values) if how == "median" else sum(values) / len(values)


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Return the share of pairs in the right order, ties counting half; NaN without a pair."""
    if not positive or not negative:
        return math.nan
    right = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    return right / (len(positive) * len(negative))
