# SPDX-License-Identifier: Apache-2.0
"""The definitions of the paper on counts and on constructed images.

They show where the printed formulas have no value, and what the mean over classes hides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from calipers.monitors.scope import mean_f1, scope_scores
from calipers.tables import Cohort

F64 = NDArray[np.float64]

MOST = 6  # predictions, references: all counts up to here are tried
NUMBERS_OF_CLASSES = (1, 2, 3, 4, 8, 14, 20, 80)
MOST_PREDICTIONS = 8  # on an image with one runway
MEANS = ("declared", "present", "micro")
BOX = (10.0, 10.0, 50.0, 40.0)


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """One class on one image, and its scores; NaN where a formula divides by 0."""

    predictions: int
    references: int
    hits: int
    precision: float
    recall: float
    printed_score: float  # the score by the four printed cases
    defined_score: float  # 2 TP / (Nd + Nx), 1 if both are 0


@dataclass(frozen=True)
class Definitions:
    """Consequences of the definitions alone."""

    counts: tuple[ClassCounts, ...]  # all that can be, up to MOST of each
    one_runway: tuple[tuple[int, bool, float], ...]  # predictions, hit, measured s
    # kind of mean -> score of an image whose only object is missed, by number of classes
    missed_scores: dict[str, F64]
    confused_scores: dict[str, F64]  # the same with a wrong class instead; NaN for one class


def definitions() -> Definitions:
    """Compute all consequences of the definitions."""
    missed_scores, confused_scores = {}, {}
    for mean in MEANS:
        missed_scores[mean] = np.array([_score_if_missed(c, mean) for c in NUMBERS_OF_CLASSES])
        confused_scores[mean] = np.array([_score_if_confused(c, mean) for c in NUMBERS_OF_CLASSES])
    return Definitions(all_counts(), one_runway(), missed_scores, confused_scores)


def all_counts(most: int = MOST) -> tuple[ClassCounts, ...]:
    """Return every number of predictions, references and hits up to ``most``, with all scores."""
    counts = []
    for n_predictions, n_references in product(range(most + 1), repeat=2):
        for hits in range(min(n_predictions, n_references) + 1):
            p = hits / n_predictions if n_predictions else math.nan
            r = hits / n_references if n_references else math.nan
            printed_score = _printed_score(n_predictions, n_references, p, r)
            # One image with one class, as `mean_f1` takes them.
            one = np.array([[[hits]], [[n_predictions]], [[n_references]]], np.float64)
            score = float(mean_f1(one[0], one[1], one[2], "declared")[0])
            counts.append(
                ClassCounts(n_predictions, n_references, hits, p, r, printed_score, score)
            )
    return tuple(counts)


def _printed_score(n_predictions: int, n_references: int, p: float, r: float) -> float:
    """Return the score by the printed cases, taken literally: 2 P R / (P + R) is 0 / 0 without
    hits.
    """
    if n_predictions == 0 and n_references == 0:
        return 1.0
    if n_predictions == 0 or n_references == 0:
        return 0.0
    return 2.0 * p * r / (p + r) if p + r > 0 else math.nan


def one_runway() -> tuple[tuple[int, bool, float], ...]:
    """Return the scores of images with one runway and up to eight predictions, of which one or none
    hits the runway.
    """
    cases: list[tuple[int, bool]] = [(0, False)]
    for n in range(1, MOST_PREDICTIONS + 1):
        cases += [(n, False), (n, True)]
    records, predictions = [], []
    for k, (n, hit) in enumerate(cases):
        boxes = [list(BOX)] if hit else []
        for j in range(n - hit):
            boxes.append([60.0 + 12.0 * j, 60.0, 70.0 + 12.0 * j, 70.0])
        image = {"image_id": str(k), "width": 200, "height": 100}
        records.append({**image, "boxes": [list(BOX)], "labels": [0]})
        labels, scores = np.zeros(n, np.int64), np.linspace(0.9, 0.5, n)
        corners = np.array(boxes).reshape(-1, 4)
        predictions.append(
            {"image_id": str(k), "boxes": corners, "labels": labels, "scores": scores}
        )
    scope = scope_scores(Cohort.from_arrays(records, {"made": predictions}, classes=("runway",)))
    return tuple((n, hit, float(s)) for (n, hit), s in zip(cases, scope.score))


def _score_if_missed(n_classes: int, mean: str) -> float:
    hits = n_predictions = np.zeros((1, n_classes))
    n_references = np.zeros((1, n_classes))
    n_references[0, 0] = 1.0
    return float(mean_f1(hits, n_predictions, n_references, mean)[0])


def _score_if_confused(n_classes: int, mean: str) -> float:
    if n_classes == 1:
        return math.nan
    hits, n_predictions, n_references = np.zeros((3, 1, n_classes))
    n_references[0, 0] = n_predictions[0, 1] = 1.0
    return float(mean_f1(hits, n_predictions, n_references, mean)[0])
