"""RoDeO from SPEC section 4, one image after the other, with scipy's Hungarian method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from reference import boxes
from reference.plain import Thing


@dataclass(frozen=True)
class Scores:
    """The four numbers."""

    total: float
    localization: float
    shape: float
    classification: float


def matthews(tp: float, fp: float, fn: float, tn: float) -> float:
    """Return the binary MCC; 0 where it is undefined."""
    below = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(below) if below > 0 else 0.0


def class_weight(
    references: Sequence[Thing], predictions: Sequence[Thing], n_images: int, n_classes: int
) -> float:
    """Return max(0, MCC) of which class is in which image."""
    real = {(r.image, r.label) for r in references}
    said = {(p.image, p.label) for p in predictions}
    tp, fp, fn = len(real & said), len(said - real), len(real - said)
    return max(0.0, matthews(tp, fp, fn, n_images * n_classes - tp - fp - fn))


def pairs_of(refs: Sequence[Thing], preds: Sequence[Thing], w: float) -> list[tuple[Thing, Thing]]:
    """Return the cheapest one-to-one pairs of one image."""
    cost = np.array(
        [[-(r.label == p.label) * w - boxes.giou(r.box, p.box) for p in preds] for r in refs]
    )
    if not cost.size:
        return []
    rows, columns = linear_sum_assignment(cost)
    return [(refs[i], preds[j]) for i, j in zip(rows, columns)]


def match(
    references: Sequence[Thing], predictions: Sequence[Thing], weights: Sequence[float]
) -> list:
    """Return the pairs of all images, each at its class weight."""
    found = []
    for image, w in enumerate(weights):
        refs = [r for r in references if r.image == image]
        found += pairs_of(refs, [p for p in predictions if p.image == image], w)
    return found


def rodeo(
    references: Sequence[Thing],
    predictions: Sequence[Thing],
    n_images: int,
    n_classes: int,
    *,
    weight: str | float = "data-set",
    scale: float = 1.0,
    penalties: tuple[float, float, float] = (1.0, 1.0, 1.0),
    epsilon: float = 0.0,
) -> tuple[Scores, list[Scores]]:
    """Return the pooled scores and those of every class."""
    references = [r for r in references if not r.ignore]
    if weight == "data-set":
        weights = [class_weight(references, predictions, n_images, n_classes)] * n_images
    elif weight == "image":
        weights = [
            class_weight(
                [r for r in references if r.image == i],
                [p for p in predictions if p.image == i],
                1,
                n_classes,
            )
            for i in range(n_images)
        ]
    else:
        weights = [float(weight)] * n_images
    pairs = match(references, predictions, weights)

    def scores(label: int | None) -> Scores:
        kept = [(r, p) for r, p in pairs if label in (None, r.label)]
        paired_references, paired_predictions = {r.row for r, _ in pairs}, {p.row for _, p in pairs}
        missed = sum(
            label in (None, r.label) and r.row not in paired_references for r in references
        )
        extra = sum(
            label in (None, p.label) and p.row not in paired_predictions for p in predictions
        )
        return _scores(kept, missed, extra, n_classes, scale, penalties, epsilon)

    return scores(None), [scores(label) for label in range(n_classes)]


def _scores(
    pairs: list,
    missed: int,
    extra: int,
    n_classes: int,
    scale: float,
    penalties: tuple[float, ...],
    epsilon: float,
) -> Scores:
    if not pairs and not missed and not extra:
        return Scores(math.nan, math.nan, math.nan, math.nan)
    if not pairs:
        return Scores(0.0, 0.0, 0.0, 0.0 if n_classes > 1 else math.nan)
    m, t, e = penalties
    share = m * len(pairs) / (m * len(pairs) + t * missed + e * extra)
    near = [2 ** -((boxes.relative_distance(r.box, p.box) / scale) ** 2) for r, p in pairs]
    alike = [boxes.centred_iou(r.box, p.box) for r, p in pairs]
    localization, shape = share * sum(near) / len(pairs), share * sum(alike) / len(pairs)
    parts, classification = [localization, shape], math.nan
    if n_classes > 1:
        correct = sum(r.label == p.label for r, p in pairs)
        wrong = (
            len(pairs) - correct
        )  # one-hot vectors, flattened: every wrong pair is one false, one missing one
        agreement = matthews(correct, wrong, wrong, len(pairs) * (n_classes - 2) + correct)
        classification = share * max(0.0, agreement)
        parts.append(classification)
    parts = [part + epsilon for part in parts]
    total = 0.0 if min(parts) == 0 else len(parts) / sum(1 / part for part in parts)
    return Scores(total, localization, shape, classification)
