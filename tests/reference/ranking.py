"""Average precision, average recall, FROC and counts from fates, by walking through the
predictions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from reference.matching import Fates
from reference.plain import Thing

Point = tuple[float, float]


def operating_points(entries: Sequence[tuple[float, bool]], n: int, ties: str) -> list[Point]:
    """Return (recall, precision) after every prediction, or after every run of equal scores."""
    ordered = sorted(entries, key=lambda entry: -entry[0])
    points, hits = [], 0
    for k, (score, hit) in enumerate(ordered, start=1):
        hits += hit
        if ties == "block" and k < len(ordered) and ordered[k][0] == score:
            continue
        points.append((hits / n, hits / k))
    return points


def average_precision(
    entries: Sequence[tuple[float, bool]], n: int, interpolation: str, ties: str
) -> float:
    """Return the AP of one class from (score, is a hit) of its counted predictions; NaN without
    references.
    """
    if n == 0:
        return math.nan
    points = operating_points(entries, n, "block" if interpolation == "tie-aware" else ties)
    if interpolation in ("coco101", "voc11"):
        recalls = np.linspace(0, 1, 101 if interpolation == "coco101" else 11).tolist()
        best = [
            max((p for r, p in points if r >= wanted and r > 0), default=0.0) for wanted in recalls
        ]
        return sum(best) / len(best)
    total, before = 0.0, 0.0
    for k, (recall, precision) in enumerate(points):
        if interpolation == "every-point":
            precision = max(p for _, p in points[k:])
        total += (recall - before) * precision
        before = recall
    return total


def froc(
    entries: Sequence[tuple[float, bool]], n: int, n_images: int, rates: Sequence[float]
) -> float:
    """Return the mean over rates of the best sensitivity with at most that many false alarms per
    image.
    """
    if n == 0:
        return math.nan
    ordered = sorted(entries, key=lambda entry: -entry[0])
    found = []
    for rate in rates:
        best, hits, alarms = 0, 0, 0
        for k, (score, hit) in enumerate(ordered):
            hits, alarms = hits + hit, alarms + (not hit)
            last = k + 1 == len(ordered) or ordered[k + 1][0] != score
            if last and alarms <= rate * n_images:
                best = max(best, hits)
        found.append(best / n)
    return sum(found) / len(found)


def entries_of(
    predictions: Sequence[Thing], fates: Fates, label: int | None
) -> list[tuple[float, bool]]:
    """Return (score, is a hit) of the counted predictions of a class, or of all."""
    return [
        (p.score, fates.prediction[p.row] == "hit")
        for p in predictions
        if fates.prediction[p.row] != "ignored" and label in (None, p.label)
    ]


def positives(references: Sequence[Thing], fates: Fates, label: int | None) -> int:
    """Return the number of counted references."""
    return sum(fates.reference[r.row] != "ignored" and label in (None, r.label) for r in references)


def counts(
    references: Sequence[Thing],
    predictions: Sequence[Thing],
    fates: Fates,
    n_images: int,
    label: int,
) -> tuple[int, int, int, int]:
    """Return TP, FP, FN, TN of a class; true negatives are images with neither."""
    hits = [p for p in predictions if p.label == label and fates.prediction[p.row] == "hit"]
    alarms = [
        p
        for p in predictions
        if p.label == label and fates.prediction[p.row] in ("false alarm", "duplicate")
    ]
    missed = [r for r in references if r.label == label and fates.reference[r.row] == "missed"]
    there = [r for r in references if r.label == label and fates.reference[r.row] != "ignored"]
    busy = {thing.image for thing in [*hits, *alarms, *there]}
    return len(hits), len(alarms), len(missed), n_images - len(busy)


def mean_defined(values: Sequence[float]) -> float:
    """Return the mean of the values that are not NaN."""
    defined = [value for value in values if not math.isnan(value)]
    return sum(defined) / len(defined) if defined else math.nan
