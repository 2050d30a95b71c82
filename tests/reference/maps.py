"""The whole evaluation of maps on dense arrays: every threshold is tried,
every object is an array of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import ndimage

from reference.instances import f1_of

Array = Any
RANK = {"faces": 1, "edges": 2, "full": 3}
EPSILON = 1e-5


@dataclass(frozen=True)
class Settings:
    """The choices of the table ``[maps]``."""

    threshold: float | str = 0.5
    connectivity: str = "full"
    least: int = 1
    score: str = "max"
    slices: str = "z"
    batch: int = 2
    instances: bool = False


@dataclass(frozen=True)
class Case:
    """A sample of one model: scores and labels of one shape."""

    scores: Array
    labels: Array
    groups: dict[str, str] = field(default_factory=dict)

    @property
    def positive(self) -> Array:
        return self.labels != 0


def objects(mask: Array, connectivity: str) -> list[Array]:
    """The connected components of a mask, as masks, in the order of their first voxels."""
    structure = ndimage.generate_binary_structure(mask.ndim, min(RANK[connectivity], mask.ndim))
    found, n = ndimage.label(mask, structure)
    return [found == k for k in range(1, n + 1)]


def references(case: Case, settings: Settings) -> list[Array]:
    if settings.instances:
        return [case.labels == value for value in np.unique(case.labels) if value]
    return objects(case.positive, settings.connectivity)


def predictions(case: Case, settings: Settings, threshold: float) -> list[Array]:
    found = objects(case.scores >= threshold, settings.connectivity)
    return [mask for mask in found if mask.sum() >= settings.least]


def score(case: Case, mask: Array, settings: Settings) -> float:
    inside = case.scores[mask].astype(float)
    return float(inside.max() if settings.score == "max" else inside.mean())


def points(scores: Array, positive: Array) -> list[tuple[float, int, int]]:
    """Threshold, hits and false alarms of every distinct score, from the highest one down."""
    values = np.unique(scores)[::-1]
    return [
        (float(v), int(((scores >= v) & positive).sum()), int(((scores >= v) & ~positive).sum()))
        for v in values
    ]


def average_precision(scores: Array, positive: Array) -> float:
    n = int(positive.sum())
    if not n:
        return math.nan
    total, before = 0.0, 0
    for _, hits, alarms in points(scores, positive):
        total += (hits - before) / n * (hits / (hits + alarms) if hits else 0.0)
        before = hits
    return total


def auroc(scores: Array, positive: Array) -> float:
    above, below = scores[positive].astype(float), scores[~positive].astype(float)
    if not len(above) or not len(below):
        return math.nan
    return float(((above[:, None] > below) + 0.5 * (above[:, None] == below)).mean())


def overlap(scores: Array, positive: Array, at: float | str, quantity: str) -> float:
    """Dice or IoU at a threshold, at the best one, or at the lowest one within a rate of false
    voxels.
    """
    n, outside = int(positive.sum()), int((~positive).sum())
    if not n:
        return math.nan

    def of(hits: int, alarms: int) -> float:
        return 2 * hits / (hits + alarms + n) if quantity == "Dice" else hits / (alarms + n)

    if at == "best":
        return max(of(hits, alarms) for _, hits, alarms in points(scores, positive))
    if isinstance(at, str):
        if not outside:
            return math.nan
        rate = float(at.removeprefix("fpr:"))
        allowed = [
            (hits, alarms)
            for _, hits, alarms in points(scores, positive)
            if alarms / outside <= rate
        ]
        return of(*allowed[-1]) if allowed else 0.0
    called = scores >= np.asarray(at, scores.dtype)
    return of(int((called & positive).sum()), int((called & ~positive).sum()))


def aupro(cases: Sequence[Case], settings: Settings, limit: float) -> float:
    """The area under the mean overlap of regions; the curve is cut at the limit by
    interpolation.
    """
    regions = [(case.scores, mask) for case in cases for mask in references(case, settings)]
    outside = np.concatenate([case.scores[~case.positive] for case in cases])
    if not regions or not len(outside):
        return math.nan
    values = np.unique(np.concatenate([case.scores.ravel() for case in cases]))[::-1]
    rate, height = [0.0], [0.0]
    for value in values:
        rate.append(float((outside >= value).mean()))
        height.append(float(np.mean([(scores[mask] >= value).mean() for scores, mask in regions])))
    area = 0.0
    for k in range(1, len(rate)):
        a, b = rate[k - 1], min(rate[k], limit)
        if b > a:
            end = height[k - 1] + (height[k] - height[k - 1]) * (b - a) / (rate[k] - a)
            area += (b - a) * (height[k - 1] + end) / 2
    return area / limit


def soft_iou(case: Case, settings: Settings, alpha: float = 0.5, variant: str = "tversky") -> float:
    """The soft overlap of every object with the map on the object and the background, averaged."""
    found = references(case, settings)
    p_all = case.scores.astype(float)
    if not found:
        return EPSILON / (alpha * p_all.sum() + EPSILON)
    values = []
    for mask in found:
        seen = mask | ~case.positive
        p, y = p_all[seen], mask[seen].astype(float)
        if variant == "tversky":
            values.append(
                ((p * y).sum() + EPSILON) / (alpha * p.sum() + (1 - alpha) * y.sum() + EPSILON)
            )
        elif variant == "jaccard":
            hit, extra, gone = (p * y).sum(), (p * (1 - y)).sum(), ((1 - p) * y).sum()
            values.append(
                (hit + EPSILON) / (hit + 2 * alpha * extra + 2 * (1 - alpha) * gone + EPSILON)
            )
        else:
            values.append(alpha * (p * y).sum() / (0.5 * p + (1 - alpha) * y).sum())
    return float(np.mean(values))


def instance_counts(
    found: Sequence[Array], said: Sequence[Array], least_iou: float
) -> tuple[int, int, int]:
    """TP, FP, FN: pairs in descending overlap, taken if both ends are free."""
    pairs = [
        ((r & p).sum() / (r | p).sum(), i, j)
        for i, r in enumerate(found)
        for j, p in enumerate(said)
    ]
    taken: dict[int, int] = {}
    for iou, i, j in sorted(pairs, key=lambda pair: -pair[0]):
        if iou >= least_iou and i not in taken and j not in taken.values():
            taken[i] = j
    return len(taken), len(said) - len(taken), len(found) - len(taken)


def instance_f1(
    cases: Sequence[Case], settings: Settings, threshold: float, least_iou: float
) -> float:
    """The mean over samples; 1 if nothing is there and nothing is called."""
    counts = [
        instance_counts(
            references(case, settings), predictions(case, settings, threshold), least_iou
        )
        for case in cases
    ]
    return float(np.mean([f1_of(*one) for one in counts]))


def threshold_of(cases: Sequence[Case], how: float | str) -> float:
    """The threshold of objects: given, within a rate of false voxels, or best for Dice;
    always above 0.
    """
    if not isinstance(how, str):
        return how
    scores = np.concatenate([case.scores.ravel() for case in cases])
    positive = np.concatenate([case.positive.ravel() for case in cases])
    candidates = [point for point in points(scores, positive) if point[0] > 0]
    if how == "best-dice":
        best, found = 0.0, math.inf
        for value, hits, alarms in candidates:  # the highest of equally good ones
            if hits / (positive.sum() + alarms) > best:
                best, found = hits / (positive.sum() + alarms), value
        return found
    rate = float(how.removeprefix("fpr:"))
    allowed = [value for value, _, alarms in candidates if alarms / (~positive).sum() <= rate]
    return min(allowed, default=math.inf)


def pieces(cases: Sequence[Case], level: str, settings: Settings) -> list[tuple[Array, Array]]:
    """The (scores, positive) of everything that has a value of its own at a level."""
    if level == "dataset":
        groups = [list(cases)]
    elif level == "batch":
        groups = [list(cases[k : k + settings.batch]) for k in range(0, len(cases), settings.batch)]
    else:
        groups = [[case] for case in cases]
    if level == "slice" and cases[0].scores.ndim == 3:
        axis = 2 - "xyz".index(settings.slices)
        return [
            (np.take(case.scores, k, axis), np.take(case.positive, k, axis))
            for case in cases
            for k in range(case.scores.shape[axis])
        ]
    return [
        (
            np.concatenate([c.scores.ravel() for c in group]),
            np.concatenate([c.positive.ravel() for c in group]),
        )
        for group in groups
    ]


def measure(
    cases: Sequence[Case], quantity: str, level: str, settings: Settings, at: float | str = "best"
) -> float:
    """AP, AUROC, Dice or IoU at a level: of all voxels,
    or the mean over pieces that have a value.
    """
    values = []
    for scores, positive in pieces(cases, level, settings):
        if quantity == "AP":
            values.append(average_precision(scores, positive))
        elif quantity == "AUROC":
            values.append(auroc(scores, positive))
        else:
            values.append(overlap(scores, positive, at, quantity))
    defined = [value for value in values if not math.isnan(value)]
    return float(np.mean(defined)) if defined else math.nan
